// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
// A poll in progress is cut short. It returns everything that went wrong, also
// in rebalance callbacks that no round followed; a second Close does nothing and
// returns nil. Close must not be called from a hook or the barrier listener.
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
	if interrupt != nil && r.phase == phasePolling {
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
	r.closed = true
	errs = append(errs, r.topology.Close())
	return errors.Join(errs...)
}
