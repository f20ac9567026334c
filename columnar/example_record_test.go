// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// What Kafka says about a record are columns of its batch, and make the record
// that a sink produces.
func ExampleRowMetadata() {
	codec, err := columnar.NewJSONCodec(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("in", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("k"), []byte(`{"id":1}`), 1000, 3, 42,
			columnar.RecordHeader{Key: "trace", Value: []byte("abc")},
			columnar.RecordHeader{Key: "null"}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	var names []string
	for _, field := range batch.Schema().Fields() {
		names = append(names, field.Name)
	}
	fmt.Println(names)
	record, err := columnar.NewRowMetadata(batch).Record(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("key %s, timestamp %d, headers", record.Key, record.Timestamp)
	for _, header := range record.Headers {
		fmt.Printf(" %s=%q null:%t", header.Key, header.Value, header.Value == nil)
	}
	// Output:
	// [id __key __timestamp __partition __offset __headers]
	// key k, timestamp 1000, headers trace="abc" null:false null="" null:true
}

// A record without a value deletes its key where the output topic is compacted.
// It passes codecs and stateless operators as a row of nulls.
func ExampleNewConsumedTombstone() {
	mem := memory.DefaultAllocator
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "name", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("users", []string{"users"}, codec)
	if err != nil {
		log.Fatal(err)
	}
	// A comparison with null is null, and would drop the tombstone.
	name := columnar.Column("name")
	kept, err := topology.AddOperator("kept", columnar.FilterWhere(mem, columnar.Or(name.IsNull(), name.NotEqual("test"))), source)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topology.AddSink("out", "real-users", codec, kept); err != nil {
		log.Fatal(err)
	}
	built, err := topology.Build()
	if err != nil {
		log.Fatal(err)
	}
	defer built.Close()
	outputs, err := built.RunBatch("users", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("1"), []byte(`{"name":"ada"}`), 0, 0, 0),
		columnar.NewConsumedRecord([]byte("2"), []byte(`{"name":"test"}`), 0, 0, 1),
		columnar.NewConsumedTombstone([]byte("1"), 0, 0, 2),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, output := range outputs {
		fmt.Printf("%s %q deletes:%t\n", output.Record.Key, output.Record.Value, output.Record.Value == nil)
	}
	// Output:
	// 1 "{\"name\":\"ada\"}" deletes:false
	// 1 "" deletes:true
}
