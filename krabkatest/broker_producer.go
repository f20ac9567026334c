// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

var (
	errNewerEpoch = errors.New("PRODUCER_FENCED: another producer has taken the transactional id")
	errNotBegun   = errors.New("no transaction is open")
	errDisturbed  = errors.New("partitions left the member while the transaction was open")
	errSendFailed = errors.New("a record of the transaction was not sent")
)

// producer sends records, outside transactions unless it is given one.
type producer struct {
	client *client
	sent   int // records without a key; guarded by the mutex of the broker
}

// Send appends a record to a partition of topic, one and the same for all records of
// a key, and calls done on another goroutine. A topic that does not exist is a
// [*columnar.TopicError].
func (p *producer) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	p.send(topic, record, nil, done)
}

func (p *producer) send(topic string, record columnar.ProduceRecord, open func() (*transaction, error), done func(error)) {
	err := p.client.call("Send", func() error {
		var (
			t   *transaction
			err error
		)
		if open != nil {
			if t, err = open(); err != nil {
				return err
			}
		}
		logs := p.client.broker.topics[topic]
		if len(logs) == 0 {
			return &columnar.TopicError{Topic: topic, Partition: -1, Cause: errNoPartition}
		}
		log := logs[p.partition(record.Key, len(logs))]
		if t == nil {
			log.append(entry{record: consumed(record)})
		} else {
			t.write(log, consumed(record))
		}
		p.client.broker.change()
		return nil
	})
	go done(err)
}

// partition returns the partition of a key. Records without one go to each in turn.
func (p *producer) partition(key []byte, partitions int) int {
	if key == nil {
		p.sent++
		return p.sent % partitions
	}
	hash := fnv.New32a()
	hash.Write(key)
	return int(hash.Sum32() % uint32(partitions))
}

// Producer is a [columnar.Producer] without a group. It is safe for concurrent use by
// multiple goroutines.
type Producer struct {
	producer
	own client
}

// NewProducer returns a producer. process may be nil.
func (b *Broker) NewProducer(process *Process) *Producer {
	b.lock()
	defer b.unlock()
	b.clients++
	p := &Producer{own: client{broker: b, name: fmt.Sprintf("producer %d", b.clients), process: process}}
	p.client = &p.own
	return p
}

// TransactionalMember is a member of a consumer group that produces in transactions:
// the consumer and the producer of a runner that processes each record exactly once.
// Its methods may be called concurrently, apart from those of a transaction, which
// belong to one goroutine at a time.
type TransactionalMember struct {
	*groupConsumer
	records producer
	id      string

	// The mutex of the broker guards what follows.
	coordinator *transactionalProducer
	epoch       int16
	open        *transaction
	begun       bool
	doomed      error // why the open transaction can only be aborted
	unknown     bool  // it is not known how the transaction before ended
}

// NewTransactionalMember returns a member of group that has not joined it yet. When it
// does, it takes the transactional id, and whoever had it is fenced.
func (b *Broker) NewTransactionalMember(group, transactionalID string, options ...MemberOption) *TransactionalMember {
	b.lock()
	defer b.unlock()
	m := &TransactionalMember{groupConsumer: b.newGroupConsumer(transactionalID, group, options), id: transactionalID}
	m.records.client = &m.consumer.client
	m.prepare = func() {
		m.coordinator = b.initProducer(transactionalID)
		m.epoch = m.coordinator.epoch
	}
	m.disturbed = func() {
		if m.open != nil {
			m.doomed = errDisturbed
		}
	}
	return m
}

// owns returns an error unless the member is the newest owner of its transactional
// id.
func (m *TransactionalMember) owns() error {
	switch {
	case m.coordinator == nil:
		return fmt.Errorf("krabkatest: transaction of %s: %w", m.name, errNotSubscribed)
	case m.epoch != m.coordinator.epoch:
		return &columnar.FencedError{ID: m.id, Cause: errNewerEpoch}
	}
	return nil
}

// BeginTransaction starts a transaction. The broker hears of it with the first record
// or offset.
func (m *TransactionalMember) BeginTransaction() error {
	return m.read("BeginTransaction", func() error {
		if err := m.owns(); err != nil {
			return err
		}
		if m.begun || m.unknown {
			return fmt.Errorf("krabkatest: begin a transaction of %s: one is open already", m.name)
		}
		m.begun, m.open, m.doomed = true, nil, nil
		return nil
	})
}

// ensure returns the open transaction, of which the broker hears now if it has not
// yet.
func (m *TransactionalMember) ensure() (*transaction, error) {
	if err := m.owns(); err != nil {
		return nil, err
	}
	if !m.begun {
		return nil, fmt.Errorf("krabkatest: %s: %w", m.name, errNotBegun)
	}
	if m.open == nil {
		m.open = m.broker.begin(m.coordinator)
	}
	return m.open, nil
}

// Send appends a record to the open transaction and calls done on another goroutine.
// A record that fails makes the commit abort.
func (m *TransactionalMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	m.records.send(topic, record, m.ensure, func(err error) {
		if err != nil {
			m.broker.lock()
			if m.begun && m.doomed == nil {
				m.doomed = errSendFailed
			}
			m.broker.unlock()
		}
		done(err)
	})
}

// SendOffsets adds consumed offsets to the open transaction.
func (m *TransactionalMember) SendOffsets(offsets map[columnar.TopicPartition]int64, metadata any) error {
	return m.SendOffsetsNoted(context.Background(), offsets, nil, metadata)
}

// SendOffsetsContext is [TransactionalMember.SendOffsets], bounded by ctx.
func (m *TransactionalMember) SendOffsetsContext(ctx context.Context, offsets map[columnar.TopicPartition]int64, metadata any) error {
	return m.SendOffsetsNoted(ctx, offsets, nil, metadata)
}

// SendOffsetsNoted is [TransactionalMember.SendOffsets] with notes beside some of the
// offsets.
func (m *TransactionalMember) SendOffsetsNoted(ctx context.Context, offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, metadata any) error {
	return m.call("SendOffsets", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		consumed, ok := metadata.(groupMetadata)
		if !ok || consumed.member == nil {
			return fmt.Errorf("krabkatest: offsets of %s: the metadata is a %T, and not what GroupMetadata returned after a Poll", m.name, metadata)
		}
		t, err := m.ensure()
		if err != nil {
			return err
		}
		if err := m.group.accepts(consumed.member, consumed.generation, offsets); err != nil {
			return err
		}
		t.group = m.group
		for tp, offset := range offsets {
			t.offsets[tp] = committedOffset{offset, notes[tp]}
		}
		return nil
	})
}

// CommittedNotes returns the notes beside the committed offsets of the group. It
// waits, within ctx, for transactions that move them.
func (m *TransactionalMember) CommittedNotes(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]string, error) {
	committed, err := m.stable(ctx, "CommittedNotes", partitions)
	maps.DeleteFunc(committed, func(_ columnar.TopicPartition, at committedOffset) bool { return at.note == "" })
	notes := make(map[columnar.TopicPartition]string, len(committed))
	for tp, at := range committed {
		notes[tp] = at.note
	}
	return notes, err
}

// CommitTransaction commits the open transaction.
func (m *TransactionalMember) CommitTransaction() error {
	return m.CommitTransactionContext(context.Background())
}

// CommitTransactionContext is [TransactionalMember.CommitTransaction], bounded by ctx.
func (m *TransactionalMember) CommitTransactionContext(ctx context.Context) error {
	err := m.call("CommitTransaction", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return m.commit()
	})
	if err == nil || saysOutcome(err) {
		return err
	}
	m.broker.lock()
	m.unknown = true
	m.broker.unlock()
	return &columnar.CommitUnknownError{TransactionalID: m.id, Cause: err}
}

// saysOutcome reports whether an error of a commit says that nothing took effect.
func saysOutcome(err error) bool {
	return errors.As(err, new(*columnar.TransactionAbortedError)) || errors.As(err, new(*columnar.FencedError)) ||
		errors.As(err, new(*columnar.CommitUnknownError)) || errors.As(err, new(*columnar.RebalancedError))
}

func (m *TransactionalMember) commit() error {
	if err := m.owns(); err != nil {
		return err
	}
	if !m.begun {
		return &columnar.TransactionAbortedError{TransactionalID: m.id, Cause: errNotBegun}
	}
	t := m.open
	if t == nil {
		cause := m.doomed
		if m.begun = false; cause != nil {
			return &columnar.TransactionAbortedError{TransactionalID: m.id, Cause: cause}
		}
		return nil
	}
	cause := m.doomed
	switch {
	case t.timedOut:
		cause = errTimedOut
	case t.crowded && len(t.logs) == 0:
		cause = errMarkers
	case t.group != nil && cause == nil:
		offsets := make(map[columnar.TopicPartition]int64, len(t.offsets))
		for tp, at := range t.offsets {
			offsets[tp] = at.offset
		}
		cause = t.group.accepts(m.membership, m.membership.generation, offsets)
	}
	if cause != nil {
		m.abort()
		return &columnar.TransactionAbortedError{TransactionalID: m.id, Cause: cause}
	}
	m.begun, m.open = false, nil
	m.broker.end(t, true)
	return nil
}

// AbortTransaction aborts the open transaction and takes the positions back to the
// committed offsets. Without an open transaction it does nothing, except after a
// [columnar.CommitUnknownError], when it ends what may be open.
func (m *TransactionalMember) AbortTransaction() error {
	return m.AbortTransactionContext(context.Background())
}

// AbortTransactionContext is [TransactionalMember.AbortTransaction], bounded by ctx.
func (m *TransactionalMember) AbortTransactionContext(ctx context.Context) error {
	return m.call("AbortTransaction", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.owns(); err != nil {
			return err
		}
		if m.begun || m.unknown {
			m.abort()
		}
		return nil
	})
}

func (m *TransactionalMember) abort() {
	if t := m.coordinator.transaction; t != nil {
		m.broker.finish(t) // also one whose commit was on its way
	}
	m.begun, m.open, m.doomed, m.unknown = false, nil, nil, false
	for tp, at := range m.partitions {
		committed, ok := m.group.committed[tp]
		if log, err := m.broker.log(tp); !ok && err == nil {
			committed.offset = log.start
		}
		at.next = committed.offset
	}
}

// Close aborts an open transaction and leaves the group.
func (m *TransactionalMember) Close() error {
	m.broker.lock()
	if !m.process.gone() && !m.closed && m.open != nil && m.owns() == nil {
		m.abort()
	}
	m.broker.unlock()
	return m.groupConsumer.Close()
}
