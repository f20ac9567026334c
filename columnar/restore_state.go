// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// maxProbedEpochs bounds how many epochs are asked for, to say which exist, in a
// store that cannot list.
const maxProbedEpochs = 100

// loadedCut is what a restore needs, read and checked.
type loadedCut struct {
	offsets    map[TopicPartition]int64
	committed  map[TopicPartition]int64 // nil where the consumer cannot tell
	partitions []int                    // ascending
	states     []*partitionState        // not in place yet; nil for empty ones
	infos      []SnapshotInfo           // where the store knows positions
}

// loadCut reads the snapshot of a cut for every partition that a restore acts on.
// latest asks for a cut that the group has committed, and for snapshots of the
// present history.
func (o *ownership) loadCut(ctx context.Context, cut *BarrierCut, latest bool) (*loadedCut, error) {
	loaded := &loadedCut{offsets: o.targets(cut)}
	for _, p := range o.ordered() {
		for _, progress := range p.inOrder() {
			if _, ok := cut.Offset(progress.TopicPartition); p.owned && !ok {
				return nil, &MissingSnapshotError{Epoch: cut.Epoch, Partitions: []int{p.number},
					Cause: fmt.Errorf("the cut does not name %s/%d", progress.Topic, progress.Partition)}
			}
		}
	}
	for tp := range loaded.offsets {
		loaded.partitions = append(loaded.partitions, tp.Partition)
	}
	slices.Sort(loaded.partitions)
	loaded.partitions = slices.Compact(loaded.partitions)
	if err := o.readCommitted(ctx, cut, loaded, latest); err != nil {
		return nil, err
	}
	missing := &MissingSnapshotError{Epoch: cut.Epoch}
	var everywhere []int64
	for i, number := range loaded.partitions {
		info, stored, err := o.findSnapshot(ctx, number, cut, loaded, latest)
		if err != nil {
			return nil, err
		}
		if info == nil {
			missing.Partitions = append(missing.Partitions, number)
		} else if err := o.loadCutState(ctx, info, loaded, missing); err != nil {
			return nil, err
		}
		if i == 0 {
			everywhere = stored
		} else {
			everywhere = slices.DeleteFunc(everywhere, func(epoch int64) bool { return !slices.Contains(stored, epoch) })
		}
	}
	if len(missing.Partitions) > 0 {
		missing.Available = everywhere
		return nil, missing
	}
	return loaded, nil
}

// targets returns the offsets of a cut for the partitions that a restore acts
// on: the owned ones, or all of them when none is owned.
func (o *ownership) targets(cut *BarrierCut) map[TopicPartition]int64 {
	owned := map[TopicPartition]int64{}
	for tp, offset := range cut.Offsets {
		if p := o.partitions[tp.Partition]; p != nil && p.owned && p.topics[tp.Topic] != nil {
			owned[tp] = offset
		}
	}
	if o.ownsAny() {
		return owned
	}
	all := maps.Clone(cut.Offsets)
	maps.DeleteFunc(all, func(tp TopicPartition, _ int64) bool { return !slices.Contains(o.shape.topics, tp.Topic) })
	return all
}

// readCommitted reads what the group has committed of the partitions of a cut,
// where the consumer can tell. With latest, a cut that the group has not committed
// is missing: its snapshots may be of a round that did not happen.
func (o *ownership) readCommitted(ctx context.Context, cut *BarrierCut, loaded *loadedCut, latest bool) error {
	if o.committed == nil {
		return nil
	}
	committed, err := o.committed.Committed(ctx, slices.SortedFunc(maps.Keys(loaded.offsets), compareTopicPartitions))
	if err != nil {
		return textPrefix.Wrap(err, "committed offsets")
	}
	if loaded.committed = committed; committed == nil {
		loaded.committed = map[TopicPartition]int64{}
	}
	for tp, offset := range loaded.offsets {
		if at, ok := committed[tp]; latest && ok && at < offset {
			return &MissingSnapshotError{Epoch: cut.Epoch, Partitions: []int{tp.Partition},
				Cause: fmt.Errorf("%s/%d is committed up to offset %d, the cut is at %d", tp.Topic, tp.Partition, at, offset)}
		}
	}
	return nil
}

// findSnapshot returns the snapshot of one partition at a cut; nil says that there
// is none. stored are the epochs that the store lists, nil where it cannot.
func (o *ownership) findSnapshot(ctx context.Context, number int, cut *BarrierCut, loaded *loadedCut, latest bool) (found *SnapshotInfo, stored []int64, err error) {
	if o.snapshots == nil {
		return &SnapshotInfo{Partition: number, Epoch: cut.Epoch}, nil, nil
	}
	infos, err := o.snapshots.Snapshots(ctx, number)
	if err != nil {
		return nil, nil, err
	}
	stored = []int64{}
	for _, candidate := range infos {
		if candidate.Epoch == NoEpoch || (candidate.Group != "" && candidate.Group != cut.Group) {
			continue
		}
		stored = append(stored, candidate.Epoch)
		if candidate.Epoch != cut.Epoch || latest && candidate.Abandoned {
			continue
		}
		if cause := o.refuse(candidate, loaded); cause != nil {
			return nil, nil, &MissingSnapshotError{Epoch: cut.Epoch, Partitions: []int{number}, Cause: cause}
		}
		if found == nil {
			found = &candidate
		}
	}
	slices.Sort(stored)
	return found, stored, nil
}

// refuse returns why a stored snapshot is not that of the cut, or nil. A container
// without positions, as other implementations write it, is taken at its name.
func (o *ownership) refuse(info SnapshotInfo, loaded *loadedCut) error {
	if info.Damage != nil || len(info.Positions) == 0 {
		return nil
	}
	for tp, offset := range loaded.offsets {
		at, positioned := info.Positions[tp]
		if tp.Partition != info.Partition || !positioned && !slices.Contains(o.shape.together, tp.Topic) {
			continue
		}
		if at != offset {
			return fmt.Errorf("the stored snapshot stands at %s, and the cut is at offset %d of %s/%d: the snapshot is that of another barrier group of the same name",
				formatOffsets(info.Positions), offset, tp.Topic, tp.Partition)
		}
		if committed, ok := loaded.committed[tp]; !info.Confirmed && (!ok || committed < offset) {
			return fmt.Errorf("the round that took the snapshot did not commit: %s/%d is not committed up to offset %d", tp.Topic, tp.Partition, offset)
		}
	}
	return nil
}

// loadCutState adds the checked state of a snapshot to a loaded cut. A plain store
// that holds nothing for the epoch lacks the snapshot.
func (o *ownership) loadCutState(ctx context.Context, info *SnapshotInfo, loaded *loadedCut, missing *MissingSnapshotError) error {
	var prepared *partitionState
	var err error
	switch {
	case info.Damage != nil:
		return info.Damage
	case o.snapshots != nil:
		prepared, err = o.loadState(ctx, *info)
	default:
		var state map[string][]byte
		if state, err = o.settings.store.Load(info.Partition, info.Epoch); err != nil {
			return err
		}
		if len(state) == 0 && o.shape.stateful {
			missing.Partitions = append(missing.Partitions, info.Partition)
			return nil
		}
		prepared, err = o.prepareState(*info, state)
	}
	loaded.infos, loaded.states = append(loaded.infos, *info), append(loaded.states, prepared)
	return err
}

// restoreLoaded puts a loaded cut in place. Everything that can be refused comes
// before the first change.
func (o *ownership) restoreLoaded(ctx context.Context, cut *BarrierCut, loaded *loadedCut) error {
	owned := o.ownsAny()
	if owned && o.snapshots != nil {
		for _, number := range loaded.partitions {
			if err := o.claim(ctx, o.partition(number)); err != nil {
				return err
			}
		}
	}
	for i, number := range loaded.partitions {
		o.topology.installPartition(number, loaded.states[i])
		if err := o.resetTo(o.partition(number), loaded.infos[i], cut.Epoch, loaded.offsets); err != nil {
			return &terminalError{err}
		}
		if !owned {
			o.restored[number] = restoredPartition{
				epoch: cut.Epoch, info: loaded.infos[i], offsets: maps.Clone(loaded.offsets), committed: loaded.committed,
			}
		}
	}
	for _, p := range o.partitions {
		if o.involved(p) {
			p.lastClosed = cut.Epoch
		}
	}
	o.stats.add(func(s *RuntimeStats) { s.Restores++ })
	o.settings.logger.Info("restored to a cut", "group", cut.Group, "epoch", cut.Epoch, "partitions", loaded.partitions)
	return nil
}

// resetTo makes a partition's history begin at the snapshot of a cut. A partition
// that is not assigned yet is sought when it is, and the offsets are committed then.
func (o *ownership) resetTo(p *logicalPartition, info SnapshotInfo, epoch int64, offsets map[TopicPartition]int64) error {
	var places []place
	for tp := range offsets {
		if tp.Partition == p.number {
			p.topic(tp.Topic)
		}
	}
	for _, progress := range p.inOrder() {
		if offset, ok := offsets[progress.TopicPartition]; ok {
			places = append(places, place{topicProgress: progress, offset: offset})
		}
	}
	if err := o.enter(p, step{to: live, places: places}); err != nil {
		return err
	}
	p.snapshot, p.dirty, p.doubt = info, false, nil
	p.round, p.journalStale = info.Round, true
	p.lastClosed = epoch
	for _, place := range places {
		if p.owned {
			place.commit(place.offset)
			o.rewinds = append(o.rewinds, place.topicProgress)
		} else {
			place.misplaced = false
		}
	}
	return nil
}

// takeRestored applies a restore that came before the assignment, unless somebody
// has committed since.
func (o *ownership) takeRestored(ctx context.Context, p *logicalPartition, restored restoredPartition) (taken bool, err error) {
	for _, tp := range p.partitions() {
		at, ok := p.recovery.committed[tp]
		before, known := restored.committed[tp]
		if restored.committed != nil && p.recovery.committed != nil && (ok != known || at != before) {
			o.settings.logger.Warn("restore is out of date: the group has committed since",
				"partition", p.number, "epoch", restored.epoch, "topic", tp.Topic, "committed", at)
			delete(o.restored, p.number)
			o.topology.ReleasePartition(p.number)
			return false, nil
		}
	}
	if o.snapshots != nil {
		if err := o.claim(ctx, p); err != nil {
			return false, err
		}
	}
	offsets := maps.Clone(restored.offsets)
	maps.DeleteFunc(offsets, func(tp TopicPartition, _ int64) bool { return p.topics[tp.Topic] == nil })
	if err := o.resetTo(p, restored.info, restored.epoch, offsets); err != nil {
		return false, err
	}
	delete(o.restored, p.number)
	return true, nil
}

// forgetRestored drops the restores of partitions that have not come with the
// assignment that followed: what comes later has been another member's.
func (o *ownership) forgetRestored() {
	for number := range o.restored {
		if p := o.partitions[number]; p == nil || !p.owned {
			delete(o.restored, number)
			delete(o.partitions, number)
			o.topology.ReleasePartition(number)
		}
	}
}

// commitRestored commits the offsets of restores, backwards if need be, and
// abandons what was stored behind them. Failing that, the next round tries again.
func (o *ownership) commitRestored(ctx context.Context) error {
	if len(o.rewinds) == 0 {
		return nil
	}
	offsets := map[TopicPartition]int64{}
	for _, progress := range o.rewinds {
		if o.progress(progress.TopicPartition) == progress {
			offsets[progress.TopicPartition] = progress.committed
		}
	}
	if len(offsets) > 0 {
		if err := o.seekMisplaced(); err != nil {
			return err
		}
		if err := o.consumer.CommitOffsets(ctx, maps.Clone(offsets)); err != nil {
			return textPrefix.Wrap(err, "committing the offsets of a restore")
		}
	}
	for tp := range offsets {
		p := o.partitions[tp.Partition]
		if o.snapshots == nil {
			break
		}
		if err := o.snapshots.Abandon(ctx, p.number, p.generation, p.snapshot.Sequence); err != nil {
			return err
		}
	}
	o.rewinds = nil
	return nil
}

// probeEpochs asks a store that cannot list for the epochs of complete cuts that
// it holds for every partition.
func (o *ownership) probeEpochs(cuts []publishedCut, wanted *BarrierCut) []int64 {
	found := []int64{}
	for _, cut := range cuts[max(0, len(cuts)-maxProbedEpochs):] {
		if cut.Epoch == wanted.Epoch {
			continue
		}
		held := true
		for tp := range o.targets(&cut.BarrierCut) {
			state, err := o.settings.store.Load(tp.Partition, cut.Epoch)
			held = held && err == nil && len(state) > 0
		}
		if held {
			found = append(found, cut.Epoch)
		}
	}
	return found
}

func epochsOf(cuts []publishedCut) []int64 {
	epochs := []int64{}
	for _, cut := range cuts {
		epochs = append(epochs, cut.Epoch)
	}
	return epochs
}
