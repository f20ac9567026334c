// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

const (
	// defaultTransactionTimeout is that of Kafka's clients.
	defaultTransactionTimeout = 40 * time.Second
	// defaultRebalanceTimeout is that of Kafka's clients.
	defaultRebalanceTimeout = 60 * time.Second
)

// Broker is a Kafka cluster in the process of the test: partition logs with control
// records, groups that rebalance, and transactions that readers see only when they
// are committed. Its clients have the seams of [columnar]: [Broker.NewMember],
// [Broker.NewTransactionalMember], [Broker.NewReader], [Broker.NewProducer] and, for
// elections, [Broker.NewElectionTransport].
//
// A Broker starts no goroutine that outlives the call it serves, and needs no Close.
// In a bubble of [testing/synctest] it keeps the time of the bubble. It is safe for
// concurrent use by multiple goroutines.
type Broker struct {
	settings brokerSettings

	mu           sync.Mutex // guards what follows
	changed      chan struct{}
	rand         *rand.Rand // nil where nothing is random
	topics       map[string][]*partitionLog
	groups       map[string]*group
	producers    map[string]*transactionalProducer // by transactional id
	nextProducer int64
	clients      int
	later        []scheduled
	calls        []func() // to be made when mu is free
	faults       faults
}

// scheduled is something that happens at a later time.
type scheduled struct {
	at time.Time
	do func()
}

// brokerSettings is what the options of a broker set.
type brokerSettings struct {
	seed               *uint64
	eager              bool
	pausesOutlive      bool
	markerDelay        time.Duration
	transactionTimeout time.Duration
	rebalanceTimeout   time.Duration
}

// BrokerOption configures a [Broker].
type BrokerOption func(*brokerSettings)

// WithSeed makes a broker as moody as brokers are, in a way that the seed decides:
// polls bring a part of what is ready, from some of the partitions, resumed
// partitions come back some polls later, and records stand beside control records
// and records of aborted transactions. Without a seed nothing is random.
func WithSeed(seed uint64) BrokerOption { return func(s *brokerSettings) { s.seed = &seed } }

// WithEagerRebalances makes every member give up all its partitions in each
// rebalance, and get new ones only when all members have. Without it a member gives
// up those that go to another member.
func WithEagerRebalances() BrokerOption { return func(s *brokerSettings) { s.eager = true } }

// WithPausesThatOutlive makes a paused partition stay paused when it leaves its
// member and comes back, as it does in Kafka's clients. A member of this library's
// adapter ends a pause with the assignment.
func WithPausesThatOutlive() BrokerOption { return func(s *brokerSettings) { s.pausesOutlive = true } }

// WithMarkerDelay makes the records and offsets of a transaction visible so long
// after its commit was acknowledged. Meanwhile a transaction of the same producer
// that moves offsets alone is refused, as brokers do with CONCURRENT_TRANSACTIONS,
// with a [*columnar.TransactionAbortedError].
func WithMarkerDelay(delay time.Duration) BrokerOption {
	return func(s *brokerSettings) { s.markerDelay = delay }
}

// WithTransactionTimeout sets after what time an open transaction is aborted. The
// default is 40 seconds.
func WithTransactionTimeout(timeout time.Duration) BrokerOption {
	return func(s *brokerSettings) { s.transactionTimeout = timeout }
}

// WithRebalanceTimeout sets how long a rebalance waits for a member that does not
// poll, before the member is thrown out of its group. The default is 60 seconds.
func WithRebalanceTimeout(timeout time.Duration) BrokerOption {
	return func(s *brokerSettings) { s.rebalanceTimeout = timeout }
}

// NewBroker returns a broker without topics.
func NewBroker(options ...BrokerOption) *Broker {
	b := &Broker{
		settings: brokerSettings{transactionTimeout: defaultTransactionTimeout, rebalanceTimeout: defaultRebalanceTimeout},
		changed:  make(chan struct{}), topics: map[string][]*partitionLog{}, groups: map[string]*group{},
		producers: map[string]*transactionalProducer{}, nextProducer: 1000,
	}
	for _, option := range options {
		option(&b.settings)
	}
	if seed := b.settings.seed; seed != nil {
		b.rand = rand.New(rand.NewPCG(*seed, *seed^0x6b7261626b61))
	}
	return b
}

// lock takes mu and lets happen what is due.
func (b *Broker) lock() {
	b.mu.Lock()
	b.settle(time.Now())
}

// unlock frees mu and makes the calls that wait for that.
func (b *Broker) unlock() {
	calls := b.calls
	b.calls = nil
	b.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// change ends the waits of polls and reads, for them to look again. The caller holds
// mu.
func (b *Broker) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// settle lets happen what is due: records that come late, ends of transactions, and
// the end of the patience with members that a rebalance waits for. The caller holds mu.
func (b *Broker) settle(now time.Time) {
	for len(b.later) > 0 && !b.later[0].at.After(now) {
		next := b.later[0]
		b.later = b.later[1:]
		next.do()
		b.change()
	}
	for _, id := range slices.Sorted(maps.Keys(b.producers)) {
		if t := b.producers[id].transaction; t != nil && !t.due.After(now) {
			if !t.ending {
				t.timedOut = true
			}
			b.finish(t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		b.groups[name].expireLate(now)
	}
}

// due returns the next time at which something happens by itself; the zero time for
// none. The caller holds mu.
func (b *Broker) due() time.Time {
	var next time.Time
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(b.later) > 0 {
		earlier(b.later[0].at)
	}
	for _, p := range b.producers {
		if p.transaction != nil {
			earlier(p.transaction.due)
		}
	}
	for _, g := range b.groups {
		if at := g.patience(); !at.IsZero() {
			earlier(at)
		}
	}
	return next
}

// schedule makes something happen later. The caller holds mu.
func (b *Broker) schedule(delay time.Duration, do func()) {
	b.later = append(b.later, scheduled{time.Now().Add(delay), do})
	slices.SortStableFunc(b.later, func(a, c scheduled) int { return a.at.Compare(c.at) })
	b.change()
}

// chance is true once in so many times, and never without a seed. The caller holds
// mu.
func (b *Broker) chance(times int) bool { return b.rand != nil && b.rand.IntN(times) == 0 }

// CreateTopic creates a topic with partitions numbered from 0, or adds partitions to
// a topic that has fewer. It panics for less than one partition.
func (b *Broker) CreateTopic(topic string, partitions int) {
	if partitions < 1 {
		panic(fmt.Sprintf("krabkatest: topic %q of %d partitions", topic, partitions))
	}
	b.lock()
	defer b.unlock()
	for len(b.topics[topic]) < partitions {
		b.topics[topic] = append(b.topics[topic], &partitionLog{open: map[*transaction]int64{}})
	}
	b.rebalanceReaders(topic)
}

// DeleteTopic deletes a topic with its records and the offsets that groups committed
// in it. A topic that is created under its name begins at offset 0.
func (b *Broker) DeleteTopic(topic string) {
	b.lock()
	defer b.unlock()
	delete(b.topics, topic)
	for _, g := range b.groups {
		maps.DeleteFunc(g.committed, func(tp columnar.TopicPartition, _ committedOffset) bool { return tp.Topic == topic })
	}
	b.rebalanceReaders(topic)
}

// rebalanceReaders starts a rebalance of the groups that read a topic. The caller
// holds mu.
func (b *Broker) rebalanceReaders(topic string) {
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		if g := b.groups[name]; slices.ContainsFunc(g.members, func(m *membership) bool { return slices.Contains(m.topics, topic) }) {
			g.rebalance()
		}
	}
	b.change()
}

// log returns the log of a partition. The caller holds mu.
func (b *Broker) log(tp columnar.TopicPartition) (*partitionLog, error) {
	logs := b.topics[tp.Topic]
	if tp.Partition < 0 || tp.Partition >= len(logs) {
		return nil, &columnar.TopicError{Topic: tp.Topic, Partition: tp.Partition, Cause: errNoPartition}
	}
	return logs[tp.Partition], nil
}

// Produce appends records to a partition, outside transactions, and returns the
// offset of the first. A negative timestamp becomes the present time. The broker
// copies the records. A partition that does not exist is a
// [*columnar.TopicError].
func (b *Broker) Produce(topic string, partition int, records ...columnar.ProduceRecord) (int64, error) {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return 0, err
	}
	first := log.end()
	for i, record := range records {
		switch {
		case b.chance(8):
			log.append(entry{control: true})
		case b.chance(8):
			log.append(entry{record: consumed(record), transaction: &transaction{}})
		}
		if at := log.append(entry{record: consumed(record)}); i == 0 {
			first = at
		}
	}
	b.change()
	return first, nil
}

// ProduceJSON is [Broker.Produce] of one record without a key whose value is the JSON
// text of a Go value. timestamp is in milliseconds since the Unix epoch.
func (b *Broker) ProduceJSON(topic string, partition int, timestamp int64, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("krabkatest: write a %T as JSON: %w", value, err)
	}
	_, err = b.Produce(topic, partition, columnar.ProduceRecord{Value: text, Timestamp: timestamp})
	return err
}

// ProduceControl appends a control record, such as the marker of a barrier or of the
// end of a transaction, and returns its offset. No consumer sees it.
func (b *Broker) ProduceControl(topic string, partition int) (int64, error) {
	return b.appendHidden(topic, partition, entry{control: true})
}

// ProduceAborted appends a record of a transaction that is aborted, and returns its
// offset. No consumer sees it.
func (b *Broker) ProduceAborted(topic string, partition int, record columnar.ProduceRecord) (int64, error) {
	return b.appendHidden(topic, partition, entry{record: consumed(record), transaction: &transaction{}})
}

func (b *Broker) appendHidden(topic string, partition int, hidden entry) (int64, error) {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return 0, err
	}
	defer b.change()
	return log.append(hidden), nil
}

// DeleteRecords deletes the records of a partition below an offset, as retention
// does. A consumer that is still to read one gets a
// [*columnar.OffsetOutOfRangeError].
func (b *Broker) DeleteRecords(topic string, partition int, before int64) error {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return err
	}
	if before < 0 || before > log.end() {
		return fmt.Errorf("krabkatest: delete the records of %s/%d before offset %d: the log ends at %d", topic, partition, before, log.end())
	}
	log.start = max(log.start, before)
	b.change()
	return nil
}

// Records returns the records of a partition that a read-committed consumer sees, in
// offset order. A partition that does not exist has none.
func (b *Broker) Records(topic string, partition int) []columnar.ConsumedRecord {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return nil
	}
	var records []columnar.ConsumedRecord
	for offset := log.start; offset < log.stable(); offset++ {
		if e := log.entries[offset]; e.visible() {
			e.record.Partition = partition
			records = append(records, cloneConsumed(e.record))
		}
	}
	return records
}

// Output returns the records of all partitions of a topic that a read-committed
// consumer sees, one partition after the other, as [RowsOf] reads them.
func (b *Broker) Output(topic string) []columnar.ProduceRecord {
	var output []columnar.ProduceRecord
	for partition := range b.Partitions(topic) {
		for _, record := range b.Records(topic, partition) {
			output = append(output, columnar.ProduceRecord{
				Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers,
			})
		}
	}
	return output
}

// Partitions returns how many partitions a topic has; 0 where there is no such
// topic.
func (b *Broker) Partitions(topic string) int {
	b.lock()
	defer b.unlock()
	return len(b.topics[topic])
}

// Offsets returns the first offset of a partition, the offset up to which a
// read-committed consumer may read, and the offset behind the last record; zeros
// where there is no such partition.
func (b *Broker) Offsets(topic string, partition int) (start, stable, end int64) {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return 0, 0, 0
	}
	return log.start, log.stable(), log.end()
}

func comparePartitions(a, b columnar.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
