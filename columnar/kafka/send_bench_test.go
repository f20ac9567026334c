// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

// BenchmarkSend sends rounds of records and waits for each round. The naive twin
// is the client alone, with a function for each record.
func BenchmarkSend(b *testing.B) {
	const round = 4096
	c := startBroker(b)
	record := columnar.ProduceRecord{Key: []byte("12345678"), Value: make([]byte, 100), Timestamp: 1}
	outputs := make([]columnar.ProducedToTopic, round)
	measure := func(b *testing.B, send func() error) {
		b.ReportAllocs()
		start, records := cpuTime(b), 0
		for b.Loop() {
			if err := send(); err != nil {
				b.Fatal(err)
			}
			records += round
		}
		b.ReportMetric(float64(records)/(cpuTime(b)-start).Seconds(), "records/cpu-s")
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ProducerBatchCompression(kgo.NoCompression())}
	b.Run("producer", func(b *testing.B) {
		topic := c.lastingTopic(b)
		for i := range outputs {
			outputs[i] = columnar.ProducedToTopic{Topic: topic, Record: record}
		}
		p, err := kafka.NewProducer(options...)
		if err != nil {
			b.Fatal(err)
		}
		closing(b, p)
		measure(b, func() error { return columnar.SendAll(outputs, p) })
	})
	b.Run("transactional member", func(b *testing.B) {
		topic := c.lastingTopic(b)
		for i := range outputs {
			outputs[i] = columnar.ProducedToTopic{Topic: topic, Record: record}
		}
		m := c.transactional(b, unique("group"), unique("id"), nil, []string{topic}, kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := m.BeginTransaction(); err != nil {
			b.Fatal(err)
		}
		measure(b, func() error { return columnar.SendAll(outputs, m) })
	})
	b.Run("naive", func(b *testing.B) {
		client := c.client(b, kgo.DefaultProduceTopic(c.lastingTopic(b)), kgo.ProducerBatchCompression(kgo.NoCompression()))
		failed := make(chan error, 1)
		measure(b, func() error {
			for range round {
				client.Produce(context.Background(), &kgo.Record{Key: record.Key, Value: record.Value}, func(_ *kgo.Record, err error) {
					if err != nil {
						select {
						case failed <- err:
						default:
						}
					}
				})
			}
			if err := client.Flush(context.Background()); err != nil {
				return err
			}
			select {
			case err := <-failed:
				return err
			default:
				return nil
			}
		})
	})
}
