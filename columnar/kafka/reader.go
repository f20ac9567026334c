// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Reader reads partitions that the caller assigns, outside any group: for a
// [columnar.CutReader], for [columnar.RunPartitionOnce], or to read a topic to
// its end.
//
// It reads committed records only. A partition that was not sought starts at
// the log start. An offset that the log does not hold is a
// [columnar.OffsetOutOfRangeError], never a reset.
//
// Assign, Poll and Seek belong to one goroutine at a time; the other methods of
// a Reader may be called concurrently. The zero value is not usable.
type Reader struct {
	*consumer
	closeOnce sync.Once
}

var (
	_ columnar.Consumer          = (*Reader)(nil)
	_ columnar.PositionReader    = (*Reader)(nil)
	_ columnar.CommittedReader   = (*Reader)(nil)
	_ columnar.OffsetRangeReader = (*Reader)(nil)
	_ columnar.LogEndReader      = (*Reader)(nil)
	_ columnar.PartitionCounter  = (*Reader)(nil)
	_ columnar.Pauser            = (*Reader)(nil)
	_ columnar.PollBounder       = (*Reader)(nil)
	_ columnar.PollWaker         = (*Reader)(nil)
	_ columnar.StableEndReader   = (*Reader)(nil)
)

// NewReader returns a reader with its own client. It does not talk to a broker
// before the first Poll. The caller closes it.
//
// Options that the adapter owns (isolation level, offsets to start and reset
// at, topics and partitions, group) may not be changed: an [OptionError] names
// each.
func NewReader(opts ...kgo.Opt) (*Reader, error) {
	owns := append(consuming(), owned{name: "ConsumerGroup", want: ""}, owned{name: "TransactionalID", want: ""})
	c, err := connect(forReader, opts, owns, nil, kgo.NewClient)
	if err != nil {
		return nil, err
	}
	c.group = c.settings.commitGroup
	return &Reader{consumer: newConsumer(c)}, nil
}

// Assign makes partitions the whole assignment. A partition that stays assigned
// keeps its position and what was fetched ahead; a new one is read from the log
// start until Seek says otherwise.
func (r *Reader) Assign(partitions []columnar.TopicPartition) error {
	for _, tp := range partitions {
		if tp.Topic == "" || tp.Partition < 0 {
			return fmt.Errorf("kafka: assign: %q/%d is not a partition", tp.Topic, tp.Partition)
		}
	}
	var gone, fresh []columnar.TopicPartition
	r.mu.Lock()
	for tp := range r.partitions {
		if !slices.Contains(partitions, tp) {
			gone = append(gone, tp)
		}
	}
	for _, tp := range partitions {
		if r.partitions[tp] == nil {
			r.track(tp)
			fresh = append(fresh, tp)
		}
	}
	r.mu.Unlock()
	r.forget(gone)
	r.client.RemoveConsumePartitions(byTopic(gone))
	for topic := range byTopic(gone) {
		if !slices.ContainsFunc(partitions, func(tp columnar.TopicPartition) bool { return tp.Topic == topic }) {
			r.client.PurgeTopicsFromClient(topic)
		}
	}
	add := map[string]map[int32]kgo.Offset{}
	for _, tp := range fresh {
		addOffset(add, tp, kgo.NewOffset().AtStart())
	}
	r.client.AddConsumePartitions(add)
	return nil
}

// Seek makes offset the next to be delivered for an assigned partition and
// drops whatever was fetched ahead. It does nothing when offset is the next
// already. It returns an error for a partition that is not assigned.
func (r *Reader) Seek(tp columnar.TopicPartition, offset int64) error {
	move, err := r.setPosition(tp, offset)
	if !move {
		return err
	}
	r.mu.Lock()
	r.partitions[tp].start = offset
	r.mu.Unlock()
	// A set offset is ignored until the client has loaded the partition;
	// removing and adding it again is not.
	r.client.RemoveConsumePartitions(byTopic([]columnar.TopicPartition{tp}))
	add := map[string]map[int32]kgo.Offset{}
	addOffset(add, tp, kgo.NewOffset().At(offset))
	r.client.AddConsumePartitions(add)
	return nil
}

// CommitOffsets commits next-record offsets for the group of [WithCommitGroup],
// and does nothing without one: the caller keeps the offsets then. Refusals are
// a [columnar.RebalancedError] where the group has members, [AccessError], or
// joined [columnar.TopicError] values.
func (r *Reader) CommitOffsets(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	if r.group == "" || len(offsets) == 0 {
		return nil
	}
	return r.commitOutside(ctx, offsets)
}

// Committed returns the committed next-record offsets of the group of
// [WithCommitGroup], and nothing without one. It waits, within ctx, for offsets
// of a transaction that is being completed.
func (r *Reader) Committed(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	if r.group == "" {
		return map[columnar.TopicPartition]int64{}, nil
	}
	return r.committed(ctx, partitions)
}

// Subscribe returns an error: a reader belongs to no group.
func (r *Reader) Subscribe([]string, columnar.RebalanceListener) error {
	return fmt.Errorf("kafka: subscribe: a reader belongs to no group; use a Member")
}

// GroupMetadata returns nil: a reader belongs to no group.
func (r *Reader) GroupMetadata() any { return nil }

// Close ends the client. A Poll that waits on another goroutine returns an
// error that matches [ErrClosed]. A second Close does nothing.
func (r *Reader) Close() error {
	r.closeOnce.Do(func() {
		close(r.closing)
		r.cancel()
		r.client.Close()
	})
	return nil
}

func addOffset(m map[string]map[int32]kgo.Offset, tp columnar.TopicPartition, offset kgo.Offset) {
	if m[tp.Topic] == nil {
		m[tp.Topic] = map[int32]kgo.Offset{}
	}
	m[tp.Topic][int32(tp.Partition)] = offset
}
