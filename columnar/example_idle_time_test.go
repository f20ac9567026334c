// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// The last window of a topic that nobody writes to any more is emitted when the
// partition has been idle for the timeout.
func ExampleWithIdleTimeout() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("words", "counts")
	defer stopBroker()
	produce(broker, "words", `{"word":"to"}`, `{"word":"be"}`, `{"word":"to"}`)

	mem := memory.DefaultAllocator
	words, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "word", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	perWindow, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys:         []string{"word"},
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "count"}},
		Window:       2100 * time.Millisecond,
		Emit:         columnar.EmitFinal,
	})
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("words", []string{"words"}, words)
	if err != nil {
		log.Fatal(err)
	}
	counted, err := topology.AddOperator("counted", perWindow, source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("counts", "counts", words, counted); err != nil {
		log.Fatal(err)
	}

	directory, err := os.MkdirTemp("", "idle")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	member, err := kafka.NewTransactionalMember("words", "words-0", broker)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	runner, err := columnar.NewGroupRunner(topology, member, member,
		columnar.WithStateStore(columnar.NewFileStateStore(directory)),
		columnar.WithPollTimeout(50*time.Millisecond),
		columnar.WithIdleTimeout(200*time.Millisecond),
		columnar.WithHooks(columnar.Hooks{Round: func(round columnar.RoundInfo) {
			if round.Outputs > 0 {
				stop() // a service goes on until it is told to end
			}
		}}))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(ctx); err != nil {
		log.Fatal(err)
	}
	printValues(readAll(context.Background(), broker, "counts"))
	// Output:
	// {"word":"to","__window_start":0,"__window_end":2100,"count":2}
	// {"word":"be","__window_start":0,"__window_end":2100,"count":1}
}
