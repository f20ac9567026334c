// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// RowPredicate reports whether a row of batch is kept. It may read batch
// during the call only. [FilterWhere] takes an [Expression] instead, which is
// evaluated for a whole batch at a time.
type RowPredicate func(batch arrow.RecordBatch, row int) bool

// Filter returns an operator that keeps the rows for which predicate is true,
// in their order, with all columns. A batch with no such row becomes a batch
// of zero rows. predicate runs on several partitions at a time.
func Filter(mem memory.Allocator, predicate RowPredicate) *BuiltinOp {
	if predicate == nil {
		return invalidOperator(errors.New("predicate must not be nil"))
	}
	return newOperator("filter by a Go function", "", func() kernel { return &rowFilter{mem: mem, predicate: predicate} })
}

type rowFilter struct {
	mem       memory.Allocator
	predicate RowPredicate
	rows      []int32 // scratch
}

func (f *rowFilter) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	rows := f.rows[:0]
	for row := range int(batch.NumRows()) {
		if f.predicate(batch, row) {
			rows = append(rows, int32(row))
		}
	}
	f.rows = rows
	return arrays.GatherBatch(f.mem, batch, rows)
}
