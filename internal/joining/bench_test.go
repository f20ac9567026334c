// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// BenchmarkJoin joins two sides that come at once. The naive twin keeps boxed
// rows in a map of each side.
func BenchmarkJoin(b *testing.B) {
	const rows, window = 8192, 2 * time.Second
	r := rand.New(rand.NewPCG(1, 2))
	left, right := arrowtest.KeyedBatch(r, rows, rows, 0), arrowtest.KeyedBatch(r, rows, rows, 0)
	defer left.Release()
	defer right.Release()
	pairs := 0
	b.Run("columns", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			join := New(Spec{LeftKey: "key", RightKey: "key", Window: window}, memory.DefaultAllocator)
			results, err := join.Process([]arrow.RecordBatch{left}, []arrow.RecordBatch{right})
			if err != nil {
				b.Fatal(err)
			}
			join.Commit()
			pairs = 0
			for _, result := range results {
				pairs += int(result.NumRows())
			}
			arrays.Release(results)
		}
		arrowtest.ReportRows(b, 2*rows)
	})
	b.Run("naive", func(b *testing.B) {
		schema := arrowtest.Fields("left_key", int64Type, "left_name", textType, "left_amount", int64Type, "right_key", int64Type, "right_name", textType, "right_amount", int64Type)
		b.ReportAllocs()
		for b.Loop() {
			var sides [2]map[any][][]any
			for side, batch := range []arrow.RecordBatch{left, right} {
				sides[side] = map[any][][]any{}
				for row := range int(batch.NumRows()) {
					var cells []any
					for column := range int(batch.NumCols()) {
						cells = append(cells, arrays.Value(batch.Column(column), row))
					}
					sides[side][cells[0]] = append(sides[side][cells[0]], cells)
				}
			}
			builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			found := 0
			for key, rights := range sides[1] {
				for _, r := range rights {
					for _, l := range sides[0][key] {
						if distance := l[3].(int64) - r[3].(int64); distance > window.Milliseconds() || -distance > window.Milliseconds() {
							continue
						}
						found++
						for i := range 3 {
							if err := arrays.AppendValue(builder.Field(i), l[i]); err != nil {
								b.Fatal(err)
							}
							if err := arrays.AppendValue(builder.Field(3+i), r[i]); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
			}
			builder.NewRecordBatch().Release()
			builder.Release()
			if pairs > 0 && found != pairs {
				b.Fatalf("%d pairs; want %d", found, pairs)
			}
		}
		arrowtest.ReportRows(b, 2*rows)
	})
}
