// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// largeBids keeps the bids above a price, adds the price in dollars, and makes
// the bidder the key of the records that it produces.
func largeBids(mem memory.Allocator) (*columnar.Topology, error) {
	bids, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "bidder", Type: arrow.PrimitiveTypes.Int64},
		{Name: "price", Type: arrow.PrimitiveTypes.Int64},
	}, nil))
	if err != nil {
		return nil, err
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("bids", []string{"bids"}, bids)
	if err != nil {
		return nil, err
	}
	large, err := topology.AddOperator("large", columnar.FilterWhere(mem, columnar.Column("price").Greater(1000)), source)
	if err != nil {
		return nil, err
	}
	dollars, err := topology.AddOperator("dollars", columnar.Derive(mem, columnar.Column("price").Div(100).As("dollars")), large)
	if err != nil {
		return nil, err
	}
	keyed, err := topology.AddOperator("keyed", columnar.WithKey(mem, columnar.Column("bidder").Cast(arrow.BinaryTypes.String)), dollars)
	if err != nil {
		return nil, err
	}
	_, err = topology.AddSink("out", "large-bids", bids, keyed)
	return topology, err
}

// A topology runs without Kafka: a test gives it records and looks at what they
// become.
func Example() {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	topology, err := largeBids(mem)
	if err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	outputs, err := built.RunBatch("bids", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte(`{"bidder":7,"price":2500}`), 1000, 0, 0),
		columnar.NewConsumedRecord(nil, []byte(`{"bidder":8,"price":300}`), 1001, 0, 1),
		columnar.NewConsumedRecord(nil, []byte(`{"bidder":9,"price":1200}`), 1002, 0, 2),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, output := range outputs {
		fmt.Printf("%s %s %s\n", output.Topic, output.Record.Key, output.Record.Value)
	}
	fmt.Println("bytes left:", mem.CurrentAlloc())
	// Output:
	// large-bids 7 {"bidder":7,"price":2500,"dollars":25}
	// large-bids 9 {"bidder":9,"price":1200,"dollars":12}
	// bytes left: 0
}
