// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"slices"
)

// OnPartitionsAssigned takes partitions over: their committed offsets are read,
// a snapshot is chosen, and the consumer is sought to where it stands. Called
// from inside Poll, the state is loaded after it. Errors are returned by the
// next round, and the partitions are not processed before they are repaired.
func (r *GroupRunner) OnPartitionsAssigned(partitions []TopicPartition) {
	r.rebalance(rebalance{assigned: slices.Clone(partitions)})
}

// OnPartitionsRevoked saves the state of partitions that leave, and releases it. A
// [SnapshotStore] that does not take the state, or belongs to a newer owner by now,
// is reported through [Hooks]: the next owner repeats the history behind the
// snapshot before. The error of any other [StateStore] is returned by the next
// round. A call from another goroutine while a round is busy fails that round, as
// if the partitions were lost, because their next owner may be at work already.
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
	if r.terminal != nil {
		return
	}
	r.deferError(r.apply(ctx, event))
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
		if r.terminal == nil {
			r.deferError(r.apply(ctx, event))
		}
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
