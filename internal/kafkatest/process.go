// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a running program that does not outlive the one that started it.
type process struct {
	name    string
	cmd     *exec.Cmd
	logPath string
	exited  chan struct{} // closed once the program has ended
}

// startProcess runs a program in the folder dir and appends what it prints to
// the file logPath.
func startProcess(name, dir, logPath string, command ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("kafkatest: %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, logPath: logPath, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	return p, nil
}

// waitReady calls check until it succeeds. It gives up when the program ends
// or ctx does.
func (p *process) waitReady(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("kafkatest: %s ended at start: %v\n%s", p.name, p.cmd.ProcessState, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("kafkatest: %s did not answer: %w: %w\n%s", p.name, ctx.Err(), err, p.logTail())
		case <-tick.C:
		}
	}
}

// kill ends the program at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.exited
}

// stop asks the program to end, and kills it if it takes longer than patience.
func (p *process) stop(patience time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.kill()
	}
}

// running reports whether the program has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// logTail returns the last lines of what the program has printed.
func (p *process) logTail() string {
	const lines = 40
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := bytes.SplitAfter(text, []byte("\n"))
	return fmt.Sprintf("the end of %s:\n%s", p.logPath, bytes.Join(all[max(0, len(all)-lines):], nil))
}
