// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

// notifyingConsumer is a [scriptedConsumer] that is a [RebalanceNotifier].
type notifyingConsumer struct {
	scriptedConsumer
	pending func()
}

func (c *notifyingConsumer) NotifyRebalance(pending func()) { c.pending = pending }

// A rebalance that waits ends the round behind the partition that is processed;
// the others come in the next one, without another fetch.
func TestRoundEndsEarlyForARebalance(t *testing.T) {
	for _, transactional := range []bool{false, true} {
		consumer := &notifyingConsumer{}
		consumer.add(fetch{in(0): rows(0, 0, "ada 1"), in(1): rows(1, 5, "bob 1"), in(2): rows(2, 7, "eve 1", "eve 2")})
		var early, late []bool // whether processors see the rebalance, before and after it begins to wait
		topology := through(t, "slow", func() Processor {
			return ProcessorFunc(func(ctx *Context, batch arrow.RecordBatch) error {
				early = append(early, isClosed(ctx.RebalancePending()))
				if ctx.Partition() == 0 {
					consumer.pending()
					consumer.pending()
				}
				late = append(late, isClosed(ctx.RebalancePending()))
				ctx.Forward(batch)
				return nil
			})
		}, "in")
		producer := &recordingTransactions{}
		r := newTestRunner(t, topology, consumer, producer, WithParallelism(1))
		run := r.RunOnce
		if transactional {
			run = r.RunOnceTransactional
		}
		for round, want := range []map[TopicPartition]int64{{in(0): 1}, {in(1): 6, in(2): 9}} {
			offsets, err := run(t.Context(), 0)
			if diff := cmp.Diff(want, offsets); diff != "" || err != nil {
				t.Errorf("transactional %v, round %d: error %v, offsets mismatch (-want +got):\n%s", transactional, round, err, diff)
			}
		}
		if diff := cmp.Diff([]string{"ada 1", "bob 1", "eve 1", "eve 2"}, producer.values("out")); diff != "" {
			t.Errorf("transactional %v: outputs mismatch (-want +got):\n%s", transactional, diff)
		}
		if diff := cmp.Diff([][]bool{{false, false, false}, {true, false, false}}, [][]bool{early, late}); diff != "" {
			t.Errorf("transactional %v: what processors see mismatch (-want +got):\n%s", transactional, diff)
		}
		if stats := r.Stats(); stats.RoundsCutShort != 1 || stats.LongestRebalanceWait <= 0 || stats.Rounds != 2 {
			t.Errorf("transactional %v: stats %+v; want one of two rounds cut short", transactional, stats)
		}
	}
}

// A processor that is told may give up: its records come again.
func TestProcessorMayGiveUpForARebalance(t *testing.T) {
	consumer := &notifyingConsumer{}
	consumer.add(fetch{in(0): rows(0, 3, "ada 1")}, fetch{in(0): rows(0, 3, "ada 1")})
	late := passingError{errors.New("a rebalance waits")}
	tries := 0
	topology := through(t, "slow", func() Processor {
		return ProcessorFunc(func(ctx *Context, batch arrow.RecordBatch) error {
			if tries++; tries == 1 {
				go consumer.pending()
				<-ctx.RebalancePending()
				return late
			}
			ctx.Forward(batch)
			return nil
		})
	}, "in")
	r := newTestRunner(t, topology, consumer, &recordingProducer{})
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, late) || !IsRetriable(err) {
		t.Errorf("RunOnce = %v; want %v", err, late)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 3}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 4}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if new(Context).RebalancePending() != nil {
		t.Error("a context without a runner has a signal")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
