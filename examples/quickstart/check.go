// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

// window names one counter: a bidder and the start of ten seconds.
type window struct {
	bidder, start int64
}

// readCounts reads what was committed to the topic of results and returns the
// last count of each window as lines of the answer.
//
// A count that does not rise was made from bids that were counted twice or from
// state that lost some, and is an error even if a later count corrects it.
func readCounts(ctx context.Context, brokers string, n names) ([]string, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.ConsumeTopics(n.counts),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := settledEnds(ctx, kadm.NewClient(client), n.counts)
	if err != nil {
		return nil, err
	}
	counts := map[window]int64{}
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		for _, record := range fetches.Records() {
			if record.Offset+1 >= ends[record.Partition] {
				delete(ends, record.Partition)
			}
			if record.Attrs.IsControl() {
				continue
			}
			var row struct {
				Bidder int64 `json:"bidder"`
				Start  int64 `json:"__window_start"`
				Count  int64 `json:"count"`
			}
			if err := json.Unmarshal(record.Value, &row); err != nil {
				return nil, fmt.Errorf("result %d/%d: %w", record.Partition, record.Offset, err)
			}
			w := window{row.Bidder, row.Start}
			if row.Count <= counts[w] {
				return nil, fmt.Errorf("result %d/%d: count of bidder %d fell from %d to %d",
					record.Partition, record.Offset, row.Bidder, counts[w], row.Count)
			}
			counts[w] = row.Count
		}
	}
	lines := make([]string, 0, len(counts))
	for w, count := range counts {
		lines = append(lines, nexgen.Line(w.bidder, w.start, count))
	}
	return lines, nil
}

// settledEnds returns the end offset of each partition that is not empty, once
// no transaction is open. A commit is answered before its markers are written,
// so the last stable offset may trail the end for a moment.
func settledEnds(ctx context.Context, admin *kadm.Client, topic string) (map[int32]int64, error) {
	for {
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		settled := map[int32]int64{}
		open := false
		ends.Each(func(end kadm.ListedOffset) {
			at, _ := stable.Lookup(topic, end.Partition)
			open = open || at.Offset < end.Offset
			if end.Offset > 0 {
				settled[end.Partition] = end.Offset
			}
		})
		if !open {
			return settled, nil
		}
	}
}
