// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// topicProgress is the position of one topic partition, and the records that lie
// between its processed and its delivered offset.
//
// Records wait in the queue from their delivery until a round that processed
// them has committed. A round takes a prefix of the queue and gives it back by
// not dropping it, so a failed round leaves nothing to repair here.
type topicProgress struct {
	TopicPartition
	position

	// inherited says that the state may contain records of the topic although
	// nobody can tell up to which offset.
	inherited bool

	queue        []ConsumedRecord // delivered and not processed, by ascending offset
	counted      int              // the first records of queue that countedBytes measures
	countedBytes int64

	// sought says that the consumer was moved and has not polled since: the
	// position that it reports may still be the old one.
	sought bool
	// misplaced says that the consumer has to be sought before anything that it
	// delivers counts.
	misplaced bool
	paused    bool // in the consumer
}

func (p *topicProgress) clear() {
	p.queue, p.counted, p.countedBytes = nil, 0, 0
}

// discover takes the first offset that is known of a topic partition from the
// consumer.
func (p *topicProgress) discover(offset int64) {
	if p.inherited {
		p.stand(offset)
	} else {
		p.begin(offset)
	}
}

// checkFetched fails for records that a consumer cannot have fetched in one piece
// from a partition: those of another one, and offsets that do not ascend.
func checkFetched(tp TopicPartition, records []ConsumedRecord) error {
	last := int64(-1)
	for i := range records {
		record := &records[i]
		if record.Partition != tp.Partition {
			return fmt.Errorf("columnar: the consumer delivered a record of partition %d as one of %s/%d", record.Partition, tp.Topic, tp.Partition)
		}
		if record.Offset <= last {
			return fmt.Errorf("columnar: the consumer delivered offset %d of %s/%d behind offset %d", record.Offset, tp.Topic, tp.Partition, last)
		}
		last = record.Offset
	}
	return nil
}

// take appends what was delivered. Records that were delivered before are
// dropped.
func (p *topicProgress) take(records []ConsumedRecord) {
	if p.known {
		first, _ := slices.BinarySearchFunc(records, p.delivered, compareOffset)
		records = records[first:]
	}
	if len(records) == 0 {
		return
	}
	if !p.known {
		p.discover(records[0].Offset)
	}
	p.delivered = records[len(records)-1].Offset + 1
	if len(p.queue) == 0 {
		p.queue = slices.Clip(records)
	} else {
		p.queue = append(p.queue, records...)
	}
}

func compareOffset(record ConsumedRecord, offset int64) int {
	return cmp.Compare(record.Offset, offset)
}

// queueBytes measures the queue. Only records that outlive a round are ever
// measured, each once.
func (p *topicProgress) queueBytes() int64 {
	for ; p.counted < len(p.queue); p.counted++ {
		p.countedBytes += recordBytes(&p.queue[p.counted])
	}
	return p.countedBytes
}

// observe takes a position that the consumer reports: offsets below it that were
// not delivered hold no record.
func (p *topicProgress) observe(offset int64) {
	if p.sought {
		return
	}
	if !p.known {
		p.discover(offset)
	}
	p.delivered = max(p.delivered, offset)
}

// below returns the queued records with an offset below limit.
func (p *topicProgress) below(limit int64) []ConsumedRecord {
	end, _ := slices.BinarySearchFunc(p.queue, limit, compareOffset)
	return p.queue[:end:end]
}

// reach returns the offset of the first record that is left when the first n
// queued ones have been processed, or where the consumer stands if none is left.
func (p *topicProgress) reach(n int) int64 {
	if n < len(p.queue) {
		return p.queue[n].Offset
	}
	return p.delivered
}

// behind returns the offset behind the first n queued records.
func (p *topicProgress) behind(n int) int64 {
	if n == 0 {
		return p.processed
	}
	return p.queue[n-1].Offset + 1
}

// next returns the offset to commit when the first n queued records have been
// processed: where the consumer stands if nothing is left, since there may be
// offsets behind the last record that never hold one.
func (p *topicProgress) next(n int) int64 {
	if n == len(p.queue) {
		return p.delivered
	}
	return p.behind(n)
}

// advance drops n processed records. offset is at least behind the last of them.
func (p *topicProgress) advance(n int, offset int64) {
	for i := range p.queue[:min(n, p.counted)] {
		p.countedBytes -= recordBytes(&p.queue[i])
	}
	p.counted = max(0, p.counted-n)
	last := int64(-1)
	if n > 0 {
		last = p.queue[n-1].Offset
	}
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.clear()
	}
	p.processedTo(offset, last)
}

// recordOverhead is what a record costs in memory beside its bytes.
const recordOverhead = 96

func recordBytes(record *ConsumedRecord) int64 {
	size := recordOverhead + len(record.Key) + len(record.Value)
	for i := range record.Headers {
		size += len(record.Headers[i].Key) + len(record.Headers[i].Value)
	}
	return int64(size)
}

// position is how far one topic partition has come: where the state stands, where
// the consumer stands, and what the group has committed.
//
// The three are not the same: a record waits between its delivery and the round
// that processes it, a failed round leaves the delivered offset ahead of the
// processed one, and offsets without a record move the consumer alone.
type position struct {
	// known says whether processed, ceiling and delivered are.
	known bool
	// processed is where the state stands: behind the last record that a committed
	// round processed, or at the last barrier. The first uncommitted record has
	// this offset or a later one.
	processed int64
	// ceiling is above the offset of every record in the state. It equals processed
	// where nobody can tell whether the offsets right below held records.
	ceiling int64
	// delivered is where the consumer stands: behind the last record that it
	// handed out, and behind the offsets without a record that follow.
	delivered int64

	// committed is the group's committed offset, if hasCommitted.
	committed    int64
	hasCommitted bool
}

// stand says that the state stands at offset, which is also the next one to be
// delivered: any offset below it may be that of a record in the state.
func (p *position) stand(offset int64) {
	p.known, p.processed, p.ceiling, p.delivered = true, offset, offset, offset
}

// begin says that delivery begins at offset and that the state has no record of
// the topic partition.
func (p *position) begin(offset int64) {
	p.stand(offset)
	p.ceiling = 0
}

// processedTo moves the state to offset. last is the offset of the last record
// that it takes in; -1 where it takes in none.
func (p *position) processedTo(offset, last int64) {
	p.ceiling = max(p.ceiling, last+1)
	p.processed = max(p.processed, offset)
	p.delivered = max(p.delivered, p.processed)
}

// commit notes what the group has committed.
func (p *position) commit(offset int64) { p.committed, p.hasCommitted = offset, true }

// contains reports whether the state may contain a record at offset or behind it.
func (p *position) contains(offset int64) bool { return p.known && p.ceiling > offset }

// uncommitted reports whether offset is above the committed one.
func (p *position) uncommitted(offset int64) bool { return !p.hasCommitted || offset > p.committed }

// idle reports whether everything that was delivered has been processed.
func (p *position) idle() bool { return p.delivered == p.processed }

// stored is the offset that a snapshot of the committed state stands for: the
// group's where it has committed, and the processed one elsewhere.
func (p *position) stored() int64 {
	if p.hasCommitted {
		return min(p.committed, p.processed)
	}
	return p.processed
}

// idleClock tells how long a partition has been without records.
type idleClock struct {
	since time.Time // when the latest record came, or a poll first found none
	// from is the stream time behind the latest record, if it is known.
	from  int64
	known bool
	// latest is the latest timestamp of a record, if one has come.
	latest int64
	come   bool
	tried  time.Time // when the latest advance was begun
}

// touch notes that records have come.
func (c *idleClock) touch(records []ConsumedRecord) {
	c.since, c.known = time.Now(), false
	for i := range records {
		if timestamp := records[i].Timestamp; !c.come || timestamp > c.latest {
			c.latest, c.come = timestamp, true
		}
	}
}
