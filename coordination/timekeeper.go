// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"sync"
	"time"
)

// moment is one reading of both clocks of a member: the wall clock that is
// compared with other members, and the elapsed time that no step of the wall
// clock changes.
type moment struct {
	wall    int64
	elapsed time.Duration
}

func (m moment) since(earlier moment) time.Duration { return m.elapsed - earlier.elapsed }

// timekeeper reads the clock and waits on behalf of one member.
type timekeeper struct {
	clock   Clock
	elapsed func() time.Duration
}

func newTimekeeper(clock Clock) timekeeper {
	k := timekeeper{clock: clock}
	switch c := clock.(type) {
	case MonotonicClock:
		k.elapsed = c.Elapsed
	case SystemClock:
		start := time.Now()
		k.elapsed = func() time.Duration { return time.Since(start) }
	default:
		k.elapsed = (&forwardSum{clock: clock, last: clock.NowMillis()}).elapsed
	}
	return k
}

// forwardSum measures elapsed time on a clock that only tells the wall time:
// the sum of the forward moves that its readers saw.
type forwardSum struct {
	clock Clock

	mu   sync.Mutex // guards the fields below
	last int64
	sum  time.Duration
}

func (f *forwardSum) elapsed() time.Duration {
	now := f.clock.NowMillis()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sum = addExtents(f.sum, untilMillis(f.last, now))
	f.last = now
	return f.sum
}

func (k timekeeper) now() moment {
	return moment{wall: k.clock.NowMillis(), elapsed: k.elapsed()}
}

// sleep waits until extent has passed since from, or until done or ctx. It
// reports whether the time passed.
func (k timekeeper) sleep(ctx context.Context, done <-chan struct{}, from moment, extent time.Duration) bool {
	due, stop := k.start(extent)
	defer stop()
	// A clock that is moved by hand may have moved between from and the start.
	if extent > 0 && k.now().since(from) >= extent {
		return true
	}
	select {
	case <-due:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}

func (k timekeeper) start(extent time.Duration) (<-chan time.Time, func()) {
	if c, ok := k.clock.(StoppableClock); ok {
		return c.StopAfter(extent)
	}
	return k.clock.After(extent), func() {}
}

// limit starts the wait that limits a call in flight.
func (k timekeeper) limit(extent time.Duration) (<-chan time.Time, func()) {
	if c, ok := k.clock.(*ManualClock); ok {
		return c.bound(extent)
	}
	return k.start(extent)
}

// withTimeout bounds a context by an extent on the clock of the member.
func (k timekeeper) withTimeout(parent context.Context, extent time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := k.clock.(SystemClock); ok {
		return context.WithTimeout(parent, extent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	due, stop := k.limit(extent)
	go func() {
		defer stop()
		select {
		case <-due:
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// withGrace detaches a context from its parent and ends it a grace after the
// parent ends, so that a last short write outlives the caller's deadline.
func withGrace(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
