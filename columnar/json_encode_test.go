// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// encodeColumn returns the values that a codec writes for a column "v".
func encodeColumn(t *testing.T, mem memory.Allocator, column arrow.Array, options ...JSONCodecOption) ([]string, error) {
	t.Helper()
	batch := array.NewRecordBatch(oneField(column.DataType()), []arrow.Array{column}, int64(column.Len()))
	defer batch.Release()
	records, err := newTestJSONCodec(t, mem, nil, options...).Encode("out", batch)
	if err != nil {
		return nil, err
	}
	values := make([]string, len(records))
	for i, record := range records {
		if !json.Valid(record.Value) {
			t.Errorf("row %d: %s is not JSON", i, record.Value)
		}
		values[i] = strings.TrimSuffix(strings.TrimPrefix(string(record.Value), `{"v":`), "}")
	}
	return values, nil
}

func TestJSONRoundTripsRandomValues(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		if _, err := NewJSONCodec(memory.DefaultAllocator, oneField(dt)); err != nil {
			continue // only written, not read
		}
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			whole := arrowtest.RandomArray(r, mem, dt, 120)
			defer whole.Release()
			column := array.NewSlice(whole, 7, 107)
			defer column.Release()
			values, err := encodeColumn(t, mem, column)
			if err != nil {
				t.Fatal(err)
			}
			for i := range values {
				values[i] = `{"v":` + values[i] + "}"
			}
			batch, err := newTestJSONCodec(t, mem, oneField(dt)).Decode("in", jsonRecords(values...))
			if err != nil {
				t.Fatal(err)
			}
			defer batch.Release()
			if diff := cmp.Diff(arrowtest.Texts(column), arrowtest.Texts(batch.Column(0))); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONWritesShortestFloats(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewFloat64Builder(mem)
	defer builder.Release()
	builder.AppendValues([]float64{0.1, 1e21, 123456789, 1e-7, math.Copysign(0, -1), 5e-324}, nil)
	column := builder.NewArray()
	defer column.Release()
	got, err := encodeColumn(t, mem, column)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0.1", "1e+21", "123456789", "1e-07", "-0", "5e-324"}, got); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONEscapesText(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewStringBuilder(mem)
	defer builder.Release()
	builder.AppendValues([]string{"", "a\"b\\c/d", "\x00\x1f\n\r\t\x7f", "plain text that is longer than a word", "\u00e9\u2028\U0001F600 <&>"}, nil)
	column := builder.NewArray()
	defer column.Release()
	got, err := encodeColumn(t, mem, column)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`""`, `"a\"b\\c/d"`, `"\u0000\u001f\n\r\t` + "\x7f" + `"`, `"plain text that is longer than a word"`, "\"\u00e9\u2028\U0001F600 <&>\""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONRefusesValuesWithoutForm(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	raw := arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})
	float := func(v float64) func(array.Builder) {
		return func(b array.Builder) { b.(*array.Float64Builder).Append(v) }
	}
	text := func(v string) func(array.Builder) {
		return func(b array.Builder) { b.(*array.StringBuilder).Append(v) }
	}
	for _, test := range []struct {
		field  arrow.Field
		append func(array.Builder)
		want   string
	}{
		{arrow.Field{Type: arrow.PrimitiveTypes.Float64}, float(math.NaN()), "NaN has no JSON form"},
		{arrow.Field{Type: arrow.PrimitiveTypes.Float64}, float(math.Inf(-1)), "-Inf has no JSON form"},
		{arrow.Field{Type: arrow.BinaryTypes.String}, text("a\xff"), "text is not valid UTF-8"},
		{arrow.Field{Type: arrow.BinaryTypes.String, Metadata: raw}, text(`{"a":}`), "text is not valid JSON: found '}' in place of a value (at byte 5)"},
		{arrow.Field{Type: arrow.BinaryTypes.String, Metadata: raw}, text(`{} {}`), "text is not valid JSON: unexpected bytes behind the JSON value (at byte 3)"},
		{arrow.Field{Type: arrow.FixedWidthTypes.Timestamp_s}, func(b array.Builder) { b.(*array.TimestampBuilder).Append(math.MaxInt64) }, "time 9223372036854775807 s since the epoch has no RFC 3339 form"},
		{arrow.Field{Type: arrow.FixedWidthTypes.Date32}, func(b array.Builder) { b.(*array.Date32Builder).Append(math.MaxInt32) }, "date 2147483647 days since the epoch has no RFC 3339 form"},
		{arrow.Field{Type: arrow.FixedWidthTypes.Date64}, func(b array.Builder) { b.(*array.Date64Builder).Append(1) }, "date 1 milliseconds since the epoch is not a whole day"},
		{arrow.Field{Type: arrow.FixedWidthTypes.Time32s}, func(b array.Builder) { b.(*array.Time32Builder).Append(86400) }, "time of day 86400 s is not within a day"},
	} {
		test.field.Name, test.field.Nullable = "v", true
		builder := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{test.field}, nil))
		builder.Field(0).AppendNull()
		test.append(builder.Field(0))
		batch := builder.NewRecordBatch()
		_, err := newTestJSONCodec(t, mem, nil).Encode("out", batch)
		var cause *ColumnError
		if !errors.As(err, &cause) || cause.Column != "v" || cause.Row != 1 || cause.Cause.Error() != test.want {
			t.Errorf("%s: error %v, want %q of column v, row 1", test.field.Type, err, test.want)
		}
		batch.Release()
		builder.Release()
	}
	interval := arrowtest.RandomArray(arrowtest.NewRand(t), mem, arrow.FixedWidthTypes.MonthInterval, 1)
	defer interval.Release()
	_, err := encodeColumn(t, mem, interval)
	if want := "columnar: column `v`: Arrow type month_interval has no JSON form"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestWithJSONEpochTimesWritesNumbers(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.FixedWidthTypes.Date32}, {Name: "b", Type: arrow.FixedWidthTypes.Date64},
		{Name: "c", Type: arrow.FixedWidthTypes.Time32ms}, {Name: "d", Type: arrow.FixedWidthTypes.Time64ns},
		{Name: "e", Type: arrow.FixedWidthTypes.Timestamp_us},
	}, nil)
	document := `{"a":1,"b":86400000,"c":2,"d":3,"e":-4}`
	for name, test := range map[string]struct {
		options []JSONCodecOption
		want    string
	}{
		"numbers": {[]JSONCodecOption{WithJSONEpochTimes()}, document},
		"text":    {nil, `{"a":"1970-01-02","b":"1970-01-02","c":"00:00:00.002","d":"00:00:00.000000003","e":"1969-12-31T23:59:59.999996Z"}`},
	} {
		codec := newTestJSONCodec(t, mem, schema, test.options...)
		batch, err := codec.Decode("in", jsonRecords(document))
		if err != nil {
			t.Fatal(err)
		}
		records, err := codec.Encode("out", batch)
		batch.Release()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(records[0].Value); got != test.want {
			t.Errorf("%s: encoded %s, want %s", name, got, test.want)
		}
	}
}

func TestWithJSONKeyMakesKeysOfColumns(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "__key", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "total", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil), WithJSONKey("__key", "user"))
	batch, err := codec.Decode("in", jsonRecords(`{"user":"a","total":7,"__key":1}`, "<null>", `{"user":null}`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, record := range records {
		got = append(got, fmt.Sprintf("%s -> %s", record.Key, record.Value))
	}
	want := []string{
		`{"__key":1,"user":"a"} -> {"user":"a","__key":1,"total":7}`,
		`k1 -> `,
		`{"__key":null,"user":null} -> {"user":null,"__key":null,"total":null}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || records[1].Value != nil {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	missing := newTestJSONCodec(t, mem, nil, WithJSONKey("account"))
	if _, err := missing.Encode("out", batch); !errors.Is(err, ErrNoColumn) || !strings.Contains(err.Error(), "`account`") {
		t.Errorf("missing key column: error %v, want one that names it", err)
	}
}

func TestJSONEncodeSharesNoMemoryWithTheBatch(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := newTestJSONCodec(t, mem, oneField(arrow.BinaryTypes.String))
	input := jsonRecords(`{"v":"text"}`)
	batch, err := codec.Decode("in", input)
	if err != nil {
		t.Fatal(err)
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range batch.Columns() {
		for _, buffer := range column.Data().Buffers() {
			if buffer != nil {
				clear(buffer.Bytes())
			}
		}
	}
	batch.Release()
	want := ProduceRecord{Key: input[0].Key, Value: input[0].Value}
	if diff := cmp.Diff([]ProduceRecord{want}, records); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}
