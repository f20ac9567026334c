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

// Another program leaves a transaction open in the coordination topic for
// longer than the lease. Standbys see the holder renew all the same, and take
// the role over when it stops to.
func suiteForeignTransaction(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	clock := coordination.NewManualClock(1_000_000)
	holder, standby := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	renewed, looked := make(chan struct{}, 100), make(chan struct{}, 100)
	var mints, led atomic.Int64
	compete := func(transport *coordination.KafkaTransport, name string, observer coordination.Observer) (*coordination.Leadership, error) {
		return coordination.AcquireLeadership(ctx, transport, r, member(t, name), coordination.WithTopic(topic),
			coordination.WithPartitions(1), coordination.WithClock(clock), coordination.WithObserver(observer))
	}
	l, err := compete(holder, "node-1", coordination.Observer{Called: func(event coordination.CallEvent) {
		if event.Operation == coordination.OperationWriteLease && event.Err == nil {
			renewed <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
	<-renewed
	won := make(chan *coordination.Leadership, 1)
	go func() {
		l, err := compete(standby, "node-2", coordination.Observer{
			Called: func(event coordination.CallEvent) {
				switch event.Operation {
				case coordination.OperationRead:
					looked <- struct{}{}
				case coordination.OperationMint:
					mints.Add(1)
				}
			},
			Acquired: func(*coordination.Leadership) { led.Store(clock.NowMillis()) },
		})
		if err != nil {
			t.Errorf("standby: %v", err)
		}
		won <- l
	}()
	idle := func(members int) {
		t.Helper()
		if err := clock.BlockUntil(ctx, members); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, events <-chan struct{}) {
		t.Helper()
		select {
		case <-events:
		case <-ctx.Done():
			t.Fatalf("no %s", what)
		}
	}
	idle(2)
	s.hang(t, l.Partition(), "foreign", foreignTimeout)
	for range 7 {
		for len(looked) > 0 {
			<-looked
		}
		clock.Advance(10 * time.Second)
		await("renewal", renewed)
		await("look", looked)
		idle(2)
	}
	if n := mints.Load(); n != 0 || l.Err() != nil {
		t.Fatalf("%d mints beside a holder that renews, which ended with %v", n, l.Err())
	}
	deadline := l.Lease().Deadline
	holder.Close()
	clock.Advance(10 * time.Second)
	<-l.Done()
	idle(1)
	clock.Set(deadline - 1000)
	idle(1)
	for led.Load() == 0 && clock.NowMillis() < deadline+10_000 {
		clock.Advance(time.Second)
		idle(1)
	}
	// Two polls of grace, for a renewal that is on its way, and a poll.
	if at := led.Load(); at < deadline || at > deadline+3000 {
		t.Errorf("the standby leads at %d, want between %d and 3 s later", at, deadline)
	}
	next := <-won
	if next == nil {
		t.FailNow()
	}
	release(t, next)
}
