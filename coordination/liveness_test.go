// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// flaky is one process's way to a shared cluster: it fails reads, and takes
// time for every request.
type flaky struct {
	*fake
	trip   time.Duration // of each request, there and back
	broken func() bool   // whether a read fails now
	gone   atomic.Bool   // whether every lease write fails
}

func (f *flaky) travel(ctx context.Context) error {
	if f.trip == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(f.trip / 2):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over carries one request to the cluster and its answer back.
func over[T any](ctx context.Context, f *flaky, trips int, call func(context.Context) (T, error)) (answer T, err error) {
	for range 2*trips - 1 {
		if err := f.travel(ctx); err != nil {
			return answer, err
		}
	}
	if answer, err = call(ctx); err != nil {
		return answer, err
	}
	return answer, f.travel(ctx)
}

func (f *flaky) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	return over(ctx, f, 1, func(ctx context.Context) ([]coordination.StateRecord, error) {
		if f.broken != nil && f.broken() {
			return nil, errBroken
		}
		return f.fake.ReadPartition(ctx, at)
	})
}

func (f *flaky) AcquireEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, error) {
	return over(ctx, f, 1, func(ctx context.Context) (coordination.FencingToken, error) { return f.fake.AcquireEpoch(ctx, role) })
}

func (f *flaky) WriteLease(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	if f.gone.Load() {
		return errBroken
	}
	_, err := over(ctx, f, 3, func(ctx context.Context) (int64, error) { return f.fake.writeLease(ctx, at, token, key, value) })
	return err
}

// A standby keeps what it saw of the holder when an acquisition fails, so a
// wrong wall clock does not make it depose a holder that renews.
func TestStandbyWithAFastClockRemembersTheHolderThroughFailedReads(t *testing.T) {
	for _, outage := range []time.Duration{time.Second, 15 * time.Second, 100 * time.Second} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				leader := run(t, f, "node-1", 0)
				leader.expect(t, "begin 1:0")
				began := time.Now()
				clock := newSkewedClock(0)
				standby := run(t, &flaky{fake: f, broken: func() bool {
					at := time.Since(began) - time.Minute
					return at >= 0 && at < outage
				}}, "node-2", 0, coordination.WithClock(clock))
				<-time.After(15 * time.Second) // one renewal is seen
				clock.step(2 * time.Minute)
				<-time.After(10 * time.Minute)
				if mints := f.count("mint"); mints != 1 {
					t.Errorf("%d mints after reads failed for %v, want the holder left alone", mints, outage)
				}
				for _, r := range []*running{standby, leader} {
					r.cancel()
					if err := <-r.result; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// An acquisition that Run repeats appends one registration, also where each
// term is to begin with a new one.
func TestRunRegistersOnceThroughFailedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		leader := run(t, f, "node-1", 0)
		leader.expect(t, "begin 1:0")
		reads := 0
		standby := run(t, &flaky{fake: f, broken: func() bool { reads++; return reads%5 == 0 }}, "node-2", 0, coordination.WithFreshRegistration())
		<-time.After(time.Minute)
		if appends := f.count("append"); appends != 2 {
			t.Errorf("%d registrations of two members, want one each", appends)
		}
		for _, r := range []*running{standby, leader} {
			r.cancel()
			if err := <-r.result; err != nil {
				t.Error(err)
			}
		}
	})
}

// However often the reads of a standby failed before, it takes over when the
// lease of a dead holder is over.
func TestTakeOverIsOnTimeAfterEarlierFailures(t *testing.T) {
	const life = 21 * time.Minute // of the holder
	hourly := func(at time.Duration) bool { return at%(2*time.Minute) < time.Second }
	for _, tt := range []struct {
		name   string
		broken func(at time.Duration) bool
		polls  int // after the deadline
	}{
		{"no read fails", func(time.Duration) bool { return false }, 1},
		{"a read fails now and then", hourly, 1},
		{"a read fails right before the deadline", func(at time.Duration) bool {
			return hourly(at) || at > life+23*time.Second && at < life+25*time.Second
		}, 1},
		{"reads fail until the deadline", func(at time.Duration) bool {
			return hourly(at) || at > life+time.Second && at < life+29*time.Second
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, controller := newFake(), role(t, "controller")
				at, err := coordination.RoleTopicPartition(controller)
				if err != nil {
					t.Fatal(err)
				}
				holder := &flaky{fake: f}
				l, err := coordination.AcquireLeadership(t.Context(), holder, controller, member(t, "node-1"))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				standby := run(t, &flaky{fake: f, broken: func() bool { return tt.broken(time.Since(began)) }}, "node-2", 0, coordination.WithPollJitter(0))
				<-time.After(life - time.Since(began) + time.Millisecond)
				holder.gone.Store(true)
				<-l.Done()
				leases := f.leases(t, at, controller)
				deadline := time.UnixMilli(leases[len(leases)-1].Deadline)
				for len(standby.events) == 0 && time.Since(deadline) < time.Hour {
					<-time.After(100 * time.Millisecond)
				}
				if late := time.Since(deadline); late > time.Duration(tt.polls)*coordination.DefaultPollInterval+200*time.Millisecond {
					t.Errorf("the standby took over %v past the deadline, want %d polls at most", late, tt.polls)
				}
				standby.cancel()
				if err := <-standby.result; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// denial is what brokers answer whose access rules are being replaced.
var denial = &coordination.AuthorizationError{Resource: `topic "t"`, Permission: "READ", Err: kerr.TopicAuthorizationFailed}

// A refusal is not final for a member that was let in before: it may be one of
// a moment.
func TestRunOutlivesARefusalOfAMoment(t *testing.T) {
	for _, tt := range []struct {
		name            string
		refused         time.Duration
		returns, within time.Duration // when Run gives up
	}{
		{"a second", time.Second, 0, 0},
		{"half a lease", 15 * time.Second, 0, 0},
		{"for good", time.Hour, 29 * time.Second, 61 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				leader := run(t, f, "node-1", 0)
				leader.expect(t, "begin 1:0")
				var series atomic.Pointer[time.Time] // when the refusals began
				f.onRead = func(context.Context, int) error {
					if began := series.Load(); began != nil && time.Since(*began) < tt.refused {
						return fmt.Errorf("a read: %w", denial)
					}
					return nil
				}
				standby := run(t, f, "node-2", 0)
				for range 3 { // a series of refusals counts from its own beginning
					<-time.After(time.Minute)
					began := time.Now()
					series.Store(&began)
					var got error
					select {
					case got = <-standby.result:
					case <-time.After(2 * time.Minute):
					}
					if (got != nil) != (tt.returns > 0) {
						t.Fatalf("Run returned %v", got)
					}
					if got == nil {
						continue
					}
					if took := time.Since(began); !errors.Is(got, denial) || took < tt.returns || took > tt.within {
						t.Errorf("Run returned %v after %v, want the refusal after a lease", got, took)
					}
					break
				}
				standby.cancel()
				if tt.returns == 0 {
					if err := <-standby.result; err != nil {
						t.Error(err)
					}
				}
				leader.cancel()
				<-leader.result
			})
		})
	}
}

// A guarded write that the brokers do not answer leaves the renewals their
// turn, also when many goroutines write at once.
func TestGuardedWritesThatHangDoNotStarveTheRenewal(t *testing.T) {
	for _, writers := range []int{1, 20} {
		t.Run(fmt.Sprint(writers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFull()
				f.onWrite = func(ctx context.Context, _ int) error {
					<-ctx.Done()
					return ctx.Err()
				}
				l, w := guardedHolder(t, f)
				var longest atomic.Int64
				var all sync.WaitGroup
				for range writers {
					all.Go(func() {
						for l.Err() == nil {
							began := time.Now()
							if err := w.Write(context.Background(), coordination.GuardedRecord{Topic: "commands", Value: []byte("v")}); err == nil {
								t.Error("a write that hangs succeeded")
							}
							longest.Store(max(longest.Load(), int64(time.Since(began))))
						}
					})
				}
				<-time.After(10 * time.Minute)
				if l.Err() != nil {
					t.Errorf("the leadership ended: %v", l.Err())
				}
				if bound := time.Duration(writers) * coordination.DefaultRenewInterval; time.Duration(longest.Load()) > bound {
					t.Errorf("a write took %v, want %v at most", time.Duration(longest.Load()), bound)
				}
				if err := l.Resign(t.Context()); err != nil {
					t.Error(err)
				}
				all.Wait()
			})
		})
	}
}

// A question to the coordinator that hangs leaves the renewals their turn.
func TestVerifyThatHangsDoesNotStarveTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		f.fake.onDescribe = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		l := holder(t, f)
		go func() {
			for l.Err() == nil {
				_ = l.Verify(context.Background())
			}
		}()
		<-time.After(10 * time.Minute)
		if l.Err() != nil {
			t.Errorf("the leadership ended: %v", l.Err())
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// After a resignation the standbys challenge one after another, in the order
// of succession.
func TestStandbysOfAResignedHolderChallengeInTurns(t *testing.T) {
	for _, trip := range []time.Duration{5 * time.Millisecond, 700 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				leader := run(t, f, "node-0", 0)
				leader.expect(t, "begin 1:0")
				var standbys []*running
				for n := range 5 {
					standbys = append(standbys, run(t, &flaky{fake: f, trip: trip}, fmt.Sprintf("node-%d", n+1), 0))
				}
				<-time.After(10 * time.Minute)
				before := f.count("mint")
				leader.cancel()
				if err := <-leader.result; err != nil {
					t.Fatal(err)
				}
				resigned, led := time.Now(), time.Duration(0)
				for led == 0 && time.Since(resigned) < 5*time.Minute {
					<-time.After(50 * time.Millisecond)
					for _, s := range standbys {
						if len(s.events) > 0 {
							led = time.Since(resigned)
						}
					}
				}
				<-time.After(5 * time.Minute)
				if mints := f.count("mint") - before; mints > 2 {
					t.Errorf("%d mints after a resignation, want one or two", mints)
				}
				if bound := coordination.DefaultPollInterval + 9*trip; led > bound {
					t.Errorf("the role was without a leader for %v, want %v at most", led, bound)
				}
				for _, s := range standbys {
					s.cancel()
					if err := <-s.result; err != nil && !errors.Is(err, coordination.ErrFenced) {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Members that start together without a lease in the log challenge one after
// another too, however old their registrations are.
func TestMembersThatStartWithoutALeaseChallengeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		at, err := coordination.RoleTopicPartition(controller)
		if err != nil {
			t.Fatal(err)
		}
		var members []*running
		for n := range 5 {
			f.register(at, controller, member(t, fmt.Sprintf("node-%d", n)), 0)
		}
		for n := range 5 {
			members = append(members, run(t, &flaky{fake: f, trip: 700 * time.Millisecond}, fmt.Sprintf("node-%d", n), 0))
		}
		<-time.After(5 * time.Minute)
		if mints := f.count("mint"); mints > 2 {
			t.Errorf("%d mints of five members, want one or two", mints)
		}
		for _, s := range members {
			s.cancel()
			if err := <-s.result; err != nil {
				t.Error(err)
			}
		}
	})
}

// A step of the wall clock to the deadline or past it leaves a renewal over a slow
// network the time it needs.
func TestForwardJumpOfAHolderLeavesASlowRenewalItsTime(t *testing.T) {
	jumps := []time.Duration{time.Hour}
	for left := time.Duration(0); left < 5*time.Second; left += 200 * time.Millisecond {
		jumps = append(jumps, coordination.DefaultLeaseDuration-left)
	}
	for _, jump := range jumps {
		synctest.Test(t, func(t *testing.T) {
			f, clock := newFake(), newSkewedClock(0)
			l, err := coordination.AcquireLeadership(t.Context(), &flaky{fake: f, trip: 700 * time.Millisecond}, role(t, "controller"),
				member(t, "node-1"), coordination.WithClock(clock), coordination.WithPollInterval(500*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			clock.step(jump)
			<-time.After(time.Minute)
			if l.Err() != nil {
				t.Errorf("after a jump of %v the leadership ended: %v", jump, l.Err())
			}
			if err := l.Resign(t.Context()); err != nil && l.Err() == nil {
				t.Error(err)
			}
		})
	}
}

// A member that lost a duel reads the role while the lease of the winner is live,
// however many starts failed before, so its fast clock does not make it depose the
// winner.
func TestLoserOfADuelSeesTheLeaseOfTheWinner(t *testing.T) {
	for broken := range 6 {
		synctest.Test(t, func(t *testing.T) {
			f, clock := newFake(), newSkewedClock(0)
			reads, fails := 0, broken
			loser := run(t, &flaky{fake: f, broken: func() bool { reads++; return reads <= fails }}, "node-1", 0, coordination.WithClock(clock))
			for len(loser.events) == 0 {
				<-time.After(100 * time.Millisecond)
			}
			winner, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-2"),
				coordination.WithClock(newSkewedClock(time.Hour))) // and so it does not wait
			if err != nil {
				t.Fatal(err)
			}
			clock.step(2 * time.Hour)
			reads, fails = 0, 1
			before := f.count("mint")
			<-time.After(10 * time.Minute)
			if mints := f.count("mint") - before; mints != 0 || winner.Err() != nil {
				t.Errorf("%d failed reads before: %d mints beside the winner, which ended with %v", broken, mints, winner.Err())
			}
			if err := winner.Resign(t.Context()); err != nil && winner.Err() == nil {
				t.Error(err)
			}
			loser.cancel()
			if err := <-loser.result; err != nil {
				t.Error(err)
			}
		})
	}
}
