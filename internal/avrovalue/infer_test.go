// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inferredKey [4]byte

type inferredItem struct {
	Code string        `avro:"code,alias=sku,alias=id"`
	Next *inferredItem `avro:"next"`
}

type inferred struct {
	inferredItem
	Small  int16             `avro:"small,default=7"`
	Big    uint32            `avro:"big"`
	Ratio  float32           `avro:"ratio"`
	Exact  float64           `avro:"exact"`
	Yes    bool              `avro:"yes,omitzero"`
	At     time.Time         `avro:"at"`
	Day    time.Time         `avro:"day,date"`
	Local  time.Time         `avro:"local,local-timestamp-millis"`
	Took   time.Duration     `avro:"took"`
	Clock  time.Duration     `avro:"clock,time-millis"`
	Price  *big.Rat          `avro:"price,decimal(9,2)"`
	Key    inferredKey       `avro:"key"`
	Hash   [2]byte           `avro:"hash"`
	Raw    []byte            `avro:"raw"`
	UUID   string            `avro:"uuid,uuid"`
	Tags   []string          `avro:"tags,default=[\"a\",\"b\"]"`
	Labels map[string]int    `avro:"labels"`
	Items  []inferredItem    `avro:"items"`
	Addr   netip.Addr        `avro:"addr"`
	Wait   Duration          `avro:"wait"`
	Days   []time.Time       `avro:"days,date"`
	Skip   chan int          `avro:"-"`
	Plain  map[string]string // the name of the Go field
}

func TestSchemaForAStructReadsAndWritesIt(t *testing.T) {
	text, err := SchemaFor[inferred]("shop")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"record","name":"shop.inferred","fields":[` +
		`{"name":"code","type":"string","aliases":["sku","id"]},` +
		`{"name":"next","type":["null",{"type":"record","name":"shop.inferredItem","fields":[` +
		`{"name":"code","type":"string","aliases":["sku","id"]},` +
		`{"name":"next","type":["null","shop.inferredItem"],"default":null}]}],"default":null},` +
		`{"name":"small","type":"int","default":7},` +
		`{"name":"big","type":"long"},` +
		`{"name":"ratio","type":"float"},` +
		`{"name":"exact","type":"double"},` +
		`{"name":"yes","type":"boolean"},` +
		`{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},` +
		`{"name":"day","type":{"type":"int","logicalType":"date"}},` +
		`{"name":"local","type":{"type":"long","logicalType":"local-timestamp-millis"}},` +
		`{"name":"took","type":{"type":"long","logicalType":"time-micros"}},` +
		`{"name":"clock","type":{"type":"int","logicalType":"time-millis"}},` +
		`{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}],"default":null},` +
		`{"name":"key","type":{"type":"fixed","name":"shop.inferredKey","size":4}},` +
		`{"name":"hash","type":{"type":"fixed","name":"shop.inferred_hash","size":2}},` +
		`{"name":"raw","type":"bytes"},` +
		`{"name":"uuid","type":{"type":"string","logicalType":"uuid"}},` +
		`{"name":"tags","type":{"type":"array","items":"string"},"default":["a","b"]},` +
		`{"name":"labels","type":{"type":"map","values":"long"}},` +
		`{"name":"items","type":{"type":"array","items":"shop.inferredItem"}},` +
		`{"name":"addr","type":"string"},` +
		`{"name":"wait","type":{"type":"fixed","name":"shop.Duration","size":12,"logicalType":"duration"}},` +
		`{"name":"days","type":{"type":"array","items":{"type":"int","logicalType":"date"}}},` +
		`{"name":"Plain","type":{"type":"map","values":"string"}}]}`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	value := inferred{
		inferredItem: inferredItem{Code: "c", Next: &inferredItem{Code: "d"}},
		Small:        -3, Big: 1 << 31, Ratio: 0.5, Exact: 0.1, Yes: true,
		At: time.UnixMicro(5).UTC(), Day: time.Unix(86400, 0).UTC(), Local: time.UnixMilli(9).UTC(), Took: time.Second,
		Clock: time.Minute, Price: big.NewRat(1, 4), Key: inferredKey{1}, Hash: [2]byte{2}, Raw: []byte{3}, UUID: "u",
		Tags: []string{"t"}, Labels: map[string]int{"l": 1}, Items: []inferredItem{{Code: "i"}},
		Addr: netip.MustParseAddr("::1"), Wait: Duration{Months: 1, Days: 2, Milliseconds: 3}, Days: []time.Time{time.Unix(0, 0).UTC()},
		Plain: map[string]string{"k": "v"},
	}
	c := newTestCodec[inferred](t, text)
	data, err := c.encode(value)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.decode("", data)
	options := cmp.Options{compareRats, cmp.AllowUnexported(inferred{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
	if diff := cmp.Diff(value, got, options); diff != "" || err != nil {
		t.Errorf("decode: %v, mismatch (-want +got):\n%s", err, diff)
	}
}

func TestSchemaForOtherTypes(t *testing.T) {
	type named [3]byte
	type badDecimal struct {
		A *big.Rat `avro:"a,decimal(9)"`
	}
	type openDecimal struct {
		A *big.Rat `avro:"a,decimal(9,2"`
	}
	type badOption struct {
		A int `avro:"a,money"`
	}
	type badDefault struct {
		A int `avro:"a,default=x"`
	}
	type twoScales struct {
		A inferMoney `avro:"a,decimal(10,2)"`
		B inferMoney `avro:"b,decimal(10,4)"`
	}
	for _, tc := range []struct {
		infer func(string) (string, error)
		want  string
	}{
		{SchemaFor[string], `"string"`},
		{SchemaFor[*int], `["null","long"]`},
		{SchemaFor[[]float32], `{"type":"array","items":"float"}`},
		{SchemaFor[named], `{"type":"fixed","name":"named","size":3}`},

		{SchemaFor[any], "type interface {} has no Avro schema"},
		{SchemaFor[chan int], "type chan int has no Avro schema"},
		{SchemaFor[map[int]int], "type map[int]int has no Avro schema"},
		{SchemaFor[[3]byte], "type [3]uint8 has no name for an Avro fixed"},
		{SchemaFor[struct{}], "type struct {} has no name for an Avro record"},
		{SchemaFor[*big.Rat], `type big.Rat needs another logical type than ""`},
		{SchemaFor[badDecimal], `field a: unknown option "decimal(9)"`},
		{SchemaFor[openDecimal], `field a: unknown option "decimal(9,2"`},
		{SchemaFor[badOption], `field a: unknown option "money"`},
		{SchemaFor[badDefault], `field a: default "x" is not JSON`},
		{SchemaFor[inferForest], "type avrovalue.inferForest contains itself without a record between"},
		{SchemaFor[inferNest], "type avrovalue.inferNest contains itself without a record between"},
		{SchemaFor[twoScales], `field b: type avrovalue.inferMoney has two logical types: ` +
			`{"type":"fixed","name":"inferMoney","size":16,"logicalType":"decimal","precision":10,"scale":2} and ` +
			`{"type":"fixed","name":"inferMoney","size":16,"logicalType":"decimal","precision":10,"scale":4}`},
	} {
		got, err := tc.infer("")
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

type (
	inferForest []inferForest
	inferNest   map[string]*inferNest
	inferMoney  [16]byte
	inferEmpty  struct{}
)

// Fields without a size share their offset with the next one.
func TestSchemaForOrdersFieldsWithoutSize(t *testing.T) {
	type row struct {
		B inferEmpty
		A int64
	}
	want := `{"type":"record","name":"row","fields":[{"name":"A","type":"long"},{"name":"B","type":{"type":"record","name":"inferEmpty","fields":[]}}]}`
	for range 20 {
		if got, err := SchemaFor[row](""); err != nil || got != want {
			t.Fatalf("got %s, %v; want %s each time", got, err, want)
		}
	}
}

type inferHolder[T any] struct{ V T }

func TestSchemaForRefusesWhatIsNoSchema(t *testing.T) {
	type wrong struct {
		A int `avro:"a,default=\"x\""`
	}
	if _, err := SchemaFor[wrong]("n"); err == nil || err.Error() != "invalid Avro schema: n.wrong.a: invalid default: a JSON string is no long" {
		t.Errorf("wrong default: %v", err)
	}
	type generic = inferHolder[int]
	if _, err := SchemaFor[generic](""); err == nil || err.Error() != `invalid Avro schema: invalid name "inferHolder[int]"` {
		t.Errorf("generic type: %v", err)
	}
	type calendar = Duration
	type Duration struct{ A int }
	type twice struct {
		A calendar
		B Duration
	}
	if _, err := SchemaFor[twice](""); err == nil || err.Error() != "field B: types schema.AvroDuration and avrovalue.Duration are both named Duration" {
		t.Errorf("two types of a name: %v", err)
	}
}
