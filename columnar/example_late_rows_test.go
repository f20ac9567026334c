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

// Rows that come after their window was closed are counted, and can have an
// output of their own.
func ExampleTopology_AddLateRows() {
	mem := memory.DefaultAllocator
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "sensor", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	perMinute, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys:         []string{"sensor"},
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "count"}},
		Window:       time.Minute,
		Emit:         columnar.EmitFinal,
	})
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("readings", []string{"readings"}, codec)
	if err != nil {
		log.Fatal(err)
	}
	counted, err := topology.AddOperator("counted", perMinute, source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("counts", "counts", codec, counted); err != nil {
		log.Fatal(err)
	}
	late, err := topology.AddLateRows("late", counted)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("too-late", "too-late", codec, late); err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	outputs, err := built.RunBatch("readings", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte(`{"sensor":"a"}`), 10_000, 0, 0),
		columnar.NewConsumedRecord(nil, []byte(`{"sensor":"a"}`), 70_000, 0, 1),
		columnar.NewConsumedRecord(nil, []byte(`{"sensor":"a"}`), 59_000, 0, 2),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, output := range outputs {
		fmt.Printf("%s %s\n", output.Topic, output.Record.Value)
	}
	fmt.Println("dropped:", built.LateDropped(0))
	// Output:
	// counts {"sensor":"a","__window_start":0,"__window_end":60000,"count":1}
	// too-late {"sensor":"a","__window_start":0,"__window_end":60000,"__stream_time":70000}
	// dropped: map[counted:1]
}
