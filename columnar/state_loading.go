// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
)

// loadState reads a stored snapshot, checks it against the topology, and returns
// a partition with its state that is not in place yet. Recovery and restore load
// state this way alone.
func (o *ownership) loadState(ctx context.Context, info SnapshotInfo) (*partitionState, error) {
	state, err := o.snapshots.LoadSnapshot(ctx, info)
	if err != nil {
		return nil, err
	}
	return o.prepareState(info, state)
}

// prepareState is loadState of a snapshot that has been read.
func (o *ownership) prepareState(info SnapshotInfo, state map[string][]byte) (*partitionState, error) {
	if err := o.checkSnapshot(info.Partition, state, info); err != nil {
		return nil, err
	}
	prepared, err := o.topology.preparePartition(info.Partition, state)
	if err != nil {
		return nil, textPrefix.Wrap(err, "restoring partition %d", info.Partition)
	}
	return prepared, nil
}

// unusableSnapshotError says that a snapshot cannot be used and an older one may
// be.
type unusableSnapshotError struct{ cause error }

func (e *unusableSnapshotError) Error() string { return e.cause.Error() }

func asUnusable(err error) error {
	var damaged *DamagedSnapshotError
	if errors.As(err, &damaged) {
		return &unusableSnapshotError{err}
	}
	return err
}

// checkSnapshot fails when a snapshot and the topology do not have the same
// nodes with the same configuration, beyond what the options allow.
func (o *ownership) checkSnapshot(partition int, state map[string][]byte, info SnapshotInfo) error {
	for topic, count := range o.counts {
		if before, ok := info.PartitionCounts[topic]; ok && before != count && !o.settings.allowGrowth {
			return &PartitionCountError{Counts: o.counts, Before: info.PartitionCounts}
		}
	}
	if len(state) == 0 {
		return nil
	}
	err := o.topology.checkSnapshot(partition, state, info.Layout)
	var mismatch *SnapshotMismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	if o.settings.allowUnmapped {
		mismatch.Unmapped = nil
	}
	if o.settings.allowUncovered {
		mismatch.Uncovered = nil
	}
	if mismatch.empty() {
		return nil
	}
	return mismatch
}
