// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math"
	"testing"
	"time"
)

func newGrant(t *testing.T, duration, renew time.Duration, grantedAt int64, taken moment) *grant {
	t.Helper()
	config, err := NewLeaseConfig(duration, renew, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &grant{timing: config.Timing(config.Grant(MemberID{name: "m"}, FencingToken{}, grantedAt)), taken: taken}
}

// A grant goes by the clock that says so first, the wall clock or the elapsed
// time.
func TestGrantGoesByBothClocks(t *testing.T) {
	const second = time.Second
	tests := []struct {
		name    string
		now     moment
		renewal time.Duration // until the next is due
		expiry  time.Duration // until the lease is over
		attempt time.Duration // that one renewal may take
		next    int64         // grant instant of a renewal
		safe    int64         // until when the holder may act, with a tolerance of 2 s
	}{
		{"at once", reads(0, 1000), 10 * second, 30 * second, 10 * second, 1000, 29000},
		{"clocks that agree", reads(4000, 1000), 6 * second, 26 * second, 10 * second, 5000, 29000},
		{"renewal due", reads(10000, 1000), 0, 20 * second, 10 * second, 11000, 29000},
		{"little left", reads(28000, 1000), 0, 2 * second, 2 * second, 29000, 29000},
		{"a poll interval at least", reads(29900, 1000), 0, 100 * time.Millisecond, second, 30900, 29000},
		{"over", reads(30000, 1000), 0, 0, second, 31000, 29000},
		{"long over", reads(90000, 1000), 0, 0, second, 91000, 89000},
		{"the wall clock was set back", reads(4000, -59000), 6 * second, 26 * second, 10 * second, 5000, -55000 + 24000},
		{"the wall clock was set back and the lease is over", reads(30000, -59000), 0, 0, second, 31000, -29000 - 2000},
		{"the wall clock was set forward", reads(4000, 13000), 0, 14 * second, 10 * second, 17000, 29000},
		{"the wall clock was set forward past the deadline", reads(4000, 61000), 0, 0, 10 * second, 65000, 63000},
		{"the elapsed time stood still in a suspension", reads(0, 41000), 0, 0, 10 * second, 41000, 39000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGrant(t, 30*second, 10*second, 1000, reads(0, 1000))
			if got := g.untilRenewal(tt.now); got != tt.renewal {
				t.Errorf("untilRenewal = %v, want %v", got, tt.renewal)
			}
			if got := g.untilExpiry(tt.now); got != tt.expiry {
				t.Errorf("untilExpiry = %v, want %v", got, tt.expiry)
			}
			if got := g.attemptBound(tt.now, second); got != tt.attempt {
				t.Errorf("attemptBound = %v, want %v", got, tt.attempt)
			}
			if got := g.nextGrantedAt(tt.now); got != tt.next {
				t.Errorf("nextGrantedAt = %d, want %d", got, tt.next)
			}
			if got := g.safeUntil(tt.now, 2*second); got != tt.safe {
				t.Errorf("safeUntil = %d, want %d", got, tt.safe)
			}
		})
	}
}

func TestGrantSaturates(t *testing.T) {
	g := newGrant(t, math.MaxInt64, time.Hour, math.MaxInt64-5, reads(0, math.MaxInt64-5))
	now := reads(0, math.MaxInt64-5)
	if got := g.untilExpiry(now); got != 5*time.Millisecond {
		t.Errorf("untilExpiry = %v at 5 ms before the end of time, want 5ms", got)
	}
	if got := g.nextGrantedAt(moment{wall: math.MaxInt64 - 5, elapsed: time.Hour}); got != math.MaxInt64 {
		t.Errorf("nextGrantedAt = %d, want the end of time", got)
	}
	if got := g.safeUntil(moment{wall: math.MinInt64}, math.MaxInt64); got >= 0 {
		t.Errorf("safeUntil = %d with all the tolerance there is, want no wrap", got)
	}
}

func TestExtentsRoundUpToWholeMilliseconds(t *testing.T) {
	for extent, want := range map[time.Duration]time.Duration{
		1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, 3 * time.Second: 3 * time.Second,
	} {
		if got := wholeMillis(extent); got != want {
			t.Errorf("wholeMillis(%v) = %v, want %v", extent, got, want)
		}
	}
}
