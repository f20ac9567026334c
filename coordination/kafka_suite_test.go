// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// kafkaSuite holds for a transport over any cluster on which the epoch stays
// with a term.
var kafkaSuite = map[string]func(*testing.T, *stage){
	"a term keeps one token":                                suiteOneToken,
	"a second acquirer fences the first":                    suiteFence,
	"a resigned role passes on at once":                     suiteResign,
	"guarded records become visible together":               suiteGuard,
	"a guarded write that fails leaves nothing":             suiteGuardFails,
	"a guarded write that is cancelled leaves nothing":      suiteGuardCancelled,
	"a read ends where committed records end":               suiteReadEnds,
	"a read returns what compaction would keep":             suiteReadCompacts,
	"an open transaction of others makes a read incomplete": suiteReadIncomplete,
	"a read goes on behind an open transaction":             suiteReadCommitted,
	"a foreign transaction leaves a healthy holder alone":   suiteForeignTransaction,
	"an unknown role has no epoch":                          suiteUnknownRole,
	"an empty value is a tombstone":                         suiteTombstone,
	"the topic is verified":                                 suiteVerify,
	"the topic is created":                                  suiteCreate,
	"two members on one transport are two processes":        suiteOneTransport,
	"a closed transport says so":                            suiteClose,
}

// runSuite runs the suite.
func runSuite(t *testing.T, s *stage) {
	for name, test := range kafkaSuite {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func TestKafkaTransportSuite(t *testing.T) { runSuite(t, fakeStage(t)) }

func acquire(t *testing.T, transport coordination.Transport, r coordination.Role, name, topic string, options ...coordination.Option) *coordination.Leadership {
	t.Helper()
	options = append([]coordination.Option{coordination.WithTopic(topic), coordination.WithPartitions(1)}, options...)
	l, err := coordination.AcquireLeadership(within(t, patience), transport, r, member(t, name), options...)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	release(t, l)
	return l
}

// settled waits until the last stable offset of a partition reached its end.
func (s *stage) settled(t testing.TB, topic string, partition int32) { s.visible(t, topic, partition) }

func suiteOneToken(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	var requests wire
	// The test alone renews, so that it knows what the requests are for.
	transport := s.transport(t, leaseConfig(t, 95*time.Second, 90*time.Second, 5*time.Second), reporting(&requests))
	ctx := within(t, patience)
	s.ready(t, r)
	if minted, held, err := transport.DescribeEpoch(ctx, r); held || err != nil {
		t.Errorf("before the first acquisition: %s, %v, %v", minted, held, err)
	}
	l := acquire(t, transport, r, "node-1", topic)
	minted := l.Token()
	for n := range 5 {
		s.settled(t, topic, 0)
		before, begins := requests.all(), requests.of(kmsg.AddPartitionsToTxn)
		if err := l.Renew(ctx); err != nil {
			t.Fatalf("renewal %d: %v", n, err)
		}
		// Brokers refuse the first step while the transaction before ends.
		repeated := max(requests.of(kmsg.AddPartitionsToTxn)-begins-1, 0)
		if got := requests.all() - before - repeated; got != 3 || s.fake != nil && repeated > 0 {
			t.Errorf("renewal %d took %d requests and %d repeated ones, want 3", n, got, repeated)
		}
		status, err := coordination.DescribeLeadership(ctx, transport, r)
		if err != nil {
			t.Fatal(err)
		}
		if l.Token() != minted || !status.Authoritative(l.Token()) {
			t.Errorf("after renewal %d: token %s, minted %s, the coordinator holds %s", n, l.Token(), minted, status.Token)
		}
	}
	if got := requests.of(kmsg.InitProducerID); got != 1 {
		t.Errorf("%d InitProducerId requests, want 1", got)
	}
	if got := transport.Mode(); got != coordination.EpochModeStable {
		t.Errorf("mode = %s, want %s", got, coordination.EpochModeStable)
	}
	if got := l.Sequence(); got != 1 { // behind the registration
		t.Errorf("sequence = %d, want 1", got)
	}
}

func suiteFence(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	first, second := s.transport(t, standardConfig(t)), s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	l := acquire(t, first, r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := second.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if !fresh.Supersedes(l.Token()) {
		t.Errorf("token %s does not supersede %s", fresh, l.Token())
	}
	if err := second.WriteLease(ctx, at(topic, 0), fresh, coordination.EncodeKey(coordination.LeaseKey(r)), []byte("second")); err != nil {
		t.Fatal(err)
	}
	err = guard.Write(ctx, coordination.GuardedRecord{Topic: topic, Key: []byte("command"), Value: []byte("late")})
	if !errors.Is(err, coordination.ErrFenced) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("late guarded write: %v, want ErrFenced alone", err)
	}
	select {
	case <-l.Done():
	default:
		t.Error("the leadership goes on after a fenced write")
	}
	if err := first.WriteLease(ctx, at(topic, 0), l.Token(), []byte("key"), []byte("late")); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("late lease: %v, want ErrFenced", err)
	}
	values := s.visible(t, topic, 0)
	if got := values[len(values)-1]; got != "second" {
		t.Errorf("the last committed record is %q, want the second lease", got)
	}
}

func suiteResign(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	transport := s.transport(t, standardConfig(t))
	l := acquire(t, transport, r, "node-1", topic)
	if err := l.Resign(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	state, err := coordination.DescribeRoleState(within(t, patience), transport, r, coordination.WithTopic(topic), coordination.WithPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, held := state.Holder(); held || len(state.Roster) != 1 {
		t.Errorf("after the resignation: held %v, roster %v; want no holder and one member", held, names(state))
	}
	next := acquire(t, s.transport(t, standardConfig(t)), r, "node-1", topic)
	if next.Sequence() <= l.Sequence() || !next.Token().Supersedes(l.Token()) {
		t.Errorf("second term %s at %d, first %s at %d; want both to grow", next.Token(), next.Sequence(), l.Token(), l.Sequence())
	}
}

func suiteGuard(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	commands := unique("commands")
	s.create(t, commands, 3)
	transport := s.transport(t, standardConfig(t))
	l := acquire(t, transport, r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 150_000)
	var want []string
	for range 5 {
		want = append(want, big)
	}
	for n := range 2 {
		records := []coordination.GuardedRecord{
			{Topic: commands, Partition: 1, Key: []byte("a"), Value: []byte(fmt.Sprint("one ", n)), Headers: []coordination.GuardedHeader{{Key: "h", Value: []byte("v")}}},
			{Topic: commands, Partition: 2, Value: []byte(fmt.Sprint("two ", n))},
			{Topic: commands, Partition: 1, Value: []byte(fmt.Sprint("three ", n)), Timestamp: time.UnixMilli(1_700_000_000_000)},
		}
		for _, value := range want {
			records = append(records, coordination.GuardedRecord{Topic: commands, Value: []byte(value)})
		}
		if err := guard.Write(within(t, patience), records...); err != nil {
			t.Fatal(err)
		}
		if err := l.Renew(within(t, patience)); err != nil {
			t.Fatal(err)
		}
	}
	got := [][]string{s.visible(t, commands, 0), s.visible(t, commands, 1), s.visible(t, commands, 2)}
	if diff := cmp.Diff([][]string{append(want, want...), {"one 0", "three 0", "one 1", "three 1"}, {"two 0", "two 1"}}, got); diff != "" {
		t.Errorf("commands mismatch (-want +got):\n%.500s", diff)
	}
	if got, minted := s.describe(t, r), l.MintedToken(); got != minted {
		t.Errorf("the coordinator holds %s, want %s", got, minted)
	}
}

func suiteGuardFails(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	commands := unique("commands")
	s.create(t, commands, 2, "max.message.bytes", "2000")
	transport := s.transport(t, standardConfig(t))
	l := acquire(t, transport, r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, patience)
	small := func(value string) coordination.GuardedRecord {
		return coordination.GuardedRecord{Topic: commands, Value: []byte(value)}
	}
	err = guard.Write(ctx, small("never"), coordination.GuardedRecord{Topic: commands, Partition: 1, Value: make([]byte, 4000)})
	var refused *coordination.TopicError
	if !errors.As(err, &refused) || !errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Fatalf("a record above the limit: %v, want a TopicError with MESSAGE_TOO_LARGE", err)
	}
	if refused.Topic != commands || refused.Partition != 1 {
		t.Errorf("the error names %s/%d, want %s/1", refused.Topic, refused.Partition, commands)
	}
	if err := guard.Write(ctx, coordination.GuardedRecord{Topic: commands, Partition: 7, Value: []byte("nowhere")}); !errors.As(err, &refused) || refused.Partition != 7 {
		t.Errorf("a partition that does not exist: %v, want a TopicError for partition 7", err)
	}
	if err := l.Renew(ctx); err != nil {
		t.Fatalf("renewal after a failed write: %v", err)
	}
	// So are records that are too large together, since a write has one batch for
	// each partition.
	var many []coordination.GuardedRecord
	want := []string{}
	for n := range 9 {
		value := strings.Repeat(fmt.Sprint(n), 700)
		many, want = append(many, small(value)), append(want, value)
	}
	if err := guard.Write(ctx, many...); !errors.As(err, &refused) || !errors.Is(err, kerr.MessageTooLarge) || refused.Partition != 0 {
		t.Errorf("records above the limit: %v, want a TopicError with MESSAGE_TOO_LARGE", err)
	}
	want = want[:2]
	if err := guard.Write(ctx, many[:2]...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{want, {}}, [][]string{s.visible(t, commands, 0), s.visible(t, commands, 1)}); diff != "" {
		t.Errorf("commands mismatch (-want +got):\n%s", diff)
	}
}

func suiteGuardCancelled(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	commands := unique("commands")
	s.create(t, commands, 1)
	ctx, cancel := context.WithCancel(within(t, patience))
	stop := &cancelOn{key: kmsg.Produce}
	transport := s.transport(t, standardConfig(t), reporting(stop))
	l := acquire(t, transport, r, "node-1", topic)
	guard, err := l.Guard()
	if err != nil {
		t.Fatal(err)
	}
	stop.arm(cancel)
	err = guard.Write(ctx, coordination.GuardedRecord{Topic: commands, Value: []byte("never")})
	if !errors.Is(err, context.Canceled) || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Fatalf("a cancelled write: %v, want the error of the context and no doubt about the outcome", err)
	}
	// The transaction ends without another write: readers are not held up.
	if diff := cmp.Diff([]string{}, s.visible(t, commands, 0)); diff != "" {
		t.Errorf("visible after the cancelled write (-want +got):\n%s", diff)
	}
	if err := guard.Write(within(t, patience), coordination.GuardedRecord{Topic: commands, Value: []byte("next")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"next"}, s.visible(t, commands, 0)); diff != "" {
		t.Errorf("commands mismatch (-want +got):\n%s", diff)
	}
}

// cancelOn cancels a context when a client writes a request of one kind.
type cancelOn struct {
	wire
	key    kmsg.Key
	cancel context.CancelFunc
}

func (c *cancelOn) arm(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
}

func (c *cancelOn) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil && kmsg.Key(key) == c.key {
		c.cancel()
		c.cancel = nil
	}
}

func suiteReadEnds(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	transport := s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	read := func() []string {
		t.Helper()
		records, complete, err := transport.ReadCommitted(ctx, at(topic, 0))
		if err != nil || !complete {
			t.Fatalf("read: complete %v, %v", complete, err)
		}
		values := []string{}
		for _, record := range records {
			values = append(values, fmt.Sprintf("%d=%s", record.Offset, record.Value))
		}
		return values
	}
	check := func(what string, want ...string) {
		t.Helper()
		s.settled(t, topic, 0)
		if diff := cmp.Diff(append([]string{}, want...), read()); diff != "" {
			t.Errorf("%s: records mismatch (-want +got):\n%s", what, diff)
		}
	}
	check("an empty partition")
	minted, err := transport.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.WriteLease(ctx, at(topic, 0), minted, []byte("lease"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	check("a transaction marker at the end", "0=1")
	aborted := s.hang(t, at(topic, 0), "never", time.Minute)
	if err := aborted.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	check("an aborted transaction at the end", "0=1")
	if err := transport.Append(ctx, at(topic, 0), []byte("member"), []byte("2")); err != nil {
		t.Fatal(err)
	}
	check("a record behind it", "0=1", "4=2")
}

func suiteReadCompacts(t *testing.T, s *stage) {
	topic := s.compacted(t, 1)
	transport := s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	const rounds = 60
	for n := range rounds {
		for _, key := range []string{"a", "b", "gone"} {
			value := []byte(fmt.Sprint(n))
			if key == "gone" && n == rounds-1 {
				value = nil
			}
			if err := transport.Append(ctx, at(topic, 0), []byte(key), value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := transport.ReadPartition(ctx, at(topic, 0)); err != nil {
			t.Fatal(err)
		}
	}
	records, err := transport.ReadPartition(ctx, at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	newest, last := map[string]string{}, int64(-1)
	for _, record := range records {
		if record.Offset <= last {
			t.Errorf("offset %d after %d", record.Offset, last)
		}
		last = record.Offset
		newest[string(record.Key)] = string(record.Value)
		if coordination.IsTombstone(record.Value) {
			delete(newest, string(record.Key))
		}
		record.Key[0] = 'z' // the records are the caller's
	}
	if diff := cmp.Diff(map[string]string{"a": "59", "b": "59"}, newest); diff != "" {
		t.Errorf("newest records mismatch (-want +got):\n%s", diff)
	}
	if len(records) > 2*3+64 {
		t.Errorf("%d records for 2 keys: replaced ones are not dropped", len(records))
	}
	again, err := transport.ReadPartition(ctx, at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range again {
		if record.Key[0] == 'z' {
			t.Fatal("a change of a returned record shows in the next read")
		}
	}
}

func suiteReadIncomplete(t *testing.T, s *stage) {
	topic := s.compacted(t, 1)
	lease := leaseConfig(t, 3*time.Second, 200*time.Millisecond, time.Second)
	transport := s.transport(t, lease)
	ctx := within(t, patience)
	if err := transport.Append(ctx, at(topic, 0), []byte("before"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	open := s.hang(t, at(topic, 0), "open", time.Minute)
	if err := transport.Append(ctx, at(topic, 0), []byte("behind"), []byte("3")); err != nil {
		t.Fatal(err)
	}
	records, err := transport.ReadPartition(ctx, at(topic, 0))
	if err != nil || len(records) != 1 || string(records[0].Key) != "before" {
		t.Errorf("behind an open transaction: %d records, %v; want a prefix of 1", len(records), err)
	}
	if _, complete, err := transport.ReadCommitted(ctx, at(topic, 0)); err != nil || complete {
		t.Errorf("behind an open transaction: complete %v, %v; want an incomplete read", complete, err)
	}
	if err := open.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	s.settled(t, topic, 0)
	records, complete, err := transport.ReadCommitted(ctx, at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, record := range records {
		keys = append(keys, string(record.Key))
	}
	if diff := cmp.Diff([]string{"before", "open", "behind"}, keys); diff != "" || !complete {
		t.Errorf("after its end: complete %v, keys mismatch (-want +got):\n%s", complete, diff)
	}
}

func suiteUnknownRole(t *testing.T, s *stage) {
	transport := s.transport(t, standardConfig(t))
	minted, held, err := transport.DescribeEpoch(within(t, patience), role(t, unique("nobody")))
	if minted != coordination.NoEpoch || held || err != nil {
		t.Errorf("DescribeEpoch = %s, %v, %v; want %s, false, nil", minted, held, err, coordination.NoEpoch)
	}
	stranger := token(t, 4242, 7)
	if err := transport.WriteLease(within(t, patience), at("t", 0), stranger, []byte("k"), nil); err == nil || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("a token of somebody else: %v, want an error that is no fence", err)
	}
	if current, known := transport.CurrentToken(role(t, "nobody"), stranger); known || current != coordination.NoEpoch {
		t.Errorf("CurrentToken = %s, %v", current, known)
	}
	select {
	case <-transport.Superseded(role(t, "nobody"), stranger):
	default:
		t.Error("the channel of an unknown token is open")
	}
}

func suiteTombstone(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	transport := s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	minted, err := transport.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.Append(ctx, at(topic, 0), []byte("registration"), []byte{}); err != nil {
		t.Fatal(err)
	}
	if err := transport.WriteLease(ctx, at(topic, 0), minted, []byte("lease"), []byte{}); err != nil {
		t.Fatal(err)
	}
	records, err := transport.ReadPartition(ctx, at(topic, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := []coordination.StateRecord{{Offset: 0, Key: []byte("registration")}, {Offset: 1, Key: []byte("lease")}}
	if diff := cmp.Diff(want, records); diff != "" { // nil and empty differ
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	for _, err := range []error{
		transport.Append(ctx, at(topic, 0), nil, []byte("v")),
		transport.WriteLease(ctx, at(topic, 0), minted, nil, []byte("v")),
	} {
		if err == nil || !strings.Contains(err.Error(), "needs a key") {
			t.Errorf("a record without a key: %v", err)
		}
	}
}

func suiteVerify(t *testing.T, s *stage) {
	transport := s.transport(t, standardConfig(t))
	mixed, deleted, compacted := unique("mixed"), unique("deleted"), s.compacted(t, 3)
	s.create(t, mixed, 3, "cleanup.policy", "compact,delete")
	s.create(t, deleted, 1)
	missing := unique("missing")
	tests := []struct {
		name       string
		topic      string
		partitions int
		want       []error
	}{
		{name: "fit for use", topic: compacted, partitions: 3},
		{name: "another partition count", topic: compacted, partitions: 16, want: []error{
			&coordination.TopicConfigError{Topic: compacted, Setting: "partitions", Have: "3", Want: "16"},
		}},
		{name: "compacted and deleted", topic: mixed, partitions: 3, want: []error{
			&coordination.TopicConfigError{Topic: mixed, Setting: "cleanup.policy", Have: "compact,delete", Want: "compact"},
		}},
		{name: "nothing right", topic: deleted, partitions: 2, want: []error{
			&coordination.TopicConfigError{Topic: deleted, Setting: "partitions", Have: "1", Want: "2"},
			&coordination.TopicConfigError{Topic: deleted, Setting: "cleanup.policy", Have: "delete", Want: "compact"},
		}},
		{name: "missing", topic: missing, partitions: 1, want: []error{
			&coordination.TopicError{Topic: missing, Partition: -1, Err: kerr.UnknownTopicOrPartition},
		}},
	}
	for _, tt := range tests {
		err := transport.EnsureTopic(within(t, patience), tt.topic, tt.partitions)
		var got []error
		switch joined, ok := err.(interface{ Unwrap() []error }); {
		case ok:
			got = joined.Unwrap()
		case err != nil:
			got = []error{err}
		}
		if diff := cmp.Diff(errorTexts(tt.want), errorTexts(got)); diff != "" {
			t.Errorf("%s: errors mismatch (-want +got):\n%s", tt.name, diff)
		}
		if len(tt.want) == 0 {
			continue
		}
		_, err = coordination.AcquireLeadership(within(t, patience), transport, role(t, unique("role")), member(t, "node-1"),
			coordination.WithTopic(tt.topic), coordination.WithPartitions(tt.partitions))
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s: acquisition: %v, want it to tell %v", tt.name, err, want)
			}
		}
	}
	for _, err := range []error{
		transport.EnsureTopic(within(t, patience), "no/topic", 1),
		transport.EnsureTopic(within(t, patience), compacted, 0),
	} {
		if err == nil {
			t.Error("a name or a count that cannot be is accepted")
		}
	}
}

func errorTexts(errs []error) []string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}

func suiteCreate(t *testing.T, s *stage) {
	topic := unique("created")
	creating := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.TopicPolicy = coordination.CreateTopic
		options.ReplicationFactor = 1
		options.TopicSettings = map[string]string{"min.insync.replicas": "1", "segment.ms": "60000"}
	})
	for range 2 { // the second finds it
		if err := creating.EnsureTopic(within(t, patience), topic, 5); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"cleanup.policy": "compact", "segment.ms": "60000", "segment.bytes": "16777216",
		"min.cleanable.dirty.ratio": "0.1", "max.compaction.lag.ms": "3600000", "delete.retention.ms": "86400000",
		"min.insync.replicas": "1",
	}
	if diff := cmp.Diff(want, s.settings(t, topic, want)); diff != "" {
		t.Errorf("settings of the created topic mismatch (-want +got):\n%s", diff)
	}
	var config *coordination.TopicConfigError
	if err := creating.EnsureTopic(within(t, patience), topic, 6); !errors.As(err, &config) || config.Have != "5" || config.Want != "6" {
		t.Errorf("an existing topic with another count: %v", err)
	}
	trusting := s.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) { options.TopicPolicy = coordination.TrustTopic })
	if err := trusting.EnsureTopic(within(t, patience), unique("missing"), 1); err != nil {
		t.Errorf("a transport that trusts: %v", err)
	}
}

func suiteOneTransport(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	transport := s.transport(t, standardConfig(t))
	ctx := within(t, patience)
	first := acquire(t, transport, r, "node-1", topic)
	second, err := transport.AcquireEpoch(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Done():
	case <-ctx.Done():
		t.Fatal("the first leadership does not end")
	}
	if !errors.Is(first.Err(), coordination.ErrFenced) {
		t.Errorf("the first leadership ended with %v, want ErrFenced", first.Err())
	}
	if err := transport.WriteLease(ctx, at(topic, 0), first.Token(), []byte("k"), []byte("late")); !errors.Is(err, coordination.ErrFenced) {
		t.Errorf("the superseded token: %v, want ErrFenced", err)
	}
	if current, known := transport.CurrentToken(r, second); current != second || !known {
		t.Errorf("CurrentToken = %s, %v; want %s", current, known, second)
	}
	transport.Release(r, second)
	if err := transport.WriteLease(ctx, at(topic, 0), second, []byte("k"), []byte("v")); !errors.Is(err, coordination.ErrNotHeld) || errors.Is(err, coordination.ErrFenced) {
		t.Errorf("a released token: %v, want ErrNotHeld alone", err)
	}
}

func suiteClose(t *testing.T, s *stage) {
	topic, r := s.compacted(t, 1), role(t, unique("role"))
	// A lease that outlasts a pause of the machine, and a renewal that notices soon.
	lease := leaseConfig(t, time.Minute, 100*time.Millisecond, time.Second)
	transport := s.transport(t, lease)
	l := acquire(t, transport, r, "node-1", topic, coordination.WithLeaseConfig(lease))
	transport.Close()
	transport.Close()
	select {
	case <-l.Done():
	case <-within(t, patience).Done():
		t.Fatal("the leadership does not end with its transport")
	}
	ctx := context.Background()
	_, minting := transport.AcquireEpoch(ctx, r)
	_, _, describing := transport.DescribeEpoch(ctx, r)
	_, reading := transport.ReadPartition(ctx, at(topic, 0))
	calls := map[string]error{
		"the leadership": l.Err(),
		"AcquireEpoch":   minting,
		"DescribeEpoch":  describing,
		"ReadPartition":  reading,
		"Append":         transport.Append(ctx, at(topic, 0), []byte("k"), nil),
		"WriteLease":     transport.WriteLease(ctx, at(topic, 0), l.Token(), []byte("k"), nil),
		"WriteRecords":   transport.WriteRecords(ctx, r, l.Token(), []coordination.GuardedRecord{{Topic: topic}}),
		"EnsureTopic":    transport.EnsureTopic(ctx, topic, 1),
	}
	for name, err := range calls {
		if !errors.Is(err, coordination.ErrTransportClosed) {
			t.Errorf("%s after Close: %v, want ErrTransportClosed", name, err)
		}
	}
}
