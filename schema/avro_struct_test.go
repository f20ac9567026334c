// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const personSchema = `{"type":"record","name":"Person","namespace":"t","fields":[
	{"name":"name","type":"string"},
	{"name":"nick","type":["null","string"]},
	{"name":"age","type":"int"},
	{"name":"height","type":"float"},
	{"name":"weight","type":"double"},
	{"name":"active","type":"boolean"},
	{"name":"born","type":{"type":"int","logicalType":"date"}},
	{"name":"seen","type":["null",{"type":"long","logicalType":"timestamp-micros"}]},
	{"name":"shift","type":{"type":"int","logicalType":"time-millis"}},
	{"name":"balance","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
	{"name":"limit","type":["null",{"type":"fixed","name":"Limit","size":5,"logicalType":"decimal","precision":9,"scale":2}]},
	{"name":"key","type":{"type":"fixed","name":"Key","size":4}},
	{"name":"photo","type":"bytes"},
	{"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","BLUE"]}},
	{"name":"period","type":{"type":"fixed","name":"Period","size":12,"logicalType":"duration"}},
	{"name":"home","type":{"type":"record","name":"Address","fields":[{"name":"street","type":"string"},{"name":"zip","type":"long"}]}},
	{"name":"other","type":["null","Address"]},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"places","type":{"type":"array","items":"Address"}},
	{"name":"scores","type":{"type":"map","values":"long"}},
	{"name":"friends","type":{"type":"array","items":["null","Person"]}},
	{"name":"ip","type":"string"},
	{"name":"extra","type":["null","int","string"]}]}`

type color string

type address struct {
	Street string `avro:"street"`
	Zip    uint16 `avro:"zip"`
}

type identity struct {
	Name string  `avro:"name"`
	Nick *string `avro:"nick"`
}

type person struct {
	identity
	Age     int8              `avro:"age"`
	Height  float32           `avro:"height"`
	Weight  float64           `avro:"weight"`
	Active  bool              `avro:"active,omitempty"`
	Born    time.Time         `avro:"born"`
	Seen    *time.Time        `avro:"seen"`
	Shift   time.Duration     `avro:"shift"`
	Balance *big.Rat          `avro:"balance"`
	Limit   *big.Rat          `avro:"limit"`
	Key     [4]byte           `avro:"key"`
	Photo   []byte            `avro:"photo"`
	Color   color             `avro:"color"`
	Period  AvroDuration      `avro:"period"`
	Home    address           `avro:"home"`
	Other   *address          `avro:"other"`
	Tags    []string          `avro:"tags"`
	Places  []address         `avro:"places"`
	Scores  map[string]uint32 `avro:"scores"`
	Friends []*person         `avro:"friends"`
	IP      netip.Addr        `avro:"ip"`
	Extra   any               `avro:"extra"`
	Ignored string            `avro:"-"`
}

func newPerson() person {
	seen := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	friend := person{
		identity: identity{Name: "Bo"}, Born: time.Unix(0, 0).UTC(), Balance: new(big.Rat), Photo: []byte{},
		Color: "RED", Tags: []string{}, Places: []address{}, Scores: map[string]uint32{}, Friends: []*person{},
		IP: netip.MustParseAddr("10.0.0.1"),
	}
	return person{
		identity: identity{Name: "Al", Nick: new("A")}, Age: -5, Height: 1.5, Weight: 70.25, Active: true,
		Born: time.Date(1950, 1, 2, 0, 0, 0, 0, time.UTC), Seen: &seen, Shift: 8 * time.Hour,
		Balance: big.NewRat(-12345, 100), Limit: big.NewRat(50, 1), Key: [4]byte{1, 2, 3, 4}, Photo: []byte{9},
		Color: "BLUE", Period: AvroDuration{1, 2, 3}, Home: address{"Elm", 1000}, Other: &address{"Oak", 65535},
		Tags: []string{"x", "y"}, Places: []address{{"a", 1}, {"b", 2}}, Scores: map[string]uint32{"z": 1, "a": 2},
		Friends: []*person{nil, &friend}, IP: netip.MustParseAddr("::1"), Extra: "note",
	}
}

func TestStructsOfEveryAvroTypeRoundTrip(t *testing.T) {
	want := newPerson()
	typed := newAvroCodec[person](t, personSchema)
	data, err := typed.encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := typed.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	options := cmp.Options{compareRats, cmp.AllowUnexported(person{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}

	// The generic form of the same datum has the same bytes.
	generic := newAvroCodec[any](t, personSchema)
	value, err := generic.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := generic.encode(value); again != data || err != nil {
		t.Errorf("generic encode = %s, %v, want %s", again, err, data)
	}

	// A pointer to the struct reads and writes the same.
	pointer := newAvroCodec[*person](t, personSchema)
	p, err := pointer.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := pointer.encode(p); again != data || err != nil {
		t.Errorf("pointer encode = %s, %v, want %s", again, err, data)
	}
}

func TestEveryTruncationOfAStructIsAnError(t *testing.T) {
	typed := newAvroCodec[person](t, personSchema)
	generic := newAvroCodec[any](t, personSchema)
	data, err := typed.encode(newPerson())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 2 {
		if v, err := typed.decode("", data[:i]); err == nil {
			t.Errorf("the first %d bytes are read as %v", i/2, v)
		}
		if v, err := generic.decode("", data[:i]); err == nil {
			t.Errorf("the first %d bytes are read as %v", i/2, v)
		}
	}
	_, err = typed.decode("", data+"00")
	if err == nil || !strings.HasSuffix(err.Error(), "1 bytes follow the datum") {
		t.Errorf("one byte more: %v", err)
	}
}

func TestReadingNamesTheElementThatFails(t *testing.T) {
	c := newAvroCodec[person](t, `{"type":"record","name":"R","fields":[
		{"name":"places","type":{"type":"array","items":{"type":"record","name":"A","fields":[{"name":"street","type":"string"},{"name":"zip","type":"long"}]}}},
		{"name":"scores","type":{"type":"map","values":"long"}},
		{"name":"ip","type":"string"},
		{"name":"friends","type":{"type":"array","items":["null","R"]}}]}`)
	for _, tc := range []struct{ data, want string }{
		{"04 0261 02 0262 01", "field places[1].zip at byte 7: -1 exceeds Go type uint16"},
		{"02 0261 808008", "field places[0].zip at byte 6: 65536 exceeds Go type uint16"},
		{"00 02 026b 8080808020", `field scores["k"] at byte 9: 4294967296 exceeds Go type uint32`},
		{"00 00 0278", `field ip at byte 4: netip.Addr: ParseAddr("x"): unable to parse IP`},
		{"00 00 063a3a31 02 02 00 00 04ff", "field friends[0].ip at byte 10: truncated: length 2 exceeds the 1 bytes that remain"},
	} {
		_, err := c.decode("", tc.data)
		if err == nil || err.Error() != tc.want {
			t.Errorf("decode(%s): %v, want %s", tc.data, err, tc.want)
		}
	}
}

func TestWritingNamesTheElementThatFails(t *testing.T) {
	c := newAvroCodec[person](t, personSchema)
	for _, tc := range []struct {
		change func(p *person)
		want   string
	}{
		{func(p *person) { p.Color = "GREEN" }, `field color: "GREEN" is no symbol of enum t.Color`},
		{func(p *person) { p.Balance = nil }, "field balance: nil *big.Rat for Avro bytes"},
		{func(p *person) { p.Friends[1].Balance = big.NewRat(1, 3) }, "field friends[1].balance: 1/3 has more than 2 decimal places"},
		{func(p *person) { p.Extra = 1.5 }, "field extra: type float64 suits no branch of the Avro union"},
		{func(p *person) { p.Friends[1].Friends = []*person{p.Friends[1]} }, "nesting exceeds 10000 levels"},
	} {
		p := newPerson()
		tc.change(&p)
		_, err := c.encode(p)
		if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
			t.Errorf("encode: %v, want %s", err, tc.want)
		}
	}
}

func TestEvolvedStructsTakeDefaults(t *testing.T) {
	type item struct {
		B    int64             `avro:"b"`
		Name string            `avro:"name"`
		Tags []string          `avro:"tags"`
		Opt  *int              `avro:"opt"`
		Meta map[string]string `avro:"meta"`
		Any  any               `avro:"any"`
	}
	const writer = `{"type":"record","name":"Item","fields":[{"name":"gone","type":["null","string"]},{"name":"a","type":"int"}]}`
	c := newAvroCodec[item](t, `{"type":"record","name":"Item","fields":[
		{"name":"b","type":"long","aliases":["a"]},
		{"name":"name","type":"string","default":"none"},
		{"name":"tags","type":{"type":"array","items":"string"},"default":["x"]},
		{"name":"opt","type":["null","int"],"default":3},
		{"name":"meta","type":{"type":"map","values":"string"},"default":{"k":"v"}},
		{"name":"any","type":["null",{"type":"record","name":"S","fields":[{"name":"x","type":"int","default":7}]}],"default":{}},
		{"name":"unused","type":"string","default":"u"}]}`)
	want := item{B: 5, Name: "none", Tags: []string{"x"}, Opt: new(3), Meta: map[string]string{"k": "v"}, Any: map[string]any{"x": 7}}
	for range 2 {
		got, err := c.decode(writer, "02 0261 0a")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("decode: %v, mismatch (-want +got):\n%s", err, diff)
		}
		// Defaults are not shared between values.
		got.Tags[0], got.Meta["k"], *got.Opt, got.Any.(map[string]any)["x"] = "", "", 0, 0
	}
	generic := newAvroCodec[any](t, c.format.text)
	wantMap := map[string]any{
		"b": int64(5), "name": "none", "tags": []any{"x"}, "opt": 3, "meta": map[string]any{"k": "v"},
		"any": map[string]any{"x": 7}, "unused": "u",
	}
	for range 2 {
		got, err := generic.decode(writer, "00 0a")
		if diff := cmp.Diff(any(wantMap), got); diff != "" || err != nil {
			t.Fatalf("generic decode: %v, mismatch (-want +got):\n%s", err, diff)
		}
		m := got.(map[string]any)
		m["tags"].([]any)[0], m["meta"].(map[string]any)["k"] = "", ""
	}
}

func TestRecordsCanBeMaps(t *testing.T) {
	const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"long","default":2}]}`
	c := newAvroCodec[map[string]int](t, text)
	got, err := c.decode(`{"type":"record","name":"R","fields":[{"name":"x","type":"string"},{"name":"a","type":"int"}]}`, "0278 02")
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 2}, got); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if data, err := c.encode(got); data != "0204" || err != nil {
		t.Errorf("encode = %s, %v", data, err)
	}
	type tree map[string]tree
	recursive := newAvroCodec[tree](t, `{"type":"record","name":"T","fields":[{"name":"l","type":["null","T"]},{"name":"r","type":["null","T"]}]}`)
	twig, err := recursive.decode("", "02 00 00 00")
	if diff := cmp.Diff(tree{"l": tree{"l": nil, "r": nil}, "r": nil}, twig); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if data, err := recursive.encode(twig); data != "02000000" || err != nil {
		t.Errorf("encode = %s, %v", data, err)
	}
}

func TestNullReadsAsTheZeroValue(t *testing.T) {
	type value struct {
		S string    `avro:"s"`
		N int       `avro:"n"`
		T time.Time `avro:"t"`
		L []int     `avro:"l"`
	}
	c := newAvroCodec[value](t, `{"type":"record","name":"R","fields":[{"name":"s","type":["null","string"]},{"name":"n","type":["int","null"]},
		{"name":"t","type":["null",{"type":"int","logicalType":"date"}]},{"name":"l","type":["null",{"type":"array","items":"int"}]}]}`)
	got, err := c.decode("", "00 02 00 00")
	if diff := cmp.Diff(value{}, got); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if data, err := c.encode(value{L: []int{}, T: time.Unix(0, 0)}); data != "020000000200"+"0200" || err != nil {
		t.Errorf("encode of zero values = %s, %v", data, err)
	}
}

func TestTypedUnionsUseTheBranchThatSuits(t *testing.T) {
	type value struct {
		A *int64  `avro:"a"`
		B string  `avro:"b"`
		C float64 `avro:"c"`
	}
	c := newAvroCodec[value](t, `{"type":"record","name":"R","fields":[
		{"name":"a","type":["null","int","long"]},
		{"name":"b","type":["null",{"type":"enum","name":"E","symbols":["A"]},"string"]},
		{"name":"c","type":["string","double"]}]}`)
	for _, tc := range []struct {
		value value
		data  string
	}{
		{value{nil, "A", 0.5}, "00" + "0200" + "02000000000000e03f"},
		{value{new(int64(7)), "B", 0.5}, "040e" + "040242" + "02000000000000e03f"},
	} {
		data, err := c.encode(tc.value)
		if data != tc.data || err != nil {
			t.Errorf("encode(%v) = %s, %v, want %s", tc.value, data, err, tc.data)
		}
		got, err := c.decode("", tc.data)
		if diff := cmp.Diff(tc.value, got); diff != "" || err != nil {
			t.Errorf("decode(%s): %v, mismatch (-want +got):\n%s", tc.data, err, diff)
		}
	}
	got, err := c.decode("", "02 04 0200 02 000000000000e03f")
	if err != nil || *got.A != 2 {
		t.Errorf("int branch: %v, %v", got, err)
	}
	if _, err := c.decode("", "00 0200 00 0278"); err == nil || err.Error() != "field c at byte 4: type float64 cannot hold Avro string" {
		t.Errorf("branch that does not suit the type: %v", err)
	}
}

func TestGoTypesThatDoNotSuitAreRefusedBeforeData(t *testing.T) {
	type small struct {
		A int `avro:"a"`
	}
	type twice struct {
		A int `avro:"a"`
		B int `avro:"a"`
	}
	const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int"}]}`
	_, err := newAvroCodec[small](t, text).decode("", "0278 02")
	if err == nil || err.Error() != "field a: type int cannot hold Avro string" {
		t.Errorf("decode: %v", err)
	}
	_, err = newAvroCodec[small](t, text).encode(small{})
	if err == nil || err.Error() != "field a: type int cannot be written as Avro string" {
		t.Errorf("encode: %v", err)
	}
	_, err = newAvroCodec[twice](t, text).decode("", "0278 02")
	if err == nil || err.Error() != `schema.twice has two fields for "a"` {
		t.Errorf("two fields of a name: %v", err)
	}
	_, err = newAvroCodec[struct {
		A string `avro:"a"`
	}](t, text).encode(struct {
		A string `avro:"a"`
	}{"x"})
	if err == nil || err.Error() != `type struct { A string "avro:\"a\"" } has no field b, which has no default` {
		t.Errorf("missing field: %v", err)
	}
	for _, tc := range []struct {
		schema string
		err    error
		want   string
	}{
		{`"double"`, readError[float32](t, `"double"`), "type float32 cannot hold Avro double"},
		{"duration", readError[time.Duration](t, `"long"`), "type time.Duration cannot hold Avro long"},
		{"moment", readError[time.Duration](t, `{"type":"long","logicalType":"timestamp-millis"}`), "type time.Duration cannot hold Avro long timestamp-millis"},
		{"fixed", readError[[3]byte](t, `{"type":"fixed","name":"F","size":4}`), "type [3]uint8 cannot hold Avro fixed"},
		{"map", readError[map[int]int](t, `{"type":"map","values":"int"}`), "type map[int]int cannot hold Avro map"},
		{"record", readError[[]int](t, text), "type []int cannot hold Avro record"},
		{"enum", readError[int](t, `{"type":"enum","name":"E","symbols":["A"]}`), "type int cannot hold Avro enum"},
		{"union", readError[bool](t, `["null","int"]`), "type bool cannot hold Avro int"},
		{"scale", readError[any](t, `{"type":"bytes","logicalType":"decimal","precision":20000,"scale":10001}`), "decimal scale 10001 exceeds 10000"},
	} {
		if tc.err == nil || tc.err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.schema, tc.err, tc.want)
		}
	}
}

func readError[T any](t testing.TB, text string) error {
	_, err := newAvroCodec[T](t, text).decode("", "00")
	return err
}

func TestEmbeddedStructsAndShadowing(t *testing.T) {
	type inner struct {
		A int `avro:"a"`
		B int `avro:"b"`
	}
	type outer struct {
		inner
		Named inner `avro:"named"`
		A     int   `avro:"a"`
		C     int
	}
	fields, err := avroFields(reflect.TypeFor[outer]())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"a", "b", "C", "named", "inner"} {
		if f, ok := fields[name]; ok {
			got = append(got, name+" "+f.typ.String())
		}
	}
	if diff := cmp.Diff([]string{"a int", "b int", "C int", "named schema.inner"}, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	c := newAvroCodec[outer](t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}`)
	v, err := c.decode("", "0204")
	if diff := cmp.Diff(outer{inner: inner{B: 2}, A: 1}, v, cmp.AllowUnexported(outer{})); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
}
