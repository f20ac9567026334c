// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrCrashed is what every call of a crashed [Process] returns.
var ErrCrashed = errors.New("krabkatest: the process has crashed")

// ErrClosed is what calls of a client return that is closed.
var ErrClosed = errors.New("krabkatest: the client is closed")

// Call is a call of a double: of a client of a [Broker] or of a [StateStore].
type Call struct {
	// Client names the client: its group with a number, its transactional id, or
	// "reader" or "store" with a number.
	Client string
	// Method is the name of the method, such as "Poll" or "CommitTransaction".
	Method string
	// Answer is false before the call takes effect and true after it, before the
	// caller hears of it.
	Answer bool
}

// FaultError is a failure that a test has ordered. It is retriable.
type FaultError struct{ Call Call }

func (e *FaultError) Error() string {
	if e.Call.Answer {
		return fmt.Sprintf("krabkatest: ordered failure of the answer to %s of %s", e.Call.Method, e.Call.Client)
	}
	return fmt.Sprintf("krabkatest: ordered failure of %s of %s", e.Call.Method, e.Call.Client)
}

// Retriable returns true.
func (e *FaultError) Retriable() bool { return true }

// faults are the failures that a test has ordered of a double.
type faults struct {
	mu        sync.Mutex // guards what follows
	intercept func(Call) error
	queued    []queuedFault
}

type queuedFault struct {
	method string
	answer bool
	fault  error
}

func (f *faults) set(intercept func(Call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = intercept
}

func (f *faults) queue(method string, answer bool, fault error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued = append(f.queued, queuedFault{method, answer, fault})
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept, f.queued = nil, nil
}

// of returns the failure of a call; nil for none.
func (f *faults) of(call Call) error {
	f.mu.Lock()
	intercept := f.intercept
	at := slices.IndexFunc(f.queued, func(q queuedFault) bool { return q.method == call.Method && q.answer == call.Answer })
	var fault error
	if at >= 0 {
		fault = f.queued[at].fault
		f.queued = slices.Delete(f.queued, at, at+1)
	}
	f.mu.Unlock()
	if fault != nil {
		return fault
	}
	if intercept != nil {
		return intercept(call)
	}
	return nil
}

// Process is one process of a service under test: what its clients and stores do ends
// with [Process.Crash], at a point of the test's choice. The group throws its members
// out, and its open transactions stay open until their owner is replaced or their
// time-out has passed.
//
// A Process is safe for concurrent use by multiple goroutines.
type Process struct {
	mu      sync.Mutex // guards what follows
	crashed chan struct{}
	dead    bool
	steps   int // until the crash; 0 for none
	onCrash []func()
}

// NewProcess returns a process that runs.
func NewProcess() *Process { return &Process{crashed: make(chan struct{})} }

// Crash ends the process at once.
func (p *Process) Crash() {
	p.mu.Lock()
	calls := p.die()
	p.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// CrashAfter ends the process at the step of this number from now, from 1 on. A call
// of a client or store is two steps, one before it takes effect and one after it.
func (p *Process) CrashAfter(steps int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = steps
}

// Crashed returns a channel that is closed when the process has crashed.
func (p *Process) Crashed() <-chan struct{} { return p.crashed }

// die returns what has to be called without the mutex, which the caller holds.
func (p *Process) die() []func() {
	if p.dead {
		return nil
	}
	p.dead = true
	close(p.crashed)
	calls := p.onCrash
	p.onCrash = nil
	return calls
}

// step counts a step, and returns [ErrCrashed] from the crash on.
func (p *Process) step() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	var calls []func()
	if p.steps > 0 {
		if p.steps--; p.steps == 0 {
			calls = p.die()
		}
	}
	dead := p.dead
	p.mu.Unlock()
	for _, call := range calls {
		call()
	}
	if dead {
		return ErrCrashed
	}
	return nil
}

// gone reports whether the process has crashed.
func (p *Process) gone() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// atCrash calls f when the process crashes.
func (p *Process) atCrash(f func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	dead := p.dead
	if !dead {
		p.onCrash = append(p.onCrash, f)
	}
	p.mu.Unlock()
	if dead {
		f()
	}
}
