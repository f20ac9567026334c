// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// startExampleBroker starts a broker inside this process, with topics of one
// partition.
func startExampleBroker(topics ...string) (seed kgo.Opt, stop func()) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		log.Fatal(err)
	}
	return kgo.SeedBrokers(cluster.ListenAddrs()...), cluster.Close
}

// Send acknowledges each record through a function; SendAll waits for all.
func ExampleProducer() {
	broker, stop := startExampleBroker("visits")
	defer stop()
	producer, err := kafka.NewProducer(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	err = columnar.SendAll([]columnar.ProducedToTopic{
		{Topic: "visits", Record: columnar.NewProduceRecord([]byte("ada"), []byte(`{"user":"ada"}`), -1)},
		{Topic: "visits", Record: columnar.NewProduceTombstone([]byte("alan"), -1)},
	}, producer)
	fmt.Println(err)

	err = columnar.SendAll([]columnar.ProducedToTopic{
		{Topic: "no-such-topic", Record: columnar.NewProduceRecord(nil, nil, -1)},
	}, producer)
	var topic *columnar.TopicError
	fmt.Println(errors.As(err, &topic) && topic.Topic == "no-such-topic")
	// Output:
	// <nil>
	// true
}

// awaitRecords returns the first committed records of the counts, as soon as
// there are that many.
func awaitRecords(ctx context.Context, count int, opts ...kgo.Opt) ([]columnar.ConsumedRecord, error) {
	reader, err := kafka.NewReader(opts...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	tp := columnar.TopicPartition{Topic: "visits-per-user", Partition: 0}
	if err := reader.Assign([]columnar.TopicPartition{tp}); err != nil {
		return nil, err
	}
	var records []columnar.ConsumedRecord
	for len(records) < count {
		fetched, err := reader.Poll(ctx, time.Second)
		if err != nil {
			return nil, err
		}
		records = append(records, fetched[tp]...)
	}
	return records, nil
}

// A reader reads partitions outside any group. It has read a partition to its
// end when its position is there: markers of transactions and what compaction
// left out are no records.
func ExampleReader() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, stop := startExampleBroker("visits")
	defer stop()
	producer, err := kafka.NewProducer(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	for i := range 3 {
		record := columnar.NewProduceRecord(nil, fmt.Appendf(nil, "visit %d", i), -1)
		if err := columnar.SendAll([]columnar.ProducedToTopic{{Topic: "visits", Record: record}}, producer); err != nil {
			log.Fatal(err)
		}
	}

	reader, err := kafka.NewReader(broker)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	tp := columnar.TopicPartition{Topic: "visits", Partition: 0}
	partitions := []columnar.TopicPartition{tp}
	if err := reader.Assign(partitions); err != nil {
		log.Fatal(err)
	}
	if err := reader.Seek(tp, 1); err != nil {
		log.Fatal(err)
	}
	ends, err := reader.EndOffsets(ctx, partitions)
	if err != nil {
		log.Fatal(err)
	}
	for at := int64(0); at < ends[tp]; {
		fetched, err := reader.Poll(ctx, time.Second)
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range fetched[tp] {
			fmt.Printf("%d: %s\n", record.Offset, record.Value)
		}
		positions, err := reader.Positions(ctx, partitions)
		if err != nil {
			log.Fatal(err)
		}
		at = positions[tp]
	}
	// Output:
	// 1: visit 1
	// 2: visit 2
}

// Cuts on a cluster whose brokers publish none: one process publishes them for
// a group.
func ExampleCutPublisher() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, stop := startExampleBroker("visits")
	defer stop()
	publisher, err := kafka.NewCutPublisher("visits-per-user", []string{"visits"}, broker, kafka.WithRetainedCuts(20))
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	if err := publisher.EnsureTopic(ctx); err != nil {
		log.Fatal(err)
	}
	cut, err := publisher.Publish(ctx) // a service calls Run with an interval
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cut.Epoch, cut.Status, cut.Offsets)
	// Output: 1 complete map[{visits 0}:0]
}

// Options of the client are the caller's, except for those that exactness
// depends on.
func ExampleOptionError() {
	_, err := kafka.NewMember("visits-per-user",
		kgo.SeedBrokers("localhost:9092"),
		kgo.ClientID("visits-1"),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	fmt.Println(err)
	var option *kafka.OptionError
	fmt.Println(errors.As(err, &option))
	// Output:
	// kafka: option FetchIsolationLevel is 0, need 1
	// true
}
