// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/krabka-io/krabka-streams-go/internal/testpb"
	"github.com/krabka-io/krabka-streams-go/schema"
)

func newProtobuf[T proto.Message](t *testing.T, prototype T, cache *schema.SchemaCache, options ...schema.SerdeOption) *schema.ProtobufSerde[T] {
	t.Helper()
	s := schema.NewProtobufSerde(prototype, cache, schema.RoleValue, options...)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

func newDynamicProtobuf(t *testing.T, text string, cache *schema.SchemaCache, options ...schema.SerdeOption) *schema.ProtobufSerde[*dynamicpb.Message] {
	t.Helper()
	s, err := schema.NewDynamicProtobufSerde(text, "", cache, schema.RoleValue, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func onlinePlaced() *testpb.Placed {
	return &testpb.Placed{
		Id:       "o-1",
		At:       &timestamppb.Timestamp{Seconds: 1_700_000_000},
		Customer: &testpb.Customer{Name: "Ada", Credit: &testpb.Money{Cents: 5, Currency: "EUR"}},
		Lines:    []*testpb.Placed_Line{{Sku: "a", Count: -2}},
		Payment:  &testpb.Placed_Cash{Cash: &testpb.Money{Cents: 1}},
	}
}

// The file of Placed imports two files, of which one imports the other.
func TestProtobufReferencesInTheRegistry(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	inTopic := schema.WithReferenceSubjects(func(path string) string { return topic + "-" + strings.ReplaceAll(path, "/", ".") })
	cache := newRegistryCache(t, client)
	writer := newProtobuf(t, &testpb.Placed{}, cache, inTopic)
	id := register(t, writer, cache, topic)
	data, err := writer.Serialize(topic, onlinePlaced())
	if err != nil {
		t.Fatal(err)
	}
	latest, err := client.Latest(t.Context(), topic+"-value")
	if err != nil || latest.ID != id || latest.SchemaType != "PROTOBUF" {
		t.Fatalf("Latest = %+v, %v, want id %d", latest, err, id)
	}
	want := []schema.SchemaReference{
		{Name: "shop/customer.proto", Subject: topic + "-shop.customer.proto", Version: 1},
		{Name: "shop/money.proto", Subject: topic + "-shop.money.proto", Version: 1},
	}
	if diff := cmp.Diff(want, latest.References); diff != "" {
		t.Errorf("references mismatch (-want +got):\n%s", diff)
	}

	// The text is found again, so printing it is stable.
	lookup := newRegistryCache(t, client, schema.WithRegisterMode(schema.LookupOnly))
	if found := register(t, newProtobuf(t, &testpb.Placed{}, lookup, inTopic), lookup, topic); found != id {
		t.Errorf("looked up id %d, want %d", found, id)
	}
	follow := newRegistryCache(t, client, schema.WithRegisterMode(schema.UseLatest))
	follower := newProtobuf(t, &testpb.Placed{}, follow, inTopic)
	if found := register(t, follower, follow, topic); found != id {
		t.Errorf("the latest id is %d, want %d", found, id)
	}
	if again, err := follower.Serialize(topic, onlinePlaced()); err != nil || string(again) != string(data) {
		t.Errorf("under the latest schema %x, %v, want %x", again, err, data)
	}

	// Another process knows the id alone, and no Go types.
	other := newRegistryCache(t, client)
	reader := newProtobuf[*dynamicpb.Message](t, nil, other)
	var pending *schema.FetchPendingError
	if _, err := reader.Deserialize(topic, data); !errors.As(err, &pending) || pending.SchemaID != id {
		t.Errorf("Deserialize before the fetch: %v", err)
	}
	if _, err := other.AwaitWriterSchema(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	got, err := reader.Deserialize(topic, data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(onlinePlaced(), got, protocmp.Transform()); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestProtobufEvolvesInTheRegistry(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	const first = `syntax = "proto3"; package shop; message Sale { int64 cents = 1; string shop = 2; }`
	versions := map[string]bool{
		strings.Replace(first, "string shop = 2;", "string shop = 2; string note = 3;", 1): true,
		strings.Replace(first, "int64 cents", "string cents", 1):                           false,
	}
	cache := newRegistryCache(t, client)
	id := register(t, newDynamicProtobuf(t, first, cache), cache, topic)
	if _, err := client.SetSubjectCompatibility(t.Context(), topic+"-value", "BACKWARD"); err != nil {
		t.Fatal(err)
	}
	for text, compatible := range versions {
		remote, err := client.CheckCompatibility(t.Context(), topic+"-value", schema.NewSchema{Kind: schema.KindProtobuf, Schema: text})
		if err != nil || remote.Compatible != compatible {
			t.Errorf("%s: the registry says %+v, %v", text, remote, err)
		}
		cache := newRegistryCache(t, client)
		s := newDynamicProtobuf(t, text, cache)
		s.RegisterSubject(topic)
		err = cache.Prewarm(t.Context())
		if compatible && err != nil || !compatible && !errors.Is(err, schema.ErrIncompatible) {
			t.Errorf("%s: Prewarm: %v", text, err)
		}
		if !compatible {
			continue
		}
		// The new schema reads what the old one wrote.
		if _, err := cache.AwaitWriterSchema(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		got, err := s.Deserialize(topic, schema.Encode(id, []byte("\x00\x08\x07\x12\x01x")))
		if err != nil || got.Get(s.Descriptor().Fields().ByName("cents")).Int() != 7 {
			t.Errorf("Deserialize = %v, %v", got, err)
		}
	}
	if numbers, err := client.Versions(t.Context(), topic+"-value"); err != nil || len(numbers) != 2 {
		t.Errorf("Versions = %v, %v", numbers, err)
	}
}

func TestProtobufRefusalsOfTheRegistry(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	cache := newRegistryCache(t, client)
	const unknown = 2147483000
	var unavailable *schema.SchemaUnavailableError
	if _, err := cache.AwaitWriterSchema(t.Context(), unknown); !errors.As(err, &unavailable) || !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("AwaitWriterSchema: %v", err)
	}
	_, err := newProtobuf(t, &testpb.Money{}, cache).Deserialize(topic, schema.Encode(unknown, []byte{0}))
	if !errors.As(err, &unavailable) || unavailable.Retriable() {
		t.Errorf("Deserialize: %v", err)
	}
	for _, mode := range []schema.RegisterMode{schema.LookupOnly, schema.UseLatest} {
		cache := newRegistryCache(t, client, schema.WithRegisterMode(mode))
		newProtobuf(t, &testpb.Money{}, cache).RegisterSubject(topic)
		if err := cache.Prewarm(t.Context()); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("mode %d in an unknown subject: %v", mode, err)
		}
	}
	if _, err := client.Register(t.Context(), topic, schema.KindProtobuf, "message {", ""); !errors.Is(err, schema.ErrInvalidSchema) {
		t.Errorf("registering no schema: %v", err)
	}
}

func TestProtobufThroughARealTopic(t *testing.T) {
	topic := ownName(t)
	client := newRegistryClient(t)
	cache := newRegistryCache(t, client)
	options := []schema.SerdeOption{
		schema.WithMessages(&testpb.Cancelled_Reason{}, &testpb.Legacy{}),
		schema.WithRecordStrategy(schema.TopicRecordNameStrategy),
		schema.WithReferenceSubjects(func(path string) string { return topic + "-" + strings.ReplaceAll(path, "/", ".") }),
	}
	writer := newProtobuf[proto.Message](t, &testpb.Placed{}, cache, options...)
	writer.RegisterSubject(topic)
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	legacy := &testpb.Legacy{Id: proto.String("l"), Header: &testpb.Legacy_Header{Name: proto.String("h")}}
	proto.SetExtension(legacy, testpb.E_Remark, "r")
	sent := []proto.Message{onlinePlaced(), nil, &testpb.Cancelled_Reason{Text: "late"}, legacy}
	var records []*kgo.Record
	for _, m := range sent {
		value, err := writer.Serialize(topic, m)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Value: value})
	}
	payload, headers, err := writer.SerializeWithHeaders(topic, sent[2], nil)
	if err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Value: payload}
	for _, h := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	records = append(records, record)
	sent = append(sent, sent[2])

	// Readers in other processes: into Go types, and by the registry's text alone.
	generic := newProtobuf[proto.Message](t, nil, newRegistryCache(t, client))
	got := throughTopic(t, topic, records, generic.DeserializeWithHeaders)
	if diff := cmp.Diff(sent, got, protocmp.Transform()); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	dynamic := newProtobuf[*dynamicpb.Message](t, nil, newRegistryCache(t, client))
	for i, m := range throughTopic(t, topic+"-again", records, dynamic.DeserializeWithHeaders) {
		if sent[i] == nil {
			if m != nil {
				t.Errorf("a tombstone is read as %v", m)
			}
			continue
		}
		if diff := cmp.Diff(sent[i], proto.Message(m), protocmp.Transform()); diff != "" {
			t.Errorf("record %d mismatch (-want +got):\n%s", i, diff)
		}
	}
}
