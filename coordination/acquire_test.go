// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestFirstAcquisition(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")

	if l.Token() != token(t, 1, 0) || l.MintedToken() != l.Token() || l.Err() != nil {
		t.Errorf("token %s, minted %s, err %v", l.Token(), l.MintedToken(), l.Err())
	}
	if l.Role() != f.role || l.Member() != member(t, "node-1") || l.Partition() != f.at {
		t.Errorf("leadership of %s in role %s at %s", l.Member(), l.Role(), l.Partition())
	}
	want := coordination.RoleState{
		Roster: []coordination.RosterEntry{{Member: member(t, "node-1"), Offset: 0, RegisteredAt: 1000}},
		Lease:  &coordination.Lease{Member: member(t, "node-1"), Token: token(t, 1, 0), GrantedAt: 1000, Deadline: 31000},
	}
	got, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, equateValues); diff != "" {
		t.Errorf("role state mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*want.Lease, l.Lease(), equateValues); diff != "" {
		t.Errorf("Lease() mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"read", "append", "read", "mint", "write"}, f.order[:5]); diff != "" {
		t.Errorf("calls mismatch (-want +got):\n%s", diff)
	}
}

func TestStandbyWaitsForTheDeadlineOfTheHolder(t *testing.T) {
	f := newFixture(t, 1000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.register(f.at, f.role, member(t, "node-2"), 200)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)

	ctx, cancel := context.WithCancel(t.Context())
	waiting := f.compete(ctx, t, "node-2")
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if o := receive(t, waiting); o.leadership != nil || o.err != context.Canceled {
		t.Fatalf("a cancelled wait returned %v and %v, want context.Canceled itself", o.leadership, o.err)
	}

	waiting = f.compete(t.Context(), t, "node-2")
	for f.clock.NowMillis() < 29000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
	}
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if f.count("mint") != 0 {
		t.Fatal("the standby challenged a live holder")
	}
	f.clock.Set(30000)
	o := receive(t, waiting)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if want := (coordination.Lease{Member: member(t, "node-2"), Token: token(t, 1, 1), GrantedAt: 30000, Deadline: 60000}); o.leadership.Lease() != want {
		t.Errorf("lease %v, want %v", o.leadership.Lease(), want)
	}
	if f.count("append") != 0 {
		t.Error("a registered member registered again")
	}
}

func TestStandbyUsesTheDeadlineInTheRecord(t *testing.T) {
	f := newFixture(t, 0)
	f.register(f.at, f.role, member(t, "node-1"), 0)
	f.register(f.at, f.role, member(t, "node-2"), 0)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	waiting := f.compete(t.Context(), t, "node-2", coordination.WithLeaseDuration(5*time.Second), coordination.WithRenewInterval(time.Second))
	for f.clock.NowMillis() < 30000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if f.count("mint") != 0 {
			t.Fatalf("challenged at %d", f.clock.NowMillis())
		}
		f.clock.Advance(time.Second)
	}
	if o := receive(t, waiting); o.err != nil || o.leadership.Lease().Deadline != 35000 {
		t.Errorf("outcome %+v, want a lease of five seconds", o)
	}
}

func TestMemberNamedByTheLogTakesTheRoleAtOnce(t *testing.T) {
	f := newFixture(t, 1000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	l := f.acquire(t, "node-1")
	if l.Token() != token(t, 1, 1) || f.count("append") != 0 {
		t.Errorf("token %s after %d appends, want 1:1 after none", l.Token(), f.count("append"))
	}
}

func TestLaggingReadRegistersOnce(t *testing.T) {
	f := newFixture(t, 1000)
	full := f.fake
	lagging := &laggingReader{fake: full, hidden: 2}
	waiting := f.competeOn(t.Context(), t, lagging, "node-1")
	for range 1 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
	}
	if o := receive(t, waiting); o.err != nil || f.count("append") != 1 {
		t.Errorf("%d appends, error %v, want one append", f.count("append"), o.err)
	}
}

// laggingReader shows an empty log for a number of reads.
type laggingReader struct {
	*fake
	hidden int
}

func (l *laggingReader) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	records, err := l.fake.ReadPartition(ctx, at)
	if l.fake.count("read") <= l.hidden {
		return nil, err
	}
	return records, err
}

func TestLostRegistrationIsAppendedAgain(t *testing.T) {
	f := newFixture(t, 1000)
	lost := &laggingReader{fake: f.fake, hidden: 1 << 30}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := f.competeOn(ctx, t, lost, "node-1")
	for f.clock.NowMillis() < 31000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if f.clock.NowMillis() < 31000 && f.count("append") != 1 {
			t.Fatalf("%d appends at %d, want 1", f.count("append"), f.clock.NowMillis())
		}
		f.clock.Advance(time.Second)
	}
	f.await(t, "append", 2)
	cancel()
	if o := receive(t, waiting); !errors.Is(o.err, context.Canceled) {
		t.Errorf("error %v", o.err)
	}
}

func TestDeregisteredStandbyRegistersAgain(t *testing.T) {
	f := newFixture(t, 1000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := f.compete(ctx, t, "node-2")
	f.await(t, "append", 1)
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := coordination.Deregister(t.Context(), f.fake, f.role, member(t, "node-2"), f.options()...); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	f.await(t, "append", 3)
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	want := []coordination.RosterEntry{
		{Member: member(t, "node-1"), Offset: 0, RegisteredAt: 100},
		{Member: member(t, "node-2"), Offset: 4, RegisteredAt: 2000},
	}
	if diff := cmp.Diff(want, state.Roster, equateValues); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}
	cancel()
	receive(t, waiting)
}

func TestFreshRegistrationMovesToTheTail(t *testing.T) {
	f := newFixture(t, 100000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.register(f.at, f.role, member(t, "node-2"), 100)
	waiting := f.compete(t.Context(), t, "node-1", coordination.WithFreshRegistration())
	for range 5 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if f.count("mint") != 0 {
			t.Fatal("the member challenged before its turn at the tail")
		}
		f.clock.Advance(time.Second)
	}
	if o := receive(t, waiting); o.err != nil {
		t.Fatal(o.err)
	}
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, entry := range state.Roster {
		order = append(order, entry.Member.String())
	}
	if diff := cmp.Diff([]string{"node-2", "node-1"}, order); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}
}

func TestFencedChallengeIsRetriedWithoutTheClock(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = func(_ context.Context, n int) error {
		if n == 1 {
			return coordination.ErrFenced
		}
		return nil
	}
	l := f.acquire(t, "node-1")
	if l.Token() != token(t, 1, 1) {
		t.Errorf("token %s, want 1:1", l.Token())
	}
}

func TestRepeatedFencesBackOff(t *testing.T) {
	f := newFixture(t, 1000)
	f.onWrite = func(_ context.Context, n int) error {
		if n <= 4 {
			return coordination.ErrFenced
		}
		return nil
	}
	var backoffs []coordination.BackoffEvent
	waiting := f.compete(t.Context(), t, "node-1", coordination.WithObserver(coordination.Observer{
		BackedOff: func(event coordination.BackoffEvent) { backoffs = append(backoffs, event) },
	}))
	for range 3 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(10 * time.Second)
	}
	if o := receive(t, waiting); o.err != nil || f.count("mint") != 5 {
		t.Fatalf("outcome %+v after %d mints", o, f.count("mint"))
	}
	base := time.Second
	for i, event := range backoffs {
		if event.Fences != i+2 || event.Delay < base/2 || event.Delay >= base*3/2 {
			t.Errorf("back-off %d: %+v, want %d fences and a delay around %v", i, event, i+2, base)
		}
		base *= 2
	}
	if len(backoffs) != 3 {
		t.Errorf("%d back-offs, want 3", len(backoffs))
	}
}

func TestTransportErrorsEndTheAcquisition(t *testing.T) {
	fail := func(context.Context, int) error { return errBroken }
	cases := []struct {
		name   string
		inject func(*fixture)
		calls  map[string]int
	}{
		{"read", func(f *fixture) { f.onRead = fail }, map[string]int{"read": 1}},
		{"append", func(f *fixture) { f.onAppend = fail }, map[string]int{"read": 1, "append": 1}},
		{"mint", func(f *fixture) { f.onMint = fail }, map[string]int{"read": 2, "append": 1, "mint": 1}},
		// The second write is the tombstone that spares the standbys a wait.
		{"first lease", func(f *fixture) { f.onWrite = fail }, map[string]int{"read": 2, "append": 1, "mint": 1, "write": 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 1000)
			c.inject(f)
			l, err := coordination.AcquireLeadership(t.Context(), f.fake, f.role, member(t, "node-1"), f.options()...)
			if l != nil || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), `role "controller"`) {
				t.Errorf("leadership %v, error %v, want one that names the role and wraps the cause", l, err)
			}
			if diff := cmp.Diff(c.calls, f.calls); diff != "" {
				t.Errorf("calls mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetainedRegistrationIsUsedAfterAFailedAcquisition(t *testing.T) {
	f := newFixture(t, 1000)
	f.onRead = func(_ context.Context, n int) error {
		if n == 2 {
			return errBroken
		}
		return nil
	}
	if _, err := coordination.AcquireLeadership(t.Context(), f.fake, f.role, member(t, "node-1"), f.options()...); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	f.acquire(t, "node-1")
	if f.count("append") != 1 {
		t.Errorf("%d appends, want 1", f.count("append"))
	}
}

func TestCancelledCallMatchesTheContext(t *testing.T) {
	for _, name := range []string{"read", "append", "mint"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1000)
			ctx, cancel := context.WithCancel(t.Context())
			hook := func(context.Context, int) error {
				cancel()
				return errBroken
			}
			switch name {
			case "read":
				f.onRead = hook
			case "append":
				f.onAppend = hook
			case "mint":
				f.onMint = hook
			}
			l, err := coordination.AcquireLeadership(ctx, f.fake, f.role, member(t, "node-1"), f.options()...)
			if l != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) {
				t.Errorf("leadership %v, error %v, want both the context and the cause", l, err)
			}
		})
	}
}

// A context that ends right after the mint does not leave an epoch behind that
// nobody uses: the lease is written, and the role is given up in order.
func TestCancelAfterTheMintResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which the grace of a second does not lapse
		f := newFixture(t, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		f.onWrite = func(write context.Context, n int) error {
			if n == 1 {
				cancel()
			}
			return write.Err()
		}
		var told []string
		observer := coordination.Observer{
			Acquired: func(*coordination.Leadership) { told = append(told, "acquired") },
			Ended:    func(*coordination.Leadership, error) { told = append(told, "ended") },
		}
		l, err := coordination.AcquireLeadership(ctx, f.fake, f.role, member(t, "node-1"), f.options(coordination.WithObserver(observer))...)
		if l != nil || err != context.Canceled {
			t.Errorf("leadership %v, error %v, want context.Canceled itself", l, err)
		}
		if len(told) != 0 {
			t.Errorf("the observers were told %q of a leadership that nobody had", told)
		}
		leases := f.leases(t, f.at, f.role)
		if len(leases) != 2 || leases[0] == nil || leases[1] != nil {
			t.Errorf("lease records %v, want a lease and a tombstone", leases)
		}
	})
}

func TestDeregisterOnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which the grace of a second does not lapse
		f := newFixture(t, 1000)
		f.register(f.at, f.role, member(t, "node-1"), 100)
		f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := f.compete(ctx, t, "node-2", coordination.WithDeregisterOnCancel())
		f.await(t, "append", 1)
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		cancel()
		if o := receive(t, waiting); o.err != context.Canceled {
			t.Errorf("error %v, want context.Canceled itself", o.err)
		}
		state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
		if err != nil {
			t.Fatal(err)
		}
		if _, found := state.Entry(member(t, "node-2")); found || len(state.Roster) != 1 {
			t.Errorf("roster %v, want node-1 alone", state.Roster)
		}
	})
}

func TestDuplicateMemberIsReported(t *testing.T) {
	f := newFixture(t, 1000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	f.onWrite = func(_ context.Context, n int) error {
		if n == 1 {
			f.grant(f.at, f.role, member(t, "node-1"), 1000, 31000)
		}
		return nil
	}
	var other coordination.FencingToken
	l, err := coordination.AcquireLeadership(within(t, patience), f.fake, f.role, member(t, "node-1"), f.options(
		coordination.WithObserver(coordination.Observer{
			Duplicated: func(_ coordination.Role, _ coordination.MemberID, token coordination.FencingToken) { other = token },
		}))...)
	if l != nil || !errors.Is(err, coordination.ErrDuplicateMember) || !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("leadership %v, error %v, want ErrDuplicateMember", l, err)
	}
	if other != token(t, 1, 2) {
		t.Errorf("the observer saw token %s, want 1:2", other)
	}
	if f.count("mint") != 1 {
		t.Errorf("%d mints, want 1", f.count("mint"))
	}
}

// A read that took longer than a poll interval may have missed a renewal.
func TestStaleEvaluationIsRepeatedBeforeTheMint(t *testing.T) {
	f := newFixture(t, 30000)
	f.register(f.at, f.role, member(t, "node-1"), 100)
	f.register(f.at, f.role, member(t, "node-2"), 200)
	f.grant(f.at, f.role, member(t, "node-1"), 0, 30000)
	f.onRead = func(_ context.Context, n int) error {
		if n == 1 {
			f.clock.Advance(2 * time.Second)
		}
		return nil
	}
	slow := &renewingReader{fixture: f, holder: member(t, "node-1")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := f.competeOn(ctx, t, slow, "node-2")
	if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if f.count("mint") != 0 || f.count("read") != 3 {
		t.Errorf("%d mints and %d reads, want none and 3", f.count("mint"), f.count("read"))
	}
	cancel()
	receive(t, waiting)
}

// renewingReader lets the holder renew right after the first read.
type renewingReader struct {
	*fixture
	holder coordination.MemberID
}

func (r *renewingReader) ReadPartition(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, error) {
	records, err := r.fake.ReadPartition(ctx, at)
	if r.count("read") == 1 {
		r.put(at, coordination.EncodeKey(coordination.LeaseKey(r.role)), coordination.EncodeLease(coordination.Lease{
			Member: r.holder, Token: r.epochs[r.role], GrantedAt: 31000, Deadline: 61000,
		}))
	}
	return records, err
}

func TestArgumentsAreCheckedBeforeAnyCall(t *testing.T) {
	f := newFixture(t, 0)
	var nilClock coordination.Clock
	cases := []struct {
		name      string
		transport coordination.Transport
		role      coordination.Role
		member    coordination.MemberID
		option    coordination.Option
		want      string
	}{
		{"transport", nil, f.role, member(t, "m"), nil, "the transport is nil"},
		{"role", f.fake, coordination.Role{}, member(t, "m"), nil, "the role is the zero value"},
		{"member", f.fake, f.role, coordination.MemberID{}, nil, "the member id is the zero value"},
		{"option", f.fake, f.role, member(t, "m"), coordination.WithClock(nilClock), "invalid option: clock must not be nil"},
		{"nil option", f.fake, f.role, member(t, "m"), nil, "invalid option: option 0 is nil"},
		{"combination", f.fake, f.role, member(t, "m"), coordination.WithRenewInterval(time.Hour),
			"invalid option: renew interval 1h0m0s must be below the lease duration 30s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l, err := coordination.AcquireLeadership(t.Context(), c.transport, c.role, c.member, c.option)
			if l != nil || err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("leadership %v, error %v, want %q", l, err, c.want)
			}
		})
	}
	if len(f.calls) != 0 {
		t.Errorf("calls %v, want none", f.calls)
	}
}

func TestEpochsThatRunOutAreAnnounced(t *testing.T) {
	for epoch, warned := range map[int16]bool{29998: false, 29999: false, 30000: true, 32765: true} {
		f := newFixture(t, 1000)
		f.epochs[f.role] = token(t, 7, epoch)
		var text bytes.Buffer
		l := f.acquire(t, "node-1", coordination.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
		want := fmt.Sprintf(`about to run out and to start again under another producer id" role=controller token=7:%d`, epoch+1)
		if l.Token() != token(t, 7, epoch+1) || strings.Contains(text.String(), want) != warned {
			t.Errorf("token %s, log\n%swant the warning %q: %t", l.Token(), text.String(), want, warned)
		}
	}
}
