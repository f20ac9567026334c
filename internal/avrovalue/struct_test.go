// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"errors"
	"fmt"
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
	Period  Duration          `avro:"period"`
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
		Color: "BLUE", Period: Duration{Months: 1, Days: 2, Milliseconds: 3}, Home: address{"Elm", 1000}, Other: &address{"Oak", 65535},
		Tags: []string{"x", "y"}, Places: []address{{"a", 1}, {"b", 2}}, Scores: map[string]uint32{"z": 1, "a": 2},
		Friends: []*person{nil, &friend}, IP: netip.MustParseAddr("::1"), Extra: "note",
	}
}

func TestStructsOfEveryAvroTypeRoundTrip(t *testing.T) {
	want := newPerson()
	typed := newTestCodec[person](t, personSchema)
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
	generic := newTestCodec[any](t, personSchema)
	value, err := generic.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := generic.encode(value); again != data || err != nil {
		t.Errorf("generic encode = %s, %v, want %s", again, err, data)
	}

	// A pointer to the struct reads and writes the same.
	pointer := newTestCodec[*person](t, personSchema)
	p, err := pointer.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := pointer.encode(p); again != data || err != nil {
		t.Errorf("pointer encode = %s, %v, want %s", again, err, data)
	}
}

func TestEveryTruncationOfAStructIsAnError(t *testing.T) {
	typed := newTestCodec[person](t, personSchema)
	generic := newTestCodec[any](t, personSchema)
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
	c := newTestCodec[person](t, `{"type":"record","name":"R","fields":[
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
	c := newTestCodec[person](t, personSchema)
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
	c := newTestCodec[item](t, `{"type":"record","name":"Item","fields":[
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
	generic := newTestCodec[any](t, c.text)
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
	c := newTestCodec[map[string]int](t, text)
	got, err := c.decode(`{"type":"record","name":"R","fields":[{"name":"x","type":"string"},{"name":"a","type":"int"}]}`, "0278 02")
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 2}, got); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if data, err := c.encode(got); data != "0204" || err != nil {
		t.Errorf("encode = %s, %v", data, err)
	}
	type tree map[string]tree
	recursive := newTestCodec[tree](t, `{"type":"record","name":"T","fields":[{"name":"l","type":["null","T"]},{"name":"r","type":["null","T"]}]}`)
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
	c := newTestCodec[value](t, `{"type":"record","name":"R","fields":[{"name":"s","type":["null","string"]},{"name":"n","type":["int","null"]},
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
	c := newTestCodec[value](t, `{"type":"record","name":"R","fields":[
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
	_, err := newTestCodec[small](t, text).decode("", "0278 02")
	if err == nil || err.Error() != "field a: type int cannot hold Avro string" {
		t.Errorf("decode: %v", err)
	}
	_, err = newTestCodec[small](t, text).encode(small{})
	if err == nil || err.Error() != "field a: type int cannot be written as Avro string" {
		t.Errorf("encode: %v", err)
	}
	_, err = newTestCodec[twice](t, text).decode("", "0278 02")
	if err == nil || err.Error() != `avrovalue.twice has two fields for "a"` {
		t.Errorf("two fields of a name: %v", err)
	}
	_, err = newTestCodec[struct {
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
	_, err := newTestCodec[T](t, text).decode("", "00")
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
	fields, err := goFields(reflect.TypeFor[outer]())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"a", "b", "C", "named", "inner"} {
		if f, ok := fields[name]; ok {
			got = append(got, name+" "+f.typ.String())
		}
	}
	if diff := cmp.Diff([]string{"a int", "b int", "C int", "named avrovalue.inner"}, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	c := newTestCodec[outer](t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}`)
	v, err := c.decode("", "0204")
	if diff := cmp.Diff(outer{inner: inner{B: 2}, A: 1}, v, cmp.AllowUnexported(outer{})); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
}

type base struct {
	A int  `avro:"a"`
	B *int `avro:"b"`
}

type base2 struct {
	*base
	D string `avro:"d"`
}

// Fields of an embedded pointer are the struct's own: reading sets the pointer,
// and a nil pointer has no values for them.
func TestEmbeddedPointersAreFollowed(t *testing.T) {
	type outer struct {
		C string
		*base2
	}
	const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","int"],"default":null},
		{"name":"C","type":"string"},{"name":"d","type":"string","default":"x"}]}`
	c := newTestCodec[outer](t, text)
	want := outer{C: "c", base2: &base2{&base{5, new(6)}, "d"}}
	data, err := c.encode(want)
	if data != "0a020c"+"0263"+"0264" || err != nil {
		t.Fatalf("encode = %s, %v", data, err)
	}
	got, err := c.decode("", data)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(outer{}, base2{})); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if _, err := c.encode(outer{C: "c"}); err == nil || err.Error() != "field a: the embedded *avrovalue.base2 is nil, and the field has no default" {
		t.Errorf("encode without the embedded value: %v", err)
	}
	defaults := newTestCodec[outer](t, strings.Replace(text, `"type":"int"}`, `"type":"int","default":7}`, 1))
	if data, err := defaults.encode(outer{C: "c", base2: &base2{D: "d"}}); data != "0e00"+"0263"+"0264" || err != nil {
		t.Errorf("encode with a nil pointer in the embedded value = %s, %v", data, err)
	}
	if data, err := defaults.encode(outer{C: "c"}); data != "0e00"+"0263"+"0278" || err != nil {
		t.Errorf("encode with defaults = %s, %v", data, err)
	}
	got, err = newTestCodec[outer](t, `{"type":"record","name":"R","fields":[{"name":"C","type":"string"}]}`).decode("", "0263")
	if diff := cmp.Diff(outer{C: "c"}, got, cmp.AllowUnexported(outer{}, base2{})); diff != "" || err != nil {
		t.Errorf("decode of a record without the embedded fields: %v, mismatch (-want +got):\n%s", err, diff)
	}
	inferred, err := SchemaFor[outer]("")
	if want := `{"type":"record","name":"outer","fields":[{"name":"C","type":"string"},{"name":"a","type":"int"},{"name":"b","type":["null","int"],"default":null},{"name":"d","type":"string"}]}`; strings.Replace(inferred, `"a","type":"long"`, `"a","type":"int"`, 1) != strings.Replace(want, `["null","int"]`, `["null","long"]`, 1) || err != nil {
		t.Errorf("schema = %s, %v", inferred, err)
	}
}

type level int

func (l level) MarshalText() ([]byte, error) {
	if l < 0 {
		return nil, errors.New("no level")
	}
	return []byte{'L', '0' + byte(l)}, nil
}

func (l *level) UnmarshalText(text []byte) error {
	if len(text) != 2 || text[0] != 'L' {
		return fmt.Errorf("no level: %s", text)
	}
	*l = level(text[1] - '0')
	return nil
}

func (l level) String() string { return fmt.Sprintf("level %d", int(l)) }

// kinds holds what has a way of its own to be read and written.
type kinds struct {
	Words   map[color]string   `avro:"words"`
	Counts  map[string]int     `avro:"counts"`
	Longs   map[string]int64   `avro:"longs"`
	Ratios  map[string]float64 `avro:"ratios"`
	Flags   map[string]bool    `avro:"flags"`
	Text    []byte             `avro:"text"`
	Wide    float64            `avro:"wide"`
	Level   level              `avro:"level"`
	Named   fmt.Stringer       `avro:"named"`
	Ints    []int              `avro:"ints"`
	Int32s  []int32            `avro:"int32s"`
	Int64s  []int64            `avro:"int64s"`
	Floats  []float32          `avro:"floats"`
	Doubles []float64          `avro:"doubles"`
	Bools   []bool             `avro:"bools"`
	Raw     []byte             `avro:"raw"`
	Count   uint64             `avro:"count"`
	Deep    **int              `avro:"deep"`
	Moment  int64              `avro:"moment"`
}

const kindsSchema = `{"type":"record","name":"Kinds","fields":[
	{"name":"words","type":{"type":"map","values":"string"}},
	{"name":"counts","type":{"type":"map","values":"int"}},
	{"name":"longs","type":{"type":"map","values":"long"}},
	{"name":"ratios","type":{"type":"map","values":"double"}},
	{"name":"flags","type":{"type":"map","values":"boolean"}},
	{"name":"text","type":"string"},
	{"name":"wide","type":"float"},
	{"name":"level","type":{"type":"enum","name":"Level","symbols":["L0","L1","L2"]}},
	{"name":"named","type":["null","Level","string"]},
	{"name":"ints","type":{"type":"array","items":"long"}},
	{"name":"int32s","type":{"type":"array","items":"int"}},
	{"name":"int64s","type":{"type":"array","items":"long"}},
	{"name":"floats","type":{"type":"array","items":"float"}},
	{"name":"doubles","type":{"type":"array","items":"double"}},
	{"name":"bools","type":{"type":"array","items":"boolean"}},
	{"name":"raw","type":{"type":"fixed","name":"Raw","size":2}},
	{"name":"count","type":"int"},
	{"name":"deep","type":["null","int"]},
	{"name":"moment","type":{"type":"long","logicalType":"timestamp-millis"}}]}`

func TestStructFieldsOfOtherKinds(t *testing.T) {
	c := newTestCodec[kinds](t, kindsSchema, goType("Level", level(0)))
	want := kinds{
		Words: map[color]string{"b": "2", "a": "1"}, Counts: map[string]int{"x": -1}, Longs: map[string]int64{"y": 1 << 40},
		Ratios: map[string]float64{"z": 0.5}, Flags: map[string]bool{"f": true}, Text: []byte("text"), Wide: 1.5, Level: 2,
		Named: level(1), Ints: []int{1, -2}, Int32s: []int32{3}, Int64s: []int64{4}, Floats: []float32{0.25},
		Doubles: []float64{0.125}, Bools: []bool{true, false}, Raw: []byte{7, 8}, Count: 9, Deep: new(new(5)), Moment: 6,
	}
	data, err := c.encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.decode("", data)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	generic := newTestCodec[any](t, kindsSchema)
	value, err := generic.decode("", data)
	if err != nil {
		t.Fatal(err)
	}
	record := value.(map[string]any)
	wantSome := []any{map[string]any{"a": "1", "b": "2"}, "text", "L2", "L1", 5, time.UnixMilli(6).UTC()}
	some := []any{record["words"], record["text"], record["level"], record["named"], record["deep"], record["moment"]}
	if diff := cmp.Diff(wantSome, some); diff != "" {
		t.Errorf("generic mismatch (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		change func(v *kinds)
		want   string
	}{
		{func(v *kinds) { v.Level = -1 }, "field level: no level"},
		{func(v *kinds) { v.Level = 7 }, `field level: "L7" is no symbol of enum Level`},
		{func(v *kinds) { v.Text = []byte{0xff} }, `field text: string "\xff" is not valid UTF-8`},
		{func(v *kinds) { v.Wide = 0.1 }, "field wide: 0.1 is no Avro float"},
		{func(v *kinds) { v.Counts["x"] = 1 << 31 }, `field counts["x"]: 2147483648 exceeds an Avro int`},
		{func(v *kinds) { v.Words["\xff"] = "" }, `field words: string "\xff" is not valid UTF-8`},
		{func(v *kinds) { v.Count = 1 << 63 }, "field count: 9223372036854775808 exceeds an Avro int"},
		{func(v *kinds) { v.Raw = nil }, "field raw: 0 bytes for the 2 of fixed Raw"},
		{func(v *kinds) { *v.Deep = nil }, "field deep: nil *int for Avro int"},
	} {
		changed, err := c.decode("", data)
		if err != nil {
			t.Fatal(err)
		}
		tc.change(&changed)
		if _, err := c.encode(changed); err == nil || err.Error() != tc.want {
			t.Errorf("encode: %v, want %s", err, tc.want)
		}
	}
}

func TestArraysAndMapsOfSeveralBlocks(t *testing.T) {
	type value struct {
		Ints  []int64          `avro:"ints"`
		Items []address        `avro:"items"`
		Words map[string]int64 `avro:"words"`
		Flags map[string]bool  `avro:"flags"`
		Any   any              `avro:"any"`
	}
	c := newTestCodec[value](t, `{"type":"record","name":"R","fields":[
		{"name":"ints","type":{"type":"array","items":"long"}},
		{"name":"items","type":{"type":"array","items":{"type":"record","name":"A","fields":[{"name":"street","type":"string"},{"name":"zip","type":"long"}]}}},
		{"name":"words","type":{"type":"map","values":"long"}},
		{"name":"flags","type":{"type":"map","values":"boolean"}},
		{"name":"any","type":{"type":"map","values":{"type":"array","items":"int"}}}]}`)
	got, err := c.decode("", "02 02 01 02 04 02 06 00"+
		"02 0261 02 01 06 0262 04 00"+
		"02 0261 02 01 06 0262 04 00"+
		"02 0261 01 02 0262 00 00"+
		"02 0278 02 02 02 04 00 02 0279 00 00")
	want := value{
		Ints: []int64{1, 2, 3}, Items: []address{{"a", 1}, {"b", 2}}, Words: map[string]int64{"a": 1, "b": 2},
		Flags: map[string]bool{"a": true, "b": false}, Any: map[string]any{"x": []any{1, 2}, "y": []any{}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
	// The size of a block is for those who pass over it.
	for _, size := range []string{"00", "02", "08", "7e", "01"} {
		got, err := c.decode("", "01"+size+"02 00  01"+size+"0261 02 00  01"+size+"0261 02 00  01"+size+"0261 01 00  020278 00 00")
		want := value{
			Ints: []int64{1}, Items: []address{{"a", 1}}, Words: map[string]int64{"a": 1}, Flags: map[string]bool{"a": true},
			Any: map[string]any{"x": []any{}},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("blocks of size %s: %v, mismatch (-want +got):\n%s", size, err, diff)
		}
	}
	for _, tc := range []struct{ data, want string }{
		{"00 00 00 02 0261 02", `field flags["a"] at byte 6: boolean byte 0x02`},
	} {
		_, err := c.decode("", tc.data)
		if err == nil || err.Error() != tc.want {
			t.Errorf("decode(%s): %v, want %s", tc.data, err, tc.want)
		}
	}
}

func TestInterfacesWithMethodsTakeWhatImplementsThem(t *testing.T) {
	type value struct {
		Named fmt.Stringer `avro:"named"`
	}
	c := newTestCodec[value](t, `{"type":"record","name":"R","fields":[{"name":"named","type":["null",{"type":"long","logicalType":"timestamp-millis"},"string"]}]}`)
	got, err := c.decode("", "02 02")
	if err != nil || got.Named.String() != "1970-01-01 00:00:00.001 +0000 UTC" {
		t.Errorf("decode = %v, %v", got, err)
	}
	if data, err := c.encode(got); data != "0202" || err != nil {
		t.Errorf("encode = %s, %v", data, err)
	}
	if got, err := c.decode("", "00"); got.Named != nil || err != nil {
		t.Errorf("null = %v, %v", got, err)
	}
	if _, err := c.decode("", "04 0278"); err == nil || err.Error() != "field named at byte 3: type string does not implement fmt.Stringer" {
		t.Errorf("a string: %v", err)
	}
}

func TestNullableDecimalDefault(t *testing.T) {
	type value struct {
		D *big.Rat `avro:"d"`
	}
	c := newTestCodec[value](t, `{"type":"record","name":"R","fields":[{"name":"d","type":[{"type":"bytes","logicalType":"decimal","precision":15,"scale":4},"null"],"default":"\u0000"}]}`)
	got, err := c.decode(`{"type":"record","name":"R","fields":[]}`, "")
	if err != nil || got.D == nil || got.D.FloatString(4) != "0.0000" {
		t.Errorf("decode = %v, %v", got, err)
	}
}
