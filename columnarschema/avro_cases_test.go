// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// record returns the schema of a record of one field named f.
func recordOf(field string) string {
	return `{"type":"record","name":"R","fields":[{"name":"f","type":` + field + `}]}`
}

// readAs reads a body of a writer's field as the column of a reader's field, and
// renders the column.
func readAs(t *testing.T, writer, reader string, body ...byte) (string, error) {
	t.Helper()
	w, err := avroplan.ParseWriter(writer)
	if err != nil {
		t.Fatal(err)
	}
	r, err := avroplan.Parse(reader)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := decodeBodies(checkedTestAllocator(t), w, r, [][]byte{body})
	if err != nil {
		return "", err
	}
	defer batch.Release()
	columns := make([]string, batch.NumCols())
	for i := range columns {
		columns[i] = batch.Column(i).String()
	}
	return strings.Join(columns, " "), nil
}

// These pairs of schemas have come up in reports about other conversions of Avro
// to columns.
func TestReportedConversionsComeOutRight(t *testing.T) {
	const enum = `{"type":"enum","name":"E","symbols":%s}`
	for name, tc := range map[string]struct {
		writer, reader string
		body           []byte
		want           string
	}{
		"union that cannot be null": {recordOf(`["int","string"]`), "", []byte{2, 2, 'x'}, `{[(null)] ["x"]}`},
		"local time is not moved":   {recordOf(`{"type":"long","logicalType":"local-timestamp-millis"}`), "", []byte{0}, "[0]"},
		"items become nullable": {recordOf(`{"type":"array","items":"int"}`), recordOf(`{"type":"array","items":["null","int"]}`),
			[]byte{4, 2, 4, 0}, "[[1 2]]"},
		"record becomes nullable and gets a field": {
			`{"type":"record","name":"T","fields":[{"name":"r","type":{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}},{"name":"z","type":"int"}]}`,
			`{"type":"record","name":"T","fields":[{"name":"r","type":["null",{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":9}]}]},{"name":"z","type":"int"}]}`,
			[]byte{2, 4}, "{[1] [9]} [2]"},
		"enum by symbol":              {recordOf(fmt.Sprintf(enum, `["A","B"]`)), recordOf(fmt.Sprintf(enum, `["B","A"]`)), []byte{0}, `["A"]`},
		"union of text and enum":      {recordOf(`["string",` + fmt.Sprintf(enum, `["C"]`) + `]`), "", []byte{2, 0}, `{[(null)] ["C"]}`},
		"decimal with a default":      {`{"type":"record","name":"R","fields":[]}`, `{"type":"record","name":"R","fields":[{"name":"f","type":[{"type":"bytes","logicalType":"decimal","precision":15,"scale":4},"null"],"default":"\u0000"}]}`, nil, "[0]"},
		"fixed decimal":               {recordOf(`{"type":"fixed","name":"F","size":9,"logicalType":"decimal","precision":20,"scale":2}`), "", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x85}, "[-1.23]"},
		"milliseconds stay":           {recordOf(`{"type":"long","logicalType":"timestamp-millis"}`), "", []byte{2}, "[1]"},
		"units are converted":         {recordOf(`{"type":"long","logicalType":"timestamp-millis"}`), recordOf(`{"type":"long","logicalType":"timestamp-micros"}`), []byte{2}, "[1000]"},
		"recursion through a map":     {recordOf(`{"type":"map","values":"R"}`), "", []byte{2, 2, 'k', 0, 0}, `[{["k"] ["{\"f\":{}}"]}]`},
		"null where the reader takes": {recordOf(`["null","int"]`), recordOf(`"long"`), []byte{2, 10}, "[5]"},
		"int as double":               {recordOf(`"int"`), recordOf(`"double"`), []byte{5}, "[-3]"},
		"text as bytes":               {recordOf(`"string"`), recordOf(`"bytes"`), []byte{2, 'a'}, `["a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			reader := tc.reader
			if reader == "" {
				reader = tc.writer
			}
			got, err := readAs(t, tc.writer, reader, tc.body...)
			if err != nil || got != tc.want {
				t.Errorf("columns are %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestDataWithoutACounterpartFailAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		writer, reader string
		good, bad      []byte
		want           string
	}{
		"null":    {recordOf(`["null","int"]`), recordOf(`"int"`), []byte{2, 2}, []byte{0}, "null"},
		"branch":  {recordOf(`["int","string"]`), recordOf(`["int","null"]`), []byte{0, 2}, []byte{2, 0}, "string"},
		"symbol":  {recordOf(`{"type":"enum","name":"E","symbols":["A","B"]}`), recordOf(`{"type":"enum","name":"E","symbols":["A"]}`), []byte{0}, []byte{2}, "symbol 1"},
		"digits":  {recordOf(`{"type":"bytes","logicalType":"decimal","precision":2}`), recordOf(`{"type":"bytes","logicalType":"decimal","precision":2}`), []byte{2, 99}, []byte{2, 100}, "more digits"},
		"inexact": {recordOf(`{"type":"long","logicalType":"timestamp-micros"}`), recordOf(`{"type":"long","logicalType":"timestamp-millis"}`), []byte{0xd0, 0x0f}, []byte{2}, "whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readAs(t, tc.writer, tc.reader, tc.good...); err != nil {
				t.Errorf("%x gives %v", tc.good, err)
			}
			if _, err := readAs(t, tc.writer, tc.reader, tc.bad...); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "field f") {
				t.Errorf("%x gives %v, want an error that says %q", tc.bad, err, tc.want)
			}
		})
	}
}

func TestBranchesOfANullableAreChecked(t *testing.T) {
	nullable := recordOf(`["null","int"]`)
	for _, tc := range []struct {
		body []byte
		want string
	}{
		{[]byte{2, 6}, "[3]"},
		{[]byte{0}, "[(null)]"},
		{[]byte{0x82, 0, 6}, "[3]"}, // in more bytes than it takes
		{[]byte{4, 6}, "field f at byte 0: index 2 is none of 2"},
		{[]byte{1, 6}, "field f at byte 0: index -1 is none of 2"},
		{[]byte{0x84, 0, 6}, "field f at byte 0: index 2 is none of 2"},
	} {
		got, err := readAs(t, nullable, nullable, tc.body...)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%x gives %s, want %s", tc.body, got, tc.want)
		}
	}
}

// writeColumn writes the rows of one column under the type of a field.
func writeColumn(t *testing.T, field string, column arrow.Array) ([]string, error) {
	t.Helper()
	s, err := avroplan.Parse(`{"type":"record","name":"Outer","fields":[{"name":"f","type":` + field + `}]}`)
	if err != nil {
		t.Fatal(err)
	}
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "f", Type: column.DataType(), Nullable: true}}, nil), []arrow.Array{column}, int64(column.Len()))
	defer batch.Release()
	plain, err := plainer{memory.DefaultAllocator, true}.batch(batch)
	if err != nil {
		return nil, err
	}
	defer plain.Release()
	encoder, err := (&avroEncodePlan{schema: s}).bind(plain)
	if err != nil {
		return nil, err
	}
	var rows []string
	for i := range column.Len() {
		body, err := encoder.appendRow(nil, i)
		if err != nil {
			return rows, err
		}
		rows = append(rows, fmt.Sprintf("%x", body))
	}
	return rows, nil
}

// columnOf builds a column of generic values.
func columnOf(t *testing.T, dt arrow.DataType, values string) arrow.Array {
	t.Helper()
	column, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(column.Release)
	return column
}

func TestColumnsOfOtherTypesAreWrittenWhereTheyFit(t *testing.T) {
	timestamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	micros, millis := `{"type":"long","logicalType":"timestamp-micros"}`, `{"type":"long","logicalType":"timestamp-millis"}`
	sliced := array.NewSlice(columnOf(t, arrow.ListOf(arrow.BinaryTypes.String), `[["a"],["b","c"],null,[]]`), 1, 4)
	defer sliced.Release()
	for name, tc := range map[string]struct {
		field  string
		column arrow.Array
		want   string
	}{
		"int8 as int":              {`"int"`, columnOf(t, arrow.PrimitiveTypes.Int8, `[-1, 127]`), "[01 fe01]"},
		"int32 as long":            {`"long"`, columnOf(t, arrow.PrimitiveTypes.Int32, `[1, -2]`), "[02 03]"},
		"uint32 as long":           {`"long"`, columnOf(t, arrow.PrimitiveTypes.Uint32, `[4294967295]`), "[feffffff1f]"},
		"float32 as double":        {`"double"`, columnOf(t, arrow.PrimitiveTypes.Float32, `[1.5]`), "[000000000000f83f]"},
		"seconds as microseconds":  {micros, columnOf(t, timestamp(arrow.Second, "UTC"), `["1970-01-01 00:00:01Z"]`), "[80897a]"},
		"microseconds as millis":   {millis, columnOf(t, timestamp(arrow.Microsecond, "America/New_York"), `["1970-01-01 00:00:00.002Z"]`), "[04]"},
		"local time":               {`{"type":"long","logicalType":"local-timestamp-millis"}`, columnOf(t, timestamp(arrow.Second, ""), `["1970-01-01 00:00:01"]`), "[d00f]"},
		"time of seconds":          {`{"type":"int","logicalType":"time-millis"}`, columnOf(t, arrow.FixedWidthTypes.Time32s, `["00:00:01"]`), "[d00f]"},
		"date of milliseconds":     {`{"type":"int","logicalType":"date"}`, columnOf(t, arrow.FixedWidthTypes.Date64, `["1970-01-03"]`), "[04]"},
		"nullable with null last":  {`["long","null"]`, columnOf(t, arrow.PrimitiveTypes.Int64, `[1, null]`), "[0002 02]"},
		"column of nulls":          {`["null","string"]`, array.NewNull(2), "[00 00]"},
		"dictionary as text":       {`["null","string"]`, columnOf(t, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["b", null, "b"]`), "[020262 00 020262]"},
		"slice of lists":           {`["null",{"type":"array","items":"string"}]`, sliced, "[02040262026300 00 0200]"},
		"fixed-size lists":         {`{"type":"array","items":"int"}`, columnOf(t, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32), `[[1,2],[3,4]]`), "[04020400 04060800]"},
		"union":                    {`["null","int","string"]`, columnOf(t, arrow.StructOf(arrow.Field{Name: "string", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "int", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), `[{"int":1},{"string":"a"},null]`), "[0202 040261 00]"},
		"decimal of another width": {`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, columnOf(t, &arrow.Decimal256Type{Precision: 40, Scale: 2}, `["1.28","-1.28","0"]`), "[040080 0280 0200]"},
		"decimal in fixed bytes":   {`{"type":"fixed","name":"F","size":3,"logicalType":"decimal","precision":4,"scale":2}`, columnOf(t, &arrow.Decimal128Type{Precision: 9, Scale: 2}, `["1.28","-0.01"]`), "[000080 ffffff]"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := writeColumn(t, tc.field, tc.column)
			if got := fmt.Sprint(rows); err != nil || got != tc.want {
				t.Errorf("rows are %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestValuesThatCannotBeWrittenAreNamed(t *testing.T) {
	union := arrow.StructOf(arrow.Field{Name: "int", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "string", Type: arrow.BinaryTypes.String, Nullable: true})
	decimals := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 38, Scale: 0})
	defer decimals.Release()
	decimals.Append(decimal128.FromI64(100))
	wide := decimals.NewArray()
	defer wide.Release()
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	defer texts.Release()
	texts.Append("\xff")
	malformed := texts.NewArray()
	defer malformed.Release()
	for name, tc := range map[string]struct {
		field  string
		column arrow.Array
		want   string
	}{
		"null":         {`"long"`, columnOf(t, arrow.PrimitiveTypes.Int64, `[null]`), "cannot be null"},
		"all null":     {`"long"`, array.NewNull(1), "cannot be null"},
		"no branch":    {`["int","string"]`, columnOf(t, union, `[{}]`), "no branch"},
		"two branches": {`["int","string"]`, columnOf(t, union, `[{"int":1,"string":"a"}]`), "several branches"},
		"symbol":       {`{"type":"enum","name":"E","symbols":["A"]}`, columnOf(t, arrow.BinaryTypes.String, `["B"]`), `"B" is no symbol`},
		"digits":       {`{"type":"bytes","logicalType":"decimal","precision":2}`, wide, "more digits than decimal(2,0)"},
		"part of unit": {`{"type":"long","logicalType":"timestamp-millis"}`, columnOf(t, arrow.FixedWidthTypes.Timestamp_us, `["1970-01-01 00:00:00.000001Z"]`), "no whole number"},
		"UTF-8":        {`"string"`, malformed, "UTF-8"},
		"JSON":         {recordOf(`["null","R"]`), columnOf(t, arrow.BinaryTypes.String, `["{\"g\":1}"]`), "recursive Avro value from JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := writeColumn(t, tc.field, tc.column)
			value, ok := errors.AsType[*ValueError](err)
			if !ok || value.Column != "f" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error of column f that says %q", err, tc.want)
			}
		})
	}
}

func TestColumnsThatDoNotFitAreAllListed(t *testing.T) {
	for name, tc := range map[string]struct {
		field string
		dt    arrow.DataType
	}{
		"wider integer":     {`"int"`, arrow.PrimitiveTypes.Int64},
		"wider float":       {`"float"`, arrow.PrimitiveTypes.Float64},
		"number for time":   {`{"type":"long","logicalType":"timestamp-millis"}`, arrow.PrimitiveTypes.Int64},
		"time for number":   {`"long"`, arrow.FixedWidthTypes.Timestamp_ms},
		"no zone":           {`{"type":"long","logicalType":"timestamp-millis"}`, &arrow.TimestampType{Unit: arrow.Millisecond}},
		"zone":              {`{"type":"long","logicalType":"local-timestamp-millis"}`, arrow.FixedWidthTypes.Timestamp_ms},
		"other scale":       {`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, &arrow.Decimal128Type{Precision: 9, Scale: 3}},
		"other size":        {`{"type":"fixed","name":"F","size":3}`, &arrow.FixedSizeBinaryType{ByteWidth: 4}},
		"bytes for text":    {`"string"`, arrow.BinaryTypes.Binary},
		"text for number":   {`"long"`, arrow.BinaryTypes.String},
		"keys of a map":     {`{"type":"map","values":"int"}`, arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32)},
		"map for list":      {`{"type":"array","items":"int"}`, arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)},
		"number for record": {recordOf(`"int"`), arrow.PrimitiveTypes.Int32},
	} {
		t.Run(name, func(t *testing.T) {
			column := array.MakeArrayOfNull(memory.DefaultAllocator, tc.dt, 1)
			defer column.Release()
			_, err := writeColumn(t, tc.field, column)
			mismatch, ok := errors.AsType[*MismatchError](err)
			if !ok || len(mismatch.Columns) != 1 || mismatch.Columns[0].Column != "f" {
				t.Errorf("a column of %v for %s gives %v", tc.dt, tc.field, err)
			}
		})
	}
}

func TestFloatsKeepTheirBits(t *testing.T) {
	body := []byte{1, 0, 0xc0, 0x7f}
	s, err := avroplan.Parse(recordOf(`"float"`))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := decodeBodies(checkedTestAllocator(t), s, s, [][]byte{body})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if bits := math.Float32bits(batch.Column(0).(*array.Float32).Value(0)); bits != 0x7fc00001 {
		t.Errorf("NaN has the bits %x", bits)
	}
}
