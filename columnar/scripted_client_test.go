// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// fetch is what one poll returns.
type fetch = map[TopicPartition][]ConsumedRecord

// scriptedConsumer is a [Consumer] without a cluster: it returns scripted
// fetches and records what it is told. It is none of the optional seams.
type scriptedConsumer struct {
	mu       sync.Mutex
	fetches  []fetch
	onPoll   func(ctx context.Context) error // runs inside Poll
	pollErrs []error                         // of the polls, in order; missing ones are nil
	failWith map[string]error                // by method name

	assigned   []TopicPartition
	assigns    int
	sought     map[TopicPartition]int64
	seeks      int
	polls      int
	timeouts   []time.Duration
	commits    []map[TopicPartition]int64
	subscribed []string
	listener   RebalanceListener
}

func (c *scriptedConsumer) Assign(partitions []TopicPartition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigns++
	c.assigned = slices.Clone(partitions)
	return c.failWith["Assign"]
}

func (c *scriptedConsumer) Seek(partition TopicPartition, offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seeks++
	if c.sought == nil {
		c.sought = map[TopicPartition]int64{}
	}
	c.sought[partition] = offset
	return c.failWith["Seek"]
}

func (c *scriptedConsumer) Poll(ctx context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	if c.onPoll != nil {
		if err := c.onPoll(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls++
	c.timeouts = append(c.timeouts, timeout)
	if len(c.pollErrs) > 0 {
		err := c.pollErrs[0]
		c.pollErrs = c.pollErrs[1:]
		if err != nil {
			return nil, err
		}
	}
	if len(c.fetches) == 0 {
		return fetch{}, nil
	}
	next := c.fetches[0]
	c.fetches = c.fetches[1:]
	return next, nil
}

func (c *scriptedConsumer) CommitOffsets(_ context.Context, offsets map[TopicPartition]int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failWith["CommitOffsets"]; err != nil {
		return err
	}
	c.commits = append(c.commits, maps.Clone(offsets))
	return nil
}

func (c *scriptedConsumer) Subscribe(topics []string, listener RebalanceListener) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribed, c.listener = topics, listener
	return c.failWith["Subscribe"]
}

func (c *scriptedConsumer) GroupMetadata() any { return "group-metadata" }

func (c *scriptedConsumer) add(fetches ...fetch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetches = append(c.fetches, fetches...)
}

// positionedConsumer is a [scriptedConsumer] that is a [PositionReader].
type positionedConsumer struct {
	scriptedConsumer
	at    map[TopicPartition]int64
	reads [][]TopicPartition
}

func (c *positionedConsumer) Positions(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, slices.Clone(partitions))
	positions := map[TopicPartition]int64{}
	for _, tp := range partitions {
		if at, ok := c.at[tp]; ok {
			positions[tp] = at
		}
	}
	return positions, c.failWith["Positions"]
}

// rangedConsumer is a [positionedConsumer] that is an [OffsetRangeReader].
type rangedConsumer struct {
	positionedConsumer
	starts, ends map[TopicPartition]int64
}

func (c *rangedConsumer) StartOffsets(context.Context, []TopicPartition) (map[TopicPartition]int64, error) {
	return c.starts, c.failWith["StartOffsets"]
}

func (c *rangedConsumer) EndOffsets(context.Context, []TopicPartition) (map[TopicPartition]int64, error) {
	return maps.Clone(c.ends), c.failWith["EndOffsets"]
}
