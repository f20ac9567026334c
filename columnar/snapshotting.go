// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
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
