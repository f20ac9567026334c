// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Member is a member of a consumer group that also produces: consumer and
// producer of a runner that processes each record at least once. One client
// does both.
//
// It reads committed records only. A group without a commit starts at the log
// start; an offset that the log does not hold is a
// [columnar.OffsetOutOfRangeError], never a reset. Partitions of the same
// number of all topics go to one member.
//
// Poll, Seek, CommitOffsets and GroupMetadata belong to one goroutine at a
// time; the other methods of a Member may be called concurrently. The zero
// value is not usable.
type Member struct {
	*groupConsumer
}

var (
	_ columnar.Consumer          = (*Member)(nil)
	_ columnar.ContextSubscriber = (*Member)(nil)
	_ columnar.GroupMember       = (*Member)(nil)
	_ columnar.PositionReader    = (*Member)(nil)
	_ columnar.CommittedReader   = (*Member)(nil)
	_ columnar.OffsetRangeReader = (*Member)(nil)
	_ columnar.LogEndReader      = (*Member)(nil)
	_ columnar.PartitionCounter  = (*Member)(nil)
	_ columnar.Pauser            = (*Member)(nil)
	_ columnar.RebalanceNotifier = (*Member)(nil)
	_ columnar.PollBounder       = (*Member)(nil)
	_ columnar.PollWaker         = (*Member)(nil)
	_ columnar.StableEndReader   = (*Member)(nil)
	_ columnar.Producer          = (*Member)(nil)
)

// NewMember returns a member of group with its own client. It does not talk to
// a broker before Subscribe. The caller closes it.
//
// Options that the adapter owns (group, isolation level, offsets to start and
// reset at, commits, balancer, topics) may not be changed: an [OptionError]
// names each. The rebalance callbacks and [kgo.AdjustFetchOffsetsFn] of opts
// are not called. [kgo.InstanceID] makes a static member: one that keeps its
// partitions while it restarts, and does not give them up when it closes.
func NewMember(group string, opts ...kgo.Opt) (*Member, error) {
	g, err := joinGroup(group, opts, []owned{{name: "TransactionalID", want: ""}}, kgo.NewClient)
	if err != nil {
		return nil, err
	}
	return &Member{groupConsumer: g}, nil
}

// Send sends one record to topic and calls done exactly once with the outcome,
// as [Producer.Send] does.
func (m *Member) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	m.send(topic, record, done)
}

// Close sends what is buffered, leaves the group and ends the client. It is
// safe to call more than once, also while Poll waits on another goroutine; that
// Poll returns an error that matches [ErrClosed]. Close does not call the
// listener and does not commit: close the runner first. It returns within twice
// the time of [WithCallTimeout], also while the group rebalances.
//
// A static member stays in the group: its partitions wait for it until the
// session timeout has passed.
func (m *Member) Close() error {
	ctx, cancel := m.bounded()
	defer cancel()
	err := m.client.Flush(ctx)
	if errors.Is(err, kgo.ErrClientClosed) {
		err = nil
	}
	return errors.Join(err, m.groupConsumer.Close())
}
