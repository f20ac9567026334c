// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// round is one round in progress.
type round struct {
	poll     context.Context // bounds the poll
	ctx      context.Context // bounds everything else
	timeout  time.Duration
	producer TransactionalProducer // nil for at-least-once
	started  time.Time
	advance  *int64            // the stream time to move to, instead of a poll
	only     *logicalPartition // that moves to it; nil for all

	metadata any // identifies the generation that polled
	polled   int // records
	work     []*partitionWork
	outputs  []ProducedToTopic
	firing   *firing
	unknown  error                     // of a commit that may have taken effect
	aborted  bool                      // the transaction was
	offsets  map[TopicPartition]int64  // to be committed
	notes    map[TopicPartition]string // kept beside them
}

// partitionWork is what a round processes of one logical partition.
type partitionWork struct {
	*logicalPartition
	input map[string][]ConsumedRecord
	outcome
	journaled bool // the round is in the partition's journal
	metrics   MetricsSnapshot
}

// runRound runs one round of what a poll brings, and returns the offsets that it
// committed.
func (r *GroupRunner) runRound(poll, ctx context.Context, timeout time.Duration, producer TransactionalProducer) (map[TopicPartition]int64, error) {
	rd := &round{poll: poll, ctx: ctx, timeout: timeout, producer: producer}
	if err := r.takeTurn(rd); err != nil {
		return nil, err
	}
	return rd.offsets, nil
}

// takeTurn takes the runner's turn and runs a round.
func (r *GroupRunner) takeTurn(rd *round) error {
	if err := r.acquire(rd.poll); err != nil {
		return err
	}
	defer r.release()
	var interrupt, stop context.CancelFunc
	rd.ctx, interrupt = context.WithCancel(rd.ctx)
	defer interrupt()
	rd.poll, stop = context.WithCancel(rd.poll)
	defer stop()
	rd.started = time.Now()
	r.mu.Lock()
	r.interrupt = func() { interrupt(); stop() }
	r.mu.Unlock()
	finished := false
	defer func() {
		if !finished && r.terminal == nil {
			r.terminal = errors.New("columnar: a round ended in a panic")
		}
	}()
	err := r.advanceIdle(rd)
	if err == nil {
		err = r.execute(rd)
		r.report(rd, err)
	}
	finished = true
	return err
}

// execute runs a round from its preparation to its commit, or takes it back.
func (r *GroupRunner) execute(rd *round) error {
	if r.terminal != nil {
		return r.terminal
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
	attempt := r.attempt
	if rd.advance != nil {
		attempt = r.advanceAll
	}
	if err := attempt(rd); err != nil {
		return r.takeBack(rd, err)
	}
	return nil
}

// settle makes a fencing terminal.
func (r *GroupRunner) settle(err error) error {
	var fenced *FencedError
	if errors.As(err, &fenced) && r.terminal == nil {
		r.terminal = err
		r.dropState()
	}
	return err
}

// dropState forgets all partitions without saving them.
func (r *GroupRunner) dropState() {
	for number := range r.partitions {
		r.topology.ReleasePartition(number)
	}
	clear(r.partitions)
	clear(r.restored)
	r.alignment = alignment{}
	r.notePending()
}

// prepare does what comes before the poll: a transaction of which it is not known
// how it ended, errors of callbacks, recovery that
// has to be tried again, new cuts, and positions.
func (r *GroupRunner) prepare(rd *round) error {
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
		if p := r.partitions[tp.Partition]; p != nil && p.topics[tp.Topic] != nil {
			p.topics[tp.Topic].observe(position)
		}
	}
	return nil
}

// attempt polls, processes, sends and commits.
func (r *GroupRunner) attempt(rd *round) error {
	if err := r.fetch(rd); err != nil {
		return err
	}
	if err := r.takeStand(rd.ctx); err != nil {
		return err
	}
	r.align()
	r.selectWork(rd)
	if err := r.saveBases(rd); err != nil {
		return err
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
		return err
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
	timeout := rd.timeout
	if r.runnable() {
		timeout = 0
	}
	if waited, raised := r.signal.lower(); raised {
		r.stats.add(func(s *RuntimeStats) { s.LongestRebalanceWait = max(s.LongestRebalanceWait, waited) })
	}
	r.mu.Lock()
	r.phase, r.pollContext = phasePolling, rd.poll
	r.mu.Unlock()
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
			if records := progress.below(r.alignment.limit(p, progress)); len(records) > 0 {
				input[topic] = records
			}
		}
		if len(input) > 0 {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p, input: input})
		}
	}
}

// saveBases makes sure that everything this round may commit can be recovered:
// before the first record of a topic, the state that stands so far is saved with
// the position of that record.
func (r *GroupRunner) saveBases(rd *round) error {
	if r.snapshots == nil || !r.shape.stateful {
		return nil
	}
	for _, work := range rd.work {
		missing := work.snapshot.Sequence == 0
		for topic := range work.input {
			_, ok := work.snapshot.Positions[TopicPartition{topic, work.number}]
			missing = missing || !ok
		}
		if !missing {
			continue
		}
		if err := r.saveSnapshot(rd.ctx, work.logicalPartition, SnapshotInfo{Epoch: NoEpoch, Positions: work.positions()}); err != nil {
			return err
		}
	}
	return nil
}

// process runs the work of a round, partitions in parallel, and joins the
// outputs in ascending order.
func (r *GroupRunner) process(rd *round) error {
	failures := make([]error, len(rd.work))
	begun := make([]bool, len(rd.work))
	run := func(i int) {
		// The first partition runs in any case, so that each round gets on.
		if begun[i] = i == 0 || !r.signal.raised(); begun[i] {
			failures[i] = r.processPartition(rd.work[i])
		}
	}
	if len(rd.work) == 1 || r.settings.parallelism == 1 {
		for i := range rd.work {
			if run(i); failures[i] != nil {
				break
			}
		}
	} else {
		r.processInParallel(rd, run)
	}
	for _, err := range failures {
		if err != nil {
			r.stats.add(func(s *RuntimeStats) { s.FailedBatches++ })
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	r.postpone(rd, begun)
	for _, work := range rd.work {
		rd.outputs = append(rd.outputs, work.outputs...)
		rd.outputs = append(rd.outputs, r.deadLetters(work.excluded)...)
	}
	return nil
}

// postpone leaves what a round has not begun to process to the next one.
func (r *GroupRunner) postpone(rd *round, begun []bool) {
	work := rd.work[:0]
	for i, one := range rd.work {
		if begun[i] {
			work = append(work, one)
		}
	}
	if len(work) < len(rd.work) {
		r.stats.add(func(s *RuntimeStats) { s.RoundsCutShort++ })
	}
	rd.work = work
}

// processInParallel runs partitions at once. A panic of user code goes on in the
// round's own goroutine.
func (r *GroupRunner) processInParallel(rd *round, run func(i int)) {
	var group errgroup.Group
	group.SetLimit(r.settings.parallelism)
	panics := make(chan any, len(rd.work))
	for i := range rd.work {
		group.Go(func() error {
			finished := false
			defer func() {
				if !finished {
					panics <- recover()
				}
			}()
			run(i)
			finished = true
			return nil
		})
	}
	_ = group.Wait()
	select {
	case value := <-panics:
		panic(value)
	default:
	}
}

func (r *GroupRunner) processPartition(work *partitionWork) error {
	started := time.Now()
	result, err := r.runTolerant(work.number, work.input)
	if err != nil {
		return err
	}
	work.outcome = result
	work.metrics = MetricsSnapshot{Batches: 1, OutputRecords: int64(len(result.outputs)), ProcessingNanos: time.Since(started).Nanoseconds()}
	for _, records := range work.input {
		work.metrics.InputRecords += int64(len(records))
	}
	if len(result.excluded) > 0 {
		work.metrics.Failures = 1
	}
	if r.settings.policy.Action == ActionDeadLetter {
		work.metrics.DeadLetterRecords = int64(len(result.excluded))
	}
	return nil
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
			if !progress.hasCommitted || offset > progress.committed {
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

// report counts a round and calls the hook.
func (r *GroupRunner) report(rd *round, err error) {
	elapsed := time.Since(rd.started)
	info := RoundInfo{Outputs: len(rd.outputs), Duration: elapsed, Barrier: NoEpoch, Err: err}
	for _, work := range rd.work {
		for _, records := range work.input {
			info.Records += len(records)
		}
	}
	if rd.firing != nil {
		info.Barrier = rd.firing.cut.Epoch
	}
	// The end of its context while a round waits for records is no failure.
	ended := len(rd.work) == 0 && rd.poll.Err() != nil && errors.Is(err, rd.poll.Err())
	idle := ended || (err == nil && len(rd.work) == 0 && len(rd.offsets) == 0)
	r.stats.add(func(s *RuntimeStats) {
		s.LongestRound = max(s.LongestRound, elapsed)
		switch {
		case idle:
			s.EmptyRounds++
		case err != nil:
			s.RoundsFailed++
		default:
			s.Rounds++
		}
	})
	if err != nil && !idle {
		r.settings.logger.Warn("round failed", "error", err)
	}
	if r.settings.hooks.Round != nil && !idle {
		info.Offsets = maps.Clone(rd.offsets)
		r.settings.hooks.Round(info)
	}
}
