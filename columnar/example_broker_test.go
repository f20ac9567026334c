// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// startBroker starts a broker inside this process, with topics of one
// partition.
func startBroker(topics ...string) (seed kgo.Opt, stop func()) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		log.Fatal(err)
	}
	return kgo.SeedBrokers(cluster.ListenAddrs()...), cluster.Close
}

// produce writes values to a topic, a second of event time apart.
func produce(seed kgo.Opt, topic string, values ...string) {
	producer, err := kafka.NewProducer(seed)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	var outputs []columnar.ProducedToTopic
	for i, value := range values {
		outputs = append(outputs, columnar.ProducedToTopic{
			Topic:  topic,
			Record: columnar.NewProduceRecord(nil, []byte(value), int64(i)*1000),
		})
	}
	if err := columnar.SendAll(outputs, producer); err != nil {
		log.Fatal(err)
	}
}

// readAll returns the committed records of a topic.
func readAll(ctx context.Context, seed kgo.Opt, topic string) []columnar.ConsumedRecord {
	reader, err := kafka.NewReader(seed)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	partitions := []columnar.TopicPartition{{Topic: topic, Partition: 0}}
	if err := reader.Assign(partitions); err != nil {
		log.Fatal(err)
	}
	ends, err := reader.EndOffsets(ctx, partitions)
	if err != nil {
		log.Fatal(err)
	}
	var all []columnar.ConsumedRecord
	for {
		at, err := reader.Positions(ctx, partitions)
		if err != nil {
			log.Fatal(err)
		}
		if at[partitions[0]] >= ends[partitions[0]] {
			return all
		}
		fetched, err := reader.Poll(ctx, time.Second)
		if err != nil {
			log.Fatal(err)
		}
		all = append(all, fetched[partitions[0]]...)
	}
}

// wordCounts counts the words of topic "words" and produces each changed count
// to topic "counts".
func wordCounts() *columnar.Topology {
	mem := memory.DefaultAllocator
	words, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "word", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	perWord, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys:         []string{"word"},
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "count"}},
		Emit:         columnar.EmitChanges,
	})
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("words", []string{"words"}, words)
	if err != nil {
		log.Fatal(err)
	}
	counted, err := topology.AddOperator("count", perWord, source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("counts", "counts", words, counted); err != nil {
		log.Fatal(err)
	}
	return topology
}

// process runs rounds until the runner has committed a number of records.
func process(ctx context.Context, runner *columnar.GroupRunner, records int64) {
	for runner.Metrics().Snapshot().InputRecords < records {
		if _, err := runner.RunOnce(ctx, time.Second); err != nil {
			log.Fatal(err)
		}
	}
}

func printValues(records []columnar.ConsumedRecord) {
	for _, record := range records {
		fmt.Printf("%s\n", record.Value)
	}
}
