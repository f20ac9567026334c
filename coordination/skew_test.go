// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// skewedClock is the clock of a host whose wall clock is wrong, and whose
// monotonic clock is right.
type skewedClock struct {
	start  time.Time
	offset atomic.Int64 // milliseconds
}

var _ coordination.MonotonicClock = (*skewedClock)(nil)

func newSkewedClock(offset time.Duration) *skewedClock {
	c := &skewedClock{start: time.Now()}
	c.step(offset)
	return c
}

// step sets the wall clock forward or back.
func (c *skewedClock) step(by time.Duration) { c.offset.Add(by.Milliseconds()) }

func (c *skewedClock) NowMillis() int64       { return time.Now().UnixMilli() + c.offset.Load() }
func (c *skewedClock) Elapsed() time.Duration { return time.Since(c.start) }
func (c *skewedClock) After(extent time.Duration) <-chan time.Time {
	return coordination.SystemClock{}.After(extent)
}

// wallClock is a clock of the two documented methods alone.
type wallClock struct{ *skewedClock }

func (wallClock) Elapsed() {}

// standby runs an acquisition in a bubble and tells when it won.
type standby struct {
	won  time.Duration
	done chan struct{}
}

func contend(t *testing.T, f coordination.Transport, name string, clock coordination.Clock) *standby {
	t.Helper()
	s := &standby{done: make(chan struct{})}
	began := time.Now()
	controller, id := role(t, "controller"), member(t, name)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		defer close(s.done)
		l, err := coordination.AcquireLeadership(ctx, f, controller, id, coordination.WithClock(clock))
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		s.won = time.Since(began)
		if err := l.Resign(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return s
}

// A standby that saw the holder renew does not trust its own wall clock more
// than what it saw.
func TestStandbyWithAFastClockLeavesARenewingHolderAlone(t *testing.T) {
	for _, skew := range []time.Duration{2 * time.Minute, -2 * time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			clock := newSkewedClock(0)
			l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			s := contend(t, &bound{f, ctx}, "node-2", clock)
			<-time.After(15 * time.Second) // one renewal is seen
			clock.step(skew)
			<-time.After(10 * time.Minute)
			if f.count("mint") != 1 || l.Err() != nil {
				t.Errorf("skew %v: %d mints, Err %v, want the holder left alone", skew, f.count("mint"), l.Err())
			}
			cancel()
			<-s.done
			if err := l.Resign(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// bound ends every read of a transport with a context.
type bound struct {
	*fake
	ctx context.Context
}

func (b *bound) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	return b.fake.ReadPartition(ctx, at)
}

// A dead holder whose clock ran ahead leaves a deadline far in the future. It
// is over when its extent has passed in plain sight.
func TestDeadHolderWithAFastClockIsReplaced(t *testing.T) {
	for _, clock := range []func() coordination.Clock{
		func() coordination.Clock { return coordination.SystemClock{} },
		func() coordination.Clock { return newSkewedClock(-time.Hour) },
		func() coordination.Clock { return newSkewedClock(time.Minute) },
		func() coordination.Clock { return wallClock{newSkewedClock(0)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			controller := role(t, "controller")
			at, err := coordination.RoleTopicPartition(controller)
			if err != nil {
				t.Fatal(err)
			}
			ahead := time.Now().Add(24 * time.Hour).UnixMilli()
			f.register(at, controller, member(t, "node-2"), 0)
			f.grant(at, controller, member(t, "node-1"), ahead, ahead+30000)
			s := contend(t, f, "node-2", clock())
			<-s.done
			if s.won < 30*time.Second || s.won > 31*time.Second {
				t.Errorf("took over after %v, want the extent of the lease", s.won)
			}
		})
	}
}

// A registration that lies in the future, because the wall clock was set back
// since, does not hold its member up.
func TestRegistrationInTheFutureDoesNotDelayItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		at, err := coordination.RoleTopicPartition(controller)
		if err != nil {
			t.Fatal(err)
		}
		ahead := time.Now().Add(time.Hour).UnixMilli()
		f.register(at, controller, member(t, "node-1"), ahead)
		f.register(at, controller, member(t, "node-2"), ahead)
		s := contend(t, f, "node-2", coordination.SystemClock{})
		<-s.done
		if s.won < 5*time.Second || s.won > 6*time.Second {
			t.Errorf("rank 1 took the role after %v, want one stagger", s.won)
		}
	})
}

// The wall clock of a holder is set back. Its renewals go on by the monotonic
// clock, and its standbys see them.
func TestHolderWhoseClockIsSetBackKeepsRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		clock := newSkewedClock(0)
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"), coordination.WithClock(clock))
		if err != nil {
			t.Fatal(err)
		}
		s := contend(t, f, "node-2", coordination.SystemClock{})
		<-time.After(12 * time.Second)
		clock.step(-time.Hour)
		<-time.After(5 * time.Minute)
		if l.Err() != nil || f.count("mint") != 1 {
			t.Errorf("Err %v after %d mints", l.Err(), f.count("mint"))
		}
		if drift := time.Now().UnixMilli() - l.Lease().GrantedAt; drift < 0 || drift > 10000 {
			t.Errorf("the last grant is %d ms old", drift)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-s.done
	})
}

// A jump of the wall clock past the deadline is no failed renewal.
func TestForwardJumpOfTheHolderCostsOneRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		clock := newSkewedClock(0)
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"), coordination.WithClock(clock))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		clock.step(time.Hour)
		if err := l.Check(); !errors.Is(err, coordination.ErrLeaseExpired) {
			t.Errorf("Check after the jump: %v", err)
		}
		<-time.After(6 * time.Second)
		if l.Err() != nil || l.Check() != nil || f.count("write") != 2 {
			t.Errorf("Err %v, Check %v after %d writes", l.Err(), l.Check(), f.count("write"))
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
