// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

var (
	errNoPartition = errors.New("the broker does not know the partition")
	errTimedOut    = errors.New("the transaction was open for longer than its time-out")
	errMarkers     = errors.New("CONCURRENT_TRANSACTIONS: the markers of the transaction before are not written yet")
)

// partitionLog is what one partition holds. Entries keep their place when retention
// deletes what is below start.
type partitionLog struct {
	start   int64
	entries []entry                // by offset
	open    map[*transaction]int64 // first offset of transactions that have not ended
}

// entry is one record of a log.
type entry struct {
	record      columnar.ConsumedRecord
	control     bool
	transaction *transaction // nil outside transactions
}

// visible reports whether a read-committed consumer sees the entry below the stable
// end.
func (e entry) visible() bool { return !e.control && (e.transaction == nil || e.transaction.committed) }

func (l *partitionLog) end() int64 { return int64(len(l.entries)) }

// stable is the first offset that a read-committed consumer may not read yet.
func (l *partitionLog) stable() int64 {
	stable := l.end()
	for _, first := range l.open {
		stable = min(stable, first)
	}
	return stable
}

func (l *partitionLog) append(e entry) int64 {
	e.record.Offset = l.end()
	l.entries = append(l.entries, e)
	return e.record.Offset
}

// transactionalProducer is what the transaction coordinator knows of a transactional
// id.
type transactionalProducer struct {
	id          string
	producerID  int64
	epoch       int16
	transaction *transaction // open or ending; nil for none
}

// transaction is one transaction from its begin to its end.
type transaction struct {
	producer  *transactionalProducer
	logs      []*partitionLog // in the order of their first record
	group     *group          // of offsets; nil for none
	offsets   map[columnar.TopicPartition]committedOffset
	due       time.Time // of its time-out or, when it ends, of its markers
	ending    bool
	committed bool // it ended, or will when ending, with a commit
	timedOut  bool
	crowded   bool // it began before the markers of the one before were written
}

// committedOffset is an offset of a group with the note beside it.
type committedOffset struct {
	offset int64
	note   string
}

// initProducer makes a caller the owner of a transactional id. What the owner before
// has left open is aborted. The caller holds mu.
func (b *Broker) initProducer(id string) *transactionalProducer {
	p := b.producers[id]
	if p == nil {
		b.nextProducer++
		p = &transactionalProducer{id: id, producerID: b.nextProducer, epoch: -1}
		b.producers[id] = p
	}
	if p.transaction != nil {
		b.finish(p.transaction)
	}
	p.epoch++
	b.change()
	return p
}

// begin opens a transaction. The caller holds mu.
func (b *Broker) begin(p *transactionalProducer) *transaction {
	t := &transaction{producer: p, offsets: map[columnar.TopicPartition]committedOffset{}, due: time.Now().Add(b.settings.transactionTimeout)}
	if before := p.transaction; before != nil {
		t.crowded = before.ending
		b.finish(before)
	}
	p.transaction = t
	return t
}

// write appends a record to a transaction. The caller holds mu.
func (t *transaction) write(log *partitionLog, record columnar.ConsumedRecord) int64 {
	if _, ok := log.open[t]; !ok {
		log.open[t] = log.end()
		t.logs = append(t.logs, log)
	}
	return log.append(entry{record: record, transaction: t})
}

// end decides how a transaction ends. Its markers follow after the delay that the
// broker is set to. The caller holds mu.
func (b *Broker) end(t *transaction, commit bool) {
	t.ending, t.committed, t.due = true, commit, time.Now().Add(b.settings.markerDelay)
	if b.settings.markerDelay <= 0 {
		b.finish(t)
	}
}

// finish writes the markers of a transaction that ends, and of one that is open those
// of an abort. The caller holds mu.
func (b *Broker) finish(t *transaction) {
	for _, log := range t.logs {
		delete(log.open, t)
		log.append(entry{control: true})
	}
	if t.committed && t.group != nil {
		t.group.commit(t.offsets)
	}
	if t.producer.transaction == t {
		t.producer.transaction = nil
	}
	t.logs, t.group = nil, nil
	b.change()
}

// unstable reports whether a transaction that has not ended moves an offset of a
// group. The caller holds mu.
func (b *Broker) unstable(g *group, tp columnar.TopicPartition) bool {
	for _, p := range b.producers {
		if t := p.transaction; t != nil && t.group == g {
			if _, moves := t.offsets[tp]; moves {
				return true
			}
		}
	}
	return false
}

// OpenTransaction appends a record to a partition in a transaction of somebody else,
// which hides everything behind it from read-committed consumers, and returns what ends
// the transaction. It has no time-out.
func (b *Broker) OpenTransaction(topic string, partition int, record columnar.ProduceRecord) (end func(commit bool), err error) {
	b.lock()
	defer b.unlock()
	log, err := b.log(columnar.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return nil, err
	}
	t := &transaction{producer: &transactionalProducer{}}
	t.write(log, consumed(record))
	b.change()
	return func(commit bool) {
		b.lock()
		defer b.unlock()
		t.committed = commit
		b.finish(t)
	}, nil
}

// CutOption changes how [Broker.PublishCut] publishes.
type CutOption func(*cutSettings)

type cutSettings struct{ delay time.Duration }

// WithLateNews makes the record that tells of a cut come so long after the markers of
// the cut.
func WithLateNews(delay time.Duration) CutOption { return func(s *cutSettings) { s.delay = delay } }

// AnnounceCut writes to [columnar.BarrierStateTopic], whose partition 0 it creates
// where it is missing, that a cut of the group and epoch is about to be taken.
func (b *Broker) AnnounceCut(group string, epoch int64) {
	key := barrierKey(barrierKindStart, group, epoch)
	value := make([]byte, 0, 18)
	value = append(value, 0, 0)                                   // version
	value = append(value, 0, 0, 0, 0)                             // epoch of the coordinator
	value = append(value, 0, 0, 0, 0, 0, 0, 0, 0)                 // when it was triggered
	value = append(value, 0, 0, 0, 0)                             // targets
	b.CreateTopic(columnar.BarrierStateTopic, 1)                  // adds nothing to what there is
	b.mustProduce(columnar.ProduceRecord{Key: key, Value: value}) // the topic has the partition
}

func (b *Broker) mustProduce(record columnar.ProduceRecord) {
	b.lock()
	defer b.unlock()
	b.topics[columnar.BarrierStateTopic][0].append(entry{record: consumed(record)})
	b.change()
}

// PublishCut takes a cut: it writes a marker into every partition of the topics, and
// the record of the complete cut, whose offsets are those of the markers, to
// partition 0 of [columnar.BarrierStateTopic], which it creates where it is missing.
func (b *Broker) PublishCut(group string, epoch int64, topics []string, options ...CutOption) (columnar.BarrierCut, error) {
	settings := cutSettings{}
	for _, option := range options {
		option(&settings)
	}
	now := time.Now().UnixMilli()
	cut := columnar.BarrierCut{Group: group, Epoch: epoch, TriggeredAt: now, CompletedAt: now, Offsets: map[columnar.TopicPartition]int64{}}
	b.CreateTopic(columnar.BarrierStateTopic, 1)
	b.lock()
	defer b.unlock()
	for _, topic := range topics {
		if len(b.topics[topic]) == 0 {
			return columnar.BarrierCut{}, &columnar.TopicError{Topic: topic, Partition: -1, Cause: errNoPartition}
		}
		for partition, log := range b.topics[topic] {
			cut.Offsets[columnar.TopicPartition{Topic: topic, Partition: partition}] = log.append(entry{control: true})
		}
	}
	key, value, err := columnar.EncodeBarrierCut(cut)
	if err != nil {
		return columnar.BarrierCut{}, fmt.Errorf("krabkatest: cut of group %q at epoch %d: %w", group, epoch, err)
	}
	tell := func() {
		b.topics[columnar.BarrierStateTopic][0].append(entry{record: columnar.ConsumedRecord{Key: key, Value: value, Timestamp: now}})
	}
	if settings.delay > 0 {
		b.schedule(settings.delay, tell)
	} else {
		tell()
	}
	b.change()
	return cut, nil
}

// DeleteBarrierGroup writes the end of a barrier group to [columnar.BarrierStateTopic]:
// its cuts are gone, and the epochs of a group of the same name begin anew.
func (b *Broker) DeleteBarrierGroup(group string) {
	b.CreateTopic(columnar.BarrierStateTopic, 1)
	b.mustProduce(columnar.ProduceRecord{Key: barrierKey(barrierKindGroup, group, -1)})
}

// The kinds of the keys of barrier records that a broker writes here.
const (
	barrierKindGroup = 0
	barrierKindStart = 1
)

// barrierKey is the key of a record of the barrier state topic: version, kind, group
// and epoch.
func barrierKey(kind byte, group string, epoch int64) []byte {
	key := []byte{0, 0, 0, kind, byte(len(group) >> 8), byte(len(group))}
	key = append(key, group...)
	for shift := 56; shift >= 0; shift -= 8 {
		key = append(key, byte(epoch>>shift))
	}
	return key
}

// consumed is a record as a log holds it, with copies of its bytes.
func consumed(record columnar.ProduceRecord) columnar.ConsumedRecord {
	timestamp := record.Timestamp
	if timestamp < 0 {
		timestamp = time.Now().UnixMilli()
	}
	return columnar.ConsumedRecord{
		Key: bytes.Clone(record.Key), Value: bytes.Clone(record.Value), Timestamp: timestamp, Headers: cloneHeaders(record.Headers),
	}
}

func cloneConsumed(record columnar.ConsumedRecord) columnar.ConsumedRecord {
	record.Key, record.Value = bytes.Clone(record.Key), bytes.Clone(record.Value)
	record.Headers = cloneHeaders(slices.Clone(record.Headers))
	return record
}
