// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"fmt"
)

// copyBarrier takes the state of every partition of a firing barrier. A plain store
// saves it at once, ahead of the commit, since nothing confirms it afterwards; for
// a [SnapshotStore] the state is copied, to be written beside the next rounds.
func (r *GroupRunner) copyBarrier(ctx context.Context, fires *firing) error {
	for _, p := range fires.partitions {
		if r.shape.stateful && !r.topology.HasPartition(p.number) {
			// State that says "nothing yet" is told from no state.
			if err := r.topology.RestorePartition(p.number, nil); err != nil {
				return err
			}
		}
		if r.snapshots == nil {
			state, err := r.topology.SnapshotPartition(p.number)
			if err != nil {
				return err
			}
			if err := r.settings.store.Save(p.number, fires.cut.Epoch, state); err != nil {
				return err
			}
			continue
		}
		info := SnapshotInfo{Epoch: fires.cut.Epoch, Group: fires.cut.Group, Positions: map[TopicPartition]int64{}}
		for _, progress := range p.topics {
			if offset, ok := fires.cut.Offset(progress.TopicPartition); ok {
				info.Positions[progress.TopicPartition] = offset
			}
		}
		if r.keepsState() && p.snapshot.Sequence == 0 {
			// The barrier commits a partition that has had no record: a crash before the
			// state at the cut is stored must not leave the commit without any state.
			if err := r.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: info.Positions}); err != nil {
				return err
			}
		}
		copied, err := r.copyState(ctx, p, info)
		if err != nil {
			return err
		}
		fires.copies = append(fires.copies, copied)
	}
	return nil
}

// closeBarrier notes that a barrier has been committed, and has its snapshots
// written.
func (r *GroupRunner) closeBarrier(rd *round) {
	fires := rd.firing
	fired := &firedBarrier{barrier: Barrier{Cut: fires.cut.clone(), Offsets: map[TopicPartition]int64{}}}
	for _, p := range fires.partitions {
		p.lastClosed = fires.cut.Epoch
		fired.barrier.Partitions = append(fired.barrier.Partitions, p.number)
	}
	for _, progress := range fires.aligned {
		offset := fires.cut.Offsets[progress.TopicPartition]
		progress.processedTo(offset, -1)
		fired.barrier.Offsets[progress.TopicPartition] = rd.offsets[progress.TopicPartition]
	}
	r.setPending(nil)
	r.alignment.rest = 0
	r.fired = append(r.fired, fired)
	fired.waiting = len(fires.copies)
	for _, copied := range fires.copies {
		// The round of the barrier itself is in the journal by now.
		copied.info.Round, copied.barrier = copied.partition.round, fired
		r.saveBeside(copied)
	}
}

// reportBarriers tells the listener about the barriers whose snapshots are stored,
// in the order of their epochs. A barrier without all of its snapshots is one that
// was skipped.
func (r *GroupRunner) reportBarriers() {
	for len(r.fired) > 0 && r.fired[0].waiting == 0 {
		fired := r.fired[0]
		r.fired = r.fired[1:]
		cut := fired.barrier.Cut
		if fired.failure != nil {
			r.stats.add(func(s *RuntimeStats) { s.CutsSkipped++ })
			r.settings.logger.Error("state at a cut is not stored", "group", cut.Group, "epoch", cut.Epoch, "error", fired.failure)
			if r.settings.hooks.CutSkipped != nil {
				r.settings.hooks.CutSkipped(cut, fired.failure)
			}
			continue
		}
		r.stats.add(func(s *RuntimeStats) {
			s.Barriers++
			s.LastEpoch = cut.Epoch
		})
		r.settings.logger.Debug("barrier closed", "group", cut.Group, "epoch", cut.Epoch, "partitions", fired.barrier.Partitions)
		if r.settings.listener != nil {
			r.callListener(fired.barrier)
		}
	}
}

func (r *GroupRunner) callListener(barrier Barrier) {
	defer func() {
		if value := recover(); value != nil {
			r.stats.add(func(s *RuntimeStats) { s.ListenerPanics++ })
			r.reportError(fmt.Errorf("columnar: the barrier listener panicked at epoch %d: %v", barrier.Cut.Epoch, value))
		}
	}()
	r.settings.listener(barrier)
}
