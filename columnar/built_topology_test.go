// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func amountAbove(limit int64) RowPredicate {
	return func(batch arrow.RecordBatch, row int) bool {
		return batch.Column(1).(*array.Int64).Value(row) > limit
	}
}

func TestRunFansOutInSinkOrder(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
	filter := must[Node](t)(topology.AddOperator("filter", Filter(mem, amountAbove(4)), source))
	must[Node](t)(topology.AddSink("a", "out-a", codec, filter))
	must[Node](t)(topology.AddSink("b", "out-b", codec, filter))
	built := must[*BuiltTopology](t)(topology.Build())
	want := []string{"out-a:x 5", "out-a:x 9", "out-b:x 5", "out-b:x 9"}
	for range 2 {
		outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "x 1", "x 5", "x 9")))
		if diff := cmp.Diff(want, produced(outputs)); diff != "" {
			t.Errorf("outputs mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestRunIgnoresUndeclaredTopics(t *testing.T) {
	mem := newAllocator(t)
	built := chain(t, mem)
	outputs, err := built.RunBatch("other", amounts(0, "!"))
	if len(outputs) != 0 || err != nil {
		t.Errorf("RunBatch = %v, %v, want nothing", outputs, err)
	}
}

func TestRunOrdersPartitionsThenTopics(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"b", "a"}, codec))
	again := must[Node](t)(topology.AddSource("again", []string{"a"}, codec))
	must[Node](t)(topology.AddSink("sink", "out", codec, source))
	must[Node](t)(topology.AddSink("again-sink", "again", codec, again))
	must[Node](t)(topology.AddPassThroughSink("raw", "raw", source))
	built := must[*BuiltTopology](t)(topology.Build())
	outputs := must[[]ProducedToTopic](t)(built.RunBatches(map[string][]ConsumedRecord{
		"a": append(amounts(1, "a1 1", "a1 2"), append(amounts(0, "a0 1"), amounts(1, "a1 3")...)...),
		"b": amounts(1, "b1 1"),
	}))
	want := []string{
		"out:a0 1", "again:a0 1", "raw:a0 1",
		"out:a1 1", "out:a1 2", "out:a1 3", "out:b1 1",
		"again:a1 1", "again:a1 2", "again:a1 3",
		"raw:a1 1", "raw:a1 2", "raw:a1 3", "raw:b1 1",
	}
	if diff := cmp.Diff(want, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestPassThroughKeepsNullsAndNeverDecodes(t *testing.T) {
	mem := newAllocator(t)
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
	must[Node](t)(topology.AddPassThroughSink("sink", "out", source))
	built := must[*BuiltTopology](t)(topology.Build())
	records := []ConsumedRecord{
		{Key: []byte("a"), Timestamp: 3},
		{Value: []byte("!"), Timestamp: 4},
		{Key: []byte{}, Value: []byte{}, Headers: []RecordHeader{{Key: "h"}, {Key: "h", Value: []byte{}}}},
	}
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", records))
	want := []ProducedToTopic{
		{Topic: "out", Record: ProduceRecord{Key: []byte("a"), Timestamp: 3}},
		{Topic: "out", Record: ProduceRecord{Value: []byte("!"), Timestamp: 4}},
		{Topic: "out", Record: ProduceRecord{Key: []byte{}, Value: []byte{}, Headers: []RecordHeader{{Key: "h"}, {Key: "h", Value: []byte{}}}}},
	}
	if diff := cmp.Diff(want, outputs); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if built.HasPartition(0) {
		t.Error("a topology without operators holds a partition")
	}
}

func TestMergeConcatenatesInParentOrder(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	left := must[Node](t)(topology.AddSource("left", []string{"in-left"}, codec))
	right := must[Node](t)(topology.AddSource("right", []string{"in-right"}, codec))
	narrow := must[Node](t)(topology.AddOperator("narrow", Select(mem, "user"), left))
	merge := must[Node](t)(topology.AddMerge("merge", []Node{right, left}))
	must[Node](t)(topology.AddSink("sink", "out", codec, merge))
	clash := must[Node](t)(topology.AddMerge("clash", []Node{right, narrow}))
	must[Node](t)(topology.AddSink("clash-sink", "clash", codec, clash))
	built := must[*BuiltTopology](t)(topology.Build())

	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in-right", amounts(0, "r 1")))
	if diff := cmp.Diff([]string{"out:r 1", "clash:r 1"}, produced(outputs)); diff != "" {
		t.Errorf("outputs of one parent mismatch (-want +got):\n%s", diff)
	}
	_, err := built.RunBatches(map[string][]ConsumedRecord{"in-left": amounts(0, "l 1"), "in-right": amounts(0, "r 1")})
	var failure *NodeError
	if !errors.As(err, &failure) || failure.Node != "clash" || !strings.Contains(err.Error(), "Arrow batch schemas differ") {
		t.Errorf("error = %v, want a schema mismatch in clash", err)
	}
}

func TestErrorsNameNodeTopicAndPartition(t *testing.T) {
	mem := newAllocator(t)
	built := chain(t, mem, func() Processor { return &tally{failAt: 2} })
	_, err := built.RunBatch("in", amounts(7, "a 1", "a 2"))
	var failure *NodeError
	if !errors.As(err, &failure) {
		t.Fatalf("error = %v, want a NodeError", err)
	}
	want := &NodeError{Node: "n0", Topic: "in", Partition: 7, Cause: errTally}
	if *failure != *want {
		t.Errorf("error = %+v, want %+v", failure, want)
	}
	if got, want := err.Error(), "columnar: node `n0`, topic \"in\", partition 7: tally refuses"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if _, err = built.RunBatch("in", amounts(7, "!")); !errors.Is(err, errUnreadable) || !strings.Contains(err.Error(), "node `source`") {
		t.Errorf("error = %v, want that of the codec in node source", err)
	}
	_, err = built.RunPartitionBatches(3, map[string][]ConsumedRecord{"in": amounts(7, "a 1")})
	if err == nil || !strings.Contains(err.Error(), "record does not belong to partition 3") {
		t.Errorf("error = %v, want a record of another partition to be refused", err)
	}
}

func TestFailedRunChangesNoPartition(t *testing.T) {
	mem := newAllocator(t)
	made := map[int]*tally{}
	built := chain(t, mem, func() Processor {
		p := &tally{failAt: 10}
		made[len(made)] = p
		return p
	})
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1", "a 2", "a 3", "a 4")))
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(1, "a 1", "a 2", "a 3", "a 4", "a 5")))
	// Partition 0 runs well, partition 1 fails, partition 2 is not reached.
	input := append(amounts(0, "b 1"), append(amounts(1, "b 1", "b 2", "b 3", "b 4", "b 5"), amounts(2, "b 1")...)...)
	outputs, err := built.RunBatch("in", input)
	if outputs != nil || !errors.Is(err, errTally) {
		t.Fatalf("RunBatch = %v, %v, want errTally", outputs, err)
	}
	if made[0].rows != 4 || made[1].rows != 5 || len(made) != 2 {
		t.Errorf("rows = %d and %d in %d partitions, want 4 and 5 in 2", made[0].rows, made[1].rows, len(made))
	}
	// A partition that only the failed run knew does not exist.
	if _, err := built.RunBatch("in", amounts(5, "c", "c", "c", "c", "c", "c", "c", "c", "c", "c")); err == nil {
		t.Error("a run of ten rows did not fail")
	}
	if built.HasPartition(5) || !built.HasPartition(0) {
		t.Errorf("HasPartition = %v, %v, want only partition 0", built.HasPartition(5), built.HasPartition(0))
	}
}

func TestPanicOfUserCodeReleasesAndRollsBack(t *testing.T) {
	mem := newAllocator(t)
	state := &tally{}
	calls := 0
	explode := func() Processor {
		return ProcessorFunc(func(ctx *Context, batch arrow.RecordBatch) error {
			ctx.Forward(batch)
			ctx.Forward(batch.NewSlice(0, 1))
			if calls++; calls == 2 {
				panic("boom")
			}
			return nil
		})
	}
	built := chain(t, mem, func() Processor { return state }, explode)
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want the processor's panic", got)
			}
		}()
		_, _ = built.RunBatch("in", amounts(0, "a 2", "a 3"))
	}()
	if state.rows != 1 {
		t.Errorf("rows = %d after the panic, want 1", state.rows)
	}
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 4")))
	if diff := cmp.Diff([]string{"out:a 4", "out:a 4"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

func TestForwardingOwnership(t *testing.T) {
	mem := newAllocator(t)
	for name, test := range map[string]struct {
		process ProcessorFunc
		want    []string
	}{
		"nothing": {func(*Context, arrow.RecordBatch) error { return nil }, nil},
		"nil":     {func(ctx *Context, _ arrow.RecordBatch) error { ctx.Forward(nil); return nil }, nil},
		"the input twice": {func(ctx *Context, batch arrow.RecordBatch) error {
			ctx.Forward(batch)
			ctx.Forward(batch)
			return nil
		}, []string{"out:a 1", "out:b 2", "out:a 1", "out:b 2"}},
		"one batch twice": {func(ctx *Context, batch arrow.RecordBatch) error {
			part := batch.NewSlice(1, 2)
			ctx.Forward(part)
			ctx.Forward(part)
			return nil
		}, []string{"out:b 2", "out:b 2"}},
		"created and kept back": {func(ctx *Context, batch arrow.RecordBatch) error {
			part := batch.NewSlice(1, 2)
			defer part.Release()
			ctx.Forward(batch.NewSlice(0, 1))
			return nil
		}, []string{"out:a 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			built := chain(t, mem, func() Processor { return test.process })
			outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1", "b 2")))
			if diff := cmp.Diff(test.want, produced(outputs)); diff != "" {
				t.Errorf("outputs mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// holdback forwards each batch one call later.
type holdback struct{ held arrow.RecordBatch }

func (p *holdback) Process(ctx *Context, batch arrow.RecordBatch) error {
	if p.held != nil {
		ctx.Forward(p.held)
	}
	batch.Retain()
	p.held = batch
	return nil
}

func TestRetainedBatchIsForwardedByALaterCall(t *testing.T) {
	mem := newAllocator(t)
	p := &holdback{}
	// The parent forwards one batch three times, so what p holds is also its
	// input.
	thrice := ProcessorFunc(func(ctx *Context, batch arrow.RecordBatch) error {
		for range 3 {
			ctx.Forward(batch)
		}
		return nil
	})
	built := chain(t, mem, func() Processor { return thrice }, func() Processor { return p })
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
	if diff := cmp.Diff([]string{"out:a 1", "out:a 1"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	p.held.Release()
}

func TestContextOutsideATopology(t *testing.T) {
	mem := newAllocator(t)
	batch := must[arrow.RecordBatch](t)(amountCodec{mem}.Decode("in", amounts(0, "a 1", "b 9")))
	defer batch.Release()
	ctx := &Context{}
	for _, keep := range []RowPredicate{keepAll, amountAbove(4)} {
		if err := Filter(mem, keep).Process(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	taken := ctx.Take()
	if len(taken) != 2 || taken[0].NumRows() != 2 || taken[1].NumRows() != 1 {
		t.Errorf("Take() = %v, want batches of 2 and 1 rows", taken)
	}
	for _, result := range taken {
		result.Release()
	}
	if again := ctx.Take(); again != nil {
		t.Errorf("second Take() = %v, want nothing", again)
	}
}

func TestAllocationFailureLeaksNothing(t *testing.T) {
	checked := newAllocator(t)
	for n := 0; ; n++ {
		mem := &failingAllocator{Allocator: checked, left: n}
		built := chain(t, checked, Filter(mem, amountAbove(1)), Select(mem, "user", "amount"))
		done := func() (done bool) {
			defer func() {
				if got := recover(); got != nil && got != errAllocation {
					panic(got)
				}
			}()
			_, err := built.RunBatch("in", amounts(0, "a 1", "a 2", "a 3"))
			return err == nil
		}()
		checked.AssertSize(t, 0)
		if done {
			if n < 10 {
				t.Errorf("the run made %d allocations, too few to prove anything", n)
			}
			return
		}
		if built.HasPartition(0) {
			t.Fatalf("partition exists after failure of allocation %d", n)
		}
	}
}

// TestAllocationFailureInCodecsLeaksNothing fails every allocation of a run
// through decoding and encoding, one after the other.
func TestAllocationFailureInCodecsLeaksNothing(t *testing.T) {
	checked := newAllocator(t)
	nested := arrowtest.Fields("user", arrow.BinaryTypes.String, "list", arrow.ListOf(arrow.PrimitiveTypes.Int64),
		"map", arrow.MapOf(arrow.BinaryTypes.String, arrow.FixedWidthTypes.Boolean))
	batch := arrowtest.JSONBatch(t, memory.DefaultAllocator, nested, `{"user":"a","list":[1,null],"map":[{"key":"k","value":true}]}`, `{"user":null,"list":null,"map":null}`)
	stream := must[[]byte](t)(NewIPCSerde(memory.DefaultAllocator).Serialize("", batch))
	document := []byte(`{"user":"a","list":[1,null],"map":{"k":true,"k":false}}`)
	for _, test := range []struct {
		name  string
		codec func(memory.Allocator) BatchCodec
		value []byte
	}{
		{"blob", func(mem memory.Allocator) BatchCodec { return NewBlobCodec(mem) }, stream},
		{"json", func(mem memory.Allocator) BatchCodec { return must[*JSONCodec](t)(NewJSONCodec(mem, nested)) }, document},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := amounts(0, string(test.value), "", string(test.value))
			records[0].Key, records[0].Headers, records[1].Value = []byte("k"), []RecordHeader{{Key: "h"}}, nil
			for n := 0; ; n++ {
				mem := &failingAllocator{Allocator: checked, left: n}
				codec := test.codec(mem)
				topology := NewTopology(mem)
				source := must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
				must[Node](t)(topology.AddSink("sink", "out", codec, source))
				built := must[*BuiltTopology](t)(topology.Build())
				done := func() (done bool) {
					defer func() {
						if got := recover(); got != nil && got != errAllocation {
							panic(got)
						}
					}()
					_, err := built.RunBatch("in", records)
					return err == nil
				}()
				checked.AssertSize(t, 0)
				if !done {
					continue
				}
				if n < 10 {
					t.Errorf("the run made %d allocations, too few to prove anything", n)
				}
				return
			}
		})
	}
}
