// SPDX-License-Identifier: Apache-2.0

//go:build integration

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// maxTimeout is the longest transaction timeout that a private broker accepts.
const maxTimeout = 100 * time.Second

// privateSettings make a broker of a test's own look after its transactions
// and compact its logs without delay.
var privateSettings = map[string]string{
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	"transaction.max.timeout.ms":                                  fmt.Sprint(maxTimeout.Milliseconds()),
	"log.cleaner.backoff.ms":                                      "100",
}

func TestKafkaTransportOnTheTransactionProtocolBeforeKafka4(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 0, Settings: privateSettings})
	s := &stage{brokers: []string{broker.Addr}}
	// Nothing was written yet: the coordinator makes its own topic first.
	if minted, held, err := s.transport(t, standardConfig(t)).DescribeEpoch(within(t, patience), role(t, "nobody")); held || err != nil {
		t.Errorf("DescribeEpoch on a new cluster = %s, %v, %v", minted, held, err)
	}
	runSuite(t, s)
	t.Run("a transaction that outlasts the lease ends the term", func(t *testing.T) { outlast(t, s) })
	t.Run("another member mints in silence", func(t *testing.T) { silentRival(t, s) })
	t.Run("a guarded topic without enough replicas", func(t *testing.T) { withoutReplicas(t, s) })
}

// withoutReplicas gives a leader a topic whose second replica is on a broker that
// is registered and down, so that the topic takes no records. The guarded writes
// fail in time for the renewals, nothing of them becomes visible, and the
// leadership goes on.
func withoutReplicas(t *testing.T, s *stage) {
	const absent = 2
	s.register(t, absent)
	topic, commands, r := s.compacted(t, 1), unique("commands"), role(t, unique("role"))
	create, setting := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopicConfig()
	setting.Name, setting.Value = "min.insync.replicas", kadm.StringPtr("2")
	asked := kmsg.NewCreateTopicsRequestTopic()
	asked.Topic, asked.NumPartitions, asked.ReplicationFactor = commands, -1, -1
	asked.Configs = append(asked.Configs, setting)
	asked.ReplicaAssignment = append(asked.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Replicas: []int32{1, absent}})
	create.Topics = append(create.Topics, asked)
	created, err := create.RequestWith(within(t, patience), s.client(t))
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create a topic with a replica that is down: %v", err)
	}
	l := acquire(t, s.transport(t, leaseConfig(t, time.Minute, 2*time.Second, time.Second)), r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	command := func(value string) coordination.GuardedRecord {
		return coordination.GuardedRecord{Topic: commands, Value: []byte(value)}
	}
	for range 2 {
		granted := l.Lease().GrantedAt
		err := guard.Write(within(t, patience), command("never"))
		var failed *coordination.KafkaError
		if !errors.Is(err, kerr.NotEnoughReplicas) || errors.Is(err, coordination.ErrOutcomeUnknown) || !errors.As(err, &failed) || !failed.Retriable() {
			t.Errorf("write: %v, want a retriable NOT_ENOUGH_REPLICAS and no doubt about the outcome", err)
		}
		if err := l.Renew(within(t, patience)); err != nil || l.Lease().GrantedAt <= granted {
			t.Errorf("renewal after the write: %v, granted at %d after %d", err, l.Lease().GrantedAt, granted)
		}
	}
	one := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: setting.Name, Value: kadm.StringPtr("1")}}
	if _, err := kadm.NewClient(s.client(t)).AlterTopicConfigs(within(t, patience), one, commands); err != nil {
		t.Fatal(err)
	}
	for err = errors.New("not written"); err != nil; { // brokers learn of it after they answered
		if err = guard.Write(within(t, patience), command("after")); err != nil && !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Fatal(err)
		}
	}
	if got := s.visible(t, commands, 0); !slices.Equal(got, []string{"after"}) {
		t.Errorf("visible: %q, want the write after the topic was mended alone", got)
	}
	if got := s.describe(t, r); got != l.MintedToken() || l.Err() != nil {
		t.Errorf("the coordinator holds %s, want %s; the leadership: %v", got, l.MintedToken(), l.Err())
	}
}

// register makes a broker known to the controller that never comes up.
func (s *stage) register(t *testing.T, id int32) {
	t.Helper()
	ctx := within(t, patience)
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	voters, err := quorum.RequestWith(ctx, s.client(t))
	if err != nil || len(voters.Nodes) == 0 || len(voters.Nodes[0].Listeners) == 0 {
		t.Fatalf("no controller: %v, %+v", err, voters)
	}
	at := voters.Nodes[0].Listeners[0]
	client := s.client(t, kgo.SeedBrokers(net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))))
	controller := client.SeedBrokers()[0]
	features := kmsg.NewPtrApiVersionsRequest()
	features.ClientSoftwareName, features.ClientSoftwareVersion = "test", "1"
	versions, err := features.RequestWith(ctx, controller)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kadm.NewClient(s.client(t)).BrokerMetadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := kmsg.NewPtrBrokerRegistrationRequest()
	ask.BrokerID, ask.ClusterID, ask.IncarnationID, ask.PreviousBrokerEpoch = id, cluster.Cluster, [16]byte{1}, -1
	ask.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "localhost", Port: 1}}
	ask.LogDirs = [][16]byte{{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}
	for _, feature := range versions.SupportedFeatures {
		ask.Features = append(ask.Features, kmsg.BrokerRegistrationRequestFeature{
			Name: feature.Name, MinSupportedVersion: feature.MinVersion, MaxSupportedVersion: feature.MaxVersion,
		})
	}
	answer, err := ask.RequestWith(ctx, controller)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		t.Fatalf("register broker %d: %v", id, err)
	}
}

// private are the tests that need a broker of their own.
func private(t *testing.T, s *stage, broker *kafkatest.Broker) {
	t.Run("a transaction that outlasts the lease ends the term", func(t *testing.T) { outlast(t, s) })
	t.Run("a lease longer than brokers let transactions last", func(t *testing.T) { tooLong(t, s) })
	t.Run("a log that is compacted", func(t *testing.T) { compaction(t, s) })
	t.Run("outages", func(t *testing.T) { outages(t, s, broker) })
}

// outlast cuts a holder off in the middle of a write. The coordinator ends the
// transaction at its timeout, and the epoch with it.
func outlast(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	network := newLossy()
	transport := network.over(s).transport(t, leaseConfig(t, 5*time.Second, time.Second, time.Second))
	minted, err := transport.AcquireEpoch(within(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, value string) error {
		return transport.WriteLease(ctx, at(topic, 0), minted, coordination.EncodeKey(coordination.LeaseKey(r)), []byte(value))
	}
	if err := write(within(t, patience), "first"); err != nil {
		t.Fatal(err)
	}
	network.lose(kmsg.EndTxn, 1<<20, 0)
	ctx, cancel := context.WithCancel(within(t, patience))
	ended := make(chan error, 1)
	go func() { ended <- write(ctx, "never") }()
	for s.describe(t, r) == minted {
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the write without an end: %v", err)
	}
	network.lose(kmsg.EndTxn, 0, 0)
	if err := write(within(t, patience), "late"); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("a write after the timeout of the transaction: %v, want ErrFenced", err)
	}
	if diff := cmp.Diff([]string{"first"}, s.visible(t, topic, 0)); diff != "" {
		t.Errorf("leases mismatch (-want +got):\n%s", diff)
	}
	if next, err := transport.AcquireEpoch(within(t, patience), r); err != nil || !next.Supersedes(minted) {
		t.Errorf("the next mint: %s after %s, %v", next, minted, err)
	}
}

func tooLong(t *testing.T, s *stage) {
	for _, duration := range []time.Duration{3 * maxTimeout / 2, 6 * maxTimeout} {
		transport := s.transport(t, leaseConfig(t, duration, time.Second, time.Second))
		_, err := transport.AcquireEpoch(within(t, patience), role(t, unique("role")))
		if duration <= 2*maxTimeout { // half of it will do
			if err != nil {
				t.Errorf("a lease of %v: %v", duration, err)
			}
			continue
		}
		var refused *coordination.TransactionTimeoutError
		if !errors.As(err, &refused) || !errors.Is(err, kerr.InvalidTransactionTimeout) {
			t.Fatalf("a lease of %v: %v, want a TransactionTimeoutError", duration, err)
		}
		if diff := cmp.Diff([]time.Duration{duration, maxTimeout}, []time.Duration{refused.Requested, refused.Allowed}); diff != "" {
			t.Errorf("requested and allowed timeout mismatch (-want +got):\n%s", diff)
		}
	}
}

// compaction lets a broker take old leases out of the log. Whoever reads it from
// the start and whoever followed it see the same.
func compaction(t *testing.T, s *stage) {
	topic, r := unique("compacted"), role(t, unique("role"))
	s.create(t, topic, 1, "cleanup.policy", "compact", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "1", "delete.retention.ms", "1")
	follower := s.transport(t, standardConfig(t))
	state := func(reader coordination.StateReader) coordination.RoleState {
		t.Helper()
		got, err := coordination.DescribeRoleState(within(t, patience), reader, r, coordination.WithTopic(topic), coordination.WithPartitions(1))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	l := acquire(t, s.transport(t, standardConfig(t)), r, "node-1", topic)
	const renewals = 12
	for n := 0; n < renewals || len(s.offsets(t, topic)) > renewals/2; n++ {
		if err := l.Renew(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		s.settled(t, topic, 0)
		if got := state(follower); *got.Lease != l.Lease() {
			t.Fatalf("after renewal %d the follower sees lease %+v, want %+v", n, *got.Lease, l.Lease())
		}
	}
	if kept := s.offsets(t, topic); slices.Contains(kept, l.Sequence()) {
		t.Errorf("offsets %v are kept, want the first lease at %d to be gone", kept, l.Sequence())
	}
	if diff := cmp.Diff(state(follower), state(s.transport(t, standardConfig(t))), equateValues); diff != "" {
		t.Errorf("a new reader sees another state (-follower +new):\n%s", diff)
	}
}

// offsets returns the offsets of the records in the only partition of a topic.
func (s *stage) offsets(t *testing.T, topic string) []int64 {
	t.Helper()
	ctx := within(t, patience)
	client := s.client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	end := s.end(t, topic)
	var kept []int64
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if next = record.Offset + 1; !record.Attrs.IsControl() {
				kept = append(kept, record.Offset)
			}
		})
	}
	return kept
}

// end returns the offset behind the only partition of a topic.
func (s *stage) end(t *testing.T, topic string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(s.client(t)).ListEndOffsets(within(t, patience), topic)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := ends.Lookup(topic, 0)
	return last.Offset
}

// outages restarts a broker. A role whose lease is longer keeps its leader and
// its token; one whose lease is shorter passes to a standby.
func outages(t *testing.T, s *stage, broker *kafkatest.Broker) {
	topic := s.compacted(t, 1)
	long, short := newTenure(t, s, topic, 90*time.Second), newTenure(t, s, topic, 12*time.Second)
	broker.Kill()
	select {
	case <-short.held.Done():
	case <-within(t, patience).Done():
		t.Fatal("the leadership outlives its lease without a broker")
	}
	if err := short.held.Err(); !errors.Is(err, coordination.ErrLeaseExpired) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the short lease ended with %v, want ErrLeaseExpired", err)
	}
	if early := short.held.Lease().Deadline - time.Now().UnixMilli(); early > 0 {
		t.Errorf("the leadership ended %d ms before its deadline", early)
	}
	broker.Restart()
	long.goesOn(t, s)
	next := short.passesOn(t)
	if !next.Token().Supersedes(short.held.Token()) || next.Sequence() <= short.held.Sequence() {
		t.Errorf("term %s at %d follows term %s at %d", next.Token(), next.Sequence(), short.held.Token(), short.held.Sequence())
	}
	late := short.transport.WriteLease(within(t, patience), at(topic, 0), short.held.Token(), coordination.EncodeKey(coordination.LeaseKey(short.role)), []byte("late"))
	if !errors.Is(late, coordination.ErrNotHeld) {
		t.Errorf("a late lease of the old holder: %v, want ErrNotHeld", late)
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
	s.ready(t, n.role)
	n.transport = s.transport(t, lease, reporting(&n.requests))
	options := []coordination.Option{coordination.WithLeaseConfig(lease), coordination.WithPollInterval(200 * time.Millisecond)}
	n.held = acquire(t, n.transport, n.role, "node-1", topic, options...)
	waiting := s.transport(t, lease, reporting(&n.requests))
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(t.Context())
	options = append(options, coordination.WithTopic(topic), coordination.WithPartitions(1))
	id := member(t, "node-2")
	go func() {
		for {
			l, err := coordination.AcquireLeadership(ctx, waiting, n.role, id, options...)
			var busy *coordination.KafkaError // brokers that have just started may be slow
			if !errors.As(err, &busy) || !busy.Retriable() {
				n.standby <- outcome{l, err}
				return
			}
		}
	}()
	for registered := false; !registered; {
		state, err := coordination.DescribeRoleState(within(t, patience), n.transport, n.role, options...)
		if err != nil {
			t.Fatal(err)
		}
		_, registered = state.Entry(id)
	}
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
