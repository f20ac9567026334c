// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// topicProgress is how far one topic partition has come.
//
// Records wait in the queue from their delivery until a round that processed
// them has committed. A round takes a prefix of the queue and gives it back by
// not dropping it, so a failed round leaves nothing to repair here.
type topicProgress struct {
	TopicPartition

	// known says whether processed and delivered are.
	known bool
	// processed is where the state stands: behind the last record that a committed
	// round processed, or at the last barrier. The first uncommitted record has
	// this offset or a later one.
	processed int64
	// last is the offset of the last record in the state, -1 where it is not known.
	last int64
	// delivered is where the consumer stands: behind the last record that it
	// handed out, and behind what holds no records after it.
	delivered int64

	queue        []ConsumedRecord // delivered and not processed, by ascending offset
	counted      int              // the first records of queue that countedBytes measures
	countedBytes int64

	// committed is the group's committed offset, if hasCommitted.
	committed    int64
	hasCommitted bool

	// sought says that the consumer was moved and has not polled since: the
	// position that it reports may still be the old one.
	sought bool
	// misplaced says that the consumer has to be sought to processed before
	// anything it delivers counts.
	misplaced bool
	paused    bool
}

// place makes offset the next to be processed and to be delivered.
func (p *topicProgress) place(offset int64) {
	p.known, p.processed, p.delivered, p.last = true, offset, offset, -1
	p.clear()
}

func (p *topicProgress) clear() {
	p.queue, p.counted, p.countedBytes = nil, 0, 0
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
		first, _ := slices.BinarySearchFunc(records, p.delivered, func(r ConsumedRecord, offset int64) int {
			return cmp.Compare(r.Offset, offset)
		})
		records = records[first:]
	}
	if len(records) == 0 {
		return
	}
	if !p.known {
		p.place(records[0].Offset)
	}
	p.delivered = records[len(records)-1].Offset + 1
	if len(p.queue) == 0 {
		p.queue = slices.Clip(records)
	} else {
		p.queue = append(p.queue, records...)
	}
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
func (p *topicProgress) observe(position int64) {
	if p.sought {
		return
	}
	if !p.known {
		p.place(position)
	}
	p.delivered = max(p.delivered, position)
}

// below returns the queued records with an offset below limit.
func (p *topicProgress) below(limit int64) []ConsumedRecord {
	end, _ := slices.BinarySearchFunc(p.queue, limit, func(r ConsumedRecord, offset int64) int {
		return cmp.Compare(r.Offset, offset)
	})
	return p.queue[:end:end]
}

// reach returns up to where everything has been processed when the first n
// queued records have: the first record that is left, or where the consumer
// stands.
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

// advance drops n processed records. position is at least behind the last of
// them.
func (p *topicProgress) advance(n int, position int64) {
	for i := range p.queue[:min(n, p.counted)] {
		p.countedBytes -= recordBytes(&p.queue[i])
	}
	p.counted = max(0, p.counted-n)
	if n > 0 {
		p.last = p.queue[n-1].Offset
	}
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.clear()
	}
	p.processed = max(p.processed, position)
	p.delivered = max(p.delivered, p.processed)
}

func (p *topicProgress) commit(offset int64) {
	p.committed, p.hasCommitted = offset, true
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

// logicalPartition is what the runner knows of one partition number.
type logicalPartition struct {
	number int
	topics map[string]*topicProgress
	// departed are the positions of topics that have left the member, one after the
	// other, while their records are part of the state.
	departed map[TopicPartition]int64

	// owned says that the group has given the partition to this member. Before
	// the first assignment of all, partitions are used without being owned.
	owned bool

	// recovery is what is left to do before records can be processed; nil when
	// the state stands.
	recovery *recovery
	// replay is history that is being repeated; nil when the partition is live.
	replay *replay

	generation int64        // of the claim in the store; 0 for none
	snapshot   SnapshotInfo // the newest that state goes back to; sequence 0 for none
	dirty      bool         // the state has changed since that snapshot
	lastClosed int64        // epoch of the last barrier, or of the last cut passed over

	round        int64     // number of the next journal round
	journalStale bool      // the journal may hold a round of that number
	lastSnapshot time.Time // when the last snapshot was taken or tried

	idle idleClock
}

// ready reports whether the partition has its state.
func (p *logicalPartition) ready() bool { return p.recovery == nil }

// live reports whether what the partition processes is new.
func (p *logicalPartition) live() bool { return p.recovery == nil && p.replay == nil }

func (p *logicalPartition) topic(topic string) *topicProgress {
	progress := p.topics[topic]
	if progress == nil {
		progress = &topicProgress{TopicPartition: TopicPartition{topic, p.number}}
		p.topics[topic] = progress
	}
	return progress
}

// inOrder returns the topics' progress by ascending topic.
func (p *logicalPartition) inOrder() []*topicProgress {
	ordered := make([]*topicProgress, 0, len(p.topics))
	for _, topic := range slices.Sorted(maps.Keys(p.topics)) {
		ordered = append(ordered, p.topics[topic])
	}
	return ordered
}

func (p *logicalPartition) partitions() []TopicPartition {
	partitions := make([]TopicPartition, 0, len(p.topics))
	for _, progress := range p.inOrder() {
		partitions = append(partitions, progress.TopicPartition)
	}
	return partitions
}

// positions returns the offsets that the committed state stands for: those of
// the group where it has committed, and what was processed elsewhere.
func (p *logicalPartition) positions() map[TopicPartition]int64 {
	positions := make(map[TopicPartition]int64, len(p.topics)+len(p.departed))
	maps.Copy(positions, p.departed)
	for _, progress := range p.topics {
		switch {
		case progress.hasCommitted && progress.known:
			positions[progress.TopicPartition] = min(progress.committed, progress.processed)
		case progress.known:
			positions[progress.TopicPartition] = progress.processed
		}
	}
	return positions
}
