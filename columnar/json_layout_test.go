// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

var scalarSchema = arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)

// rowsOf decodes values, and returns the payload of the rows behind their record's
// offset, or the error of the only record that fails.
func rowsOf(t *testing.T, schema *arrow.Schema, options []JSONCodecOption, values ...string) ([]string, error) {
	t.Helper()
	codec := newTestJSONCodec(t, arrowtest.NewAllocator(t), schema, options...)
	records := jsonRecords(values...)
	for i := range records {
		records[i].Offset, records[i].Key = int64(i), []byte{byte('a' + i)}
	}
	batch, err := codec.Decode("in", records)
	if err != nil {
		var failed *DecodeError
		if !errors.As(err, &failed) || len(failed.Records) != 1 {
			t.Fatalf("error %v, want a DecodeError of one record", err)
		}
		return nil, failed.Records[0].Cause
	}
	defer batch.Release()
	values, rows := arrowtest.Texts(batch.Column(0)), []string{}
	offsets, keys := arrowtest.Texts(batch.Column(4)), batch.Column(1)
	for row := range values {
		if key := keys.ValueStr(row); key == "" || offsets[row] == "" {
			t.Errorf("row %d has key %q and offset %q", row, key, offsets[row])
		}
		rows = append(rows, offsets[row]+":"+values[row])
	}
	return rows, nil
}

func TestJSONLayouts(t *testing.T) {
	arrays, lines, scalars, lenient := WithJSONArrays(), WithJSONLines(), WithJSONScalars(), WithLenientJSON()
	for _, test := range []struct {
		options []JSONCodecOption
		values  string // separated by |
		want    string // the rows, or the error
	}{
		{[]JSONCodecOption{arrays}, `[{"v":1},{"v":2}]|{"v":3}|[]|<null>| [ {} ] `, "0:1 0:2 1:3 3:(null) 4:(null)"},
		{[]JSONCodecOption{arrays}, `[{"v":1},{"v":true}]`, "found 't' in place of a number: [1].v (at byte 14)"},
		{[]JSONCodecOption{arrays}, `[{"v":1},null]`, "required JSON field is null: [1] (at byte 9)"},
		{[]JSONCodecOption{arrays}, `[{"v":1}`, "unexpected end of JSON (at byte 8)"},
		{[]JSONCodecOption{arrays}, `[{"v":1}] []`, "unexpected bytes behind the JSON value (at byte 10)"},
		{[]JSONCodecOption{arrays}, `[[{"v":1}]]`, "found '[' in place of an object: [0] (at byte 1)"},
		{[]JSONCodecOption{arrays}, `7`, "found '7' in place of an object: WithJSONScalars reads a value that is no object (at byte 0)"},
		{[]JSONCodecOption{lines}, "{\"v\":1}\n{\"v\":2}\r\n\n|  |{\"v\":3}", "0:1 0:2 2:3"},
		{[]JSONCodecOption{lines}, "{\"v\":1}\n{\"v\":x}", "found 'x' in place of a number: [1].v (at byte 13)"},
		{[]JSONCodecOption{lines}, `{"v":1}{"v":2}`, "unexpected bytes behind the JSON value (at byte 7)"},
		{[]JSONCodecOption{lines, arrays}, "[{\"v\":1},{\"v\":2}]\n{\"v\":3}", "0:1 0:2 0:3"},
		{[]JSONCodecOption{scalars}, "7| null |-1", "0:7 1:(null) 2:-1"},
		{[]JSONCodecOption{scalars}, `"7"`, `found '"' in place of a number: v (at byte 0)`},
		{[]JSONCodecOption{scalars}, "7 8", "unexpected bytes behind the JSON value (at byte 2)"},
		{[]JSONCodecOption{scalars}, `{"v":1}`, `found '{' in place of a number: v (at byte 0)`},
		{[]JSONCodecOption{scalars, lines}, "7\n8 9", "0:7 0:8 0:9"},
		{[]JSONCodecOption{scalars, arrays}, "[7,null]|8", "0:7 0:(null) 1:8"},
		{[]JSONCodecOption{scalars, arrays}, "[7,x]", "found 'x' in place of a number: [1] (at byte 3)"},
		{[]JSONCodecOption{lenient}, "\ufeff{\"v\":1}|{\"v\":2}", "0:1 1:2"},
		{nil, "\ufeff{\"v\":1}", "found '\u00ef' in place of an object: it begins with a byte-order mark, which WithLenientJSON skips (at byte 0)"},
		{nil, "\x00\x00\x00\x01\x02{}", `found '\x00' in place of an object: it looks like a record of a schema registry, with schema id 258: package columnarschema reads it (at byte 0)`},
		{nil, "\x00", `found '\x00' in place of an object (at byte 0)`},
		{nil, "[]", "found '[' in place of an object: WithJSONArrays reads an array as rows (at byte 0)"},
		{nil, `"x"`, `found '"' in place of an object: WithJSONScalars reads a value that is no object (at byte 0)`},
		{nil, "x", "found 'x' in place of an object (at byte 0)"},
	} {
		rows, err := rowsOf(t, scalarSchema, test.options, strings.Split(test.values, "|")...)
		got := strings.Join(rows, " ")
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%d options, %q: %s\nwant %s", len(test.options), test.values, got, test.want)
		}
	}
}

// TestJSONLayoutsHoldTheRowsOfTheirObjects cuts random rows into records of each
// layout at random: the rows are those of one record a row.
func TestJSONLayoutsHoldTheRowsOfTheirObjects(t *testing.T) {
	r := arrowtest.NewRand(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true})), Nullable: true},
	}, nil)
	for range 50 {
		var plain, arrays, lines []string
		for range r.IntN(5) {
			var rows []string
			for range r.IntN(4) {
				elements := make([]string, r.IntN(3))
				for i := range elements {
					elements[i] = []string{"null", "{}", `{"s":null}`, `{"s":"a]\n\\u005b"}`}[r.IntN(4)]
				}
				rows = append(rows, `{"v":[`+strings.Join(elements, ",")+`]}`)
			}
			plain = append(plain, rows...)
			arrays, lines = append(arrays, "["+strings.Join(rows, " ,\n")+"]"), append(lines, strings.Join(rows, "\n"))
		}
		if len(plain) == 0 {
			continue
		}
		bare := func(values []string, options ...JSONCodecOption) []string {
			rows, err := rowsOf(t, schema, options, values...)
			if err != nil {
				t.Fatalf("%q: %v", values, err)
			}
			for i := range rows {
				_, rows[i], _ = strings.Cut(rows[i], ":")
			}
			return rows
		}
		want := bare(plain)
		if diff := cmp.Diff(want, bare(arrays, WithJSONArrays())); diff != "" {
			t.Errorf("%q mismatch (-want +got):\n%s", arrays, diff)
		}
		if diff := cmp.Diff(want, bare(lines, WithJSONLines())); diff != "" {
			t.Errorf("%q mismatch (-want +got):\n%s", lines, diff)
		}
	}
}

func TestJSONScalarsAreWritten(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, scalarSchema, WithJSONScalars())
	batch := must[arrow.RecordBatch](t)(codec.Decode("in", jsonRecords("7", "null", "<null>")))
	defer batch.Release()
	var got []string
	for _, record := range must[[]ProduceRecord](t)(codec.Encode("out", batch)) {
		if record.Value == nil {
			record.Value = []byte("<null>")
		}
		got = append(got, string(record.Value))
	}
	if diff := cmp.Diff([]string{"7", "null", "<null>"}, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	two := arrowtest.Fields("v", int64Type, "w", int64Type)
	if err := codec.CheckSchema(two); err == nil || !strings.Contains(err.Error(), "column `w`: JSON values that are no objects are written of batches with one payload column") {
		t.Errorf("CheckSchema of two columns = %v", err)
	}
	if err := codec.CheckSchema(arrowtest.Fields()); !errors.Is(err, errScalarColumns) {
		t.Errorf("CheckSchema of no column = %v", err)
	}
	if _, err := NewJSONCodec(mem, two, WithJSONScalars()); err == nil || err.Error() != "columnar: JSON values that are no objects need a schema of one field, not 2" {
		t.Errorf("codec of two fields: %v", err)
	}
}

// A projection reads values as its codec does, and has as many rows.
func TestJSONProjectionKeepsTheLayout(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, arrowtest.Fields("v", int64Type, "w", textType), WithJSONArrays(), WithJSONLines(), WithLenientJSON())
	records := jsonRecords(`[{"v":"1","w":2},{"v":2}]`, "{\"v\":true,\"w\":null}\n{\"v\":4}")
	for _, columns := range [][]string{{"v"}, {}} {
		projected := must[BatchCodec](t)(codec.Project(columns))
		batch := must[arrow.RecordBatch](t)(projected.Decode("in", records))
		if got := int(batch.NumRows()); got != 4 || batch.NumCols() != int64(5+len(columns)) {
			t.Errorf("projection to %v has %d rows of %d columns, want 4 of %d", columns, got, batch.NumCols(), 5+len(columns))
		}
		if len(columns) == 1 {
			if diff := cmp.Diff([]string{"1", "2", "1", "4"}, arrowtest.Texts(batch.Column(0))); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		}
		batch.Release()
	}
	scalars := newTestJSONCodec(t, mem, scalarSchema, WithJSONScalars())
	batch := must[arrow.RecordBatch](t)(must[BatchCodec](t)(scalars.Project(nil)).Decode("in", jsonRecords("7")))
	defer batch.Release()
	if batch.NumRows() != 1 {
		t.Errorf("projected scalars have %d rows, want 1", batch.NumRows())
	}
}

func TestLenientJSON(t *testing.T) {
	seconds := WithJSONEpochUnit(time.Second)
	for _, test := range []struct {
		dt      arrow.DataType
		options []JSONCodecOption
		json    string
		want    string
	}{
		{int64Type, nil, `"-12"`, "-12"},
		{int64Type, nil, `"1e3"`, "1000"},
		{int64Type, nil, `true`, "1"},
		{int64Type, nil, `false`, "0"},
		{int64Type, nil, `"1.5"`, "number is not an integer: v (at byte 5)"},
		{int64Type, nil, `" 1"`, "text is not a number: v (at byte 5)"},
		{int64Type, nil, `""`, "text is not a number: v (at byte 5)"},
		{int64Type, nil, `"0x10"`, "text is not a number: v (at byte 5)"},
		{int64Type, nil, `[1]`, "found '[' in place of a number: v (at byte 5)"},
		{int64Type, nil, `tru`, "found 't' in place of a value: v (at byte 5)"},
		{arrow.PrimitiveTypes.Int8, nil, `"128"`, "number overflows int8: v (at byte 5)"},
		{arrow.PrimitiveTypes.Uint64, nil, `"18446744073709551615"`, "18446744073709551615"},
		{arrow.PrimitiveTypes.Float64, nil, `"2.5"`, "2.5"},
		{arrow.PrimitiveTypes.Float64, nil, `true`, "1"},
		{arrow.FixedWidthTypes.Boolean, nil, `"true"`, "true"},
		{arrow.FixedWidthTypes.Boolean, nil, `0`, "false"},
		{arrow.FixedWidthTypes.Boolean, nil, `"1"`, "true"},
		{arrow.FixedWidthTypes.Boolean, nil, `10`, "text is neither true nor false: v (at byte 5)"},
		{arrow.FixedWidthTypes.Boolean, nil, `2`, "found '2' in place of true or false: v (at byte 5)"},
		{arrow.FixedWidthTypes.Boolean, nil, `"yes"`, "text is neither true nor false: v (at byte 5)"},
		{textType, nil, `-1.50`, "-1.50"},
		{textType, nil, `true`, "true"},
		{textType, nil, `{}`, "found '{' in place of a text: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ms, nil, `"2024-02-29T01:02:03.5"`, "2024-02-29T01:02:03.5Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, nil, `"2024-02-29T01:02:03+01:00"`, "2024-02-29T00:02:03Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, nil, `"1500"`, "1970-01-01T00:00:01.5Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, nil, `"soon"`, "text is not an RFC 3339 time: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_ms, []JSONCodecOption{seconds}, `1.25`, "1970-01-01T00:00:01.25Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, []JSONCodecOption{seconds}, `-0.0001`, "1969-12-31T23:59:59.999Z"},
		{arrow.FixedWidthTypes.Timestamp_ms, []JSONCodecOption{seconds}, `"1.7e9"`, "2023-11-14T22:13:20Z"},
		{arrow.FixedWidthTypes.Timestamp_ns, []JSONCodecOption{seconds}, `1e10`, "number overflows timestamp[ns, tz=UTC]: v (at byte 5)"},
		{arrow.FixedWidthTypes.Timestamp_s, []JSONCodecOption{WithJSONEpochUnit(time.Millisecond)}, `1999`, "1970-01-01T00:00:01Z"},
		{arrow.FixedWidthTypes.Date32, []JSONCodecOption{seconds}, `86399.9`, "1970-01-01"},
		{arrow.FixedWidthTypes.Date32, []JSONCodecOption{seconds}, `-1`, "1969-12-31"},
		{arrow.FixedWidthTypes.Date32, []JSONCodecOption{seconds}, `1e18`, "number overflows date32: v (at byte 5)"},
		{arrow.FixedWidthTypes.Date64, []JSONCodecOption{seconds}, `86400`, "1970-01-02"},
		{arrow.FixedWidthTypes.Date64, []JSONCodecOption{seconds}, `9e18`, "number overflows date64: v (at byte 5)"},
		{arrow.FixedWidthTypes.Time32s, []JSONCodecOption{seconds}, `61`, "00:01:01"},
		{arrow.ListOf(int64Type), nil, `["1",true,null]`, "[1,1,null]"},
	} {
		rows, err := rowsOf(t, oneField(test.dt), append(test.options, WithLenientJSON()), `{"v":`+test.json+`}`)
		got := strings.TrimPrefix(strings.Join(rows, " "), "0:")
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s as %s: %s, want %s", test.json, test.dt, got, test.want)
		}
	}
	if _, err := NewJSONCodec(nil, nil, WithJSONEpochUnit(time.Minute)); err == nil || !strings.Contains(err.Error(), "columnar: 1m0s is no unit of JSON times") {
		t.Errorf("codec of minutes: %v", err)
	}
}

// FuzzJSONRows reads hostile records in the layouts that hold several rows, under the
// lenient rules: the records around them stay what they are, and what is accepted is
// JSON.
func FuzzJSONRows(f *testing.F) {
	for _, seed := range []string{
		`[{"i":1},{"i":"2","b":1,"t":"2024-02-29T01:02:03","f":true}]`, "{}\n{\"s\":1}\n", "\ufeff[]", `[{"t":1.5}`, `[{},{"m":{"a":1}},{"u":300}]`, "[[]]", "null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := arrowtest.NewAllocator(t)
		codec := newTestJSONCodec(t, mem, fuzzSchema, WithJSONArrays(), WithJSONLines(), WithLenientJSON(), WithJSONEpochUnit(time.Second))
		around := []byte(`[{"i":7,"s":"before","l":[1,2]},{"i":8}]`)
		batch, err := codec.Decode("in", []ConsumedRecord{{Value: around}, {Value: append([]byte{}, data...), Offset: 1}, {Value: around, Offset: 2}})
		if err != nil {
			var failed *DecodeError
			if !errors.As(err, &failed) || len(failed.Records) != 1 || failed.Records[0].Index != 1 {
				t.Fatalf("error %v does not name the record", err)
			}
			return
		}
		defer batch.Release()
		decoder := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(data), "\ufeff")))
		rows := 4
		for decoder.More() {
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Fatalf("%q was accepted: %v", data, err)
			}
			if list, ok := value.([]any); ok {
				rows += len(list)
			} else {
				rows++
			}
		}
		if got := fmt.Sprint(batch.NumRows()); got != fmt.Sprint(rows) {
			t.Errorf("%q has %s rows, want %d", data, got, rows)
		}
		last := int(batch.NumRows()) - 1
		if first, end := batch.Column(0).ValueStr(0), batch.Column(0).ValueStr(last); first != "7" || end != "8" {
			t.Errorf("%q changed the rows around it to %s and %s", data, first, end)
		}
	})
}
