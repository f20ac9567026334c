// SPDX-License-Identifier: Apache-2.0

package columnarschema_test

import (
	"context"
	"fmt"
	"log"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// largeOrders runs a topology whose topics are those of a registry. The schemas are
// the latest of their subjects, whatever their kind; message is that of a Protobuf text.
func largeOrders(kind schema.Kind, text, message string, values ...string) error {
	registry, err := krabkatest.NewSchemaRegistryStub()
	if err != nil {
		return err
	}
	defer registry.Close()
	client, err := schema.NewRegistryClient(registry.URL())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	cache := schema.NewSchemaCache(client)
	defer cache.Close()
	ctx := context.Background()
	for _, subject := range []string{"orders-value", "large-value"} {
		if _, err := client.Register(ctx, subject, kind, text, message); err != nil {
			return err
		}
	}

	topology, err := stream.New().
		From(columnarschema.FromRegistry(ctx, client, cache, "orders"), "orders").
		Where(columnar.Column("cents").Greater(6)).
		To("large", columnarschema.FromRegistry(ctx, client, cache, "large")).
		Topology()
	if err != nil {
		return err
	}
	if err := cache.Prewarm(ctx); err != nil { // the ids that sinks write under
		return err
	}
	if _, err := cache.AwaitWriterSchema(ctx, 1); err != nil { // a runner repeats the round instead
		return err
	}
	built, err := topology.Build()
	if err != nil {
		return err
	}
	defer built.Close()
	var records []columnar.ConsumedRecord
	for _, value := range values {
		records = append(records, columnar.ConsumedRecord{Value: []byte(value)})
	}
	produced, err := built.RunBatch("orders", records)
	for _, p := range produced {
		fmt.Printf("%s %q\n", p.Topic, p.Record.Value)
	}
	return err
}

func ExampleFromRegistry() {
	const text = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"cents","type":"long"}]}`
	if err := largeOrders(schema.KindAvro, text, "", "\x00\x00\x00\x00\x01\x04o1\x0a", "\x00\x00\x00\x00\x01\x04o2\x0e"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// large "\x00\x00\x00\x00\x01\x04o2\x0e"
}

func ExampleFromRegistry_protobuf() {
	const text = `syntax = "proto3"; message Order { string id = 1; int64 cents = 2; }`
	if err := largeOrders(schema.KindProtobuf, text, "Order", "\x00\x00\x00\x00\x01\x00\x0a\x02o1\x10\x05", "\x00\x00\x00\x00\x01\x00\x0a\x02o2\x10\x07"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// large "\x00\x00\x00\x00\x01\x00\n\x02o2\x10\a"
}

func ExampleFromRegistry_jsonSchema() {
	const text = `{"type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer"}}}`
	if err := largeOrders(schema.KindJSON, text, "", "\x00\x00\x00\x00\x01{\"id\":\"o1\",\"cents\":5}", "\x00\x00\x00\x00\x01{\"id\":\"o2\",\"cents\":7}"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// large "\x00\x00\x00\x00\x01{\"id\":\"o2\",\"cents\":7}"
}
