// SPDX-License-Identifier: Apache-2.0

package arrowtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// EveryTypeBatch returns a batch with a column of each type.
func EveryTypeBatch(r *rand.Rand, mem memory.Allocator, rows int) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, dt := range EveryType() {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: dt, Nullable: true})
		columns = append(columns, RandomArray(r, mem, dt, rows))
	}
	defer func() {
		for _, column := range columns {
			column.Release()
		}
	}()
	metadata := arrow.NewMetadata([]string{"origin"}, []string{"lab"})
	return array.NewRecordBatch(arrow.NewSchema(fields, &metadata), columns, int64(rows))
}

// Stream writes batches of one schema as arrow-go does.
func Stream(tb testing.TB, batches []arrow.RecordBatch, options ...ipc.Option) []byte {
	tb.Helper()
	var stream bytes.Buffer
	writer := ipc.NewWriter(&stream, append(options, ipc.WithSchema(batches[0].Schema()))...)
	for _, batch := range batches {
		if err := writer.Write(batch); err != nil {
			tb.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		tb.Fatal(err)
	}
	return stream.Bytes()
}

// CheckSameBatch fails the test unless got is a valid batch with the schema and the
// values of want.
func CheckSameBatch(tb testing.TB, want, got arrow.RecordBatch) {
	tb.Helper()
	if !got.Schema().Equal(want.Schema()) {
		tb.Errorf("schema %v, want %v", got.Schema(), want.Schema())
	}
	if got.NumRows() != want.NumRows() || got.NumCols() != want.NumCols() {
		tb.Fatalf("%d rows and %d columns, want %d and %d", got.NumRows(), got.NumCols(), want.NumRows(), want.NumCols())
	}
	for i := range int(want.NumCols()) {
		if diff := cmp.Diff(Texts(want.Column(i)), Texts(got.Column(i))); diff != "" {
			tb.Errorf("column %d (%s) mismatch (-want +got):\n%s", i, want.Column(i).DataType(), diff)
		}
		if validator, ok := got.Column(i).(interface{ ValidateFull() error }); ok && got.NumRows() > 0 {
			if err := validator.ValidateFull(); err != nil {
				tb.Errorf("column %d (%s): %v", i, want.Column(i).DataType(), err)
			}
		}
	}
}

// StreamSeeds returns small valid streams of all layouts.
func StreamSeeds(tb testing.TB) [][]byte {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	mem := memory.DefaultAllocator
	plain := TwoColumns(mem, "a", "bc", "a text that is longer than the others")
	seeds := [][]byte{
		Stream(tb, []arrow.RecordBatch{plain, plain}),
		Stream(tb, []arrow.RecordBatch{plain}, ipc.WithZstd()),
		Stream(tb, []arrow.RecordBatch{plain}, ipc.WithLZ4()),
	}
	for _, dt := range EveryType() {
		column := RandomArray(r, mem, dt, 5)
		batch := array.NewRecordBatch(Fields("v", dt), []arrow.Array{column}, 5)
		seeds = append(seeds, Stream(tb, []arrow.RecordBatch{batch}))
	}
	return seeds
}

// ReadEverything reads values of a batch, as text and through value. Reading panics
// where a buffer does not hold what the batch claims.
func ReadEverything(batch arrow.RecordBatch, value func(arr arrow.Array, row int) any) {
	rows := int(batch.NumRows())
	for _, column := range batch.Columns() {
		for row := range min(rows, 50) {
			value(column, row)
			column.ValueStr(row)
		}
		if rows > 0 {
			value(column, rows-1)
		}
	}
}
