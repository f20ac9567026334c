// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Select returns an operator that keeps the named columns, in the order of the
// names, and the metadata columns behind them. A metadata column that is named
// keeps the place it is named at. Names that repeat count once. The columns are
// shared, not copied. A name that the batch does not have is a [ColumnError],
// except for [TombstoneColumn], which only batches with a tombstone have.
func Select(_ memory.Allocator, columns ...string) *BuiltinOp {
	columns = slices.Clone(columns)
	return newOperator("select "+strings.Join(columns, ", "), "", func() kernel { return &projection{names: columns} })
}

type projection struct {
	names []string
	// source is the schema that target and columns were made for.
	source, target *arrow.Schema
	columns        []int
}

func (p *projection) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, len(p.columns))
	for i, column := range p.columns {
		columns[i] = batch.Column(column)
	}
	return array.NewRecordBatch(p.target, columns, batch.NumRows()), nil
}

func (p *projection) bind(schema *arrow.Schema) error {
	if namedcols.SameSchema(p.source, schema) {
		return nil
	}
	var columns []int
	take := func(column int) {
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	for _, name := range p.names {
		column, err := namedcols.Index(schema, name)
		if err == nil {
			take(column)
		} else if name != TombstoneColumn {
			return err
		}
	}
	for _, field := range metacols.Fields(true) {
		if column := namedcols.First(schema, field.Name); column >= 0 {
			take(column)
		}
	}
	fields := make([]arrow.Field, len(columns))
	for i, column := range columns {
		fields[i] = schema.Field(column)
	}
	metadata := schema.Metadata()
	p.source, p.target, p.columns = schema, arrow.NewSchema(fields, &metadata), columns
	return nil
}

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
