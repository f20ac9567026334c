// SPDX-License-Identifier: Apache-2.0

// First-topology counts visits per user without Kafka: the first program of the
// README.
package main

import (
	"fmt"
	"log"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
)

func main() {
	visits := stream.JSON(stream.Text("user"))
	chain := must(stream.New().
		From(visits, "visits").
		GroupBy("user").
		Aggregate(stream.Count().As("visits")).
		To("visits-per-user", visits).
		Topology())

	topology := must(chain.Build())
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
