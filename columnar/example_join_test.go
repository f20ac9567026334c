// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"fmt"
	"log"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// ordersAndPayments joins orders with the payments that come within an hour.
func ordersAndPayments(mem memory.Allocator) (*columnar.Topology, error) {
	orders, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "order", Type: arrow.PrimitiveTypes.Int64},
		{Name: "item", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		return nil, err
	}
	payments, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "order", Type: arrow.PrimitiveTypes.Int64},
		{Name: "amount", Type: arrow.PrimitiveTypes.Float64},
	}, nil))
	if err != nil {
		return nil, err
	}
	topology := columnar.NewTopology(mem)
	left, err := topology.AddSource("orders", []string{"orders"}, orders)
	if err != nil {
		return nil, err
	}
	right, err := topology.AddSource("payments", []string{"payments"}, payments)
	if err != nil {
		return nil, err
	}
	paid, err := topology.AddJoin("paid", columnar.Join{
		LeftKey:     "order",
		RightKey:    "order",
		Window:      time.Hour,
		RightPrefix: "payment_",
	}, left, right)
	if err != nil {
		return nil, err
	}
	_, err = topology.AddSink("out", "paid-orders", orders, paid)
	return topology, err
}

// Both topics have the same keys and partition counts, so that an order and its
// payment are in partitions of the same number.
func ExampleTopology_AddJoin() {
	topology, err := ordersAndPayments(memory.DefaultAllocator)
	if err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	for _, input := range []map[string][]columnar.ConsumedRecord{
		{"orders": {columnar.NewConsumedRecord(nil, []byte(`{"order":7,"item":"pen"}`), 1000, 0, 0)}},
		{"payments": {columnar.NewConsumedRecord(nil, []byte(`{"order":8,"amount":2}`), 1500, 0, 0)}},
		{"payments": {columnar.NewConsumedRecord(nil, []byte(`{"order":7,"amount":1.2}`), 2000, 0, 1)}},
	} {
		outputs, err := built.RunBatches(input)
		if err != nil {
			log.Fatal(err)
		}
		for _, output := range outputs {
			fmt.Printf("%s at %d\n", output.Record.Value, output.Record.Timestamp)
		}
	}
	// Output: {"left_order":7,"left_item":"pen","payment_order":7,"payment_amount":1.2} at 1000
}

// A merge brings branches of equal columns together.
func ExampleTopology_AddMerge() {
	mem := memory.DefaultAllocator
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	var sources []columnar.Node
	for _, topic := range []string{"eu", "us"} {
		source, err := topology.AddSource(topic, []string{topic}, codec)
		if err != nil {
			log.Fatal(err)
		}
		sources = append(sources, source)
	}
	merged, err := topology.AddMerge("merged", sources)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("out", "all", codec, merged); err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	outputs, err := built.RunBatches(map[string][]columnar.ConsumedRecord{
		"us": {columnar.NewConsumedRecord(nil, []byte(`{"id":2}`), 0, 0, 0)},
		"eu": {columnar.NewConsumedRecord(nil, []byte(`{"id":1}`), 0, 0, 0)},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, output := range outputs {
		fmt.Printf("%s %s\n", output.Topic, output.Record.Value)
	}
	// Output:
	// all {"id":1}
	// all {"id":2}
}
