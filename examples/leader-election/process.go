// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// process is a member in a process of its own.
type process struct {
	*exec.Cmd
	told io.Reader
}

// startProcess runs this program again as a member.
func startProcess(member, brokers, run string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{Cmd: exec.Command(program, "-member", member, "-brokers", brokers, "-run", run)}
	p.Stderr = os.Stderr
	// The pipe closes when this program ends, however it does.
	if _, err := p.StdinPipe(); err != nil {
		return nil, err
	}
	if p.told, err = p.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.Start()
}

// follow hands on what the member tells, and at last how it ended.
func (p *process) follow(member string, events chan<- event) {
	told := json.NewDecoder(p.told)
	for {
		var e event
		if err := told.Decode(&e); err != nil {
			break
		}
		e.Member = member
		events <- e
	}
	_ = p.Wait() // ProcessState says how it ended
	events <- event{At: time.Now(), Member: member, Kind: eventExited, Token: coordination.NoEpoch, Text: p.ProcessState.String()}
}

// untilClosed returns a context that ends when r does.
func untilClosed(parent context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error ends it too
		cancel()
	}()
	return ctx, cancel
}
