// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// encodings are the types that hold values of another type.
func encodings(values arrow.Field) map[string]arrow.DataType {
	member := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true, Metadata: values.Metadata}
	}
	other := arrow.Field{Name: "other", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}
	members, codes := []arrow.Field{other, member("value", values.Type)}, []arrow.UnionTypeCode{3, 9}
	return map[string]arrow.DataType{
		"list view": arrow.ListViewOfField(member("item", values.Type)), "large list view": arrow.LargeListViewOfField(member("item", values.Type)),
		"dense union": arrow.DenseUnionOf(members, codes), "sparse union": arrow.SparseUnionOf(members, codes),
		"run-ends":     arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, values.Type),
		"map":          arrow.MapOfFields(arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64}, member("value", values.Type)),
		"view in list": arrow.ListOf(arrow.ListViewOfField(member("item", values.Type))),
	}
}

// wrapped returns a JSON value as one of an encoding.
func wrapped(encoding, value string) string {
	switch encoding {
	case "list view", "large list view":
		return "[" + value + "]"
	case "map":
		return `{"7":` + value + "}"
	case "view in list":
		return "[[" + value + "]]"
	}
	return value
}

// decodedTexts decodes JSON values into a column of a type, and returns it as JSON.
func decodedTexts(tb testing.TB, field arrow.Field, values ...string) ([]string, error) {
	tb.Helper()
	mem := arrowtest.NewAllocator(tb)
	codec, err := NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{field}, nil))
	if err != nil {
		tb.Fatal(err)
	}
	documents := make([]string, len(values))
	for i, value := range values {
		documents[i] = `{"v":` + value + `}`
	}
	batch, err := codec.Decode("in", jsonRecords(documents...))
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	if validator, ok := batch.Column(0).(interface{ ValidateFull() error }); ok {
		if err := validator.ValidateFull(); err != nil {
			tb.Error(err)
		}
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		tb.Fatal(err)
	}
	texts := make([]string, len(records))
	for i, record := range records {
		texts[i] = strings.TrimSuffix(strings.TrimPrefix(string(record.Value), `{"v":`), "}")
	}
	return texts, nil
}

func TestJSONValuesOfEveryEncodingAreExact(t *testing.T) {
	raw := arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})
	for _, test := range []struct {
		values arrow.Field
		json   []string
	}{
		{arrow.Field{Type: &arrow.Decimal32Type{Precision: 9, Scale: 2}}, []string{"12.34", "0.01", "-9999999.99"}},
		{arrow.Field{Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}}, []string{"12345678901234567.25", "12.34", "-0.10"}},
		{arrow.Field{Type: &arrow.Decimal256Type{Precision: 76, Scale: 70}}, []string{"0.1234567890123456789012345678901234567890123456789012345678901234567891"}},
		{arrow.Field{Type: arrow.PrimitiveTypes.Int64}, []string{"9223372036854775807", "-9223372036854775808"}},
		{arrow.Field{Type: arrow.PrimitiveTypes.Uint64}, []string{"18446744073709551615", "0"}},
		{arrow.Field{Type: arrow.PrimitiveTypes.Float64}, []string{"0.1", "-1.7976931348623157e+308", "5e-324"}},
		{arrow.Field{Type: arrow.BinaryTypes.String}, []string{`"a"`, `""`, `"a text that is longer than a view"`}},
		{arrow.Field{Type: arrow.BinaryTypes.StringView}, []string{`"a"`, `""`, `"a text that is longer than a view"`}},
		{arrow.Field{Type: arrow.BinaryTypes.LargeString, Metadata: raw}, []string{`"1"`, `{"b":1,"a":[2.50]}`, `12345678901234567.25`}},
		{arrow.Field{Type: arrow.FixedWidthTypes.Timestamp_ns}, []string{`"2022-03-28T11:41:05.000000001Z"`}},
		{arrow.Field{Type: arrow.BinaryTypes.Binary}, []string{`"AAE="`}},
		{arrow.Field{Type: arrow.StructOf(arrow.Field{Name: "m", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: raw})}, []string{`{"m":"1"}`, `{"m":[1,2.50]}`}},
	} {
		for encoding, dt := range encodings(test.values) {
			field := arrow.Field{Name: "v", Type: dt, Nullable: true, Metadata: test.values.Metadata}
			values := []string{"null"}
			for _, value := range test.json {
				values = append(values, wrapped(encoding, value))
			}
			got, err := decodedTexts(t, field, values...)
			if diff := cmp.Diff(values, got); diff != "" || err != nil {
				t.Errorf("%s of %s: error %v, mismatch (-want +got):\n%s", encoding, test.values.Type, err, diff)
			}
		}
		if _, nested := test.values.Type.(arrow.NestedType); !nested {
			dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: test.values.Type}
			values := append([]string{"null"}, append(test.json, test.json...)...)
			got, err := decodedTexts(t, arrow.Field{Name: "v", Type: dt, Nullable: true, Metadata: test.values.Metadata}, values...)
			if diff := cmp.Diff(values, got); diff != "" || err != nil {
				t.Errorf("%s: error %v, mismatch (-want +got):\n%s", dt, err, diff)
			}
		}
	}
}

func TestJSONNumbersGoToTheMemberOfAUnionThatHoldsThem(t *testing.T) {
	field := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	members := []arrow.Field{
		field("tenths", &arrow.Decimal64Type{Precision: 5, Scale: 1}), field("float", floatType), field("byte", int8Type), field("integer", int64Type),
		field("text", textType), field("list", arrow.ListOf(int8Type)), field("object", arrow.StructOf(field("a", int8Type))),
	}
	codes := []arrow.UnionTypeCode{0, 1, 2, 3, 4, 5, 6}
	values := []string{"7", "300", "0.5", "0.25", "1e300", `"x"`, "[1,2]", `{"a":3}`, "9223372036854775808", "null"}
	want := []string{"2", "3", "0", "1", "1", "4", "5", "6", "1", "0"}
	for _, dt := range []arrow.UnionType{arrow.DenseUnionOf(members, codes), arrow.SparseUnionOf(members, codes)} {
		mem := arrowtest.NewAllocator(t)
		codec := newTestJSONCodec(t, mem, oneField(dt))
		for _, batchOf := range []int{1, len(values)} {
			var got []string
			for at := 0; at < len(values); at += batchOf {
				var documents []string
				for _, value := range values[at : at+batchOf] {
					documents = append(documents, `{"v":`+value+`}`)
				}
				batch, err := codec.Decode("in", jsonRecords(documents...))
				if err != nil {
					t.Fatal(err)
				}
				union := batch.Column(0).(interface{ TypeCode(int) arrow.UnionTypeCode })
				for row := range documents {
					got = append(got, fmt.Sprint(union.TypeCode(row)))
				}
				batch.Release()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in batches of %d: members mismatch (-want +got):\n%s", dt.Mode(), batchOf, diff)
			}
		}
	}
}

// TestJSONRowsOfEncodingsAreApartFromBadOnes decodes batches in which some records
// are cut short, and compares the rest with what a batch without those holds.
func TestJSONRowsOfEncodingsAreApartFromBadOnes(t *testing.T) {
	r := arrowtest.NewRand(t)
	text := arrow.Field{Type: arrow.StructOf(
		arrow.Field{Name: "s", Type: arrow.BinaryTypes.StringView, Nullable: true},
		arrow.Field{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: &arrow.Decimal128Type{Precision: 20, Scale: 2}}, Nullable: true},
	)}
	for encoding, dt := range encodings(text) {
		for range 20 {
			var documents, good, want []string
			for range 1 + r.IntN(8) {
				value := wrapped(encoding, fmt.Sprintf(`{"s":"%s","d":%d.25}`, strings.Repeat("x", r.IntN(30)), r.IntN(3)))
				document := `{"v":` + value + `}`
				if r.IntN(2) == 0 {
					documents = append(documents, document[:1+r.IntN(len(document)-1)])
					continue
				}
				documents, good, want = append(documents, document), append(good, document), append(want, value)
			}
			got := decodedApart(t, oneField(dt), documents, len(good))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %q mismatch (-want +got):\n%s", encoding, documents, diff)
			}
		}
	}
}

// decodedApart reads documents into one batch, those that are malformed into no
// row, and returns the rows as JSON.
func decodedApart(t *testing.T, schema *arrow.Schema, documents []string, rows int) []string {
	t.Helper()
	mem := arrowtest.NewAllocator(t)
	d := jsonrows.NewDecoder(mem, newTestJSONCodec(t, mem, schema).root)
	d.Root.Begin(len(documents))
	read := 0
	for _, document := range documents {
		if err := d.Document([]byte(document)); err == nil {
			read++
		}
	}
	columns, err := d.Columns()
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(columns)
	if read != rows {
		t.Fatalf("%d documents were read; want %d of %q", read, rows, documents)
	}
	if rows == 0 {
		return nil
	}
	return compactTexts(t, columns[0])
}
