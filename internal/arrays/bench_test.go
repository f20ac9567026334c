// SPDX-License-Identifier: Apache-2.0

package arrays_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// benchColumns returns a column of integers and one of texts.
func benchColumns(rows int) map[string]arrow.Array {
	mem := memory.DefaultAllocator
	numbers, texts := array.NewInt64Builder(mem), array.NewStringBuilder(mem)
	for i := range rows {
		numbers.Append(int64(i))
		texts.Append(fmt.Sprintf("customer-%06d", i%1000))
	}
	return map[string]arrow.Array{"int64": numbers.NewArray(), "utf8": texts.NewArray()}
}

func BenchmarkConcat(b *testing.B) {
	for _, shape := range []struct{ parts, rows int }{{1000, 1}, {100, 1000}, {4, 64000}} {
		for name, column := range benchColumns(shape.rows) {
			parts, data := make([]arrow.Array, shape.parts), make([]arrow.ArrayData, shape.parts)
			for i := range parts {
				parts[i], data[i] = column, column.Data()
			}
			where := fmt.Sprintf("%s/%dx%d", name, shape.parts, shape.rows)
			b.Run("concat/"+where, func(b *testing.B) {
				for b.Loop() {
					joined, err := arrays.Concat(memory.DefaultAllocator, data)
					if err != nil {
						b.Fatal(err)
					}
					joined.Release()
				}
			})
			b.Run("arrow concatenate/"+where, func(b *testing.B) {
				for b.Loop() {
					joined, err := array.Concatenate(parts, memory.DefaultAllocator)
					if err != nil {
						b.Fatal(err)
					}
					joined.Release()
				}
			})
		}
	}
}

func BenchmarkGather(b *testing.B) {
	const rows = 64000
	every := make([]int32, 0, rows/2)
	for row := int32(0); row < rows; row += 2 {
		every = append(every, row)
	}
	columns := benchColumns(rows)
	for name, column := range columns {
		b.Run("gather/"+name, func(b *testing.B) {
			for b.Loop() {
				taken, err := arrays.Gather(memory.DefaultAllocator, column, every)
				if err != nil {
					b.Fatal(err)
				}
				taken.Release()
			}
		})
	}
	b.Run("builder/int64", func(b *testing.B) {
		from := columns["int64"].(*array.Int64)
		for b.Loop() {
			builder := array.NewInt64Builder(memory.DefaultAllocator)
			builder.Reserve(len(every))
			for _, row := range every {
				builder.Append(from.Value(int(row)))
			}
			builder.NewArray().Release()
			builder.Release()
		}
	})
	b.Run("builder/utf8", func(b *testing.B) {
		from := columns["utf8"].(*array.String)
		for b.Loop() {
			builder := array.NewStringBuilder(memory.DefaultAllocator)
			builder.Reserve(len(every))
			for _, row := range every {
				builder.Append(from.Value(int(row)))
			}
			builder.NewArray().Release()
			builder.Release()
		}
	})
}
