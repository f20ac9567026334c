// SPDX-License-Identifier: Apache-2.0

package columnar_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// A JSON codec reads the members that its schema names and skips the others.
// The caller releases the batch.
func ExampleJSONCodec() {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{
		{Name: "sku", Type: arrow.BinaryTypes.String},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("o-1"), []byte(`{"sku":"pen","price":1.20,"tags":["new","blue"],"note":"skipped"}`), 1000, 0, 0),
		columnar.NewConsumedRecord([]byte("o-2"), []byte(`{"sku":"ink"}`), 1001, 0, 1),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Column(0), batch.Column(2))

	records, err := codec.Encode("copies", batch)
	batch.Release()
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range records {
		fmt.Printf("%s %s\n", record.Key, record.Value)
	}
	fmt.Println("bytes left:", mem.CurrentAlloc())
	// Output:
	// ["pen" "ink"] [["new" "blue"] (null)]
	// o-1 {"sku":"pen","price":1.20,"tags":["new","blue"]}
	// o-2 {"sku":"ink","price":null,"tags":null}
	// bytes left: 0
}

// Records that cannot be decoded are reported together; the others decode
// without them.
func ExampleDecodeError() {
	codec, err := columnar.NewJSONCodec(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "lines", Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "count", Type: arrow.PrimitiveTypes.Int8}))},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	_, err = codec.Decode("orders", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte(`{"lines":[{"count":1},{"count":300}]}`), 0, 2, 40),
		columnar.NewConsumedRecord(nil, []byte(`{"lines":[]}`), 0, 2, 41),
		columnar.NewConsumedRecord(nil, []byte(`not JSON`), 0, 2, 42),
	})
	var decode *columnar.DecodeError
	if !errors.As(err, &decode) {
		log.Fatal(err)
	}
	for _, record := range decode.Records {
		var document *columnar.JSONError
		if !errors.As(record, &document) {
			log.Fatal(record)
		}
		fmt.Printf("offset %d, %q: %v\n", record.Offset, document.Path, document.Cause)
	}
	// Output:
	// offset 40, "lines[1].count": number overflows int8
	// offset 42, "": found 'n' in place of an object
}

// A blob codec packs many rows into one record: an Arrow IPC stream. Rows that
// share key, timestamp and headers share a record.
func ExampleBlobCodec() {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	schema := arrow.NewSchema([]arrow.Field{{Name: "price", Type: arrow.PrimitiveTypes.Int64}}, nil)
	builder := array.NewRecordBuilder(mem, schema)
	builder.Field(0).(*array.Int64Builder).AppendValues([]int64{5, 3, 9}, nil)
	rows := builder.NewRecordBatch()
	builder.Release()

	codec := columnar.NewBlobCodec(mem)
	records, err := codec.Encode("prices", rows)
	rows.Release()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("records:", len(records))

	batch, err := codec.Decode("prices", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("k"), records[0].Value, 1000, 0, 17),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Column(0), batch.Column(batch.Schema().FieldIndices(columnar.OffsetColumn)[0]))
	batch.Release()
	fmt.Println("bytes left:", mem.CurrentAlloc())
	// Output:
	// records: 1
	// [5 3 9] [17 17 17]
	// bytes left: 0
}

// A gzip codec compresses the record values of another codec.
func ExampleGzipBatchCodec() {
	plain, err := columnar.NewJSONCodec(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "name", Type: arrow.BinaryTypes.String},
	}, nil))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := plain.Decode("in", []columnar.ConsumedRecord{columnar.NewConsumedRecord(nil, []byte(`{"name":"ada"}`), 0, 0, 0)})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	records, err := columnar.NewGzipBatchCodec(plain).Encode("out", batch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", records[0].Value[:2]) // the mark of gzip
	// Output: 1f8b
}

// textSerde is a value serde for records of plain text.
type textSerde struct{}

func (textSerde) Serialize(_ string, value string) ([]byte, error) { return []byte(value), nil }

func (textSerde) Deserialize(_ string, data []byte) (string, error) { return string(data), nil }

// A row codec brings any serde of rows to columns. The serdes of package schema
// are such serdes.
func ExampleRowCodec() {
	mem := memory.DefaultAllocator
	codec := columnar.NewRowCodec(textSerde{}, columnar.NewJSONRowBridge[string](), mem)
	batch, err := codec.Decode("names", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte("ada"), 0, 0, 0),
		columnar.NewConsumedRecord(nil, []byte("alan"), 0, 0, 1),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	fmt.Println(batch.ColumnName(0), batch.Column(0))
	// Output: value ["ada" "alan"]
}

// A JSON Schema gives the columns of a JSON codec.
func ExampleSchemaFromJSONSchema() {
	schema, err := columnar.SchemaFromJSONSchema(`{
		"type": "object",
		"properties": {
			"id":     {"type": "integer"},
			"name":   {"type": ["string", "null"]},
			"photo":  {"type": "string", "contentEncoding": "base64"},
			"extras": {"type": "object"}
		},
		"required": ["id", "name"]
	}`)
	if err != nil {
		log.Fatal(err)
	}
	for _, field := range schema.Fields() {
		fmt.Println(field.Name, field.Type, "nullable:", field.Nullable)
	}
	// Output:
	// id int64 nullable: false
	// name utf8 nullable: true
	// photo binary nullable: true
	// extras utf8 nullable: true
}

// A record of one array is as many rows as the array has elements, and producers that
// disagree about types are read alike.
func ExampleWithJSONArrays() {
	codec, err := columnar.NewJSONCodec(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "sku", Type: arrow.BinaryTypes.String},
		{Name: "count", Type: arrow.PrimitiveTypes.Int64},
		{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms},
	}, nil), columnar.WithJSONArrays(), columnar.WithLenientJSON(), columnar.WithJSONEpochUnit(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("o-1"), []byte(`[{"sku":"pen","count":"2","at":1.5},{"sku":17,"count":1,"at":"1970-01-01T00:00:02"}]`), 1000, 0, 0),
		columnar.NewConsumedRecord([]byte("o-2"), []byte(`{"sku":"ink","count":true,"at":3}`), 1001, 0, 1),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	for i := range 3 {
		fmt.Println(batch.ColumnName(i), batch.Column(i))
	}
	fmt.Println("offset", batch.Column(6))
	// Output:
	// sku ["pen" "17" "ink"]
	// count [2 1 1]
	// at [1500 2000 3000]
	// offset [0 0 1]
}
