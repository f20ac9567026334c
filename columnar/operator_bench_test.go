// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

const benchRows = 65536

// BenchmarkFilter keeps each third row. The naive twin boxes each cell.
func BenchmarkFilter(b *testing.B) {
	batch := arrowtest.KeyedBatch(rand.New(rand.NewPCG(1, 2)), benchRows, 1000, 0)
	defer batch.Release()
	const kept = (benchRows + 2) / 3
	b.Run("columns", func(b *testing.B) {
		filter := FilterWhere(memory.DefaultAllocator, Column("amount").Mod(int64(3)).Equal(int64(0)))
		b.ReportAllocs()
		for b.Loop() {
			result, err := filter.kernel.Process(batch)
			if err != nil || result.NumRows() != kept {
				b.Fatalf("%v rows, %v; want %d", result.NumRows(), err, kept)
			}
			result.Release()
		}
		arrowtest.ReportRows(b, benchRows)
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, batch.Schema())
			for row := range int(batch.NumRows()) {
				if arrays.Value(batch.Column(2), row).(int64)%3 != 0 {
					continue
				}
				for column := range int(batch.NumCols()) {
					if err := arrays.AppendValue(builder.Field(column), arrays.Value(batch.Column(column), row)); err != nil {
						b.Fatal(err)
					}
				}
			}
			result := builder.NewRecordBatch()
			if result.NumRows() != kept {
				b.Fatalf("%v rows; want %d", result.NumRows(), kept)
			}
			result.Release()
			builder.Release()
		}
		arrowtest.ReportRows(b, benchRows)
	})
}
