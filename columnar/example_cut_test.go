// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// A cut reader lists the cuts of a group. It needs a consumer of its own.
func ExampleCutReader() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	broker, stopBroker := startBroker("orders")
	defer stopBroker()
	publisher, err := kafka.NewCutPublisher("audit", []string{"orders"}, broker)
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	if err := publisher.EnsureTopic(ctx); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		produce(broker, "orders", `{}`)
		if _, err := publisher.Publish(ctx); err != nil {
			log.Fatal(err)
		}
	}

	consumer, err := kafka.NewReader(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	reader, err := columnar.NewCutReader(consumer, 1) // partitions of __barrier_state
	if err != nil {
		log.Fatal(err)
	}
	cuts, err := reader.CompleteCutsAfter(ctx, "audit", 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, cut := range cuts {
		fmt.Println(cut.Epoch, cut.Status, cut.Offsets)
	}
	latest, err := reader.LatestCompleteCut(ctx, "another group")
	fmt.Println(latest, err)
	// Output:
	// 2 complete map[{orders 0}:2]
	// 3 complete map[{orders 0}:3]
	// <nil> <nil>
}

// A tool that reads the barrier state topic by itself decodes its records one by
// one.
func ExampleDecodeBarrierCut() {
	key, value, err := columnar.EncodeBarrierCut(columnar.BarrierCut{
		Group: "audit", Epoch: 7, TriggeredAt: 1000, CompletedAt: 1200,
		Offsets: map[columnar.TopicPartition]int64{{Topic: "orders", Partition: 0}: 4200},
	})
	if err != nil {
		log.Fatal(err)
	}
	cut, err := columnar.DecodeBarrierCut(key, value)
	if err != nil {
		log.Fatal(err)
	}
	offset, _ := cut.Offset(columnar.TopicPartition{Topic: "orders", Partition: 0})
	fmt.Println(cut.Group, cut.Epoch, cut.Status, offset)

	deleted, err := columnar.DecodeBarrierCut(key, nil)
	fmt.Println(deleted, err)
	_, err = columnar.DecodeBarrierCut(key[:3], value)
	fmt.Println(err)
	// Output:
	// audit 7 complete 4200
	// <nil> <nil>
	// truncated barrier state key
}
