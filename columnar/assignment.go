// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"time"
)

// rebalance is one rebalance callback.
type rebalance struct {
	assigned, revoked, lost []TopicPartition
}

// apply changes what the member owns. State that arrives is found but not loaded
// yet. The error is of state that left and is not stored anywhere.
func (o *ownership) apply(ctx context.Context, event rebalance) error {
	o.stats.add(func(s *RuntimeStats) {
		s.PartitionsAssigned += int64(len(event.assigned))
		s.PartitionsRevoked += int64(len(event.revoked))
		s.PartitionsLost += int64(len(event.lost))
	})
	var errs []error
	for _, tp := range event.revoked {
		errs = append(errs, o.leave(ctx, tp, true))
	}
	for _, tp := range event.lost {
		errs = append(errs, o.leave(ctx, tp, false))
	}
	if len(event.assigned) > 0 {
		o.assigned, o.recount = true, true
		for _, tp := range event.assigned {
			errs = append(errs, o.join(tp))
		}
		o.forgetRestored()
		if err := o.resolve(ctx); err != nil {
			// The round, or the caller outside a round, tries again and returns it.
			o.settings.logger.Warn("assigned partitions are not recovered yet", "error", err)
		}
	}
	o.settings.logger.Info("partitions rebalanced", "assigned", len(event.assigned), "revoked", len(event.revoked), "lost", len(event.lost))
	if o.settings.hooks.Rebalance != nil {
		o.settings.hooks.Rebalance(RebalanceInfo{Assigned: event.assigned, Revoked: event.revoked, Lost: event.lost})
	}
	return errors.Join(errs...)
}

// join takes one topic partition over. A logical partition that is new, or whose
// state has another topic to account for, has to be recovered.
func (o *ownership) join(tp TopicPartition) error {
	p := o.partition(tp.Partition)
	_, known := p.topics[tp.Topic]
	if p.owned && known {
		return nil
	}
	arrives := !p.owned || o.keepsState()
	if !p.owned {
		// Before the first assignment the partition may have been used without
		// being owned, and its state is that of a restore then.
		p = newLogicalPartition(tp.Partition)
		p.owned = true
		o.partitions[tp.Partition] = p
	}
	p.departed = nil
	p.topic(tp.Topic)
	if !arrives || p.phase == arriving {
		return nil
	}
	return o.enter(p, step{to: arriving, recovery: &recovery{started: time.Now()}})
}

// leave gives one topic partition up. The state of its logical partition goes
// with the last one.
func (o *ownership) leave(ctx context.Context, tp TopicPartition, save bool) error {
	p := o.partitions[tp.Partition]
	if p == nil || !p.owned || p.topics[tp.Topic] == nil {
		return nil
	}
	if len(p.topics) > 1 {
		if at, ok := p.positions()[tp]; ok {
			if p.departed == nil {
				p.departed = map[TopicPartition]int64{}
			}
			p.departed[tp] = at
		}
		o.unpause(p.topics[tp.Topic])
		delete(p.topics, tp.Topic)
		return nil
	}
	var err error
	if save && p.live() {
		err = o.saveLeaving(ctx, p)
	}
	return errors.Join(err, o.drop(p))
}

// drop ends a partition: its state is released.
func (o *ownership) drop(p *logicalPartition) error {
	o.cancelSaving(p)
	err := o.enter(p, step{to: leaving})
	o.topology.ReleasePartition(p.number)
	delete(o.partitions, p.number)
	delete(o.restored, p.number)
	return err
}

// dropAll ends every partition without saving it.
func (o *ownership) dropAll() error {
	var errs []error
	for _, p := range o.ordered() {
		errs = append(errs, o.drop(p))
	}
	clear(o.restored)
	return errors.Join(errs...)
}

// checkCounts fails when the partition counts of the topics with state have
// changed since the runner started. It looks once after each assignment; until it
// has, nothing is processed.
func (o *ownership) checkCounts(ctx context.Context) error {
	if o.counts == nil || o.settings.allowGrowth || !o.recount {
		return nil
	}
	counts, err := o.counter.PartitionCounts(ctx, o.shape.together)
	if err != nil {
		return textPrefix.Wrap(err, "partition counts")
	}
	counts = maps.Clone(counts)
	for topic, count := range counts {
		for _, p := range o.partitions {
			if p.topics[topic] != nil {
				// Whoever tells the counts may have learned less than the group.
				count = max(count, p.number+1)
			}
		}
		counts[topic] = count
	}
	if !maps.Equal(counts, o.counts) {
		return &terminalError{&PartitionCountError{Counts: counts, Before: o.counts}}
	}
	o.recount = false
	return nil
}

// checkOwnership fails when a partition with state is owned for some of its
// topics only.
func (o *ownership) checkOwnership() error {
	if !o.shape.stateful || len(o.shape.together) < 2 {
		return nil
	}
	var errs []error
	for _, p := range o.ordered() {
		var missing []TopicPartition
		for _, topic := range o.shape.together {
			if p.topics[topic] == nil {
				missing = append(missing, TopicPartition{topic, p.number})
			}
		}
		if p.owned && len(missing) > 0 && len(missing) < len(o.shape.together) {
			errs = append(errs, &PartialOwnershipError{Partition: p.number, Owned: p.partitions(), Missing: missing})
		}
	}
	return errors.Join(errs...)
}
