// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// The tests of this file run the whole stack on fake time: member, transport,
// client, network and cluster.

// contender is a member with a transport and a network of its own.
type contender struct {
	network   *lossy
	transport *coordination.KafkaTransport
	name      string
	topic     string
	role      coordination.Role
}

func newContender(t *testing.T, s *stage, r coordination.Role, name, topic string, changes ...func(*coordination.KafkaOptions)) *contender {
	t.Helper()
	c := &contender{network: newLossy(), name: name, topic: topic, role: r}
	c.transport = c.network.over(s).transport(t, coordination.DefaultLeaseConfig(), changes...)
	return c
}

// acquire competes until it wins or the context ends.
func (c *contender) acquire(ctx context.Context, t *testing.T, options ...coordination.Option) (*coordination.Leadership, error) {
	options = append([]coordination.Option{
		coordination.WithTopic(c.topic), coordination.WithPartitions(1), coordination.WithPollJitter(0),
	}, options...)
	return coordination.AcquireLeadership(ctx, c.transport, c.role, member(t, c.name), options...)
}

func (c *contender) lead(t *testing.T) *coordination.Leadership {
	t.Helper()
	l, err := c.acquire(t.Context(), t)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	release(t, l)
	return l
}

func TestStandbyTakesOverFromAHolderThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 1), role(t, "controller")
		first, second := newContender(t, s, r, "node-1", topic), newContender(t, s, r, "node-2", topic)
		l := first.lead(t)
		guard, err := l.Guard()
		if err != nil {
			t.Fatal(err)
		}
		type won struct {
			l  *coordination.Leadership
			at time.Time
		}
		taken := make(chan won, 1)
		go func() {
			l, err := second.acquire(t.Context(), t)
			if err != nil {
				t.Errorf("node-2: %v", err)
			}
			taken <- won{l, time.Now()}
		}()
		time.Sleep(95 * time.Second) // nine renewals
		if err := l.Err(); err != nil {
			t.Fatalf("the holder lost the role while it renewed: %v", err)
		}
		deadline := time.UnixMilli(l.Lease().Deadline)
		first.network.cut()
		<-l.Done()
		if !errors.Is(l.Err(), coordination.ErrLeaseExpired) {
			t.Errorf("the holder ended with %v, want ErrLeaseExpired", l.Err())
		}
		if late := time.Since(deadline); late < 0 || late > coordination.DefaultPollInterval {
			t.Errorf("the holder ended %v past its deadline", late)
		}
		next := <-taken
		if late := next.at.Sub(deadline); late < 0 || late > 2*coordination.DefaultPollInterval {
			t.Errorf("the standby of rank 0 took over %v past the deadline, want at most two polls", late)
		}
		if next.l.Sequence() <= l.Sequence() {
			t.Errorf("sequence %d follows %d", next.l.Sequence(), l.Sequence())
		}
		first.network.mend()
		if err := guard.Write(t.Context(), coordination.GuardedRecord{Topic: topic, Key: []byte("c"), Value: []byte("late")}); !errors.Is(err, coordination.ErrNotHeld) {
			t.Errorf("a guarded write after the end: %v, want ErrNotHeld", err)
		}
		err = first.transport.WriteLease(t.Context(), at(topic, 0), l.Token(), []byte("lease"), []byte("late"))
		if !errors.Is(err, coordination.ErrNotHeld) || errors.Is(err, coordination.ErrFenced) {
			t.Errorf("a late lease of the old holder: %v, want ErrNotHeld alone", err)
		}
		if err := next.l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		s.stop(first.transport, second.transport)
	})
}

func TestHolderKeepsTheRoleThroughAnOutageBelowTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 1), role(t, "controller")
		var requests wire
		first, second := newContender(t, s, r, "node-1", topic, reporting(&requests)), newContender(t, s, r, "node-2", topic, reporting(&requests))
		l := first.lead(t)
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error, 1)
		go func() {
			_, err := second.acquire(ctx, t)
			lost <- err
		}()
		for range 10 {
			time.Sleep(31 * time.Second)
			first.network.cut()
			second.network.cut()
			time.Sleep(15 * time.Second)
			first.network.mend()
			second.network.mend()
		}
		time.Sleep(10 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the holder lost the role: %v", err)
		}
		if got := requests.of(kmsg.InitProducerID); got != 1 {
			t.Errorf("%d mints, want 1", got)
		}
		if got := s.describe(t, r); got != l.Token() {
			t.Errorf("the coordinator holds %s, want %s", got, l.Token())
		}
		cancel()
		if err := <-lost; !errors.Is(err, context.Canceled) {
			t.Errorf("the standby ended with %v", err)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		s.stop(first.transport, second.transport)
	})
}

// A broker that comes back learns of its topics after it answers.
func TestTopicThatIsDeniedAfterAnOutageIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		c := newContender(t, s, role(t, "controller"), "node-1", s.compacted(t, 1))
		c.network.cut()
		fault := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: c.topic, Err: kerr.UnknownTopicOrPartition, Count: 3})
		time.AfterFunc(20*time.Second, c.network.mend)
		records, err := c.transport.ReadPartition(t.Context(), at(c.topic, 0))
		if err != nil || len(records) != 0 {
			t.Errorf("read: %d records, %v; want none of a topic that is there", len(records), err)
		}
		if got := fault.Hits(); got != 3 {
			t.Errorf("the topic was denied %d times, want 3", got)
		}
		s.stop(c.transport)
	})
}

// The wait between two attempts to reach a broker stays short however long the
// outage lasts, so nobody notices its end seconds late.
func TestEndOfAnOutageIsNoticedSoon(t *testing.T) {
	const soon = time.Second
	calls := map[string]func(*contender, context.Context) error{
		"a read": func(c *contender, ctx context.Context) error {
			_, err := c.transport.ReadPartition(ctx, at(c.topic, 0))
			return err
		},
		"a description": func(c *contender, ctx context.Context) error {
			for {
				if _, _, err := c.transport.DescribeEpoch(ctx, c.role); err == nil || ctx.Err() != nil {
					return err
				}
			}
		},
		"a mint": func(c *contender, ctx context.Context) error {
			_, err := c.transport.AcquireEpoch(ctx, c.role)
			return err
		},
		"a check of the topic": func(c *contender, ctx context.Context) error {
			return c.transport.EnsureTopic(ctx, c.topic, 1)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t)
				c := newContender(t, s, role(t, "controller"), "node-1", s.compacted(t, 1))
				for _, outage := range []time.Duration{5 * time.Second, 20 * time.Second, 61 * time.Second} {
					c.network.cut()
					mended := make(chan time.Time, 1)
					time.AfterFunc(outage, func() {
						mended <- time.Now()
						c.network.mend()
					})
					if err := call(c, t.Context()); err != nil {
						t.Fatal(err)
					}
					if late := time.Since(<-mended); late > soon {
						t.Errorf("it went on %v after an outage of %v, want %v at most", late, outage, soon)
					}
				}
				s.stop(c.transport)
			})
		})
	}
}

func TestNobodyMintsWhileTheHolderRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 1), role(t, "controller")
		var requests wire
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error, 3)
		var all []*coordination.KafkaTransport
		for n := range 3 {
			c := newContender(t, s, r, fmt.Sprintf("node-%d", n), topic, reporting(&requests))
			all = append(all, c.transport)
			go func() {
				l, err := c.acquire(ctx, t, coordination.WithLifetime(ctx))
				if err == nil {
					<-l.Done()
					err = l.Err()
				}
				lost <- err
			}()
		}
		time.Sleep(20 * time.Second)
		before := requests.of(kmsg.InitProducerID)
		time.Sleep(10 * time.Minute)
		if got := requests.of(kmsg.InitProducerID) - before; got != 0 {
			t.Errorf("%d mints in ten minutes without faults, want none", got)
		}
		cancel()
		for range 3 {
			if err := <-lost; !errors.Is(err, context.Canceled) && !errors.Is(err, coordination.ErrNotHeld) {
				t.Errorf("a member ended with %v", err)
			}
		}
		s.stop(all...)
	})
}

// A poll reads what is new: one request for the tail, whatever the log holds.
func TestPollReadsTheTailOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 1), role(t, "controller")
		var requests wire
		var records []int
		holder := newContender(t, s, r, "node-1", topic)
		standby := newContender(t, s, r, "node-2", topic, reporting(&requests), func(options *coordination.KafkaOptions) {
			options.Hooks.Fetched = func(_ coordination.TopicPartition, n, _ int) { records = append(records, n) }
		})
		l := holder.lead(t)
		for range 200 {
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		read := func() {
			t.Helper()
			if _, err := standby.transport.ReadPartition(t.Context(), at(topic, 0)); err != nil {
				t.Fatal(err)
			}
		}
		read()
		read()
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := requests.all()
		read()
		if diff := cmp.Diff([]int{202, 0, 1}, records); diff != "" {
			t.Errorf("records fetched by three reads mismatch (-want +got):\n%s", diff)
		}
		if got := requests.all() - before; got != 1 {
			t.Errorf("a poll takes %d requests, want 1", got)
		}
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		s.stop(holder.transport, standby.transport)
	})
}

// The holder dies between its record and the end of the transaction, so the
// record hides everything behind it until somebody ends the transaction.
func TestOpenTransactionOfADeadHolderEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		next bool // another member mints before the timeout
	}{{"by the next mint", true}, {"by its timeout", false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualStage(t)
				topic, r := s.compacted(t, 1), role(t, "controller")
				holder, other := newContender(t, s, r, "node-1", topic), newContender(t, s, r, "node-2", topic)
				l := holder.lead(t)
				holder.network.lose(kmsg.EndTxn, 1<<20, 0)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				err := l.Renew(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("renewal: %v", err)
				}
				holder.network.cut()
				if _, complete, err := other.transport.ReadCommitted(t.Context(), at(topic, 0)); complete || err != nil {
					t.Fatalf("read behind an open transaction: complete %v, %v", complete, err)
				}
				if tt.next {
					if _, err := other.transport.AcquireEpoch(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(coordination.DefaultLeaseDuration)
				}
				records, complete, err := other.transport.ReadCommitted(t.Context(), at(topic, 0))
				if err != nil || !complete || len(records) != 2 {
					t.Errorf("read: %d records, complete %v, %v; want the registration and the first lease", len(records), complete, err)
				}
				holder.network.mend()
				holder.network.lose(kmsg.EndTxn, 0, 0)
				if err := holder.transport.WriteLease(t.Context(), at(topic, 0), l.Token(), []byte("lease"), []byte("late")); !errors.Is(err, coordination.ErrFenced) && !errors.Is(err, coordination.ErrNotHeld) {
					t.Errorf("a late lease: %v, want ErrFenced or ErrNotHeld", err)
				}
				<-l.Done()
				s.stop(holder.transport, other.transport)
			})
		})
	}
}

func TestCloseEndsCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 1), role(t, "controller")
		c := newContender(t, s, r, "node-1", topic)
		l := c.lead(t)
		c.network.cut()
		calls := map[string]func() error{
			"AcquireEpoch":  func() error { _, err := c.transport.AcquireEpoch(t.Context(), role(t, "other")); return err },
			"DescribeEpoch": func() error { _, _, err := c.transport.DescribeEpoch(t.Context(), role(t, "another")); return err },
			"ReadPartition": func() error { _, err := c.transport.ReadPartition(t.Context(), at(topic, 0)); return err },
			"Append":        func() error { return c.transport.Append(t.Context(), at(topic, 0), []byte("k"), nil) },
			"WriteLease": func() error {
				return c.transport.WriteLease(t.Context(), at(topic, 0), l.Token(), []byte("k"), nil)
			},
			"EnsureTopic": func() error { return c.transport.EnsureTopic(t.Context(), topic, 1) },
		}
		results := make(map[string]chan error)
		for name, call := range calls {
			result := make(chan error, 1)
			results[name] = result
			go func() { result <- call() }()
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		c.transport.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		for name, result := range results {
			if err := <-result; !errors.Is(err, coordination.ErrTransportClosed) {
				t.Errorf("%s: %v, want ErrTransportClosed", name, err)
			}
		}
		<-l.Done()
		if !errors.Is(l.Err(), coordination.ErrTransportClosed) {
			t.Errorf("the leadership ended with %v, want ErrTransportClosed", l.Err())
		}
		s.stop()
	})
}
