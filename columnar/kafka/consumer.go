// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

const (
	// defaultPollRecords is what one Poll returns at most unless BoundPolls
	// says otherwise.
	defaultPollRecords = 65536
	// outagePatience is how long a partition may answer with errors that heal
	// by themselves before Poll returns them.
	outagePatience = 30 * time.Second
	// goneTopicPatience is the same for topics that brokers do not know: they
	// may be new, but a deleted one does not come back by waiting.
	goneTopicPatience = 5 * time.Second
	// faultPause is the wait after a fetch that brought nothing but errors.
	faultPause = 100 * time.Millisecond
	// faultInterval is how often one and the same error is returned.
	faultInterval = time.Second
	// rangeTimeout bounds how long an error waits for what makes it complete.
	rangeTimeout = 2 * time.Second
	// probeAfter is how long a partition that has not reached an end that was
	// asked for stays quiet before a gap is looked for. The time doubles while
	// that finds nothing, up to probeAfterMax.
	probeAfter    = 50 * time.Millisecond
	probeAfterMax = 2 * time.Second
)

// unknown is an offset that is not known.
const unknown int64 = -1

// partition is what is known of one assigned partition.
type partition struct {
	position  int64 // next offset to be delivered
	start     int64 // where reading began without a commit
	committed int64 // next offset as committed by the group
	sought    bool  // the position was set before the start was known
	rewound   int64 // lowest offset sought since the last commit
	end       int64 // end offset that somebody asked for
	stable    int64 // last stable offset that the latest fetch with records told
	fault     *fault
	paused    bool
}

// fault is an error that a partition answers with, again and again.
type fault struct {
	cause    error
	since    time.Time
	returned time.Time
}

func newPartition() *partition {
	return &partition{position: unknown, start: unknown, committed: unknown, rewound: unknown, end: unknown, stable: unknown}
}

// base is where reading begins anew after an abort.
func (p *partition) base() int64 {
	if p.committed != unknown {
		return p.committed
	}
	return p.start
}

// awaited reports whether an end was asked for that is not reached and can be.
func (p *partition) awaited() bool {
	return !p.paused && p.fault == nil && p.end != unknown && p.position != unknown && p.position < p.end
}

// consumer is what members and readers share: fetching with exact positions.
type consumer struct {
	*connection
	rebalances chan rebalance // nil outside a group
	closing    chan struct{}

	mu         sync.Mutex // guards the fields below
	partitions map[columnar.TopicPartition]*partition
	pollLimit  int
	probeAfter time.Duration
	woken      bool               // a poll is not to wait
	endPoll    context.CancelFunc // of the poll that waits; nil for none
	pending    []error
	outside    []*columnar.OffsetOutOfRangeError // of pending, without the range
}

func newConsumer(c *connection) *consumer {
	return &consumer{
		connection: c,
		closing:    make(chan struct{}),
		partitions: map[columnar.TopicPartition]*partition{},
		pollLimit:  defaultPollRecords,
		probeAfter: probeAfter,
	}
}

// BoundPolls limits what one Poll returns to this many records; the default is
// 65,536. Less than one restores the default.
func (c *consumer) BoundPolls(records int) {
	if records < 1 {
		records = defaultPollRecords
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollLimit = records
}

// Pause stops fetching the partitions until Resume, or until they leave the
// assignment: a partition that comes back is fetched. Partitions that are not
// assigned are passed over. Records that were fetched before are kept and delivered
// after Resume.
func (c *consumer) Pause(partitions []columnar.TopicPartition) {
	c.client.PauseFetchPartitions(byTopic(c.setPaused(partitions, true)))
}

// Resume continues fetching the partitions.
func (c *consumer) Resume(partitions []columnar.TopicPartition) {
	c.client.ResumeFetchPartitions(byTopic(c.setPaused(partitions, false)))
}

// setPaused returns the partitions that are assigned.
func (c *consumer) setPaused(partitions []columnar.TopicPartition, paused bool) []columnar.TopicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	assigned := make([]columnar.TopicPartition, 0, len(partitions))
	for _, tp := range partitions {
		if p, ok := c.partitions[tp]; ok {
			p.paused = paused
			assigned = append(assigned, tp)
		}
	}
	return assigned
}

// track begins to follow a partition. The caller holds mu.
func (c *consumer) track(tp columnar.TopicPartition) { c.partitions[tp] = newPartition() }

// forget ends following partitions. The client keeps a pause beyond the
// assignment, so the pause is ended here.
func (c *consumer) forget(partitions []columnar.TopicPartition) {
	c.mu.Lock()
	for _, tp := range partitions {
		delete(c.partitions, tp)
	}
	c.mu.Unlock()
	c.client.ResumeFetchPartitions(byTopic(partitions))
}

// Poll returns fetched records by partition, in offset order. It waits at most
// timeout, and with a timeout of 0 returns what is ready. An elapsed timeout is
// an empty result and no error, and so is one that [Reader.WakePoll] ends. The
// records alias the client's memory, which is never reused: they stay valid as long
// as they are referenced.
//
// Rebalance callbacks run inside Poll, on its goroutine. Between two calls of
// Poll the assignment does not change.
//
// Errors of the group and of single partitions are returned by a Poll that has
// no records to return, so that no record is lost: [columnar.FencedError],
// [columnar.RebalancedError], [columnar.OffsetOutOfRangeError],
// [columnar.TopicError], [AccessError], and ctx's error. An outage of a partition
// that brokers recover from by themselves is returned only after it lasted for 30
// seconds, a topic that brokers do not know after 5 seconds. An error that lasts
// is returned about once a second. One of the group is returned at once, and is
// retriable where it passes.
func (c *consumer) Poll(ctx context.Context, timeout time.Duration) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	if c.isClosing() {
		return nil, textPrefix.Wrap(ErrClosed, "poll")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.takePending(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(timeout)
	pollCtx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c.expectWake(cancel)
	defer c.expectWake(nil)
	for {
		awaited := c.awaited()
		fetches := c.fetch(pollCtx, timeout <= 0, awaited)
		records, faulty := c.take(fetches)
		if len(records) > 0 {
			return records, nil
		}
		c.findRanges(ctx)
		if err := c.takePending(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if awaited > 0 && timeout > 0 && fetches.Empty() {
			c.skipGaps(ctx)
		}
		if timeout <= 0 || pollCtx.Err() != nil || !time.Now().Before(deadline) || c.awaited() < awaited {
			return records, nil
		}
		if faulty {
			sleep(pollCtx, faultPause)
		}
	}
}

// WakePoll makes a Poll that waits return what is there. If none waits, the next
// one does not wait.
func (c *consumer) WakePoll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endPoll == nil {
		c.woken = true
		return
	}
	c.endPoll()
}

// expectWake makes WakePoll call end, or nothing when end is nil.
func (c *consumer) expectWake(end context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endPoll = end
	if c.woken && end != nil {
		c.woken = false
		end()
	}
}

// StableEnds returns the last stable offset of each partition that a broker told
// with the latest records of the partition. It never asks a broker. Partitions
// without records so far are omitted.
func (c *consumer) StableEnds(partitions []columnar.TopicPartition) map[columnar.TopicPartition]int64 {
	ends := make(map[columnar.TopicPartition]int64, len(partitions))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range partitions {
		if p, ok := c.partitions[tp]; ok && p.stable != unknown {
			ends[tp] = p.stable
		}
	}
	return ends
}

func (c *consumer) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// takePending returns the errors that an earlier fetch brought, once.
func (c *consumer) takePending() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.pending...)
	c.pending = nil
	return err
}

// awaited counts partitions that have not reached an end that was asked for.
func (c *consumer) awaited() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.partitions {
		if p.awaited() {
			n++
		}
	}
	return n
}

// fetch polls the client once. While the client waits, rebalance callbacks run
// on the calling goroutine. When it returns, rebalances are blocked.
func (c *consumer) fetch(ctx context.Context, ready bool, awaited int) kgo.Fetches {
	c.mu.Lock()
	limit, probe := c.pollLimit, c.probeAfter
	c.mu.Unlock()
	if awaited > 0 && !ready {
		short, cancel := context.WithTimeout(ctx, probe)
		defer cancel()
		ctx = short
	}
	poll := func() kgo.Fetches {
		if !ready {
			return c.client.PollRecords(ctx, limit)
		}
		//lint:ignore SA1012 the client documents a nil context as "do not wait"
		fetches := c.client.PollRecords(nil, limit)
		if len(fetches) == 0 && c.rebalances != nil {
			// A poll that did not wait and found nothing leaves rebalances
			// unblocked; one whose context has ended blocks them.
			ended, cancel := context.WithCancel(ctx)
			cancel()
			fetches = c.client.PollRecords(ended, limit)
		}
		return fetches
	}
	if c.rebalances == nil {
		return poll()
	}
	c.client.AllowRebalance()
	result := make(chan kgo.Fetches, 1)
	go func() { result <- poll() }()
	for {
		select {
		case fetches := <-result:
			if c.isClosing() {
				c.client.AllowRebalance() // Close waits for the last one
			}
			return fetches
		case r := <-c.rebalances:
			r.run()
		}
	}
}

// take converts fetched records, moves positions and sorts errors. faulty is
// true when nothing but errors that are not returned came.
func (c *consumer) take(fetches kgo.Fetches) (records map[columnar.TopicPartition][]columnar.ConsumedRecord, faulty bool) {
	records = map[columnar.TopicPartition][]columnar.ConsumedRecord{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range fetches {
		for j := range fetches[i].Topics {
			topic := &fetches[i].Topics[j]
			for k := range topic.Partitions {
				fetched := &topic.Partitions[k]
				tp := columnar.TopicPartition{Topic: topic.Topic, Partition: int(fetched.Partition)}
				if fetched.Err != nil {
					faulty = c.takeError(tp, fetched) || faulty
				}
				n := len(fetched.Records)
				if n == 0 {
					continue
				}
				state, ok := c.partitions[tp]
				if !ok {
					continue
				}
				state.fault = nil
				c.probeAfter = probeAfter
				state.position = fetched.Records[n-1].Offset + 1
				state.stable = fetched.LastStableOffset
				if state.start == unknown {
					state.start = fetched.Records[0].Offset
				}
				if out := appendConsumed(records[tp], fetched.Records); len(out) > 0 {
					records[tp] = out
				}
			}
		}
	}
	return records, faulty
}

// takeError keeps an error for the next Poll that has no records, or reports
// that it is one to wait out.
func (c *consumer) takeError(tp columnar.TopicPartition, fetched *kgo.FetchPartition) (wait bool) {
	err := fetched.Err
	if tp.Topic == "" {
		return c.takeGroupError(err)
	}
	state, ok := c.partitions[tp]
	if !ok {
		return false
	}
	now := time.Now()
	if state.fault == nil || !errors.Is(err, state.fault.cause) {
		state.fault = &fault{cause: err, since: now}
	}
	patience := time.Duration(0)
	switch {
	case isTopicGone(err):
		patience = goneTopicPatience
	case kerr.IsRetriable(err):
		patience = outagePatience
	}
	if now.Sub(state.fault.since) < patience || now.Sub(state.fault.returned) < faultInterval {
		return true
	}
	state.fault.returned = now
	if errors.Is(err, kerr.OffsetOutOfRange) {
		outside := &columnar.OffsetOutOfRangeError{Partition: tp, Offset: state.position, Start: unknown, End: unknown, Cause: err}
		c.outside = append(c.outside, outside)
		err = outside
	} else {
		err = topicError(tp.Topic, tp.Partition, err)
	}
	c.pending = append(c.pending, err)
	return false
}

// findRanges asks for the offsets that are available where others were asked
// for. Brokers do not say it with the refusal.
func (c *consumer) findRanges(ctx context.Context) {
	c.mu.Lock()
	outside := c.outside
	c.outside = nil
	c.mu.Unlock()
	if len(outside) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rangeTimeout)
	defer cancel()
	for _, o := range outside {
		one := []columnar.TopicPartition{o.Partition}
		starts, startErr := c.StartOffsets(ctx, one)
		ends, endErr := c.listOffsets(ctx, "end", one, c.admin.ListEndOffsets)
		if startErr == nil && endErr == nil {
			o.Start, o.End = starts[o.Partition], ends[o.Partition]
		}
	}
}

// takeGroupError keeps an error that belongs to no partition.
func (c *consumer) takeGroupError(err error) (wait bool) {
	if isContext(err) {
		return false
	}
	var session *kgo.ErrGroupSession
	if errors.As(err, &session) {
		err = session.Err
	}
	c.pending = append(c.pending, c.typed("poll", err))
	return false
}

// Positions returns the next offset to be delivered of each partition, also
// behind control records, aborted data and compaction gaps. Partitions whose
// position is not known are omitted. It never asks a broker.
func (c *consumer) Positions(_ context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	positions := make(map[columnar.TopicPartition]int64, len(partitions))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range partitions {
		if p, ok := c.partitions[tp]; ok && p.position != unknown {
			positions[tp] = p.position
		}
	}
	return positions, nil
}

// StartOffsets returns the earliest available offset of each partition. Errors
// of single partitions are joined [columnar.TopicError] values.
func (c *consumer) StartOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return c.listOffsets(ctx, "start", partitions, c.admin.ListStartOffsets)
}

// EndOffsets returns the offset behind the last record that a read-committed
// consumer may read, the last stable offset, of each partition. Errors of
// single partitions are joined [columnar.TopicError] values.
//
// A Poll after it looks for offsets that hold no record up to these ends, so
// that positions reach them also where compaction left nothing to fetch.
func (c *consumer) EndOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	ends, err := c.listOffsets(ctx, "end", partitions, c.admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	c.await(ends)
	return ends, nil
}

// LogEndOffsets returns the offset behind the last record of each partition, the
// high watermark: a transaction that is open keeps [Reader.EndOffsets] below it.
// Errors of single partitions are joined [columnar.TopicError] values.
func (c *consumer) LogEndOffsets(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	return c.listOffsets(ctx, "log end", partitions, c.admin.ListEndOffsets)
}

// await remembers ends that somebody wants to reach.
func (c *consumer) await(ends map[columnar.TopicPartition]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tp, end := range ends {
		if p, ok := c.partitions[tp]; ok {
			p.end = end
		}
	}
}

// behind returns the first partition that has not reached its end, or nil.
func (c *consumer) behind(ends map[columnar.TopicPartition]int64) *columnar.IncompleteReadError {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range sortedKeys(ends) {
		position := unknown
		if p, ok := c.partitions[tp]; ok {
			position = p.position
		}
		if position < ends[tp] {
			return &columnar.IncompleteReadError{Partition: tp, StableOffset: position, EndOffset: ends[tp]}
		}
	}
	return nil
}

func (c *consumer) listOffsets(ctx context.Context, which string, partitions []columnar.TopicPartition,
	list func(context.Context, ...string) (kadm.ListedOffsets, error),
) (map[columnar.TopicPartition]int64, error) {
	offsets := make(map[columnar.TopicPartition]int64, len(partitions))
	if len(partitions) == 0 {
		return offsets, nil
	}
	topics := slices.Sorted(maps.Keys(byTopic(partitions)))
	listed, err := list(ctx, topics...)
	if err != nil {
		return nil, c.topicsError(ctx, which+" offsets", topics, err)
	}
	var problems []error
	for _, tp := range partitions {
		offset, ok := listed.Lookup(tp.Topic, int32(tp.Partition))
		switch {
		case !ok:
			// An unknown topic is listed with one made-up partition.
			cause := error(kerr.UnknownTopicOrPartition)
			for _, o := range listed[tp.Topic] {
				if o.Err != nil {
					cause = o.Err
				}
			}
			problems = append(problems, topicError(tp.Topic, tp.Partition, cause))
		case offset.Err != nil:
			problems = append(problems, topicError(tp.Topic, tp.Partition, offset.Err))
		default:
			offsets[tp] = offset.Offset
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return offsets, nil
}

// setOffset is the part of Seek that consumers in and outside a group share: it
// moves the position, and reports whether the client must be told.
func (c *consumer) setPosition(tp columnar.TopicPartition, offset int64) (move bool, err error) {
	if offset < 0 {
		return false, fmt.Errorf("kafka: seek %s/%d: offset %d is negative", tp.Topic, tp.Partition, offset)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.partitions[tp]
	if !ok {
		return false, fmt.Errorf("kafka: seek %s/%d: the partition is not assigned", tp.Topic, tp.Partition)
	}
	if p.rewound == unknown || offset < p.rewound {
		p.rewound = offset
	}
	p.fault = nil
	if p.position == offset && (p.start != unknown || p.committed != unknown) {
		// The client fetches on from the position it delivered up to: what it
		// has fetched ahead is what follows.
		return false, nil
	}
	p.position = offset
	p.sought = true
	return true, nil
}

func byTopic(partitions []columnar.TopicPartition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, tp := range partitions {
		m[tp.Topic] = append(m[tp.Topic], int32(tp.Partition))
	}
	return m
}

func fromTopics(m map[string][]int32) []columnar.TopicPartition {
	var partitions []columnar.TopicPartition
	for topic, numbers := range m {
		for _, n := range numbers {
			partitions = append(partitions, columnar.TopicPartition{Topic: topic, Partition: int(n)})
		}
	}
	sortPartitions(partitions)
	return partitions
}

func sortPartitions(partitions []columnar.TopicPartition) {
	slices.SortFunc(partitions, comparePartitions)
}
