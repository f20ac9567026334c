// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Leadership is a role that this process holds. A leadership of package
// coordination is one.
//
// A [CutPublisher] asks one that is a [RenewableLeadership] whether it still
// leads before it publishes its first cut.
type Leadership interface {
	// Done returns a channel that closes when the leadership ends.
	Done() <-chan struct{}
	// Err returns the reason why the leadership ended, and nil while it holds.
	Err() error
	// Resign gives the leadership up.
	Resign(ctx context.Context) error
}

// RenewableLeadership is a [Leadership] that can prove itself. A leadership of
// package coordination is one.
type RenewableLeadership interface {
	Leadership
	// Renew returns nil only if the process led at some moment during the
	// call. When it finds that the leadership is over, Done is closed before
	// it returns.
	Renew(ctx context.Context) error
}

// electionError is a leadership that a publisher did not get.
type electionError struct {
	group string
	err   error
}

func (e *electionError) Error() string {
	return fmt.Sprintf("kafka: lead the cuts of %q: %s", e.group, textPrefix.Quote(e.err))
}

func (e *electionError) Unwrap() error { return e.err }

// WithLeadership makes a [CutPublisher] publish only while it leads. acquire
// waits for the leadership until ctx ends; it is called again after a
// leadership ended, and after an error that [columnar.IsRetriable] says passes.
// With package coordination:
//
//	kafka.WithLeadership(func(ctx context.Context) (kafka.Leadership, error) {
//		return coordination.AcquireLeadership(ctx, transport, role, member)
//	})
//
// A process that was suspended may learn late that another one leads. A
// [RenewableLeadership] keeps it from publishing then: the publisher renews the
// leadership once it has fenced the publisher before, so a successor, which
// comes later, fences it before it publishes anything.
//
// Without WithLeadership the caller takes care that one process publishes for a
// group.
func WithLeadership(acquire func(ctx context.Context) (Leadership, error)) kgo.Opt {
	return newOption("WithLeadership", forPublisher, func(s *settings) error {
		if acquire == nil {
			return &OptionError{Option: "WithLeadership", Have: "nil", Want: "a function"}
		}
		s.acquire = acquire
		return nil
	})
}
