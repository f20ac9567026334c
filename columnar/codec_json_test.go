// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// jsonRecords returns a record for each value; "<null>" stands for none.
func jsonRecords(values ...string) []ConsumedRecord {
	records := make([]ConsumedRecord, len(values))
	for i, value := range values {
		records[i] = ConsumedRecord{Key: fmt.Append(nil, "k", i), Offset: int64(100 + i), Timestamp: int64(i), Partition: 2}
		if value != "<null>" {
			records[i].Value = []byte(value)
		}
	}
	return records
}

func newTestJSONCodec(tb testing.TB, mem memory.Allocator, schema *arrow.Schema, options ...JSONCodecOption) *JSONCodec {
	tb.Helper()
	codec, err := NewJSONCodec(mem, schema, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

// oneField returns a schema of a nullable field "v".
func oneField(dt arrow.DataType) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "v", Type: dt, Nullable: true}}, nil)
}

func TestJSONDecodesEveryType(t *testing.T) {
	list := arrow.ListOf(arrow.PrimitiveTypes.Int32)
	for _, test := range []struct {
		dt         arrow.DataType
		json, want string
	}{
		{arrow.Null, `null`, "(null)"},
		{arrow.FixedWidthTypes.Boolean, `true`, "true"},
		{arrow.FixedWidthTypes.Boolean, `false`, "false"},
		{arrow.PrimitiveTypes.Int8, `-128`, "-128"},
		{arrow.PrimitiveTypes.Int16, `32767`, "32767"},
		{arrow.PrimitiveTypes.Int32, `-2147483648`, "-2147483648"},
		{arrow.PrimitiveTypes.Int64, `9007199254740993`, "9007199254740993"},
		{arrow.PrimitiveTypes.Int64, `-9223372036854775808`, "-9223372036854775808"},
		{arrow.PrimitiveTypes.Int64, `9223372036854775807`, "9223372036854775807"},
		{arrow.PrimitiveTypes.Int64, `6.6999677E+8`, "669996770"},
		{arrow.PrimitiveTypes.Int64, `-0.0`, "0"},
		{arrow.PrimitiveTypes.Int64, `1200000000000000000000e-20`, "12"},
		{arrow.PrimitiveTypes.Int64, `0e99999999999999999999`, "0"},
		{arrow.PrimitiveTypes.Int64, `922337203685477580.7e1`, "9223372036854775807"},
		{arrow.PrimitiveTypes.Uint8, `255`, "255"},
		{arrow.PrimitiveTypes.Uint64, `18446744073709551615`, "18446744073709551615"},
		{arrow.PrimitiveTypes.Uint64, `-0`, "0"},
		{arrow.FixedWidthTypes.Float16, `0.5`, "0.5"},
		{arrow.PrimitiveTypes.Float32, `16777217`, "1.6777216e+07"},
		{arrow.PrimitiveTypes.Float64, `0.1`, "0.1"},
		{arrow.PrimitiveTypes.Float64, `-1.7976931348623157e308`, "-1.7976931348623157e+308"},
		{arrow.PrimitiveTypes.Float64, `5e-324`, "5e-324"},
		{arrow.PrimitiveTypes.Float64, `123456789012345678`, "1.2345678901234568e+17"},
		{arrow.PrimitiveTypes.Float64, `-0`, "-0"},
		{&arrow.Decimal32Type{Precision: 5, Scale: 2}, `-123.4`, "-123.4"},
		{&arrow.Decimal64Type{Precision: 15, Scale: 2}, `"123.45"`, "123.45"},
		{&arrow.Decimal128Type{Precision: 38, Scale: 2}, `123456789012345678901234567890123456.78`, "123456789012345678901234567890123456.78"},
		{&arrow.Decimal256Type{Precision: 76, Scale: 0}, `-1e75`, "-1" + strings.Repeat("0", 75)},
		{arrow.BinaryTypes.String, `"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00` + "\u00e9" + `"`, "a\"\\/\b\f\n\r\t\u00e9\U0001F600\u00e9"},
		{arrow.BinaryTypes.LargeString, `""`, ""},
		{arrow.BinaryTypes.Binary, `"AAEC\/w=="`, "AAEC/w=="},
		{arrow.BinaryTypes.LargeBinary, `""`, ""},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `"AAEC"`, "AAEC"},
		{arrow.FixedWidthTypes.Date32, `"2024-02-29"`, "2024-02-29"},
		{arrow.FixedWidthTypes.Date32, `-1`, "1969-12-31"},
		{arrow.FixedWidthTypes.Date64, `"1600-03-01"`, "1600-03-01"},
		{arrow.FixedWidthTypes.Time32s, `"13:30:05"`, "13:30:05"},
		{arrow.FixedWidthTypes.Time32ms, `"13:30:05.1239"`, "13:30:05.123"},
		{arrow.FixedWidthTypes.Time64ns, `"13:30:05.123456789"`, "13:30:05.123456789"},
		{arrow.FixedWidthTypes.Time64us, `1`, "00:00:00.000001"},
		{arrow.FixedWidthTypes.Timestamp_ms, `"2024-02-29T23:59:59.9996+01:30"`, "2024-02-29T22:29:59.999Z"},
		{arrow.FixedWidthTypes.Timestamp_ns, `"1969-12-31t23:59:59.999999999z"`, "1969-12-31T23:59:59.999999999Z"},
		{arrow.FixedWidthTypes.Timestamp_s, `1700000000`, "2023-11-14T22:13:20Z"},
		{&arrow.TimestampType{Unit: arrow.Second}, `"2023-11-14 22:13:20"`, "2023-11-14T22:13:20"},
		{arrow.FixedWidthTypes.Duration_ms, `-5`, "-5ms"},
		{list, `[]`, "[]"},
		{list, ` [ 1 , null , 3 ] `, "[1,null,3]"},
		{arrow.LargeListOf(arrow.BinaryTypes.String), `["a","b"]`, `["a","b"]`},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8), `[1,2]`, "[1,2]"},
		{arrow.ListOf(list), `[[1],[],null,[2,3]]`, "[[1],[],null,[2,3]]"},
		{arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}), `{"b":[{"a":2}],"a":1}`, `{"a":1}`},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8), `{"x":1,"y":null,"x":2}`, `[{"key":"y","value":null},{"key":"x","value":2}]`},
		{arrow.BinaryTypes.StringView, `"a text that is longer than a view"`, "a text that is longer than a view"},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `"w"`, "w"},
		{arrow.ListViewOf(arrow.PrimitiveTypes.Int8), `[1,2,null]`, "[1,2,null]"},
		{arrow.LargeListViewOf(arrow.BinaryTypes.StringView), `["a","a text that is longer than a view",null]`, `["a","a text that is longer than a view",null]`},
		{arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint64), `{"1":18446744073709551615}`, `[{"key":1,"value":18446744073709551615}]`},
		{arrow.DenseUnionOf([]arrow.Field{
			{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		}, []arrow.UnionTypeCode{0, 1}), `"x"`, `[1,"x"]`},
	} {
		t.Run(test.dt.String()+" "+test.json, func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			codec := newTestJSONCodec(t, mem, oneField(test.dt))
			batch, err := codec.Decode("in", jsonRecords(`{"v":`+test.json+`}`, `{"v":null}`, `{"u":1}`, `{"v":`+test.json+`}`))
			if err != nil {
				t.Fatal(err)
			}
			defer batch.Release()
			want := []string{test.want, "(null)", "(null)", test.want}
			if diff := cmp.Diff(want, arrowtest.Texts(batch.Column(0))); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
			if validator, ok := batch.Column(0).(interface{ ValidateFull() error }); ok {
				if err := validator.ValidateFull(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestJSONRefusesMalformedValues(t *testing.T) {
	person := arrow.StructOf(arrow.Field{Name: "age", Type: arrow.PrimitiveTypes.Int8})
	cents := &arrow.Decimal128Type{Precision: 4, Scale: 2}
	counts := arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8)
	deep := strings.Repeat("[", jsonrows.MaxDepth+1)
	for _, test := range []struct {
		dt         arrow.DataType
		json, want string
	}{
		{arrow.PrimitiveTypes.Int64, ``, "unexpected end of JSON (at byte 0)"},
		{arrow.PrimitiveTypes.Int64, `[]`, "found '[' in place of an object: WithJSONArrays reads an array as rows (at byte 0)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1} {`, "unexpected bytes behind the JSON value (at byte 8)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1`, "unexpected end of JSON (at byte 6)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1,}`, "found '}' in place of a text (at byte 7)"},
		{arrow.PrimitiveTypes.Int64, `{"v" 1}`, "found '1' in place of a colon (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{v:1}`, "found 'v' in place of a text (at byte 1)"},
		{arrow.PrimitiveTypes.Int64, `{"v":01}`, "invalid JSON number: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":-}`, "invalid JSON number: v (at byte 6)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1.}`, "invalid JSON number: v (at byte 7)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1e}`, "invalid JSON number: v (at byte 7)"},
		{arrow.PrimitiveTypes.Int64, `{"v":+1}`, "found '+' in place of a number: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1.5e0}`, "number is not an integer: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1e-1}`, "number is not an integer: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":9223372036854775808}`, "number overflows int64: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":-9223372036854775809}`, "number overflows int64: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":1e400}`, "number overflows int64: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int8, `{"v":128}`, "number overflows int8: v (at byte 5)"},
		{arrow.PrimitiveTypes.Uint64, `{"v":18446744073709551616}`, "number overflows uint64: v (at byte 5)"},
		{arrow.PrimitiveTypes.Uint8, `{"v":-1}`, "number is negative: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int64, `{"v":"1"}`, `found '"' in place of a number: v (at byte 5)`},
		{arrow.PrimitiveTypes.Float64, `{"v":1e309}`, "number overflows float64: v (at byte 5)"},
		{arrow.PrimitiveTypes.Float32, `{"v":1e39}`, "number overflows float32: v (at byte 5)"},
		{arrow.FixedWidthTypes.Float16, `{"v":70000}`, "number overflows float16: v (at byte 5)"},
		{arrow.PrimitiveTypes.Float64, `{"v":NaN}`, "found 'N' in place of a number: v (at byte 5)"},
		{arrow.FixedWidthTypes.Boolean, `{"v":tru}`, "found 't' in place of a value: v (at byte 5)"},
		{arrow.FixedWidthTypes.Boolean, `{"v":1}`, "found '1' in place of true or false: v (at byte 5)"},
		{arrow.Null, `{"v":1}`, "found '1' in place of null: v (at byte 5)"},
		{arrow.BinaryTypes.String, `{"v":1}`, "found '1' in place of a text: v (at byte 5)"},
		{arrow.BinaryTypes.String, "{\"v\":\"a\xff\"}", "invalid UTF-8 in JSON text: v (at byte 7)"},
		{arrow.BinaryTypes.String, "{\"v\":\"a\nb\"}", "unescaped control character in JSON text: v (at byte 7)"},
		{arrow.BinaryTypes.String, `{"v":"\x"}`, "invalid escape in JSON text: v (at byte 6)"},
		{arrow.BinaryTypes.String, `{"v":"\u12g4"}`, "invalid escape in JSON text: v (at byte 6)"},
		{arrow.BinaryTypes.String, `{"v":"\ud800"}`, "unpaired surrogate in JSON text: v (at byte 6)"},
		{arrow.BinaryTypes.String, `{"v":"\udc00\ud800"}`, "unpaired surrogate in JSON text: v (at byte 6)"},
		{arrow.BinaryTypes.String, `{"v":"\`, "unexpected end of JSON: v (at byte 6)"},
		{arrow.BinaryTypes.String, `{"x":"` + "\x01" + `"}`, "unescaped control character in JSON text (at byte 6)"},
		{arrow.BinaryTypes.String, `{"x":[1,{"y":01}]}`, "invalid JSON number (at byte 13)"},
		{arrow.BinaryTypes.String, `{"x":[1,]}`, "found ']' in place of a value (at byte 8)"},
		{arrow.BinaryTypes.String, `{"x":[,1]}`, "found ',' in place of a value (at byte 6)"},
		{arrow.BinaryTypes.String, `{"x":[1}}`, "found '}' in place of a comma or the end of the list or object (at byte 7)"},
		{arrow.BinaryTypes.String, `{"x":{"a":1,}}`, "found '}' in place of a member name (at byte 12)"},
		{arrow.BinaryTypes.String, `{"x":{,}}`, "found ',' in place of a member name (at byte 6)"},
		{arrow.BinaryTypes.String, `{"x":{"a"}}`, "found '}' in place of a colon (at byte 9)"},
		{arrow.BinaryTypes.String, `{"x":[[{}],{"a":[]}]]}`, "found ']' in place of a comma or the end of the object (at byte 20)"},
		{arrow.BinaryTypes.String, `{"x":` + deep, "JSON is nested deeper than 256 levels (at byte 261)"},
		{arrow.BinaryTypes.Binary, `{"v":"a"}`, "text is not base64: v (at byte 5)"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `{"v":"AAEC"}`, "fixed-size binary column requires 2 bytes, got 3: v (at byte 5)"},
		{cents, `{"v":1.234}`, "number does not fit scale 2: v (at byte 5)"},
		{cents, `{"v":123.4}`, "number does not fit precision 4: v (at byte 5)"},
		{cents, `{"v":1e999999999999}`, "number does not fit precision 4: v (at byte 5)"},
		{cents, `{"v":"1x"}`, "invalid JSON number: v (at byte 5)"},
		{cents, `{"v":""}`, "invalid JSON number: v (at byte 5)"},
		{arrow.FixedWidthTypes.Date32, `{"v":"2023-02-29"}`, "text is not a date of the form 2006-01-02: v (at byte 5)"},
		{arrow.FixedWidthTypes.Date32, `{"v":"2023-02-28T00:00:00Z"}`, "text is not a date of the form 2006-01-02: v (at byte 5)"},
		{arrow.FixedWidthTypes.Time32s, `{"v":"24:00:00"}`, "text is not a time of day of the form 15:04:05: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ms, `{"v":"2023-02-28T00:00:00"}`, "text is a time without a zone, which RFC 3339 has behind it: Z, or an offset such as +02:00: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ms, `{"v":"2023-13-28T00:00:00Z"}`, "text is not an RFC 3339 time: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ms, `{"v":"2023-02-28T00:00:00.Z"}`, "text is not an RFC 3339 time: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ns, `{"v":"3000-01-01T00:00:00Z"}`, "time is out of the range of its column's unit: v (at byte 5)"},
		{arrow.ListOf(person), `{"v":[{"age":1},{"age":null}]}`, "required JSON field is null: v[1].age (at byte 23)"},
		{arrow.ListOf(person), `{"v":[{"age":1},{}]}`, "required JSON field is null: v[1].age (at byte 18)"},
		{arrow.ListOf(arrow.ListOf(person)), `{"v":[[],[{"age":999}]]}`, "number overflows int8: v[1][0].age (at byte 17)"},
		{arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int8), `{"v":[1,null]}`, "required JSON field is null: v[1] (at byte 8)"},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8), `{"v":[1]}`, "fixed-size list requires 2 values, got 1: v (at byte 5)"},
		{arrow.BinaryTypes.StringView, `{"v":{"a":1}}`, "found '{' in place of a text: v (at byte 5)"},
		{arrow.BinaryTypes.StringView, `{"v":7}`, "found '7' in place of a text: v (at byte 5)"},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `{"v":[1]}`, "found '[' in place of a text: v (at byte 5)"},
		{arrow.ListViewOf(arrow.PrimitiveTypes.Int8), `{"v":[1,"2"]}`, `found '"' in place of a number: v[1] (at byte 8)`},
		{arrow.ListViewOf(person), `{"v":[{"age":1},{}]}`, "required JSON field is null: v[1].age (at byte 18)"},
		{arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int8), `{"v":{"1":1,"x":2}}`, "found 'x' in place of a number: v.x (at byte 12)"},
		{arrow.DenseUnionOf([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, []arrow.UnionTypeCode{0}), `{"v":300}`, "number overflows int8: v.n (at byte 5)"},
		{arrow.DenseUnionOf([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, []arrow.UnionTypeCode{0}), `{"v":"x"}`, `found '"' in place of a value of one of the union's types: v (at byte 5)`},
		{counts, `{"v":{"a":1,"b":true}}`, "found 't' in place of a number: v.b (at byte 16)"},
		{counts, `{"v":{"a":1 "b":2}}`, `found '"' in place of a comma or the end of the object: v (at byte 12)`},
	} {
		t.Run(test.dt.String()+" "+test.json[:min(len(test.json), 60)], func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			codec := newTestJSONCodec(t, mem, oneField(test.dt))
			good := `{"v":null}`
			_, err := codec.Decode("in", jsonRecords(good, test.json, good))
			var failed *DecodeError
			if !errors.As(err, &failed) || len(failed.Records) != 1 {
				t.Fatalf("error %v, want a DecodeError of one record", err)
			}
			record := failed.Records[0]
			if record.Topic != "in" || record.Partition != 2 || record.Offset != 101 || record.Index != 1 {
				t.Errorf("failed record is %+v", *record)
			}
			var cause *JSONError
			if !errors.As(err, &cause) || cause.Error() != test.want {
				t.Errorf("cause %q, want %q", cause, test.want)
			}
		})
	}
}

func TestJSONReportsEveryBadRecord(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil)
	codec := newTestJSONCodec(t, mem, schema)
	var values []string
	for i := range 100 {
		values = append(values, fmt.Sprintf(`{"id":%d,"tags":["a","b%d"]}`, i, i))
	}
	values[57] = `{"id":57,"tags":["a","b`
	values[80] = `{"tags":["a"]}`
	records := jsonRecords(values...)
	_, err := codec.Decode("in", records)
	var failed *DecodeError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a DecodeError", err)
	}
	var indexes []int
	for _, record := range failed.Records {
		indexes = append(indexes, record.Index)
	}
	if diff := cmp.Diff([]int{57, 80}, indexes); diff != "" {
		t.Errorf("failed indexes mismatch (-want +got):\n%s", diff)
	}
	if !errors.Is(err, ErrRequiredField) || !errors.Is(err, jsonrows.ErrEnd) {
		t.Errorf("error %v does not wrap the causes of both records", err)
	}
	want := "columnar: in/2: offset 157 (record 57): unexpected end of JSON: tags[1] (at byte 23) (and 1 more records)"
	if err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	good := append(append(append([]ConsumedRecord(nil), records[:57]...), records[58:80]...), records[81:]...)
	batch, err := codec.Decode("in", good)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if got := namedcols.Column(batch, "id").ValueStr(97); batch.NumRows() != 98 || got != "99" {
		t.Errorf("%d rows, the last with id %s; want 98 and 99", batch.NumRows(), got)
	}
}

func TestJSONKeepsRowsApartFromBadOnes(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := arrow.StructOf(
		arrow.Field{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.BinaryTypes.String)), Nullable: true},
		arrow.Field{Name: "f", Type: arrow.FixedSizeListOf(2, arrow.BinaryTypes.Binary), Nullable: true},
		arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		arrow.Field{Name: "w", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	)
	codec := newTestJSONCodec(t, mem, oneField(dt))
	d := jsonrows.NewDecoder(mem, codec.root)
	d.Root.Begin(4)
	good := `{"v":{"m":{"a":["x"],"b":null,"a":["y","z"]},"f":["AA==",null],"d":true,"w":"good"}}`
	bad := []string{
		`{"v":{"w":"bad","m":{"a":["x"],"a":["w",`,
		`{"v":{"m":{"a":[null]},"f":["AA==","?"]}}`,
		`{"v":{"f":["AA=="]}}`,
		`{"v":{"m":null,"d":true},"v":{"d":false},"v":7}`,
	}
	for _, document := range append([]string{good}, append(bad, good)...) {
		if err := d.Document([]byte(document)); (err == nil) != (document == good) {
			t.Fatalf("%s: error %v", document, err)
		}
	}
	columns, err := d.Columns()
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(columns)
	want := `{"m":{"b":null,"a":["y","z"]},"f":["AA==",null],"d":true,"w":"good"}`
	if diff := cmp.Diff([]string{want, want}, compactTexts(t, columns[0])); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

// compactTexts returns the values of a column as the JSON codec writes them.
func compactTexts(t *testing.T, column arrow.Array) []string {
	t.Helper()
	appendValue, err := jsonrows.Form{}.Appender(column, arrow.Metadata{})
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, column.Len())
	for i := range values {
		text, err := appendValue(nil, i)
		if err != nil {
			t.Fatal(err)
		}
		values[i] = string(text)
	}
	return values
}

func TestJSONLastOfEqualMembersCounts(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil)
	codec := newTestJSONCodec(t, mem, schema)
	batch, err := codec.Decode("in", jsonRecords(
		`{"n":1,"s":"first","l":["a"],"n":null,"s":"second","l":["b","c"],"s":"third"}`,
		`{"n":null,"\u006e":2,"s":null,"s":"x","l":null}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := [][]string{{"(null)", "2"}, {"third", "x"}, {`["b","c"]`, "(null)"}}
	for i := range want {
		if diff := cmp.Diff(want[i], arrowtest.Texts(batch.Column(i))); diff != "" {
			t.Errorf("column %d mismatch (-want +got):\n%s", i, diff)
		}
		if nulls := batch.Column(i).NullN(); (i == 1) != (nulls == 0) {
			t.Errorf("column %d has %d nulls", i, nulls)
		}
	}
}

func TestJSONMembersInAnyOrder(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	r := arrowtest.NewRand(t)
	fields := make([]arrow.Field, 5)
	for i := range fields {
		fields[i] = arrow.Field{Name: string(rune('a' + i)), Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	}
	codec := newTestJSONCodec(t, mem, arrow.NewSchema(fields, nil))
	var values []string
	want := make([][]string, len(fields))
	for row := range 500 {
		order := r.Perm(10) // half of the members have no column
		order = order[:r.IntN(len(order))]
		for i := range want {
			want[i] = append(want[i], "(null)")
		}
		var members []string
		for _, i := range order {
			member := strconv.Quote(string(rune('a'+i))) + ":" + strings.Repeat(" ", r.IntN(2)) + strconv.Itoa(row*10+i)
			members = append(members, member)
			if i < len(fields) {
				want[i][row] = strconv.Itoa(row*10 + i)
			}
		}
		values = append(values, "{"+strings.Join(members, ",")+"}")
	}
	batch, err := codec.Decode("in", jsonRecords(values...))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	for i := range want {
		if diff := cmp.Diff(want[i], arrowtest.Texts(batch.Column(i))); diff != "" {
			t.Errorf("column %d mismatch (-want +got):\n%s", i, diff)
		}
	}
}

func TestJSONMapsWithManyKeysKeepTheLast(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, oneField(arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)))
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"k%d":%d`, i%40, i))
	}
	batch, err := codec.Decode("in", jsonRecords(`{"v":{`+strings.Join(members, ",")+`}}`, `{"v":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	column := batch.Column(0).(*array.Map)
	got := map[string]int64{}
	start, end := column.ValueOffsets(0)
	for i := start; i < end; i++ {
		got[column.Keys().ValueStr(int(i))] = column.Items().(*array.Int64).Value(int(i))
	}
	want := map[string]int64{}
	for i := range 100 {
		want[fmt.Sprint("k", i%40)] = int64(i)
	}
	if diff := cmp.Diff(want, got); diff != "" || end-start != 40 {
		t.Errorf("%d entries, mismatch (-want +got):\n%s", end-start, diff)
	}
	if text := column.ValueStr(1); text != `[{"key":"a","value":1}]` {
		t.Errorf("the map behind it is %s", text)
	}
}

func TestJSONKeepsRawText(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	field := arrow.Field{Name: "v", Type: arrow.BinaryTypes.String, Nullable: true,
		Metadata: arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})}
	codec := newTestJSONCodec(t, mem, arrow.NewSchema([]arrow.Field{field}, nil))
	document := `{"v":{"a": [-8717895732742165505, "\u00e9"]}}`
	batch, err := codec.Decode("in", jsonRecords(document, `{"v":null}`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := []string{`{"a": [-8717895732742165505, "\u00e9"]}`, "(null)"}
	if diff := cmp.Diff(want, arrowtest.Texts(batch.Column(0))); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(records[0].Value); got != document {
		t.Errorf("encoded %s, want %s", got, document)
	}
}

func TestJSONTombstonesSurvive(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	codec := newTestJSONCodec(t, mem, schema)
	records := jsonRecords(`{"n":1,"s":null}`, "<null>", `{"n":2,"s":"x"}`)
	batch, err := codec.Decode("in", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if name := batch.ColumnName(int(batch.NumCols()) - 1); name != TombstoneColumn {
		t.Errorf("the last column is %q, want %q", name, TombstoneColumn)
	}
	if diff := cmp.Diff([]string{"1", "(null)", "2"}, arrowtest.Texts(batch.Column(0))); diff != "" {
		t.Errorf("column n mismatch (-want +got):\n%s", diff)
	}
	got, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]ProduceRecord, len(records))
	for i, record := range records {
		want[i] = ProduceRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	plain, err := codec.Decode("in", records[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Release()
	if plain.Schema().HasField(TombstoneColumn) {
		t.Error("a batch without tombstones has the tombstone column")
	}
}

func TestWithoutJSONTombstonesReportsThem(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, oneField(arrow.PrimitiveTypes.Int64), WithoutJSONTombstones())
	_, err := codec.Decode("in", jsonRecords(`{"v":1}`, "<null>"))
	var failed *DecodeError
	if !errors.As(err, &failed) || failed.Records[0].Index != 1 || !strings.Contains(err.Error(), "record has no value") {
		t.Errorf("error %v, want one that names record 1", err)
	}
}

func TestJSONCodecRefusesSchemasItCannotRead(t *testing.T) {
	mem := memory.DefaultAllocator
	for name, schema := range map[string]*arrow.Schema{
		"interval":       oneField(arrow.FixedWidthTypes.MonthInterval),
		"list of view":   oneField(arrow.ListOf(arrow.BinaryTypes.BinaryView)),
		"extension":      oneField(extensions.NewUUIDType()),
		"time keys":      oneField(arrow.MapOf(arrow.FixedWidthTypes.Date32, arrow.PrimitiveTypes.Int8)),
		"two equal ones": arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.Null}, {Name: "v", Type: arrow.Null}}, nil),
	} {
		if _, err := NewJSONCodec(mem, schema); err == nil || !strings.Contains(err.Error(), `"v"`) {
			t.Errorf("%s: error %v, want one that names v", name, err)
		}
	}
}

func TestJSONCodecWithoutRecordsOrSchema(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, oneField(arrow.PrimitiveTypes.Int64))
	if _, err := codec.Decode("in", nil); err == nil || err.Error() != "decode called with an empty record batch" {
		t.Errorf("no records: error %v", err)
	}
	encoder := newTestJSONCodec(t, mem, nil)
	if _, err := encoder.Decode("in", jsonRecords("{}")); !errors.Is(err, errNoJSONSchema) {
		t.Errorf("no schema: error %v", err)
	}
}
