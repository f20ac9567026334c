// SPDX-License-Identifier: Apache-2.0

package arrowtest

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Fields makes a schema of nullable fields from names and types in turn.
func Fields(namesAndTypes ...any) *arrow.Schema {
	var list []arrow.Field
	for i := 0; i < len(namesAndTypes); i += 2 {
		list = append(list, arrow.Field{Name: namesAndTypes[i].(string), Type: namesAndTypes[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.NewSchema(list, nil)
}

// JSONBatch makes a batch from rows in JSON, such as {"user":"ada","amount":5}.
// It is released when the test ends.
func JSONBatch(tb testing.TB, mem memory.Allocator, schema *arrow.Schema, rows ...string) arrow.RecordBatch {
	tb.Helper()
	batch, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(batch.Release)
	return batch
}

// Rows renders the rows of a batch as "cell cell".
func Rows(batch arrow.RecordBatch) []string {
	rows := make([]string, batch.NumRows())
	for i := range rows {
		cells := make([]string, batch.NumCols())
		for j := range cells {
			cells[j] = batch.Column(j).ValueStr(i)
		}
		rows[i] = strings.Join(cells, " ")
	}
	return rows
}

// TwoColumns returns a batch of the texts and their positions.
func TwoColumns(mem memory.Allocator, values ...string) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "at", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	for i, value := range values {
		builder.Field(0).(*array.StringBuilder).Append(value)
		builder.Field(1).(*array.Int64Builder).Append(int64(i))
	}
	return builder.NewRecordBatch()
}

// Texts returns the values of an array as text, null as "(null)".
func Texts(arr arrow.Array) []string {
	values := make([]string, arr.Len())
	for i := range values {
		values[i] = arr.ValueStr(i)
		if arr.IsNull(i) {
			values[i] = array.NullValueStr
		}
	}
	return values
}
