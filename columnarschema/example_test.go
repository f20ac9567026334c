// SPDX-License-Identifier: Apache-2.0

package columnarschema_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const orderSchema = `{"type":"record","name":"Order","fields":[
	{"name":"id","type":"string"},
	{"name":"cents","type":"long"},
	{"name":"note","type":["null","string"],"default":null}]}`

// The writer of these records does not know notes, and counts cents as int.
const olderSchema = `{"type":"record","name":"Order","fields":[
	{"name":"cents","type":"int"},
	{"name":"id","type":"string"}]}`

// Records of two versions of a schema become the columns of the newer one.
func ExampleNewAvroBatchCodec() {
	cache := schema.NewSchemaCache(nil) // of a registry client, in a service
	defer cache.Close()
	cache.SeedWriterSchema(1, olderSchema)
	cache.SeedWriterSchema(2, orderSchema)
	cache.SeedSubjectID("orders-value", 2)

	codec, err := columnarschema.NewAvroBatchCodec(orderSchema, cache, memory.DefaultAllocator)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{
		{Value: schema.Encode(1, []byte("\x0a\x04o1"))},
		{Value: schema.Encode(2, []byte("\x04o2\x0e\x02\x08rush"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	for i := range codec.ArrowSchema().NumFields() {
		fmt.Println(batch.ColumnName(i), batch.Column(i))
	}
	records, err := codec.Encode("orders", batch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", records[0].Value)
	// Output:
	// id ["o1" "o2"]
	// cents [5 7]
	// note [(null) "rush"]
	// "\x00\x00\x00\x00\x02\x04o1\n\x00"
}

// A source and a sink of Avro records in a chain. In a service FromRegistry takes
// the schemas from the registry in place of the codecs here.
func Example() {
	cache := schema.NewSchemaCache(nil)
	defer cache.Close()
	cache.SeedWriterSchema(2, orderSchema)
	cache.SeedSubjectID("large-value", 2)

	orders, err := columnarschema.NewAvroBatchCodec(orderSchema, cache, memory.DefaultAllocator)
	if err != nil {
		log.Fatal(err)
	}
	topology, err := stream.New().
		From(stream.Using(orders), "orders").
		Where(columnar.Column("cents").Greater(6)).
		To("large", stream.Using(orders)).
		Topology()
	if err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	produced, err := built.RunBatch("orders", []columnar.ConsumedRecord{
		{Value: schema.Encode(2, []byte("\x04o1\x0a\x00"))},
		{Value: schema.Encode(2, []byte("\x04o2\x0e\x00"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range produced {
		fmt.Printf("%s %q\n", p.Topic, p.Record.Value)
	}
	// Output:
	// large "\x00\x00\x00\x00\x02\x04o2\x0e\x00"
}
