// SPDX-License-Identifier: Apache-2.0

//go:build integration

package columnarschema_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const (
	firstSale = `{"type":"record","name":"shop.Sale","fields":[
		{"name":"id","type":"int"},{"name":"old","type":["null","string"],"default":null},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}`
	secondSale = `{"type":"record","name":"shop.Sale","fields":[
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"id","type":"int"},
		{"name":"tags","type":{"type":"array","items":"string"},"default":["none"]}]}`
)

// throughBroker sends records to a new topic and returns them as they come out.
func throughBroker(t *testing.T, topic string, records []columnar.ProduceRecord) []columnar.ConsumedRecord {
	t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(kafkatest.Brokers(t)...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	if created, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil || created.Err != nil {
		t.Fatal(err, created.Err)
	}
	defer func() { _, _ = admin.DeleteTopic(t.Context(), topic) }()
	for _, r := range records {
		sent := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			sent.Headers = append(sent.Headers, kgo.RecordHeader(h))
		}
		if err := kafka.ProduceSync(t.Context(), sent).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var got []columnar.ConsumedRecord
	for len(got) < len(records) {
		fetches := kafka.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			record := columnar.ConsumedRecord{Key: r.Key, Value: r.Value, Offset: r.Offset}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, columnar.RecordHeader(h))
			}
			got = append(got, record)
		})
	}
	return got
}

func TestAvroColumnsThroughARealBrokerAndRegistry(t *testing.T) {
	topic := fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
	client, err := schema.NewRegistryClient(kafkatest.RegistryURL(t), schema.WithRequestTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	ctx := t.Context()

	// A producer of the first version writes with the serde.
	writers := schema.NewSchemaCache(client)
	defer writers.Close()
	old, err := schema.NewGenericAvroSerde(firstSale, writers, schema.RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	old.RegisterSubject(topic)
	if err := writers.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	var records []columnar.ProduceRecord
	for i := range 3 {
		value, err := old.Serialize(topic, map[string]any{"id": i, "old": "x", "price": big.NewRat(5, 4)})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, columnar.ProduceRecord{Value: value})
	}
	records = append(records, columnar.ProduceRecord{Key: []byte("gone")})

	// The second version is registered, and becomes the columns of the topic.
	if _, err := client.Register(ctx, topic+"-value", schema.KindAvro, secondSale, ""); err != nil {
		t.Fatal(err)
	}
	cache := schema.NewSchemaCache(client)
	defer cache.Close()
	codec, err := columnarschema.FromRegistry(ctx, client, cache, topic).With(columnarschema.WithHeaderFraming()).Codec(memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	consumed := throughBroker(t, topic, records)
	batch := decodeWaiting(t, cache, codec, topic, consumed)
	defer batch.Release()
	got := map[string]string{}
	for i := range 3 {
		got[batch.ColumnName(i)] = batch.Column(i).String()
	}
	want := map[string]string{
		"price": `[1.25 1.25 1.25 (null)]`, "id": "[0 1 2 (null)]", "tags": `[["none"] ["none"] ["none"] (null)]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}

	// The serde of another process reads what the codec writes, by the header.
	produced, err := codec.Encode(topic, batch)
	if err != nil {
		t.Fatal(err)
	}
	readers := schema.NewSchemaCache(client)
	defer readers.Close()
	reader, err := schema.NewGenericAvroSerde(firstSale, readers, schema.RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range throughBroker(t, topic+"-again", produced) {
		if r.Value == nil {
			if i != 3 {
				t.Errorf("record %d has no value", i)
			}
			continue
		}
		headers := []schema.Header{schema.Header(r.Headers[0])}
		row, err := reader.DeserializeContext(ctx, topic, r.Value, headers...)
		if err != nil {
			t.Fatal(err)
		}
		fields := row.(map[string]any)
		if fields["id"] != i || fields["old"] != nil {
			t.Errorf("record %d is read as %v", i, row)
		}
	}
}
