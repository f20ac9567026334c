// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
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

// plainPositions is the entry in a snapshot of a plain [StateStore] that says at
// which committed offsets the state stands. No node has the name.
const plainPositions = "\x00positions"

// plainState returns the state of a partition for a store that knows no positions,
// with those that the group has committed. Where the consumer cannot tell them when
// the state is loaded, they are left out.
func (o *ownership) plainState(p *logicalPartition) (map[string][]byte, error) {
	state, err := o.topology.SnapshotPartition(p.number)
	if err != nil || o.committed == nil || !o.shape.stateful {
		return state, err
	}
	var positions []statefile.Position
	for _, progress := range p.inOrder() {
		if progress.hasCommitted {
			positions = append(positions, statefile.Position{Topic: progress.Topic, Partition: progress.Partition, Offset: progress.committed})
		}
	}
	text, err := json.Marshal(positions)
	if err != nil {
		return nil, err
	}
	state = maps.Clone(state)
	state[plainPositions] = text
	return state, nil
}

// splitPlainState takes the positions out of a snapshot of a plain store. They are
// nil where it has none.
func splitPlainState(stored map[string][]byte) (state map[string][]byte, positions []statefile.Position, err error) {
	text, ok := stored[plainPositions]
	if !ok {
		return stored, nil, nil
	}
	if err := json.Unmarshal(text, &positions); err != nil {
		return nil, nil, fmt.Errorf("positions of the stored state cannot be read: %w", err)
	}
	if positions == nil {
		positions = []statefile.Position{}
	}
	state = maps.Clone(stored)
	delete(state, plainPositions)
	return state, positions, nil
}

// stray returns why state that stands at positions is not that of the committed
// offsets, or nil.
func stray(positions []statefile.Position, committed map[TopicPartition]int64, p *logicalPartition) error {
	for _, tp := range p.partitions() {
		at := slices.IndexFunc(positions, func(s statefile.Position) bool { return s.Topic == tp.Topic && s.Partition == tp.Partition })
		offset, ok := committed[tp]
		switch {
		case at < 0 && ok:
			return fmt.Errorf("the stored state is from before the first commit of %s/%d", tp.Topic, tp.Partition)
		case at >= 0 && !ok:
			return fmt.Errorf("the stored state stands at offset %d of %s/%d, where nothing is committed", positions[at].Offset, tp.Topic, tp.Partition)
		case at >= 0 && positions[at].Offset != offset:
			return fmt.Errorf("the stored state stands at offset %d of %s/%d", positions[at].Offset, tp.Topic, tp.Partition)
		}
	}
	return nil
}
