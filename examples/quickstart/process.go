// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// process is the service in a process of its own.
type process struct {
	*exec.Cmd
	exited chan error
}

// start runs this program again as the service of a run.
func start(brokers, run, state string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		Cmd:    exec.Command(program, "-service", run, "-brokers", brokers, "-state", state),
		exited: make(chan error, 1),
	}
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() { p.exited <- p.Wait() }()
	fmt.Printf("service runs as process %d\n", p.Process.Pid)
	return p, nil
}

// end sends a signal and returns how the process ended.
func (p *process) end(signal syscall.Signal) error {
	if err := p.Process.Signal(signal); err != nil {
		return err
	}
	return <-p.exited
}

// await returns when reached says so of the bids that the service has committed
// and those that there are. It ends the service when it returns an error.
func (p *process) await(ctx context.Context, admin *kadm.Client, n names, reached func(done, total int64) bool) error {
	look, tell := time.NewTicker(50*time.Millisecond), time.NewTicker(time.Second)
	defer look.Stop()
	defer tell.Stop()
	for {
		done, total, err := backlog(ctx, admin, n)
		if err != nil {
			return errors.Join(err, p.end(syscall.SIGKILL))
		}
		if reached(done, total) {
			return nil
		}
		select {
		case <-look.C:
		case <-tell.C:
			fmt.Printf("  broker:  %6d bids committed, lag %d\n", done, total-done)
		case err := <-p.exited:
			return fmt.Errorf("the service ended: %w", err)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), p.end(syscall.SIGKILL))
		}
	}
}
