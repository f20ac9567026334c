// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
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
