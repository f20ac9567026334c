// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// testCodec encodes and decodes values of one schema in hexadecimal text.
type testCodec[T any] struct {
	schema   *avroplan.Schema
	text     string
	codec    *Codec[T]
	decoders map[string]func([]byte) (T, error) // by the writer's text
}

func newTestCodec[T any](t testing.TB, text string, options ...func(*Options)) *testCodec[T] {
	t.Helper()
	var o Options
	for _, option := range options {
		option(&o)
	}
	s, err := avroplan.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return &testCodec[T]{s, text, NewCodec[T](s, o), make(map[string]func([]byte) (T, error))}
}

// taggedUnions and goType are options of newTestCodec.
func taggedUnions(o *Options) { o.Tagged = true }

func goType(name string, sample any) func(*Options) {
	return func(o *Options) {
		if err := o.Register(name, sample); err != nil {
			panic(err)
		}
	}
}

func (c *testCodec[T]) encode(value T) (string, error) {
	enc, err := c.codec.Encoder()
	if err != nil {
		return "", err
	}
	data, err := enc(nil, value)
	return hex.EncodeToString(data), err
}

// decode reads data that were written under the schema with that text, or under
// the codec's own if it is empty.
func (c *testCodec[T]) decode(writer, data string) (T, error) {
	body, err := hex.DecodeString(strings.ReplaceAll(data, " ", ""))
	if err != nil {
		var zero T
		return zero, err
	}
	return c.read(writer, body)
}

func (c *testCodec[T]) read(writer string, datum []byte) (T, error) {
	var zero T
	dec, ok := c.decoders[writer]
	if !ok {
		schema := c.schema
		var err error
		if writer != "" && writer != c.text {
			if schema, err = avroplan.ParseWriter(writer); err != nil {
				return zero, err
			}
		}
		plan, err := avroplan.Resolve(schema, c.schema)
		if err != nil {
			return zero, err
		}
		if dec, err = c.codec.Decoder(plan); err != nil {
			return zero, err
		}
		c.decoders[writer] = dec
	}
	return dec(datum)
}

var compareRats = cmp.Comparer(func(a, b *big.Rat) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(b) == 0
})

func TestGenericAvroValuesHaveTheDocumentedGoTypes(t *testing.T) {
	for _, tc := range []struct {
		name, schema string
		value        any
		data         string
	}{
		{"null", `"null"`, nil, ""},
		{"boolean", `"boolean"`, true, "01"},
		{"int", `"int"`, -3, "05"},
		{"long", `"long"`, int64(1) << 40, "808080808040"},
		{"float", `"float"`, float32(1.5), "0000c03f"},
		{"double", `"double"`, -0.5, "000000000000e0bf"},
		{"bytes", `"bytes"`, []byte{0, 255}, "0400ff"},
		{"string", `"string"`, "h\u00e9", "0668c3a9"},
		{"fixed", `{"type":"fixed","name":"F","size":3}`, [3]byte{1, 2, 3}, "010203"},
		{"fixed of 16", `{"type":"fixed","name":"F","size":16}`, [16]byte{15: 9}, "00000000000000000000000000000009"},
		{"enum", `{"type":"enum","name":"E","symbols":["A","B"]}`, "B", "02"},
		{"enum of many", `{"type":"enum","name":"E","symbols":["A","B","C","D","E","F","G","H","I","J"]}`, "J", "12"},
		{"array", `{"type":"array","items":"int"}`, []any{1, 2}, "04020400"},
		{"empty array", `{"type":"array","items":"int"}`, []any{}, "00"},
		{"map", `{"type":"map","values":"long"}`, map[string]any{"b": int64(2), "a": int64(1)}, "0402610202620400"},
		{"empty map", `{"type":"map","values":"long"}`, map[string]any{}, "00"},
		{"record", `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}`, map[string]any{"a": 1, "b": "x"}, "020278"},
		{"date", `{"type":"int","logicalType":"date"}`, time.Date(1969, 12, 30, 0, 0, 0, 0, time.UTC), "03"},
		{"time-millis", `{"type":"int","logicalType":"time-millis"}`, 1500 * time.Millisecond, "b817"},
		{"time-micros", `{"type":"long","logicalType":"time-micros"}`, 3 * time.Microsecond, "06"},
		{"timestamp-millis", `{"type":"long","logicalType":"timestamp-millis"}`, time.UnixMilli(-1).UTC(), "01"},
		{"timestamp-micros", `{"type":"long","logicalType":"timestamp-micros"}`, time.UnixMicro(3).UTC(), "06"},
		{"timestamp-nanos", `{"type":"long","logicalType":"timestamp-nanos"}`, time.Unix(0, -3).UTC(), "05"},
		{"local-timestamp-millis", `{"type":"long","logicalType":"local-timestamp-millis"}`, time.UnixMilli(2).UTC(), "04"},
		{"local-timestamp-micros", `{"type":"long","logicalType":"local-timestamp-micros"}`, time.UnixMicro(2).UTC(), "04"},
		{"local-timestamp-nanos", `{"type":"long","logicalType":"local-timestamp-nanos"}`, time.Unix(0, 2).UTC(), "04"},
		{"uuid", `{"type":"string","logicalType":"uuid"}`, "00", "043030"},
		{"fixed uuid", `{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, [16]byte{1}, "01000000000000000000000000000000"},
		{"duration", `{"type":"fixed","name":"D","size":12,"logicalType":"duration"}`, Duration{Months: 1, Days: 2, Milliseconds: 3}, "010000000200000003000000"},
		{"decimal", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`, big.NewRat(-1234, 100), "04fb2e"},
		{"decimal zero", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`, new(big.Rat), "0200"},
		{"decimal at the sign bit", `{"type":"bytes","logicalType":"decimal","precision":10}`, big.NewRat(128, 1), "040080"},
		{"decimal below the sign bit", `{"type":"bytes","logicalType":"decimal","precision":10}`, big.NewRat(-128, 1), "0280"},
		{"wide decimal", `{"type":"bytes","logicalType":"decimal","precision":40,"scale":20}`, wideRat(t, "-12345678901234567890.00000000000000000001"), "22fc5f36df8a3f240c47fe9849f61cdfffff"},
		{"fixed decimal", `{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":5,"scale":2}`, big.NewRat(-1, 100), "ffffffff"},
		{"wide fixed decimal", `{"type":"fixed","name":"D","size":20,"logicalType":"decimal","precision":5,"scale":2}`, big.NewRat(99999, 100), "000000000000000000000000000000000001869f"},
		{"decimal that is none", `{"type":"bytes","logicalType":"decimal","precision":1,"scale":2}`, []byte{1}, "0201"},
		{"big-decimal", `{"type":"bytes","logicalType":"big-decimal"}`, []byte{2, 7, 4}, "06020704"},
		{"unknown logical type", `{"type":"string","logicalType":"money"}`, "1", "0231"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCodec[any](t, tc.schema)
			data, err := c.encode(tc.value)
			if err != nil || data != tc.data {
				t.Errorf("encode = %s, %v, want %s", data, err, tc.data)
			}
			value, err := c.decode("", tc.data)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if diff := cmp.Diff(tc.value, value, compareRats); diff != "" {
				t.Errorf("decode mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func wideRat(t testing.TB, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("no number: %s", text)
	}
	return r
}

func TestNullableAvroUnionsAreBare(t *testing.T) {
	for _, tc := range []struct {
		branch string
		value  any
		data   string
	}{
		{`"int"`, 2, "04"},
		{`"string"`, "x", "0278"},
		{`"bytes"`, []byte("x"), "0278"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, map[string]any{"a": 1}, "02"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, "A", "00"},
		{`{"type":"fixed","name":"F","size":2}`, [2]byte{1, 2}, "0102"},
		{`{"type":"array","items":"int"}`, []any{1}, "020200"},
		{`{"type":"map","values":"int"}`, map[string]any{"map": 1}, "02066d61700200"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(5, 4), "027d"},
		{`{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(5, 4), "007d"},
		{`{"type":"int","logicalType":"date"}`, time.Unix(86400, 0).UTC(), "02"},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, time.UnixMilli(1).UTC(), "02"},
	} {
		for _, form := range []struct{ schema, value, null string }{
			{`["null",` + tc.branch + `]`, "02", "00"},
			{`[` + tc.branch + `,"null"]`, "00", "02"},
		} {
			c := newTestCodec[any](t, form.schema)
			for _, step := range []struct {
				value any
				data  string
			}{{tc.value, form.value + tc.data}, {nil, form.null}} {
				data, err := c.encode(step.value)
				if err != nil || data != step.data {
					t.Errorf("%s: encode = %s, %v, want %s", form.schema, data, err, step.data)
				}
				value, err := c.decode("", step.data)
				if diff := cmp.Diff(step.value, value, compareRats); diff != "" || err != nil {
					t.Errorf("%s: decode: %v, mismatch (-want +got):\n%s", form.schema, err, diff)
				}
			}
		}
	}
}

const eventUnion = `["null","int","long","float","double","boolean","string","bytes",
	{"type":"enum","name":"Color","symbols":["RED","BLUE"]},
	{"type":"fixed","name":"Hash","size":2},
	{"type":"array","items":"int"},
	{"type":"record","name":"n.Made","fields":[{"name":"id","type":"int"},{"name":"by","type":"string","default":"me"}]},
	{"type":"record","name":"n.Gone","fields":[{"name":"id","type":"int"},{"name":"at","type":"long"}]},
	{"type":"map","values":"int"}]`

func TestAvroUnionBranchIsChosenByTheValue(t *testing.T) {
	c := newTestCodec[any](t, eventUnion)
	for _, tc := range []struct {
		value any
		data  string
	}{
		{nil, "00"},
		{[]byte(nil), "00"},
		{(*string)(nil), "00"},
		{7, "020e"},
		{int32(7), "020e"},
		{int64(7), "040e"},
		{1 << 40, "04808080808040"},
		{uint8(7), "020e"},
		{float32(1), "060000803f"},
		{1.0, "08000000000000f03f"},
		{true, "0a01"},
		{"x", "0c0278"},
		{"RED", "0c06524544"},
		{new("x"), "0c0278"},
		{[]byte("x"), "0e0278"},
		{[2]byte{1, 2}, "120102"},
		{[]any{1}, "14020200"},
		{[]int32{1}, "14020200"},
		{map[string]any{"id": 1, "by": "x"}, "16020278"},
		{map[string]any{"id": 1, "at": 2}, "180204"},
		{map[string]any{"id": 1}, "1602046d65"}, // the other record cannot fill in the field that is missing
		{map[string]any{"n": 1}, "1a02026e0200"},
		{map[string]int{"n": 1}, "1a02026e0200"},
		{map[string]any{"n.Made": map[string]any{"id": 1}}, "1602046d65"},
		{map[string]any{"Color": "BLUE"}, "1002"},
		{map[string]any{"long": 5}, "040a"},
		{map[string]any{"string": "RED"}, "0c06524544"},
		{struct {
			ID int `avro:"id"`
			At int `avro:"at"`
		}{1, 2}, "180204"},
	} {
		data, err := c.encode(tc.value)
		if err != nil || data != tc.data {
			t.Errorf("encode(%T %v) = %s, %v, want %s", tc.value, tc.value, data, err, tc.data)
		}
	}
	for _, tc := range []struct {
		value any
		want  string
	}{
		{struct{}{}, "type struct {} suits no branch of the Avro union"},
		{complex(1, 1), "type complex128 suits no branch of the Avro union"},
	} {
		data, err := c.encode(tc.value)
		if err == nil || err.Error() != tc.want {
			t.Errorf("encode(%v) = %s, %v, want %s", tc.value, data, err, tc.want)
		}
	}
	twins := newTestCodec[any](t, `[{"type":"record","name":"A","fields":[{"name":"id","type":"int"}]},{"type":"record","name":"B","fields":[{"name":"id","type":"int"}]}]`)
	if _, err := twins.encode(map[string]any{"id": 1}); err == nil || !strings.Contains(err.Error(), "suits 2 records") {
		t.Errorf("ambiguous record: %v", err)
	}
	if data, err := twins.encode(map[string]any{"B": map[string]any{"id": 1}}); data != "0202" || err != nil {
		t.Errorf("named record = %s, %v", data, err)
	}
	if _, err := twins.encode(nil); err == nil || err.Error() != "nil cannot be written as an Avro union without null" {
		t.Errorf("nil: %v", err)
	}
}

func TestAvroUnionPrefersTheMatchingLogicalType(t *testing.T) {
	c := newTestCodec[any](t, `[{"type":"int","logicalType":"date"},{"type":"long","logicalType":"timestamp-micros"},
		{"type":"fixed","name":"T","size":12,"logicalType":"duration"},{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"string"]`)
	clock := newTestCodec[any](t, `[{"type":"int","logicalType":"time-millis"},"long","double"]`)
	for _, tc := range []struct {
		codec *testCodec[any]
		value any
		data  string
	}{
		{c, time.Unix(86400, 0).UTC(), "0002"},
		{c, map[string]any{"long.timestamp-micros": time.UnixMicro(1)}, "0202"},
		{c, Duration{Months: 1, Days: 0, Milliseconds: 0}, "04010000000000000000000000"},
		{c, big.NewRat(5, 4), "06027d"},
		{c, []byte{1}, "060201"},
		{clock, time.Second, "00d00f"},
		{clock, 5, "000a"},
		{clock, int64(5), "020a"},
		{clock, 1 << 40, "02808080808040"},
		{clock, 2.5, "040000000000000440"},
	} {
		data, err := tc.codec.encode(tc.value)
		if err != nil || data != tc.data {
			t.Errorf("encode(%T %v) = %s, %v, want %s", tc.value, tc.value, data, err, tc.data)
		}
	}
}

func TestTaggedUnionsTellBranchesApart(t *testing.T) {
	c := newTestCodec[any](t, `{"type":"record","name":"R","fields":[
		{"name":"v","type":["null","string",{"type":"enum","name":"E","symbols":["A"]},{"type":"record","name":"n.S","fields":[{"name":"x","type":["null","int"]}]}]}]}`, taggedUnions)
	for _, tc := range []struct {
		data string
		want any
	}{
		{"00", nil},
		{"020241", map[string]any{"string": "A"}},
		{"0400", map[string]any{"E": "A"}},
		{"060202", map[string]any{"n.S": map[string]any{"x": 1}}},
	} {
		value, err := c.decode("", tc.data)
		if diff := cmp.Diff(map[string]any{"v": tc.want}, value); diff != "" || err != nil {
			t.Errorf("decode(%s): %v, mismatch (-want +got):\n%s", tc.data, err, diff)
		}
		if data, err := c.encode(value); data != tc.data || err != nil {
			t.Errorf("encode(%v) = %s, %v, want %s", value, data, err, tc.data)
		}
	}
}

type madeEvent struct {
	ID int    `avro:"id"`
	By string `avro:"by"`
}

type goneEvent struct {
	ID int   `avro:"id"`
	At int64 `avro:"at"`
}

func TestRegisteredGoTypesStandForUnionBranches(t *testing.T) {
	type envelope struct {
		Event any `avro:"event"`
	}
	const text = `{"type":"record","name":"Envelope","fields":[{"name":"event","type":` + eventUnion + `}]}`
	c := newTestCodec[envelope](t, text, goType("n.Made", madeEvent{}), goType("n.Gone", (*goneEvent)(nil)))
	for _, tc := range []struct {
		event any
		data  string
	}{
		{madeEvent{1, "x"}, "16020278"},
		{&goneEvent{1, 2}, "180204"},
		{"x", "0c0278"},
	} {
		data, err := c.encode(envelope{tc.event})
		if err != nil || data != tc.data {
			t.Errorf("encode(%v) = %s, %v, want %s", tc.event, data, err, tc.data)
		}
		got, err := c.decode("", tc.data)
		if diff := cmp.Diff(envelope{tc.event}, got); diff != "" || err != nil {
			t.Errorf("decode(%s): %v, mismatch (-want +got):\n%s", tc.data, err, diff)
		}
	}
	// The other form of a registered type is written, too.
	if data, err := c.encode(envelope{goneEvent{1, 2}}); data != "180204" || err != nil {
		t.Errorf("value of a pointer type = %s, %v", data, err)
	}
	if data, err := c.encode(envelope{&madeEvent{1, "x"}}); data != "16020278" || err != nil {
		t.Errorf("pointer of a value type = %s, %v", data, err)
	}
}

func TestGenericAvroWriterFillsAndChecks(t *testing.T) {
	c := newTestCodec[any](t, `{"type":"record","name":"R","fields":[
		{"name":"a","type":"int"},
		{"name":"b","type":"string","default":"d"},
		{"name":"c","type":["null","int"]},
		{"name":"d","type":["int","null"],"default":5},
		{"name":"e","type":"double","default":0.5}]}`)
	for _, tc := range []struct {
		value any
		want  string
	}{
		{map[string]any{"a": 1}, "02026400000a000000000000e03f"},
		{map[string]any{"a": 1.0, "b": "", "c": 2, "d": nil, "e": 1}, "02000204" + "02" + "000000000000f03f"},
		{map[string]any{"a": 1, "extra": true}, "02026400000a000000000000e03f"},
		{struct{ A, B string }{}, "type struct { A string; B string } has no field a, which has no default"},
		{map[string]any{}, "field a: it is absent and has no default"},
		{map[string]any{"a": 1.5}, "field a: 1.5 is no Avro int"},
		{map[string]any{"a": 1 << 31}, "field a: 2147483648 exceeds an Avro int"},
		{map[string]any{"a": "1"}, "field a: type string cannot be written as Avro int"},
		{map[string]any{"a": nil}, "field a: nil cannot be written as Avro int"},
		{map[string]any{"a": 1, "b": "\xff"}, `field b: string "\xff" is not valid UTF-8`},
		{map[string]any{"a": 1, "c": "x"}, "field c: type string cannot be written as Avro int"},
		{map[string]any{"a": 1, "e": int64(1)<<60 + 1}, "field e: 1152921504606846977 is no Avro double"},
		{[]any{}, "type []interface {} cannot be written as Avro record"},
		{nil, "nil cannot be written as Avro record"},
	} {
		got, err := c.encode(tc.value)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("encode(%v) = %s, want %s", tc.value, got, tc.want)
		}
	}
}

func TestAvroWriterTakesOtherGoTypes(t *testing.T) {
	type word string
	for _, tc := range []struct {
		schema string
		value  any
		want   string
	}{
		{`"long"`, uint64(3), "06"},
		{`"long"`, uint64(1) << 63, "9223372036854775808 exceeds an Avro long"},
		{`"int"`, int8(-1), "01"},
		{`"long"`, json.Number("7"), "0e"},
		{`"long"`, json.Number("7.5"), "7.5 is no Avro long"},
		{`"double"`, json.Number("0.5"), "000000000000e03f"},
		{`"double"`, float32(0.5), "000000000000e03f"},
		{`"double"`, int8(-2), "00000000000000c0"},
		{`"double"`, int16(2), "0000000000000040"},
		{`"double"`, uint(2), "0000000000000040"},
		{`"double"`, uint8(2), "0000000000000040"},
		{`"double"`, uint64(1) << 63, "000000000000e043"},
		{`"double"`, uint64(1)<<63 + 1, "9223372036854775809 is no Avro double"},
		{`"double"`, uint64(math.MaxUint64), "18446744073709551615 is no Avro double"},
		{`"double"`, time.Second, "type time.Duration cannot be written as Avro double"},
		{`"float"`, uint16(2), "00000040"},
		{`"float"`, uint32(16777217), "1.6777217e+07 is no Avro float"},
		{`["null","double"]`, uint32(2), "020000000000000040"},
		{`["null","float"]`, int16(2), "0200000040"},
		{`"float"`, 0.5, "0000003f"},
		{`"float"`, 0.1, "0.1 is no Avro float"},
		{`"float"`, 16777217, "1.6777217e+07 is no Avro float"},
		{`"string"`, word("x"), "0278"},
		{`"string"`, []byte("x"), "0278"},
		{`"string"`, []byte{0xff}, `string "\xff" is not valid UTF-8`},
		{`"string"`, netip.MustParseAddr("::1"), "063a3a31"},
		{`"string"`, new(word("x")), "0278"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, word("A"), "00"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, "B", `"B" is no symbol of enum E`},
		{`{"type":"enum","name":"E","symbols":["A","B","C","D","E","F","G","H","I","J"]}`, "K", `"K" is no symbol of enum E`},
		{`{"type":"fixed","name":"F","size":2}`, []byte{1, 2}, "0102"},
		{`{"type":"fixed","name":"F","size":2}`, []byte{1}, "1 bytes for the 2 of fixed F"},
		{`{"type":"fixed","name":"F","size":2}`, [3]byte{}, "type [3]uint8 cannot be written as Avro fixed"},
		{`{"type":"array","items":"int"}`, [2]int{1, 2}, "04020400"},
		{`{"type":"array","items":"int"}`, []any{1, "x"}, "field [1]: type string cannot be written as Avro int"},
		{`{"type":"map","values":"int"}`, map[word]int16{"b": 2, "a": 1}, "0402610202620400"},
		{`{"type":"map","values":"int"}`, map[string]any{"k": "x"}, `field ["k"]: type string cannot be written as Avro int`},
		{`{"type":"map","values":"int"}`, map[int]int{}, "type map[int]int cannot be written as Avro map"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, int64(5), "0a"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, time.Second, "type time.Duration cannot be written as Avro long timestamp-millis"},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), "2300-01-01 00:00:00 +0000 UTC exceeds a timestamp-nanos"},
		{`{"type":"int","logicalType":"date"}`, time.Date(6000000, 1, 1, 0, 0, 0, 0, time.UTC), "6000000-01-01 00:00:00 +0000 UTC exceeds a date"},
		{`{"type":"int","logicalType":"time-millis"}`, 600 * time.Hour, "2160000000 exceeds an Avro int"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, *big.NewRat(1, 4), "0219"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(1, 3), "1/3 has more than 2 decimal places"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(100, 1), "100 has more than 4 digits"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, 0.25, "type float64 cannot be written as Avro bytes decimal"},
		{`"null"`, 1, "type int cannot be written as Avro null"},
		{`"boolean"`, 1, "type int cannot be written as Avro boolean"},
	} {
		got, err := newTestCodec[any](t, tc.schema).encode(tc.value)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("encode(%s, %T %v) = %s, want %s", tc.schema, tc.value, tc.value, got, tc.want)
		}
	}
}

func TestAvroTimesKeepTheirMeaning(t *testing.T) {
	newYork := time.FixedZone("EST", -5*3600)
	at := time.Date(2024, 2, 29, 23, 30, 0, 999_999_999, newYork)
	for _, tc := range []struct {
		logical string
		in      time.Time
		want    time.Time
	}{
		{`"int","logicalType":"date"`, at, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{`"int","logicalType":"date"`, time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		{`"long","logicalType":"timestamp-millis"`, at, time.Date(2024, 3, 1, 4, 30, 0, 999_000_000, time.UTC)},
		{`"long","logicalType":"local-timestamp-micros"`, at, time.Date(2024, 2, 29, 23, 30, 0, 999_999_000, time.UTC)},
		{`"long","logicalType":"timestamp-millis"`, time.Unix(-1, 999_999_999), time.UnixMilli(-1).UTC()},
		{`"long","logicalType":"timestamp-millis"`, time.UnixMilli(math.MinInt64), time.UnixMilli(math.MinInt64).UTC()},
		{`"long","logicalType":"timestamp-millis"`, time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MaxInt64).UTC()},
		{`"long","logicalType":"timestamp-micros"`, time.UnixMicro(math.MinInt64), time.UnixMicro(math.MinInt64).UTC()},
		{`"long","logicalType":"timestamp-nanos"`, time.Unix(0, math.MinInt64), time.Unix(0, math.MinInt64).UTC()},
		{`"long","logicalType":"timestamp-nanos"`, time.Unix(0, math.MaxInt64), time.Unix(0, math.MaxInt64).UTC()},
	} {
		c := newTestCodec[time.Time](t, `{"type":`+tc.logical+`}`)
		data, err := c.encode(tc.in)
		if err != nil {
			t.Errorf("%s: encode(%v): %v", tc.logical, tc.in, err)
			continue
		}
		got, err := c.decode("", data)
		if err != nil || !got.Equal(tc.want) || got.Location() != time.UTC {
			t.Errorf("%s: %v came back as %v, %v, want %v", tc.logical, tc.in, got, err, tc.want)
		}
	}
}

func TestAvroDecimalsAreReadWhateverTheirPrecision(t *testing.T) {
	for _, tc := range []struct{ schema, data, want string }{
		{`{"type":"bytes","logicalType":"decimal","precision":2}`, "0263", "99"},
		{`{"type":"bytes","logicalType":"decimal","precision":2}`, "0264", "100"},
		{`{"type":"bytes","logicalType":"decimal","precision":2}`, "029c", "-100"},
		{`{"type":"bytes","logicalType":"decimal","precision":2}`, "029d", "-99"},
		{`{"type":"bytes","logicalType":"decimal","precision":2}`, "00", "0"},
		{`{"type":"bytes","logicalType":"decimal","precision":20}`, "12056bc75e2d630fffff", "99999999999999999999"},
		{`{"type":"bytes","logicalType":"decimal","precision":20}`, "12056bc75e2d63100000", "100000000000000000000"},
		{`{"type":"bytes","logicalType":"decimal","precision":20}`, "12fffffffffffffffffe", "-2"},
	} {
		value, err := newTestCodec[*big.Rat](t, tc.schema).decode("", tc.data)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = value.RatString()
		}
		if got != tc.want {
			t.Errorf("decode(%s, %s) = %s, want %s", tc.schema, tc.data, got, tc.want)
		}
	}
}
