// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Leadership is a role that this process holds. A leadership of package
// coordination is one.
type Leadership interface {
	// Done returns a channel that closes when the leadership ends.
	Done() <-chan struct{}
	// Err returns the reason why the leadership ended, and nil while it holds.
	Err() error
	// Resign gives the leadership up.
	Resign(ctx context.Context) error
}

// WithLeadership makes a [CutPublisher] publish only while it leads. acquire
// waits for the leadership until ctx ends; it is called again after a
// leadership ended. With package coordination:
//
//	kafka.WithLeadership(func(ctx context.Context) (kafka.Leadership, error) {
//		return coordination.AcquireLeadership(ctx, transport, role, member)
//	})
//
// Without it the caller takes care that one process publishes for a group.
func WithLeadership(acquire func(ctx context.Context) (Leadership, error)) kgo.Opt {
	return newOption("WithLeadership", forPublisher, func(s *settings) error {
		if acquire == nil {
			return &OptionError{Option: "WithLeadership", Have: "nil", Want: "a function"}
		}
		s.acquire = acquire
		return nil
	})
}
