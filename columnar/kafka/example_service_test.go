// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// countPerUser counts the visits of each user.
func countPerUser() (*columnar.Topology, error) {
	mem := memory.DefaultAllocator
	visits, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		return nil, err
	}
	perUser, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys:         []string{"user"},
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "visits"}},
		Emit:         columnar.EmitChanges,
	})
	if err != nil {
		return nil, err
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("visits", []string{"visits"}, visits)
	if err != nil {
		return nil, err
	}
	counted, err := topology.AddOperator("count", perUser, source)
	if err != nil {
		return nil, err
	}
	_, err = topology.AddSink("counts", "visits-per-user", visits, counted)
	return topology, err
}

// serve counts until ctx ends. Each process of the service has a transactional
// id of its own, which stays the same when it is restarted.
func serve(ctx context.Context, id string, opts ...kgo.Opt) error {
	topology, err := countPerUser()
	if err != nil {
		return err
	}
	store, err := kafka.NewStateStore("visits-state", opts...)
	if err != nil {
		return err
	}
	defer store.Close()
	// As many partitions as the input has, or fewer.
	if err := store.EnsureTopic(ctx, 1); err != nil {
		return err
	}
	member, err := kafka.NewTransactionalMember("visits-per-user", id, opts...)
	if err != nil {
		return err
	}
	defer member.Close() // leaves the group, after the runner
	runner, err := columnar.NewGroupRunner(topology, member, member,
		columnar.WithStateStore(store),
		columnar.WithHooks(columnar.Hooks{
			Round: func(info columnar.RoundInfo) {
				if info.Err != nil {
					log.Print(info.Err) // Run tries again where that helps
				}
			},
		}))
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// A service that counts exactly once, and whose state follows its partitions
// from one machine to the next.
func Example_service() {
	broker, stopBroker := startExampleBroker("visits", "visits-per-user")
	defer stopBroker()
	producer, err := kafka.NewProducer(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	for i, user := range []string{"ada", "alan", "ada"} {
		visit := columnar.NewProduceRecord(nil, fmt.Appendf(nil, `{"user":%q}`, user), -1)
		if err := columnar.SendAll([]columnar.ProducedToTopic{{Topic: "visits", Record: visit}}, producer); err != nil {
			log.Fatal(err)
		}

		// The service runs until the visit is counted, each time on another
		// machine.
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		served := make(chan error)
		go func() { served <- serve(ctx, fmt.Sprintf("machine-%d", i), broker) }()
		counts, err := awaitRecords(ctx, i+1, broker)
		stop()
		if err := errors.Join(err, <-served); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", counts[i].Value)
	}
	// Output:
	// {"user":"ada","visits":1}
	// {"user":"alan","visits":1}
	// {"user":"ada","visits":2}
}
