// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// everyNode is a topology with a node of each kind.
func everyNode(t *testing.T) *columnar.Topology {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	b := builder{columnar.NewTopology(mem), t, mem}
	orders := b.source("orders", orderID, orderText)
	paid := b.then("paid", columnar.FilterWhere(mem, columnar.Column("status").Equal("paid")), orders)
	sums := b.then("sums", groupBy(t, mem, columnar.Grouping{
		Keys: []string{"id", "status"}, Window: time.Minute,
		Aggregations: []columnar.Aggregation{
			{Function: columnar.Count, OutputColumn: "n"}, {Function: columnar.Max, InputColumn: "id", OutputColumn: "top"},
		},
	}), paid)
	late, err := b.AddLateRows("late", sums)
	b.added(late, err)
	keyed := b.then("keyed", columnar.WithKey(mem, columnar.Column("status")), b.then("slim", columnar.Select(mem, "status"), orders))
	derived := b.then("derived", columnar.Derive(mem, columnar.Column("id").Add(1).As("next")), orders)
	rows, err := columnar.WithColumns(mem, columnar.DerivedColumn{
		Field: arrow.Field{Name: "next", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		Value: func(arrow.RecordBatch, int) (any, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	byHand := b.then("by hand", rows, b.then("kept", columnar.Filter(mem, func(arrow.RecordBatch, int) bool { return true }), orders))
	merged, err := b.AddMerge("merged", []columnar.Node{derived, byHand})
	b.added(merged, err)
	joined, err := b.AddJoin("joined", columnar.Join{LeftKey: "status", RightKey: "status", Window: time.Second}, merged, keyed)
	processed, err2 := b.AddProcessor("mine", func() columnar.Processor { panic("not called") }, b.added(joined, err))
	b.sink(b.added(processed, err2))
	forwarded, err := b.AddPassThroughSink("copy", `all "orders"`, orders)
	b.added(forwarded, err)
	return b.Topology
}

func TestTopologyIsDescribedAsText(t *testing.T) {
	const want = `orders: read orders
    id int64, status utf8
paid <- orders: where (status = "paid")
    id int64, status utf8
sums <- paid: group by id, status in windows of 1m0s: count() as n, max(id) as top [state]
    id int64, status utf8, __window_start int64, __window_end int64, n int64, top int64
late <- sums: late rows
slim <- orders: select status
    status utf8
keyed <- slim: set __key = status
    status utf8
derived <- orders: derive next = (id + 1)
    id int64, status utf8, next int64
kept <- orders: filter by a Go function
    id int64, status utf8
by hand <- kept: derive next by Go functions
    id int64, status utf8, next int64
merged <- derived, by hand: merge
    id int64, status utf8, next int64
joined <- merged, keyed: join status = status within 1s [state]
    left_id int64, left_status utf8, left_next int64, right_status utf8
mine <- joined: process by Go code
out <- mine: write out
copy <- orders: forward to all "orders"
`
	if diff := cmp.Diff(want, everyNode(t).String()); diff != "" {
		t.Errorf("description mismatch (-want +got):\n%s", diff)
	}
}

func TestTopologyIsDescribedForMermaid(t *testing.T) {
	const want = `flowchart TD
    n0["orders: read orders"]
    t0(["orders"])
    t0 --> n0
    n1["paid: where (status = #quot;paid#quot;)"]
    n0 --> n1
    n2[("sums: group by id, status in windows of 1m0s: count() as n, max(id) as top")]
    n1 --> n2
    n3["late: late rows"]
    n2 --> n3
    n4["slim: select status"]
    n0 --> n4
    n5["keyed: set __key = status"]
    n4 --> n5
    n6["derived: derive next = (id + 1)"]
    n0 --> n6
    n7["kept: filter by a Go function"]
    n0 --> n7
    n8["by hand: derive next by Go functions"]
    n7 --> n8
    n9["merged: merge"]
    n6 --> n9
    n8 --> n9
    n10[("joined: join status = status within 1s")]
    n9 --> n10
    n5 --> n10
    n11["mine: process by Go code"]
    n10 --> n11
    n12["out: write out"]
    n11 --> n12
    t1(["out"])
    n12 --> t1
    n13["copy: forward to all #quot;orders#quot;"]
    n0 --> n13
    t2(["all #quot;orders#quot;"])
    n13 --> t2
`
	if diff := cmp.Diff(want, everyNode(t).Mermaid()); diff != "" {
		t.Errorf("flowchart mismatch (-want +got):\n%s", diff)
	}
}
