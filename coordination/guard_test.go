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

// full is a fake with every optional part of a transport that a leadership
// uses. It advances the epoch with every write when bumps is set.
type full struct {
	*fake
	bumps   bool
	lease   coordination.LeaseConfig
	onWrite func(ctx context.Context, n int) error

	mu         sync.Mutex // guards the fields below
	current    map[coordination.FencingToken]coordination.FencingToken
	written    [][]coordination.GuardedRecord
	released   []coordination.FencingToken
	superseded map[coordination.FencingToken]chan struct{}
}

func newFull() *full {
	return &full{
		fake:       newFake(),
		current:    make(map[coordination.FencingToken]coordination.FencingToken),
		superseded: make(map[coordination.FencingToken]chan struct{}),
	}
}

func (f *full) AcquireEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, error) {
	minted, err := f.fake.AcquireEpoch(ctx, role)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, channel := range f.superseded {
		select {
		case <-channel:
		default:
			close(channel)
		}
	}
	f.superseded[minted] = make(chan struct{})
	return minted, err
}

func (f *full) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	if err := still(ctx); err != nil {
		return coordination.NoEpoch, err
	}
	return f.AcquireEpoch(ctx, role)
}

// Lease is the policy of the fake, which leaves it to the calls by default.
func (f *full) Lease() coordination.LeaseConfig { return f.lease }

func (f *full) Superseded(_ coordination.Role, minted coordination.FencingToken) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.superseded[minted]
}

func (f *full) WriteLeaseAt(ctx context.Context, at coordination.TopicPartition, token coordination.FencingToken, key, value []byte) (int64, error) {
	offset, err := f.fake.writeLease(ctx, at, token, key, value)
	if err == nil {
		decoded, _ := coordination.DecodeKey(key)
		f.advance(decoded.Role, token)
	}
	return offset, err
}

func (f *full) WriteRecords(ctx context.Context, role coordination.Role, token coordination.FencingToken, records []coordination.GuardedRecord) error {
	if err := f.enter(ctx, "records", f.onWrite); err != nil {
		return err
	}
	f.fake.mu.Lock()
	newest := f.epochs[role]
	f.fake.mu.Unlock()
	if newest != token {
		return coordination.ErrFenced
	}
	f.mu.Lock()
	f.written = append(f.written, records)
	f.mu.Unlock()
	f.advance(role, token)
	return nil
}

// advance moves the epoch on as a broker does that bumps it with every
// transaction.
func (f *full) advance(role coordination.Role, token coordination.FencingToken) {
	if !f.bumps {
		return
	}
	next := f.supersede(role)
	f.mu.Lock()
	defer f.mu.Unlock()
	for minted, current := range f.current {
		if current == token {
			f.current[minted] = next
			return
		}
	}
	f.current[token] = next
}

func (f *full) CurrentToken(_ coordination.Role, minted coordination.FencingToken) (coordination.FencingToken, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current, known := f.current[minted]
	return current, known
}

func (f *full) Release(_ coordination.Role, minted coordination.FencingToken) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = append(f.released, minted)
}

// holder takes the role on a full fake, inside a bubble.
func holder(t *testing.T, f *full, options ...coordination.Option) *coordination.Leadership {
	t.Helper()
	l, err := coordination.AcquireLeadership(t.Context(), f, role(t, "controller"), member(t, "node-1"), options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// guardedHolder is a holder with its guard.
func guardedHolder(t *testing.T, f *full, options ...coordination.Option) (*coordination.Leadership, *coordination.GuardedWriter) {
	t.Helper()
	l := holder(t, f, options...)
	w, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	return l, w
}

func TestGuardedWriteGoesOutUnderTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		var tokens []string
		l := holder(t, f, coordination.WithObserver(coordination.Observer{Called: func(event coordination.CallEvent) {
			if event.Operation == coordination.OperationWriteRecords {
				tokens = append(tokens, event.Token.String())
			}
		}}))
		w, err := l.Guard()
		if err != nil {
			t.Fatal(err)
		}
		sent := []coordination.GuardedRecord{
			{Topic: "commands", Partition: 3, Key: []byte("k"), Value: []byte("v"),
				Headers: []coordination.GuardedHeader{{Key: "h"}}, Timestamp: time.UnixMilli(5)},
			{Topic: "commands", Partition: 4},
		}
		if err := w.Write(t.Context(), sent...); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context()); err != nil || f.count("records") != 1 {
			t.Errorf("no records made %d calls and error %v", f.count("records")-1, err)
		}
		if diff := cmp.Diff([][]coordination.GuardedRecord{sent}, f.written); diff != "" {
			t.Errorf("records mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"1:0"}, tokens); diff != "" {
			t.Errorf("tokens mismatch (-want +got):\n%s", diff)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), sent...); !errors.Is(err, coordination.ErrNotHeld) || f.count("records") != 1 {
			t.Errorf("a write after the resignation made %d calls and error %v", f.count("records")-1, err)
		}
	})
}

func TestGuardedWriteRejectsRecordsWithoutAPlaceOrTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		l, w := guardedHolder(t, f)
		good := coordination.GuardedRecord{Topic: "t"}
		for want, bad := range map[string]coordination.GuardedRecord{
			"record 1: topic must not be empty":                              {},
			`record 1: topic "t": partition -1 must not be negative`:         {Topic: "t", Partition: -1},
			`record 1: topic "t": Kafka has no timestamp for 1969-12-31`:     {Topic: "t", Timestamp: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
			`record 1: topic "t": Kafka has no timestamp for 300000000-01-`:  {Topic: "t", Timestamp: time.Date(300_000_000, 1, 1, 0, 0, 0, 0, time.UTC)},
			`record 1: topic "a b": byte 1 is not one of a-z, A-Z, 0-9, '.'`: {Topic: "a b"},
		} {
			if err := w.Write(t.Context(), good, bad); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		if f.count("records") != 0 {
			t.Error("a bad record reached the transport")
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestGuardedWriteThatWaitedDoesNotOutliveTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		l, w := guardedHolder(t, f)
		proceed := make(chan struct{})
		f.onWrite = func(context.Context, int) error {
			<-proceed
			return nil
		}
		results := make(chan error, 2)
		write := func() { results <- w.Write(context.Background(), coordination.GuardedRecord{Topic: "t"}) }
		go write()
		synctest.Wait()
		go write()
		synctest.Wait() // the second write waits before the resignation does
		resigned := make(chan error)
		go func() { resigned <- l.Resign(context.Background()) }()
		synctest.Wait()
		close(proceed)
		done, refused := <-results, <-results
		if done != nil {
			done, refused = refused, done
		}
		if done != nil || !errors.Is(refused, coordination.ErrNotHeld) || f.count("records") != 1 {
			t.Errorf("writes returned %v and %v after %d calls, want one refused", done, refused, f.count("records"))
		}
		if err := <-resigned; err != nil {
			t.Error(err)
		}
	})
}

func TestFencedGuardedWriteEndsTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		l, w := guardedHolder(t, f)
		f.supersede(l.Role())
		err := w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"})
		if !errors.Is(err, coordination.ErrFenced) || !errors.Is(l.Err(), coordination.ErrFenced) {
			t.Errorf("error %v, Err %v, want a fence", err, l.Err())
		}
		if err := w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"}); !errors.Is(err, coordination.ErrNotHeld) || !errors.Is(err, coordination.ErrFenced) {
			t.Errorf("a write after the fence returned %v", err)
		}
	})
}

func TestUnknownOutcomeKeepsTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		l := holder(t, f)
		unknown := &coordination.OutcomeUnknownError{Role: l.Role(), Token: l.Token(), Err: errBroken}
		f.onWrite = func(context.Context, int) error { return unknown }
		w, err := l.Guard()
		if err != nil {
			t.Fatal(err)
		}
		err = w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"})
		var typed *coordination.OutcomeUnknownError
		if !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.As(err, &typed) || !errors.Is(err, errBroken) || l.Err() != nil {
			t.Errorf("error %v, Err %v", err, l.Err())
		}
		if want := `role "controller", token 1:0: the outcome of the write is unknown: broken transport`; unknown.Error() != want {
			t.Errorf("Error() = %q, want %q", unknown, want)
		}
		// A fence that follows an unanswered commit ends the leadership too.
		unknown.Err = coordination.ErrFenced
		if err := w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"}); !errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.Is(l.Err(), coordination.ErrFenced) {
			t.Errorf("error %v, Err %v, want both", err, l.Err())
		}
	})
}

func TestGuardNeedsAWriter(t *testing.T) {
	f := newFixture(t, 0)
	w, err := f.acquire(t, "node-1").Guard()
	if w != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("writer %v, error %v", w, err)
	}
}

func TestTrackedTokenMovesOnWithEveryWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		f.bumps = true
		l, w := guardedHolder(t, f)
		check := func(step, current, lease string) {
			t.Helper()
			got := []string{l.MintedToken().String(), l.Token().String(), l.Lease().Token.String()}
			if diff := cmp.Diff([]string{"1:0", current, lease}, got); diff != "" {
				t.Errorf("%s: minted, current and lease token mismatch (-want +got):\n%s", step, diff)
			}
			status, err := coordination.DescribeLeadership(t.Context(), f, l.Role())
			if err != nil || !status.Authoritative(l.Token()) {
				t.Errorf("%s: %s, error %v, want the holder", step, status, err)
			}
		}
		check("acquired", "1:1", "1:0")
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("renewed", "1:2", "1:1")
		if err := w.Write(t.Context(), coordination.GuardedRecord{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		check("wrote", "1:3", "1:1")
		if err := l.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if l.Sequence() != 1 {
			t.Errorf("sequence %d, want the offset of the first lease", l.Sequence())
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSupersededHandleEndsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFull()
		first := holder(t, f)
		second := holder(t, f)
		synctest.Wait()
		if !errors.Is(first.Err(), coordination.ErrFenced) || second.Err() != nil {
			t.Errorf("Err %v and %v, want the first handle fenced", first.Err(), second.Err())
		}
		if !(second.Sequence() > first.Sequence()) {
			t.Errorf("sequences %d and %d do not grow", first.Sequence(), second.Sequence())
		}
		if err := second.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]coordination.FencingToken{first.MintedToken(), second.MintedToken()}, f.released, equateValues); diff != "" {
			t.Errorf("released tokens mismatch (-want +got):\n%s", diff)
		}
	})
}

// prefix is a fake whose reads an open transaction cuts short.
type prefix struct {
	*fake
	cut func(n int) bool
}

func (p *prefix) EnsureTopic(context.Context, string, int) error { return nil }

func (p *prefix) ReadCommitted(ctx context.Context, at coordination.TopicPartition) ([]coordination.StateRecord, bool, error) {
	records, err := p.ReadPartition(ctx, at)
	if p.cut(p.count("read")) && len(records) > 0 {
		// The last record is part of the transaction.
		return records[:len(records)-1], false, err
	}
	return records, true, err
}

// acquireBehindATransaction has node-1 compete on a log whose newest record
// may be cut off, and returns how long that took.
func acquireBehindATransaction(t *testing.T, cut func(n int) bool, fill func(f *fake, at coordination.TopicPartition)) (took time.Duration, calls map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		controller := role(t, "controller")
		at, err := coordination.RoleTopicPartition(controller)
		if err != nil {
			t.Fatal(err)
		}
		f.register(at, controller, member(t, "node-1"), 0)
		fill(f, at)
		began := time.Now()
		l, err := coordination.AcquireLeadership(t.Context(), &prefix{f, cut}, controller, member(t, "node-1"), coordination.WithPollJitter(0))
		if err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
		calls = map[string]int{"describe": f.count("describe"), "mint": f.count("mint")}
		if err := l.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return took, calls
}

func TestIncompleteReadDelaysTheChallenge(t *testing.T) {
	controller, other := role(t, "controller"), member(t, "holder")
	always := func(int) bool { return true }
	// The transaction ends soon, and a renewal comes to light.
	took, calls := acquireBehindATransaction(t, func(n int) bool { return n < 3 }, func(f *fake, at coordination.TopicPartition) {
		f.grant(at, controller, other, time.Now().UnixMilli(), time.Now().UnixMilli()+30000)
	})
	if took != 31*time.Second || calls["mint"] != 1 {
		t.Errorf("took the role after %v with calls %v, want the extent of the lease since the last read without it", took, calls)
	}
	// The lease in sight is over, and the transaction stays.
	took, calls = acquireBehindATransaction(t, always, func(f *fake, at coordination.TopicPartition) {
		f.grant(at, controller, other, 0, 30000)
		f.register(at, controller, other, 0)
	})
	if took != 2*time.Second || calls["mint"] != 1 {
		t.Errorf("took the role after %v with calls %v, want two poll intervals", took, calls)
	}
}
