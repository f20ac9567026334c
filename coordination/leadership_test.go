// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestRenewalKeepsTheTokenAndMovesTheDeadline(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	for n := 2; n <= 4; n++ {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(10 * time.Second)
		f.await(t, "write", n)
	}
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var granted, deadlines []int64
	for _, lease := range f.leases(t, f.at, f.role) {
		granted, deadlines = append(granted, lease.GrantedAt), append(deadlines, lease.Deadline)
		if lease.Token != l.Token() {
			t.Errorf("a renewal carries token %s, want %s", lease.Token, l.Token())
		}
	}
	if diff := cmp.Diff([][]int64{{1000, 11000, 21000, 31000}, {31000, 41000, 51000, 61000}}, [][]int64{granted, deadlines}); diff != "" {
		t.Errorf("grant instants and deadlines mismatch (-want +got):\n%s", diff)
	}
	if l.Err() != nil || l.Lease().Deadline != 61000 {
		t.Errorf("err %v, lease %v", l.Err(), l.Lease())
	}
}

func TestGrantInstantNeverMovesBack(t *testing.T) {
	f := newFixture(t, 1_000_000)
	l := f.acquire(t, "node-1")
	f.clock.Set(400_000)
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.Lease().GrantedAt; got != 1_000_000 {
		t.Errorf("granted at %d after the clock was set back, want 1000000", got)
	}
	// The monotonic clock goes on, and standbys have to see that.
	f.clock.Advance(4 * time.Second)
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.Lease().GrantedAt; got != 1_004_000 {
		t.Errorf("granted at %d four seconds later, want 1004000", got)
	}
}

func TestFencedRenewalEndsTheLeadership(t *testing.T) {
	f := newFixture(t, 1000)
	var reported []error
	l := f.acquire(t, "node-1", coordination.WithObserver(coordination.Observer{
		Ended: func(_ *coordination.Leadership, reason error) { reported = append(reported, reason) },
	}))
	f.supersede(f.role)
	err := l.Renew(t.Context())
	select {
	case <-l.Done():
	default:
		t.Error("Done is open after a fenced renewal returned")
	}
	if !errors.Is(err, coordination.ErrFenced) || !errors.Is(l.Err(), coordination.ErrFenced) || errors.Is(l.Err(), coordination.ErrNotHeld) {
		t.Errorf("Renew returned %v, Err %v, want a fence in both and not ErrNotHeld", err, l.Err())
	}
	first, writes := l.Err(), f.count("write")
	if err := l.Renew(t.Context()); !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, coordination.ErrNotHeld) {
		t.Errorf("Renew after the end returned %v, want ErrFenced and ErrNotHeld", err)
	}
	if err := l.Resign(t.Context()); err != nil {
		t.Errorf("Resign after a fence returned %v", err)
	}
	if l.Err() != first || f.count("write") != writes {
		t.Errorf("the ended handle wrote %d records and changed its reason to %v", f.count("write")-writes, l.Err())
	}
	if len(reported) != 1 || reported[0] != first {
		t.Errorf("the observer saw %v, want %v", reported, first)
	}
}

func TestResignClearsTheLeaseOnce(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	default:
		t.Error("Done is open after a resignation")
	}
	if !errors.Is(l.Err(), coordination.ErrNotHeld) || errors.Is(l.Err(), coordination.ErrFenced) {
		t.Errorf("Err %v, want ErrNotHeld alone", l.Err())
	}
	writes := f.count("write")
	if err := l.Resign(t.Context()); err != nil || f.count("write") != writes {
		t.Errorf("a second Resign returned %v after %d writes", err, f.count("write")-writes)
	}
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, held := state.Holder(); held || len(state.Roster) != 1 {
		t.Errorf("role state %+v, want one member and no lease", state)
	}
	f.leases(t, f.at, f.role)
}

func TestStandbyTakesOverAfterAResignation(t *testing.T) {
	f := newFixture(t, 0)
	f.register(f.at, f.role, member(t, "node-1"), 0)
	f.register(f.at, f.role, member(t, "node-2"), 0)
	l := f.acquire(t, "node-1")
	waiting := f.compete(t.Context(), t, "node-2")
	f.await(t, "read", 2)
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	for f.clock.NowMillis() < 5000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
	}
	if o := receive(t, waiting); o.err != nil || o.leadership.Lease().GrantedAt != 5000 {
		t.Errorf("outcome %+v, want the role at 5000", o)
	}
}

func TestLeaveMakesTheFirstStandbyFirst(t *testing.T) {
	f := newFixture(t, 0)
	f.register(f.at, f.role, member(t, "node-1"), 0)
	f.register(f.at, f.role, member(t, "node-2"), 0)
	l := f.acquire(t, "node-1")
	waiting := f.compete(t.Context(), t, "node-2")
	f.await(t, "read", 2)
	if err := f.clock.BlockUntil(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	if o := receive(t, waiting); o.err != nil || o.leadership.Lease().GrantedAt != 1000 {
		t.Errorf("outcome %+v, want the role one poll later", o)
	}
}

func TestExpiryEndsTheLeadershipWithTheCause(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = brokenAfter(1)
	l := f.acquire(t, "node-1")
	for f.clock.NowMillis() < 31000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if l.Err() != nil {
			t.Fatalf("ended at %d: %v", f.clock.NowMillis(), l.Err())
		}
		f.clock.Advance(time.Second)
	}
	<-l.Done()
	if err := l.Err(); !errors.Is(err, errBroken) || !errors.Is(err, coordination.ErrLeaseExpired) ||
		errors.Is(err, coordination.ErrFenced) || errors.Is(err, coordination.ErrNotHeld) {
		t.Errorf("Err %v, want the expiry and its cause", err)
	}
	// The store heals, and the handle stays ended.
	writes := f.count("write")
	f.onWrite = nil
	if err := l.Renew(t.Context()); !errors.Is(err, errBroken) || !errors.Is(err, coordination.ErrNotHeld) {
		t.Errorf("Renew after the expiry returned %v", err)
	}
	if err := l.Resign(t.Context()); err != nil || f.count("write") != writes {
		t.Errorf("Resign after the expiry returned %v after %d writes", err, f.count("write")-writes)
	}
	if again := f.acquire(t, "node-1"); again.Token() != token(t, 1, 1) {
		t.Errorf("a new acquisition on the same transport has token %s", again.Token())
	}
}

func TestFailedRenewalsAreRetriedEveryPollInterval(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = func(_ context.Context, n int) error {
		if n > 1 && n < 5 {
			return errBroken
		}
		return nil
	}
	l := f.acquire(t, "node-1")
	var at []int64
	for n := 2; n <= 5; n++ {
		for f.count("write") < n {
			if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if f.count("write") < n {
				f.clock.Advance(500 * time.Millisecond)
			}
		}
		at = append(at, f.clock.NowMillis())
	}
	if at[0] < 11000 || at[3]-at[0] > 4000 {
		t.Errorf("attempts at %v, want the first at 11000 and the others a second apart", at)
	}
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if l.Err() != nil {
		t.Errorf("ended with %v", l.Err())
	}
}

// deaf is a transport whose lease writes ignore their context while it hangs.
type deaf struct {
	*fake
	hang chan struct{}
}

func (d *deaf) WriteLease(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	if d.count("write") > 0 {
		<-d.hang
	}
	return d.fake.WriteLease(ctx, at, token, key, value)
}

func TestHungRenewalEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		transport := &deaf{fake: f, hang: make(chan struct{})}
		began := time.Now()
		l, err := coordination.AcquireLeadership(t.Context(), transport, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		if took := time.Since(began); took != coordination.DefaultLeaseDuration {
			t.Errorf("ended after %v, want the lease duration", took)
		}
		if !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("Err %v, want ErrLeaseExpired", l.Err())
		}
		close(transport.hang)
		synctest.Wait()
		// The late answer changes nothing.
		if !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("Err %v after the late answer", l.Err())
		}
	})
}

// A hung renewal does not hide why the ones before it failed.
func TestHungRenewalTellsTheFailureBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onWrite = func(ctx context.Context, n int) error {
			switch n {
			case 1:
				return nil
			case 2:
				return errBroken
			}
			<-ctx.Done()
			return ctx.Err()
		}
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		if err := l.Err(); !errors.Is(err, coordination.ErrLeaseExpired) || !errors.Is(err, errBroken) {
			t.Errorf("Err %v, want ErrLeaseExpired and the failure of the second write", err)
		}
	})
}

// A process that was paused past its deadline asks the broker before it gives
// up: it may still own the newest epoch.
func TestPausedHolderRenewsBeforeItGivesUp(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(5 * time.Minute)
	f.await(t, "write", 2)
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if l.Err() != nil || l.Lease().GrantedAt != 301000 {
		t.Errorf("err %v, lease %v, want a renewal at 301000", l.Err(), l.Lease())
	}
	f.supersede(f.role)
	f.clock.Advance(5 * time.Minute)
	<-l.Done()
	if !errors.Is(l.Err(), coordination.ErrFenced) {
		t.Errorf("Err %v, want a fence after another member took over", l.Err())
	}
}

func TestRenewalAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var bounds []time.Duration
		f.onWrite = func(ctx context.Context, n int) error {
			if n == 1 {
				return nil
			}
			began := time.Now()
			<-ctx.Done()
			bounds = append(bounds, time.Since(began))
			return ctx.Err()
		}
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		synctest.Wait()
		// At 10 s for a renew interval, then at 21 s for the rest of the lease.
		if diff := cmp.Diff([]time.Duration{10 * time.Second, 9 * time.Second}, bounds); diff != "" {
			t.Errorf("bounds mismatch (-want +got):\n%s", diff)
		}
		if !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("Err %v, want ErrLeaseExpired", l.Err())
		}
	})
}

func TestFirstLeaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onWrite = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"),
			coordination.WithLeaseDuration(12*time.Second))
		if l != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("leadership %v, error %v", l, err)
		}
		// A third of the lease for the record and a second for the tombstone.
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("gave up after %v, want 5s", took)
		}
	})
}

func TestRenewWaitsForItsTurnOnlyAsLongAsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		hang := make(chan struct{})
		f.onWrite = func(_ context.Context, n int) error {
			if n == 2 {
				<-hang
			}
			return nil
		}
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan error)
		go func() { first <- l.Renew(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Renew(ctx); !errors.Is(err, context.DeadlineExceeded) || l.Err() != nil {
			t.Errorf("Renew behind another returned %v, Err %v", err, l.Err())
		}
		close(hang)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestResignWaitsForTheRenewalInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		proceed := make(chan struct{})
		f.onWrite = func(ctx context.Context, n int) error {
			if n != 2 {
				return nil
			}
			select {
			case <-proceed:
				return nil
			case <-ctx.Done():
				t.Error("the renewal in flight was cancelled")
				return ctx.Err()
			}
		}
		controller := role(t, "controller")
		l, err := coordination.AcquireLeadership(t.Context(), f, controller, member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(coordination.DefaultRenewInterval+time.Second, func() { close(proceed) })
		<-time.After(coordination.DefaultRenewInterval)
		synctest.Wait()
		if f.count("write") != 2 {
			t.Fatal("no renewal is in flight")
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases := f.leases(t, l.Partition(), controller)
		if len(leases) != 3 || leases[1] == nil || leases[2] != nil {
			t.Errorf("lease records %v, want the tombstone last", leases)
		}
	})
}

func TestResignEndsBeforeItWrites(t *testing.T) {
	f := newFixture(t, 1000)
	var l *coordination.Leadership
	var ended error
	f.onWrite = func(_ context.Context, n int) error {
		if n == 2 {
			<-l.Done()
			ended = l.Err()
		}
		return nil
	}
	l = f.acquire(t, "node-1")
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(ended, coordination.ErrNotHeld) {
		t.Errorf("Err was %v while the tombstone was written", ended)
	}
}

func TestFailedResignationCanBeRepeated(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = func(_ context.Context, n int) error {
		if n == 2 {
			return errBroken
		}
		return nil
	}
	l := f.acquire(t, "node-1")
	if err := l.Resign(t.Context()); !errors.Is(err, errBroken) || !errors.Is(l.Err(), coordination.ErrNotHeld) {
		t.Fatalf("Resign returned %v, Err %v", err, l.Err())
	}
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leases := f.leases(t, f.at, f.role); len(leases) != 2 || leases[1] != nil {
		t.Errorf("lease records %v, want the tombstone last", leases)
	}
}

func TestResignationAfterTheDeadlineHasNothingToRepeat(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = brokenAfter(1)
	l := f.acquire(t, "node-1")
	if err := l.Resign(t.Context()); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	f.clock.Set(31000)
	if err := l.Resign(t.Context()); err != nil || f.count("write") != 2 {
		t.Errorf("Resign returned %v after %d writes, want nil after 2", err, f.count("write"))
	}
}

func TestFencedResignationIsASuccess(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	f.supersede(f.role)
	if err := l.Resign(t.Context()); err != nil || !errors.Is(l.Err(), coordination.ErrNotHeld) {
		t.Errorf("Resign returned %v, Err %v", err, l.Err())
	}
}

func TestResignWithAnEndedContextStillClearsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which the grace of a second does not lapse
		f := newFixture(t, 1000)
		l := f.acquire(t, "node-1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Resign(ctx); err != nil {
			t.Errorf("Resign returned %v although the tombstone was written", err)
		}
		if leases := f.leases(t, f.at, f.role); len(leases) != 2 || leases[1] != nil {
			t.Errorf("lease records %v, want the tombstone last", leases)
		}
	})
}

func TestResignBehindAHungRenewalReturnsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		transport := &deaf{fake: f, hang: make(chan struct{})}
		l, err := coordination.AcquireLeadership(t.Context(), transport, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(coordination.DefaultRenewInterval)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err = l.Resign(ctx)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("Resign took %v, want its context and a second", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(l.Err(), coordination.ErrNotHeld) {
			t.Errorf("Resign returned %v, Err %v", err, l.Err())
		}
		close(transport.hang)
		if err := l.Resign(t.Context()); err != nil {
			t.Errorf("the next Resign returned %v", err)
		}
		leases := f.leases(t, l.Partition(), l.Role())
		if last := leases[len(leases)-1]; last != nil {
			t.Errorf("the last lease record is %v, want a tombstone", last)
		}
	})
}

func TestLifetimeResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		lifetime, stop := context.WithCancel(t.Context())
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"),
			coordination.WithLifetime(lifetime))
		if err != nil {
			t.Fatal(err)
		}
		stop()
		synctest.Wait()
		if !errors.Is(l.Err(), coordination.ErrNotHeld) {
			t.Errorf("Err %v, want ErrNotHeld", l.Err())
		}
		if leases := f.leases(t, l.Partition(), l.Role()); len(leases) != 2 || leases[1] != nil {
			t.Errorf("lease records %v, want the tombstone last", leases)
		}
		if again, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"),
			coordination.WithLifetime(lifetime)); again != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("an acquisition after its lifetime returned %v and %v", again, err)
		}
	})
}

func TestClosedTransportEndsTheLeadership(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = func(_ context.Context, n int) error {
		if n > 1 {
			return coordination.ErrTransportClosed
		}
		return nil
	}
	l := f.acquire(t, "node-1")
	if err := l.Renew(t.Context()); !errors.Is(err, coordination.ErrTransportClosed) {
		t.Errorf("Renew returned %v", err)
	}
	if !errors.Is(l.Err(), coordination.ErrTransportClosed) {
		t.Errorf("Err %v, want ErrTransportClosed", l.Err())
	}
}

func TestTrustWindow(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = brokenAfter(1)
	l := f.acquire(t, "node-1", coordination.WithClockTolerance(2*time.Second))
	if got := l.SafeUntil(); got != 29000 {
		t.Errorf("safe until %d, want the deadline less the tolerance", got)
	}
	f.clock.Set(28999)
	if err := l.Check(); err != nil {
		t.Errorf("Check before the instant: %v", err)
	}
	f.clock.Set(29000)
	if err := l.Check(); !errors.Is(err, coordination.ErrLeaseExpired) || errors.Is(err, coordination.ErrNotHeld) {
		t.Errorf("Check at the instant: %v", err)
	}
	// A wall clock that is set back does not open the window again.
	f.clock.Set(5000)
	if err := l.Check(); !errors.Is(err, coordination.ErrLeaseExpired) {
		t.Errorf("Check after the clock was set back: %v", err)
	}
	if err := l.Resign(t.Context()); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := l.Check(); !errors.Is(err, coordination.ErrNotHeld) {
		t.Errorf("Check after the end: %v", err)
	}
}

func TestVerifyAsksTheCoordinator(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	if err := l.Verify(t.Context()); err != nil {
		t.Errorf("Verify of the holder: %v", err)
	}
	f.supersede(f.role)
	if err := l.Verify(t.Context()); !errors.Is(err, coordination.ErrFenced) || !strings.Contains(err.Error(), "1:1") {
		t.Errorf("Verify of a superseded holder: %v", err)
	}
	delete(f.epochs, f.role)
	if err := l.Verify(t.Context()); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("Verify of a role that the coordinator forgot: %v", err)
	}
	f.onDescribe = func(context.Context, int) error { return errBroken }
	if err := l.Verify(t.Context()); !errors.Is(err, errBroken) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("Verify without an answer: %v", err)
	}
	if l.Err() != nil {
		t.Errorf("Verify ended the leadership: %v", l.Err())
	}
}

func TestConcurrentUseOfOneHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					last := l.Lease().GrantedAt
					if err := l.Renew(t.Context()); err != nil && !errors.Is(err, coordination.ErrNotHeld) {
						t.Error(err)
					}
					if next := l.Lease().GrantedAt; next < last {
						t.Errorf("the lease moved back from %d to %d", last, next)
					}
					_, _, _ = l.Token(), l.SafeUntil(), l.Check()
					<-time.After(100 * time.Millisecond)
				}
			})
		}
		for range 4 {
			all.Go(func() {
				<-time.After(time.Second)
				if err := l.Resign(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		leases := f.leases(t, l.Partition(), l.Role())
		for i, lease := range leases {
			if (lease == nil) != (i == len(leases)-1) {
				t.Errorf("lease record %d of %d is %v, want exactly one tombstone at the end", i, len(leases), lease)
			}
		}
	})
}
