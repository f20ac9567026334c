// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestLeaseConfigRejectsWhatCannotWork(t *testing.T) {
	for _, c := range []struct {
		duration, renew, stagger time.Duration
		want                     string
	}{
		{0, 1, 1, "coordination: lease duration 0s must be positive"},
		{-1, 1, 1, "coordination: lease duration -1ns must be positive"},
		{2, 0, 1, "coordination: renew interval 0s must be positive"},
		{2, 1, 0, "coordination: challenge stagger 0s must be positive"},
		{2, 2, 1, "coordination: renew interval 2ns must be below the lease duration 2ns"},
		{2, 3, 1, "coordination: renew interval 3ns must be below the lease duration 2ns"},
	} {
		config, err := coordination.NewLeaseConfig(c.duration, c.renew, c.stagger)
		if err == nil || err.Error() != c.want || config != (coordination.LeaseConfig{}) {
			t.Errorf("NewLeaseConfig(%d, %d, %d) = %v, %v, want %q", c.duration, c.renew, c.stagger, config, err, c.want)
		}
	}
}

func TestLeaseConfigValues(t *testing.T) {
	config := coordination.DefaultLeaseConfig()
	got := []time.Duration{config.Duration(), config.RenewInterval(), config.ChallengeStagger()}
	if diff := cmp.Diff([]time.Duration{30 * time.Second, 10 * time.Second, 5 * time.Second}, got); diff != "" {
		t.Errorf("defaults mismatch (-want +got):\n%s", diff)
	}
	if config != standardConfig(t) {
		t.Error("the default differs from the same extents")
	}
	for _, c := range []struct {
		duration, renew time.Duration
		want            bool
	}{
		{30 * time.Second, 10 * time.Second, true},
		{30 * time.Second, 20 * time.Second, false},
		{30*time.Second - 1, 10 * time.Second, false},
		{math.MaxInt64, math.MaxInt64 / 3, true},
		{math.MaxInt64, math.MaxInt64/3 + 1, false},
		{math.MaxInt64, math.MaxInt64 - 1, false},
	} {
		if got := leaseConfig(t, c.duration, c.renew, 1).RenewsWithMargin(); got != c.want {
			t.Errorf("%v renewed every %v: margin %t, want %t", c.duration, c.renew, got, c.want)
		}
	}
}

func TestChallengeDelay(t *testing.T) {
	config := standardConfig(t)
	for rank, want := range map[int]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 5 * time.Second, 3: 15 * time.Second,
		math.MaxInt64 / int(5*time.Second):   math.MaxInt64 / (5 * time.Second) * (5 * time.Second),
		math.MaxInt64/int(5*time.Second) + 1: math.MaxInt64,
		math.MaxInt64:                        math.MaxInt64,
	} {
		if got := config.ChallengeDelay(rank); got != want {
			t.Errorf("ChallengeDelay(%d) = %v, want %v", rank, got, want)
		}
	}
}

func TestLeaseClock(t *testing.T) {
	config := standardConfig(t)
	lease := config.Grant(member(t, "node-1"), token(t, 1, 0), 1000)
	if want := (coordination.Lease{Member: member(t, "node-1"), Token: token(t, 1, 0), GrantedAt: 1000, Deadline: 31000}); lease != want {
		t.Errorf("Grant = %v, want %v", lease, want)
	}
	timing := config.Timing(lease)
	if timing != coordination.NewLeaseTiming(lease, config) || timing.Lease() != lease {
		t.Error("Timing and NewLeaseTiming differ")
	}
	instants := []int64{timing.ExpiresAt(), timing.RenewAt(), timing.ChallengeAt(0), timing.ChallengeAt(3)}
	if diff := cmp.Diff([]int64{31000, 11000, 31000, 46000}, instants); diff != "" {
		t.Errorf("instants mismatch (-want +got):\n%s", diff)
	}
	flags := []bool{timing.RenewDueAt(10999), timing.RenewDueAt(11000), timing.LiveAt(30999), timing.LiveAt(31000)}
	if diff := cmp.Diff([]bool{false, true, true, false}, flags); diff != "" {
		t.Errorf("flags mismatch (-want +got):\n%s", diff)
	}
	remaining := []time.Duration{timing.RemainingAt(21000), timing.RemainingAt(31000), timing.RemainingAt(40000)}
	if diff := cmp.Diff([]time.Duration{10 * time.Second, 0, 0}, remaining); diff != "" {
		t.Errorf("remaining mismatch (-want +got):\n%s", diff)
	}
	capped := config.Timing(coordination.Lease{GrantedAt: 1000, Deadline: 5000})
	if got := capped.RenewAt(); got != 5000 {
		t.Errorf("RenewAt past the deadline = %d, want 5000", got)
	}
}

func TestLeaseClockSaturates(t *testing.T) {
	config := standardConfig(t)
	late := config.Timing(config.Grant(member(t, "node-1"), token(t, 1, 0), math.MaxInt64-10))
	instants := []int64{late.ExpiresAt(), late.RenewAt(), late.ChallengeAt(0), late.ChallengeAt(math.MaxInt64)}
	if diff := cmp.Diff([]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}, instants); diff != "" {
		t.Errorf("instants mismatch (-want +got):\n%s", diff)
	}
	endless := config.Timing(coordination.Lease{Deadline: math.MaxInt64})
	for _, now := range []int64{0, -1, math.MinInt64} {
		if got := endless.RemainingAt(now); got != math.MaxInt64 {
			t.Errorf("RemainingAt(%d) = %d, want the largest extent", now, got)
		}
	}
	long := leaseConfig(t, math.MaxInt64, 1, math.MaxInt64).Timing(coordination.Lease{Deadline: math.MaxInt64 - 1})
	if got := long.ChallengeAt(2); got != math.MaxInt64 {
		t.Errorf("ChallengeAt(2) = %d, want the last instant", got)
	}
}

// A positive extent below a millisecond still makes a lease that is live.
func TestShortExtentsRoundUp(t *testing.T) {
	config := leaseConfig(t, 1500*time.Microsecond, 500*time.Microsecond, time.Nanosecond)
	timing := config.Timing(config.Grant(member(t, "node-1"), token(t, 1, 0), 100))
	got := []int64{timing.ExpiresAt(), timing.RenewAt(), timing.ChallengeAt(1)}
	if diff := cmp.Diff([]int64{102, 101, 103}, got); diff != "" {
		t.Errorf("instants mismatch (-want +got):\n%s", diff)
	}
}
