// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// CaseError is one case of a conformance suite that an implementation does not
// pass.
type CaseError struct {
	Suite string // name of the function, such as "CheckConsumer"
	Case  string // what the implementation has to do
	Cause error
}

func (e *CaseError) Error() string {
	return fmt.Sprintf("krabkatest: %s: %s: %v", e.Suite, e.Case, e.Cause)
}

// Unwrap returns what the implementation did instead.
func (e *CaseError) Unwrap() error { return e.Cause }

// Clients is what the suites of clients need: the clients under test and the cluster
// behind them. Fields that a suite does not mention may be nil.
type Clients struct {
	// CaseTime bounds each case, so that an event that does not come fails one case
	// and not those behind it. The default is three minutes.
	CaseTime time.Duration

	// NewTopic creates a topic that nobody has used and returns its name.
	NewTopic func(ctx context.Context, partitions int) (string, error)
	// NewGroup returns the name of a group that nobody has used.
	NewGroup func() string
	// Produce appends records to a partition, outside transactions and in order.
	Produce func(ctx context.Context, topic string, partition int, records ...columnar.ProduceRecord) error
	// Read returns what a read-committed consumer sees of a partition, in offset
	// order.
	Read func(ctx context.Context, topic string, partition int) ([]columnar.ConsumedRecord, error)
	// DeleteRecords deletes the records of a partition below an offset.
	DeleteRecords func(ctx context.Context, topic string, partition int, before int64) error

	// NewMember returns a member of a group that has not subscribed, and what closes
	// it: that leaves the group, and may be called twice.
	NewMember func(group string) (columnar.Consumer, func() error, error)
	// NewReader returns a consumer by assignment, and what closes it.
	NewReader func() (columnar.Consumer, func() error, error)
	// NewProducer returns a producer, and what closes it.
	NewProducer func() (columnar.Producer, func() error, error)
	// NewTransactional returns a member of a group that has not subscribed and
	// produces in transactions under an id, and what closes it. The member and the
	// producer may be one value.
	NewTransactional func(group, id string) (columnar.Consumer, columnar.TransactionalProducer, func() error, error)
}

// conformanceCase is one case of a suite.
type conformanceCase struct {
	name string
	run  func(s *checks) error
}

// checks is one run of a case: what it has opened, and what it has found.
type checks struct {
	ctx     context.Context
	clients Clients
	closers []func() error
	found   []error
}

// errorf notes something that is wrong. The case goes on.
func (s *checks) errorf(format string, args ...any) {
	s.found = append(s.found, fmt.Errorf(format, args...))
}

// runCases runs the cases one after the other and joins the failures.
func runCases(ctx context.Context, suite string, clients Clients, cases []conformanceCase) error {
	var failed []error
	limit := cmp.Or(clients.CaseTime, 3*time.Minute)
	for _, c := range cases {
		caseCtx, cancel := context.WithTimeout(ctx, limit)
		s := &checks{ctx: caseCtx, clients: clients}
		errs := []error{s.guard(c.run)}
		for i := len(s.closers) - 1; i >= 0; i-- {
			if err := s.closers[i](); err != nil {
				errs = append(errs, fmt.Errorf("close: %w", err))
			}
		}
		cancel()
		if err := errors.Join(append(errs, s.found...)...); err != nil {
			failed = append(failed, &CaseError{suite, c.name, err})
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// guard makes an error of a panic.
func (s *checks) guard(run func(*checks) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run(s)
}
