// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// watched describes a change in one line.
func watched(change coordination.LeaderChange) string {
	holder := "nobody"
	if change.Held {
		holder = fmt.Sprintf("%s with %s, live %t", change.Lease.Member, change.Lease.Token, change.Live)
	}
	return fmt.Sprintf("%s, %d members", holder, len(change.Roster))
}

func TestWatchYieldsChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		ctx, cancel := context.WithCancel(t.Context())
		var broken atomic.Bool
		f.onRead = func(context.Context, int) error {
			if broken.Swap(false) {
				return errBroken
			}
			return nil
		}
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for change, err := range coordination.Watch(ctx, f, controller) {
				if err != nil {
					got = append(got, err.Error())
					continue
				}
				if change.Role != controller {
					t.Errorf("a change of role %s", change.Role)
				}
				got = append(got, watched(change))
			}
		}()
		synctest.Wait()
		l, err := coordination.AcquireLeadership(ctx, f, controller, member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(25 * time.Second) // renewals are no change
		if err := l.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		at := l.Partition()
		f.grant(at, controller, member(t, "node-2"), 0, time.Now().UnixMilli()+5000)
		<-time.After(10 * time.Second)
		broken.Store(true)
		<-time.After(2 * time.Second)
		f.register(at, controller, member(t, "node-3"), 0)
		<-time.After(2 * time.Second)
		cancel()
		<-done
		want := []string{
			"nobody, 0 members", "node-1 with 1:0, live true, 1 members", "nobody, 1 members",
			"node-2 with 1:1, live true, 1 members", "node-2 with 1:1, live false, 1 members",
			`coordination: role "controller": read __coordination_state-12: broken transport`,
			"node-2 with 1:1, live false, 2 members",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes mismatch (-want +got):\n%s", diff)
		}
	})
}

// A consumer that does not come back misses states in between and never the
// last one.
func TestSlowWatcherSeesTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		at, err := coordination.RoleTopicPartition(controller)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for change, err := range coordination.Watch(t.Context(), f, controller) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, watched(change))
			if len(got) == 2 {
				break
			}
			for i := range 5 {
				f.grant(at, controller, member(t, fmt.Sprintf("node-%d", i)), 0, time.Now().UnixMilli()+60000)
				<-time.After(5 * time.Second)
			}
		}
		if diff := cmp.Diff([]string{"nobody, 0 members", "node-4 with 1:4, live true, 0 members"}, got); diff != "" {
			t.Errorf("changes mismatch (-want +got):\n%s", diff)
		}
		if f.count("read") != 2 {
			t.Errorf("%d reads, want one for each state", f.count("read"))
		}
	})
}

func TestWatchEndsAfterABadArgument(t *testing.T) {
	f := newFake()
	for name, sequence := range map[string]func() (int, error){
		"option": func() (int, error) { return drain(coordination.Watch(t.Context(), f, role(t, "controller"), nil)) },
		"role":   func() (int, error) { return drain(coordination.Watch(t.Context(), f, coordination.Role{})) },
		"reader": func() (int, error) { return drain(coordination.Watch(t.Context(), nil, role(t, "controller"))) },
	} {
		if n, err := sequence(); n != 1 || err == nil {
			t.Errorf("%s: %d states, last error %v, want one error", name, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := drain(coordination.Watch(ctx, f, role(t, "controller"))); n != 0 || err != nil {
		t.Errorf("an ended context yields %d states and %v", n, err)
	}
}

// A closed transport answers no read any more, so that a watch of it would
// report the same error for ever.
func TestWatchEndsWithItsTransport(t *testing.T) {
	closed, err := coordination.NewKafkaTransport(standardConfig(t), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onRead = func(ctx context.Context, n int) error {
			switch n {
			case 2:
				return &coordination.AuthorizationError{Resource: `topic "t"`, Permission: "READ", Err: errBroken}
			case 3:
				return fmt.Errorf("read: %w", coordination.ErrTransportClosed)
			}
			return nil
		}
		for name, tt := range map[string]struct {
			reader coordination.StateReader
			want   int
		}{"fake": {f, 3}, "kafka": {closed, 1}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			n, last := drain(coordination.Watch(ctx, tt.reader, role(t, "controller")))
			if n != tt.want || !errors.Is(last, coordination.ErrTransportClosed) || ctx.Err() != nil {
				t.Errorf("%s: %d states, the last with %v, context %v; want %d and the closed transport", name, n, last, ctx.Err(), tt.want)
			}
			cancel()
		}
	})
}

func drain(sequence func(yield func(coordination.LeaderChange, error) bool)) (n int, last error) {
	for _, err := range sequence {
		n, last = n+1, err
	}
	return n, last
}

func TestWatchStopsWhenItsContextEndsDuringARead(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.onRead = func(context.Context, int) error {
		cancel()
		return errors.New("interrupted")
	}
	if n, err := drain(coordination.Watch(ctx, f, role(t, "controller"))); n != 0 {
		t.Errorf("%d states, last error %v, want none", n, err)
	}
}
