// SPDX-License-Identifier: Apache-2.0

package arrowtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// KeyedSchema is that of the events which benchmarks group, join and filter.
var KeyedSchema = Fields("key", arrow.PrimitiveTypes.Int64, "name", arrow.BinaryTypes.String,
	"amount", arrow.PrimitiveTypes.Int64, "__timestamp", arrow.PrimitiveTypes.Int64)

// KeyedBatch returns rows whose keys are drawn from that many, in the window
// of 10 s that begins at start.
func KeyedBatch(r *rand.Rand, rows, keys int, start int64) arrow.RecordBatch {
	return keyedBatch(rows, func(i int) (key, amount, time int64) {
		return r.Int64N(int64(keys)), int64(i), start + int64(i)*9999/int64(rows)
	})
}

// OneRowAKey returns one row of amount 1 and time 0 for each key.
func OneRowAKey(keys int) arrow.RecordBatch {
	return keyedBatch(keys, func(i int) (key, amount, time int64) { return int64(i), 1, 0 })
}

func keyedBatch(rows int, row func(i int) (key, amount, time int64)) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, KeyedSchema)
	defer builder.Release()
	for i := range rows {
		key, amount, time := row(i)
		builder.Field(0).(*array.Int64Builder).Append(key)
		builder.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("user-%d", key))
		builder.Field(2).(*array.Int64Builder).Append(amount)
		builder.Field(3).(*array.Int64Builder).Append(time)
	}
	return builder.NewRecordBatch()
}

// ReportRows reports the time that a benchmark takes a row.
func ReportRows(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}
