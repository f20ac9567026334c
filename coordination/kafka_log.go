// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compactSlack is how many records a log keeps beyond twice its keys before it
// drops those that newer ones replaced.
const compactSlack = 64

// kafkaLogs are the partitions that a transport has read.
type kafkaLogs struct {
	mu   sync.Mutex // guards the field below
	logs map[TopicPartition]*partitionLog
}

// of returns the log of a partition.
func (l *kafkaLogs) of(at TopicPartition) *partitionLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[at]
	if log == nil {
		log = &partitionLog{turn: make(chan struct{}, 1)}
		if l.logs == nil {
			l.logs = make(map[TopicPartition]*partitionLog)
		}
		l.logs[at] = log
	}
	return log
}

// partitionLog is what was read of one partition: every record, or at least
// the newest of each key.
type partitionLog struct {
	turn chan struct{} // full while somebody reads; the reader owns the fields below

	topic    [16]byte
	epoch    int32
	position int64
	records  []StateRecord
	live     int // the records that the last compaction left
}

// take waits for the turn to read and returns the function that passes it on.
func (p *partitionLog) take(ctx context.Context) (pass func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, ended(ctx, nil)
	}
}

// follow tells the log which topic it is of and who leads the partition. After
// a change it reads everything anew, and follow reports that: another topic of
// the same name has another history, and so may another leader.
func (p *partitionLog) follow(topic [16]byte, epoch int32) bool {
	if p.topic == topic && p.epoch == epoch {
		return false
	}
	p.topic, p.epoch = topic, epoch
	p.reset(0)
	return true
}

// reset forgets everything; reading goes on from position.
func (p *partitionLog) reset(position int64) {
	p.position, p.records, p.live = position, nil, 0
}

// add appends a record.
func (p *partitionLog) add(record *kgo.Record) {
	p.records = append(p.records, StateRecord{Offset: record.Offset, Key: record.Key, Value: record.Value})
	if len(p.records) > 2*p.live+compactSlack {
		p.compact()
	}
}

// compact keeps the newest record of each key, and none for a key whose newest
// one is a tombstone.
func (p *partitionLog) compact() {
	newest := make(map[string]int64, len(p.records))
	for _, record := range p.records {
		newest[string(record.Key)] = record.Offset
	}
	kept := make([]StateRecord, 0, len(newest))
	for _, record := range p.records {
		if newest[string(record.Key)] == record.Offset && !IsTombstone(record.Value) {
			kept = append(kept, record)
		}
	}
	p.records, p.live = cloneRecords(kept), len(kept)
}

// snapshot returns a copy of the records.
func (p *partitionLog) snapshot() []StateRecord { return cloneRecords(p.records) }

// cloneRecords copies records into memory of their own. Nil stays nil.
func cloneRecords(records []StateRecord) []StateRecord {
	size := 0
	for _, record := range records {
		size += len(record.Key) + len(record.Value)
	}
	memory := make([]byte, 0, size)
	clone := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(memory)
		memory = append(memory, b...)
		return memory[start:len(memory):len(memory)]
	}
	clones := make([]StateRecord, len(records))
	for i, record := range records {
		clones[i] = StateRecord{Offset: record.Offset, Key: clone(record.Key), Value: clone(record.Value)}
	}
	return clones
}
