// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// registered is a schema in a registry double.
type registered struct{ kind, text string }

// newRegistry serves the latest schemas of subjects, whose ids are their places
// in the list from 1 on, and lets them be looked up.
func newRegistry(t testing.TB, subjects []string, schemas ...registered) *schema.RegistryClient {
	t.Helper()
	answer := func(w http.ResponseWriter, i int) {
		err := json.NewEncoder(w).Encode(map[string]any{
			"subject": subjects[i], "id": i + 1, "version": 1, "schema": schemas[i].text, "schemaType": schemas[i].kind,
		})
		if err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, subject := range subjects {
			if r.URL.Path == "/subjects/"+subject+"/versions/latest" || r.URL.Path == "/subjects/"+subject ||
				r.URL.Path == "/subjects/"+subject+"/versions" || strings.HasSuffix(r.URL.Path, fmt.Sprintf("/schemas/ids/%d", i+1)) {
				answer(w, i)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code":40401,"message":"subject not found"}`)
	}))
	t.Cleanup(server.Close)
	client, err := schema.NewRegistryClient(server.URL, schema.WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newCache(t testing.TB, client *schema.RegistryClient) *schema.SchemaCache {
	t.Helper()
	cache := schema.NewSchemaCache(client)
	t.Cleanup(func() { cache.Close() })
	return cache
}

func TestTopicsTakeTheirSchemasFromTheRegistry(t *testing.T) {
	client := newRegistry(t, []string{"orders-value", "orders-key", "large-value"},
		registered{"", readerSchema},
		registered{"", `{"type":"record","name":"Id","fields":[{"name":"id","type":"long"}]}`},
		registered{"", `{"type":"record","name":"Large","fields":[{"name":"amount","type":"long"},{"name":"k_id","type":["null","long"]}]}`})
	cache := newCache(t, client)
	topology, err := stream.New().
		From(FromRegistry(t.Context(), client, cache, "orders").Key("k_"), "orders").
		Where(columnar.Column("amount").Greater(10)).
		To("large", FromRegistry(t.Context(), client, cache, "large")).
		Topology()
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	var records []columnar.ConsumedRecord
	for i := range byte(3) {
		records = append(records, columnar.ConsumedRecord{
			Key: avroFrame(2, 2*i), Value: avroFrame(1, 2, 'a'+i, 20*i), Offset: int64(i),
		})
	}
	produced, err := built.RunBatch("orders", records)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range produced {
		got = append(got, fmt.Sprintf("%s %x %x", p.Topic, p.Record.Key, p.Record.Value))
	}
	if diff := cmp.Diff([]string{"large 000000000204 0000000003280204"}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestTopicsWithoutUsableSchemasAreNamed(t *testing.T) {
	client := newRegistry(t, []string{"lines-value", "pings-value"}, registered{"JSON", `{}`},
		registered{"PROTOBUF", "syntax = \"proto3\"; package p; message Ping { string text = 1; }"})
	cache := newCache(t, client)
	mem := checkedTestAllocator(t)
	for topic, want := range map[string]string{"orders": `subject "orders-value"`, "lines": "JSON"} {
		if _, err := FromRegistry(t.Context(), client, cache, topic).Codec(mem); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), topic) {
			t.Errorf("topic %s gives %v, want an error that says %s", topic, err, want)
		}
	}
	codec, err := FromRegistry(t.Context(), client, cache, "other").Subject("pings-value").Codec(mem)
	if err != nil {
		t.Fatal(err)
	}
	if got := codec.(columnar.SchemaCodec).Schema(); got.NumFields() != 1 || got.Field(0).Name != "text" {
		t.Errorf("columns of a Protobuf topic are %v", got)
	}
}

func TestTopicsReadAndWriteUnderSchemasOfTheCaller(t *testing.T) {
	cache := offlineCache(t)
	mem := checkedTestAllocator(t)
	source, err := FromRegistry(t.Context(), nil, cache, "orders").ReadAs(schema.KindAvro, readerSchema).With(WithColumns("id")).Codec(mem)
	if err != nil {
		t.Fatal(err)
	}
	if got := source.(columnar.SchemaCodec).Schema(); got.NumFields() != 1 {
		t.Errorf("columns are %v", got)
	}
	if report := cache.PrewarmReport(t.Context()); len(report.Schemas) != 0 {
		t.Errorf("a source interned %v", report.Schemas)
	}
	if _, err := FromRegistry(t.Context(), nil, cache, "orders").WriteAs(schema.KindAvro, readerSchema).Codec(mem); err != nil {
		t.Fatal(err)
	}
	if report := cache.PrewarmReport(t.Context()); len(report.Schemas) != 1 || report.Schemas[0].Subject != "orders-value" {
		t.Errorf("a sink interned %v", report.Schemas)
	}
}

func TestColumnsThatCannotBeWrittenAreFoundBeforeTheFirstRow(t *testing.T) {
	codec, _ := newOrdersCodec(t)
	err := codec.CheckSchema(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: columnar.KeyColumn, Type: arrow.BinaryTypes.Binary},
	}, nil))
	mismatch, ok := err.(*MismatchError)
	if !ok {
		t.Fatalf("CheckSchema returned %v", err)
	}
	want := []ColumnMismatch{
		{"id", "int64 cannot be written as Avro string"},
		{"amount", "the batch has no such column, which the schema has a field for"},
	}
	if diff := cmp.Diff(want, mismatch.Columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if err := codec.CheckSchema(codec.Schema()); err != nil {
		t.Errorf("the codec's own columns: %v", err)
	}
}
