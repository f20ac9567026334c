// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
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

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// stage is a cluster that transports are tried on: a fake or a real one.
type stage struct {
	brokers []string
	fake    *kfake.Cluster // nil for a real one
	opts    []kgo.Opt      // that reach it

	// dial is the dialer of opts, or nil.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// fakeStage starts a fake cluster. It has one broker unless the options say
// otherwise.
func fakeStage(tb testing.TB, opts ...kfake.Opt) *stage {
	tb.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		tb.Fatalf("start a fake cluster: %v", err)
	}
	tb.Cleanup(fake.Close)
	return &stage{brokers: fake.ListenAddrs(), fake: fake}
}

// virtualStage starts a fake cluster whose connections are pipes, so that it
// runs on the fake time of a bubble.
func virtualStage(tb testing.TB, opts ...kfake.Opt) *stage {
	tb.Helper()
	network := new(kfake.VirtualNetwork)
	s := fakeStage(tb, append(opts, kfake.ListenFn(network.Listen))...)
	s.dial = network.DialContext
	s.opts = append(s.opts, kgo.Dialer(s.dial))
	return s
}

// unique returns a name that nothing else on a cluster uses.
func unique(kind string) string { return kind + "-" + strings.ToLower(rand.Text()[:10]) }

// client returns a client for setting up and for looking at results.
func (s *stage) client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append(append([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, s.opts...), opts...)...)
	if err != nil {
		tb.Fatalf("new client: %v", err)
	}
	tb.Cleanup(client.Close)
	return client
}

// create creates a topic; the settings are pairs of name and value.
func (s *stage) create(tb testing.TB, topic string, partitions int, settings ...string) {
	tb.Helper()
	configs := make(map[string]*string)
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	answer, err := kadm.NewClient(s.client(tb)).CreateTopic(tb.Context(), int32(partitions), 1, configs, topic)
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		tb.Fatalf("create topic %s: %v", topic, err)
	}
}

// compacted creates a compacted topic with a name of its own.
func (s *stage) compacted(tb testing.TB, partitions int) string {
	tb.Helper()
	topic := unique("coordination")
	s.create(tb, topic, partitions, "cleanup.policy", "compact")
	return topic
}

// transport returns a transport that ends with the test.
func (s *stage) transport(tb testing.TB, lease coordination.LeaseConfig, changes ...func(*coordination.KafkaOptions)) *coordination.KafkaTransport {
	tb.Helper()
	options := coordination.KafkaOptions{Brokers: s.brokers, ClientOptions: s.opts}
	for _, change := range changes {
		change(&options)
	}
	transport, err := coordination.NewKafkaTransportWithOptions(lease, options)
	if err != nil {
		tb.Fatalf("new transport: %v", err)
	}
	tb.Cleanup(transport.Close)
	return transport
}

// wire counts the requests that clients send and the bytes they take.
type wire struct {
	mu       sync.Mutex // guards the fields below
	requests map[kmsg.Key]int
	total    int
}

var _ kgo.HookBrokerWrite = (*wire)(nil)

// reporting makes the clients of a transport report to a hook.
func reporting(hook kgo.Hook) func(*coordination.KafkaOptions) {
	return func(options *coordination.KafkaOptions) {
		options.ClientOptions = append(options.ClientOptions[:len(options.ClientOptions):len(options.ClientOptions)], kgo.WithHooks(hook))
	}
}

func (w *wire) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests == nil {
		w.requests = make(map[kmsg.Key]int)
	}
	w.requests[kmsg.Key(key)]++
	w.total++
}

// of returns the number of requests of one kind so far.
func (w *wire) of(key kmsg.Key) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[key]
}

// all returns the number of requests so far.
func (w *wire) all() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// describe returns the pair that the coordinator holds for a role.
func (s *stage) describe(tb testing.TB, role coordination.Role) coordination.FencingToken {
	tb.Helper()
	ask := kmsg.NewPtrDescribeTransactionsRequest()
	ask.TransactionalIDs = []string{role.String()}
	client := s.client(tb)
	defer client.Close()
	answer, err := ask.RequestWith(within(tb, patience), client)
	if err != nil {
		tb.Fatalf("describe %s: %v", role, err)
	}
	state := answer.TransactionStates[0]
	if err := kerr.ErrorForCode(state.ErrorCode); err != nil {
		tb.Fatalf("describe %s: %v", role, err)
	}
	return token(tb, state.ProducerID, state.ProducerEpoch)
}

// ready waits until the coordinator of a role answers the first mint it is
// asked for. One of a new cluster refuses it while its part of the transaction
// log loads, and until it was given a block of producer ids.
func (s *stage) ready(tb testing.TB, role coordination.Role) {
	tb.Helper()
	client := s.client(tb)
	ctx := within(tb, patience)
	id := unique("any")
	mint := kmsg.NewPtrInitProducerIDRequest()
	mint.TransactionalID, mint.TransactionTimeoutMillis = &id, 1000
	mint.ProducerID, mint.ProducerEpoch = -1, -1
	ask := kmsg.NewPtrDescribeTransactionsRequest()
	ask.TransactionalIDs = []string{role.String()}
	busy := []error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		minted, err := mint.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(minted.ErrorCode)
		}
		if err == nil {
			var described *kmsg.DescribeTransactionsResponse
			if described, err = ask.RequestWith(ctx, client); err == nil {
				err = kerr.ErrorForCode(described.TransactionStates[0].ErrorCode)
			}
		}
		switch {
		case err == nil, errors.Is(err, kerr.TransactionalIDNotFound):
			return
		case !slices.Contains(busy, err):
			tb.Fatalf("wait for the coordinator of %s: %v", role, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("the coordinator of %s is not ready: %v", role, err)
		}
	}
}

// at names a partition.
func at(topic string, partition int) coordination.TopicPartition {
	return coordination.TopicPartition{Topic: topic, Partition: partition}
}

// visible returns the values of a partition that a read-committed reader sees,
// once the last stable offset reached the end of the log.
func (s *stage) visible(tb testing.TB, topic string, partition int32) []string {
	tb.Helper()
	ctx := within(tb, patience)
	admin := kadm.NewClient(s.client(tb))
	var end int64
	for {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			tb.Fatalf("end offsets of %s: %v", topic, err)
		}
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			tb.Fatalf("stable offsets of %s: %v", topic, err)
		}
		last, _ := ends.Lookup(topic, partition)
		if committed, _ := stable.Lookup(topic, partition); committed.Offset == last.Offset {
			end = last.Offset
			break
		}
	}
	client := s.client(tb, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	values := []string{}
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tb.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

// hang leaves a transaction open in a partition. It ends with the timeout.
func (s *stage) hang(tb testing.TB, at coordination.TopicPartition, value string, timeout time.Duration) *kgo.Client {
	tb.Helper()
	client := s.client(tb, kgo.TransactionalID(unique("hang")), kgo.TransactionTimeout(timeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.BeginTransaction(); err != nil {
		tb.Fatal(err)
	}
	record := &kgo.Record{Topic: at.Topic, Partition: int32(at.Partition), Key: []byte(value), Value: []byte(value)}
	if err := client.ProduceSync(within(tb, patience), record).FirstErr(); err != nil {
		tb.Fatal(err)
	}
	return client
}

// settings returns the values of some settings of a topic.
func (s *stage) settings(tb testing.TB, topic string, of map[string]string) map[string]string {
	tb.Helper()
	configs, err := kadm.NewClient(s.client(tb)).DescribeTopicConfigs(within(tb, patience), topic)
	if err != nil {
		tb.Fatalf("settings of %s: %v", topic, err)
	}
	values := make(map[string]string)
	for _, config := range configs[0].Configs {
		if _, asked := of[config.Key]; asked {
			values[config.Key] = config.MaybeValue()
		}
	}
	return values
}

// stop ends what runs in a bubble: goroutines of a client take a moment to end
// after it is closed.
func (s *stage) stop(transports ...*coordination.KafkaTransport) {
	for _, transport := range transports {
		transport.Close()
	}
	s.fake.Close()
}
