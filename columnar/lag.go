// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Lag asks the broker how many offsets lie between the group's commits, or where
// nothing is committed the positions, and the end of each owned partition that
// the consumer may read. The consumer must be an [OffsetRangeReader]. Lag waits
// for a round in progress, within ctx. A partition whose position is not known
// yet is left out.
func (r *GroupRunner) Lag(ctx context.Context) (map[TopicPartition]int64, error) {
	if r.ranges == nil {
		return nil, errors.New("columnar: the consumer cannot tell end offsets")
	}
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	at := map[TopicPartition]int64{}
	for _, p := range r.partitions {
		for _, progress := range p.topics {
			switch {
			case progress.hasCommitted:
				at[progress.TopicPartition] = progress.committed
			case progress.known:
				at[progress.TopicPartition] = progress.processed
			}
		}
	}
	r.release()
	ends, err := r.ranges.EndOffsets(ctx, slices.SortedFunc(maps.Keys(at), compareTopicPartitions))
	if err != nil {
		return nil, textPrefix.Wrap(err, "end offsets")
	}
	lag := map[TopicPartition]int64{}
	for tp, end := range ends {
		if position, ok := at[tp]; ok {
			lag[tp] = max(0, end-position)
		}
	}
	return lag, nil
}
