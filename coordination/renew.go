// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
)

// Renew writes a fresh lease record under the same epoch. The background loop
// calls it at every renew interval, and a caller that drives its own schedule
// calls it too; the writes take turns.
//
// A renewal that the broker fences ends the leadership: Done is closed and the
// returned error matches [ErrFenced]. Any other failure, the end of ctx
// included, leaves the leadership as it is. After the end, Renew makes no call
// and returns an error that matches [ErrNotHeld] and the reason.
func (l *Leadership) Renew(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	l = l.orNobody()
	if err := l.ended(); err != nil {
		return err
	}
	pass, err := l.take(ctx)
	if err != nil {
		return l.elector.failed("renew", err)
	}
	defer pass()
	if err := l.ended(); err != nil {
		return err
	}
	now := l.elector.now()
	lease := l.elector.lease.Grant(l.elector.member, l.Token(), l.sent.nextGrantedAt(now))
	l.sent = &grant{timing: l.elector.lease.Timing(lease), taken: now}
	offset, err := l.elector.writeLease(ctx, lease)
	l.track()
	if err != nil {
		return l.refused(err)
	}
	l.offset.CompareAndSwap(-1, offset)
	l.held.Store(l.sent)
	return l.ended()
}

// refused ends the leadership after a write that shows that no other can
// succeed, and returns the error of the write.
func (l *Leadership) refused(err error) error {
	if errors.Is(err, ErrFenced) || errors.Is(err, ErrTransportClosed) {
		l.end("leadership ended", err)
	}
	return err
}

var errHangs = fmt.Errorf("a renewal hangs: %w", context.DeadlineExceeded)

// failure is a renewal that failed, and the lease that it meant to replace.
type failure struct {
	held  *grant
	cause error
	told  error // the last cause that is more than the end of its time, or nil
}

func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func (f failure) next(held *grant, cause error) failure {
	if f.held != held {
		f = failure{held: held}
	}
	f.cause = cause
	if !timedOut(cause) {
		f.told = cause
	}
	return f
}

func (f failure) reason() error {
	if f.told == nil || !timedOut(f.cause) {
		return f.cause
	}
	return fmt.Errorf("%w; the failure before: %w", f.cause, f.told)
}

// keep renews the lease until the leadership ends.
//
// The loop ends the leadership itself when the lease is over and a renewal has
// failed or hangs. A lease that is over without an attempt, because the
// process was paused, is renewed first: the holder may still own the newest
// epoch, and the broker says so.
func (l *Leadership) keep() {
	var last failure
	for {
		held, now := l.held.Load(), l.elector.now()
		wait := held.untilRenewal(now)
		if last.held == held {
			wait = min(l.elector.poll, held.untilExpiry(now))
		}
		if wait > 0 && !l.elector.sleep(context.Background(), l.done, now, wait) || l.Err() != nil {
			return
		}
		if l.held.Load() != held {
			continue
		}
		if last.held == held && held.untilExpiry(l.elector.now()) == 0 {
			l.expire(last.reason())
			return
		}
		if cause := l.attempt(held, last); cause != nil && l.Err() == nil {
			l.elector.logs().Warn("could not renew the lease", logError, cause)
			last = last.next(held, cause)
		}
	}
}

func (l *Leadership) expire(cause error) {
	l.end("leadership ended", fmt.Errorf("%w: %w", ErrLeaseExpired, cause))
}

// attempt renews once. It returns when the renewal did, and ends the
// leadership when the lease is over before that. last is the failure before it.
func (l *Leadership) attempt(held *grant, last failure) error {
	began := l.elector.now()
	bound := held.attemptBound(began, l.elector.poll)
	ctx, cancel := l.elector.withTimeout(context.Background(), bound)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- l.Renew(ctx) }()
	// A step of the wall clock takes no time from the attempt.
	patience := max(held.untilExpiry(began), min(bound, held.left(began)))
	if patience == 0 {
		patience = bound
	}
	for {
		over, stop := l.elector.limit(patience)
		select {
		case err := <-result:
			stop()
			return err
		case <-over:
		}
		select {
		case err := <-result:
			return err
		default:
		}
		// The caller may have renewed meanwhile.
		renewed := l.held.Load()
		patience = renewed.untilExpiry(l.elector.now())
		if renewed == held || patience == 0 {
			l.expire(last.next(held, errHangs).reason())
			return <-result
		}
		held = renewed
	}
}

// watch ends the leadership when the transport knows that it was superseded,
// and resigns when its lifetime ends.
func (l *Leadership) watch(superseded <-chan struct{}) {
	select {
	case <-l.done:
	case <-superseded:
		l.supersede()
	case <-l.elector.lifetime:
		ctx, cancel := l.elector.detached(context.Background())
		defer cancel()
		if err := l.Resign(ctx); err != nil {
			l.elector.logs().Warn("could not clear the lease", logError, err)
		}
	}
}

func (l *Leadership) supersede() {
	l.end("leadership ended", errNewerEpoch)
}
