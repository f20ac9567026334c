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

// RunOnce runs one round with at-least-once commits, and returns the offsets
// that it committed. The map is empty when there was nothing to commit.
//
// The round polls once and waits there at most pollTimeout. When ctx ends, the
// round ends with its error and has not happened. After any error the same
// records come again, except: a [*FencedError] and a [*RollbackError] are
// terminal, every later round returns them; [ErrRunnerClosed] follows
// [GroupRunner.Close]. Errors of rebalance callbacks are returned by the round
// that follows them.
func (r *GroupRunner) RunOnce(ctx context.Context, pollTimeout time.Duration) (map[TopicPartition]int64, error) {
	return r.runRound(ctx, ctx, pollTimeout, nil)
}

// RunOnceTransactional is [GroupRunner.RunOnce] with outputs and offsets in one
// transaction. The producer must be a [TransactionalProducer].
//
// A round that finds nothing to do leaves its transaction begun for the next
// one. When the outcome of a commit is not known, the committed offsets tell: the
// round succeeds if they moved, and fails if they did not. While nobody can tell,
// because the transaction cannot be ended or the offsets cannot be read, rounds
// return a [*CommitUnknownError] and process nothing; once it is known, state that
// the group has gone beyond recovers first. A runner that can never know, or
// cannot recover, is done: a consumer without [CommittedReader], a topology with
// state and a store that is no [SnapshotStore].
func (r *GroupRunner) RunOnceTransactional(ctx context.Context, pollTimeout time.Duration) (map[TopicPartition]int64, error) {
	producer, ok := r.producer.(TransactionalProducer)
	if !ok {
		return nil, errors.New("producer does not support transactions")
	}
	return r.runRound(ctx, ctx, pollTimeout, producer)
}

// acquire waits for the runner's turn and makes the caller the one who may touch
// its state.
func (r *GroupRunner) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.closing {
		<-r.turn
		return ErrRunnerClosed
	}
	r.phase = phaseBusy
	return nil
}

// release applies what callbacks left behind, and ends the turn.
func (r *GroupRunner) release() {
	r.mu.Lock()
	r.applyEvents(context.Background())
	r.phase = phaseIdle
	r.mu.Unlock()
	<-r.turn
}

// runRound runs one round of what a poll brings, and returns the offsets that it
// committed.
func (r *GroupRunner) runRound(poll, ctx context.Context, timeout time.Duration, producer TransactionalProducer) (map[TopicPartition]int64, error) {
	rd := &round{poll: poll, ctx: ctx, timeout: timeout, producer: producer, attempt: r.attempt}
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

// Run runs rounds until ctx ends, and closes the runner: transactional rounds
// where the producer is a [TransactionalProducer], at-least-once ones otherwise.
//
// When ctx ends, a round that has polled may finish within the time of
// [WithCloseTimeout]. A round that failed and may be tried again is followed by a
// pause, which [WithBackoff] sets; any other error ends Run. Run returns nil when
// ctx ended or the runner was closed meanwhile, and what went wrong otherwise, joined
// with the error of the close. A runner that has ended returns [ErrRunnerClosed].
func (r *GroupRunner) Run(ctx context.Context) error {
	producer, _ := r.producer.(TransactionalProducer)
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		late := time.NewTimer(r.settings.closeTimeout)
		defer late.Stop()
		select {
		case <-late.C:
			cut()
		case <-work.Done():
		}
	})()
	backoff := r.settings.minBackoff
	if r.isClosing() {
		return ErrRunnerClosed
	}
	for ctx.Err() == nil {
		_, err := r.runRound(ctx, work, r.settings.pollTimeout, producer)
		switch {
		case err == nil:
			backoff = r.settings.minBackoff
			continue
		case errors.Is(err, ErrRunnerClosed):
			return nil
		case r.ended(ctx, err):
			return r.Close()
		case !r.mayRetry(err):
			return errors.Join(err, r.Close())
		}
		r.settings.logger.Info("the round is tried again", "after", backoff)
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		backoff = min(2*backoff, r.settings.maxBackoff)
	}
	return r.Close()
}

// ended reports whether an error of a round is that of the end of Run's context, or
// of a Close, and nothing else has gone wrong for good.
func (r *GroupRunner) ended(ctx context.Context, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal != nil {
		return false
	}
	return ctx.Err() != nil && errors.Is(err, ctx.Err()) || r.closing && errors.Is(err, context.Canceled)
}

// isClosing reports whether Close has been called.
func (r *GroupRunner) isClosing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}

// mayRetry reports whether another round may succeed after a failed one.
func (r *GroupRunner) mayRetry(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal != nil {
		return false
	}
	return IsRetriable(err) || errors.As(err, new(*CommitUnknownError))
}

// Close lets the round in progress finish, within the time of
// [WithCloseTimeout], saves the state of every owned partition, and releases it.
// A poll in progress is cut short, and so is the wait for a broker to join at. It
// returns everything that went wrong, also in rebalance callbacks that no round
// followed; a second Close does nothing and returns nil. Close must not be called
// from a hook or the barrier listener.
//
// Consumer and producer stay the caller's: close them afterwards. Leaving the
// group is the consumer's to do.
func (r *GroupRunner) Close() error {
	var err error
	r.closeOnce.Do(func() { err = r.close() })
	return err
}

func (r *GroupRunner) close() error {
	r.mu.Lock()
	r.closing = true
	interrupt := r.interrupt
	if interrupt != nil && (r.joining || r.phase == phasePolling) {
		interrupt()
	}
	r.mu.Unlock()
	late := time.NewTimer(r.settings.closeTimeout)
	defer late.Stop()
	select {
	case r.turn <- struct{}{}:
	case <-late.C:
		if interrupt != nil {
			interrupt()
		}
		r.turn <- struct{}{}
	}
	defer func() { <-r.turn }()
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), max(r.settings.closeTimeout, settleTimeout))
	defer cancel()
	r.applyEvents(ctx)
	errs := []error{r.takeDeferred()}
	switch producer, ok := r.producer.(TransactionalProducer); {
	case ok && r.open:
		r.open = false
		errs = append(errs, abortTransaction(ctx, producer))
	case r.terminal == nil:
		errs = append(errs, r.settle(r.settleTransaction(ctx)))
	}
	for _, p := range r.ordered() {
		if p.owned && p.live() && r.terminal == nil {
			errs = append(errs, r.saveOutsideBarriers(ctx, p))
		}
	}
	r.takeFinished()
	errs = append(errs, r.dropAll())
	for _, s := range r.abandoned {
		if !s.finished(ctx) {
			errs = append(errs, fmt.Errorf("columnar: state of partition %d is still being written", s.info.Partition))
		}
	}
	r.reportBarriers()
	if r.alignment.unwatch != nil {
		r.alignment.unwatch()
		r.alignment.unwatch = nil
	}
	errs = append(errs, r.entry.leave())
	r.closed = true
	errs = append(errs, r.topology.Close())
	return errors.Join(errs...)
}

// Lag asks the broker how many offsets lie between the group's commits, or where
// nothing is committed the positions, and the end of each owned partition that
// the consumer may read. The consumer must be an [OffsetRangeReader]. Lag waits
// for a round in progress, within ctx. A partition whose position is not known
// yet is left out. Brokers that do not answer are an error, also where the member has
// lost its partitions for it; [GroupRunner.LastLag] has the lag that was known before,
// with its time.
func (r *GroupRunner) Lag(ctx context.Context) (map[TopicPartition]int64, error) {
	if r.ranges == nil {
		return nil, errors.New("columnar: the consumer cannot tell end offsets")
	}
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	at := map[TopicPartition]int64{}
	for _, p := range r.partitions {
		for _, progress := range p.topics {
			switch {
			case progress.hasCommitted:
				at[progress.TopicPartition] = progress.committed
			case progress.known:
				at[progress.TopicPartition] = progress.processed
			}
		}
	}
	r.release()
	if len(at) == 0 && r.counter != nil {
		// Nothing may be owned, or the brokers be away.
		if _, err := r.counter.PartitionCounts(ctx, r.shape.topics); err != nil {
			return nil, textPrefix.Wrap(err, "lag")
		}
	}
	ends, err := r.ranges.EndOffsets(ctx, slices.SortedFunc(maps.Keys(at), compareTopicPartitions))
	if err != nil {
		return nil, textPrefix.Wrap(err, "end offsets")
	}
	lag := map[TopicPartition]int64{}
	for tp, end := range ends {
		if position, ok := at[tp]; ok {
			lag[tp] = max(0, end-position)
		}
	}
	r.pulse.noteLag(lag)
	return lag, nil
}

// AdvanceTime moves the stream time of every owned partition to at least
// timestamp, in milliseconds since the Unix epoch, and sends what that closes, in
// a transaction of its own where the producer is a [TransactionalProducer]. It is
// for input that has become silent: no record will push the last windows out. A
// partition is left out while records of it wait for a barrier, since time would
// pass them, and until it has recovered.
//
// It is a round without records: after an error it has not happened, and errors
// are those of [GroupRunner.RunOnce]. With a [TransactionalProducer] that is an
// [OffsetNoter], and a [JournalStore] where the topology has state, what an advance
// sends is committed once, also through crashes and commits of unknown outcome;
// otherwise a crash right behind the send can make a later advance send it again.
func (r *GroupRunner) AdvanceTime(ctx context.Context, timestamp int64) error {
	producer, _ := r.producer.(TransactionalProducer)
	return r.takeTurn(&round{poll: ctx, ctx: ctx, producer: producer, attempt: r.advanceAll, advance: &timestamp})
}

// Health returns why the runner does not process records, or nil: it has been closed
// ([ErrRunnerClosed]), the latest round has failed and why, a round has been running
// for more than a minute beyond its wait for records, or none has ended yet. It asks
// no broker and waits for no round, so a readiness probe may call it at any time.
//
// Rounds fail while brokers are away, and go on by themselves: a probe that restarts
// the service should allow for that. A runner without partitions is healthy.
func (r *GroupRunner) Health(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.isClosing() {
		return ErrRunnerClosed
	}
	return r.pulse.check()
}

// LastLag returns what the latest [GroupRunner.Lag] that succeeded has returned, and
// when it did; nil and the zero time if none has. It waits for nothing.
func (r *GroupRunner) LastLag() (lag map[TopicPartition]int64, at time.Time) {
	r.pulse.mu.Lock()
	defer r.pulse.mu.Unlock()
	return maps.Clone(r.pulse.lag), r.pulse.lagAt
}
