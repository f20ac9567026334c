// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// probeBytes is enough of a fetch to see whether anything is there; a broker
// sends the first batch whole in any case.
const probeBytes = 1 << 16

// probeTimeout keeps a slow broker from holding up a poll.
const probeTimeout = time.Second

// skipGaps moves the positions of awaited partitions over offsets that hold no
// record. The client keeps silent about them: where compaction removed the last
// records or markers of a partition, it has nothing to return, and the position
// would stay short of the end for ever. A fetch by hand at the position tells
// an empty range from a slow one. Failures only mean that a later Poll looks
// again.
func (c *consumer) skipGaps(ctx context.Context) {
	positions := map[columnar.TopicPartition]int64{}
	c.mu.Lock()
	for tp, p := range c.partitions {
		if p.awaited() {
			positions[tp] = p.position
		}
	}
	c.probeAfter = min(2*c.probeAfter, probeAfterMax)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for leader, req := range c.probeRequests(ctx, positions) {
		resp, err := c.client.Broker(int(leader)).Request(ctx, req)
		if err != nil {
			continue
		}
		c.skipProbed(resp.(*kmsg.FetchResponse), req, positions)
	}
}

// probeRequests builds one fetch a leader.
func (c *consumer) probeRequests(ctx context.Context, positions map[columnar.TopicPartition]int64) map[int32]*kmsg.FetchRequest {
	if len(positions) == 0 {
		return nil
	}
	topics := map[string]bool{}
	names := []string{}
	for tp := range positions {
		if !topics[tp.Topic] {
			topics[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	metadata, err := c.admin.Metadata(ctx, names...)
	if err != nil {
		return nil
	}
	requests := map[int32]*kmsg.FetchRequest{}
	for tp, position := range positions {
		topic := metadata.Topics[tp.Topic]
		detail, ok := topic.Partitions[int32(tp.Partition)]
		if !ok || detail.Err != nil || detail.Leader < 0 {
			continue
		}
		req := requests[detail.Leader]
		if req == nil {
			req = kmsg.NewPtrFetchRequest()
			req.MinBytes = 0
			req.MaxWaitMillis = 0
			req.MaxBytes = probeBytes
			req.IsolationLevel = 1
			req.SessionEpoch = -1
			requests[detail.Leader] = req
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(tp.Partition)
		p.FetchOffset = position
		p.PartitionMaxBytes = probeBytes
		t := kmsg.NewFetchRequestTopic()
		t.Topic = tp.Topic
		t.TopicID = topic.ID
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return requests
}

// skipProbed moves positions by what a probe brought.
func (c *consumer) skipProbed(resp *kmsg.FetchResponse, req *kmsg.FetchRequest, positions map[columnar.TopicPartition]int64) {
	if resp.ErrorCode != 0 || resp.ThrottleMillis > 0 {
		return // a throttled broker sends nothing although there is something
	}
	names := map[[16]byte]string{}
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	for i := range resp.Topics {
		topic := &resp.Topics[i]
		name := topic.Topic
		if name == "" {
			name = names[topic.TopicID]
		}
		for j := range topic.Partitions {
			rp := &topic.Partitions[j]
			tp := columnar.TopicPartition{Topic: name, Partition: int(rp.Partition)}
			from, asked := positions[tp]
			if !asked || kerr.ErrorForCode(rp.ErrorCode) != nil {
				continue
			}
			next := max(rp.LastStableOffset, from)
			if len(rp.RecordBatches) > 0 {
				// Batches without a record that counts: compaction keeps them
				// for the sake of their offsets.
				fetched, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
					KeepControlRecords: true,
					Offset:             from,
					IsolationLevel:     kgo.ReadCommitted(),
					Topic:              name,
					Partition:          rp.Partition,
				}, rp, kgo.DefaultDecompressor(), nil)
				if fetched.Err != nil || len(fetched.Records) > 0 {
					continue // the client delivers them
				}
				next = after
			}
			c.mu.Lock()
			if p, ok := c.partitions[tp]; ok && p.position == from && next > from {
				p.position = next
				c.probeAfter = probeAfter
			}
			c.mu.Unlock()
		}
	}
}
