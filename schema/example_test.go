// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/krabka-io/krabka-streams-go/schema"
)

// A cache whose ids and schemas are seeded needs no registry, which suits tests.
func Example() {
	const text = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`
	cache := schema.NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	cache.SeedSubjectID("orders-value", 11)
	cache.SeedWriterSchema(11, text)

	orders, err := schema.NewJSONSchemaSerde[map[string]string](text, cache, schema.RoleValue, true)
	if err != nil {
		log.Fatal(err)
	}
	payload, err := orders.Serialize("orders", map[string]string{"id": "o-1"})
	if err != nil {
		log.Fatal(err)
	}
	order, err := orders.Deserialize("orders", payload)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(order["id"])
	// Output: o-1
}

func ExampleEncode() {
	frame, err := schema.Decode(schema.Encode(258, []byte("body")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(frame.SchemaID, string(frame.Body))
	// Output: 258 body
}

// newRegistry starts a registry that knows the subject orders-value.
func newRegistry() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /subjects/orders-value/versions", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":7}`)
	})
	mux.HandleFunc("GET /schemas/ids/7", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"schemaType":"JSON","schema":"{\"type\":\"object\"}"}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code":40401,"message":"Subject not found."}`)
	})
	return httptest.NewServer(mux)
}

func ExampleSchemaCache_PrewarmReport() {
	registry := newRegistry()
	defer registry.Close()
	client, err := schema.NewRegistryClient(registry.URL, schema.WithRequestTimeout(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	cache := schema.NewSchemaCache(client)
	defer func() { _ = cache.Close() }()

	const text = `{"type":"object"}`
	orders, err := schema.NewJSONSchemaSerde[any](text, cache, schema.RoleValue, true)
	if err != nil {
		log.Fatal(err)
	}
	orders.RegisterSubject("orders")
	orders.RegisterSubject("refunds")

	report := cache.PrewarmReport(context.Background())
	for _, s := range report.Schemas {
		fmt.Println(s.Subject, s.ID, errors.Is(s.Err, schema.ErrSubjectNotFound))
	}
	fmt.Println("start:", report.Successful())
	// Output:
	// orders-value 7 false
	// refunds-value 0 true
	// start: false
}

// A record whose schema is not cached says so at once. A poll loop reads it
// again later; anything that may block can wait.
func ExampleJSONSchemaSerde_DeserializeContext() {
	registry := newRegistry()
	defer registry.Close()
	client, err := schema.NewRegistryClient(registry.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	cache := schema.NewSchemaCache(client)
	defer func() { _ = cache.Close() }()
	orders, err := schema.NewJSONSchemaSerde[map[string]any](`{"type":"object"}`, cache, schema.RoleValue, true)
	if err != nil {
		log.Fatal(err)
	}
	payload := schema.Encode(7, []byte(`{"id":"o-1"}`))
	_, err = orders.Deserialize("orders", payload)
	fmt.Println(err)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	order, err := orders.DeserializeContext(ctx, "orders", payload)
	fmt.Println(order, err)
	// Output:
	// writer schema for id 7 is pending fetch
	// map[id:o-1] <nil>
}

// A subject names the context of a registry that its ids belong to.
func ExampleWithStrategy_context() {
	staging := schema.WithStrategy(func(topic string, role schema.Role) string {
		return ":.staging:" + schema.TopicNameStrategy(topic, role)
	})
	cache := schema.NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	orders, err := schema.NewGenericAvroSerde(`"string"`, cache, schema.RoleValue, staging)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders.Subject("orders"))
	// Output: :.staging:orders-value
}

func ExampleRegistryHooks() {
	registry := newRegistry()
	defer registry.Close()
	requests := map[string]int{} // stands in for a counter with labels
	client, err := schema.NewRegistryClient(registry.URL, schema.WithRegistryHooks(schema.RegistryHooks{
		Attempt: func(a schema.RegistryAttempt) {
			requests[fmt.Sprint(a.Method, " ", a.Status)]++
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if _, err := client.Latest(context.Background(), "refunds-value"); !errors.Is(err, schema.ErrSubjectNotFound) {
		log.Fatal(err)
	}
	fmt.Println(requests)
	// Output: map[GET 404:1]
}

// A header-framed payload is the bare body, with the schema id in a header.
func ExampleHeader() {
	const text = `{"type":"string"}`
	cache := schema.NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	cache.SeedSubjectID("names-value", 258)
	cache.SeedWriterSchema(258, text)
	names, err := schema.NewJSONSchemaSerde[string](text, cache, schema.RoleValue, true)
	if err != nil {
		log.Fatal(err)
	}
	payload, headers, err := names.SerializeWithHeaders("names", "Ada", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s % x\n", payload, headers[0].Key, headers[0].Value)
	name, err := names.DeserializeWithHeaders("names", payload, headers)
	fmt.Println(name, err)
	// Output:
	// "Ada" __value_schema_id 00 00 00 01 02
	// Ada <nil>
}
