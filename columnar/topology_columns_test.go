// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// builder adds nodes and fails the test when one is refused where it is added.
type builder struct {
	*columnar.Topology
	t   *testing.T
	mem memory.Allocator
}

func (b builder) source(name string, fields ...arrow.Field) columnar.Node {
	b.t.Helper()
	codec, err := columnar.NewJSONCodec(b.mem, arrow.NewSchema(fields, nil))
	if err != nil {
		b.t.Fatal(err)
	}
	node, err := b.AddSource(name, []string{name}, codec)
	return b.added(node, err)
}

func (b builder) then(name string, operator *columnar.BuiltinOp, parent columnar.Node) columnar.Node {
	b.t.Helper()
	node, err := b.AddOperator(name, operator, parent)
	return b.added(node, err)
}

func (b builder) sink(parent columnar.Node, options ...columnar.JSONCodecOption) {
	b.t.Helper()
	b.sinkNamed("out", parent, options...)
}

func (b builder) sinkNamed(name string, parent columnar.Node, options ...columnar.JSONCodecOption) {
	b.t.Helper()
	codec, err := columnar.NewJSONCodec(b.mem, nil, options...)
	if err != nil {
		b.t.Fatal(err)
	}
	node, err := b.AddSink(name, "out", codec, parent)
	b.added(node, err)
}

func (b builder) added(node columnar.Node, err error) columnar.Node {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return node
}

var (
	orderBytes = arrow.Field{Name: "blob", Type: arrow.BinaryTypes.Binary}
	orderID    = arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64}
	orderText  = arrow.Field{Name: "status", Type: arrow.BinaryTypes.String}
	orderTime  = arrow.Field{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms}
)

func groupBy(t *testing.T, mem memory.Allocator, grouping columnar.Grouping) *columnar.BuiltinOp {
	t.Helper()
	operator, err := columnar.NewGroupBy(mem, grouping)
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

// Each topology is well-formed as a graph, and names or types of its columns are
// wrong: Build says so, without a record.
func TestBuildChecksColumns(t *testing.T) {
	sum := []columnar.Aggregation{{Function: columnar.Sum, InputColumn: "blob", OutputColumn: "total"}}
	count := []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "n"}}
	tests := []struct {
		name     string
		describe func(b builder)
		nodes    []string // that the error names
		column   string   // of the first error; empty where no column is to blame
	}{
		{"filter of a column that is not there", func(b builder) {
			b.sink(b.then("filter", columnar.FilterWhere(b.mem, columnar.Column("stauts").Equal("paid")), b.source("in", orderID, orderText)))
		}, []string{"filter"}, "stauts"},
		{"comparison of text with a number", func(b builder) {
			b.sink(b.then("filter", columnar.FilterWhere(b.mem, columnar.Column("status").Greater(7)), b.source("in", orderID, orderText)))
		}, []string{"filter"}, "status"},
		{"predicate that is no truth value", func(b builder) {
			b.sink(b.then("filter", columnar.FilterWhere(b.mem, columnar.Column("id").Add(1)), b.source("in", orderID)))
		}, []string{"filter"}, "id"},
		{"derived column of text times two", func(b builder) {
			b.sink(b.then("derive", columnar.Derive(b.mem, columnar.Column("status").Mul(2).As("twice")), b.source("in", orderText)))
		}, []string{"derive"}, "status"},
		{"column that a step before has dropped", func(b builder) {
			selected := b.then("select", columnar.Select(b.mem, "id"), b.source("in", orderID, orderText))
			b.sink(b.then("filter", columnar.FilterWhere(b.mem, columnar.Column("status").IsNull()), selected))
		}, []string{"filter"}, "status"},
		{"selected column that is not there", func(b builder) {
			b.sink(b.then("select", columnar.Select(b.mem, "ID"), b.source("in", orderID)))
		}, []string{"select"}, "ID"},
		{"group key that is not there", func(b builder) {
			b.sink(b.then("group", groupBy(b.t, b.mem, columnar.Grouping{Keys: []string{"user"}, Aggregations: count}), b.source("in", orderID)))
		}, []string{"group"}, "user"},
		{"sum of bytes", func(b builder) {
			b.sink(b.then("group", groupBy(b.t, b.mem, columnar.Grouping{Keys: []string{"id"}, Aggregations: sum}), b.source("in", orderID, orderBytes)))
		}, []string{"group"}, "blob"},
		{"event time of text", func(b builder) {
			b.sink(b.then("group", groupBy(b.t, b.mem, columnar.Grouping{Keys: []string{"id"}, Aggregations: count, Window: time.Minute, TimeColumn: "status"}),
				b.source("in", orderID, orderText)))
		}, []string{"group"}, "status"},
		{"record key of a number", func(b builder) {
			b.sink(b.then("key", columnar.WithKey(b.mem, columnar.Column("id")), b.source("in", orderID)))
		}, []string{"key"}, columnar.KeyColumn},
		{"join key that one side does not have", func(b builder) {
			joined, err := b.AddJoin("join", columnar.Join{LeftKey: "id", RightKey: "order"}, b.source("left", orderID), b.source("right", orderID))
			b.sink(b.added(joined, err))
		}, []string{"join"}, "order"},
		{"join of text with a number", func(b builder) {
			joined, err := b.AddJoin("join", columnar.Join{LeftKey: "id", RightKey: "status"}, b.source("left", orderID), b.source("right", orderText))
			b.sink(b.added(joined, err))
		}, []string{"join"}, "status"},
		{"join of text with the bytes of the record key", func(b builder) {
			joined, err := b.AddJoin("join", columnar.Join{LeftKey: columnar.KeyColumn, RightKey: "status"}, b.source("left", orderID), b.source("right", orderText))
			b.sink(b.added(joined, err))
		}, []string{"join"}, "status"},
		{"column that a join does not give", func(b builder) {
			joined, err := b.AddJoin("join", columnar.Join{LeftKey: "id", RightKey: "id"}, b.source("left", orderID), b.source("right", orderID, orderText))
			b.sink(b.then("filter", columnar.FilterWhere(b.mem, columnar.Column("status").IsNull()), b.added(joined, err)))
		}, []string{"filter"}, "status"},
		{"join whose sides have the same names", func(b builder) {
			joined, err := b.AddJoin("join", columnar.Join{LeftKey: "id", RightKey: "id", LeftPrefix: "x_", RightPrefix: "x_"}, b.source("left", orderID), b.source("right", orderID))
			b.sink(b.added(joined, err))
		}, []string{"join"}, "x_id"},
		{"merge of branches with other columns", func(b builder) {
			merged, err := b.AddMerge("merge", []columnar.Node{b.source("a", orderID), b.source("b", orderText)})
			b.sink(b.added(merged, err))
		}, []string{"merge"}, ""},
		{"JSON key of a column that the results do not have", func(b builder) {
			grouped := b.then("group", groupBy(b.t, b.mem, columnar.Grouping{Keys: []string{"id"}, Aggregations: count}), b.source("in", orderID))
			b.sink(grouped, columnar.WithJSONKey("user"))
		}, []string{"out"}, "user"},
		{"two nodes that do not fit", func(b builder) {
			in := b.source("in", orderID)
			b.sinkNamed("out 1", b.then("one", columnar.Select(b.mem, "nothing"), in))
			b.sink(b.then("two", columnar.Select(b.mem, "nowhere"), in))
		}, []string{"one", "two"}, "nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer mem.AssertSize(t, 0)
			b := builder{columnar.NewTopology(mem), t, mem}
			tt.describe(b)
			_, err := b.Build()
			if err == nil {
				t.Fatal("the topology was built")
			}
			var nodes []string
			var column string
			joined := []error{err}
			if several, ok := err.(interface{ Unwrap() []error }); ok {
				joined = several.Unwrap()
			}
			for i, err := range joined {
				var node *columnar.NodeError
				if !errors.As(err, &node) {
					t.Fatalf("%v names no node", err)
				}
				nodes = append(nodes, node.Node)
				var of *columnar.ColumnError
				if errors.As(err, &of) && i == 0 {
					column = of.Column
				}
			}
			if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
				t.Errorf("nodes of %v mismatch (-want +got):\n%s", err, diff)
			}
			if column != tt.column {
				t.Errorf("%v names the column %q, want %q", err, column, tt.column)
			}
		})
	}
}

// lateCodec is a codec that learns its columns from the records.
type lateCodec struct{ columnar.BatchCodec }

// What is known only when there are records is not held against a topology, and
// code of the user's does not run before there are any.
func TestBuildLeavesUnknownColumnsAlone(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	wrong := columnar.Select(mem, "nowhere")
	processor := func() columnar.Processor {
		t.Error("the processor was made")
		return nil
	}
	b := builder{columnar.NewTopology(mem), t, mem}
	in := b.source("in", orderID, orderTime)
	windowed := b.then("windows", groupBy(t, mem, columnar.Grouping{Keys: []string{"id"}, Window: time.Second, TimeColumn: "at"}), in)
	lateRows, err := b.AddLateRows("late", windowed)
	b.sinkNamed("late out", b.then("behind late rows", wrong, b.added(lateRows, err)))
	processed, err := b.AddProcessor("processor", processor, in)
	b.sinkNamed("processed out", b.then("behind the processor", wrong, b.added(processed, err)))
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{orderID}, nil))
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := b.AddSource("unknown", []string{"unknown"}, lateCodec{codec})
	b.sinkNamed("unknown out", b.then("behind the unknown", wrong, b.added(unknown, err)))
	b.sink(windowed)
	built, err := b.Build()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	if err := built.Close(); err != nil {
		t.Fatal(err)
	}
}
