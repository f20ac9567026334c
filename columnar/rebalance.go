// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// rebalance is one rebalance callback.
type rebalance struct {
	assigned, revoked, lost []TopicPartition
}

// OnPartitionsAssigned takes partitions over: their committed offsets are read,
// a snapshot is chosen, and the consumer is sought to where it stands. Called
// from inside Poll, the state is loaded after it. Errors are returned by the
// next round, and the partitions are not processed before they are repaired.
func (r *GroupRunner) OnPartitionsAssigned(partitions []TopicPartition) {
	r.rebalance(rebalance{assigned: slices.Clone(partitions)})
}

// OnPartitionsRevoked saves the state of partitions that leave, and releases it.
// Errors are returned by the next round.
func (r *GroupRunner) OnPartitionsRevoked(partitions []TopicPartition) {
	r.rebalance(rebalance{revoked: slices.Clone(partitions)})
}

// OnPartitionsLost releases the state of partitions without saving it.
func (r *GroupRunner) OnPartitionsLost(partitions []TopicPartition) {
	r.rebalance(rebalance{lost: slices.Clone(partitions)})
}

func (r *GroupRunner) rebalance(event rebalance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return
	case r.phase == phaseBusy:
		r.events = append(r.events, event)
		return
	}
	ctx := r.pollContext
	if r.phase == phaseIdle {
		ctx = context.Background()
	}
	r.apply(ctx, event)
	if r.phase == phaseIdle {
		r.deferError(r.recoverPartitions(ctx))
	}
}

// applyEvents applies the callbacks that arrived while a round was busy. mu is
// held.
func (r *GroupRunner) applyEvents(ctx context.Context) {
	events := r.events
	r.events = nil
	for _, event := range events {
		r.apply(ctx, event)
	}
}

// apply changes what the runner owns. State that arrives is found but not loaded
// yet.
func (r *GroupRunner) apply(ctx context.Context, event rebalance) {
	if r.terminal != nil {
		return
	}
	r.stats.add(func(s *RuntimeStats) {
		s.PartitionsAssigned += int64(len(event.assigned))
		s.PartitionsRevoked += int64(len(event.revoked))
		s.PartitionsLost += int64(len(event.lost))
	})
	for _, tp := range event.revoked {
		r.deferError(r.leave(ctx, tp, true))
	}
	for _, tp := range event.lost {
		r.deferError(r.leave(ctx, tp, false))
	}
	if len(event.assigned) > 0 {
		r.assigned = true
		for _, tp := range event.assigned {
			r.join(tp)
		}
		r.recount = true
		if err := r.resolve(ctx); err != nil {
			// The round, or the caller outside a round, tries again and returns it.
			r.settings.logger.Warn("assigned partitions are not recovered yet", "error", err)
		}
	}
	r.settings.logger.Info("partitions rebalanced", "assigned", len(event.assigned), "revoked", len(event.revoked), "lost", len(event.lost))
	if r.settings.hooks.Rebalance != nil {
		r.settings.hooks.Rebalance(RebalanceInfo{Assigned: event.assigned, Revoked: event.revoked, Lost: event.lost})
	}
}

func (r *GroupRunner) deferError(err error) {
	if err != nil {
		r.deferred = append(r.deferred, err)
	}
}

// takeDeferred returns the errors of callbacks, once.
func (r *GroupRunner) takeDeferred() error {
	err := errors.Join(r.deferred...)
	r.deferred = nil
	return err
}

// join takes one topic partition over. A logical partition that is new, or whose
// state has another topic to account for, has to be recovered.
func (r *GroupRunner) join(tp TopicPartition) {
	p := r.partition(tp.Partition)
	_, known := p.topics[tp.Topic]
	if p.owned && known {
		return
	}
	p.departed = nil
	if !p.owned {
		// Before the first assignment the partition may have been used without
		// being owned, and its state is that of a restore then.
		*p = logicalPartition{number: p.number, topics: map[string]*topicProgress{}, lastClosed: NoEpoch, owned: true}
		p.recovery = &recovery{started: time.Now()}
	} else if r.snapshots != nil && r.shape.stateful {
		p.recovery = &recovery{started: time.Now()}
		p.replay = nil
	}
	p.topic(tp.Topic)
}

// leave gives one topic partition up. The state of its logical partition goes
// with the last one.
func (r *GroupRunner) leave(ctx context.Context, tp TopicPartition, save bool) error {
	p := r.partitions[tp.Partition]
	if p == nil || !p.owned || p.topics[tp.Topic] == nil {
		return nil
	}
	delete(r.restored, tp.Partition)
	if len(p.topics) > 1 {
		if at, ok := p.positions()[tp]; ok {
			if p.departed == nil {
				p.departed = map[TopicPartition]int64{}
			}
			p.departed[tp] = at
		}
		delete(p.topics, tp.Topic)
		return nil
	}
	var err error
	if save && p.live() {
		err = r.saveOutsideBarriers(ctx, p)
	}
	r.topology.ReleasePartition(p.number)
	delete(r.partitions, p.number)
	return err
}

// saveOutsideBarriers saves a partition that is given up. With a store that knows
// positions, state that is stored already is not stored again.
func (r *GroupRunner) saveOutsideBarriers(ctx context.Context, p *logicalPartition) error {
	if r.snapshots == nil {
		if !r.mayStand(p) {
			return textPrefix.Wrap(r.unsettled.unknown, "state of partition %d is not saved", p.number)
		}
		state, err := r.plainState(p)
		if err != nil {
			return err
		}
		return r.settings.store.Save(p.number, NoEpoch, state)
	}
	if !p.dirty || !r.shape.stateful {
		return nil
	}
	return r.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: p.positions(), Confirmed: true})
}

// saveSnapshot stores the present state of a partition and makes it the one that
// recovery starts from.
func (r *GroupRunner) saveSnapshot(ctx context.Context, p *logicalPartition, info SnapshotInfo) error {
	started := time.Now()
	p.lastSnapshot = started
	saved, err := r.storeSnapshot(ctx, p, info)
	elapsed := time.Since(started)
	if err != nil {
		saved = info
		r.stats.add(func(s *RuntimeStats) { s.SnapshotFailures++ })
	} else {
		r.stats.add(func(s *RuntimeStats) {
			s.Snapshots++
			s.SnapshotBytes += saved.Bytes
			s.SnapshotTime += elapsed
		})
		p.snapshot, p.dirty = saved, false
	}
	if r.settings.hooks.Snapshot != nil {
		r.settings.hooks.Snapshot(saved, elapsed, err)
	}
	return err
}

func (r *GroupRunner) storeSnapshot(ctx context.Context, p *logicalPartition, info SnapshotInfo) (SnapshotInfo, error) {
	state, err := r.topology.SnapshotPartition(p.number)
	if err != nil {
		return info, err
	}
	if err := r.claim(ctx, p); err != nil {
		return info, err
	}
	info.Partition, info.Generation, info.Round = p.number, p.generation, p.round
	info.PartitionCounts, info.Layout, info.TakenAt = r.counts, r.shape.layout, time.Now()
	return r.snapshots.SaveSnapshot(ctx, info, state)
}

// claim makes the runner the owner of a partition's state, once an assignment.
func (r *GroupRunner) claim(ctx context.Context, p *logicalPartition) error {
	if p.generation != 0 {
		return nil
	}
	generation, err := r.snapshots.Claim(ctx, p.number)
	if err != nil {
		return err
	}
	p.generation = generation
	return nil
}

// checkCounts fails when the partition counts of the topics with state have
// changed since the runner started. It looks once after each assignment; until it
// has, nothing is processed.
func (r *GroupRunner) checkCounts(ctx context.Context) error {
	if r.counts == nil || r.settings.allowGrowth || !r.recount {
		return nil
	}
	counts, err := r.counter.PartitionCounts(ctx, r.shape.together)
	if err != nil {
		return textPrefix.Wrap(err, "partition counts")
	}
	counts = maps.Clone(counts)
	for topic, count := range counts {
		for _, p := range r.partitions {
			if p.topics[topic] != nil {
				// Whoever tells the counts may have learned less than the group.
				count = max(count, p.number+1)
			}
		}
		counts[topic] = count
	}
	if !maps.Equal(counts, r.counts) {
		r.terminal = &PartitionCountError{Counts: counts, Before: r.counts}
		return r.terminal
	}
	r.recount = false
	return nil
}

// checkOwnership fails when a partition with state is owned for some of its
// topics only.
func (r *GroupRunner) checkOwnership() error {
	if !r.shape.stateful || len(r.shape.together) < 2 {
		return nil
	}
	var errs []error
	for _, p := range r.ordered() {
		var missing []TopicPartition
		for _, topic := range r.shape.together {
			if p.topics[topic] == nil {
				missing = append(missing, TopicPartition{topic, p.number})
			}
		}
		if p.owned && len(missing) > 0 && len(missing) < len(r.shape.together) {
			errs = append(errs, &PartialOwnershipError{Partition: p.number, Owned: p.partitions(), Missing: missing})
		}
	}
	return errors.Join(errs...)
}
