// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// projecting notes which columns it is asked for.
type projecting struct {
	*columnar.JSONCodec
	asked *string
}

func (p projecting) Project(columns []string) (columnar.BatchCodec, error) {
	*p.asked = strings.Join(columns, " ")
	return p.JSONCodec.Project(columns)
}

const allColumns = "all"

func TestSourcesDecodeWhatTheTopologyReads(t *testing.T) {
	column := columnar.Column
	countBy := columnar.Grouping{Keys: []string{"k"}, Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "n"}}}
	windows := columnar.Grouping{
		Keys: []string{"k"}, Window: time.Minute, TimeColumn: "t", Emit: columnar.EmitFinal,
		Aggregations: []columnar.Aggregation{{Function: columnar.Sum, InputColumn: "v", OutputColumn: "sum"}},
	}
	byGo := func(arrow.RecordBatch, int) bool { return true }
	derivedByGo := columnar.DerivedColumn{
		Field: arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		Value: func(arrow.RecordBatch, int) (any, error) { return nil, nil },
	}
	pass := func() columnar.Processor {
		return columnar.ProcessorFunc(func(*columnar.Context, arrow.RecordBatch) error { return nil })
	}
	tests := []struct {
		name string
		want string
		add  func(b builder, source columnar.Node)
	}{
		{"a sink takes whole rows", allColumns, func(b builder, source columnar.Node) {
			b.sink(b.then("where", columnar.FilterWhere(b.mem, column("v").Greater(1)), source))
		}},
		{"select", "v k", func(b builder, source columnar.Node) {
			b.sink(b.then("select", columnar.Select(b.mem, "k", "v"), source))
		}},
		{"select of metadata", "", func(b builder, source columnar.Node) {
			b.sink(b.then("select", columnar.Select(b.mem, columnar.KeyColumn), source))
		}},
		{"where", "v k", func(b builder, source columnar.Node) {
			where := b.then("where", columnar.FilterWhere(b.mem, columnar.And(column("v").Greater(1), columnar.Not(column("v").IsNull()))), source)
			b.sink(b.then("select", columnar.Select(b.mem, "k"), where))
		}},
		{"derive", "v t", func(b builder, source columnar.Node) {
			derive := b.then("derive", columnar.Derive(b.mem, column("v").Add(column("t")).As("sum")), source)
			b.sink(b.then("select", columnar.Select(b.mem, "sum"), derive))
		}},
		{"a column that is replaced", "v", func(b builder, source columnar.Node) {
			derive := b.then("derive", columnar.Derive(b.mem, column("v").As("k")), source)
			b.sink(b.then("select", columnar.Select(b.mem, "k"), derive))
		}},
		{"a column that is replaced by itself", "v", func(b builder, source columnar.Node) {
			derive := b.then("derive", columnar.Derive(b.mem, column("v").Add(1).As("v")), source)
			b.sink(b.then("select", columnar.Select(b.mem, "v"), derive))
		}},
		{"key and timestamp", "v k t", func(b builder, source columnar.Node) {
			key := b.then("key", columnar.WithKey(b.mem, column("k")), source)
			stamp := b.then("timestamp", columnar.WithTimestamp(b.mem, column("t")), key)
			b.sink(b.then("select", columnar.Select(b.mem, "v"), stamp))
		}},
		{"count", "k", func(b builder, source columnar.Node) { b.sink(b.then("count", groupBy(b.t, b.mem, countBy), source)) }},
		{"sum in windows", "v k t", func(b builder, source columnar.Node) { b.sink(b.then("sum", groupBy(b.t, b.mem, windows), source)) }},
		{"late rows", allColumns, func(b builder, source columnar.Node) {
			late, err := b.AddLateRows("late", b.then("sum", groupBy(b.t, b.mem, windows), source))
			b.sink(b.added(late, err))
		}},
		{"some of late rows", "v k t " + columnar.TimestampColumn, func(b builder, source columnar.Node) {
			late, err := b.AddLateRows("late", b.then("sum", groupBy(b.t, b.mem, windows), source))
			b.sink(b.then("select", columnar.Select(b.mem, columnar.StreamTimeColumn, columnar.PayloadColumn(columnar.TimestampColumn)), b.added(late, err)))
		}},
		{"two branches", "v k", func(b builder, source columnar.Node) {
			b.sinkNamed("counts", b.then("count", groupBy(b.t, b.mem, countBy), source))
			b.sink(b.then("select", columnar.Select(b.mem, "v"), source))
		}},
		{"records that are passed through", "k", func(b builder, source columnar.Node) {
			b.sink(b.then("count", groupBy(b.t, b.mem, countBy), source))
			node, err := b.AddPassThroughSink("through", "through", source)
			b.added(node, err)
		}},
		{"a Go predicate", allColumns, func(b builder, source columnar.Node) {
			b.sink(b.then("select", columnar.Select(b.mem, "k"), b.then("where", columnar.Filter(b.mem, byGo), source)))
		}},
		{"a Go value", allColumns, func(b builder, source columnar.Node) {
			operator, err := columnar.WithColumns(b.mem, derivedByGo)
			if err != nil {
				b.t.Fatal(err)
			}
			b.sink(b.then("select", columnar.Select(b.mem, "x"), b.then("derive", operator, source)))
		}},
		{"a processor", allColumns, func(b builder, source columnar.Node) {
			node, err := b.AddProcessor("process", pass, source)
			b.sink(b.then("select", columnar.Select(b.mem, "k"), b.added(node, err)))
		}},
		{"a merge", allColumns, func(b builder, source columnar.Node) {
			where := b.then("where", columnar.FilterWhere(b.mem, column("v").Greater(1)), source)
			merge, err := b.AddMerge("merge", []columnar.Node{source, where})
			b.sink(b.then("select", columnar.Select(b.mem, "k"), b.added(merge, err)))
		}},
		{"a join", allColumns, func(b builder, source columnar.Node) {
			where := b.then("where", columnar.FilterWhere(b.mem, column("v").Greater(1)), source)
			join, err := b.AddJoin("join", columnar.Join{LeftKey: "k", RightKey: "k"}, source, where)
			b.sink(b.then("select", columnar.Select(b.mem, "left_k"), b.added(join, err)))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			b := builder{columnar.NewTopology(mem), t, mem}
			codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
				{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "k", Type: arrow.BinaryTypes.String, Nullable: true},
				{Name: "t", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "other", Type: arrow.PrimitiveTypes.Int64},
				{Name: columnar.TimestampColumn, Type: arrow.PrimitiveTypes.Int64, Nullable: true}, // of the payload
			}, nil))
			if err != nil {
				t.Fatal(err)
			}
			asked := allColumns
			source, err := b.AddSource("source", []string{"in"}, projecting{codec, &asked})
			test.add(b, b.added(source, err))
			built, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, asked); diff != "" {
				t.Errorf("columns mismatch (-want +got):\n%s", diff)
			}
			// The member other lacks where it is not built, which is no fault then.
			values := `{"v":5,"k":"a","t":7,"__timestamp":1}`
			_, err = built.RunBatch("in", []columnar.ConsumedRecord{{Value: []byte(values)}})
			if whole := asked == allColumns; whole != (err != nil) {
				t.Errorf("error = %v with the columns %s", err, asked)
			}
			if err := built.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A topology is built several times, and its codecs stay what they are.
func TestProjectionChangesNoCodec(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	b := builder{columnar.NewTopology(mem), t, mem}
	source := b.source("in", orderID, orderText)
	b.sink(b.then("select", columnar.Select(mem, "id"), source))
	for range 2 {
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		out, err := built.RunBatch("in", []columnar.ConsumedRecord{{Value: []byte(`{"id":5,"status":7}`)}})
		if err != nil || len(out) != 1 || string(out[0].Record.Value) != `{"id":5}` {
			t.Fatalf("RunBatch = %v, %v", out, err)
		}
	}
	b.sinkNamed("whole", source)
	built, err := b.Build()
	if err == nil {
		_, err = built.RunBatch("in", []columnar.ConsumedRecord{{Value: []byte(`{"id":5,"status":7}`)}})
	}
	if err == nil || !strings.Contains(err.Error(), "status") {
		t.Errorf("error = %v, want the member status to be named where whole rows are read", err)
	}
}
