// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// pollLimit is how many records one poll returns at most, unless BoundPolls says
// otherwise.
const pollLimit = 65536

var errOutOfRange = errors.New("OFFSET_OUT_OF_RANGE")

// position is where a consumer stands in an assigned partition.
type position struct {
	next   int64
	stable int64 // the end that came with the latest records; -1 for none
}

// consumer is what members and readers share. The mutex of the broker guards it.
type consumer struct {
	client
	partitions map[columnar.TopicPartition]*position
	paused     map[columnar.TopicPartition]bool
	resumed    map[columnar.TopicPartition]int // polls that a resumed partition still misses
	limit      int
	woken      bool
	rand       *rand.Rand // nil where nothing is random
}

func newConsumer(b *Broker, name string, process *Process) consumer {
	c := consumer{
		client:     client{broker: b, name: name, process: process},
		partitions: map[columnar.TopicPartition]*position{}, paused: map[columnar.TopicPartition]bool{},
		resumed: map[columnar.TopicPartition]int{}, limit: pollLimit,
	}
	if seed := b.settings.seed; seed != nil {
		// Consumers that poll at once do not change each other's moods.
		c.rand = rand.New(rand.NewPCG(*seed, uint64(b.clients)))
	}
	return c
}

// poll waits for records. rebalance runs before each look.
func (c *consumer) poll(ctx context.Context, timeout time.Duration, rebalance func() error) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.ask("Poll", false); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(timeout)
	for {
		if err := rebalance(); err != nil {
			return nil, err
		}
		var (
			records map[columnar.TopicPartition][]columnar.ConsumedRecord
			partial bool
			wait    <-chan struct{}
			next    = deadline
		)
		err := func() (err error) {
			c.broker.lock()
			defer c.broker.unlock()
			if c.closed {
				return fmt.Errorf("Poll of %s: %w", c.name, ErrClosed)
			}
			records, partial, err = c.fetch()
			wait = c.broker.changed
			if due := c.broker.due(); !due.IsZero() && due.Before(next) {
				next = due
			}
			if c.woken {
				c.woken = false
				deadline = time.Time{}
			}
			return err
		}()
		if len(records) > 0 {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if timeout <= 0 || !now.Before(deadline) {
			return records, nil
		}
		if partial {
			next = now.Add(time.Millisecond)
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-wait:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.process.step(); err != nil {
			return nil, err
		}
	}
}

// fetch takes records. partial says that there may be more than the broker was in the
// mood to give. An error of a partition comes when there are no records.
func (c *consumer) fetch() (records map[columnar.TopicPartition][]columnar.ConsumedRecord, partial bool, err error) {
	b := c.broker
	records = map[columnar.TopicPartition][]columnar.ConsumedRecord{}
	partitions := slices.SortedFunc(maps.Keys(c.partitions), comparePartitions)
	if c.rand != nil {
		c.rand.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
	}
	left := c.limit
	for _, tp := range partitions {
		at := c.partitions[tp]
		if c.paused[tp] {
			continue
		}
		if c.resumed[tp] > 0 {
			c.resumed[tp]--
			partial = true
			continue
		}
		log, failed := b.log(tp)
		if failed != nil {
			err = failed
			continue
		}
		if at.next < log.start || at.next > log.end() {
			err = &columnar.OffsetOutOfRangeError{Partition: tp, Offset: at.next, Start: log.start, End: log.end(), Cause: errOutOfRange}
			continue
		}
		stable, limit := log.stable(), left
		if at.next < stable && c.rand != nil && c.rand.IntN(3) == 0 {
			partial = true
			continue
		}
		if c.rand != nil {
			limit = min(limit, 1+c.rand.IntN(20))
		}
		for at.next < stable && limit > 0 {
			e := log.entries[at.next]
			at.next++
			if !e.visible() {
				continue
			}
			e.record.Partition = tp.Partition
			records[tp] = append(records[tp], cloneConsumed(e.record))
			at.stable = stable
			limit--
			left--
		}
		partial = partial || at.next < stable
	}
	return records, partial, err
}

// Seek makes offset the next to be delivered for an assigned partition.
func (c *consumer) Seek(tp columnar.TopicPartition, offset int64) error {
	return c.read("Seek", func() error {
		at, ok := c.partitions[tp]
		if !ok {
			return fmt.Errorf("krabkatest: seek of %s: %s/%d is not assigned", c.name, tp.Topic, tp.Partition)
		}
		if offset < 0 {
			return fmt.Errorf("krabkatest: seek of %s: offset %d of %s/%d is negative", c.name, offset, tp.Topic, tp.Partition)
		}
		at.next = offset
		return nil
	})
}

// Positions returns the next offset to be delivered of assigned partitions.
func (c *consumer) Positions(_ context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	positions := map[columnar.TopicPartition]int64{}
	err := c.read("Positions", func() error {
		for _, tp := range partitions {
			if at, ok := c.partitions[tp]; ok {
				positions[tp] = at.next
			}
		}
		return nil
	})
	return positions, err
}

// StartOffsets returns the first offset of each partition.
func (c *consumer) StartOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return c.offsets(ctx, "StartOffsets", partitions, func(l *partitionLog) int64 { return l.start })
}

// EndOffsets returns the offset behind the last record of each partition that a
// read-committed consumer may read.
func (c *consumer) EndOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return c.offsets(ctx, "EndOffsets", partitions, (*partitionLog).stable)
}

// LogEndOffsets returns the offset behind the last record of each partition.
func (c *consumer) LogEndOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return c.offsets(ctx, "LogEndOffsets", partitions, (*partitionLog).end)
}

func (c *consumer) offsets(ctx context.Context, method string, partitions []columnar.TopicPartition, of func(*partitionLog) int64) (map[columnar.TopicPartition]int64, error) {
	offsets := map[columnar.TopicPartition]int64{}
	err := c.read(method, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, tp := range partitions {
			log, err := c.broker.log(tp)
			if err != nil {
				return err
			}
			offsets[tp] = of(log)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// PartitionCounts returns the partition count of each topic. A topic that does not
// exist is a [*columnar.TopicError].
func (c *consumer) PartitionCounts(ctx context.Context, topics []string) (map[string]int, error) {
	counts := map[string]int{}
	err := c.read("PartitionCounts", func() error {
		for _, topic := range topics {
			if counts[topic] = len(c.broker.topics[topic]); counts[topic] == 0 {
				return &columnar.TopicError{Topic: topic, Partition: -1, Cause: errNoPartition}
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// StableEnds returns the end that the broker told with the latest records of each
// partition. Partitions without records so far are omitted.
func (c *consumer) StableEnds(partitions []columnar.TopicPartition) map[columnar.TopicPartition]int64 {
	c.broker.lock()
	defer c.broker.unlock()
	ends := map[columnar.TopicPartition]int64{}
	for _, tp := range partitions {
		if at, ok := c.partitions[tp]; ok && at.stable >= 0 {
			ends[tp] = at.stable
		}
	}
	return ends
}

// Pause stops fetching assigned partitions until Resume, or until they leave the
// consumer; see [WithPausesThatOutlive].
func (c *consumer) Pause(partitions []columnar.TopicPartition) {
	c.broker.lock()
	defer c.broker.unlock()
	for _, tp := range partitions {
		if _, ok := c.partitions[tp]; ok {
			c.paused[tp] = true
		}
	}
}

// Resume continues fetching partitions. With [WithSeed] the first records come some
// polls later, behind the fetch that waits at the broker.
func (c *consumer) Resume(partitions []columnar.TopicPartition) {
	c.broker.lock()
	defer c.broker.unlock()
	for _, tp := range partitions {
		if c.paused[tp] && c.rand != nil {
			c.resumed[tp] = c.rand.IntN(4)
		}
		delete(c.paused, tp)
	}
	c.broker.change()
}

// WakePoll makes a Poll that waits return what is there. If none waits, the next one
// does not wait.
func (c *consumer) WakePoll() {
	c.broker.lock()
	defer c.broker.unlock()
	c.woken = true
	c.broker.change()
}

// BoundPolls limits what one Poll returns to this many records. Less than one
// restores the default of 65,536.
func (c *consumer) BoundPolls(records int) {
	c.broker.lock()
	defer c.broker.unlock()
	if records < 1 {
		records = pollLimit
	}
	c.limit = records
}

// Reader is a consumer by assignment, without a group: it commits nothing. It has
// the optional seams of a [columnar.Consumer], so that a [columnar.CutReader] follows
// the cuts with it.
type Reader struct{ consumer }

// NewReader returns a reader without an assignment. process may be nil.
func (b *Broker) NewReader(process *Process) *Reader {
	b.lock()
	defer b.unlock()
	b.clients++
	return &Reader{newConsumer(b, fmt.Sprintf("reader %d", b.clients), process)}
}

// Assign makes partitions the whole assignment, from their first offset on.
// Partitions that were assigned keep their place.
func (r *Reader) Assign(partitions []columnar.TopicPartition) error {
	return r.call("Assign", func() error {
		assigned := map[columnar.TopicPartition]*position{}
		for _, tp := range partitions {
			log, err := r.broker.log(tp)
			if err != nil {
				return err
			}
			if assigned[tp] = r.partitions[tp]; assigned[tp] == nil {
				assigned[tp] = &position{next: log.start, stable: -1}
			}
		}
		r.partitions = assigned
		return nil
	})
}

// Poll returns records by partition, in offset order; see [columnar.Consumer].
func (r *Reader) Poll(ctx context.Context, timeout time.Duration) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	return r.poll(ctx, timeout, func() error { return nil })
}

// Subscribe returns an error: a reader is in no group.
func (r *Reader) Subscribe([]string, columnar.RebalanceListener) error {
	return fmt.Errorf("krabkatest: subscribe of %s: it is in no group; use a member", r.name)
}

// CommitOffsets does nothing, like that of a reader of Kafka without a group.
func (r *Reader) CommitOffsets(ctx context.Context, _ map[columnar.TopicPartition]int64) error {
	return r.call("CommitOffsets", ctx.Err)
}

// GroupMetadata returns nil: a reader is in no group.
func (r *Reader) GroupMetadata() any { return nil }

// Close ends the reader. A poll that waits returns [ErrClosed].
func (r *Reader) Close() error {
	r.broker.lock()
	defer r.broker.unlock()
	r.closed = true
	r.broker.change()
	return nil
}
