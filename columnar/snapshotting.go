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
	err := o.saveOutsideBarriers(ctx, p)
	if err == nil || o.snapshots == nil {
		return err
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
	if !p.dirty || !o.shape.stateful {
		return nil
	}
	return o.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: p.positions(), Confirmed: true})
}

// saveSnapshot stores the present state of a partition and makes it the one that
// recovery starts from.
func (o *ownership) saveSnapshot(ctx context.Context, p *logicalPartition, info SnapshotInfo) error {
	started := time.Now()
	p.lastSnapshot = started
	saved, err := o.storeSnapshot(ctx, p, info)
	elapsed := time.Since(started)
	if err != nil {
		saved = info
		o.stats.add(func(s *RuntimeStats) { s.SnapshotFailures++ })
	} else {
		o.stats.add(func(s *RuntimeStats) {
			s.Snapshots++
			s.SnapshotBytes += saved.Bytes
			s.SnapshotTime += elapsed
		})
		p.snapshot, p.dirty = saved, false
	}
	if o.settings.hooks.Snapshot != nil {
		o.settings.hooks.Snapshot(saved, elapsed, err)
	}
	return err
}

func (o *ownership) storeSnapshot(ctx context.Context, p *logicalPartition, info SnapshotInfo) (SnapshotInfo, error) {
	state, err := o.topology.SnapshotPartition(p.number)
	if err != nil {
		return info, err
	}
	if err := o.claim(ctx, p); err != nil {
		return info, err
	}
	info.Partition, info.Generation, info.Round = p.number, p.generation, p.round
	info.PartitionCounts, info.Layout, info.TakenAt = o.counts, o.shape.layout, time.Now()
	return o.snapshots.SaveSnapshot(ctx, info, state)
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

// snapshotOne saves the partition whose turn it is to be saved outside barriers:
// one a round, so that no round pays for all.
func (o *ownership) snapshotOne(ctx context.Context) {
	if !o.keepsState() {
		return
	}
	var due *logicalPartition
	for _, p := range o.ordered() {
		if !p.live() || !p.dirty || time.Since(p.lastSnapshot) < o.settings.snapshotInterval {
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
	if err := o.saveSnapshot(ctx, due, SnapshotInfo{Epoch: NoEpoch, Positions: due.positions(), Confirmed: true}); err != nil {
		o.reportError(err)
	}
}

// settleTimeout bounds the calls that take a failed round back. They run also
// when the round's context has ended.
const settleTimeout = 30 * time.Second

// settling returns a context for what has to be done also when ctx has ended.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}
