// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math"
	"time"
)

// The default timings of a lease. Change one with [WithLeaseDuration],
// [WithRenewInterval] or [WithChallengeStagger].
const (
	// DefaultLeaseDuration is the default extent of a lease.
	DefaultLeaseDuration = 30 * time.Second

	// DefaultRenewInterval is the default gap between two renewals by the
	// holder.
	DefaultRenewInterval = 10 * time.Second

	// DefaultChallengeStagger is the default extra delay that one rank of
	// succession adds.
	DefaultChallengeStagger = 5 * time.Second
)

// marginAttempts is the number of renewals that a recommended lease leaves
// room for.
const marginAttempts = 3

// LeaseConfig holds the three timings of one role. The timings are independent
// of the record layout, so one process holds several roles with different
// timings.
//
// The lease adds no safety. It decides when a standby challenges a quiet
// holder, and nothing else. A wrong timing makes a failover early or late, and
// never makes two members authoritative.
//
// Build a value with [NewLeaseConfig] or take [DefaultLeaseConfig]. The zero
// value is not a usable policy.
type LeaseConfig struct {
	duration         time.Duration
	renewInterval    time.Duration
	challengeStagger time.Duration
}

// NewLeaseConfig builds a lease policy from three extents. It rejects an
// extent at or below zero, and a renew interval at or above the lease
// duration, because the holder then never renews in time.
//
// A renewInterval of at most a third of duration leaves the holder two more
// attempts before the deadline. A larger value is accepted;
// [LeaseConfig.RenewsWithMargin] tells the two apart.
//
// Instants are whole milliseconds. A shorter extent counts as one millisecond,
// and a fraction rounds up.
func NewLeaseConfig(duration, renewInterval, challengeStagger time.Duration) (LeaseConfig, error) {
	config := LeaseConfig{
		duration:         duration,
		renewInterval:    renewInterval,
		challengeStagger: challengeStagger,
	}
	if err := config.check(); err != nil {
		return LeaseConfig{}, fmt.Errorf("coordination: %w", err)
	}
	return config, nil
}

// DefaultLeaseConfig returns the config of [DefaultLeaseDuration],
// [DefaultRenewInterval] and [DefaultChallengeStagger].
func DefaultLeaseConfig() LeaseConfig {
	return LeaseConfig{
		duration:         DefaultLeaseDuration,
		renewInterval:    DefaultRenewInterval,
		challengeStagger: DefaultChallengeStagger,
	}
}

func (c LeaseConfig) check() error {
	switch {
	case c.duration <= 0:
		return fmt.Errorf("lease duration %v must be positive", c.duration)
	case c.renewInterval <= 0:
		return fmt.Errorf("renew interval %v must be positive", c.renewInterval)
	case c.challengeStagger <= 0:
		return fmt.Errorf("challenge stagger %v must be positive", c.challengeStagger)
	case c.renewInterval >= c.duration:
		return fmt.Errorf("renew interval %v must be below the lease duration %v", c.renewInterval, c.duration)
	}
	return nil
}

// String writes the three extents.
func (c LeaseConfig) String() string {
	return fmt.Sprintf("%v, renewed each %v, stagger %v", c.duration, c.renewInterval, c.challengeStagger)
}

// Duration returns the extent of a lease that a member takes.
func (c LeaseConfig) Duration() time.Duration { return c.duration }

// RenewInterval returns the gap between two renewals by the holder.
func (c LeaseConfig) RenewInterval() time.Duration { return c.renewInterval }

// ChallengeStagger returns the extra delay that one rank of succession adds.
func (c LeaseConfig) ChallengeStagger() time.Duration { return c.challengeStagger }

// RenewsWithMargin reports whether the renew interval leaves the holder two
// spare attempts, which takes an interval of at most a third of the lease
// duration. A config outside that bound works too, and the holder then loses
// the role after fewer missed renewals.
func (c LeaseConfig) RenewsWithMargin() bool { return c.renewInterval <= c.duration/marginAttempts }

// ChallengeDelay returns the extra delay that a challenger of this rank takes.
// Rank 0 and below take none. The value saturates, so a very large rank does
// not wrap the instant that a caller adds it to.
func (c LeaseConfig) ChallengeDelay(rank int) time.Duration {
	switch {
	case rank <= 0 || c.challengeStagger <= 0:
		return 0
	case int64(rank) > math.MaxInt64/int64(c.challengeStagger):
		return math.MaxInt64
	}
	return time.Duration(rank) * c.challengeStagger
}

// Grant builds the lease record that a member writes after it mints token. A
// renewal writes the same record with a later nowMillis, so this one method
// covers a first grant and a renewal. The deadline saturates.
func (c LeaseConfig) Grant(member MemberID, token FencingToken, nowMillis int64) Lease {
	return Lease{
		Member:    member,
		Token:     token,
		GrantedAt: nowMillis,
		Deadline:  addMillis(nowMillis, extentMillis(c.duration)),
	}
}

// Timing binds a lease record to this policy and answers the clock questions
// about it.
func (c LeaseConfig) Timing(lease Lease) LeaseTiming { return NewLeaseTiming(lease, c) }

// LeaseTiming is the lease clock of one lease record under one policy.
//
// Every method takes and returns milliseconds since the Unix epoch, because a
// deadline is a coordinate and not an extent. [LeaseTiming.RemainingAt] is the
// one exception, and it returns the extent that is left. All arithmetic
// saturates.
type LeaseTiming struct {
	lease  Lease
	config LeaseConfig
}

// NewLeaseTiming binds a lease record to a policy.
func NewLeaseTiming(lease Lease, config LeaseConfig) LeaseTiming {
	return LeaseTiming{lease: lease, config: config}
}

// Lease returns the lease record behind this clock.
func (t LeaseTiming) Lease() Lease { return t.lease }

// ExpiresAt returns the instant the lease expires, in milliseconds since the
// Unix epoch.
func (t LeaseTiming) ExpiresAt() int64 { return t.lease.Deadline }

// LiveAt reports whether the lease is live at this instant. The lease is live
// before its deadline and expired from the deadline on. The rank 0 challenger
// challenges at exactly the deadline, so the two tests leave no gap and no
// overlap.
func (t LeaseTiming) LiveAt(nowMillis int64) bool { return nowMillis < t.lease.Deadline }

// RemainingAt returns the extent that is left before the deadline, and zero
// from the deadline on.
func (t LeaseTiming) RemainingAt(nowMillis int64) time.Duration {
	return untilMillis(nowMillis, t.lease.Deadline)
}

// RenewAt returns the instant at which the holder writes its next renewal: the
// grant instant plus the renew interval, and never past the deadline.
func (t LeaseTiming) RenewAt() int64 {
	return min(addMillis(t.lease.GrantedAt, extentMillis(t.config.renewInterval)), t.lease.Deadline)
}

// RenewDueAt reports whether the holder writes a renewal at this instant.
func (t LeaseTiming) RenewDueAt(nowMillis int64) bool { return nowMillis >= t.RenewAt() }

// ChallengeAt returns the instant at which a challenger of this rank
// challenges. Rank 0 challenges at the deadline, and each later rank adds one
// challenge stagger. The stagger saves epoch churn and gives no safety.
func (t LeaseTiming) ChallengeAt(rank int) int64 {
	return addMillis(t.lease.Deadline, extentMillis(t.config.ChallengeDelay(rank)))
}

// extentMillis converts an extent to milliseconds, away from zero, so that a
// positive extent never becomes none.
func extentMillis(extent time.Duration) int64 {
	millis := int64(extent / time.Millisecond)
	switch rest := extent % time.Millisecond; {
	case rest > 0:
		millis++
	case rest < 0:
		millis--
	}
	return millis
}

// addMillis adds a step to an instant and saturates at both ends.
func addMillis(instant, step int64) int64 {
	switch {
	case step > 0 && instant > math.MaxInt64-step:
		return math.MaxInt64
	case step < 0 && instant < math.MinInt64-step:
		return math.MinInt64
	}
	return instant + step
}

// untilMillis returns the extent from one instant to another, zero when the
// other one is not later, and the largest extent when the difference does not
// fit.
func untilMillis(from, to int64) time.Duration {
	if to <= from {
		return 0
	}
	millis := to - from
	if millis < 0 || millis > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(millis) * time.Millisecond
}

// addExtents adds two extents that are not negative and saturates.
func addExtents(x, y time.Duration) time.Duration {
	if x > math.MaxInt64-y {
		return math.MaxInt64
	}
	return x + y
}
