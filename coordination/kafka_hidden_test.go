// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// foreignTimeout is how long a transaction of somebody else may stay open. No
// broker that the tests run on allows less.
const foreignTimeout = 90 * time.Second

// committed returns the newest value of each key that a transport sees.
func committed(t *testing.T, transport *coordination.KafkaTransport, at coordination.TopicPartition) (values map[string]string, complete bool) {
	t.Helper()
	records, complete, err := transport.ReadCommitted(within(t, patience), at)
	if err != nil {
		t.Fatal(err)
	}
	values = make(map[string]string)
	last := int64(-1)
	for _, record := range records {
		if record.Offset <= last {
			t.Errorf("offset %d follows %d", record.Offset, last)
		}
		last = record.Offset
		values[string(record.Key)] = string(record.Value)
	}
	return values, complete
}

func suiteReadCommitted(t *testing.T, s *stage) {
	at := at(s.compacted(t, 1), 0)
	transport, ctx := s.transport(t, standardConfig(t)), within(t, patience)
	appends := func(key, value string) {
		t.Helper()
		if err := transport.Append(ctx, at, []byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, complete bool, want map[string]string) {
		t.Helper()
		got, whole := committed(t, transport, at)
		if diff := cmp.Diff(want, got); diff != "" || whole != complete {
			t.Errorf("%s: complete %v, want %v; records mismatch (-want +got):\n%s", what, whole, complete, diff)
		}
	}
	minted, err := transport.AcquireEpoch(ctx, role(t, unique("role")))
	if err != nil {
		t.Fatal(err)
	}
	writes := func(value string) {
		t.Helper()
		if err := transport.WriteLease(ctx, at, minted, []byte("lease"), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}

	appends("before", "1")
	writes("1")
	s.marked(t, transport, at, "lease", "1")
	check("nothing is open", true, map[string]string{"before": "1", "lease": "1"})
	open := s.hang(t, at, "open", foreignTimeout)
	appends("behind", "1")
	check("a record outside transactions", false, map[string]string{"before": "1", "lease": "1", "behind": "1"})
	writes("2")
	aborted := s.hang(t, at, "aborted", foreignTimeout)
	if err := aborted.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	s.hang(t, at, "later", foreignTimeout)
	appends("behind", "2")
	s.marked(t, transport, at, "lease", "2")
	check("transactions of both ends", false, map[string]string{"before": "1", "lease": "2", "behind": "2"})
	writes("3")
	s.marked(t, transport, at, "lease", "3")
	check("what came since", false, map[string]string{"before": "1", "lease": "3", "behind": "2"})
	records, err := transport.ReadPartition(ctx, at)
	if err != nil || len(records) != 2 {
		t.Errorf("prefix: %d records, %v; want the two before the open transaction", len(records), err)
	}
	if err := open.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	s.marked(t, transport, at, "open", "open")
	check("the first of two open transactions ended", false, map[string]string{
		"before": "1", "open": "open", "behind": "2", "lease": "3",
	})
}

// marked waits until a transport sees a record: brokers write markers a moment
// after they acknowledge the end of a transaction.
func (s *stage) marked(t *testing.T, transport *coordination.KafkaTransport, at coordination.TopicPartition, key, value string) {
	t.Helper()
	for ctx := within(t, patience); ; {
		if values, _ := committed(t, transport, at); values[key] == value {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s=%s does not come", key, value)
		}
	}
}

// minter is a transport that counts the mints that a member begins.
type minter struct {
	*coordination.KafkaTransport
	mints atomic.Int64
}

func (m *minter) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	m.mints.Add(1)
	return m.KafkaTransport.AcquireEpochWhile(ctx, role, still)
}

// Another program leaves a transaction open in the coordination topic for
// longer than the lease. A standby sees the holder renew all the same, and
// takes the role over when the holder stops. Each member has a clock of its
// own, which the test moves only after the calls of the move before are
// answered, however long they take.
func suiteForeignTransaction(t *testing.T, s *stage) {
	const start, renewals = 1_000_000, 7
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	ctx := within(t, patience)
	holder, standby := s.transport(t, standardConfig(t)), &minter{KafkaTransport: s.transport(t, standardConfig(t))}
	holderClock, standbyClock := coordination.NewManualClock(start), coordination.NewManualClock(start)
	compete := func(transport coordination.Transport, name string, clock *coordination.ManualClock, observer coordination.Observer) (*coordination.Leadership, error) {
		return coordination.AcquireLeadership(ctx, transport, r, member(t, name), coordination.WithTopic(topic),
			coordination.WithPartitions(1), coordination.WithClock(clock), coordination.WithPollInterval(time.Second), coordination.WithObserver(observer))
	}
	renewed := make(chan struct{}, 1+renewals)
	l, err := compete(holder, "node-1", holderClock, coordination.Observer{Called: func(event coordination.CallEvent) {
		if event.Operation == coordination.OperationWriteLease && event.Err == nil {
			renewed <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
	awaitRenewal := func() {
		t.Helper()
		select {
		case <-renewed:
		case <-ctx.Done():
			t.Fatalf("no renewal; the leadership: %v", l.Err())
		}
	}
	awaitRenewal()
	won := make(chan *coordination.Leadership, 1)
	go func() {
		l, err := compete(standby, "node-2", standbyClock, coordination.Observer{})
		if err != nil {
			t.Errorf("standby: %v", err)
		}
		won <- l
	}()
	// moved waits until the standby has read the role and waits again, or leads.
	moved := func() {
		t.Helper()
		if err := standbyClock.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	moved()
	s.hang(t, l.Partition(), "foreign", foreignTimeout)
	for range renewals {
		holderClock.Advance(10 * time.Second)
		awaitRenewal()
		standbyClock.Advance(10 * time.Second)
		moved()
	}
	lease := coordination.EncodeLease(l.Lease())
	s.marked(t, holder, l.Partition(), string(coordination.EncodeKey(coordination.LeaseKey(r))), string(lease))
	deadline := l.Lease().Deadline
	holder.Close()
	holderClock.Advance(10 * time.Second)
	select {
	case <-l.Done():
	case <-ctx.Done():
		t.Fatal("a leadership outlives its transport")
	}
	standbyClock.Set(deadline - 1000)
	moved()
	if n := standby.mints.Load(); n != 0 {
		t.Fatalf("%d mints beside a holder that renews", n)
	}
	for standby.mints.Load() == 0 && standbyClock.NowMillis() < deadline+60_000 {
		standbyClock.Advance(time.Second)
		moved()
	}
	// Two polls of grace, for a renewal that is on its way, and a poll.
	if at := standbyClock.NowMillis(); at < deadline || at > deadline+3000 {
		t.Errorf("the standby mints %d ms after the deadline, want between 0 and 3000", at-deadline)
	}
	if next := <-won; next != nil {
		release(t, next)
	}
}
