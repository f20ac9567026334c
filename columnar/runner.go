// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"time"
)

// RunPartitionOnce processes one fetch of one partition without a group: it
// assigns the partition, seeks to offset, polls once, runs topology, sends what
// it produces, and commits. It returns the offset to continue at: behind the last
// record, or where a [PositionReader] says that the consumer stands. When nothing
// arrives and the position is offset still, nothing is committed.
//
// After an error, which includes that of ctx, it returns offset, and the state is
// what it was.
func RunPartitionOnce(ctx context.Context, topology *BuiltTopology, consumer Consumer, producer Producer,
	topic string, partition int, offset int64, pollTimeout time.Duration) (int64, error) {
	tp := TopicPartition{topic, partition}
	next, err := runPartitionOnce(ctx, topology, consumer, producer, tp, offset, pollTimeout)
	if err != nil {
		return offset, err
	}
	return next, nil
}

func runPartitionOnce(ctx context.Context, topology *BuiltTopology, consumer Consumer, producer Producer,
	tp TopicPartition, offset int64, pollTimeout time.Duration) (next int64, err error) {
	if err := consumer.Assign([]TopicPartition{tp}); err != nil {
		return 0, textPrefix.Wrap(err, "assigning %s/%d", tp.Topic, tp.Partition)
	}
	if err := consumer.Seek(tp, offset); err != nil {
		return 0, textPrefix.Wrap(err, "seeking %s/%d to %d", tp.Topic, tp.Partition, offset)
	}
	fetched, err := consumer.Poll(ctx, pollTimeout)
	if err != nil {
		return 0, textPrefix.Wrap(err, "polling")
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	records := fetched[tp]
	if err := checkFetched(tp, records); err != nil {
		return 0, err
	}
	next = offset
	if len(records) > 0 {
		next = max(next, records[len(records)-1].Offset+1)
	}
	if reader, ok := consumer.(PositionReader); ok {
		positions, err := reader.Positions(ctx, []TopicPartition{tp})
		if err != nil {
			return 0, textPrefix.Wrap(err, "positions")
		}
		next = max(next, positions[tp])
	}
	if next == offset && len(records) == 0 {
		return offset, nil
	}
	committed := false
	defer func() {
		if !committed {
			err = errors.Join(err, topology.rollbackPartition(tp.Partition))
		}
	}()
	if len(records) > 0 {
		outputs, err := topology.runPartition(tp.Partition, map[string][]ConsumedRecord{tp.Topic: records})
		if err != nil {
			return 0, err
		}
		if err := sendAll(ctx, outputs, producer, defaultMaxInFlight); err != nil {
			return 0, textPrefix.Wrap(err, "sending outputs")
		}
	}
	if err := consumer.CommitOffsets(ctx, map[TopicPartition]int64{tp: next}); err != nil {
		return 0, textPrefix.Wrap(err, "committing offsets")
	}
	committed = true
	topology.commitPartition(tp.Partition)
	return next, nil
}

// RunGroupOnce runs one at-least-once round of a subscribed consumer: poll,
// process, send, commit. It keeps no state beside topology's, and fails on the
// first bad record. It returns the offsets that it committed. After an error the
// round has not happened. Use a [GroupRunner] to keep state across rebalances
// and crashes.
func RunGroupOnce(ctx context.Context, topology *BuiltTopology, consumer Consumer, producer Producer,
	pollTimeout time.Duration) (map[TopicPartition]int64, error) {
	return newRunner(topology, nil, consumer, producer).RunOnce(ctx, pollTimeout)
}
