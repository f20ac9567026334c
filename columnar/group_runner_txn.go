// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// settleTimeout bounds the calls that take a failed round back. They run also
// when the round's context has ended.
const settleTimeout = 30 * time.Second

var errLostDuringRound = errors.New("partitions were lost while their records were processed")

// finish sends the outputs of a round, saves what recovery needs, and commits.
func (r *GroupRunner) finish(rd *round) error {
	if len(rd.work) == 0 && len(rd.offsets) == 0 {
		r.snapshotOne(rd.ctx)
		r.bound()
		return nil
	}
	if err := sendAll(rd.ctx, rd.outputs, r.producer, r.settings.maxInFlight); err != nil {
		return textPrefix.Wrap(err, "sending outputs")
	}
	if err := r.appendJournal(rd); err != nil {
		return err
	}
	if rd.firing != nil {
		if err := r.saveBarrier(rd.ctx, rd.firing); err != nil {
			return textPrefix.Wrap(err, "barrier snapshot at epoch %d", rd.firing.cut.Epoch)
		}
	}
	if err := r.commit(rd); err != nil {
		return err
	}
	r.conclude(rd)
	return nil
}

// appendJournal writes the rounds that recovery could not repeat from the records
// alone.
func (r *GroupRunner) appendJournal(rd *round) error {
	if r.journal == nil || !r.shape.stateful {
		return nil
	}
	for _, work := range rd.work {
		if !r.journals(rd, work) {
			continue
		}
		if err := r.claim(rd.ctx, work.logicalPartition); err != nil {
			return err
		}
		entry := &journalRound{number: work.round, transactional: rd.producer != nil, excluded: offsetRanges(work.excluded), advance: rd.advance}
		for _, progress := range work.inOrder() {
			if progress.known {
				entry.ranges = append(entry.ranges, offsetRange{progress.Topic, progress.processed, progress.behind(len(work.input[progress.Topic]))})
			}
		}
		work.journalStale = true
		if err := r.journal.AppendRound(rd.ctx, work.number, work.generation, entry.encode()); err != nil {
			return err
		}
		work.journaled = true
	}
	return nil
}

// journals reports whether a round of a partition goes into the journal before it
// is committed. An advance of time does where a note beside the committed offsets
// will tell whether it was.
func (r *GroupRunner) journals(rd *round, work *partitionWork) bool {
	if rd.advance == nil {
		return r.shape.interleaved || len(work.excluded) > 0 || work.journalStale
	}
	if r.noter == nil || work.snapshot.Sequence == 0 {
		return false
	}
	for tp := range rd.offsets {
		if tp.Partition == work.number {
			return true
		}
	}
	return false
}

// commit commits the offsets of a round. An advance of time that produces nothing
// has nothing to commit.
func (r *GroupRunner) commit(rd *round) error {
	if rd.advance != nil && len(rd.outputs) == 0 {
		return nil
	}
	if err := r.stillOwned(rd); err != nil {
		return err
	}
	if rd.producer == nil {
		if len(rd.offsets) == 0 {
			return nil
		}
		if err := r.consumer.CommitOffsets(rd.ctx, maps.Clone(rd.offsets)); err != nil {
			return textPrefix.Wrap(err, "committing offsets")
		}
		return nil
	}
	return r.commitTransaction(rd)
}

// stillOwned fails when a callback from outside the poll has taken partitions of
// the round away for good.
func (r *GroupRunner) stillOwned(rd *round) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.events {
		for _, tp := range event.lost {
			if _, ok := rd.offsets[tp]; ok {
				return &RebalancedError{Cause: fmt.Errorf("%s/%d: %w", tp.Topic, tp.Partition, errLostDuringRound)}
			}
		}
	}
	return nil
}

// takeBack makes a failed round one that has not happened: the transaction is
// aborted, state returns to what it was, and the consumer to the first
// uncommitted records.
func (r *GroupRunner) takeBack(rd *round, cause error) error {
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	if rd.producer != nil && r.open {
		r.open, rd.aborted = false, true
		r.stats.add(func(s *RuntimeStats) { s.TransactionsAborted++ })
		if err := abortTransaction(ctx, rd.producer); err != nil {
			cause = r.leaveOpen(rd, errors.Join(cause, textPrefix.Wrap(err, "aborting")))
		}
	}
	if err := r.settle(cause); r.terminal != nil {
		return err
	}
	var rollback *RollbackError
	if errors.As(cause, &rollback) {
		r.terminal = cause
		return cause
	}
	if err := r.rollBack(rd); err != nil {
		r.terminal = errors.Join(cause, err)
		return r.terminal
	}
	for _, p := range r.ordered() {
		for _, progress := range p.inOrder() {
			r.returnToCommitted(progress, rd.aborted)
		}
	}
	r.bound()
	return cause
}

// rollBack takes the changes of state of a round back.
func (r *GroupRunner) rollBack(rd *round) error {
	var failed []int
	var errs []error
	for _, work := range rd.work {
		if err := r.topology.rollbackPartition(work.number); err != nil {
			failed = append(failed, work.number)
			errs = append(errs, err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &RollbackError{Partitions: failed, Cause: errors.Join(errs...)}
}

// returnToCommitted forgets what was delivered of a topic and not committed, and
// seeks the consumer back to it. A partition that cannot be sought, because it
// has just left the member for one, is sought again before the next poll. An
// aborted transaction may have moved the consumer by itself, so every partition
// is sought then.
func (r *GroupRunner) returnToCommitted(progress *topicProgress, aborted bool) {
	if !progress.known || progress.misplaced {
		return
	}
	if !aborted && len(progress.queue) == 0 && progress.delivered == progress.processed {
		return
	}
	progress.clear()
	progress.delivered = progress.processed
	r.seek(progress)
}

// conclude makes what a round did permanent.
func (r *GroupRunner) conclude(rd *round) {
	for _, work := range rd.work {
		r.topology.commitPartition(work.number)
		work.dirty = true
		if work.journaled {
			work.round++
			work.journalStale = false
		} else if rd.advance != nil {
			r.recordAdvance(rd, work.logicalPartition)
		}
		for topic, records := range work.input {
			progress := work.topics[topic]
			progress.advance(len(records), progress.behind(len(records)))
		}
		r.settings.metrics.add(work.metrics)
		r.stats.add(func(s *RuntimeStats) { s.RecordsSkipped += int64(len(work.excluded)) })
	}
	for tp, offset := range rd.offsets {
		r.partitions[tp.Partition].topics[tp.Topic].commit(offset)
	}
	if rd.firing != nil {
		r.closeBarrier(rd.ctx, rd)
	}
	for _, work := range rd.work {
		if rd.advance == nil && work.snapshot.Sequence > 0 && !work.snapshot.Confirmed {
			r.confirm(rd.ctx, work.logicalPartition)
		}
	}
	r.snapshotOne(rd.ctx)
	r.bound()
}

// confirm marks the newest snapshot of a partition as one whose offsets are
// committed. Failing that, it is tried again after the next round.
func (r *GroupRunner) confirm(ctx context.Context, p *logicalPartition) {
	ctx, cancel := settling(ctx)
	defer cancel()
	saved := p.snapshot
	saved.Generation = p.generation
	if err := r.snapshots.ConfirmSnapshot(ctx, saved); err != nil {
		r.reportError(err)
		return
	}
	p.snapshot.Confirmed = true
}

// snapshotOne saves the partition whose turn it is to be saved outside barriers:
// one a round, so that no round pays for all.
func (r *GroupRunner) snapshotOne(ctx context.Context) {
	if r.snapshots == nil || !r.shape.stateful {
		return
	}
	var due *logicalPartition
	for _, p := range r.ordered() {
		if !p.live() || !p.dirty || time.Since(p.lastSnapshot) < r.settings.snapshotInterval {
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
	if err := r.saveSnapshot(ctx, due, SnapshotInfo{Epoch: NoEpoch, Positions: due.positions(), Confirmed: true}); err != nil {
		r.reportError(err)
	}
}

// settling returns a context for what has to be done also when ctx has ended.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}

func (r *GroupRunner) sendOffsets(rd *round) error {
	offsets := maps.Clone(rd.offsets)
	if r.note(rd); rd.notes != nil {
		return r.noter.SendOffsetsNoted(rd.ctx, offsets, maps.Clone(rd.notes), rd.metadata)
	}
	if contextual, ok := rd.producer.(ContextTransactionalProducer); ok {
		return contextual.SendOffsetsContext(rd.ctx, offsets, rd.metadata)
	}
	return rd.producer.SendOffsets(offsets, rd.metadata)
}

func commitTransaction(ctx context.Context, producer TransactionalProducer) error {
	if contextual, ok := producer.(ContextTransactionalProducer); ok {
		return contextual.CommitTransactionContext(ctx)
	}
	return producer.CommitTransaction()
}

func abortTransaction(ctx context.Context, producer TransactionalProducer) error {
	if contextual, ok := producer.(ContextTransactionalProducer); ok {
		return contextual.AbortTransactionContext(ctx)
	}
	return producer.AbortTransaction()
}
