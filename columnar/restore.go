// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxProbedEpochs bounds how many epochs are asked for, to say which exist, in a
// store that cannot list.
const maxProbedEpochs = 100

var errNoBarrierGroup = errors.New("restoring to a cut requires a barrier group")

// restoredPartition is a restore that waits for the partition to be assigned.
type restoredPartition struct {
	epoch   int64
	info    SnapshotInfo // where the store knows positions
	offsets map[TopicPartition]int64
}

// RestoreToEpoch takes every partition of the runner back, or forward, to a
// barrier: state, inputs and committed offsets. It is the one operation that
// moves commits backwards; what was produced behind the cut is produced again.
// Before the first assignment, it acts on every partition of the cut, and seeks
// and commits when the partitions arrive.
//
// Everything is loaded before anything changes. Errors: a [*MissingCutError]
// when the epoch has no complete cut, a [*MissingSnapshotError] when the store
// does not hold it for every partition, a [*DamagedSnapshotError], a
// [*SnapshotMismatchError]. If seeking or committing fails, the state stands at
// the cut nonetheless, and the next rounds go on from there. The caller owns the
// cut.
func (r *GroupRunner) RestoreToEpoch(ctx context.Context, epoch int64) (*BarrierCut, error) {
	return r.restoreCut(ctx, func(cuts []publishedCut) (*BarrierCut, *loadedCut, error) {
		at := slices.IndexFunc(cuts, func(cut publishedCut) bool { return cut.Epoch == epoch })
		if at < 0 {
			return nil, nil, &MissingCutError{Group: r.settings.barrier, Epoch: epoch, Available: epochsOf(cuts)}
		}
		cut := &cuts[at].BarrierCut
		loaded, err := r.loadCut(ctx, cut, false)
		var missing *MissingSnapshotError
		if errors.As(err, &missing) && missing.Available == nil {
			missing.Available = r.probeEpochs(cuts, cut)
		}
		return cut, loaded, err
	})
}

// RestoreToLatestCut is [GroupRunner.RestoreToEpoch] to the newest epoch that has
// a complete cut, a snapshot of every partition, and offsets that the group has
// committed. Damaged snapshots are passed over, unless [WithStrictSnapshots] is
// set. After a crash it is not needed: a runner recovers by itself, without
// producing anything again.
func (r *GroupRunner) RestoreToLatestCut(ctx context.Context) (*BarrierCut, error) {
	return r.restoreCut(ctx, func(cuts []publishedCut) (*BarrierCut, *loadedCut, error) {
		if len(cuts) == 0 {
			return nil, nil, &MissingCutError{Group: r.settings.barrier, Epoch: NoEpoch}
		}
		var cause error
		for _, cut := range slices.Backward(cuts) {
			loaded, err := r.loadCut(ctx, &cut.BarrierCut, true)
			if err == nil {
				return &cut.BarrierCut, loaded, nil
			}
			var damaged *DamagedSnapshotError
			if errors.As(err, &damaged) {
				if err := r.passOver(err); err != nil {
					return nil, nil, err
				}
			} else if !errors.As(err, new(*MissingSnapshotError)) {
				return nil, nil, err
			}
			cause = firstError(cause, err)
		}
		return nil, nil, &MissingSnapshotError{Epoch: NoEpoch, Cause: cause}
	})
}

// restoreCut restores what choose picks from the complete cuts.
func (r *GroupRunner) restoreCut(ctx context.Context, choose func([]publishedCut) (*BarrierCut, *loadedCut, error)) (*BarrierCut, error) {
	if r.settings.cuts == nil {
		return nil, errNoBarrierGroup
	}
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	defer r.release()
	if r.terminal != nil {
		return nil, r.terminal
	}
	if err := r.settle(r.settleTransaction(ctx)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.applyEvents(ctx)
	r.mu.Unlock()
	cuts, err := r.settings.cuts.usable(ctx, r.settings.barrier)
	if err != nil {
		return nil, err
	}
	cut, loaded, err := choose(cuts)
	if err != nil {
		return nil, err
	}
	result := cut.clone()
	return &result, r.restoreLoaded(ctx, cut, loaded)
}

// loadedCut is what a restore needs, read and checked.
type loadedCut struct {
	offsets    map[TopicPartition]int64
	partitions []int // ascending
	states     []map[string][]byte
	infos      []SnapshotInfo // where the store knows positions
}

// loadCut reads the snapshot of a cut for every partition that a restore acts
// on. confirmed asks for snapshots whose offsets were committed.
func (r *GroupRunner) loadCut(ctx context.Context, cut *BarrierCut, confirmed bool) (*loadedCut, error) {
	loaded := &loadedCut{offsets: r.targets(cut)}
	for _, p := range r.ordered() {
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
	if confirmed {
		if err := r.checkCommitted(ctx, cut, loaded); err != nil {
			return nil, err
		}
	}
	missing := &MissingSnapshotError{Epoch: cut.Epoch}
	var everywhere []int64
	for i, number := range loaded.partitions {
		state, info, stored, err := r.loadEpoch(ctx, number, cut, confirmed)
		if err != nil {
			return nil, err
		}
		if state == nil {
			missing.Partitions = append(missing.Partitions, number)
		}
		loaded.states = append(loaded.states, state)
		loaded.infos = append(loaded.infos, info)
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
func (r *GroupRunner) targets(cut *BarrierCut) map[TopicPartition]int64 {
	owned := map[TopicPartition]int64{}
	for tp, offset := range cut.Offsets {
		if p := r.partitions[tp.Partition]; p != nil && p.owned && p.topics[tp.Topic] != nil {
			owned[tp] = offset
		}
	}
	if r.ownsAny() {
		return owned
	}
	all := maps.Clone(cut.Offsets)
	maps.DeleteFunc(all, func(tp TopicPartition, _ int64) bool { return !slices.Contains(r.shape.topics, tp.Topic) })
	return all
}

func (r *GroupRunner) ownsAny() bool {
	for _, p := range r.partitions {
		if p.owned {
			return true
		}
	}
	return false
}

// checkCommitted fails for a cut that the group has not committed: its snapshots
// may be of a round that did not happen.
func (r *GroupRunner) checkCommitted(ctx context.Context, cut *BarrierCut, loaded *loadedCut) error {
	if r.committed == nil {
		return nil
	}
	committed, err := r.committed.Committed(ctx, slices.SortedFunc(maps.Keys(loaded.offsets), compareTopicPartitions))
	if err != nil {
		return textPrefix.Wrap(err, "committed offsets")
	}
	for tp, offset := range loaded.offsets {
		if at, ok := committed[tp]; ok && at < offset {
			return &MissingSnapshotError{Epoch: cut.Epoch, Partitions: []int{tp.Partition},
				Cause: fmt.Errorf("%s/%d is committed up to offset %d, the cut is at %d", tp.Topic, tp.Partition, at, offset)}
		}
	}
	return nil
}

// loadEpoch reads the snapshot of one partition at a cut; a nil state says that
// there is none. stored are the epochs that the store lists, nil where it cannot.
func (r *GroupRunner) loadEpoch(ctx context.Context, number int, cut *BarrierCut, confirmed bool) (state map[string][]byte, info SnapshotInfo, stored []int64, err error) {
	if r.snapshots == nil {
		if state, err = r.settings.store.Load(number, cut.Epoch); err != nil {
			return nil, info, nil, err
		}
		if len(state) == 0 && r.shape.stateful {
			return nil, info, nil, nil
		}
	} else {
		infos, err := r.snapshots.Snapshots(ctx, number)
		if err != nil {
			return nil, info, nil, err
		}
		stored = []int64{}
		found := false
		for _, candidate := range infos {
			if candidate.Epoch == NoEpoch || (candidate.Group != "" && candidate.Group != cut.Group) {
				continue
			}
			stored = append(stored, candidate.Epoch)
			if candidate.Epoch == cut.Epoch && (!confirmed || r.restorable(candidate)) {
				info, found = candidate, true
			}
		}
		slices.Sort(stored)
		if !found {
			return nil, info, stored, nil
		}
		if info.Damage != nil {
			return nil, info, stored, info.Damage
		}
		if state, err = r.snapshots.LoadSnapshot(ctx, info); err != nil {
			return nil, info, stored, err
		}
	}
	if err := r.checkSnapshot(number, state, info); err != nil {
		return nil, info, stored, err
	}
	if state == nil {
		state = map[string][]byte{}
	}
	return state, info, stored, nil
}

// restorable reports whether a barrier snapshot may be chosen by the runner.
// Where the committed offsets can be read they have been compared already.
func (r *GroupRunner) restorable(info SnapshotInfo) bool {
	return !info.Abandoned && (info.Confirmed || info.Damage != nil || r.committed != nil)
}

// restoreLoaded puts a loaded cut in place.
func (r *GroupRunner) restoreLoaded(ctx context.Context, cut *BarrierCut, loaded *loadedCut) error {
	owned := r.ownsAny()
	for i, number := range loaded.partitions {
		p := r.partition(number)
		if owned && r.snapshots != nil {
			if err := r.claim(ctx, p); err != nil {
				return err
			}
		}
		if err := r.restoreState(number, loaded.states[i]); err != nil {
			return err
		}
		r.resetTo(p, loaded.infos[i], cut.Epoch)
		if !owned {
			r.restored[number] = restoredPartition{epoch: cut.Epoch, info: loaded.infos[i], offsets: maps.Clone(loaded.offsets)}
		}
	}
	for _, p := range r.partitions {
		if r.involved(p) {
			p.lastClosed = cut.Epoch
		}
	}
	r.alignment.cuts = nil
	r.setPending(nil)
	for _, tp := range slices.SortedFunc(maps.Keys(loaded.offsets), compareTopicPartitions) {
		progress := r.partition(tp.Partition).topic(tp.Topic)
		progress.place(loaded.offsets[tp])
		r.seek(progress)
		// A partition that is not assigned yet is sought when it is.
		progress.misplaced = progress.misplaced && owned
	}
	r.stats.add(func(s *RuntimeStats) { s.Restores++ })
	r.settings.logger.Info("restored to a cut", "group", cut.Group, "epoch", cut.Epoch, "partitions", loaded.partitions)
	if !owned {
		return nil
	}
	if err := r.commitRewind(ctx, loaded.offsets); err != nil {
		return err
	}
	for i, number := range loaded.partitions {
		if err := r.abandonAfter(ctx, r.partitions[number], loaded.infos[i]); err != nil {
			return err
		}
	}
	return nil
}

// resetTo makes a partition's history begin at a snapshot.
func (r *GroupRunner) resetTo(p *logicalPartition, info SnapshotInfo, epoch int64) {
	p.recovery, p.replay = nil, nil
	p.snapshot, p.dirty = info, false
	p.round, p.journalStale = info.Round, true
	p.lastClosed = epoch
}

// commitRewind commits the offsets of a restore, backwards if need be.
func (r *GroupRunner) commitRewind(ctx context.Context, offsets map[TopicPartition]int64) error {
	for tp, offset := range offsets {
		r.partitions[tp.Partition].topics[tp.Topic].commit(offset)
	}
	if err := r.seekMisplaced(); err != nil {
		return err
	}
	if err := r.consumer.CommitOffsets(ctx, maps.Clone(offsets)); err != nil {
		return textPrefix.Wrap(err, "committing the offsets of a restore")
	}
	return nil
}

func (r *GroupRunner) abandonAfter(ctx context.Context, p *logicalPartition, info SnapshotInfo) error {
	if r.snapshots == nil {
		return nil
	}
	return r.snapshots.Abandon(ctx, p.number, p.generation, info.Sequence)
}

// takeRestored applies a restore that came before the assignment.
func (r *GroupRunner) takeRestored(ctx context.Context, p *logicalPartition, restored restoredPartition) error {
	if r.snapshots != nil {
		if err := r.claim(ctx, p); err != nil {
			return err
		}
	}
	r.resetTo(p, restored.info, restored.epoch)
	for _, progress := range p.inOrder() {
		if offset, ok := restored.offsets[progress.TopicPartition]; ok {
			progress.place(offset)
			r.seek(progress)
			progress.commit(offset)
			r.rewinds = append(r.rewinds, progress)
		}
	}
	delete(r.restored, p.number)
	return nil
}

// commitRestored commits the offsets of restores that came before the
// assignment.
func (r *GroupRunner) commitRestored(ctx context.Context) error {
	if len(r.rewinds) == 0 {
		return nil
	}
	offsets := map[TopicPartition]int64{}
	for _, progress := range r.rewinds {
		if p := r.partitions[progress.Partition]; p != nil && p.topics[progress.Topic] == progress {
			offsets[progress.TopicPartition] = progress.committed
		}
	}
	if len(offsets) > 0 {
		if err := r.commitRewind(ctx, offsets); err != nil {
			return err
		}
		for tp := range offsets {
			p := r.partitions[tp.Partition]
			if err := r.abandonAfter(ctx, p, p.snapshot); err != nil {
				return err
			}
		}
	}
	r.rewinds = nil
	return nil
}

// probeEpochs asks a store that cannot list for the epochs of complete cuts that
// it holds for every partition.
func (r *GroupRunner) probeEpochs(cuts []publishedCut, wanted *BarrierCut) []int64 {
	found := []int64{}
	for _, cut := range cuts[max(0, len(cuts)-maxProbedEpochs):] {
		if cut.Epoch == wanted.Epoch {
			continue
		}
		held := true
		for tp := range r.targets(&cut.BarrierCut) {
			state, err := r.settings.store.Load(tp.Partition, cut.Epoch)
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
