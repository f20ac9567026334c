// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// joinOf builds a topology that joins the topics l and r on user and sends the
// pairs to out, in all their payload columns.
func joinOf(tb testing.TB, mem memory.Allocator, join Join) *BuiltTopology {
	tb.Helper()
	topology := NewTopology(mem)
	codec := wideCodec{amountCodec{mem}}
	left := must[Node](tb)(topology.AddSource("left", []string{"l"}, codec))
	right := must[Node](tb)(topology.AddSource("right", []string{"r"}, codec))
	joined := must[Node](tb)(topology.AddJoin("join", join, left, right))
	must[Node](tb)(topology.AddSink("sink", "out", codec, joined))
	return must[*BuiltTopology](tb)(topology.Build())
}

// wideCodec writes all payload columns.
type wideCodec struct{ amountCodec }

func (c wideCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	payload, metadata := PayloadBatch(batch), NewRowMetadata(batch)
	defer payload.Release()
	records := make([]ProduceRecord, batch.NumRows())
	for i, row := range arrowtest.Rows(payload) {
		records[i] = ProduceRecord{Value: []byte(row), Timestamp: metadata.timestampOf(i)}
	}
	return records, nil
}

func byUser(window time.Duration) Join {
	return Join{LeftKey: "user", RightKey: "user", Window: window}
}

// timed makes records from texts such as "5 ada 7": timestamp and value.
func timed(partition int, records ...string) []ConsumedRecord {
	list := make([]ConsumedRecord, len(records))
	for i, record := range records {
		stamp, value, _ := strings.Cut(record, " ")
		list[i] = ConsumedRecord{Value: []byte(value), Partition: partition, Offset: int64(i)}
		if _, err := fmt.Sscan(stamp, &list[i].Timestamp); err != nil {
			panic(err)
		}
	}
	return list
}

func TestJoinSurvivesASnapshot(t *testing.T) {
	mem := newAllocator(t)
	built := joinOf(t, mem, byUser(10*time.Millisecond))
	if outputs := must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "100 a 5"))); len(outputs) != 0 {
		t.Errorf("a left row alone gave %q", produced(outputs))
	}
	restored := joinOf(t, mem, byUser(10*time.Millisecond))
	if err := restored.RestorePartition(0, must[map[string][]byte](t)(built.SnapshotPartition(0))); err != nil {
		t.Fatal(err)
	}
	if outputs := must[[]ProducedToTopic](t)(restored.RunBatch("r", timed(1, "105 a 9"))); len(outputs) != 0 {
		t.Errorf("another partition gave %q", produced(outputs))
	}
	outputs := must[[]ProducedToTopic](t)(restored.RunBatch("r", timed(0, "105 a 9")))
	if diff := cmp.Diff([]string{"out:a 5 a 9"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if outputs[0].Record.Timestamp != 100 {
		t.Errorf("timestamp = %d, want that of the left row", outputs[0].Record.Timestamp)
	}
}

func TestJoinPairsInOrder(t *testing.T) {
	mem := newAllocator(t)
	built := joinOf(t, mem, byUser(10*time.Millisecond))
	run := func(left, right []string) []string {
		return produced(must[[]ProducedToTopic](t)(built.RunBatches(map[string][]ConsumedRecord{"l": timed(0, left...), "r": timed(0, right...)})))
	}
	steps := []struct{ left, right, want []string }{
		{[]string{"0 a 1", "1 b 2", "2 a 3"}, nil, nil},
		// Left rows meet the right rows that are there; right rows meet all left
		// rows, those of the same run among them.
		{[]string{"3 a 4"}, []string{"3 a 1", "4 b 2"}, []string{"out:a 1 a 1", "out:a 3 a 1", "out:a 4 a 1", "out:b 2 b 2"}},
		{[]string{"5 b 5", "5 a 6"}, []string{"5 a 3"}, []string{"out:b 5 b 2", "out:a 6 a 1", "out:a 1 a 3", "out:a 3 a 3", "out:a 4 a 3", "out:a 6 a 3"}},
	}
	for i, step := range steps {
		if diff := cmp.Diff(step.want, run(step.left, step.right)); diff != "" {
			t.Errorf("step %d mismatch (-want +got):\n%s", i, diff)
		}
	}
}

func TestJoinWindowBounds(t *testing.T) {
	for _, test := range []struct {
		window      time.Duration
		left, right string
		want        int
	}{
		{0, "5 a 1", "5 a 1", 1},
		{0, "5 a 1", "6 a 1", 0},
		{10 * time.Millisecond, "0 a 1", "10 a 1", 1},
		{10 * time.Millisecond, "0 a 1", "11 a 1", 0},
		{10 * time.Millisecond, "20 a 1", "10 a 1", 1},
		{10 * time.Millisecond, "21 a 1", "10 a 1", 0},
		{10*time.Millisecond + time.Microsecond, "0 a 1", "10 a 1", 1},
		{time.Hour, fmt.Sprintf("%d a 1", int64(math.MaxInt64)), fmt.Sprintf("%d a 1", int64(math.MinInt64)), 0},
		{time.Hour, fmt.Sprintf("%d a 1", int64(math.MaxInt64)), fmt.Sprintf("%d a 1", int64(math.MaxInt64-1)), 1},
	} {
		for _, leftFirst := range []bool{true, false} {
			built := joinOf(t, newAllocator(t), byUser(test.window))
			topics, records := []string{"l", "r"}, [][]ConsumedRecord{timed(0, test.left), timed(0, test.right)}
			if !leftFirst {
				slices.Reverse(topics)
				slices.Reverse(records)
			}
			pairs := 0
			for i, topic := range topics {
				pairs += len(must[[]ProducedToTopic](t)(built.RunBatch(topic, records[i])))
			}
			if pairs != test.want {
				t.Errorf("window %s, left first %v: %q and %q made %d pairs, want %d", test.window, leftFirst, test.left, test.right, pairs, test.want)
			}
		}
	}
}

func TestJoinLimit(t *testing.T) {
	mem := newAllocator(t)
	join := byUser(10 * time.Millisecond)
	join.MaxRows = 3
	built := joinOf(t, mem, join)
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "0 a 1", "1 a 2", "2 a 3")))
	_, err := built.RunBatch("l", timed(0, "3 a 4"))
	var limit *StateLimitError
	if !errors.As(err, &limit) || limit.Limit != 3 {
		t.Fatalf("error = %v, want a StateLimitError of 3", err)
	}
	// Progress of the other side makes room, and so does an advance of time.
	must[[]ProducedToTopic](t)(built.RunBatch("r", timed(0, "12 b 1")))
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "3 a 4", "4 a 5")))
	if _, err := built.RunBatch("l", timed(0, "5 a 6")); !errors.As(err, &limit) {
		t.Errorf("error = %v, want a StateLimitError", err)
	}
	must[[]ProducedToTopic](t)(built.AdvanceTime(0, 1000))
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "995 a 6", "995 a 7", "996 a 8")))
}
