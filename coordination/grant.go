// SPDX-License-Identifier: Apache-2.0

package coordination

import "time"

// grant is a lease that a holder wrote, and when it took the lease on the
// clocks of its process.
type grant struct {
	timing LeaseTiming
	taken  moment // before the write was sent
}

// nextGrantedAt returns the grant instant of the next renewal. It follows the
// wall clock and never moves back: when the wall clock was set back, it goes
// on by the time that passed, so that standbys see the renewal.
func (g *grant) nextGrantedAt(now moment) int64 {
	passed := int64(now.since(g.taken) / time.Millisecond)
	return max(now.wall, addMillis(g.timing.lease.GrantedAt, passed))
}

// untilRenewal returns the extent until the next renewal is due, on the clock
// that says so first.
func (g *grant) untilRenewal(now moment) time.Duration {
	return min(
		untilMillis(now.wall, g.timing.RenewAt()),
		max(0, wholeMillis(g.timing.config.renewInterval)-now.since(g.taken)),
	)
}

// untilExpiry returns the extent until the lease is over, on the clock that
// says so first. It is zero from then on.
func (g *grant) untilExpiry(now moment) time.Duration {
	return min(g.timing.RemainingAt(now.wall), g.left(now))
}

func (g *grant) left(now moment) time.Duration {
	return max(0, wholeMillis(g.timing.config.duration)-now.since(g.taken))
}

// attemptBound returns how long one renewal may take: until the lease is over on
// the monotonic clock or the next renewal is due, and a poll interval at least. A
// step of the wall clock takes no time from a slow renewal.
func (g *grant) attemptBound(now moment, poll time.Duration) time.Duration {
	return max(min(g.timing.config.renewInterval, g.left(now)), poll)
}

// safeUntil returns the instant on the wall clock up to which no standby whose
// clock is within the tolerance has challenged the lease.
func (g *grant) safeUntil(now moment, tolerance time.Duration) int64 {
	return addMillis(addMillis(now.wall, int64(g.untilExpiry(now)/time.Millisecond)), -extentMillis(tolerance))
}

// wholeMillis rounds an extent to what a lease record can express.
func wholeMillis(extent time.Duration) time.Duration {
	return untilMillis(0, extentMillis(extent))
}
