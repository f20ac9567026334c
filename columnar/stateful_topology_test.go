// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// windowTopology counts rows per user in windows of 10 s into the topic out,
// and sends late rows to the topic late.
func windowTopology(tb testing.TB, mem memory.Allocator, emit Emission) *BuiltTopology {
	tb.Helper()
	return must[*BuiltTopology](tb)(countInWindows(tb, mem, emit).Build())
}

func countInWindows(tb testing.TB, mem memory.Allocator, emit Emission) *Topology {
	tb.Helper()
	topology := NewTopology(mem)
	codec := wideCodec{amountCodec{mem}}
	source := must[Node](tb)(topology.AddSource("source", []string{"in"}, codec))
	grouping := Grouping{Keys: []string{"user"}, Aggregations: countRows(), Window: 10 * time.Second, Emit: emit}
	windows := must[Node](tb)(topology.AddOperator("windows", must[*BuiltinOp](tb)(NewGroupBy(mem, grouping)), source))
	late := must[Node](tb)(topology.AddLateRows("late", windows))
	must[Node](tb)(topology.AddSink("sink", "out", codec, windows))
	must[Node](tb)(topology.AddSink("late-sink", "late", codec, late))
	return topology
}

func TestLateRowsGoToTheirOwnNode(t *testing.T) {
	mem := newAllocator(t)
	built := windowTopology(t, mem, EmitChanges)
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "100000 a 1", "200000 a 2", "50000 a 3", "199999 b 4")))
	want := []string{
		"out:a 100000 110000 1", "out:a 200000 210000 1",
		"late:a 3 50000 60000 200000", "late:b 4 190000 200000 200000",
	}
	if diff := cmp.Diff(want, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	var stamps []int64
	for _, output := range outputs {
		stamps = append(stamps, output.Record.Timestamp)
	}
	if diff := cmp.Diff([]int64{100_000, 200_000, 50_000, 199_999}, stamps); diff != "" {
		t.Errorf("timestamps mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"windows": 2}, built.LateDropped(0)); diff != "" {
		t.Errorf("LateDropped mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{}, built.LateDropped(7)); diff != "" {
		t.Errorf("LateDropped of a partition that does not exist mismatch (-want +got):\n%s", diff)
	}
}

func TestLateRowsOfAFailedRunDoNotCount(t *testing.T) {
	mem := newAllocator(t)
	built := windowTopology(t, mem, EmitChanges)
	must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "200000 a 1")))
	must[[]ProducedToTopic](t)(built.runPartition(0, inputOf(timed(0, "5 a 1", "6 a 1"))))
	if got := built.LateDropped(0)["windows"]; got != 2 {
		t.Errorf("%d rows late before the rollback, want 2", got)
	}
	if err := built.rollbackPartition(0); err != nil {
		t.Fatal(err)
	}
	if got := built.LateDropped(0)["windows"]; got != 0 {
		t.Errorf("%d rows late behind the rollback, want none", got)
	}
}

func TestLateRowsNeedWindows(t *testing.T) {
	mem := newAllocator(t)
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
	table := must[Node](t)(topology.AddOperator("table", GroupBy(mem, []string{"user"}), source))
	for _, parent := range []Node{source, table} {
		if _, err := topology.AddLateRows("late", parent); err == nil || !strings.Contains(err.Error(), "late rows come from an operator with windows") {
			t.Errorf("AddLateRows = %v, want an error", err)
		}
	}
	if _, err := topology.AddLateRows("late", Node{}); err == nil || !strings.Contains(err.Error(), "parent is not a node in this topology") {
		t.Errorf("AddLateRows below no node = %v", err)
	}
}

func TestAddJoinRefusesInvalidWindows(t *testing.T) {
	mem := newAllocator(t)
	topology := NewTopology(mem)
	left := must[Node](t)(topology.AddSource("left", []string{"l"}, amountCodec{mem}))
	right := must[Node](t)(topology.AddSource("right", []string{"r"}, amountCodec{mem}))
	for want, add := range map[string]func() (Node, error){
		"parent is not a node in this topology":       func() (Node, error) { return topology.AddJoin("x", Join{Window: -1}, left, Node{}) },
		"a join needs two different parents":          func() (Node, error) { return topology.AddJoin("x", Join{Window: -1}, left, left) },
		"window must not be negative":                 func() (Node, error) { return topology.AddJoin("x", Join{Window: -1}, left, right) },
		"window must use millisecond precision":       func() (Node, error) { return topology.AddJoin("x", Join{Window: time.Microsecond}, left, right) },
		"maximum number of rows must not be negative": func() (Node, error) { return topology.AddJoin("x", Join{MaxRows: -1}, left, right) },
		"node `x`: a join needs LeftKey and RightKey, the columns that are compared": func() (Node, error) {
			return topology.AddJoin("x", Join{LeftKey: "user", Window: time.Second}, left, right)
		},
	} {
		if _, err := add(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AddJoin = %v, want %q", err, want)
		}
	}
}

func TestAdvanceTimeClosesTheLastWindowOnce(t *testing.T) {
	mem := newAllocator(t)
	built := windowTopology(t, mem, EmitFinal)
	if outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "1000 a 1", "2000 a 1", "9999 b 1"))); len(outputs) != 0 {
		t.Errorf("an open window gave %q", produced(outputs))
	}
	// Another partition has its own time.
	must[[]ProducedToTopic](t)(built.RunBatch("in", timed(1, "500000 a 1")))
	want := []string{"out:a 0 10000 2", "out:b 0 10000 1"}
	for _, step := range []struct {
		to   int64
		want []string
	}{{9_999, nil}, {10_000, want}, {10_000, nil}, {60_000, nil}} {
		outputs := must[[]ProducedToTopic](t)(built.AdvanceTime(0, step.to))
		if diff := cmp.Diff(step.want, produced(outputs)); diff != "" {
			t.Errorf("advance to %d mismatch (-want +got):\n%s", step.to, diff)
		}
	}
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "3000 a 9")))
	if diff := cmp.Diff([]string{"late:a 9 0 10000 60000"}, produced(outputs)); diff != "" {
		t.Errorf("row behind the advance mismatch (-want +got):\n%s", diff)
	}
}

func TestAdvanceTimeIsTakenBack(t *testing.T) {
	mem := newAllocator(t)
	built := windowTopology(t, mem, EmitFinal)
	must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "1000 a 1")))
	want := []string{"out:a 0 10000 1"}
	for range 2 {
		outputs := must[[]ProducedToTopic](t)(built.advancePartition(0, 10_000))
		if diff := cmp.Diff(want, produced(outputs)); diff != "" {
			t.Errorf("outputs mismatch (-want +got):\n%s", diff)
		}
		if err := built.rollbackPartition(0); err != nil {
			t.Fatal(err)
		}
	}
	must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "9000 a 1")))
	if outputs := must[[]ProducedToTopic](t)(built.AdvanceTime(0, 10_000)); produced(outputs)[0] != "out:a 0 10000 2" {
		t.Errorf("outputs = %q, want both rows", produced(outputs))
	}
}

func TestRestoredWindowsCloseWithoutARow(t *testing.T) {
	mem := newAllocator(t)
	built := windowTopology(t, mem, EmitFinal)
	must[[]ProducedToTopic](t)(built.RunBatch("in", timed(0, "1000 a 1")))
	restored := windowTopology(t, mem, EmitFinal)
	if err := restored.RestorePartition(0, must[map[string][]byte](t)(built.SnapshotPartition(0))); err != nil {
		t.Fatal(err)
	}
	outputs := must[[]ProducedToTopic](t)(restored.AdvanceTime(0, 10_000))
	if diff := cmp.Diff([]string{"out:a 0 10000 1"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

// clockwork emits a batch whenever time advances.
type clockwork struct{ mem memory.Allocator }

func (clockwork) Process(*Context, arrow.RecordBatch) error { return nil }

func (c clockwork) AdvanceTime(ctx *Context, timestamp int64) error {
	batch, err := amountCodec(c).Decode("in", timed(ctx.Partition(), "0 tick 1"))
	if err != nil {
		return err
	}
	ctx.Forward(batch)
	if timestamp < 0 {
		return errTally
	}
	return nil
}

func TestProcessorsSeeTimeAdvance(t *testing.T) {
	mem := newAllocator(t)
	state := &tally{}
	built := chain(t, mem, func() Processor { return clockwork{mem} }, func() Processor { return state })
	outputs := must[[]ProducedToTopic](t)(built.AdvanceTime(3, 5))
	if diff := cmp.Diff([]string{"out:tick 1"}, produced(outputs)); diff != "" || state.rows != 1 {
		t.Errorf("outputs mismatch, %d rows counted (-want +got):\n%s", state.rows, diff)
	}
	if _, err := built.AdvanceTime(3, -5); !errors.Is(err, errTally) || state.rows != 1 {
		t.Errorf("error = %v, %d rows counted, want errTally and 1", err, state.rows)
	}
}

// TestStateOfAnotherTopology restores the state of a node count into topologies
// that differ in nodes and configuration.
func TestStateOfAnotherTopology(t *testing.T) {
	mem := newAllocator(t)
	build := func(operators map[string]*BuiltinOp) *BuiltTopology {
		topology := NewTopology(mem)
		parent := must[Node](t)(topology.AddSource("source", []string{"in"}, amountCodec{mem}))
		for _, name := range slices.Sorted(maps.Keys(operators)) {
			node := must[Node](t)(topology.AddOperator(name, operators[name], parent))
			must[Node](t)(topology.AddSink("sink of "+name, "out", must[*JSONCodec](t)(NewJSONCodec(mem, nil)), node))
		}
		must[Node](t)(topology.AddSink("sink", "out", amountCodec{mem}, parent))
		return must[*BuiltTopology](t)(topology.Build())
	}
	count := func(keys ...string) *BuiltinOp { return GroupBy(mem, keys, countRows()...) }
	built := build(map[string]*BuiltinOp{"count": count("user"), "pass": Filter(mem, keepAll)})
	must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "a 1")))
	snapshot, layout := must[map[string][]byte](t)(built.SnapshotPartition(0)), built.layout()

	for name, test := range map[string]struct {
		operators map[string]*BuiltinOp
		want      *SnapshotMismatchError
	}{
		"the same":   {map[string]*BuiltinOp{"count": count("user")}, nil},
		"renamed":    {map[string]*BuiltinOp{"count2": count("user")}, &SnapshotMismatchError{Unmapped: []string{"count"}, Uncovered: []string{"count2"}}},
		"removed":    {map[string]*BuiltinOp{"pass": Filter(mem, keepAll)}, &SnapshotMismatchError{Unmapped: []string{"count"}}},
		"one more":   {map[string]*BuiltinOp{"count": count("user"), "more": count("user")}, &SnapshotMismatchError{Uncovered: []string{"more"}}},
		"other keys": {map[string]*BuiltinOp{"count": count("amount")}, &SnapshotMismatchError{Incompatible: []string{"count"}}},
	} {
		t.Run(name, func(t *testing.T) {
			other := build(test.operators)
			var mismatch *SnapshotMismatchError
			errors.As(other.checkSnapshot(0, snapshot, layout), &mismatch)
			if diff := cmp.Diff(test.want, mismatch); diff != "" {
				t.Errorf("checkSnapshot mismatch (-want +got):\n%s", diff)
			}
			err := other.RestorePartition(0, snapshot)
			var form *StateLayoutError
			if incompatible := test.want != nil && test.want.Incompatible != nil; errors.As(err, &form) != incompatible || (err != nil) != incompatible {
				t.Errorf("RestorePartition = %v, want a StateLayoutError only for another form", err)
			}
		})
	}
}

// TestAllocationFailureLeavesStateAlone fails every allocation of a run through
// windows, late rows and a join, one after the other.
func TestAllocationFailureLeavesStateAlone(t *testing.T) {
	checked := newAllocator(t)
	mem := &failingAllocator{Allocator: checked, left: 1 << 30}
	topology := NewTopology(mem)
	codec := amountCodec{checked}
	left := must[Node](t)(topology.AddSource("left", []string{"l"}, codec))
	right := must[Node](t)(topology.AddSource("right", []string{"r"}, codec))
	aggregations := append(countRows(), Aggregation{InputColumn: "user", OutputColumn: "last", Function: Max})
	for i, emit := range []Emission{EmitTable, EmitChanges, EmitFinal} {
		name := string(rune('a' + i))
		grouping := Grouping{Keys: []string{"user", "amount"}, Aggregations: aggregations, Window: 10 * time.Millisecond, Emit: emit}
		windows := must[Node](t)(topology.AddOperator(name, must[*BuiltinOp](t)(NewGroupBy(mem, grouping)), left))
		late := must[Node](t)(topology.AddLateRows("late "+name, windows))
		must[Node](t)(topology.AddSink("sink of "+name, "late", must[*JSONCodec](t)(NewJSONCodec(mem, nil)), late))
	}
	joined := must[Node](t)(topology.AddJoin("join", byUser(time.Second), left, right))
	merged := must[Node](t)(topology.AddMerge("merge", []Node{left, right}))
	must[Node](t)(topology.AddSink("sink", "out", codec, joined))
	must[Node](t)(topology.AddSink("all", "all", codec, merged))
	built := must[*BuiltTopology](t)(topology.Build())
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "1 a 1", "2 b 2", "15 a 3")))
	before := must[map[string][]byte](t)(built.SnapshotPartition(0))
	input := map[string][]ConsumedRecord{"l": timed(0, "30 a 1", "2 b 2", "31 c 3"), "r": timed(0, "15 a 5", "31 c 6")}
	for n := 0; ; n++ {
		mem.left = n
		done := func() (done bool) {
			defer func() {
				if got := recover(); got != nil && got != errAllocation {
					panic(got)
				}
			}()
			_, err := built.RunBatches(input)
			return err == nil
		}()
		checked.AssertSize(t, 0)
		if done {
			if n < 50 {
				t.Errorf("the run made %d allocations, too few to prove anything", n)
			}
			break
		}
		if after := must[map[string][]byte](t)(built.SnapshotPartition(0)); !cmp.Equal(before, after) {
			t.Fatalf("failure of allocation %d changed the state", n)
		}
	}
	if after := must[map[string][]byte](t)(built.SnapshotPartition(0)); cmp.Equal(before, after) {
		t.Error("the run that succeeded changed nothing")
	}
}
