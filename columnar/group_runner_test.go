// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

func TestPartitionCycleCommitsBehindTheRecord(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 100, "ada 3")}}}
	producer := &recordingProducer{}
	built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
	next, err := RunPartitionOnce(t.Context(), built, consumer, producer, "in", 0, 100, 0)
	if err != nil || next != 101 {
		t.Fatalf("RunPartitionOnce = %d, %v; want 101", next, err)
	}
	if diff := cmp.Diff([]map[TopicPartition]int64{{in(0): 101}}, consumer.commits); diff != "" {
		t.Errorf("commits mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 100}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]TopicPartition{in(0)}, consumer.assigned); diff != "" {
		t.Errorf("assignment mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ada 3"}, producer.values("out")); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestPartitionCycleWithoutRecordsStays(t *testing.T) {
	consumer, producer := &scriptedConsumer{}, &recordingProducer{}
	built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
	next, err := RunPartitionOnce(t.Context(), built, consumer, producer, "in", 0, 42, 0)
	if err != nil || next != 42 || len(consumer.commits) != 0 || len(producer.sent) != 0 {
		t.Errorf("RunPartitionOnce = %d, %v with commits %v, outputs %v; want 42 and nothing", next, err, consumer.commits, producer.sent)
	}
}

func TestPartitionCyclePassesGapsWithThePosition(t *testing.T) {
	consumer := &positionedConsumer{at: map[TopicPartition]int64{in(0): 50}}
	built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
	next, err := RunPartitionOnce(t.Context(), built, consumer, &recordingProducer{}, "in", 0, 42, 0)
	if err != nil || next != 50 {
		t.Errorf("RunPartitionOnce over a gap = %d, %v; want 50", next, err)
	}
	if diff := cmp.Diff([]map[TopicPartition]int64{{in(0): 50}}, consumer.commits); diff != "" {
		t.Errorf("commits mismatch (-want +got):\n%s", diff)
	}
}

func TestPartitionCycleThatFailsChangesNothing(t *testing.T) {
	cause := errors.New("refused")
	for _, failing := range []string{"send", "CommitOffsets", "Poll", "Assign", "Seek"} {
		t.Run(failing, func(t *testing.T) {
			consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 100, "ada 3")}}, failWith: map[string]error{failing: cause}}
			producer := &recordingProducer{}
			switch failing {
			case "send":
				producer.sendErr = cause
			case "Poll":
				consumer.pollErrs = []error{cause}
			}
			built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
			next, err := RunPartitionOnce(t.Context(), built, consumer, producer, "in", 0, 100, 0)
			if !errors.Is(err, cause) || next != 100 {
				t.Errorf("RunPartitionOnce = %d, %v; want 100, %v", next, err, cause)
			}
			if built.HasPartition(0) {
				t.Error("state of the failed cycle is left")
			}
		})
	}
}

func TestRunGroupOnceIsOneRound(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(1): rows(1, 7, "ada 1"), in(0): rows(0, 3, "bob 2", "bob 2")}}}
	producer := &recordingProducer{}
	built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
	offsets, err := RunGroupOnce(t.Context(), built, consumer, producer, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 5, in(1): 8}, offsets); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bob 2", "bob 4", "ada 1"}, producer.values("out")); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestRunGroupOnceThatFailsSeeksBack(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 3, "bob 2", "!")}}}
	built := must[*BuiltTopology](t)(ledgerTopology(t).Build())
	offsets, err := RunGroupOnce(t.Context(), built, consumer, &recordingProducer{}, 0)
	if offsets != nil || !errors.Is(err, errUnreadable) {
		t.Errorf("RunGroupOnce = %v, %v; want nil, %v", offsets, err, errUnreadable)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 3}, consumer.sought); diff != "" {
		t.Errorf("seeks mismatch (-want +got):\n%s", diff)
	}
	if built.HasPartition(0) {
		t.Error("state of the failed round is left")
	}
}

func TestRunnerSubscribesWithItselfAsListener(t *testing.T) {
	consumer := &scriptedConsumer{}
	topology := through(t, "counter", func() Processor { return &counter{} }, "in-a", "in-b")
	r := newTestRunner(t, topology, consumer, &recordingProducer{})
	if diff := cmp.Diff([]string{"in-a", "in-b"}, consumer.subscribed); diff != "" {
		t.Errorf("subscription mismatch (-want +got):\n%s", diff)
	}
	if consumer.listener != RebalanceListener(r) {
		t.Errorf("listener = %v; want the runner", consumer.listener)
	}
	if err := Subscribe(topology, consumer); err != nil || consumer.listener != nil {
		t.Errorf("Subscribe = %v with listener %v; want none", err, consumer.listener)
	}
}

func TestRunnerLoadsAtAssignmentAndSavesAtRevocation(t *testing.T) {
	store := &recordingStore{}
	r := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{}, WithStateStore(store))
	r.OnPartitionsAssigned([]TopicPartition{in(3)})
	r.OnPartitionsRevoked([]TopicPartition{in(3)})
	if diff := cmp.Diff([][2]int64{{3, NoEpoch}}, store.loaded); diff != "" {
		t.Errorf("loads mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]int64{{3, NoEpoch}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
}

func TestRunnerKeepsALogicalPartitionWhileATopicHasIt(t *testing.T) {
	store := &recordingStore{}
	topology := through(t, "counter", func() Processor { return &counter{} }, "a", "b")
	r := newTestRunner(t, topology, &scriptedConsumer{}, &recordingProducer{}, WithStateStore(store))
	a, b := TopicPartition{"a", 3}, TopicPartition{"b", 3}
	r.OnPartitionsAssigned([]TopicPartition{a, b})
	r.OnPartitionsRevoked([]TopicPartition{a})
	if len(store.loaded) != 1 || len(store.saved) != 0 {
		t.Errorf("loads %v, saves %v; want one load for both topics and no save yet", store.loaded, store.saved)
	}
	r.OnPartitionsRevoked([]TopicPartition{b})
	if diff := cmp.Diff([][2]int64{{3, NoEpoch}}, store.saved); diff != "" {
		t.Errorf("saves mismatch (-want +got):\n%s", diff)
	}
}

func TestRunnerDoesNotSaveLostPartitions(t *testing.T) {
	store := &recordingStore{}
	consumer := &scriptedConsumer{fetches: []fetch{{in(3): stretch(3, 0, 2)}}}
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{}, WithStateStore(store))
	r.OnPartitionsAssigned([]TopicPartition{in(3)})
	runOnce(t, r)
	r.OnPartitionsLost([]TopicPartition{in(3)})
	if len(store.saved) != 0 || r.Topology().HasPartition(3) {
		t.Errorf("saves %v, state %v; want neither", store.saved, r.Topology().HasPartition(3))
	}
}

func TestDeadLetterOfAFailingBatch(t *testing.T) {
	record := ConsumedRecord{Key: []byte("k"), Value: []byte("ada -1"), Timestamp: 5, Headers: []RecordHeader{{"trace-id", []byte("abc")}}}
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): {record}}}}
	producer := &recordingProducer{}
	r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithErrorPolicy(DeadLetterPolicy("dlq")))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 1}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	want := []ProducedToTopic{{Topic: "dlq", Record: ProduceRecord{
		Key: []byte("k"), Value: []byte("ada -1"), Timestamp: 5, Headers: []RecordHeader{
			{"trace-id", []byte("abc")},
			{"krabka.error.class", []byte("columnar.NodeError")},
			{"krabka.error.message", []byte("columnar: node `ledger`, topic \"in\", partition 0: negative amount")},
			{"krabka.source.topic", []byte("in")},
			{"krabka.source.partition", []byte("0")},
			{"krabka.source.offset", []byte("0")},
		},
	}}}
	if diff := cmp.Diff(want, producer.sent); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	metrics := r.Metrics().Snapshot()
	if metrics.ProcessingNanos <= 0 {
		t.Errorf("processing took %d ns", metrics.ProcessingNanos)
	}
	metrics.ProcessingNanos = 0
	if diff := cmp.Diff(MetricsSnapshot{Batches: 1, InputRecords: 1, Failures: 1, DeadLetterRecords: 1}, metrics); diff != "" {
		t.Errorf("metrics mismatch (-want +got):\n%s", diff)
	}
	if r.Topology().HasPartition(0) {
		t.Error("the failed batch has left state")
	}
}

func TestRetriableErrorFailsTheRoundUnderEveryPolicy(t *testing.T) {
	for _, policy := range []ErrorPolicy{FailPolicy(), SkipPolicy(), DeadLetterPolicy("dlq")} {
		consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 0, "ada 1", "?"), in(1): rows(1, 0, "bob 1")}}}
		producer := &recordingProducer{}
		r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithErrorPolicy(policy))
		offsets, err := r.RunOnce(t.Context(), 0)
		if offsets != nil || !errors.Is(err, errSchemaPending) || !IsRetriable(err) {
			t.Errorf("policy %v: RunOnce = %v, %v; want the retriable error", policy, offsets, err)
		}
		if len(producer.sent) != 0 || len(consumer.commits) != 0 {
			t.Errorf("policy %v: outputs %v, commits %v; want none", policy, producer.sent, consumer.commits)
		}
		if diff := cmp.Diff(map[TopicPartition]int64{in(0): 0, in(1): 0}, consumer.sought); diff != "" {
			t.Errorf("policy %v: seeks mismatch (-want +got):\n%s", policy, diff)
		}
		if r.Topology().HasPartition(0) || r.Topology().HasPartition(1) {
			t.Errorf("policy %v: the failed round has left state", policy)
		}
		if diff := cmp.Diff(MetricsSnapshot{}, r.Metrics().Snapshot()); diff != "" {
			t.Errorf("policy %v: metrics mismatch (-want +got):\n%s", policy, diff)
		}
		if stats := r.Stats(); stats.RoundsFailed != 1 || stats.FailedBatches != 1 {
			t.Errorf("policy %v: %d failed rounds, %d failed batches; want 1, 1", policy, stats.RoundsFailed, stats.FailedBatches)
		}
	}
}

func TestBadRecordsAloneGoToTheDeadLetterTopic(t *testing.T) {
	values := make([]string, 100)
	for i := range values {
		values[i] = "ada 1"
	}
	values[57], values[80] = "!", "!"
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 0, values...)}}}
	producer := &recordingProducer{}
	r := newTestRunner(t, countingTopology(t), consumer, producer, WithErrorPolicy(DeadLetterPolicy("dlq")))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 100}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	var offsets []string
	good := 0
	for _, output := range producer.sent {
		if output.Topic == "dlq" {
			offsets = append(offsets, string(output.Record.Headers[4].Value)+" "+string(output.Record.Headers[1].Value))
		} else {
			good++
		}
	}
	want := []string{"57 columnar: in/0: offset 57 (record 57): unreadable record", "80 columnar: in/0: offset 80 (record 80): unreadable record"}
	if diff := cmp.Diff(want, offsets); diff != "" {
		t.Errorf("dead letters mismatch (-want +got):\n%s", diff)
	}
	if good != 98 {
		t.Errorf("%d outputs of good records; want 98", good)
	}
	state := must[map[string][]byte](t)(r.Topology().SnapshotPartition(0))
	if diff := cmp.Diff(counted(98), state); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	metrics := r.Metrics().Snapshot()
	metrics.ProcessingNanos = 0
	if diff := cmp.Diff(MetricsSnapshot{Batches: 1, InputRecords: 100, OutputRecords: 98, Failures: 1, DeadLetterRecords: 2}, metrics); diff != "" {
		t.Errorf("metrics mismatch (-want +got):\n%s", diff)
	}
}

func TestPoisonIsolationFindsTheFailingRecords(t *testing.T) {
	for _, isolate := range []bool{false, true} {
		var values []string
		for i := range 40 {
			values = append(values, fmt.Sprintf("ada %d", i))
		}
		values[11], values[12], values[39] = "ada -1", "ada -1", "ada -1"
		consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 0, values...)}}}
		options := []GroupRunnerOption{WithErrorPolicy(SkipPolicy())}
		want, skipped := "", int64(40)
		if isolate {
			options = append(options, WithPoisonIsolation())
			want, skipped = "ada=718", 3
		}
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, options...)
		runOnce(t, r)
		state := must[map[string][]byte](t)(r.Topology().SnapshotPartition(0))
		if got := string(state["ledger"]); got != want {
			t.Errorf("isolation %v: state %q; want %q", isolate, got, want)
		}
		if got := r.Stats().RecordsSkipped; got != skipped {
			t.Errorf("isolation %v: %d records skipped; want %d", isolate, got, skipped)
		}
	}
}

func TestSkippedBatchLeavesTheOtherPartitions(t *testing.T) {
	consumer := &scriptedConsumer{fetches: []fetch{{in(0): rows(0, 0, "ada 1"), in(1): rows(1, 0, "bob -1"), in(2): rows(2, 0, "cyd 3")}}}
	producer := &recordingProducer{}
	r := newTestRunner(t, ledgerTopology(t), consumer, producer, WithErrorPolicy(SkipPolicy()))
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 1, in(1): 1, in(2): 1}, runOnce(t, r)); diff != "" {
		t.Errorf("offsets mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ada 1", "cyd 3"}, producer.values("out")); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestRunnerRefusesBadArguments(t *testing.T) {
	var noStore *FileStateStore
	var noConsumer *scriptedConsumer
	reader := cutsOf(t, nil)
	listener := func(Barrier) {}
	tests := []struct {
		name    string
		options []GroupRunnerOption
		want    string
	}{
		{"listener without group", []GroupRunnerOption{WithBarrierListener(listener)}, "a barrier listener requires a barrier group"},
		{"group without reader", []GroupRunnerOption{WithBarrierGroup("audit", nil)}, "a barrier group needs both a name and a cut reader"},
		{"reader without group", []GroupRunnerOption{WithBarrierGroup("", reader)}, "a barrier group needs both a name and a cut reader"},
		{"policy", []GroupRunnerOption{WithErrorPolicy(DeadLetterPolicy(""))}, "ActionDeadLetter requires a DeadLetterTopic, the topic for the records that fail"},
		{"nil store", []GroupRunnerOption{WithStateStore(nil)}, "the state store is nil"},
		{"nil pointer store", []GroupRunnerOption{WithStateStore(noStore)}, "the state store is nil"},
		{"nil metrics", []GroupRunnerOption{WithMetrics(nil)}, "the metrics are nil"},
		{"nil listener", []GroupRunnerOption{WithBarrierListener(nil)}, "the barrier listener is nil"},
		{"nil logger", []GroupRunnerOption{WithLogger(nil)}, "the logger is nil"},
		{"nil option", []GroupRunnerOption{nil}, "group runner option 0 is nil"},
		{"numbers", []GroupRunnerOption{
			WithParallelism(0), WithMaxInFlight(0), WithMaxPollRecords(0), WithSnapshotInterval(-1), WithMissingState(9), WithOutOfRange(9), WithHeldBytes(0),
			WithAlignmentDeadline(-1), WithPollTimeout(-1), WithBackoff(2, 1), WithCloseTimeout(-1),
		}, strings.Join([]string{
			"0 records a poll", "parallelism of 0 partitions", "0 records in flight", "snapshot interval -1ns is negative",
			"unknown missing state policy 9", "unknown out of range policy 9", "0 held bytes", "alignment deadline -1ns is negative", "poll timeout -1ns is negative",
			"back-off from 2ns to 1ns", "close timeout -1ns is negative",
		}, "\n")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			consumer := &scriptedConsumer{}
			r, err := NewGroupRunner(countingTopology(t), consumer, &recordingProducer{}, test.options...)
			if r != nil || err == nil || err.Error() != test.want {
				t.Errorf("NewGroupRunner = %v, %v; want nil, %q", r, err, test.want)
			}
			if consumer.subscribed != nil {
				t.Error("the consumer was subscribed nonetheless")
			}
		})
	}
	const everything = "a group runner needs a topology\na group runner needs a consumer\na group runner needs a producer"
	if _, err := NewGroupRunner(nil, noConsumer, nil); err == nil || err.Error() != everything {
		t.Errorf("NewGroupRunner without anything = %v; want %q", err, everything)
	}
	if _, err := NewGroupRunner(NewTopology(memory.DefaultAllocator), &scriptedConsumer{}, &recordingProducer{}); err == nil || !strings.Contains(err.Error(), "topology has no source") {
		t.Errorf("NewGroupRunner of an empty topology = %v", err)
	}
	cause := errors.New("not reachable")
	if _, err := NewGroupRunner(countingTopology(t), &scriptedConsumer{failWith: map[string]error{"Subscribe": cause}}, &recordingProducer{}); !errors.Is(err, cause) {
		t.Errorf("NewGroupRunner with a failing Subscribe = %v; want %v", err, cause)
	}
}

func TestTransactionalRoundNeedsATransactionalProducer(t *testing.T) {
	r := newTestRunner(t, countingTopology(t), &scriptedConsumer{}, &recordingProducer{})
	if _, err := r.RunOnceTransactional(t.Context(), 0); err == nil || err.Error() != "producer does not support transactions" {
		t.Errorf("RunOnceTransactional = %v", err)
	}
}

// failingPolls is a consumer whose polls also return errors beside records.
type failingPolls struct {
	scriptedConsumer
	errs []error
}

func (c *failingPolls) Poll(ctx context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error) {
	fetched, err := c.scriptedConsumer.Poll(ctx, timeout)
	if len(c.errs) > 0 {
		err, c.errs = c.errs[0], c.errs[1:]
	}
	return fetched, err
}

func TestRecordsThatComeWithAnErrorComeAgain(t *testing.T) {
	flaky := errors.New("a broker is gone")
	consumer := &failingPolls{errs: []error{nil, flaky}}
	consumer.add(fetch{in(0): stretch(0, 0, 2)}, fetch{in(0): stretch(0, 2, 4)}, fetch{in(0): stretch(0, 2, 6)})
	r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{})
	r.OnPartitionsAssigned([]TopicPartition{in(0)})
	runOnce(t, r)
	if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, flaky) {
		t.Fatalf("RunOnce = %v, want the error of the poll", err)
	}
	if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
		t.Errorf("sought mismatch (-want +got):\n%s", diff)
	}
	runOnce(t, r)
	if diff := cmp.Diff(counted(6), must[map[string][]byte](t)(r.Topology().SnapshotPartition(0))); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
}

func TestRunnerRefusesFetchesThatAreNoSequence(t *testing.T) {
	offsets := func(offsets ...int64) []ConsumedRecord {
		records := stretch(0, 0, int64(len(offsets)))
		for i := range records {
			records[i].Offset = offsets[i]
		}
		return records
	}
	for name, test := range map[string]struct {
		fetched []ConsumedRecord
		want    string
	}{
		"twice":             {offsets(2, 3, 3), "columnar: the consumer delivered offset 3 of in/0 behind offset 3"},
		"backwards":         {offsets(2, 5, 4), "columnar: the consumer delivered offset 4 of in/0 behind offset 5"},
		"negative":          {offsets(-2, 2), "columnar: the consumer delivered offset -2 of in/0 behind offset -1"},
		"another partition": {stretch(7, 2, 4), "columnar: the consumer delivered a record of partition 7 as one of in/0"},
	} {
		t.Run(name, func(t *testing.T) {
			consumer := &scriptedConsumer{}
			consumer.add(fetch{in(0): stretch(0, 0, 2)}, fetch{in(0): test.fetched}, fetch{in(0): offsets(2, 4)})
			r := newTestRunner(t, countingTopology(t), consumer, &recordingProducer{})
			r.OnPartitionsAssigned([]TopicPartition{in(0)})
			runOnce(t, r)
			if _, err := r.RunOnce(t.Context(), 0); err == nil || err.Error() != test.want {
				t.Fatalf("RunOnce = %v, want %s", err, test.want)
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 5}, runOnce(t, r)); diff != "" {
				t.Errorf("offsets mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[TopicPartition]int64{in(0): 2}, consumer.sought); diff != "" {
				t.Errorf("sought mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(counted(4), must[map[string][]byte](t)(r.Topology().SnapshotPartition(0))); diff != "" {
				t.Errorf("state mismatch (-want +got):\n%s", diff)
			}
			topology := must[*BuiltTopology](t)(countingTopology(t).Build())
			consumer.add(fetch{in(0): test.fetched})
			if next, err := RunPartitionOnce(t.Context(), topology, consumer, &recordingProducer{}, "in", 0, 2, 0); next != 2 || err == nil || err.Error() != test.want {
				t.Errorf("RunPartitionOnce = %d, %v, want 2, %s", next, err, test.want)
			}
		})
	}
}
