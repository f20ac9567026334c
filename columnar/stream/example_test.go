// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"fmt"
	"log"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
)

// Orders are read, the paid ones kept, and their cents summed for each customer
// and minute.
func Example() {
	topology, err := stream.New().
		From(stream.JSON(stream.Text("customer"), stream.Text("status"), stream.Int("cents"), stream.Time("at")), "orders").
		Where(columnar.Column("status").Equal("paid")).
		GroupBy("customer").EventTime("at").Tumbling(time.Minute).
		Aggregate(stream.Sum("cents").As("total")).
		To("totals", stream.JSON().Key("customer", columnar.WindowStartColumn)).
		Topology()
	if err != nil {
		log.Fatal(err)
	}
	run(topology, "orders",
		`{"customer":"ada","status":"paid","cents":250,"at":"2026-01-05T10:00:01Z"}`,
		`{"customer":"alan","status":"open","cents":900,"at":"2026-01-05T10:00:02Z"}`,
		`{"customer":"ada","status":"paid","cents":100,"at":"2026-01-05T10:00:59Z"}`,
		`{"customer":"ada","status":"paid","cents":70,"at":"2026-01-05T10:01:00Z"}`)
	// Output:
	// totals: {"customer":"ada","__window_start":1767607200000,"__window_end":1767607260000,"total":350}
	// totals: {"customer":"ada","__window_start":1767607260000,"__window_end":1767607320000,"total":70}
}

// Windows that hop overlap: the cars of a minute are counted every half minute, and each
// car counts in both windows that hold its time.
func ExampleGroups_Hopping() {
	topology, err := stream.New().
		From(stream.JSON(stream.Text("road"), stream.Time("at")), "cars").
		GroupBy("road").EventTime("at").Hopping(time.Minute, 30*time.Second).Emit(columnar.EmitFinal).
		Aggregate(stream.Count().As("cars")).
		To("traffic", stream.JSON().Key("road", columnar.WindowStartColumn)).
		Topology()
	if err != nil {
		log.Fatal(err)
	}
	run(topology, "cars",
		`{"road":"A1","at":"1970-01-01T00:00:40Z"}`,
		`{"road":"A1","at":"1970-01-01T00:00:50Z"}`,
		`{"road":"A1","at":"1970-01-01T00:01:10Z"}`,
		`{"road":"A1","at":"1970-01-01T00:02:00Z"}`)
	// Output:
	// traffic: {"road":"A1","__window_start":0,"__window_end":60000,"cars":2}
	// traffic: {"road":"A1","__window_start":30000,"__window_end":90000,"cars":3}
	// traffic: {"road":"A1","__window_start":60000,"__window_end":120000,"cars":1}
}

// Aggregates of the rows that fulfill a condition are those of a column that is null in
// the other rows.
func ExampleAvg() {
	paid := columnar.Column("status").Equal("paid")
	topology, err := stream.New().
		From(stream.JSON(stream.Text("customer"), stream.Text("status"), stream.Int("cents")), "orders").
		With(columnar.If(paid, columnar.Column("cents"), nil).As("paid_cents")).
		GroupBy("customer").
		Aggregate(stream.Count().As("orders"), stream.CountValues("paid_cents").As("paid"), stream.Avg("paid_cents").As("mean"), stream.Last("status").As("latest")).
		To("customers", stream.JSON().Key("customer")).
		Topology()
	if err != nil {
		log.Fatal(err)
	}
	run(topology, "orders",
		`{"customer":"ada","status":"paid","cents":250}`,
		`{"customer":"ada","status":"open","cents":900}`,
		`{"customer":"ada","status":"paid","cents":101}`)
	// Output:
	// customers: {"customer":"ada","orders":3,"paid":2,"mean":175.5,"latest":"paid"}
}

// An order of several lines becomes a row for each line.
func ExampleStream_Explode() {
	topology, err := stream.New().
		From(stream.JSON(stream.Text("customer"), stream.List(stream.Text("skus"))), "orders").
		Explode("skus").
		To("lines", stream.JSON()).
		Topology()
	if err != nil {
		log.Fatal(err)
	}
	run(topology, "orders", `{"customer":"ada","skus":["pen","ink"]}`, `{"customer":"alan","skus":[]}`)
	// Output:
	// lines: {"customer":"ada","skus":"pen"}
	// lines: {"customer":"ada","skus":"ink"}
}

// A stream that several steps read branches: each step gets all rows.
func ExampleStream() {
	b := stream.New()
	bids := b.From(stream.JSON(stream.Int("auction"), stream.Int("price")), "bids")
	large := columnar.Column("price").GreaterOrEqual(1000)
	bids.Where(large).To("large", stream.JSON())
	bids.Where(columnar.Not(large)).Select("price").To("small", stream.JSON())
	topology, err := b.Topology()
	if err != nil {
		log.Fatal(err)
	}
	run(topology, "bids", `{"auction":1,"price":5000}`, `{"auction":2,"price":30}`)
	// Output:
	// large: {"auction":1,"price":5000}
	// small: {"price":30}
}

// Everything that is wrong with a chain comes out at its end, with the names of
// the steps.
func ExampleBuilder_Topology() {
	_, err := stream.New().
		From(stream.JSON(stream.Text("user")), "visits").
		GroupBy().Tumbling(time.Microsecond).
		Aggregate(stream.Count()).
		To("counts", stream.JSON()).
		Topology()
	fmt.Println(err)
	// Output:
	// columnar: node `group-1`: windowSize must be at least one millisecond
	// groupBy requires at least one key column
}

// run prints what the records of one topic become.
func run(topology *columnar.Topology, topic string, values ...string) {
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	var records []columnar.ConsumedRecord
	for offset, value := range values {
		records = append(records, columnar.NewConsumedRecord(nil, []byte(value), 0, 0, int64(offset)))
	}
	outputs, err := built.RunBatch(topic, records)
	if err != nil {
		log.Fatal(err)
	}
	for _, out := range outputs {
		fmt.Printf("%s: %s\n", out.Topic, out.Record.Value)
	}
}
