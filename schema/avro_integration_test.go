// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const avroPaymentSchema = `{
	"type": "record", "name": "Payment", "namespace": "shop", "doc": "A payment.", "aliases": ["Bill"],
	"fields": [
		{"name": "id", "type": "string"},
		{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
		{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "aliases": ["time"]},
		{"name": "count", "type": "int", "default": 0}
	]
}`

type avroPayment struct {
	ID     string    `avro:"id"`
	Amount *big.Rat  `avro:"amount"`
	At     time.Time `avro:"at"`
	Count  int       `avro:"count"`
}

var sameRats = cmp.Comparer(func(a, b *big.Rat) bool { return a.Cmp(b) == 0 })

// ownName returns a name that no other run of the tests uses.
func ownName(t *testing.T) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
}

func newRegistryClient(t *testing.T) *schema.RegistryClient {
	t.Helper()
	client, err := schema.NewRegistryClient(kafkatest.RegistryURL(t), schema.WithRequestTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func newRegistryCache(t *testing.T, client *schema.RegistryClient, options ...schema.SchemaCacheOption) *schema.SchemaCache {
	t.Helper()
	cache := schema.NewSchemaCache(client, options...)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func newAvro[T any](t *testing.T, text string, cache *schema.SchemaCache, options ...schema.SerdeOption) *schema.AvroSerde[T] {
	t.Helper()
	s, err := schema.NewAvroSerde[T](text, cache, schema.RoleValue, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// register registers the serde's schema for a topic and returns its id.
func register[T any](t *testing.T, s schema.Serde[T], cache *schema.SchemaCache, topic string) int {
	t.Helper()
	s.RegisterSubject(topic)
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, ok := cache.IDForSubject(topic + "-value")
	if !ok {
		t.Fatalf("no id for %s", topic)
	}
	return id
}

func TestAvroEvolvesInTheRegistry(t *testing.T) {
	topic := ownName(t)
	subject := topic + "-value"
	client := newRegistryClient(t)
	cache := newRegistryCache(t, client)
	id := register(t, newAvro[avroPayment](t, avroPaymentSchema, cache), cache, topic)
	if _, err := client.SetSubjectCompatibility(t.Context(), subject, "BACKWARD"); err != nil {
		t.Fatal(err)
	}

	// What readers need has survived.
	latest, err := client.Latest(t.Context(), subject)
	if err != nil || latest.ID != id {
		t.Fatalf("Latest = %+v, %v, want id %d", latest, err, id)
	}
	for _, part := range []string{`"decimal"`, `"precision":10`, `"timestamp-millis"`, `"aliases"`, `"default":0`, `"A payment."`} {
		if !strings.Contains(strings.ReplaceAll(latest.Schema, ": ", ":"), part) {
			t.Errorf("the stored text lacks %s: %s", part, latest.Schema)
		}
	}
	lookup := newRegistryCache(t, client, schema.WithRegisterMode(schema.LookupOnly))
	if found := register(t, newAvro[avroPayment](t, avroPaymentSchema, lookup), lookup, topic); found != id {
		t.Errorf("looked up id %d, want %d", found, id)
	}

	// A field with a default is compatible, one without is not.
	added := strings.Replace(avroPaymentSchema, `"default": 0}`, `"default": 0}, {"name": "note", "type": ["null", "string"], "default": null}`, 1)
	cache = newRegistryCache(t, client)
	if second := register(t, newAvro[any](t, added, cache), cache, topic); second == id {
		t.Errorf("the second version has the first one's id %d", id)
	}
	if versions, err := client.Versions(t.Context(), subject); err != nil || len(versions) != 2 {
		t.Errorf("Versions = %v, %v", versions, err)
	}
	broken := strings.Replace(avroPaymentSchema, `"default": 0}`, `"default": 0}, {"name": "must", "type": "string"}`, 1)
	cache = newRegistryCache(t, client)
	newAvro[any](t, broken, cache).RegisterSubject(topic)
	if err := cache.Prewarm(t.Context()); !errors.Is(err, schema.ErrIncompatible) {
		t.Errorf("Prewarm of an incompatible schema: %v", err)
	}
	local, err := schema.AvroCompatibility(added, broken, schema.Backward)
	if err != nil || local.Compatible || !strings.HasPrefix(local.Incompatibilities[0], "BACKWARD: must: ") {
		t.Errorf("AvroCompatibility = %v, %v", local, err)
	}
}

func TestAvroReferencesInTheRegistry(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	money := schema.Reference{
		Name: "shop.Money", Subject: topic + "-money",
		Schema: `{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"},{"name":"unit","type":"shop.Unit"}]}`,
		References: []schema.Reference{{
			Name: "shop.Unit", Subject: topic + "-unit", Schema: `{"type":"enum","name":"shop.Unit","symbols":["EUR","USD"]}`,
		}},
	}
	const text = `{"type":"record","name":"shop.Sale","fields":[{"name":"price","type":"shop.Money"},{"name":"unit","type":"shop.Unit"}]}`
	cache := newRegistryCache(t, client)
	writer := newAvro[any](t, text, cache, schema.WithReferences(money))
	id := register(t, writer, cache, topic)
	want := map[string]any{"price": map[string]any{"cents": int64(99), "unit": "USD"}, "unit": "EUR"}
	data, err := writer.Serialize(topic, want)
	if err != nil {
		t.Fatal(err)
	}

	// Another process knows the id alone.
	other := newRegistryCache(t, client)
	reader := newAvro[any](t, text, other, schema.WithReferences(money))
	var pending *schema.FetchPendingError
	if _, err := reader.Deserialize(topic, data); !errors.As(err, &pending) || pending.SchemaID != id {
		t.Errorf("Deserialize before the fetch: %v", err)
	}
	if _, err := other.AwaitWriterSchema(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	got, err := reader.Deserialize(topic, data)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
}

func TestUnknownAvroIDInTheRegistry(t *testing.T) {
	cache := newRegistryCache(t, newRegistryClient(t))
	reader := newAvro[any](t, avroPaymentSchema, cache)
	const unknown = 2147483000
	var unavailable *schema.SchemaUnavailableError
	if _, err := cache.AwaitWriterSchema(t.Context(), unknown); !errors.As(err, &unavailable) || !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("AwaitWriterSchema: %v", err)
	}
	_, err := reader.Deserialize("payments", schema.Encode(unknown, []byte{0}))
	if !errors.As(err, &unavailable) || unavailable.Retriable() {
		t.Errorf("Deserialize: %v", err)
	}
}

// throughTopic sends records to a new topic and reads what comes out of it,
// waiting for the schemas of records.
func throughTopic[T any](t *testing.T, topic string, records []*kgo.Record, read func(string, []byte, []schema.Header) (T, error)) []T {
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
		sent := &kgo.Record{Topic: topic, Value: r.Value, Headers: r.Headers}
		if err := kafka.ProduceSync(t.Context(), sent).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var got []T
	for len(got) < len(records) {
		fetches := kafka.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var headers []schema.Header
			for _, h := range r.Headers {
				headers = append(headers, schema.Header{Key: h.Key, Value: h.Value})
			}
			value, err := read(topic, r.Value, headers)
			var pending *schema.FetchPendingError
			if errors.As(err, &pending) {
				<-pending.Done()
				value, err = read(topic, r.Value, headers)
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, value)
		})
	}
	return got
}

func TestAvroThroughARealTopic(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	cache := newRegistryCache(t, client)
	writer := newAvro[*avroPayment](t, avroPaymentSchema, cache)
	register(t, writer, cache, topic)
	sent := []*avroPayment{
		{"p-1", big.NewRat(1999, 100), time.UnixMilli(1700000000123).UTC(), 3},
		nil,
		{"p-2", big.NewRat(-1, 100), time.UnixMilli(0).UTC(), 0},
	}
	var records []*kgo.Record
	for _, p := range sent {
		value, err := writer.Serialize(topic, p)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Value: value})
	}
	payload, headers, err := writer.SerializeWithHeaders(topic, sent[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Value: payload}
	for _, h := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	records = append(records, record)

	// A newer reader in another process.
	type bill struct {
		Number string    `avro:"number"`
		Amount *big.Rat  `avro:"amount"`
		At     time.Time `avro:"at"`
		Tags   []string  `avro:"tags"`
	}
	readerCache := newRegistryCache(t, client)
	reader := newAvro[*bill](t, `{"type":"record","name":"Bill","namespace":"new","aliases":["shop.Payment"],"fields":[
		{"name":"number","type":"string","aliases":["id"]},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"amount","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}]},
		{"name":"tags","type":{"type":"array","items":"string"},"default":["none"]}]}`, readerCache)
	got := throughTopic(t, topic, records, reader.DeserializeWithHeaders)
	bills := []*bill{
		{"p-1", big.NewRat(1999, 100), time.UnixMilli(1700000000123).UTC(), []string{"none"}},
		nil,
		{"p-2", big.NewRat(-1, 100), time.UnixMilli(0).UTC(), []string{"none"}},
		{"p-1", big.NewRat(1999, 100), time.UnixMilli(1700000000123).UTC(), []string{"none"}},
	}
	if diff := cmp.Diff(bills, got, sameRats); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}
