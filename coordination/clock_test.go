// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// ready receives from a channel that has a value, or reports that it has none.
func ready(channel <-chan time.Time) (int64, bool) {
	select {
	case at := <-channel:
		return at.UnixMilli(), true
	default:
		return 0, false
	}
}

func TestManualClockReleasesWhatIsDue(t *testing.T) {
	clock := coordination.NewManualClock(1000)
	wait := clock.After(5 * time.Second)
	clock.Advance(4 * time.Second)
	if _, released := ready(wait); released {
		t.Error("released a second early")
	}
	clock.Advance(time.Second)
	if at, released := ready(wait); !released || at != 6000 || clock.NowMillis() != 6000 {
		t.Errorf("released %t at %d, the clock reads %d, want 6000", released, at, clock.NowMillis())
	}
	late := clock.After(time.Second)
	clock.Set(100000)
	if at, released := ready(late); !released || at != 100000 {
		t.Errorf("released %t with %d, want the instant the clock moved to", released, at)
	}
}

func TestManualClockMovesBackwards(t *testing.T) {
	clock := coordination.NewManualClock(10000)
	wait := clock.After(time.Second)
	clock.Set(5000)
	clock.Advance(-2 * time.Second)
	if _, released := ready(wait); released || clock.NowMillis() != 3000 || clock.Waiters() != 1 {
		t.Errorf("released %t, the clock reads %d with %d waits", released, clock.NowMillis(), clock.Waiters())
	}
	if got := clock.Elapsed(); got != 0 {
		t.Errorf("elapsed %v after backward moves, want 0", got)
	}
	clock.Set(11000)
	if _, released := ready(wait); !released {
		t.Error("not released at its instant")
	}
	if got := clock.Elapsed(); got != 8*time.Second {
		t.Errorf("elapsed %v, want 8s", got)
	}
}

func TestWaitsThatAreDueAreReadyAtOnce(t *testing.T) {
	manual := coordination.NewManualClock(math.MaxInt64)
	for _, clock := range []coordination.Clock{manual, coordination.SystemClock{}} {
		for _, extent := range []time.Duration{0, -1, math.MinInt64} {
			if _, released := ready(clock.After(extent)); !released {
				t.Errorf("%T: a wait of %v is not ready", clock, extent)
			}
		}
	}
	if _, released := ready(manual.After(time.Second)); !released {
		t.Error("a wait past the end of time is not ready at the end of time")
	}
}

func TestManualClockReleasesInOrder(t *testing.T) {
	clock := coordination.NewManualClock(0)
	extents := []time.Duration{30, 10, 20, 10, 40}
	released := make([]<-chan time.Time, len(extents))
	for i, extent := range extents {
		released[i] = clock.After(extent * time.Millisecond)
	}
	var due []int
	for now := int64(10); now <= 40; now += 10 {
		clock.Set(now)
		for i, channel := range released {
			if _, ok := ready(channel); ok {
				due = append(due, i)
			}
		}
	}
	if diff := cmp.Diff([]int{1, 3, 2, 0, 4}, due); diff != "" {
		t.Errorf("order mismatch (-want +got):\n%s", diff)
	}
}

func TestConcurrentAdvancesLoseNothing(t *testing.T) {
	clock := coordination.NewManualClock(0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				clock.Advance(time.Millisecond)
				<-clock.After(0)
			}
		})
	}
	all.Wait()
	if clock.NowMillis() != 8000 || clock.Elapsed() != 8*time.Second {
		t.Errorf("the clock reads %d after %v, want 8000 after 8s", clock.NowMillis(), clock.Elapsed())
	}
}

func TestStoppedWaitsAreForgotten(t *testing.T) {
	clock := coordination.NewManualClock(0)
	kept := clock.After(time.Second)
	dropped, stop := clock.StopAfter(time.Second)
	if clock.Waiters() != 2 {
		t.Errorf("%d waits, want 2", clock.Waiters())
	}
	stop()
	stop()
	if clock.Waiters() != 1 {
		t.Errorf("%d waits after one was stopped, want 1", clock.Waiters())
	}
	clock.Advance(time.Second)
	if _, released := ready(dropped); released {
		t.Error("a stopped wait was released")
	}
	if _, released := ready(kept); !released || clock.Waiters() != 0 {
		t.Errorf("released %t, %d waits left", released, clock.Waiters())
	}
}

func TestBlockUntilWaitsForWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := coordination.NewManualClock(0)
		result := make(chan error, 1)
		go func() { result <- clock.BlockUntil(t.Context(), 2) }()
		clock.After(time.Second)
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("returned %v with one wait", err)
		default:
		}
		clock.After(time.Second)
		if err := <-result; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := clock.BlockUntil(ctx, 3); err != context.Canceled {
			t.Errorf("an ended context gives %v", err)
		}
	})
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock coordination.SystemClock
		began := time.Now()
		if got := clock.NowMillis(); got != began.UnixMilli() {
			t.Errorf("NowMillis = %d, want %d", got, began.UnixMilli())
		}
		if at := <-clock.After(time.Minute); at.Sub(began) != time.Minute {
			t.Errorf("After released after %v", at.Sub(began))
		}
	})
}
