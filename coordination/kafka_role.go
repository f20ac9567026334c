// SPDX-License-Identifier: Apache-2.0

package coordination

import "context"

// RunRole does the work of a role while this member leads it, until ctx ends:
//
//	err := coordination.RunRole(ctx, coordination.KafkaOptions{Brokers: brokers}, "billing.controller", hostname, work)
//
// RunRole builds a [KafkaTransport] from the options of kafka and from the lease
// that the other options choose, calls [Run] with it, and closes it. The work
// gets a context that ends with the leadership, and the leadership itself for
// guarded writes and credentials; [Callbacks.OnAcquired] tells what its result
// means. Problems of the arguments are reported before the first request.
//
// A program that runs several roles shares one transport between calls of [Run]
// instead.
func RunRole(ctx context.Context, kafka KafkaOptions, role, member string, work func(ctx context.Context, l *Leadership) error, options ...Option) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if work == nil {
		return errNoCallback
	}
	of, err := NewRole(role)
	if err != nil {
		return err
	}
	by, err := NewMemberID(member)
	if err != nil {
		return err
	}
	s, err := resolve(options, nil)
	if err != nil {
		return err
	}
	transport, err := NewKafkaTransportWithOptions(s.lease, kafka)
	if err != nil {
		return err
	}
	defer transport.Close()
	return Run(ctx, transport, of, by, Callbacks{OnAcquired: work}, options...)
}
