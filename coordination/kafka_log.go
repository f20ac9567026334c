// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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
		log = &partitionLog{turn: make(chan struct{}, 1), end: -1, stuck: -1}
		l.logs[at] = log
	}
	return log
}

// partitionLog is what was read of one partition: every record, or at least
// the newest of each key.
type partitionLog struct {
	fetches atomic.Int64 // that have begun

	turn chan struct{} // full while somebody reads; the reader owns the fields below

	topic    [16]byte
	epoch    int32
	end      int64 // an offset that the high watermark of the leader reaches, or -1
	position int64
	records  []StateRecord
	live     int // the records that the last compaction left

	hidden hiddenRecords
	newest view
	began  time.Time // when the last fetch did
	met    time.Time // when a reader last had to wait for its turn

	// stuck is the stable offset at which an open transaction was met, or -1,
	// and grace is when waiting for it ends.
	stuck int64
	grace time.Time
}

// view is what a fetch showed of a partition.
type view struct {
	records  []StateRecord // shared; nobody changes them
	hidden   []StateRecord // committed and not below the stable offset; shared too
	complete bool
	fetch    int64 // its number
}

const (
	// readSpacing is how far apart the fetches of a partition begin that many
	// members read at once.
	readSpacing = 20 * time.Millisecond

	// crowdMemory is how long a partition counts as read by many after two
	// readers met.
	crowdMemory = time.Second
)

// take waits for the turn to read and returns the function that passes it on.
func (p *partitionLog) take(ctx context.Context) (pass func(), err error) {
	pass = func() { <-p.turn }
	select {
	case p.turn <- struct{}{}:
		return pass, nil
	default:
	}
	select {
	case p.turn <- struct{}{}:
		p.met = time.Now()
		return pass, nil
	case <-ctx.Done():
		return nil, ended(ctx, nil)
	}
}

// spacing returns how long the next fetch has to wait, so that others can share
// it.
func (p *partitionLog) spacing(now time.Time) time.Duration {
	if now.Sub(p.met) > crowdMemory {
		return 0
	}
	return readSpacing - now.Sub(p.began)
}

// begin returns the number of a fetch that is about to begin.
func (p *partitionLog) begin(now time.Time) int64 {
	p.began = now
	return p.fetches.Add(1)
}

// until returns when the wait for what a fetch left out of sight ends. A
// transaction that was met before is given no more time than it was then.
func (p *partitionLog) until(part fetched, grace time.Time) time.Time {
	switch {
	case part.stable >= part.high:
		p.stuck = -1
		return time.Time{}
	case p.stuck != part.stable:
		p.stuck, p.grace = part.stable, grace
	}
	return p.grace
}

// follow tells the log which topic it is of and who leads the partition. After
// a change it reads everything anew, and follow reports that: another topic of
// the same name has another history, and so may another leader.
func (p *partitionLog) follow(topic [16]byte, epoch int32) bool {
	if p.topic == topic && p.epoch == epoch {
		return false
	}
	p.topic, p.epoch, p.end = topic, epoch, -1
	p.reset(0)
	return true
}

// reset forgets everything; reading goes on from position.
func (p *partitionLog) reset(position int64) {
	p.position, p.records, p.live, p.stuck = position, nil, 0, -1
	p.hidden = hiddenRecords{}
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
