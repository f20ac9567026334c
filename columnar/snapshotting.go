// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"time"
)

// saveLeaving saves a partition that the group has taken away. What a
// [SnapshotStore] does not take is reported only: its next owner repeats the
// history behind the snapshot before. A store that has another owner by now says
// that the partition was lost. A plain store has nothing to repeat from, so its
// error is returned.
func (o *ownership) saveLeaving(ctx context.Context, p *logicalPartition) error {
	if o.snapshots == nil {
		return o.saveOutsideBarriers(ctx, p)
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	err := o.saveOutsideBarriers(ctx, p)
	if err == nil {
		return nil
	}
	o.reportError(textPrefix.Wrap(err, "state of partition %d, which has left the member, is not saved", p.number))
	return nil
}

// saveOutsideBarriers saves a partition that is given up. With a store that knows
// positions, state that is stored already is not stored again.
func (o *ownership) saveOutsideBarriers(ctx context.Context, p *logicalPartition) error {
	if o.snapshots == nil {
		if p.doubt != nil {
			return textPrefix.Wrap(p.doubt, "state of partition %d is not saved", p.number)
		}
		state, err := o.plainState(p)
		if err != nil {
			return err
		}
		return o.settings.store.Save(p.number, NoEpoch, state)
	}
	if !o.shape.stateful {
		return nil
	}
	if err := o.awaitSaved(ctx, p); err != nil || !p.dirty {
		return err
	}
	return o.saveSnapshot(ctx, p, o.betweenBarriers(p))
}

// saveSnapshot stores the present state of a partition, behind what is being written
// of it, and makes it the one that recovery starts from.
func (o *ownership) saveSnapshot(ctx context.Context, p *logicalPartition, info SnapshotInfo) error {
	if err := o.awaitSaved(ctx, p); err != nil {
		return err
	}
	copied, err := o.copyState(ctx, p, info)
	if err != nil {
		return err
	}
	p.dirty = false
	copied.write(ctx, o.snapshots, 0)
	o.takeSaved(copied)
	return copied.err
}

// copyState takes the present state of a partition, for it to be stored.
func (o *ownership) copyState(ctx context.Context, p *logicalPartition, info SnapshotInfo) (*saving, error) {
	state, err := o.topology.SnapshotPartition(p.number)
	if err == nil {
		err = o.claim(ctx, p)
	}
	if err != nil {
		o.stats.add(func(s *RuntimeStats) { s.SnapshotFailures++ })
		return nil, err
	}
	info.Partition, info.Generation, info.Round = p.number, p.generation, p.round
	info.PartitionCounts, info.Layout, info.TakenAt = o.counts, o.shape.layout, time.Now()
	return &saving{partition: p, info: info, state: state}, nil
}

// betweenBarriers describes a snapshot of the committed state. A group that has
// committed nothing of the partition has no state to miss when the snapshot is gone.
func (o *ownership) betweenBarriers(p *logicalPartition) SnapshotInfo {
	confirmed := o.committed == nil
	for _, progress := range p.topics {
		confirmed = confirmed || progress.hasCommitted
	}
	return SnapshotInfo{Epoch: NoEpoch, Positions: p.positions(), Confirmed: confirmed}
}

// claim makes the runner the owner of a partition's state, once an assignment.
func (o *ownership) claim(ctx context.Context, p *logicalPartition) error {
	if p.generation != 0 {
		return nil
	}
	generation, err := o.snapshots.Claim(ctx, p.number)
	if err != nil {
		return err
	}
	p.generation = generation
	return nil
}

// saveBase makes sure that what a round may commit of a partition can be
// recovered: before the first record of a topic, the state that stands so far is
// saved with the position of that record.
func (o *ownership) saveBase(ctx context.Context, p *logicalPartition, input map[string][]ConsumedRecord) error {
	if !o.keepsState() {
		return nil
	}
	missing := p.snapshot.Sequence == 0
	for topic := range input {
		_, ok := p.snapshot.Positions[TopicPartition{topic, p.number}]
		missing = missing || !ok
	}
	if !missing {
		return nil
	}
	return o.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: p.positions()})
}

// confirm marks the newest snapshot of a partition as one whose offsets are
// committed. Failing that, it is tried again after the next round.
func (o *ownership) confirm(ctx context.Context, p *logicalPartition) {
	ctx, cancel := settling(ctx)
	defer cancel()
	saved := p.snapshot
	saved.Generation = p.generation
	if err := o.snapshots.ConfirmSnapshot(ctx, saved); err != nil {
		o.reportError(err)
		return
	}
	p.snapshot.Confirmed = true
}

// snapshotOne copies the partition whose turn it is to be saved outside barriers, to
// be written beside the next rounds: one a round, so that no round pays for all. The
// interval counts from the end of the last save, and doubles with each failure in a
// row.
func (o *ownership) snapshotOne(ctx context.Context) {
	if !o.keepsState() {
		return
	}
	var due *logicalPartition
	for _, p := range o.ordered() {
		if !p.live() || !p.dirty || p.saving != nil || time.Since(p.lastSnapshot) < o.settings.snapshotInterval<<min(p.saveFailures, 6) {
			continue
		}
		if due == nil || p.lastSnapshot.Before(due.lastSnapshot) {
			due = p
		}
	}
	if due == nil {
		return
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	copied, err := o.copyState(ctx, due, o.betweenBarriers(due))
	if err != nil {
		due.lastSnapshot = time.Now()
		due.saveFailures++
		o.reportError(err)
		return
	}
	o.saveBeside(copied)
}

// settleTimeout bounds the calls that take a failed round back. They run also
// when the round's context has ended.
const settleTimeout = 30 * time.Second

// settling returns a context for what has to be done also when ctx has ended.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}

// write stores the copied state. That of a barrier, whose offsets are committed by
// now, is tried several times while ctx lasts, with pauses that double from backoff,
// and is confirmed.
func (s *saving) write(ctx context.Context, store SnapshotStore, backoff time.Duration) {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		s.saved, s.err = store.SaveSnapshot(ctx, s.info, s.state)
		if s.err == nil || s.barrier == nil || attempt == maxSaveAttempts || errors.As(s.err, new(*StaleOwnerError)) {
			break
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		if ctx.Err() != nil {
			break
		}
		backoff = min(2*backoff, maxSaveBackoff)
	}
	s.took = time.Since(started)
	if s.err != nil || s.barrier == nil {
		return
	}
	confirmed := s.saved
	confirmed.Generation = s.info.Generation
	if s.unconfirmed = store.ConfirmSnapshot(ctx, confirmed); s.unconfirmed == nil {
		s.saved.Confirmed = true
	}
}

// maxSaveAttempts is how often the state at a cut is tried to be stored.
const maxSaveAttempts = 10

// maxSaveBackoff is the longest pause between attempts to store the state at a cut.
const maxSaveBackoff = 10 * time.Second

// saveBeside has copied state written while rounds go on. One save of a partition
// is written at a time; of those that wait for it, the latest is kept.
func (o *ownership) saveBeside(s *saving) {
	p := s.partition
	p.dirty = false
	if p.saving != nil {
		if waiting := p.saveNext; waiting != nil {
			waiting.barrier.end(errSuperseded)
		}
		p.saveNext = s
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if o.settings.snapshotTimeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), o.settings.snapshotTimeout)
	}
	p.saving, s.cancel = s, cancel
	s.finished = o.settings.beside(func() { s.write(ctx, o.snapshots, o.settings.minBackoff) })
}

// errSuperseded says that the next barrier came before a snapshot could be written.
var errSuperseded = errors.New("columnar: the store is slower than the cuts: the state at a newer cut took the place of the one that waited to be written")

// takeFinished takes what has been written since the last call.
func (o *ownership) takeFinished() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range o.ordered() {
		for p.saving != nil && p.saving.finished(ended) {
			o.nextSaving(p)
		}
	}
}

// awaitSaved waits until nothing of a partition is being written.
func (o *ownership) awaitSaved(ctx context.Context, p *logicalPartition) error {
	for p.saving != nil {
		if !p.saving.finished(ctx) {
			return textPrefix.Wrap(ctx.Err(), "state of partition %d is still being written", p.number)
		}
		o.nextSaving(p)
	}
	return nil
}

// awaitAllSaved waits until nothing is being written.
func (o *ownership) awaitAllSaved(ctx context.Context) error {
	var errs []error
	for _, p := range o.ordered() {
		errs = append(errs, o.awaitSaved(ctx, p))
	}
	return errors.Join(errs...)
}

// nextSaving takes a save that has ended, and begins the one that waits for it.
func (o *ownership) nextSaving(p *logicalPartition) {
	ended, next := p.saving, p.saveNext
	p.saving, p.saveNext = nil, nil
	ended.cancel()
	if o.takeSaved(ended); ended.err != nil {
		o.reportError(textPrefix.Wrap(ended.err, "state of partition %d is not saved", p.number))
	}
	if next != nil {
		o.saveBeside(next)
	}
}

// cancelSaving gives up what is being written of a partition that leaves.
func (o *ownership) cancelSaving(p *logicalPartition) {
	for _, s := range []*saving{p.saving, p.saveNext} {
		if s == nil {
			continue
		}
		if s.cancel != nil {
			s.cancel()
			o.abandoned = append(o.abandoned, s)
		}
		s.barrier.end(errPartitionLeft)
	}
	p.saving, p.saveNext = nil, nil
}

var errPartitionLeft = errors.New("columnar: the partition has left the member")

// takeSaved makes a stored snapshot the one that recovery starts from, counts it and
// calls the hook.
func (o *ownership) takeSaved(s *saving) {
	p := s.partition
	p.lastSnapshot = time.Now()
	told := s.saved
	if s.err != nil {
		told = s.info
		p.dirty = true
		p.saveFailures++
		o.stats.add(func(stats *RuntimeStats) { stats.SnapshotFailures++ })
	} else {
		p.snapshot, p.saveFailures = s.saved, 0
		o.stats.add(func(stats *RuntimeStats) {
			stats.Snapshots++
			stats.SnapshotBytes += s.saved.Bytes
			stats.SnapshotTime += s.took
		})
	}
	if s.unconfirmed != nil {
		o.reportError(s.unconfirmed)
	}
	if o.settings.hooks.Snapshot != nil {
		o.settings.hooks.Snapshot(told, s.took, s.err)
	}
	s.barrier.end(s.err)
}

// end takes the end of one save; a save outside barriers has none to tell.
func (b *firedBarrier) end(err error) {
	if b != nil {
		b.waiting--
		b.failure = firstError(b.failure, err)
	}
}
