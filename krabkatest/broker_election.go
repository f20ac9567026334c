// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/coordination"
)

var errNeverMinted = errors.New("the transport did not mint the token")

// ElectionTransport is the connection of one process to the epochs and the
// coordination topic of a [Broker]: a [coordination.TermTransport]. Roles are
// transactional ids, so whoever takes the id of a role, deposes the leader. Create one
// for each process. It is safe for concurrent use by multiple goroutines.
type ElectionTransport struct {
	client
	terms map[coordination.Role]*term // guarded by the mutex of the broker
}

var _ coordination.TermTransport = (*ElectionTransport)(nil)

// term is the latest epoch that a transport has minted of a role.
type term struct {
	token      coordination.FencingToken
	superseded chan struct{}
	over       bool
}

// NewElectionTransport returns the transport of a process, which may be nil.
func (b *Broker) NewElectionTransport(process *Process) *ElectionTransport {
	b.lock()
	defer b.unlock()
	b.clients++
	return &ElectionTransport{
		client: client{broker: b, name: fmt.Sprintf("election %d", b.clients), process: process},
		terms:  map[coordination.Role]*term{},
	}
}

// Depose takes the epoch of a role as somebody does who never writes a lease: the
// leader is fenced.
func (b *Broker) Depose(role coordination.Role) {
	b.lock()
	defer b.unlock()
	b.initProducer(role.String())
}

// AcquireEpoch mints the next epoch of a role.
func (t *ElectionTransport) AcquireEpoch(ctx context.Context, role coordination.Role) (coordination.FencingToken, error) {
	return t.AcquireEpochWhile(ctx, role, func(context.Context) error { return nil })
}

// AcquireEpochWhile is [ElectionTransport.AcquireEpoch] where still returns nil.
func (t *ElectionTransport) AcquireEpochWhile(ctx context.Context, role coordination.Role, still func(context.Context) error) (coordination.FencingToken, error) {
	if err := still(ctx); err != nil {
		return coordination.NoEpoch, err
	}
	token := coordination.NoEpoch
	err := t.call("AcquireEpoch", func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := t.broker.initProducer(role.String())
		if token, err = coordination.NewFencingToken(p.producerID, p.epoch); err != nil {
			return err
		}
		t.end(role)
		t.terms[role] = &term{token: token, superseded: make(chan struct{})}
		return nil
	})
	if err != nil {
		return coordination.NoEpoch, err
	}
	return token, nil
}

// end ends the term of a role. The caller holds the mutex of the broker.
func (t *ElectionTransport) end(role coordination.Role) {
	if now := t.terms[role]; now != nil && !now.over {
		now.over = true
		close(now.superseded)
	}
}

// DescribeEpoch returns the newest epoch of a role, whoever minted it.
func (t *ElectionTransport) DescribeEpoch(ctx context.Context, role coordination.Role) (token coordination.FencingToken, known bool, err error) {
	token = coordination.NoEpoch
	err = t.read("DescribeEpoch", func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := t.broker.producers[role.String()]
		if known = p != nil; known {
			token, err = coordination.NewFencingToken(p.producerID, p.epoch)
		}
		return err
	})
	return token, known, err
}

// ReadPartition returns the committed records of a partition of the coordination
// topic.
func (t *ElectionTransport) ReadPartition(ctx context.Context, partition coordination.TopicPartition) (records []coordination.StateRecord, err error) {
	err = t.read("ReadPartition", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		log := t.log(partition.Topic, partition.Partition)
		for offset := log.start; offset < log.stable(); offset++ {
			if e := log.entries[offset]; e.visible() {
				records = append(records, coordination.StateRecord{Offset: offset, Key: bytes.Clone(e.record.Key), Value: bytes.Clone(e.record.Value)})
			}
		}
		return nil
	})
	return records, err
}

// log returns the log of a partition, which it creates where it is missing. The caller
// holds the mutex of the broker.
func (t *ElectionTransport) log(topic string, partition int) *partitionLog {
	for len(t.broker.topics[topic]) <= partition {
		t.broker.topics[topic] = append(t.broker.topics[topic], &partitionLog{open: map[*transaction]int64{}})
	}
	return t.broker.topics[topic][partition]
}

// Append appends a record outside transactions.
func (t *ElectionTransport) Append(ctx context.Context, partition coordination.TopicPartition, key, value []byte) error {
	return t.call("Append", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.log(partition.Topic, partition.Partition).append(entry{record: lease(key, value)})
		t.broker.change()
		return nil
	})
}

// WriteLease writes a record in a transaction of the producer that minted the token.
func (t *ElectionTransport) WriteLease(ctx context.Context, partition coordination.TopicPartition, token coordination.FencingToken, key, value []byte) error {
	_, err := t.WriteLeaseAt(ctx, partition, token, key, value)
	return err
}

// WriteLeaseAt is [ElectionTransport.WriteLease] and returns the offset.
func (t *ElectionTransport) WriteLeaseAt(ctx context.Context, partition coordination.TopicPartition, token coordination.FencingToken, key, value []byte) (int64, error) {
	decoded, err := coordination.DecodeKey(key)
	if err != nil {
		return -1, err
	}
	offset := int64(-1)
	err = t.call("WriteLease", func() error {
		return t.write(ctx, decoded.Role, token, func(open *transaction) error {
			offset = open.write(t.log(partition.Topic, partition.Partition), lease(key, value))
			return nil
		})
	})
	return offset, err
}

// WriteRecords writes records in one transaction of the producer that minted the
// token. A topic that does not exist is a [*columnar.TopicError].
func (t *ElectionTransport) WriteRecords(ctx context.Context, role coordination.Role, token coordination.FencingToken, records []coordination.GuardedRecord) error {
	err := t.call("WriteRecords", func() error {
		logs := make([]*partitionLog, len(records))
		for i, record := range records {
			var err error
			if logs[i], err = t.broker.log(columnar.TopicPartition{Topic: record.Topic, Partition: record.Partition}); err != nil {
				return err
			}
		}
		return t.write(ctx, role, token, func(open *transaction) error {
			for i, record := range records {
				written := columnar.ProduceRecord{Key: record.Key, Value: record.Value, Timestamp: -1}
				for _, header := range record.Headers {
					written.Headers = append(written.Headers, columnar.RecordHeader(header))
				}
				if !record.Timestamp.IsZero() {
					written.Timestamp = record.Timestamp.UnixMilli()
				}
				open.write(logs[i], consumed(written))
			}
			return nil
		})
	})
	if fault := new(FaultError); errors.As(err, &fault) && fault.Call.Answer {
		return fmt.Errorf("%w: %w", coordination.ErrOutcomeUnknown, err)
	}
	return err
}

// write runs a transaction under a token. The caller holds the mutex of the broker.
func (t *ElectionTransport) write(ctx context.Context, role coordination.Role, token coordination.FencingToken, records func(*transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, now := t.broker.producers[role.String()], t.terms[role]
	switch {
	case p == nil || now == nil || token.Supersedes(now.token):
		return fmt.Errorf("krabkatest: write under token %s of role %s: %w", token, role, errNeverMinted)
	case now.token != token:
		return fmt.Errorf("krabkatest: write under token %s of role %s: %w", token, role, coordination.ErrFenced)
	case p.producerID != token.ProducerID() || p.epoch != token.ProducerEpoch():
		t.end(role)
		return fmt.Errorf("krabkatest: write under token %s of role %s: %w", token, role, coordination.ErrFenced)
	}
	open := t.broker.begin(p)
	if err := records(open); err != nil {
		return err
	}
	open.ending, open.committed = true, true
	t.broker.finish(open)
	return nil
}

// CurrentToken returns the minted token while it is the newest that the transport
// knows of.
func (t *ElectionTransport) CurrentToken(role coordination.Role, minted coordination.FencingToken) (coordination.FencingToken, bool) {
	t.broker.lock()
	defer t.broker.unlock()
	if now := t.terms[role]; now != nil && now.token == minted && !now.over {
		return minted, true
	}
	return coordination.NoEpoch, false
}

// Superseded returns a channel that is closed when the transport learns that the
// minted token is not the newest.
func (t *ElectionTransport) Superseded(role coordination.Role, minted coordination.FencingToken) <-chan struct{} {
	t.broker.lock()
	defer t.broker.unlock()
	if now := t.terms[role]; now != nil && now.token == minted {
		return now.superseded
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Release forgets a term.
func (t *ElectionTransport) Release(role coordination.Role, minted coordination.FencingToken) {
	t.broker.lock()
	defer t.broker.unlock()
	if now := t.terms[role]; now != nil && now.token == minted {
		t.end(role)
	}
}

// Lease returns nothing: the calls over the transport bring the lease policy.
func (t *ElectionTransport) Lease() coordination.LeaseConfig { return coordination.LeaseConfig{} }

// lease is a record of the coordination topic. An empty value is null.
func lease(key, value []byte) columnar.ConsumedRecord {
	record := consumed(columnar.ProduceRecord{Key: key, Value: value, Timestamp: -1})
	if len(value) == 0 {
		record.Value = nil
	}
	return record
}
