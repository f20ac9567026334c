// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/jsontable"
)

type purchase struct {
	ID     string   `json:"id"`
	Amount int64    `json:"amount"`
	Tags   []string `json:"tags"`
}

// fieldsText describes the fields of a schema.
func fieldsText(schema *arrow.Schema) []string {
	var text []string
	for _, field := range schema.Fields() {
		one := field.Name + " " + field.Type.String()
		if !field.Nullable {
			one += " not null"
		}
		for i, key := range field.Metadata.Keys() {
			one += " " + key + "=" + field.Metadata.Values()[i]
		}
		text = append(text, one)
	}
	return text
}

// roundTrip converts rows to a batch and back, and returns both.
func roundTrip[T any](t *testing.T, bridge *JSONRowBridge[T], rows []T) (arrow.RecordBatch, []T) {
	t.Helper()
	mem := arrowtest.NewAllocator(t)
	batch, err := bridge.RowsToBatch(rows, mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(batch.Release)
	back, err := bridge.BatchToRows(batch)
	if err != nil {
		t.Fatal(err)
	}
	return batch, back
}

func TestJSONBridgeRoundTripsStructs(t *testing.T) {
	rows := []purchase{{"a", 5, []string{"x", "<y>"}}, {"b", -1, nil}}
	batch, back := roundTrip(t, NewJSONRowBridge[purchase](), rows)
	if diff := cmp.Diff([]string{"id utf8", "amount int64", "tags utf8 krabka.json=true"}, fieldsText(batch.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if got := batch.Column(2).ValueStr(0); got != `["x","<y>"]` {
		t.Errorf("tags are %s", got)
	}
}

func TestJSONBridgeKeepsTheFirstSchema(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	type row struct {
		Value any `json:"value"`
	}
	bridge := NewJSONRowBridge[row]()
	empty, err := bridge.RowsToBatch(nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Release()
	first, err := bridge.RowsToBatch([]row{{nil}}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	second, err := bridge.RowsToBatch([]row{{7}, {true}, {1.5}, {"x"}, {[]int{1}}}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if empty.NumCols() != 0 || first.Schema() != second.Schema() {
		t.Errorf("schemas are %v, %v and %v", empty.Schema(), first.Schema(), second.Schema())
	}
	if diff := cmp.Diff([]string{"7", "true", "1.5", "x", "[1]"}, arrowtest.Texts(second.Column(0))); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONBridgeInfersTypes(t *testing.T) {
	rows := []map[string]any{
		{"a_null": nil, "b_int": nil},
		{"b_int": 1, "c_large": uint64(math.MaxUint64), "d_float": json.Number("1e2"), "e_bool": true, "f_text": "x", "g_object": map[string]int{"k": 1}, "h_list": []int{}},
		{"b_int": "12", "d_float": 3, "f_text": 9},
	}
	batch, back := roundTrip(t, NewJSONRowBridge[map[string]any](), rows)
	want := []string{
		"a_null utf8", "b_int int64", "c_large uint64", "d_float float64", "e_bool bool", "f_text utf8",
		"g_object utf8 krabka.json=true", "h_list utf8 krabka.json=true",
	}
	if diff := cmp.Diff(want, fieldsText(batch.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
	last := map[string]any{
		"a_null": nil, "b_int": 12.0, "c_large": nil, "d_float": 3.0, "e_bool": nil, "f_text": "9", "g_object": nil, "h_list": nil,
	}
	if diff := cmp.Diff(last, back[2]); diff != "" {
		t.Errorf("last row mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONBridgeKeepsFloatsOfStructs(t *testing.T) {
	type row struct {
		Share *float64 `json:"share"`
		Ratio float32
	}
	whole, half := 2.0, 0.5
	rows := []row{{&whole, 1}, {&half, 1.5}, {nil, 0}}
	batch, back := roundTrip(t, NewJSONRowBridge[row](), rows)
	if diff := cmp.Diff([]string{"share float64", "Ratio float64"}, fieldsText(batch.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	scalars, values := roundTrip(t, NewJSONRowBridge[float64](), []float64{1, 1.5})
	if diff := cmp.Diff([]float64{1, 1.5}, values); diff != "" || scalars.Column(0).DataType().ID() != arrow.FLOAT64 {
		t.Errorf("column of type %s, mismatch (-want +got):\n%s", scalars.Column(0).DataType(), diff)
	}
}

func TestJSONBridgeSummarisesManyBadRows(t *testing.T) {
	rows := make([]any, 1000)
	for i := range rows {
		rows[i] = "x"
	}
	rows[0] = 1
	_, err := NewJSONRowBridge[any]().RowsToBatch(rows, memory.DefaultAllocator)
	want := `cannot write JSON field value: not an integer: "x" (row 1) (and 998 more rows)`
	if err == nil || err.Error() != want || len(rowErrors(err, nil)) != 999 {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestJSONBridgeDropsMembersTheFirstBatchDidNotHave(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	bridge := NewJSONRowBridge[map[string]any]()
	for i, row := range []map[string]any{{"a": 1, "b": 2}, {"b": 3, "c": 4}} {
		batch, err := bridge.RowsToBatch([]map[string]any{row}, mem)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"[1] [2]", "[(null)] [3]"}[i]
		if got := fmt.Sprint(arrowtest.Texts(batch.Column(0)), " ", arrowtest.Texts(batch.Column(1))); batch.NumCols() != 2 || got != want {
			t.Errorf("batch %d is %s, want %s", i, got, want)
		}
		batch.Release()
	}
}

func TestJSONBridgeRoundTripsRowsThatAreNoObjects(t *testing.T) {
	check := func(bridge any, field string, batch arrow.RecordBatch, rows, back any) {
		t.Helper()
		if diff := cmp.Diff([]string{field}, fieldsText(batch.Schema())); diff != "" {
			t.Errorf("%T: fields mismatch (-want +got):\n%s", bridge, diff)
		}
		if diff := cmp.Diff(rows, back); diff != "" {
			t.Errorf("%T: rows mismatch (-want +got):\n%s", bridge, diff)
		}
	}
	text := "x"
	when := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	{
		bridge, rows := NewJSONRowBridge[*string](), []*string{&text, nil}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value utf8", batch, rows, back)
	}
	{
		bridge, rows := NewJSONRowBridge[uint64](), []uint64{1, math.MaxInt64}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value int64", batch, rows, back)
	}
	{
		bridge, rows := NewJSONRowBridge[[]byte](), [][]byte{[]byte("ab"), nil}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value utf8", batch, rows, back)
	}
	{
		bridge, rows := NewJSONRowBridge[[]string](), [][]string{{"a", "b"}, {}, nil}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value utf8 krabka.json=true", batch, rows, back)
	}
	{
		bridge, rows := NewJSONRowBridge[time.Time](), []time.Time{when}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value utf8", batch, rows, back)
	}
	{
		bridge, rows := NewJSONRowBridge[any](), []any{1.5, nil, 2.0}
		batch, back := roundTrip(t, bridge, rows)
		check(bridge, "value float64", batch, rows, back)
	}
}

func TestJSONBridgeKeepsNilRows(t *testing.T) {
	rows := []*purchase{nil, {"a", 5, []string{"x"}}, nil}
	batch, back := roundTrip(t, NewJSONRowBridge[*purchase](), rows)
	if diff := cmp.Diff([]string{"id", "amount", "tags"}, fieldNames(batch.Schema())); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONBridgeBeginsWithNilRows(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	bridge := NewJSONRowBridge[*purchase]()
	nothing, err := bridge.RowsToBatch([]*purchase{nil}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Release()
	batch, err := bridge.RowsToBatch([]*purchase{{"a", 5, nil}}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if nothing.NumRows() != 1 || batch.NumCols() != 3 {
		t.Errorf("%d rows, then %d columns; want 1 and 3", nothing.NumRows(), batch.NumCols())
	}
}

// exactRow has members that need more than float64.
type exactRow struct {
	Unsigned uint64          `json:"unsigned"`
	Cents    json.Number     `json:"cents"`
	Price    string          `json:"price"`
	Exact    *big.Float      `json:"exact"`
	Ratio    float64         `json:"ratio"`
	At       time.Time       `json:"at"`
	Millis   int64           `json:"millis"`
	Data     []byte          `json:"data"`
	Nested   map[string]any  `json:"nested"`
	List     []int           `json:"list"`
	Raw      json.RawMessage `json:"raw"`
	Word     string          `json:"word"`
}

func exactSchema() *arrow.Schema {
	decimal := &arrow.Decimal128Type{Precision: 30, Scale: 2}
	return arrow.NewSchema([]arrow.Field{
		{Name: "unsigned", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		{Name: "cents", Type: decimal, Nullable: true},
		{Name: "price", Type: decimal, Nullable: true},
		{Name: "exact", Type: decimal, Nullable: true},
		{Name: "ratio", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ns, Nullable: true},
		{Name: "millis", Type: arrow.FixedWidthTypes.Timestamp_ms, Nullable: true},
		{Name: "data", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "nested", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "raw", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})},
		{Name: "word", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	}, nil)
}

func TestJSONBridgeWithSchemaIsExact(t *testing.T) {
	rows := []exactRow{{
		Unsigned: math.MaxUint64, Cents: "12345678901234567890.12", Price: "-0.01", Exact: big.NewFloat(1.25), Ratio: 0.1,
		At: time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC), Millis: 1_700_000_000_000, Data: []byte{0, 255},
		Nested: map[string]any{"a": 1.0}, List: []int{1, 2}, Raw: json.RawMessage(`[-8717895732742165505]`), Word: "w",
	}, {Word: "w", Cents: "0.00", Price: "0.00", Exact: new(big.Float), Data: []byte{}, Nested: map[string]any{}, List: []int{}, Raw: json.RawMessage(`{}`), At: time.Unix(0, 0).UTC()}}
	batch, back := roundTrip(t, NewJSONRowBridgeWithSchema[exactRow](exactSchema()), rows)
	if diff := cmp.Diff(rows, back, cmp.Comparer(func(a, b *big.Float) bool { return a.Cmp(b) == 0 })); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if got := batch.Column(0).ValueStr(0); got != "18446744073709551615" {
		t.Errorf("unsigned is %s", got)
	}
}

func TestJSONBridgeBlamesRows(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	type row struct {
		ID *string `json:"id"`
		N  any     `json:"n"`
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	id := "a"
	_, err := NewJSONRowBridgeWithSchema[row](schema).RowsToBatch([]row{{&id, 1}, {nil, 1}, {&id, 1.5}, {&id, "x"}, {&id, "12"}, {&id, true}}, mem)
	var got []string
	for _, one := range rowErrors(err, nil) {
		got = append(got, fmt.Sprint(one.Row, " ", one.Cause))
	}
	want := []string{
		"1 required JSON field is null: id",
		"2 cannot write JSON field n: number is not an integer",
		`3 cannot write JSON field n: not an integer: "x"`,
		"5 cannot write JSON field n: found 't' in place of a number",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors mismatch (-want +got):\n%s", diff)
	}
	if !errors.Is(err, ErrRequiredField) {
		t.Errorf("error %v is not ErrRequiredField", err)
	}

	_, err = NewJSONRowBridge[any]().RowsToBatch([]any{1, func() {}, math.NaN()}, mem)
	got = nil
	for _, one := range rowErrors(err, nil) {
		got = append(got, fmt.Sprint(one.Row, " ", one.Cause))
	}
	want = []string{
		"1 cannot encode row as JSON: json: unsupported type: func()",
		"2 cannot encode row as JSON: json: unsupported value: NaN",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONBridgeReportsRowsThatDoNotFitT(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a", "b")
	defer batch.Release()
	type row struct {
		Text string `json:"text"`
		At   string `json:"at"`
	}
	_, err := NewJSONRowBridge[row]().BatchToRows(batch)
	var blamed *RowError
	if !errors.As(err, &blamed) || blamed.Row != 0 || !strings.HasPrefix(err.Error(), "cannot convert Arrow row 0 to columnar.row: json: cannot unmarshal number") {
		t.Errorf("error %v", err)
	}
	builder := array.NewFloat64Builder(mem)
	defer builder.Release()
	builder.AppendValues([]float64{1, math.NaN()}, nil)
	column := builder.NewArray()
	defer column.Release()
	nan := array.NewRecordBatch(oneField(column.DataType()), []arrow.Array{column}, 2)
	defer nan.Release()
	if _, err := NewJSONRowBridge[map[string]any]().BatchToRows(nan); err == nil || err.Error() != "cannot read JSON field v: NaN has no JSON form (row 1)" {
		t.Errorf("NaN: error %v", err)
	}
	if _, err := NewJSONRowBridge[string]().BatchToRows(nan); err == nil || err.Error() != "Arrow column does not exist: value" {
		t.Errorf("no column value: error %v", err)
	}
}

func TestJSONBridgeRefusesSchemasItCannotRead(t *testing.T) {
	for name, bridge := range map[string]*JSONRowBridge[purchase]{
		"none":     NewJSONRowBridgeWithSchema[purchase](nil),
		"interval": NewJSONRowBridgeWithSchema[purchase](oneField(arrow.FixedWidthTypes.DayTimeInterval)),
	} {
		if _, err := bridge.RowsToBatch([]purchase{{}}, memory.DefaultAllocator); err == nil {
			t.Errorf("%s: rows were converted", name)
		}
		if _, err := bridge.BatchToRows(array.NewRecordBatch(noFields, nil, 0)); err == nil {
			t.Errorf("%s: a batch was converted", name)
		}
	}
}

func TestJSONBridgeDecidesOneSchemaConcurrently(t *testing.T) {
	bridge := NewJSONRowBridge[map[string]any]()
	var wait sync.WaitGroup
	schemas := make([]*arrow.Schema, 8)
	for i := range schemas {
		wait.Go(func() {
			batch, err := bridge.RowsToBatch([]map[string]any{{"a": 1, fmt.Sprint("only", i): 1}}, memory.DefaultAllocator)
			if err != nil {
				t.Error(err)
				return
			}
			schemas[i] = batch.Schema()
			batch.Release()
		})
	}
	wait.Wait()
	for _, schema := range schemas {
		if schema != schemas[0] {
			t.Errorf("schemas %v and %v", schema, schemas[0])
		}
	}
}

func TestJSONBridgeForgetsASchemaThatFailed(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	bridge := NewJSONRowBridge[map[string]any]()
	if _, err := bridge.RowsToBatch([]map[string]any{{"a": 1}, {"a": "x"}}, mem); err == nil {
		t.Fatal("text was put into an integer column")
	}
	batch, err := bridge.RowsToBatch([]map[string]any{{"a": "x"}}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if diff := cmp.Diff([]string{"a utf8"}, fieldsText(batch.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONBridgeReadsEveryTypeItWrites(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		schema := oneField(dt)
		if _, err := jsontable.NewPlan(schema, false); err != nil || dt.ID() == arrow.DENSE_UNION || dt.ID() == arrow.SPARSE_UNION {
			continue
		}
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			column := arrowtest.RandomArray(r, mem, dt, 40)
			defer column.Release()
			batch := array.NewRecordBatch(schema, []arrow.Array{column}, 40)
			defer batch.Release()
			bridge := NewJSONRowBridgeWithSchema[map[string]json.RawMessage](schema)
			rows, err := bridge.BatchToRows(batch)
			if err != nil {
				t.Fatal(err)
			}
			back, err := bridge.RowsToBatch(rows, mem)
			if err != nil {
				t.Fatal(err)
			}
			defer back.Release()
			if diff := cmp.Diff(arrowtest.Texts(column), arrowtest.Texts(back.Column(0))); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
