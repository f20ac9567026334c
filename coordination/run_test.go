// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// running is a Run in the background.
type running struct {
	events chan string
	result chan error
	cancel context.CancelFunc
}

// run starts Run with callbacks that report what happens. The work lasts until
// its context ends, and then for the given time.
func run(t *testing.T, transport coordination.Transport, name string, linger time.Duration, options ...coordination.Option) *running {
	t.Helper()
	r := &running{events: make(chan string, 100), result: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	callbacks := coordination.Callbacks{
		OnAcquired: func(ctx context.Context, l *coordination.Leadership) error {
			r.events <- "begin " + l.Token().String()
			<-ctx.Done()
			<-time.After(linger)
			r.events <- fmt.Sprintf("end, fenced %t", errors.Is(context.Cause(ctx), coordination.ErrFenced))
			return ctx.Err()
		},
		OnLost: func(err error) { r.events <- fmt.Sprintf("lost, fenced %t", errors.Is(err, coordination.ErrFenced)) },
	}
	controller, id := role(t, "controller"), member(t, name)
	go func() { r.result <- coordination.Run(ctx, transport, controller, id, callbacks, options...) }()
	return r
}

// expect compares the events so far with the wanted ones.
func (r *running) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(r.events) > 0 {
		got = append(got, <-r.events)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
}

func TestRunFinishesTheWorkBeforeItResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := run(t, f, "node-1", 3*time.Second)
		r.expect(t, "begin 1:0")
		r.cancel()
		<-time.After(2 * time.Second)
		at, err := coordination.RoleTopicPartition(role(t, "controller"))
		if err != nil {
			t.Fatal(err)
		}
		if leases := f.leases(t, at, role(t, "controller")); leases[len(leases)-1] == nil {
			t.Error("the lease was cleared while the work went on")
		}
		if err := <-r.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
		r.expect(t, "end, fenced false")
		if leases := f.leases(t, at, role(t, "controller")); leases[len(leases)-1] != nil {
			t.Error("the lease was not cleared")
		}
	})
}

func TestRunCompetesAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := run(t, f, "node-1", 0)
		r.expect(t, "begin 1:0")
		at, err := coordination.RoleTopicPartition(role(t, "controller"))
		if err != nil {
			t.Fatal(err)
		}
		f.grant(at, role(t, "controller"), member(t, "node-2"), time.Now().UnixMilli(), time.Now().UnixMilli()+30000)
		<-time.After(coordination.DefaultRenewInterval)
		r.expect(t, "end, fenced true", "lost, fenced true")
		<-time.After(30 * time.Second)
		r.expect(t, "begin 1:2")
		r.cancel()
		if err := <-r.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A runner that lost the role knows that the lease of its successor is young,
// whatever the clock of the successor says.
func TestRunLeavesItsSuccessorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := run(t, f, "node-1", 0, coordination.WithPollJitter(0))
		r.expect(t, "begin 1:0")
		at, err := coordination.RoleTopicPartition(role(t, "controller"))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		behind := time.Now().Add(-time.Hour).UnixMilli()
		f.grant(at, role(t, "controller"), member(t, "node-2"), behind, behind+30000)
		<-time.After(24 * time.Second)
		r.expect(t, "end, fenced true", "lost, fenced true")
		// Its own last lease was taken at 0 s, so that of node-2 is good until
		// 30 s at least.
		<-time.After(2 * time.Second)
		r.expect(t, "begin 1:2")
		r.cancel()
		if err := <-r.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunEndsWithItsWork(t *testing.T) {
	for _, want := range []error{nil, errBroken} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			err := coordination.Run(t.Context(), f, role(t, "controller"), member(t, "node-1"), coordination.Callbacks{
				OnAcquired: func(context.Context, *coordination.Leadership) error { return want },
				OnLost:     func(err error) { t.Errorf("lost: %v", err) },
			})
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("Run returned %v, want %v", err, want)
			}
			if f.count("write") != 2 {
				t.Errorf("%d lease writes, want a lease and a tombstone", f.count("write"))
			}
		})
	}
}

func TestRunResignsWhenItsWorkPanics(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic": func() { panic("broken") },
		"exit":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				r := role(t, "controller")
				callbacks := coordination.Callbacks{
					OnAcquired:     func(context.Context, *coordination.Leadership) error { fail(); return nil },
					OnLost:         func(err error) { t.Errorf("lost: %v", err) },
					OnLeaderChange: func(coordination.LeaderChange) {},
				}
				recovered := make(chan any, 1)
				go func() {
					defer func() { recovered <- recover() }()
					_ = coordination.Run(t.Context(), f, r, member(t, "node-1"), callbacks)
					t.Error("Run returned")
				}()
				var want any
				if name == "panic" {
					want = "broken"
				}
				if got := <-recovered; got != want {
					t.Errorf("Run panics with %v, want %v", got, want)
				}
				at, err := coordination.RoleTopicPartition(r)
				if err != nil {
					t.Fatal(err)
				}
				if leases := f.leases(t, at, r); leases[len(leases)-1] != nil {
					t.Error("the lease stands after the work panicked")
				}
			})
		})
	}
}

func TestRunOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		began := time.Now()
		var at []time.Duration
		f.onRead = func(context.Context, int) error {
			at = append(at, time.Since(began))
			if time.Since(began) < 40*time.Second {
				return errBroken
			}
			return nil
		}
		r := run(t, f, "node-1", 0, coordination.WithPollJitter(0))
		<-time.After(2 * time.Minute)
		r.expect(t, "begin 1:0")
		want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 61}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("reads mismatch (-want +got):\n%s", diff)
		}
		r.cancel()
		if err := <-r.result; err != nil {
			t.Error(err)
		}
	})
}

// final is an error that says a retry is of no use.
type final struct{}

func (final) Error() string   { return "access denied" }
func (final) Retriable() bool { return false }

func TestRunReturnsWhatARetryDoesNotSettle(t *testing.T) {
	for name, failure := range map[string]error{
		"denied": final{}, "closed": coordination.ErrTransportClosed, "malformed": &coordination.FormatError{Part: "key"},
		"permission": &coordination.AuthorizationError{Resource: `topic "t"`, Permission: "READ", Err: kerr.TopicAuthorizationFailed},
		"settings":   errors.Join(&coordination.TopicConfigError{Topic: "t", Setting: "partitions", Have: "3", Want: "16"}),
		"timeout":    &coordination.TransactionTimeoutError{Requested: time.Hour, Err: kerr.InvalidTransactionTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.onRead = func(context.Context, int) error { return failure }
			r := run(t, f, "node-1", 0)
			time.AfterFunc(time.Minute, r.cancel)
			if err := <-r.result; !errors.Is(err, failure) || f.count("read") != 1 {
				t.Errorf("%s: Run returned %v after %d reads", name, err, f.count("read"))
			}
			r.cancel()
		})
	}
	err := coordination.Run(t.Context(), newFake(), role(t, "controller"), member(t, "node-1"), coordination.Callbacks{})
	if err == nil || !strings.Contains(err.Error(), "OnAcquired is nil") {
		t.Errorf("without OnAcquired Run returned %v", err)
	}
	work := coordination.Callbacks{OnAcquired: func(context.Context, *coordination.Leadership) error { return nil }}
	if err := coordination.Run(t.Context(), nil, role(t, "controller"), member(t, "node-1"), work); err == nil {
		t.Error("a nil transport is accepted")
	}
}

// Where the epoch moves, the lease that a term leaves behind carries a token
// that this process never minted, and it is its own all the same.
func TestRunKnowsTheTokensThatItsTermsHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		f.bumps = true
		var broken atomic.Bool
		f.fake.onWrite = func(context.Context, int) error {
			if broken.Load() {
				return errBroken
			}
			return nil
		}
		duplicates := 0
		r := run(t, f, "node-1", 0, coordination.WithPollJitter(0), coordination.WithObserver(coordination.Observer{
			Duplicated: func(coordination.Role, coordination.MemberID, coordination.FencingToken) { duplicates++ },
		}))
		r.expect(t, "begin 1:1")
		time.Sleep(25 * time.Second) // two renewals
		broken.Store(true)
		time.Sleep(40 * time.Second)
		r.expect(t, "end, fenced false", "lost, fenced false")
		broken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if event := <-r.events; !strings.HasPrefix(event, "begin ") || duplicates != 0 {
			t.Errorf("%q after %d reports of a duplicate, want another term and no report", event, duplicates)
		}
		r.cancel()
		if err := <-r.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunLeavesTheRosterWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		leader := run(t, f, "node-1", 0, coordination.WithDeregisterOnCancel())
		leader.expect(t, "begin 1:0")
		standby := run(t, f, "node-2", 0, coordination.WithDeregisterOnCancel())
		synctest.Wait()
		for _, r := range []*running{standby, leader} {
			r.cancel()
			if err := <-r.result; err != nil {
				t.Errorf("Run returned %v", err)
			}
		}
		state, err := coordination.DescribeRoleState(t.Context(), f, role(t, "controller"))
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Roster) != 0 || state.Lease != nil {
			t.Errorf("role state %+v, want nothing left", state)
		}
	})
}

func TestRunEndsWithItsLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		lifetime, stop := context.WithCancel(t.Context())
		r := run(t, f, "node-1", time.Second, coordination.WithLifetime(lifetime))
		r.expect(t, "begin 1:0")
		stop()
		if err := <-r.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
		r.expect(t, "end, fenced false")
	})
}

func TestRunTellsLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		controller, id := role(t, "controller"), member(t, "node-1")
		go func() {
			result <- coordination.Run(ctx, f, controller, id, coordination.Callbacks{
				OnAcquired: func(ctx context.Context, _ *coordination.Leadership) error {
					<-ctx.Done()
					return nil
				},
				OnLeaderChange: func(change coordination.LeaderChange) { seen = append(seen, watched(change)) },
			})
		}()
		<-time.After(5 * time.Second)
		cancel()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if last := seen[len(seen)-1]; last != "node-1 with 1:0, live true, 1 members" {
			t.Errorf("saw %q", seen)
		}
	})
}

// Two processes with one member id do not fence each other in turns: the one
// that lost treats the other's lease like any member's.
func TestRunsWithOneMemberIDDoNotDuel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		duplicates := 0
		observe := coordination.WithObserver(coordination.Observer{
			Duplicated: func(coordination.Role, coordination.MemberID, coordination.FencingToken) { duplicates++ },
		})
		first := run(t, f, "node-1", 0, observe)
		first.expect(t, "begin 1:0")
		second := run(t, f, "node-1", 0)
		<-time.After(10 * time.Minute)
		first.expect(t, "end, fenced true", "lost, fenced true")
		second.expect(t, "begin 1:1")
		if mints := f.count("mint"); mints != 2 || duplicates != 1 {
			t.Errorf("%d mints and %d reports in ten minutes, want 2 and 1", mints, duplicates)
		}
		second.cancel()
		if err := <-second.result; err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		first.expect(t, "begin 1:2")
		first.cancel()
		if err := <-first.result; err != nil {
			t.Error(err)
		}
	})
}

// An error of the work ends Run or costs the term, as the caller chooses.
func TestRunRetriesItsWorkWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		worked, other := 0, errors.New("nobody mends that")
		err := coordination.Run(t.Context(), f, role(t, "controller"), member(t, "node-1"), coordination.Callbacks{
			OnAcquired: func(context.Context, *coordination.Leadership) error {
				if worked++; worked < 4 {
					return errBroken
				}
				return other
			},
			OnLost: func(err error) { t.Errorf("lost: %v", err) },
		}, coordination.WithWorkRetry(func(err error) bool { return errors.Is(err, errBroken) }), coordination.WithPollJitter(0))
		if !errors.Is(err, other) || worked != 4 {
			t.Errorf("Run returned %v after %d terms, want the error of the fourth", err, worked)
		}
	})
}

// A member whose work failed lets another one lead.
func TestRunLetsAnotherMemberLeadAfterItsWorkFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		failing := make(chan error, 1)
		controller, id := role(t, "controller"), member(t, "node-1")
		terms := 0
		go func() {
			failing <- coordination.Run(ctx, f, controller, id, coordination.Callbacks{
				OnAcquired: func(ctx context.Context, _ *coordination.Leadership) error {
					terms++
					<-time.After(time.Minute)
					return errBroken
				},
			}, coordination.WithWorkRetry(func(error) bool { return true }))
		}()
		<-time.After(30 * time.Second)
		standby := run(t, f, "node-2", 0)
		<-time.After(10 * time.Minute)
		if terms != 1 || len(standby.events) != 1 {
			t.Errorf("%d terms and %d of the other member, want one each", terms, len(standby.events))
		}
		cancel()
		standby.cancel()
		if err := errors.Join(<-failing, <-standby.result); err != nil {
			t.Error(err)
		}
	})
}
