// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/internal/nexgen"
)

const partitions = 4

// names are the topics and the group of one run. A run has its own, so that it
// finds nothing of an earlier one on a broker that stays.
type names struct {
	bids, counts, group string
}

func namesOf(run string) names {
	return names{bids: "bids-" + run, counts: "bidder-counts-" + run, group: "quickstart-" + run}
}

// embed starts a broker inside this process and returns its address.
func embed() (address string, stop func(), err error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return "", nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}

// createTopics creates the topics of a run and returns a function that deletes
// them.
func createTopics(ctx context.Context, admin *kadm.Client, n names) (remove func(), err error) {
	// The bids are of November 2023, and a broker deletes old records.
	forever := "-1"
	created, err := admin.CreateTopics(ctx, partitions, 1, map[string]*string{"retention.ms": &forever}, n.bids, n.counts)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("create topics: %w", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.DeleteTopics(ctx, n.bids, n.counts); err != nil {
			fmt.Println("topics left behind:", err)
		}
	}, nil
}

// feed produces the bids among the first events of the workload, about rate
// events a second. A bidder's bids share a partition.
func feed(ctx context.Context, brokers string, n names, events, rate int64) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.DefaultProduceTopic(n.bids),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	failed := make(chan error, 1)
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	const burst = 1000
	pace := time.NewTicker(time.Second * burst / time.Duration(rate))
	defer pace.Stop()
	for id := range events {
		if id%burst == 0 {
			select {
			case <-pace.C:
			case err := <-failed:
				return fmt.Errorf("produce bids: %w", err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		bid, ok := nexgen.BidAt(id)
		if !ok {
			continue
		}
		client.Produce(ctx, &kgo.Record{
			Key:       binary.BigEndian.AppendUint64(nil, uint64(bid.Bidder)),
			Value:     bid.AppendJSON(nil),
			Partition: int32(bid.Bidder % partitions),
			Timestamp: time.UnixMilli(bid.TS),
		}, acknowledged)
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("produce bids: %w", err)
	default:
		return nil
	}
}

// backlog returns how many bids the group has committed, and how many are in
// the topic. A group that has no coordinator, as on a broker that never had a
// group, has committed none.
func backlog(ctx context.Context, admin *kadm.Client, n names) (done, total int64, err error) {
	committed, err := admin.FetchOffsets(ctx, n.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) {
		return 0, 0, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, n.bids)
	if err != nil {
		return 0, 0, err
	}
	ends.Each(func(end kadm.ListedOffset) {
		total += end.Offset
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok && at.At > 0 {
			done += at.At
		}
	})
	return done, total, nil
}
