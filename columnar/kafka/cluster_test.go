// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// patience bounds every wait of a test; reaching it is a failure. It is long
// enough for a machine that is busy with much else.
const patience = 3 * time.Minute

// cluster is what a test runs against: a fake or a real one.
type cluster struct {
	brokers []string
	fake    *kfake.Cluster // nil for a real one
}

// newFake starts a fake cluster with one broker.
func newFake(t testing.TB, opts ...kfake.Opt) cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatalf("start fake cluster: %v", err)
	}
	t.Cleanup(fake.Close)
	return cluster{brokers: fake.ListenAddrs(), fake: fake}
}

// opts returns client options that reach the cluster, followed by more. Whatever
// more does not set is the default that users have.
func (c cluster) opts(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(c.brokers...)}, more...)
}

// client returns a plain client for setting up and for looking at results.
func (c cluster) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(c.opts(opts...)...)
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

func (c cluster) admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.client(t))
}

// topic creates a topic with a name of its own.
func (c cluster) topic(t testing.TB, partitions int) string {
	t.Helper()
	name := unique("topic")
	c.create(t, name, partitions)
	return name
}

func (c cluster) create(t testing.TB, name string, partitions int) {
	t.Helper()
	admin, ctx := c.admin(t), within(t)
	resp, err := admin.CreateTopic(ctx, int32(partitions), 1, nil, name)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	for { // a broker learns of its partitions a little later
		listed, err := admin.ListEndOffsets(ctx, name)
		if err == nil && listed.Error() == nil && len(listed[name]) == partitions {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("topic %s is not there: %v, %v", name, err, listed.Error())
		}
	}
}

// unique returns a name that nothing else uses.
func unique(kind string) string {
	return kind + "-" + strings.ToLower(rand.Text()[:10])
}

// produce writes values to one partition and returns when they are stored.
func (c cluster) produce(t testing.TB, topic string, partition int32, values ...string) {
	t.Helper()
	client := c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: []byte(v), Value: []byte(v)})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
}

// produceTransaction writes values to one partition in one transaction.
func (c cluster) produceTransaction(t testing.TB, end kgo.TransactionEndTry, topic string, partition int32, values ...string) {
	t.Helper()
	client := c.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(unique("setup")))
	if err := client.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: []byte(v), Value: []byte(v)})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
	if err := client.EndTransaction(t.Context(), end); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
}

// committed returns the group's committed offsets of a topic, waiting for
// pending ones. It asks for each partition, because an answer about the whole
// group leaves out a first commit that is pending.
func (c cluster) committed(t testing.TB, group, topic string) map[columnar.TopicPartition]int64 {
	t.Helper()
	ctx := within(t)
	client := c.client(t)
	details, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		t.Fatalf("list %s: %v", topic, err)
	}
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic = topic
	rt.Partitions = details[topic].Partitions.Numbers()
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	rg.Topics = append(rg.Topics, rt)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = append(req.Groups, rg)
	for {
		resp, err := req.RequestWith(ctx, client)
		if kerr.IsRetriable(err) {
			continue // the first group of a broker waits for its coordinator
		}
		if err != nil {
			t.Fatalf("committed offsets of %s: %v", group, err)
		}
		got := map[columnar.TopicPartition]int64{}
		stable := true
		for _, answer := range resp.Groups[0].Topics { // none for a group that nobody has joined
			for _, p := range answer.Partitions {
				stable = stable && p.ErrorCode != kerr.UnstableOffsetCommit.Code
				if p.Offset >= 0 {
					got[at(topic, int(p.Partition))] = p.Offset
				}
			}
		}
		if stable {
			return got
		}
	}
}

// values reads what a read-committed consumer sees of a topic, partition by
// partition, up to the end of the log.
func (c cluster) values(t testing.TB, topic string) []string {
	t.Helper()
	ctx := within(t)
	admin := c.admin(t)
	for {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			t.Fatalf("end offsets: %v", err)
		}
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			t.Fatalf("stable offsets: %v", err)
		}
		settled := true
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(o.Topic, o.Partition)
			settled = settled && s.Offset == o.Offset
		})
		if settled {
			return c.read(t, topic, stable)
		}
	}
}

func (c cluster) read(t testing.TB, topic string, ends kadm.ListedOffsets) []string {
	t.Helper()
	client := c.client(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	byPartition := map[int32][]string{}
	left := map[int32]int64{}
	starts, err := c.admin(t).ListStartOffsets(t.Context(), topic)
	if err != nil {
		t.Fatalf("start offsets: %v", err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(o.Topic, o.Partition); s.Offset < o.Offset {
			left[o.Partition] = o.Offset
		}
	})
	ctx := within(t)
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				byPartition[r.Partition] = append(byPartition[r.Partition], string(r.Value))
			}
			if end, ok := left[r.Partition]; ok && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	var values []string
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		values = append(values, byPartition[p]...)
	}
	return values
}

func at(topic string, partition int) columnar.TopicPartition {
	return columnar.TopicPartition{Topic: topic, Partition: partition}
}

// within returns a context that ends when a test has waited too long.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// listener records what it is told.
type listener struct {
	mu       sync.Mutex
	events   []string
	assigned func([]columnar.TopicPartition)
	revoked  func([]columnar.TopicPartition)
}

func (l *listener) note(kind string, partitions []columnar.TopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var numbers []string
	for _, tp := range partitions {
		numbers = append(numbers, fmt.Sprintf("%s/%d", tp.Topic, tp.Partition))
	}
	l.events = append(l.events, kind+" "+strings.Join(numbers, " "))
}

func (l *listener) log() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

func (l *listener) OnPartitionsAssigned(partitions []columnar.TopicPartition) {
	l.note("assigned", partitions)
	if l.assigned != nil {
		l.assigned(partitions)
	}
}

func (l *listener) OnPartitionsRevoked(partitions []columnar.TopicPartition) {
	l.note("revoked", partitions)
	if l.revoked != nil {
		l.revoked(partitions)
	}
}

func (l *listener) OnPartitionsLost(partitions []columnar.TopicPartition) { l.note("lost", partitions) }

// pollUntil polls until done says so, and returns the values that came, by
// partition in the order of delivery.
func pollUntil(t testing.TB, consumer columnar.Consumer, done func(map[columnar.TopicPartition][]string) bool) map[columnar.TopicPartition][]string {
	t.Helper()
	ctx := within(t)
	got := map[columnar.TopicPartition][]string{}
	for !done(got) {
		records, err := consumer.Poll(ctx, 500*time.Millisecond)
		if err != nil {
			t.Fatalf("poll: %v (got so far %v)", err, got)
		}
		for tp, rs := range records {
			for _, r := range rs {
				got[tp] = append(got[tp], string(r.Value))
			}
		}
	}
	return got
}

// records counts values over all partitions.
func records(n int) func(map[columnar.TopicPartition][]string) bool {
	return func(got map[columnar.TopicPartition][]string) bool {
		sum := 0
		for _, values := range got {
			sum += len(values)
		}
		return sum >= n
	}
}

// pollError polls until an error comes.
func pollError(t testing.TB, consumer columnar.Consumer) error {
	t.Helper()
	ctx := within(t)
	for {
		if _, err := consumer.Poll(ctx, 500*time.Millisecond); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("poll returned no error in time")
			}
			return err
		}
	}
}

// sendAll sends values and returns the outcomes.
func sendAll(t testing.TB, producer columnar.Producer, topic string, values ...string) []error {
	t.Helper()
	outcomes := make(chan error, len(values))
	for _, v := range values {
		producer.Send(topic, columnar.NewProduceRecord([]byte(v), []byte(v), -1), func(err error) { outcomes <- err })
	}
	var errs []error
	for range values {
		select {
		case err := <-outcomes:
			errs = append(errs, err)
		case <-within(t).Done():
			t.Fatalf("a record was not acknowledged")
		}
	}
	return errs
}

// closer is what tests close when they end.
type closer interface{ Close() error }

func closing(t testing.TB, c closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func (c cluster) member(t testing.TB, group string, l columnar.RebalanceListener, topics []string, opts ...kgo.Opt) *kafka.Member {
	t.Helper()
	m, err := kafka.NewMember(group, c.opts(opts...)...)
	if err != nil {
		t.Fatalf("new member: %v", err)
	}
	closing(t, m)
	if err := m.Subscribe(topics, l); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return m
}

func (c cluster) transactional(t testing.TB, group, id string, l columnar.RebalanceListener, topics []string, opts ...kgo.Opt) *kafka.TransactionalMember {
	t.Helper()
	m, err := kafka.NewTransactionalMember(group, id, c.opts(opts...)...)
	if err != nil {
		t.Fatalf("new transactional member: %v", err)
	}
	closing(t, m)
	if err := m.Subscribe(topics, l); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return m
}

func (c cluster) reader(t testing.TB, opts ...kgo.Opt) *kafka.Reader {
	t.Helper()
	r, err := kafka.NewReader(c.opts(opts...)...)
	if err != nil {
		t.Fatalf("new reader: %v", err)
	}
	closing(t, r)
	return r
}
