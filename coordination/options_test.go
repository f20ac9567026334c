// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestRoleTopicPartition(t *testing.T) {
	controller := role(t, "controller")
	cases := []struct {
		options []coordination.Option
		want    coordination.TopicPartition
	}{
		{nil, coordination.TopicPartition{Topic: "__coordination_state", Partition: 12}},
		{[]coordination.Option{coordination.WithTopic("coordination"), coordination.WithPartitions(1)},
			coordination.TopicPartition{Topic: "coordination"}},
		{[]coordination.Option{coordination.WithPartitions(100), coordination.WithPollInterval(time.Minute)},
			coordination.TopicPartition{Topic: "__coordination_state", Partition: 56}},
	}
	for _, c := range cases {
		got, err := coordination.RoleTopicPartition(controller, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("partition mismatch (-want +got):\n%s", diff)
		}
	}
	if _, err := coordination.RoleTopicPartition(coordination.Role{}); err == nil || err.Error() != "coordination: the role is the zero value" {
		t.Errorf("the zero role gives %v", err)
	}
}

func TestOptionErrors(t *testing.T) {
	controller := role(t, "controller")
	cases := []struct {
		name   string
		option coordination.Option
		want   string
	}{
		{"empty topic", coordination.WithTopic(""), "topic must not be empty"},
		{"long topic", coordination.WithTopic(strings.Repeat("x", 250)), "topic is 250 bytes long, the limit is 249"},
		{"dot", coordination.WithTopic("."), `topic must not be "."`},
		{"two dots", coordination.WithTopic(".."), `topic must not be ".."`},
		{"slash", coordination.WithTopic("a/b"), `topic "a/b": byte 1 is not one of a-z, A-Z, 0-9, '.', '_', '-'`},
		{"partitions", coordination.WithPartitions(0), "partition count 0 must be at least 1"},
		{"lease config", coordination.WithLeaseConfig(coordination.LeaseConfig{}), "lease duration 0s must be positive"},
		{"duration", coordination.WithLeaseDuration(0), "lease duration 0s must be positive"},
		{"renew", coordination.WithRenewInterval(-1), "renew interval -1ns must be positive"},
		{"stagger", coordination.WithChallengeStagger(0), "challenge stagger 0s must be positive"},
		{"clock", coordination.WithClock(nil), "clock must not be nil"},
		{"poll", coordination.WithPollInterval(0), "poll interval 0s must be positive"},
		{"jitter", coordination.WithPollJitter(1), "poll jitter 1 must be at least 0 and below 1"},
		{"no jitter", coordination.WithPollJitter(math.NaN()), "poll jitter NaN must be at least 0 and below 1"},
		{"tolerance", coordination.WithClockTolerance(-1), "clock tolerance -1ns must not be negative"},
		//lint:ignore SA1012 the nil context is what is tested
		{"lifetime", coordination.WithLifetime(nil), "lifetime context must not be nil"},
		{"skip", coordination.WithSkipMalformed(nil), "skip function must not be nil"},
		{"logger", coordination.WithLogger(nil), "logger must not be nil"},
		{"nil", nil, "option 0 is nil"},
		{"long renewal", coordination.WithRenewInterval(time.Hour), "renew interval 1h0m0s must be below the lease duration 30s"},
		{"short lease", coordination.WithLeaseDuration(time.Second), "renew interval 10s must be below the lease duration 1s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := coordination.RoleTopicPartition(controller, c.option)
			if !errors.Is(err, coordination.ErrInvalidOption) || err.Error() != "coordination: invalid option: "+c.want {
				t.Errorf("error %q, want %q", err, c.want)
			}
		})
	}
	_, err := coordination.RoleTopicPartition(controller, coordination.WithTopic(""), nil, coordination.WithPartitions(0))
	if want := 3; len(strings.Split(err.Error(), "\n")) != want {
		t.Errorf("error %q, want all %d problems", err, want)
	}
}

func TestOptionsAreCheckedTogether(t *testing.T) {
	controller := role(t, "controller")
	short := leaseConfig(t, 3*time.Second, time.Second, time.Second)
	for _, options := range [][]coordination.Option{
		{coordination.WithLeaseDuration(5 * time.Second), coordination.WithRenewInterval(time.Second)},
		{coordination.WithRenewInterval(time.Second), coordination.WithLeaseDuration(5 * time.Second)},
		{coordination.WithRenewInterval(time.Hour), coordination.WithLeaseConfig(short)},
		{coordination.WithLeaseConfig(short), coordination.WithRenewInterval(2 * time.Second)},
	} {
		if at, err := coordination.RoleTopicPartition(controller, options...); err != nil || at.Partition != 12 {
			t.Errorf("partition %v, error %v", at, err)
		}
	}
	if _, err := coordination.RoleTopicPartition(controller, coordination.WithLeaseConfig(short), coordination.WithRenewInterval(4*time.Second)); !errors.Is(err, coordination.ErrInvalidOption) {
		t.Errorf("a renewal after the end of the lease gives %v", err)
	}
}

func TestLeaseConfigOptionIsReplacedFromThenOn(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1",
		coordination.WithLeaseConfig(leaseConfig(t, 3*time.Second, time.Second, time.Second)), coordination.WithLeaseDuration(7*time.Second))
	if got := l.Lease().Deadline; got != 8000 {
		t.Errorf("deadline %d, want the later duration of 7s", got)
	}
}

func TestTopicOptionNamesTheTopicOfEveryCall(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1", coordination.WithTopic("roles"), coordination.WithPartitions(3))
	want := coordination.TopicPartition{Topic: "roles", Partition: 2}
	if l.Partition() != want || len(f.log[want]) != 2 || len(f.log) != 1 {
		t.Errorf("partition %s, log %v, want all records in %s", l.Partition(), f.log, want)
	}
}

// reads runs a standby for a minute and returns the gaps between its reads.
func reads(t *testing.T, name string, options ...coordination.Option) []time.Duration {
	var gaps []time.Duration
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		at, err := coordination.RoleTopicPartition(controller)
		if err != nil {
			t.Fatal(err)
		}
		f.register(at, controller, member(t, name), 0)
		f.grant(at, controller, member(t, "holder"), time.Now().UnixMilli(), time.Now().Add(time.Hour).UnixMilli())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last time.Time
		f.onRead = func(_ context.Context, n int) error {
			if n > 1 {
				gaps = append(gaps, time.Since(last))
			}
			last = time.Now()
			return nil
		}
		if _, err := coordination.AcquireLeadership(ctx, f, controller, member(t, name), options...); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	return gaps
}

func TestPollJitterSpreadsTheReads(t *testing.T) {
	jittered := reads(t, "node-1")
	distinct := make(map[time.Duration]bool)
	for _, gap := range jittered {
		distinct[gap] = true
		if gap < 800*time.Millisecond || gap > time.Second {
			t.Errorf("a gap of %v, want at most one poll interval and at least 0.8", gap)
		}
	}
	if len(distinct) < 40 {
		t.Errorf("%d different gaps in a minute", len(distinct))
	}
	if diff := cmp.Diff(jittered, reads(t, "node-1")); diff != "" {
		t.Errorf("the same member reads at other instants the next time (-first +second):\n%s", diff)
	}
	if cmp.Equal(jittered, reads(t, "node-2")) {
		t.Error("two members read in step")
	}
	for _, gap := range reads(t, "node-1", coordination.WithPollJitter(0)) {
		if gap != time.Second {
			t.Errorf("a gap of %v without jitter", gap)
		}
	}
}

func TestSkipMalformedFoldsTheRest(t *testing.T) {
	f := newFixture(t, 1000)
	f.put(f.at, []byte{9}, []byte("poison"))
	_, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	var format *coordination.FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), "read __coordination_state-0: record at offset 0: malformed key") {
		t.Errorf("error %v, want one that names partition and offset", err)
	}
	var skipped []int64
	skip := coordination.WithSkipMalformed(func(record coordination.StateRecord, err error) {
		if !errors.As(err, &format) {
			t.Errorf("skipped for %v", err)
		}
		skipped = append(skipped, record.Offset)
	})
	f.acquire(t, "node-1", skip)
	if diff := cmp.Diff([]int64{0, 0}, skipped); diff != "" {
		t.Errorf("skipped offsets mismatch (-want +got):\n%s", diff)
	}
}

func TestClockToleranceDelaysTheChallenge(t *testing.T) {
	f := newFixture(t, 0)
	f.register(f.at, f.role, member(t, "node-1"), 0)
	f.grant(f.at, f.role, member(t, "holder"), 0, 30000)
	f.clock.Set(30000)
	waiting := f.compete(t.Context(), t, "node-1", coordination.WithClockTolerance(2*time.Second))
	for f.clock.NowMillis() < 32000 {
		if err := f.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if f.count("mint") != 0 {
			t.Fatalf("challenged at %d", f.clock.NowMillis())
		}
		f.clock.Advance(500 * time.Millisecond)
	}
	if o := receive(t, waiting); o.err != nil || o.leadership.Lease().GrantedAt != 32000 {
		t.Errorf("outcome %+v, want the role at 32000", o)
	}
}

func TestLoggerTellsTheTerm(t *testing.T) {
	f := newFixture(t, 1000)
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	l := f.acquire(t, "node-1", coordination.WithLogger(logger))
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `level=INFO msg="took the role" role=controller member=node-1 token=1:0 sequence=-1
level=INFO msg="lost the role" role=controller member=node-1 token=1:0 error="coordination: role \"controller\", member \"node-1\": resigned: the member no longer holds the role"
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("log mismatch (-want +got):\n%s", diff)
	}
}

func TestObserversSeeEveryCall(t *testing.T) {
	f := newFixture(t, 1000)
	var first, second []string
	observe := func(into *[]string) coordination.Option {
		return coordination.WithObserver(coordination.Observer{
			Called: func(event coordination.CallEvent) {
				if event.Role != f.role || event.Member != member(t, "node-1") {
					t.Errorf("event %+v of another member", event)
				}
				*into = append(*into, string(event.Operation)+" "+event.Token.String())
			},
			Acquired: func(l *coordination.Leadership) { *into = append(*into, "acquired "+l.Token().String()) },
			Ended:    func(_ *coordination.Leadership, reason error) { *into = append(*into, "ended") },
		})
	}
	l := f.acquire(t, "node-1", observe(&first), coordination.WithObserver(coordination.Observer{}), observe(&second))
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"read -1:-1", "register -1:-1", "read -1:-1", "mint 1:0", "write lease 1:0", "acquired 1:0",
		"write lease 1:0", "ended", "clear lease 1:0", "deregister -1:-1",
	}
	if diff := cmp.Diff([][]string{want, want}, [][]string{first, second}); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
}

func TestRegressedTokenIsReported(t *testing.T) {
	f := newFixture(t, 40000)
	f.register(f.at, f.role, member(t, "node-1"), 0)
	f.grant(f.at, f.role, member(t, "holder"), 0, 30000)
	f.epochs[f.role] = token(t, 0, 4) // the next mint is 0:5, below 1:0
	var got []string
	l := f.acquire(t, "node-1", coordination.WithObserver(coordination.Observer{
		Regressed: func(_ coordination.Role, minted, logged coordination.FencingToken) {
			got = append(got, minted.String(), logged.String())
		},
	}))
	if diff := cmp.Diff([]string{"0:5", "1:0"}, got); diff != "" || l.Err() != nil {
		t.Errorf("regression mismatch (-want +got):\n%s", diff)
	}
}

// A transport that knows its lease gives it to every call, and a call that
// contradicts it is refused before it reaches a broker.
func TestLeaseIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		f.lease = leaseConfig(t, 6*time.Second, 2*time.Second, time.Second)
		l := holder(t, f)
		if got := l.Lease().Deadline - l.Lease().GrantedAt; got != 6000 {
			t.Errorf("the lease lasts %d ms, want 6000 as the transport says", got)
		}
		again := holder(t, f, coordination.WithLeaseConfig(f.lease))
		if err := errors.Join(l.Resign(t.Context()), again.Resign(t.Context())); err != nil {
			t.Error(err)
		}
		reads := f.count("read")
		for name, options := range map[string][]coordination.Option{
			"a duration": {coordination.WithLeaseDuration(30 * time.Second)},
			"a policy":   {coordination.WithLeaseConfig(coordination.DefaultLeaseConfig())},
			"a stagger":  {coordination.WithChallengeStagger(2 * time.Second)},
		} {
			_, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"), options...)
			if !errors.Is(err, coordination.ErrInvalidOption) || !strings.Contains(err.Error(), "the lease of its transport is 6s, renewed each 2s, stagger 1s") {
				t.Errorf("%s: %v, want ErrInvalidOption with both leases", name, err)
			}
		}
		if f.count("read") != reads {
			t.Error("a refused call reached the transport")
		}
	})
}
