// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// sharedStage is the broker that all integration tests share. It moves the
// epoch of a producer with each transaction, where clients ask it to.
func sharedStage(t *testing.T) *stage { return &stage{brokers: kafkatest.Brokers(t)} }

func TestKafkaTransportSuiteOnKafka(t *testing.T) { runSuite(t, sharedStage(t)) }

func TestKafkaTransportOnTheTransactionProtocolBeforeKafka4(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 0})
	s := &stage{brokers: []string{broker.Addr}}
	// Nothing was written yet: the coordinator makes its own topic first.
	if minted, held, err := s.transport(t, standardConfig(t)).DescribeEpoch(within(t, patience), role(t, "nobody")); held || err != nil {
		t.Errorf("DescribeEpoch on a new cluster = %s, %v, %v", minted, held, err)
	}
	runSuite(t, s)
	t.Run("outages", func(t *testing.T) { outages(t, s, broker) })
}

// outages restarts a broker. A role whose lease is longer keeps its leader and
// its token; one whose lease is shorter passes to a standby.
func outages(t *testing.T, s *stage, broker *kafkatest.Broker) {
	topic := s.compacted(t, 1)
	long, short := newTenure(t, s, topic, 2*time.Minute), newTenure(t, s, topic, 2*time.Second)
	broker.Kill()
	select {
	case <-short.held.Done():
	case <-within(t, patience).Done():
		t.Fatal("the leadership outlives its lease without a broker")
	}
	if err := short.held.Err(); !errors.Is(err, coordination.ErrLeaseExpired) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the short lease ended with %v, want ErrLeaseExpired", err)
	}
	if late := time.Now().UnixMilli() - short.held.Lease().Deadline; late < 0 || late > 2000 {
		t.Errorf("the leadership ended %d ms past its deadline, want at most a poll", late)
	}
	broker.Restart()
	long.goesOn(t, s)
	next := short.passesOn(t)
	if !next.Token().Supersedes(short.held.Token()) || next.Sequence() <= short.held.Sequence() {
		t.Errorf("term %s at %d follows term %s at %d", next.Token(), next.Sequence(), short.held.Token(), short.held.Sequence())
	}
	late := short.transport.WriteLease(within(t, patience), at(topic, 0), short.held.Token(), coordination.EncodeKey(coordination.LeaseKey(short.role)), []byte("late"))
	if !errors.Is(late, coordination.ErrFenced) {
		t.Errorf("a late lease of the old holder: %v, want ErrFenced", late)
	}
	broker.Stop() // in order, this time
	broker.Restart()
	long.goesOn(t, s)
	long.cancel()
	if o := <-long.standby; !errors.Is(o.err, context.Canceled) {
		t.Errorf("the standby of the long lease ended with %v", o.err)
	}
}

// tenure is a role with a holder and a standby.
type tenure struct {
	role      coordination.Role
	requests  wire
	transport *coordination.KafkaTransport
	held      *coordination.Leadership
	cancel    context.CancelFunc
	standby   chan outcome
}

func newTenure(t *testing.T, s *stage, topic string, duration time.Duration) *tenure {
	t.Helper()
	lease := leaseConfig(t, duration, min(duration/4, 2*time.Second), duration/4)
	n := &tenure{role: role(t, unique("role")), standby: make(chan outcome, 1)}
	n.transport = s.transport(t, lease, reporting(&n.requests))
	options := []coordination.Option{coordination.WithLeaseConfig(lease), coordination.WithPollInterval(200 * time.Millisecond)}
	n.held = acquire(t, n.transport, n.role, "node-1", topic, options...)
	waiting := s.transport(t, lease, reporting(&n.requests))
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(t.Context())
	options = append(options, coordination.WithTopic(topic), coordination.WithPartitions(1))
	id := member(t, "node-2")
	go func() {
		l, err := coordination.AcquireLeadership(ctx, waiting, n.role, id, options...)
		n.standby <- outcome{l, err}
	}()
	return n
}

// goesOn demands that the holder renews its lease under the first epoch.
func (n *tenure) goesOn(t *testing.T, s *stage) {
	t.Helper()
	ctx := within(t, patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for granted := n.held.Lease().GrantedAt; n.held.Lease().GrantedAt == granted; {
		select {
		case <-tick.C:
		case <-n.held.Done():
			t.Fatalf("the leadership ended: %v", n.held.Err())
		case <-ctx.Done():
			t.Fatal("the lease is not renewed")
		}
	}
	if got := n.requests.of(kmsg.InitProducerID); got != 1 || n.held.Err() != nil {
		t.Errorf("%d mints, the leadership ended with %v; want one mint and no end", got, n.held.Err())
	}
	if got := s.describe(t, n.role); got != n.held.Token() {
		t.Errorf("the coordinator holds %s, want %s", got, n.held.Token())
	}
}

// passesOn waits until the standby leads.
func (n *tenure) passesOn(t *testing.T) *coordination.Leadership {
	t.Helper()
	select {
	case o := <-n.standby:
		if o.err != nil {
			t.Fatalf("the standby ended with %v", o.err)
		}
		release(t, o.leadership)
		return o.leadership
	case <-within(t, patience).Done():
		t.Fatal("the standby does not take over")
		return nil
	}
}

func TestGuardedWritesOfRivalsAreLinearizableOnKafka(t *testing.T) { contestsHere(t, sharedStage(t)) }

func TestKafkaTransportTracksAnEpochThatMovesOnKafka(t *testing.T) {
	for name, floors := range gone {
		t.Run(name, func(t *testing.T) {
			s := floors.under(sharedStage(t))
			tracks(t, s, role(t, unique("role")))
			contestsHere(t, s)
		})
	}
}

// A transactional producer of another program that uses the role's name as its
// transactional id takes the role like a member, and moves its epoch on.
func TestProducerOfAnotherProgramTakesTheRoleOnKafka(t *testing.T) {
	s := sharedStage(t)
	topic, r, elsewhere := s.compacted(t, 1), role(t, unique("role")), unique("elsewhere")
	s.create(t, elsewhere, 1)
	transport := s.transport(t, standardConfig(t))
	l := acquire(t, transport, r, "node-1", topic)
	other := s.client(t, kgo.TransactionalID(r.String()), kgo.DefaultProduceTopic(elsewhere))
	ctx := within(t, patience)
	var tokens []coordination.FencingToken
	for range 2 {
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := other.ProduceSync(ctx, &kgo.Record{Value: []byte("theirs")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := other.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, s.describe(t, r))
	}
	if !tokens[0].Supersedes(l.Token()) || !tokens[1].Supersedes(tokens[0]) {
		t.Errorf("tokens %v after %s, want them to grow with each transaction", tokens, l.Token())
	}
	status, err := coordination.DescribeLeadership(ctx, transport, r)
	if err != nil {
		t.Fatal(err)
	}
	if status.Authoritative(l.Token()) || !status.Superseded(l.Token()) {
		t.Errorf("status %s: authoritative %v, superseded %v of %s", status, status.Authoritative(l.Token()), status.Superseded(l.Token()), l.Token())
	}
	if err := l.Renew(ctx); !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("renewal: %v, want ErrFenced with PRODUCER_FENCED", err)
	}
}

// lastEpochs is how many mints use up the epochs of a producer id.
const lastEpochs = 32766

func TestEpochsRunOutOnKafka(t *testing.T) {
	s := sharedStage(t)
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	ctx := within(t, 5*time.Minute)
	holder, rival := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	first, err := rival.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for last.ProducerEpoch() < lastEpochs-2 {
		next, err := rival.AcquireEpoch(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if !next.Supersedes(last) {
			t.Fatalf("minted %s after %s", next, last)
		}
		last = next
	}
	l := acquire(t, holder, r, "node-1", topic)
	for range 4 {
		if err := l.Renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.describe(t, r); got != l.Token() || got.ProducerEpoch() != lastEpochs-1 || got.ProducerID() != first.ProducerID() {
		t.Errorf("after four renewals the coordinator holds %s and the token is %s, want epoch %d of both", got, l.Token(), lastEpochs-1)
	}
	var fresh coordination.FencingToken
	for _, want := range []int16{lastEpochs, 0} {
		if fresh, err = rival.AcquireEpoch(ctx, r); err != nil {
			t.Fatal(err)
		}
		if fresh.ProducerEpoch() != want {
			t.Errorf("minted %s, want epoch %d", fresh, want)
		}
	}
	// One broker hands out growing producer ids.
	if fresh.ProducerID() == first.ProducerID() || !fresh.Supersedes(l.Token()) {
		t.Errorf("minted %s after the last epoch of %s, want a larger producer id", fresh, first)
	}
	err = l.Renew(ctx)
	if !errors.Is(err, coordination.ErrFenced) || !errors.Is(err, kerr.InvalidProducerIDMapping) {
		t.Errorf("a renewal under the old producer id: %v, want ErrFenced with INVALID_PRODUCER_ID_MAPPING", err)
	}
	if _, err := rival.WriteLeaseAt(ctx, at(topic, 0), fresh, coordination.EncodeKey(coordination.LeaseKey(r)), nil); err != nil {
		t.Errorf("a tombstone under the new producer id: %v", err)
	}
	next := acquire(t, rival, r, "node-2", topic)
	if !next.Token().Supersedes(fresh) || next.Sequence() <= l.Sequence() {
		t.Errorf("term %s at %d follows token %s and the term at %d", next.Token(), next.Sequence(), fresh, l.Sequence())
	}
}
