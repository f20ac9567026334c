// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// ManualClock is a clock that a test moves by hand. A wait that
// [ManualClock.After] returns receives when [ManualClock.Set] or
// [ManualClock.Advance] moves the clock to the instant of the wait, the
// earliest instant first.
//
// A ManualClock is safe for concurrent use by multiple goroutines, so a test
// shares one clock between a holder and its challengers and moves them all
// together. The zero value reads the epoch, 1 January 1970.
type ManualClock struct {
	mu      sync.Mutex // guards the fields below
	now     int64
	elapsed time.Duration
	waits   []*manualWait // in order of due, then of arrival
	idle    int           // the waits that bound nothing
	changed chan struct{} // closed when waits changes; nil when nobody waits for that
}

type manualWait struct {
	due     int64
	bounds  bool // the wait bounds a call, and nobody idles on it
	channel chan time.Time
}

var (
	_ MonotonicClock = (*ManualClock)(nil)
	_ StoppableClock = (*ManualClock)(nil)
)

// NewManualClock builds a clock that reads this instant, in milliseconds since
// the Unix epoch.
func NewManualClock(nowMillis int64) *ManualClock {
	return &ManualClock{now: nowMillis}
}

// NowMillis returns the instant the clock reads.
func (c *ManualClock) NowMillis() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Elapsed returns the sum of all forward moves. A backwards move leaves it
// unchanged, as the step of a wall clock leaves the monotonic clock of a host.
func (c *ManualClock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// After returns a channel that receives when the clock reaches the instant
// this extent names. A wait that is already due receives at once.
func (c *ManualClock) After(extent time.Duration) <-chan time.Time {
	channel, _ := c.StopAfter(extent)
	return channel
}

// StopAfter is [ManualClock.After] and returns a function that ends the wait.
func (c *ManualClock) StopAfter(extent time.Duration) (<-chan time.Time, func()) {
	return c.wait(extent, false)
}

// bound is StopAfter for the time limit of a call that is in flight.
func (c *ManualClock) bound(extent time.Duration) (<-chan time.Time, func()) {
	return c.wait(extent, true)
}

func (c *ManualClock) wait(extent time.Duration, bounds bool) (<-chan time.Time, func()) {
	wait := &manualWait{bounds: bounds, channel: make(chan time.Time, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	wait.due = addMillis(c.now, extentMillis(extent))
	if wait.due <= c.now {
		wait.channel <- time.UnixMilli(c.now)
		return wait.channel, func() {}
	}
	at, _ := slices.BinarySearchFunc(c.waits, wait.due, func(w *manualWait, due int64) int {
		if w.due <= due {
			return -1
		}
		return 1
	})
	c.waits = slices.Insert(c.waits, at, wait)
	c.changedWaits()
	return wait.channel, func() { c.stop(wait) }
}

func (c *ManualClock) stop(wait *manualWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.waits, wait); at >= 0 {
		c.waits = slices.Delete(c.waits, at, at+1)
		c.changedWaits()
	}
}

// Set moves the clock to this instant and releases every wait that the move
// makes due. It moves the clock backwards too, and a backwards move releases
// nothing.
func (c *ManualClock) Set(nowMillis int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveTo(nowMillis)
}

// Advance moves the clock forward by this extent and releases every wait that
// the move makes due. A negative extent moves the clock backwards.
func (c *ManualClock) Advance(step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveTo(addMillis(c.now, extentMillis(step)))
}

// moveTo runs under the mutex. Every wait has room for its one value, so the
// sends do not block.
func (c *ManualClock) moveTo(nowMillis int64) {
	c.elapsed = addExtents(c.elapsed, untilMillis(c.now, nowMillis))
	c.now = nowMillis
	released, _ := slices.BinarySearchFunc(c.waits, nowMillis, func(w *manualWait, now int64) int {
		return cmp.Or(cmp.Compare(w.due, now), -1)
	})
	if released == 0 {
		return
	}
	for _, wait := range c.waits[:released] {
		wait.channel <- time.UnixMilli(nowMillis)
	}
	c.waits = slices.Delete(c.waits, 0, released)
	c.changedWaits()
}

// Waiters returns the number of waits that are not due yet. A wait that limits
// a call in flight does not count, because the member that makes the call is
// not idle.
func (c *ManualClock) Waiters() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle
}

// BlockUntil waits until [ManualClock.Waiters] is at least waiters, so that a
// test moves the clock only when the code under test waits for it. It returns
// the error of the context when the context ends first.
func (c *ManualClock) BlockUntil(ctx context.Context, waiters int) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	for {
		c.mu.Lock()
		reached := c.idle >= waiters
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// changedWaits runs under the mutex after a change of waits.
func (c *ManualClock) changedWaits() {
	c.idle = 0
	for _, wait := range c.waits {
		if !wait.bounds {
			c.idle++
		}
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}
