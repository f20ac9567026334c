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

	"github.com/krabka-io/krabka-streams-go/columnar/expr"
	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
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

// Expression computes a column from the columns of a batch, for all rows at
// once. It starts at [Column] or [Literal] and grows by its methods:
//
//	columnar.Column("price").Mul(908).As("dollars")
//	columnar.And(columnar.Column("bidder").Equal(1001), columnar.Column("price").Greater(100))
//
// Package [expr] documents the values, the operators and their errors.
type Expression = expr.Expression

// NamedExpression is an expression with the name of the column that it makes. Its
// fields are
//
//	Name       string
//	Expression Expression
type NamedExpression = expr.NamedExpression

// Column is the column of a batch with that name, metadata columns among them.
func Column(name string) Expression { return expr.Column(name) }

// Literal is a value that is the same in all rows: an integer, a float, a bool, a
// string, a []byte, a *big.Rat, a time.Time, a time.Duration or nil.
func Literal(value any) Expression { return expr.Literal(value) }

// And is true where all operands are true, and false where any is false.
func And(operands ...any) Expression { return expr.And(operands...) }

// Or is true where any operand is true, and false where all are false.
func Or(operands ...any) Expression { return expr.Or(operands...) }

// Not is true where operand is false, and false where it is true.
func Not(operand any) Expression { return expr.Not(operand) }

// If is then where condition is true, and otherwise elsewhere, also where condition
// is null.
func If(condition, then, otherwise any) Expression { return expr.If(condition, then, otherwise) }
