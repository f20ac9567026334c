// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// visitsPerMinute is a topology of a program under test.
func visitsPerMinute() (*columnar.Topology, error) {
	return stream.New().
		From(stream.JSON(stream.Text("user")), "visits").
		GroupBy("user").Tumbling(time.Minute).
		Aggregate(stream.Count()).
		To("counts", stream.JSON()).
		Topology()
}

// A test of a windowed count: records in, a restart in the middle, rows out.
func ExampleColumnarTestDriver() {
	topology, err := visitsPerMinute()
	if err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()

	type visit struct {
		User string `json:"user"`
	}
	type count struct {
		User  string `json:"user"`
		Start int64  `json:"__window_start"`
		End   int64  `json:"__window_end"`
		Count int64  `json:"count"`
	}
	driver := krabkatest.NewColumnarTestDriver(built)
	for _, err := range []error{
		driver.PipeJSON("visits", 1_000, visit{"ada"}),
		driver.Restart(),
		driver.PipeJSON("visits", 59_999, visit{"ada"}),
		driver.PipeJSON("visits", 60_000, visit{"ada"}),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	rows, err := krabkatest.RowsOf[count](driver.DrainOutput("counts"))
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		fmt.Printf("%s from %d: %d\n", row.User, row.Start, row.Count)
	}
	// Output:
	// ada from 0: 1
	// ada from 0: 2
	// ada from 60000: 1
}

// A service whose registry is away for a moment reads its records afterwards.
func ExampleSchemaRegistryStub() {
	registry, err := krabkatest.NewSchemaRegistryStub()
	if err != nil {
		log.Fatal(err)
	}
	defer registry.Close()
	id := registry.Register("visits-value", schema.KindAvro, `"string"`, "")

	client, err := schema.NewRegistryClient(registry.URL(), schema.WithMaxRetries(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	registry.FailNext(1, http.StatusServiceUnavailable, 50001)
	_, err = client.SchemaByID(context.Background(), id)
	fmt.Println("first:", columnar.IsRetriable(err))
	fetched, err := client.SchemaByID(context.Background(), id)
	fmt.Println("second:", fetched.Schema, err)
	fmt.Println("requests:", registry.RequestCount("GET", "/schemas/ids/1"))
	// Output:
	// first: true
	// second: "string" <nil>
	// requests: 2
}
