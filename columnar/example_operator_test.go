// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// bid returns a record of topic bids; the timestamp is in seconds.
func bid(seconds int64, value string) columnar.ConsumedRecord {
	return columnar.NewConsumedRecord([]byte("k"), []byte(value), seconds*1000, 0, seconds)
}

// show runs one operator over bids, a batch a line, and prints what a sink
// produces for its results.
func show(operator *columnar.BuiltinOp, batches ...[]columnar.ConsumedRecord) {
	mem := memory.DefaultAllocator
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "bidder", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "price", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "channel", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("bids", []string{"bids"}, codec)
	if err != nil {
		log.Fatal(err)
	}
	node, err := topology.AddOperator("operator", operator, source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("out", "out", codec, node); err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	for i, batch := range batches {
		outputs, err := built.RunBatch("bids", batch)
		if err != nil {
			log.Fatal(err)
		}
		if len(batches) > 1 {
			fmt.Printf("batch %d:\n", i+1)
		}
		for _, output := range outputs {
			fmt.Printf("%s\n", output.Record.Value)
		}
	}
}

// An expression is computed for a whole batch at a time. Rows for which it is
// null are dropped.
func ExampleFilterWhere() {
	wanted := columnar.And(
		columnar.Column("price").GreaterOrEqual(100),
		columnar.Or(columnar.Column("channel").HasPrefix("web"), columnar.Column("channel").IsNull()),
	)
	show(columnar.FilterWhere(memory.DefaultAllocator, wanted), []columnar.ConsumedRecord{
		bid(0, `{"bidder":1,"price":250,"channel":"web/eu"}`),
		bid(1, `{"bidder":2,"price":50,"channel":"web/us"}`),
		bid(2, `{"bidder":3,"price":900,"channel":"shop"}`),
		bid(3, `{"bidder":4,"price":700}`),
		bid(4, `{"bidder":5,"channel":"web/eu"}`),
	})
	// Output:
	// {"bidder":1,"price":250,"channel":"web/eu"}
	// {"bidder":4,"price":700,"channel":null}
}

// Filter takes a function of a row, for what expressions do not have.
func ExampleFilter() {
	odd := func(batch arrow.RecordBatch, row int) bool {
		return batch.Column(0).(*array.Int64).Value(row)%2 == 1
	}
	show(columnar.Filter(memory.DefaultAllocator, odd), []columnar.ConsumedRecord{
		bid(0, `{"bidder":1}`), bid(1, `{"bidder":2}`), bid(2, `{"bidder":3}`),
	})
	// Output:
	// {"bidder":1,"price":null,"channel":null}
	// {"bidder":3,"price":null,"channel":null}
}

// Metadata columns are columns like any other. The timestamp is a number of
// milliseconds.
func ExampleColumn_metadata() {
	start := time.UnixMilli(2000)
	recent := columnar.Column(columnar.TimestampColumn).GreaterOrEqual(start.UnixMilli())
	show(columnar.FilterWhere(memory.DefaultAllocator, recent), []columnar.ConsumedRecord{
		bid(1, `{"bidder":1}`), bid(2, `{"bidder":2}`),
	})
	// Output: {"bidder":2,"price":null,"channel":null}
}

// Derive adds columns, or replaces those of the same name.
func ExampleDerive() {
	price := columnar.Column("price")
	show(columnar.Derive(memory.DefaultAllocator,
		price.Mul(908).Div(1000).As("price"),
		columnar.If(price.Greater(500), "large", "small").As("size"),
		columnar.Column("bidder").Cast(arrow.BinaryTypes.String).As("bidder_text"),
	), []columnar.ConsumedRecord{bid(0, `{"bidder":1,"price":1000,"channel":"web"}`)})
	// Output: {"bidder":1,"price":908,"channel":"web","size":"large","bidder_text":"1"}
}

// WithColumns computes columns row by row, for what expressions do not have.
func ExampleWithColumns() {
	channel := func(batch arrow.RecordBatch, row int) (any, error) {
		return strings.ToUpper(batch.Column(2).(*array.String).Value(row)), nil
	}
	operator, err := columnar.WithColumns(memory.DefaultAllocator, columnar.DerivedColumn{
		Field: arrow.Field{Name: "upper", Type: arrow.BinaryTypes.String, Nullable: true},
		Value: channel,
	})
	if err != nil {
		log.Fatal(err)
	}
	show(operator, []columnar.ConsumedRecord{bid(0, `{"channel":"web"}`)})
	// Output: {"bidder":null,"price":null,"channel":"web","upper":"WEB"}
}

// Select keeps columns in the given order. The metadata columns stay, so the
// records keep their key, timestamp and headers.
func ExampleSelect() {
	show(columnar.Select(memory.DefaultAllocator, "price", "bidder"), []columnar.ConsumedRecord{
		bid(0, `{"bidder":1,"price":250,"channel":"web"}`),
	})
	// Output: {"price":250,"bidder":1}
}

func counts(grouping columnar.Grouping) *columnar.BuiltinOp {
	grouping.Keys = []string{"bidder"}
	grouping.Aggregations = []columnar.Aggregation{
		{Function: columnar.Count, OutputColumn: "bids"},
		{Function: columnar.Max, InputColumn: "price", OutputColumn: "highest"},
	}
	operator, err := columnar.NewGroupBy(memory.DefaultAllocator, grouping)
	if err != nil {
		log.Fatal(err)
	}
	return operator
}

// Without windows, state is kept for ever, and by default every batch emits all
// groups.
func ExampleNewGroupBy() {
	show(counts(columnar.Grouping{}),
		[]columnar.ConsumedRecord{bid(0, `{"bidder":1,"price":5}`), bid(1, `{"bidder":2,"price":7}`)},
		[]columnar.ConsumedRecord{bid(2, `{"bidder":1,"price":9}`)},
	)
	// Output:
	// batch 1:
	// {"bidder":1,"bids":1,"highest":5}
	// {"bidder":2,"bids":1,"highest":7}
	// batch 2:
	// {"bidder":1,"bids":2,"highest":9}
	// {"bidder":2,"bids":1,"highest":7}
}

// With EmitChanges a batch emits the groups that it changed.
func ExampleNewGroupBy_emitChanges() {
	show(counts(columnar.Grouping{Window: 10 * time.Second, Emit: columnar.EmitChanges}),
		[]columnar.ConsumedRecord{bid(1, `{"bidder":1,"price":5}`), bid(3, `{"bidder":2,"price":7}`)},
		[]columnar.ConsumedRecord{bid(12, `{"bidder":1,"price":9}`)},
	)
	// Output:
	// batch 1:
	// {"bidder":1,"__window_start":0,"__window_end":10000,"bids":1,"highest":5}
	// {"bidder":2,"__window_start":0,"__window_end":10000,"bids":1,"highest":7}
	// batch 2:
	// {"bidder":1,"__window_start":10000,"__window_end":20000,"bids":1,"highest":9}
}

// With EmitFinal a window is emitted once, when stream time closes it. Grace
// leaves it open a while longer for rows that are out of order.
func ExampleNewGroupBy_emitFinal() {
	show(counts(columnar.Grouping{Window: 10 * time.Second, Grace: 5 * time.Second, Emit: columnar.EmitFinal}),
		[]columnar.ConsumedRecord{bid(1, `{"bidder":1,"price":5}`), bid(11, `{"bidder":1,"price":6}`)},
		[]columnar.ConsumedRecord{bid(9, `{"bidder":1,"price":8}`)},
		[]columnar.ConsumedRecord{bid(15, `{"bidder":2,"price":7}`)},
	)
	// Output:
	// batch 1:
	// batch 2:
	// batch 3:
	// {"bidder":1,"__window_start":0,"__window_end":10000,"bids":2,"highest":8}
}
