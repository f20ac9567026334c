// SPDX-License-Identifier: Apache-2.0

// First-topology counts visits per user without Kafka: the first program of the
// README.
package main

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

func main() {
	mem := memory.DefaultAllocator
	user := arrow.Field{Name: "user", Type: arrow.BinaryTypes.String}
	visits := must(columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{user}, nil)))
	perUser := must(columnar.NewGroupBy(mem, columnar.Grouping{
		Keys:         []string{"user"},
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "visits"}},
		Emit:         columnar.EmitChanges,
	}))
	t := columnar.NewTopology(mem)
	source := must(t.AddSource("visits", []string{"visits"}, visits))
	counted := must(t.AddOperator("count", perUser, source))
	must(t.AddSink("counts", "visits-per-user", visits, counted))

	topology := must(t.Build())
	defer topology.Close()
	fetched := []columnar.ConsumedRecord{
		{Offset: 0, Value: []byte(`{"user":"ada"}`)},
		{Offset: 1, Value: []byte(`{"user":"alan"}`)},
		{Offset: 2, Value: []byte(`{"user":"ada"}`)},
	}
	for _, out := range must(topology.RunPartitionBatches(0, map[string][]columnar.ConsumedRecord{"visits": fetched})) {
		fmt.Printf("%s: %s\n", out.Topic, out.Record.Value)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
