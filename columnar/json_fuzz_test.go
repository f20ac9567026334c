// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fuzzSchema has a field of each kind that is read from JSON.
var fuzzSchema = arrow.NewSchema([]arrow.Field{
	{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "u", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "x", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "d", Type: &arrow.Decimal128Type{Precision: 20, Scale: 3}, Nullable: true},
	{Name: "t", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
	{Name: "c", Type: arrow.FixedWidthTypes.Time64ns, Nullable: true},
	{Name: "j", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})},
	{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8), Nullable: true},
	{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), Nullable: true},
	{Name: "o", Type: arrow.StructOf(arrow.Field{Name: "k", Type: arrow.PrimitiveTypes.Int16}), Nullable: true},
	{Name: "w", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}, Nullable: true},
}, nil)

func FuzzJSONRecord(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"i":1,"u":255,"f":-1.5e3,"b":true,"s":"a\u00e9\ud83d\ude00\n","x":"AAE=","d":"1.234","t":"2024-02-29T01:02:03.5+01:00","c":"01:02:03"}`,
		`{"j":{"a":[1,{"b":null}]},"l":[1,null,2],"m":{"a":"b","a":"c"},"o":{"k":1,"z":[[]]},"w":"x"}`,
		` { "i" : 12345678901234567890 , "i" : 1e3 } `, `{"i":01}`, `{"s":"` + "\xff" + `"}`, `[`, `{"a":{"b":[[[[[[]]]]]]}}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		defer mem.AssertSize(t, 0)
		codec := newTestJSONCodec(t, mem, fuzzSchema)
		// The records around it must not change what is read.
		around := []byte(`{"i":7,"s":"before","l":[1,2],"m":{"k":"v"},"w":"y"}`)
		batch, err := codec.Decode("in", []ConsumedRecord{{Value: around}, {Value: append([]byte{}, data...)}, {Value: around}})
		if err != nil {
			var failed *DecodeError
			if !errors.As(err, &failed) || len(failed.Records) != 1 || failed.Records[0].Index != 1 {
				t.Fatalf("error %v does not name the record", err)
			}
			return
		}
		defer batch.Release()
		if !json.Valid(data) {
			t.Fatalf("%q was accepted", data)
		}
		for _, column := range batch.Columns() {
			if validator, ok := column.(interface{ ValidateFull() error }); ok {
				if err := validator.ValidateFull(); err != nil {
					t.Fatal(err)
				}
			}
		}
		records, err := codec.Encode("out", batch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(records[0].Value, records[2].Value) {
			t.Errorf("equal records became %s and %s", records[0].Value, records[2].Value)
		}
		back, err := codec.Decode("in", []ConsumedRecord{{Value: records[0].Value}, {Value: records[1].Value}, {Value: records[2].Value}})
		if err != nil {
			t.Fatalf("%s: %v", records[1].Value, err)
		}
		defer back.Release()
		for i := range fuzzSchema.NumFields() {
			if !array.Equal(batch.Column(i), back.Column(i)) {
				t.Errorf("column %s: %v became %v", fuzzSchema.Field(i).Name, batch.Column(i), back.Column(i))
			}
		}
	})
}

func FuzzJSONSchema(f *testing.F) {
	for _, seed := range []string{
		`{"properties":{"a":{"type":"integer"},"b":{"type":["null","string"],"contentEncoding":"base64"}},"required":["a"]}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/b~1c"}}},"b/c":{"anyOf":[{"type":"null"},{"type":"number"}]}}}`,
		`{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}`, `{"properties":{"a":{"$ref":"#"}}}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		schema, err := SchemaFromJSONSchema(text)
		if err != nil {
			return
		}
		if _, err := NewJSONCodec(memory.DefaultAllocator, schema); err != nil {
			t.Errorf("schema %v of %q: %v", schema, text, err)
		}
	})
}
