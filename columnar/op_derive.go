// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar/expr"
	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// FilterWhere returns an operator that keeps the rows for which predicate is
// true, in their order, with all columns. Rows for which it is null are
// dropped. What is wrong with predicate is reported by [Topology.AddOperator].
func FilterWhere(mem memory.Allocator, predicate Expression) *BuiltinOp {
	if err := predicate.Err(); err != nil {
		return invalidOperator(err)
	}
	return newOperator("where "+predicate.String(), "", func() kernel {
		return &whereFilter{mem: mem, predicate: expr.NewProgram(predicate), columns: predicate.Columns()}
	})
}

type whereFilter struct {
	mem       memory.Allocator
	predicate *expr.Program
	columns   []string // of predicate
}

func (f *whereFilter) Process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	rows, err := f.predicate.True(f.mem, batch)
	if err != nil {
		return nil, err
	}
	return arrays.GatherBatch(f.mem, batch, rows)
}

// Derive returns an operator that adds columns. A column with the name of one
// that the batch has replaces it in its place; others follow behind all columns
// of the batch. Every column is computed from the input batch, so columns do
// not see each other. Columns of integers are Int64 or Uint64, of floats
// Float64, of text Utf8, of bytes Binary and of decimals Decimal128; [Expression.Cast]
// makes other types, and a plain [Column] keeps its own. A plain column, and a
// choice between columns of the same metadata, keeps its metadata, and cannot be
// null where those cannot be; what is computed has none and is nullable.
//
// What is wrong with the columns is reported by [Topology.AddOperator]; the name
// of a metadata column is an error, and so is a name that repeats. For record
// keys and timestamps there are [WithKey] and [WithTimestamp].
func Derive(mem memory.Allocator, columns ...NamedExpression) *BuiltinOp {
	columns = slices.Clone(columns)
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Name
		if err := column.Expression.Err(); err != nil {
			return invalidOperator(&ColumnError{Column: column.Name, Row: namedcols.NoRow, Cause: err})
		}
	}
	if err := checkDerivedNames(names); err != nil {
		return invalidOperator(err)
	}
	return newDerivation(mem, "derive", columns, func(p *expr.Program, name string, mem memory.Allocator, batch arrow.RecordBatch) (arrow.Field, arrow.Array, error) {
		column, err := p.Column(mem, batch)
		if err != nil {
			return arrow.Field{}, nil, err
		}
		return p.Field(name, column), column, nil
	})
}

// WithKey returns an operator that makes key, which is text or bytes, the key of
// the records that a sink produces. [Expression.Cast] makes text of other
// columns, and [Expression.BigEndian] bytes of integers. A null stays a null
// key.
func WithKey(mem memory.Allocator, key Expression) *BuiltinOp {
	return withMetadata(mem, KeyColumn, key, (*expr.Program).Bytes)
}

// WithTimestamp returns an operator that makes timestamp the timestamp of the
// records that a sink produces, and the event time of windows and joins behind it:
// an integer in milliseconds since the Unix epoch, or a timestamp of any unit, which
// is rounded down to milliseconds. A date, a time of day and a duration are refused.
func WithTimestamp(mem memory.Allocator, timestamp Expression) *BuiltinOp {
	return withMetadata(mem, TimestampColumn, timestamp, (*expr.Program).Millis)
}

// computation is how a program makes a column of that name.
type computation func(p *expr.Program, name string, mem memory.Allocator, batch arrow.RecordBatch) (arrow.Field, arrow.Array, error)

func withMetadata(mem memory.Allocator, name string, value Expression, compute func(p *expr.Program, mem memory.Allocator, batch arrow.RecordBatch) (arrow.Array, error)) *BuiltinOp {
	if err := value.Err(); err != nil {
		return invalidOperator(&ColumnError{Column: name, Row: namedcols.NoRow, Cause: err})
	}
	return newDerivation(mem, "set", []NamedExpression{value.As(name)}, func(p *expr.Program, name string, mem memory.Allocator, batch arrow.RecordBatch) (arrow.Field, arrow.Array, error) {
		column, err := compute(p, mem, batch)
		var kind *expr.KindError
		if errors.As(err, &kind) {
			err = &ColumnError{Column: name, Row: namedcols.NoRow, Cause: kind}
		}
		if err != nil {
			return arrow.Field{}, nil, err
		}
		return arrow.Field{Name: name, Type: column.DataType(), Nullable: true}, column, nil
	})
}

// newDerivation returns an operator that computes columns.
func newDerivation(mem memory.Allocator, verb string, columns []NamedExpression, compute computation) *BuiltinOp {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = column.Name + " = " + column.Expression.String()
	}
	return newOperator(verb+" "+strings.Join(texts, ", "), "", func() kernel {
		programs := make([]*expr.Program, len(columns))
		d := &derivation{columns: len(columns)}
		for i, column := range columns {
			programs[i] = expr.NewProgram(column.Expression)
			d.names, d.inputs = append(d.names, column.Name), append(d.inputs, column.Expression.Columns()...)
		}
		d.compute = func(batch arrow.RecordBatch, i int) (arrow.Field, arrow.Array, error) {
			return compute(programs[i], columns[i].Name, mem, batch)
		}
		return d
	})
}
