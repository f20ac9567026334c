// SPDX-License-Identifier: Apache-2.0

package krabkatest

import "fmt"

// client is what all clients of a broker are.
type client struct {
	broker  *Broker
	name    string
	process *Process
	closed  bool // guarded by the mutex of the broker
	fenced  bool // by a client of the same identity; guarded by the mutex of the broker
}

// ask asks the process and the ordered faults about a call.
func (c *client) ask(method string, answer bool) error {
	if err := c.process.step(); err != nil {
		return err
	}
	return c.broker.faults.of(Call{Client: c.name, Method: method, Answer: answer})
}

// call runs a call that changes something: effect runs with the mutex of the
// broker.
func (c *client) call(method string, effect func() error) error {
	err := c.read(method, effect)
	if err != nil {
		return err
	}
	return c.ask(method, true)
}

// read runs a call that changes nothing at the broker.
func (c *client) read(method string, effect func() error) error {
	if err := c.ask(method, false); err != nil {
		return err
	}
	c.broker.lock()
	defer c.broker.unlock()
	if c.closed {
		return fmt.Errorf("%s of %s: %w", method, c.name, ErrClosed)
	}
	return effect()
}

// Intercept makes the broker ask intercept before each call of a client takes effect
// and after it, and fail the call with the error that intercept returns. Polls and
// calls that change nothing at the broker are asked about before alone. The function may use the
// broker, and runs on the goroutine of the call. nil ends it.
//
// An error for CommitTransaction comes out as a [*columnar.CommitUnknownError]
// unless it is one that says what became of the transaction.
func (b *Broker) Intercept(intercept func(Call) error) { b.faults.set(intercept) }

// FailNext makes the next call of a method, by any client, fail with fault before it
// takes effect. Several faults of a method queue up.
func (b *Broker) FailNext(method string, fault error) { b.faults.queue(method, false, fault) }

// LoseNextAnswer makes the next call of a method, by any client, take effect and fail
// with fault.
func (b *Broker) LoseNextAnswer(method string, fault error) { b.faults.queue(method, true, fault) }

// ClearFaults ends all ordered failures.
func (b *Broker) ClearFaults() { b.faults.clear() }
