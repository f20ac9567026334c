// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func TestWiderTakesTheValuesOfBothTypes(t *testing.T) {
	decimal := func(precision, scale int32) arrow.DataType {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: textType}
	for _, test := range []struct{ a, b, want arrow.DataType }{
		{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int8},
		{arrow.PrimitiveTypes.Int32, int64Type, int64Type},
		{arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint32},
		{arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16},
		{arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int32},
		{arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32},
		{arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int32, int64Type},
		{arrow.Null, textType, textType},
		{arrow.Null, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Timestamp_ms},
		{textType, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeString},
		{dictionary, textType, textType},
		{dictionary, dictionary, dictionary},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 4}, arrow.BinaryTypes.Binary},
		{decimal(9, 2), decimal(10, 8), decimal(15, 8)},
		{decimal(38, 0), decimal(10, 8), &arrow.Decimal256Type{Precision: 46, Scale: 8}},
		{&arrow.Decimal32Type{Precision: 5, Scale: 2}, &arrow.Decimal64Type{Precision: 12, Scale: 2}, &arrow.Decimal64Type{Precision: 12, Scale: 2}},
	} {
		for _, pair := range [][2]arrow.DataType{{test.a, test.b}, {test.b, test.a}} {
			if got := wider(pair[0], pair[1]); !arrow.TypeEqual(got, test.want) {
				t.Errorf("wider(%s, %s) = %s, want %s", pair[0], pair[1], got, test.want)
			}
		}
	}
}

// TestGroupsOutliveTheTypeOfABatch feeds batches of narrow types and of no type behind
// batches of wide ones, with rollbacks and restores between them: every group comes
// out with the values that it has.
func TestGroupsOutliveTheTypeOfABatch(t *testing.T) {
	r := arrowtest.NewRand(t)
	const none = "(null)"
	keyTypes := []arrow.DataType{int64Type, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint8, arrow.Null}
	textTypes := []arrow.DataType{textType, arrow.BinaryTypes.LargeString, arrow.Null}
	spec := Spec{Keys: []string{"k"}, Aggregations: []Aggregation{
		{Function: Max, InputColumn: "k", OutputColumn: "top"}, {Function: Max, InputColumn: "s", OutputColumn: "last"},
	}}
	json := func(text string, quote func(string) string) string {
		if text == none {
			return "null"
		}
		return quote(text)
	}
	for range 30 {
		mem := arrowtest.NewAllocator(t)
		g := newAtomic(mem, spec)
		var order []string
		last := map[string]string{}
		for range 12 {
			keyType, text := keyTypes[r.IntN(len(keyTypes))], textTypes[r.IntN(len(textTypes))]
			key := map[arrow.DataType]string{
				int64Type: fmt.Sprint(5_000_000_000 + r.IntN(2)), arrow.PrimitiveTypes.Int32: fmt.Sprint(-70_000 + r.IntN(3)),
				arrow.PrimitiveTypes.Uint8: fmt.Sprint(200 + r.IntN(3)), arrow.Null: none,
			}[keyType]
			value := none
			if text != arrow.Null {
				value = string(rune('a' + r.IntN(26)))
			}
			batch := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", keyType, "s", text),
				fmt.Sprintf(`{"k":%s,"s":%s}`, json(key, func(s string) string { return s }), json(value, strconv.Quote)))
			if r.IntN(4) == 0 { // a round that does not happen
				result, err := g.Process(batch)
				if err != nil {
					t.Fatal(err)
				}
				result.Release()
				if err := g.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(4) == 0 {
				snapshot := must[[]byte](t)(g.Snapshot())
				g = g.fresh()
				if err := g.restore(snapshot); err != nil {
					t.Fatal(err)
				}
			}
			if _, known := last[key]; !known {
				order, last[key] = append(order, key), none
			}
			if value != none && (last[key] == none || value > last[key]) {
				last[key] = value
			}
			var want []string
			for _, key := range order {
				want = append(want, fmt.Sprintf("%s %s %s", key, key, last[key]))
			}
			got, err := g.tryRows(batch)
			if err != nil {
				t.Fatalf("key of type %s, text of type %s: %v", keyType, text, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("key of type %s, text of type %s mismatch (-want +got):\n%s", keyType, text, diff)
			}
		}
	}
}

// A least value keeps what is known of its column, and a sum does not.
func TestExtremesKeepTheMetadataOfTheirColumn(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	fields := arrowtest.Fields("k", int64Type, "raw", textType).Fields()
	fields[1].Metadata = arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})
	schema := arrow.NewSchema(fields, nil)
	for function, want := range map[Function]int{Min: 1, Max: 1, Count: 0} {
		g := newAtomic(mem, Spec{Keys: []string{"k"}, Aggregations: []Aggregation{{Function: function, InputColumn: "raw", OutputColumn: "x"}}})
		result, err := g.Process(arrowtest.JSONBatch(t, mem, schema, `{"k":1,"raw":"{}"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Schema().Field(1).Metadata.Len(); got != want {
			t.Errorf("%v has %d pairs of metadata, want %d", function, got, want)
		}
		result.Release()
	}
}

// An instant belongs to the same window, and gives its group the same time, in every
// unit of its column.
func TestEventTimeInEveryUnit(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	for unit, at := range map[time.Duration]string{
		0: "61000", time.Second: "61", time.Millisecond: "61000", time.Microsecond: "61000999", time.Nanosecond: "61000999999",
	} {
		spec := windowed(t, []string{"k"}, time.Minute, time.Minute, countRows()...)
		spec.TimeColumn, spec.TimeUnit, spec.Timed = "at", unit, true
		got := newAtomic(mem, spec).rows(t, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, "at", int64Type), `{"k":1,"at":`+at+`}`))
		if diff := cmp.Diff([]string{"1 60000 120000 1 61000"}, got); diff != "" {
			t.Errorf("unit %v mismatch (-want +got):\n%s", unit, diff)
		}
	}
}

func TestEventTimeOfAColumnThatHasNone(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrowtest.Fields("k", int64Type, "day", arrow.FixedWidthTypes.Date32)
	for _, test := range []struct {
		column   string
		windowed bool
		want     string
	}{
		{"day", true, "columnar: column `day`: an event time is int64 (milliseconds) or a timestamp, not date32"},
		{"day", false, "columnar: column `day`: an event time is int64 (milliseconds) or a timestamp, not date32"},
		{"dya", true, "columnar: column `dya`: Arrow column does not exist: dya (the columns are k, day)"},
		{"dya", false, "columnar: column `dya`: Arrow column does not exist: dya (the columns are k, day)"},
		{"", true, "columnar: column `__timestamp`: Arrow column does not exist: __timestamp (the columns are k, day)"},
		{"", false, ""},
	} {
		spec := Spec{Keys: []string{"k"}, Aggregations: countRows(), TimeColumn: test.column, Windowed: test.windowed, Window: Windowing{Size: 10}, Timed: true}
		_, err := newAtomic(mem, spec).tryRows(arrowtest.JSONBatch(t, mem, schema, `{"k":1,"day":"1970-01-02"}`))
		var column *namedcols.Error
		if text := fmt.Sprint(err); err == nil && test.want != "" || err != nil && (text != test.want || !errors.As(err, &column)) {
			t.Errorf("event time of %q, windowed %v: error %v, want %q", test.column, test.windowed, err, test.want)
		}
	}
}
