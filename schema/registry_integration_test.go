// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/kafkatest"
)

// realRegistry returns a client of the shared registry, and a prefix for subjects
// that no other run uses.
func realRegistry(tb testing.TB) (*RegistryClient, string) {
	tb.Helper()
	client, err := NewRegistryClient(kafkatest.RegistryURL(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.CloseIdleConnections)
	return client, fmt.Sprintf("it-%s-%d", strings.ToLower(tb.Name()), time.Now().UnixNano())
}

func TestRealRegistryRegistersAndFinds(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx, subject := t.Context(), prefix+"-value"
	id, err := client.Register(ctx, subject, KindJSON, orderSchema, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Register(ctx, subject, KindJSON, orderSchema, ""); err != nil || again != id {
		t.Errorf("registering again gave %d, %v, want %d", again, err, id)
	}
	found, err := client.LookupSchema(ctx, subject, NewSchema{Kind: KindJSON, Schema: orderSchema})
	if err != nil || found.ID != id || found.Version != 1 {
		t.Errorf("lookup gave %+v, %v", found, err)
	}
	latest, err := client.Latest(ctx, subject)
	if err != nil || latest.ID != id || latest.Version != 1 || latest.SchemaType != "JSON" || latest.References != nil {
		t.Errorf("latest is %+v, %v", latest, err)
	}
	if latestID, err := client.LatestID(ctx, subject); err != nil || latestID != id {
		t.Errorf("latest id is %d, %v", latestID, err)
	}
	fetched, err := client.SchemaByID(ctx, id)
	if err != nil || fetched.SchemaType != "JSON" || compacted(KindJSON, fetched.Schema) != compacted(KindJSON, orderSchema) {
		t.Errorf("schema by id is %+v, %v", fetched, err)
	}
	if versions, err := client.Versions(ctx, subject); err != nil || !cmp.Equal(versions, []int{1}) {
		t.Errorf("versions are %v, %v", versions, err)
	}
	if subjects, err := client.Subjects(ctx); err != nil || !slices.Contains(subjects, subject) {
		t.Errorf("%s is not among %d subjects, %v", subject, len(subjects), err)
	}
	if places, err := client.SchemaVersions(ctx, id); err != nil || !slices.Contains(places, SubjectVersion{subject, 1}) {
		t.Errorf("the schema is at %v, %v", places, err)
	}
	if types, err := client.SchemaTypes(ctx); err != nil || !slices.Contains(types, "JSON") {
		t.Errorf("schema types are %v, %v", types, err)
	}
}

func TestRealRegistryRefusals(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx := t.Context()
	_, unknownSubject := client.Latest(ctx, prefix)
	_, unknownID := client.SchemaByID(ctx, 1<<31-1)
	_, unknownLookup := client.Lookup(ctx, prefix, KindJSON, orderSchema, "")
	_, invalid := client.Register(ctx, prefix, KindAvro, `{"type":"no such type"}`, "")
	for name, tt := range map[string]struct{ err, want error }{
		"latest of an unknown subject": {unknownSubject, ErrSubjectNotFound},
		"unknown id":                   {unknownID, ErrSchemaNotFound},
		"lookup in an unknown subject": {unknownLookup, ErrNotFound},
		"invalid schema":               {invalid, ErrInvalidSchema},
	} {
		registry, ok := errors.AsType[*RegistryError](tt.err)
		if !ok || !errors.Is(tt.err, tt.want) || registry.Message == "" || registry.Retriable() {
			t.Errorf("%s: error is %v, want %v", name, tt.err, tt.want)
		}
	}
}

func TestRealRegistryKeepsCompatibility(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx := t.Context()
	closed := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"id":{"type":"string"}},"additionalProperties":false}`
	wider := strings.Replace(closed, `"properties":{`, `"properties":{"note":{"type":"string"},`, 1)
	other := strings.Replace(closed, `"type":"string"`, `"type":"integer"`, 1)
	if _, err := client.Register(ctx, prefix, KindJSON, closed, ""); err != nil {
		t.Fatal(err)
	}
	if level, err := client.SetSubjectCompatibility(ctx, prefix, "BACKWARD"); err != nil || level != "BACKWARD" {
		t.Fatalf("level is %q, %v", level, err)
	}
	if level, err := client.SubjectCompatibility(ctx, prefix); err != nil || level != "BACKWARD" {
		t.Errorf("level is %q, %v", level, err)
	}
	if level, err := client.Compatibility(ctx); err != nil || level == "" {
		t.Errorf("global level is %q, %v", level, err)
	}
	// The registry and the local check must agree.
	for _, candidate := range []string{wider, other} {
		local, err := JSONCompatibility(closed, candidate, Backward)
		if err != nil {
			t.Fatal(err)
		}
		remote, err := client.CheckCompatibility(ctx, prefix, NewSchema{Kind: KindJSON, Schema: candidate})
		if err != nil || remote.Compatible != local.Compatible {
			t.Errorf("%s: the registry says %+v, %v, the local check %+v", candidate, remote, err, local)
		}
		_, err = client.Register(ctx, prefix, KindJSON, candidate, "")
		if local.Compatible && err != nil || !local.Compatible && !errors.Is(err, ErrIncompatible) {
			t.Errorf("%s: registering gave %v", candidate, err)
		}
	}
	if _, err := client.CheckVersionCompatibility(ctx, prefix, 0, NewSchema{Kind: KindJSON, Schema: wider}); err != nil {
		t.Error(err)
	}
}

func TestRealRegistryResolvesReferences(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx := t.Context()
	money := Reference{Name: "money.json", Subject: prefix + "-money",
		Schema: `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"money.json","type":"integer","minimum":0}`}
	item := Reference{Name: "item.json", Subject: prefix + "-item", References: []Reference{money},
		Schema: `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"item.json","type":"object","properties":{"price":{"$ref":"money.json"}}}`}
	order := `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object","properties":{"item":{"$ref":"item.json"},"total":{"$ref":"money.json"}}}`
	producer := NewSchemaCache(client)
	defer func() { _ = producer.Close() }()
	writer := newJSONSerde[any](t, order, producer, true, WithReferences(item, money))
	writer.RegisterSubject(prefix)
	if err := producer.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	payload, err := writer.Serialize(prefix, map[string]any{"item": map[string]any{"price": 3}, "total": 3})
	if err != nil {
		t.Fatal(err)
	}

	consumer := NewSchemaCache(client)
	defer func() { _ = consumer.Close() }()
	id, _ := producer.IDForSubject(prefix + "-value")
	if _, err := consumer.AwaitWriterSchema(ctx, id); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, dependency := range consumer.WriterDependencies(id) {
		names = append(names, dependency.Name)
	}
	if diff := cmp.Diff([]string{"money.json", "item.json"}, names); diff != "" {
		t.Errorf("dependencies mismatch (-want +got):\n%s", diff)
	}
	reader := newJSONSerde[any](t, order, consumer, true, WithReferences(item, money))
	got, err := reader.Deserialize(prefix, payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"item": map[string]any{"price": 3.0}, "total": 3.0}, got); diff != "" {
		t.Errorf("value mismatch (-want +got):\n%s", diff)
	}
	if _, err := reader.Deserialize(prefix, Encode(id, []byte(`{"item":{"price":-1}}`))); err == nil {
		t.Error("a document that breaks a nested reference was read")
	}
	ids, err := client.ReferencedBy(ctx, item.Subject, 1)
	if err != nil || !slices.Contains(ids, id) {
		t.Errorf("the item is referenced by %v, %v, want %d", ids, err, id)
	}
}

func TestRealRegistryModes(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx := t.Context()
	lookUp := NewSchemaCache(client, WithRegisterMode(LookupOnly))
	defer func() { _ = lookUp.Close() }()
	lookUp.Intern(prefix, KindJSON, orderSchema, "")
	if err := lookUp.Prewarm(ctx); !errors.Is(err, ErrNotFound) {
		t.Errorf("lookup of an unknown schema: %v", err)
	}
	register := NewSchemaCache(client)
	defer func() { _ = register.Close() }()
	register.Intern(prefix, KindJSON, orderSchema, "")
	if err := register.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	want, _ := register.IDForSubject(prefix)
	if err := lookUp.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	latest := NewSchemaCache(client, WithRegisterMode(UseLatest))
	defer func() { _ = latest.Close() }()
	latest.Intern(prefix, KindJSON, orderSchema, "")
	if err := latest.Prewarm(ctx); err != nil {
		t.Fatal(err)
	}
	for name, cache := range map[string]*SchemaCache{"lookup": lookUp, "latest": latest} {
		if id, ok := cache.IDForSubject(prefix); !ok || id != want {
			t.Errorf("%s found id %d, %v, want %d", name, id, ok, want)
		}
	}
	if _, err := latest.AwaitWriterSchema(ctx, 1<<31-1); !errors.Is(err, ErrSchemaNotFound) {
		t.Errorf("error of an unknown writer schema is %v", err)
	}
}

func TestRealRegistryDeletes(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx := t.Context()
	for _, schema := range []string{orderSchema, strings.Replace(orderSchema, "Order", "Order2", 1)} {
		if _, err := client.Register(ctx, prefix, KindJSON, schema, ""); err != nil {
			t.Fatal(err)
		}
	}
	if deleted, err := client.DeleteVersion(ctx, prefix, 1, false); err != nil || deleted != 1 {
		t.Errorf("deleted %d, %v", deleted, err)
	}
	if _, err := client.Version(ctx, prefix, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted version is %v", err)
	}
	if found, err := client.FindVersion(ctx, prefix, 1, WithDeleted()); err != nil || found.Version != 1 {
		t.Errorf("a deleted version, asked for: %+v, %v", found, err)
	}
	if versions, err := client.DeleteSubject(ctx, prefix, false); err != nil || !slices.Contains(versions, 2) {
		t.Errorf("deleted versions are %v, %v", versions, err)
	}
	if _, err := client.Latest(ctx, prefix); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted subject is %v", err)
	}
}

// A context is a part of the name of a subject, and an id is looked up in it.
func TestRealRegistryContexts(t *testing.T) {
	client, prefix := realRegistry(t)
	cache := NewSchemaCache(client)
	t.Cleanup(func() { _ = cache.Close() })
	strategy := WithStrategy(func(topic string, role Role) string { return ":.it:" + TopicNameStrategy(topic, role) })
	writer, err := NewGenericAvroSerde(pairSchema("price", "quantity"), cache, RoleValue, strategy)
	if err != nil {
		t.Fatal(err)
	}
	writer.RegisterSubject(prefix)
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"price": 3, "quantity": 4}
	data, err := writer.Serialize(prefix, want)
	if err != nil {
		t.Fatal(err)
	}
	other := NewSchemaCache(client)
	t.Cleanup(func() { _ = other.Close() })
	reader, err := NewGenericAvroSerde(pairSchema("quantity", "price"), other, RoleValue, strategy)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader.DeserializeContext(t.Context(), prefix, data)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("read: %v, mismatch (-want +got):\n%s", err, diff)
	}
	// Apicurio's registry knows the prefix of subjects as little as contexts of ids.
	if subjects, err := client.FindSubjects(t.Context(), WithSubjectPrefix(":.it:")); err != nil || !slices.Contains(subjects, ":.it:"+prefix+"-value") {
		t.Errorf("subjects of the context: %q, %v", subjects, err)
	}
	if contexts, err := client.Contexts(t.Context()); err != nil || len(contexts) == 0 {
		t.Errorf("contexts: %q, %v", contexts, err)
	}
}

// A serde that is told an id writes under it, although a later version is there.
func TestRealRegistryWritesUnderAGivenID(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx, subject := t.Context(), prefix+"-value"
	first, err := client.Register(ctx, subject, KindAvro, pairSchema("price", "quantity"), "")
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(pairSchema("quantity", "price"), `]}`, `,{"name":"note","type":"string","default":""}]}`, 1)
	second, err := client.Register(ctx, subject, KindAvro, later, "")
	if err != nil || second == first {
		t.Fatalf("second id %d, %v, the first is %d", second, err, first)
	}
	for name, tc := range map[string]struct {
		options []SerdeOption
		id      int
		body    string
	}{
		"of the local schema": {nil, second, "\x08\x06\x00"},
		"given":               {[]SerdeOption{WithSchemaID(first)}, first, "\x06\x08"},
	} {
		cache := NewSchemaCache(client, WithoutLatestCheck())
		t.Cleanup(func() { _ = cache.Close() })
		serde, err := NewGenericAvroSerde(later, cache, RoleValue, tc.options...)
		if err != nil {
			t.Fatal(err)
		}
		serde.RegisterSubject(prefix)
		if err := cache.Prewarm(ctx); err != nil {
			t.Fatal(err)
		}
		data, err := serde.Serialize(prefix, map[string]any{"price": 3, "quantity": 4, "note": ""})
		if want := Encode(tc.id, []byte(tc.body)); !bytes.Equal(data, want) || err != nil {
			t.Errorf("%s: % x, %v, want % x", name, data, err, want)
		}
	}
}

func TestRealRegistryConfiguration(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx, subject := t.Context(), prefix+"-value"
	if _, err := client.Register(ctx, subject, KindAvro, `"int"`, ""); err != nil {
		t.Fatal(err)
	}
	if set, err := client.SetSubjectConfig(ctx, subject, Config{Compatibility: "FULL_TRANSITIVE"}); err != nil || set.Compatibility != "FULL_TRANSITIVE" {
		t.Errorf("SetSubjectConfig: %+v, %v", set, err)
	}
	for name, call := range map[string]func() (Config, error){
		"SubjectConfig":   func() (Config, error) { return client.SubjectConfig(ctx, subject) },
		"EffectiveConfig": func() (Config, error) { return client.EffectiveConfig(ctx, subject) },
	} {
		if got, err := call(); err != nil || got.Compatibility != "FULL_TRANSITIVE" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	global, err := client.Config(ctx)
	if err != nil || global.Compatibility == "" {
		t.Errorf("Config: %+v, %v", global, err)
	}
	if set, err := client.SetConfig(ctx, Config{Compatibility: global.Compatibility}); err != nil || set.Compatibility != global.Compatibility {
		t.Errorf("SetConfig: %+v, %v, want %s", set, err, global.Compatibility)
	}
}

// A registry that knows no metadata answers a search for it with nothing, which
// is no version.
func TestRealRegistryHasNoMetadata(t *testing.T) {
	client, prefix := realRegistry(t)
	ctx, subject := t.Context(), prefix+"-value"
	id, err := client.RegisterSchema(ctx, subject, NewSchema{Schema: `"int"`, Metadata: []byte(`{"properties":{"env":"prod"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.LatestWithMetadata(ctx, subject, map[string]string{"env": "prod"})
	if refused, ok := errors.AsType[*RegistryError](err); !ok || refused.StatusCode != -1 || found.ID != 0 {
		t.Errorf("LatestWithMetadata: %+v, %v", found, err)
	}
	cache := NewSchemaCache(client)
	t.Cleanup(func() { _ = cache.Close() })
	serde, err := NewGenericAvroSerde(`"int"`, cache, RoleValue, WithLatestMetadata(map[string]string{"env": "prod"}))
	if err != nil {
		t.Fatal(err)
	}
	serde.RegisterSubject(prefix)
	if err := cache.Prewarm(ctx); err == nil {
		data, err := serde.Serialize(prefix, 1)
		t.Errorf("a serde writes under metadata that nobody has: % x, %v; the version is %d", data, err, id.ID)
	}
}
