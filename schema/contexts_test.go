// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pathRegistry answers requests by method and path with query, and keeps them.
type pathRegistry struct {
	answers map[string]string

	mu       sync.Mutex
	requests []string
}

func (r *pathRegistry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body struct {
		Schema     string
		References []SchemaReference
	}
	key := request.Method + " " + request.URL.RequestURI()
	if request.Method == http.MethodPost {
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	r.mu.Lock()
	r.requests = append(r.requests, key)
	for _, reference := range body.References {
		r.requests = append(r.requests, "  "+reference.Name+" in "+reference.Subject)
	}
	r.mu.Unlock()
	answer, ok := r.answers[key]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error_code":40403,"message":"` + key + `"}`
	}
	_, _ = w.Write([]byte(answer))
}

func (r *pathRegistry) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func newPathCache(t *testing.T, r *pathRegistry, options ...SchemaCacheOption) *SchemaCache {
	t.Helper()
	client, err := NewRegistryClient("http://registry.test", WithHTTPClient(&http.Client{Transport: handlerTransport{r}}), WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	cache := NewSchemaCache(client, options...)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func pairSchema(first, second string) string {
	return `{"type":"record","name":"Line","fields":[{"name":"` + first + `","type":"int"},{"name":"` + second + `","type":"int"}]}`
}

func answerOf(text string) string {
	data, _ := json.Marshal(map[string]string{"schema": text})
	return string(data)
}

func inContext(name string) SubjectNameStrategy {
	return func(topic string, role Role) string { return ":" + name + ":" + TopicNameStrategy(topic, role) }
}

// An id stands for one schema in each context of a registry.
func TestIDsBelongToTheContextOfTheSubject(t *testing.T) {
	registry := &pathRegistry{answers: map[string]string{
		"GET /schemas/ids/7": answerOf(pairSchema("price", "quantity")),
		"GET /schemas/ids/7?subject=%3A.ctx%3Aorders-value": answerOf(pairSchema("quantity", "price")),
	}}
	cache := newPathCache(t, registry)
	reader := pairSchema("price", "quantity")
	inner, err := NewGenericAvroSerde(reader, cache, RoleValue, WithStrategy(inContext(".ctx")))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := NewGenericAvroSerde(reader, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	explicit, err := NewGenericAvroSerde(reader, cache, RoleValue, WithStrategy(inContext(".")))
	if err != nil {
		t.Fatal(err)
	}
	record := Encode(7, []byte{2, 4})
	for range 2 {
		for _, tc := range []struct {
			serde *AvroSerde[any]
			want  map[string]any
		}{
			{outer, map[string]any{"price": 1, "quantity": 2}},
			{inner, map[string]any{"price": 2, "quantity": 1}},
			{explicit, map[string]any{"price": 1, "quantity": 2}},
		} {
			got, err := tc.serde.DeserializeContext(t.Context(), "orders", record)
			if diff := cmp.Diff(any(tc.want), got); diff != "" || err != nil {
				t.Errorf("%s: %v, mismatch (-want +got):\n%s", tc.serde.Subject("orders"), err, diff)
			}
		}
	}
	if got := len(registry.seen()); got != 2 {
		t.Errorf("%d requests, want one for each context: %q", got, registry.seen())
	}
}

func TestErrorsNameTheContext(t *testing.T) {
	cache := newPathCache(t, &pathRegistry{})
	s, err := NewGenericAvroSerde(`"int"`, cache, RoleValue, WithStrategy(inContext(".ctx")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.DeserializeContext(t.Context(), "orders", Encode(9, nil))
	const want = `writer schema for id 9 in context .ctx is not available: schema registry returned HTTP 404: {"error_code":40403,"message":"GET /schemas/ids/9?subject=%3A.ctx%3Aorders-value"} (AVRO, subject :.ctx:orders-value)`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// What a schema refers to without a context is in the context of the schema.
func TestReferencesAreInTheContextOfTheirSchema(t *testing.T) {
	const money = `{"type":"record","name":"m.Money","fields":[{"name":"cents","type":"long"}]}`
	registry := &pathRegistry{answers: map[string]string{
		"GET /schemas/ids/8?subject=%3A.ctx%3Aorders-value": `{"schema":"\"m.Money\"","references":[{"name":"m.Money","subject":"money","version":3}]}`,
		"GET /subjects/:.ctx:money/versions/3?deleted=true": `{"id":4,"version":3,"schema":` + jsonText(money) + `}`,
		"POST /subjects/:.ctx:money/versions":               `{"id":4,"version":3}`,
		"POST /subjects/:.ctx:orders-value/versions":        `{"id":8}`,
		"POST /subjects/:.other:shared/versions":            `{"id":5,"version":1}`,
	}}
	cache := newPathCache(t, registry)
	reader, err := NewGenericAvroSerde(money, cache, RoleValue, WithStrategy(inContext(".ctx")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader.DeserializeContext(t.Context(), "orders", Encode(8, []byte{10}))
	if diff := cmp.Diff(any(map[string]any{"cents": int64(5)}), got); diff != "" || err != nil {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
	before := len(registry.seen())
	writer, err := NewGenericAvroSerde(`["m.Money","o.Other"]`, cache, RoleValue, WithStrategy(inContext(".ctx")), WithReferences(
		Reference{Name: "m.Money", Subject: "money", Schema: money},
		Reference{Name: "o.Other", Subject: ":.other:shared", Schema: `{"type":"fixed","name":"o.Other","size":1}`},
	))
	if err != nil {
		t.Fatal(err)
	}
	writer.RegisterSubject("orders")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /subjects/:.ctx:money/versions", "POST /subjects/:.other:shared/versions", "POST /subjects/:.ctx:orders-value/versions",
		"  m.Money in :.ctx:money", "  o.Other in :.other:shared",
	}
	if diff := cmp.Diff(want, registry.seen()[before:]); diff != "" {
		t.Errorf("requests mismatch (-want +got):\n%s", diff)
	}
}

func jsonText(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}
