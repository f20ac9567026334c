// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// RowValue computes a value from a row of batch. It may read batch during the
// call only. arrays.AppendValue lists what a column of each type accepts; nil is
// null. [Derive] takes an [Expression] instead, which is evaluated for a whole
// batch at a time.
type RowValue func(batch arrow.RecordBatch, row int) (any, error)

// DerivedColumn is a column that is computed row by row.
type DerivedColumn struct {
	Field arrow.Field
	Value RowValue
}

// WithColumns returns an operator that adds columns. A column with the name of
// one that the batch has replaces it in its place; others follow behind all
// columns of the batch. Every value is computed from the input batch, so
// columns do not see each other. The functions run on several partitions at a
// time.
//
// The name of a metadata column and a name that repeats are errors, and so is,
// when the operator runs, a null for a field that is not nullable. Errors of a
// value name the column and the row in a [ColumnError].
func WithColumns(mem memory.Allocator, columns ...DerivedColumn) (*BuiltinOp, error) {
	columns = slices.Clone(columns)
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Field.Name
		if column.Field.Type == nil {
			return nil, &ColumnError{Column: column.Field.Name, Row: namedcols.NoRow, Cause: errors.New("derived column has no type")}
		}
		if column.Value == nil {
			return nil, &ColumnError{Column: column.Field.Name, Row: namedcols.NoRow, Cause: errors.New("derived column has no value function")}
		}
	}
	if err := checkDerivedNames(names); err != nil {
		return nil, err
	}
	return newOperator("derive "+strings.Join(names, ", ")+" by Go functions", "", func() kernel {
		return &derivation{columns: len(columns), compute: rowColumns(mem, columns), rowWise: true}
	}), nil
}

// checkDerivedNames refuses names that cannot be derived.
func checkDerivedNames(names []string) error {
	for i, name := range names {
		if metacols.IsReserved(name) {
			return fmt.Errorf("columnar: payload column `%s` collides with a reserved metadata column", name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("columnar: derived column `%s` appears twice", name)
		}
	}
	return nil
}

// rowColumns computes derived columns row by row.
func rowColumns(mem memory.Allocator, columns []DerivedColumn) func(arrow.RecordBatch, int) (arrow.Field, arrow.Array, error) {
	return func(batch arrow.RecordBatch, i int) (arrow.Field, arrow.Array, error) {
		column := columns[i]
		plain := arrays.PlainType(column.Field.Type)
		if err := arrays.CheckBuilder(plain); err != nil {
			return arrow.Field{}, nil, namedcols.Failure(column.Field.Name, err)
		}
		builder := array.NewBuilder(mem, plain)
		defer builder.Release()
		builder.Reserve(int(batch.NumRows()))
		for row := range int(batch.NumRows()) {
			value, err := column.Value(batch, row)
			if err == nil && value == nil && !column.Field.Nullable {
				err = errNullNotAllowed
			}
			if err == nil {
				err = arrays.AppendValue(builder, value)
			}
			if err != nil {
				return arrow.Field{}, nil, &ColumnError{Column: column.Field.Name, Row: row, Cause: err}
			}
		}
		values, err := arrays.Dress(mem, builder.NewArray(), column.Field.Type)
		if err != nil {
			return arrow.Field{}, nil, namedcols.Failure(column.Field.Name, err)
		}
		return column.Field, values, nil
	}
}

var errNullNotAllowed = errors.New("null in a column that is not nullable")

// derivation adds computed columns to batches.
type derivation struct {
	columns int
	// compute returns the i-th derived column, which the caller owns.
	compute func(batch arrow.RecordBatch, i int) (arrow.Field, arrow.Array, error)
	// names are those of the derived columns, and inputs the columns that they are
	// computed of; rowWise says that a Go function computes them of any.
	names, inputs []string
	rowWise       bool
	// target is the schema of the latest result.
	target *arrow.Schema
}

func (d *derivation) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	fields, derived := make([]arrow.Field, 0, d.columns), make([]arrow.Array, 0, d.columns)
	defer func() { arrays.Release(derived) }()
	for i := range d.columns {
		field, column, err := d.compute(batch, i)
		if err != nil {
			return nil, err
		}
		fields, derived = append(fields, field), append(derived, column)
	}
	result := namedcols.Put(batch, fields, derived, d.target)
	d.target = result.Schema()
	return result, nil
}
