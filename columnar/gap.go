// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"time"
)

// passGaps takes partitions over offsets that their logs have lost, where the
// policy allows it, and returns what is left of the error of a poll.
func (o *ownership) passGaps(ctx context.Context, err error) error {
	if o.settings.outOfRange == OutOfRangeFail {
		return err
	}
	outside, others := outOfRange(err)
	if others || len(outside) == 0 {
		return err // the gaps are reported again
	}
	for _, one := range outside {
		p := o.partitions[one.Partition.Partition]
		if p == nil || !p.ready() || p.topics[one.Partition.Topic] == nil {
			continue // reported again once the partition stands
		}
		if p.replay != nil {
			return err // history is missing, not news
		}
		target := one.Start
		if o.settings.outOfRange == OutOfRangeLatest {
			target = one.End
		}
		if one.Start < 0 || one.End < 0 || one.Offset > one.End {
			return err
		}
		progress := p.topics[one.Partition.Topic]
		if progress.delivered != one.Offset || target <= one.Offset {
			continue // sought elsewhere since
		}
		if err := o.passGap(ctx, p, progress, target); err != nil {
			return err
		}
	}
	return nil
}

// passGap makes target the next offset of a partition. Recovery cannot read what
// lies before it, so the state is saved with that position before it is
// committed.
func (o *ownership) passGap(ctx context.Context, p *logicalPartition, progress *topicProgress, target int64) error {
	gap := GapInfo{Partition: progress.TopicPartition, From: progress.delivered, To: target}
	if o.snapshots != nil && o.shape.stateful {
		if len(progress.queue) > 0 {
			// Records in front of the gap wait for a barrier: the state is saved as
			// soon as they have been processed.
			p.dirty, p.lastSnapshot = true, time.Time{}
		} else {
			positions := p.positions()
			positions[progress.TopicPartition] = target
			if err := o.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: positions}); err != nil {
				return err
			}
		}
	}
	if err := o.consumer.Seek(progress.TopicPartition, target); err != nil {
		return textPrefix.Wrap(err, "seeking %s/%d to %d", progress.Topic, progress.Partition, target)
	}
	progress.sought = true
	progress.delivered = target
	if len(progress.queue) == 0 {
		progress.processed = target
	}
	o.stats.add(func(s *RuntimeStats) {
		s.Gaps++
		s.OffsetsLost += gap.To - gap.From
	})
	o.settings.logger.Error("records were deleted before they were processed",
		"topic", progress.Topic, "partition", progress.Partition, "from", gap.From, "to", gap.To)
	if o.settings.hooks.Gap != nil {
		o.settings.hooks.Gap(gap)
	}
	return nil
}

// outOfRange returns the out-of-range errors in err's tree, and whether anything
// else is in it.
func outOfRange(err error) (outside []*OffsetOutOfRangeError, others bool) {
	for err != nil {
		switch e := err.(type) {
		case *OffsetOutOfRangeError:
			return append(outside, e), others
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				more, other := outOfRange(one)
				outside, others = append(outside, more...), others || other
			}
			return outside, others
		}
		err = errors.Unwrap(err)
	}
	return nil, true
}
