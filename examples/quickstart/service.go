// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
)

// bidsPerBidder counts the bids of each bidder in windows of ten seconds of
// event time, and produces a window's count whenever it changes.
func bidsPerBidder(n names) (*columnar.Topology, error) {
	return stream.New().
		From(stream.JSON(stream.Int("bidder")), n.bids).
		Named("count").GroupBy("bidder").Tumbling(10*time.Second).
		Aggregate(stream.Count()).
		To(n.counts, stream.JSON().Key("bidder", columnar.WindowStartColumn)).
		Topology()
}

// serve is the whole service: it counts until ctx ends, and leaves orderly.
func serve(ctx context.Context, brokers string, n names, stateDir string) error {
	topology, err := bidsPerBidder(n)
	if err != nil {
		return err
	}
	broker := kgo.SeedBrokers(brokers)
	reader, err := kafka.NewReader(broker)
	if err != nil {
		return err
	}
	defer reader.Close()
	cuts, err := columnar.NewCutReader(reader, 1)
	if err != nil {
		return err
	}
	// The instance id lets a restarted process take its place at once.
	member, err := kafka.NewTransactionalMember(n.group, n.group+"-0", broker, kgo.InstanceID("0"))
	if err != nil {
		return err
	}
	defer member.Close()
	progress := newProgress()
	runner, err := columnar.NewGroupRunner(topology, member, member,
		columnar.WithStateStore(columnar.NewFileStateStore(stateDir)),
		columnar.WithBarrierGroup(n.group, cuts),
		columnar.WithBarrierListener(progress.barrier))
	if err != nil {
		return err
	}
	go progress.report(ctx, runner)
	return runner.Run(ctx)
}

// progress prints how a runner gets on.
type progress struct {
	epoch chan int64
}

func newProgress() *progress { return &progress{epoch: make(chan int64, 16)} }

func (p *progress) barrier(b columnar.Barrier) {
	select {
	case p.epoch <- b.Cut.Epoch:
	default:
	}
}

func (p *progress) report(ctx context.Context, runner *columnar.GroupRunner) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	epoch, before, at := int64(columnar.NoEpoch), int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case epoch = <-p.epoch:
		case now := <-every.C:
			records := runner.Metrics().Snapshot().InputRecords
			fmt.Printf("  service: %6.0f records/s, epoch %d\n", float64(records-before)/now.Sub(at).Seconds(), epoch)
			before, at = records, now
		}
	}
}
