// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// execute runs a round from its preparation to its commit, or takes it back.
func (r *GroupRunner) execute(rd *round) error {
	r.pulse.begin(rd.started.Add(rd.timeout))
	if r.terminal != nil {
		return r.terminal
	}
	if err := r.join(rd); err != nil {
		return r.settle(err)
	}
	if err := r.prepare(rd); err != nil {
		return r.settle(err)
	}
	if rd.producer != nil && !r.open {
		if err := rd.producer.BeginTransaction(); err != nil {
			return r.settle(textPrefix.Wrap(err, "beginning a transaction"))
		}
		r.open = true
	}
	if err := rd.attempt(rd); err != nil {
		return r.takeBack(rd, err)
	}
	return nil
}

// join makes the runner a member of its group. A Close cuts the wait for a broker short.
func (r *GroupRunner) join(rd *round) error {
	if r.entry.topics == nil {
		return nil
	}
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return ErrRunnerClosed
	}
	r.joining = true
	r.mu.Unlock()
	err := r.entry.join(rd.poll, r)
	r.mu.Lock()
	r.joining = false
	r.mu.Unlock()
	return err
}

// prepare does what comes before the poll: a transaction of which it is not known
// how it ended, errors of callbacks, recovery that
// has to be tried again, new cuts, and positions.
func (r *GroupRunner) prepare(rd *round) error {
	r.takeFinished()
	r.reportBarriers()
	if err := r.settleTransaction(rd.ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.applyEvents(rd.ctx)
	r.mu.Unlock()
	if err := r.takeDeferred(); err != nil {
		return err
	}
	if err := r.recoverPartitions(rd.ctx); err != nil {
		return err
	}
	if err := r.seekMisplaced(); err != nil {
		return err
	}
	if err := r.refreshCuts(rd.ctx); err != nil {
		return err
	}
	return r.readPositions(rd.ctx)
}

// readPositions learns where the consumer stands in partitions that deliver
// nothing.
func (r *GroupRunner) readPositions(ctx context.Context) error {
	if r.positions == nil || !r.assigned {
		return nil
	}
	var partitions []TopicPartition
	for _, p := range r.ordered() {
		if p.owned {
			partitions = append(partitions, p.partitions()...)
		}
	}
	if len(partitions) == 0 {
		return nil
	}
	slices.SortFunc(partitions, compareTopicPartitions)
	positions, err := r.positions.Positions(ctx, partitions)
	if err != nil {
		return textPrefix.Wrap(err, "positions")
	}
	for tp, position := range positions {
		if progress := r.progress(tp); progress != nil {
			progress.observe(position)
		}
	}
	return nil
}

// attempt polls, processes, sends and commits.
func (r *GroupRunner) attempt(rd *round) error {
	certain := r.certainOffsets()
	if err := r.fetch(rd); err != nil {
		return err
	}
	if err := r.takeStand(rd.ctx); err != nil {
		return err
	}
	if err := r.hearNews(rd.ctx, certain); err != nil {
		return err
	}
	r.align()
	r.selectWork(rd)
	for _, work := range rd.work {
		if err := r.saveBase(rd.ctx, work.logicalPartition, work.input); err != nil {
			return err
		}
	}
	if err := r.process(rd); err != nil {
		return err
	}
	r.decide(rd)
	return r.finish(rd)
}

// takeStand brings the partitions that the runner owns to where the group has
// committed, as far as their history has been delivered.
func (r *GroupRunner) takeStand(ctx context.Context) error {
	if r.terminal != nil {
		return r.terminal
	}
	if err := r.checkCounts(ctx); err != nil {
		return r.settle(err)
	}
	if err := r.recoverPartitions(ctx); err != nil {
		return err
	}
	if err := r.checkOwnership(); err != nil {
		return err
	}
	if err := r.commitRestored(ctx); err != nil {
		return err
	}
	for _, p := range r.ordered() {
		if p.replay != nil {
			if err := r.repeat(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch polls once and queues the records of partitions that the runner owns.
func (r *GroupRunner) fetch(rd *round) error {
	timeout := r.alignment.announced.remaining(time.Now(), r.settings.announcementHold, rd.timeout)
	if r.runnable() {
		timeout = 0
	}
	if waited, raised := r.signal.lower(); raised {
		r.stats.add(func(s *RuntimeStats) { s.LongestRebalanceWait = max(s.LongestRebalanceWait, waited) })
	}
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return ErrRunnerClosed
	}
	r.phase, r.pollContext = phasePolling, rd.poll
	r.mu.Unlock()
	rd.asked = true
	fetched, err := r.consumer.Poll(rd.poll, timeout)
	r.mu.Lock()
	r.phase, r.pollContext = phaseBusy, nil
	r.mu.Unlock()
	rd.metadata = r.consumer.GroupMetadata()
	if err == nil {
		r.polled = time.Now()
	}
	for _, p := range r.partitions {
		for _, progress := range p.topics {
			progress.sought = progress.sought && err != nil
		}
	}
	// What came with an error is queued as well, so that the consumer is sought
	// back to it.
	refused := r.enqueue(rd, fetched)
	if err != nil {
		err = r.passGaps(rd.ctx, textPrefix.Wrap(err, "polling"))
	}
	return firstError(err, refused, rd.poll.Err())
}

// enqueue queues fetched records of partitions that the runner owns. Partitions
// whose records are no sequence are sought anew before the next poll.
func (r *GroupRunner) enqueue(rd *round, fetched map[TopicPartition][]ConsumedRecord) error {
	var errs []error
	for _, tp := range slices.SortedFunc(maps.Keys(fetched), compareTopicPartitions) {
		records := fetched[tp]
		p := r.partitions[tp.Partition]
		if r.assigned && (p == nil || !p.owned || p.topics[tp.Topic] == nil) {
			continue
		}
		if len(records) == 0 {
			continue
		}
		p = r.partition(tp.Partition)
		progress := p.topic(tp.Topic)
		if progress.misplaced {
			continue
		}
		if err := checkFetched(tp, records); err != nil {
			progress.misplaced = progress.known
			errs = append(errs, err)
			continue
		}
		progress.take(records)
		if r.settings.idleTimeout > 0 {
			p.idle.touch(records)
		}
		rd.polled += len(records)
	}
	return errors.Join(errs...)
}

// runnable reports whether queued records can run without another fetch.
func (r *GroupRunner) runnable() bool {
	for _, p := range r.partitions {
		if !p.live() {
			continue
		}
		for _, progress := range p.topics {
			if len(progress.below(r.alignment.limit(p, progress))) > 0 {
				return true
			}
		}
	}
	return false
}

// selectWork takes from each live partition the records that lie before the pending
// cut.
func (r *GroupRunner) selectWork(rd *round) {
	for _, p := range r.ordered() {
		if !p.live() {
			continue
		}
		input := map[string][]ConsumedRecord{}
		for topic, progress := range p.topics {
			records := progress.below(r.alignment.limit(p, progress))
			if most := r.settings.pollRecords; most > 0 && len(records) > most {
				records = records[:most:most] // what waited for a cut is several polls
			}
			if len(records) > 0 {
				input[topic] = records
			}
		}
		if len(input) > 0 {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p, input: input})
		}
	}
}

// decide works out which offsets the round commits, and whether its barrier
// fires.
func (r *GroupRunner) decide(rd *round) {
	rd.offsets = map[TopicPartition]int64{}
	taken := map[TopicPartition]int{}
	for _, work := range rd.work {
		for topic, records := range work.input {
			progress := work.topics[topic]
			taken[progress.TopicPartition] = len(records)
			offset := progress.next(len(records))
			if progress.uncommitted(offset) {
				rd.offsets[progress.TopicPartition] = offset
			}
		}
	}
	if rd.polled == 0 && len(rd.work) == 0 {
		r.commitGaps(rd)
	}
	rd.firing = r.fire(taken)
	if rd.firing == nil {
		return
	}
	for _, progress := range rd.firing.aligned {
		cut := r.alignment.pending.Offsets[progress.TopicPartition]
		offset := max(cut, rd.offsets[progress.TopicPartition])
		if progress.hasCommitted {
			offset = max(offset, progress.committed)
		}
		rd.offsets[progress.TopicPartition] = offset
	}
}

// commitGaps commits, in a round without records, the positions of partitions
// where nothing waits: the offsets behind the last record that will never hold
// one.
func (r *GroupRunner) commitGaps(rd *round) {
	for _, p := range r.partitions {
		if !p.live() || !p.owned || rd.producer == nil && p.journalStale {
			// A round that failed is in the journal of the last: a commit behind it
			// would look like its own.
			continue
		}
		for _, progress := range p.topics {
			if progress.hasCommitted && len(progress.queue) == 0 && progress.delivered > progress.committed {
				rd.offsets[progress.TopicPartition] = progress.delivered
			}
		}
	}
}

// finish sends the outputs of a round, saves what recovery needs, and commits.
func (r *GroupRunner) finish(rd *round) error {
	if len(rd.work) == 0 && len(rd.offsets) == 0 {
		r.snapshotOne(rd.ctx)
		r.takeFinished()
		r.reportBarriers()
		r.bound(r.alignment.limit)
		return nil
	}
	if err := sendAll(rd.ctx, rd.outputs, r.producer, r.settings.maxInFlight); err != nil {
		return textPrefix.Wrap(err, "sending outputs")
	}
	if err := r.appendJournal(rd); err != nil {
		return err
	}
	if rd.firing != nil {
		if err := r.copyBarrier(rd.ctx, rd.firing); err != nil {
			return textPrefix.Wrap(err, "barrier snapshot at epoch %d", rd.firing.cut.Epoch)
		}
	}
	if err := r.stillOwned(rd); err != nil {
		return err
	}
	if err := r.commit(rd); err != nil {
		return err
	}
	r.conclude(rd)
	return nil
}

// stillOwned fails when a callback from outside the poll has taken partitions of
// the round away: their next owner may have begun already.
func (r *GroupRunner) stillOwned(rd *round) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.events {
		for _, tp := range slices.Concat(event.lost, event.revoked) {
			if _, ok := rd.offsets[tp]; ok {
				return &RebalancedError{Cause: fmt.Errorf("%s/%d: %w", tp.Topic, tp.Partition, errLeftDuringRound)}
			}
		}
	}
	return nil
}

var errLeftDuringRound = errors.New("the partition left the member while its records were processed")

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
	if cause = r.settle(cause); r.terminal != nil {
		return cause
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
	r.rewindAll(rd.aborted)
	r.bound(r.alignment.limit)
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
		r.reportSetAside(work.excluded)
	}
	for tp, offset := range rd.offsets {
		r.progress(tp).commit(offset)
	}
	if rd.firing != nil {
		r.closeBarrier(rd)
	}
	if rd.aborted {
		// The abort that settled the commit has taken the consumer to the committed
		// offsets, past what replaying partitions have yet to read.
		r.rewindAll(true)
	}
	for _, work := range rd.work {
		if rd.advance == nil && work.snapshot.Sequence > 0 && !work.snapshot.Confirmed && work.saving == nil {
			r.confirm(rd.ctx, work.logicalPartition)
		}
	}
	r.snapshotOne(rd.ctx)
	r.takeFinished()
	r.reportBarriers()
	r.bound(r.alignment.limit)
}
