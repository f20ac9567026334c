// SPDX-License-Identifier: Apache-2.0

package coordination

import "time"

// Clock is the source of the wall-clock time, and the source of every wait.
//
// The succession rules and the lease clock take an instant as a parameter, so
// they need no clock at all. This interface is the seam for the code around
// them that reads a real clock and that waits.
//
// An implementation is safe for concurrent use by multiple goroutines. It may
// implement [MonotonicClock] and [StoppableClock] as well.
type Clock interface {
	// NowMillis returns the current time, in milliseconds since the Unix
	// epoch.
	NowMillis() int64

	// After returns a channel that receives one value after the extent
	// passes. An extent at or below zero receives at once. A step of the wall
	// clock does not change the extent.
	After(extent time.Duration) <-chan time.Time
}

// MonotonicClock is a [Clock] that also measures elapsed time. A member reads
// it to bound the age of what it saw, so that a step of the wall clock neither
// expires a lease nor keeps one alive.
type MonotonicClock interface {
	Clock

	// Elapsed returns the time since an arbitrary but fixed instant. It never
	// decreases.
	Elapsed() time.Duration
}

// StoppableClock is a [Clock] whose waits can be given up. A member that stops
// waiting early says so, and the clock forgets the wait.
type StoppableClock interface {
	Clock

	// StopAfter is [Clock.After] and returns a function that ends the wait.
	// The function may be called more than once, also after the wait is over.
	StopAfter(extent time.Duration) (<-chan time.Time, func())
}

// SystemClock reads the clock of the host. It is the clock that
// [AcquireLeadership] takes by default.
//
// A SystemClock is safe for concurrent use by multiple goroutines. The zero
// value is usable.
type SystemClock struct{}

var _ Clock = SystemClock{}

// NowMillis returns the host time, in milliseconds since the Unix epoch.
func (SystemClock) NowMillis() int64 { return time.Now().UnixMilli() }

// After returns a channel that receives one value after the extent passes.
func (SystemClock) After(extent time.Duration) <-chan time.Time {
	if extent > 0 {
		return time.After(extent)
	}
	due := make(chan time.Time, 1)
	due <- time.Now()
	return due
}
