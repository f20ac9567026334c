// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// FilterWhere returns an operator that keeps the rows for which predicate is
// true, in their order, with all columns. Rows for which it is null are
// dropped. What is wrong with predicate is reported by [Topology.AddOperator].
func FilterWhere(mem memory.Allocator, predicate Expression) *BuiltinOp {
	if err := predicate.check(); err != nil {
		return invalidOperator(err)
	}
	return newOperator("where "+predicate.String(), "", func() kernel { return &whereFilter{mem: mem, predicate: program{expression: predicate}} })
}

// program is an expression with its form for the latest schema.
type program struct {
	expression Expression
	millis     bool // the result is event time
	schema     *arrow.Schema
	bound      *boundExpression
}

func (p *program) bind(schema *arrow.Schema) error {
	if namedcols.SameSchema(p.schema, schema) {
		return nil
	}
	bound, err := bindExpression(p.expression.node, schema)
	if err != nil {
		return err
	}
	if bound.isTime() {
		if err := bound.setTime(literalTimeType(bound.node.value)); err != nil {
			return err
		}
	}
	p.schema, p.bound = schema, bound
	return nil
}

// eval computes the expression; the vector is valid until ev is released. Errors
// name a column.
func (p *program) eval(ev *evaluation) (vector, error) {
	v, err := ev.eval(p.bound, nil)
	if err == nil {
		return v, nil
	}
	var known *ColumnError
	if !errors.As(err, &known) {
		err = namedcols.Failure(p.expression.node.firstColumnOf(), err)
	}
	return vector{}, err
}

type whereFilter struct {
	mem       memory.Allocator
	predicate program
	rows      []int32 // scratch
}

func (f *whereFilter) process(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := f.predicate.bind(batch.Schema()); err != nil {
		return nil, err
	}
	if kind := f.predicate.bound.kind; kind != arrays.BoolKind && kind != arrays.AnyKind {
		return nil, namedcols.Failure(f.predicate.expression.node.firstColumnOf(), errNotBoolean)
	}
	ev := newEvaluation(f.mem, batch)
	defer ev.release()
	v, err := f.predicate.eval(ev)
	if err != nil {
		return nil, err
	}
	return arrays.GatherBatch(f.mem, batch, f.chosen(&v, ev.rows))
}

var errNotBoolean = errors.New("predicate is not boolean")

// chosen returns the rows that are true.
func (f *whereFilter) chosen(v *vector, rows int) []int32 {
	if v.kind == arrays.AnyKind {
		return nil
	}
	chosen, count, mask := arrays.Resized(&f.rows, rows), 0, v.mask()
	for row := range rows {
		// Without a branch, which would be a guess.
		chosen[count] = int32(row)
		if v.truths[row&mask] && !v.isNull(row) {
			count++
		}
	}
	return chosen[:count]
}

// Derive returns an operator that adds columns. A column with the name of one
// that the batch has replaces it in its place; others follow behind all columns
// of the batch. Every column is computed from the input batch, so columns do
// not see each other. Columns of integers are Int64 or Uint64, of floats
// Float64, of text Utf8, of bytes Binary and of decimals Decimal128; [Expression.Cast]
// makes other types, and a plain [Column] keeps its own. All are nullable.
//
// What is wrong with the columns is reported by [Topology.AddOperator]; the name
// of a metadata column is an error, and so is a name that repeats. For record
// keys and timestamps there are [WithKey] and [WithTimestamp].
func Derive(mem memory.Allocator, columns ...NamedExpression) *BuiltinOp {
	columns = slices.Clone(columns)
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Name
		if err := column.Expression.check(); err != nil {
			return invalidOperator(&ColumnError{Column: column.Name, Row: namedcols.NoRow, Cause: err})
		}
	}
	if err := checkDerivedNames(names); err != nil {
		return invalidOperator(err)
	}
	return newDerivation(mem, "derive", columns, nil)
}

// WithKey returns an operator that makes key, which is text or bytes, the key of
// the records that a sink produces. [Expression.Cast] makes text of other
// columns, and [Expression.BigEndian] bytes of integers. A null stays a null
// key.
func WithKey(mem memory.Allocator, key Expression) *BuiltinOp {
	return withMetadata(mem, KeyColumn, key, arrow.BinaryTypes.Binary, arrays.TextKind, arrays.BytesKind)
}

// WithTimestamp returns an operator that makes timestamp the timestamp of the
// records that a sink produces, and the event time of windows and joins behind it:
// an integer in milliseconds since the Unix epoch, or a timestamp of any unit, which
// is rounded down to milliseconds. A date, a time of day and a duration are refused.
func WithTimestamp(mem memory.Allocator, timestamp Expression) *BuiltinOp {
	return withMetadata(mem, TimestampColumn, timestamp, arrow.PrimitiveTypes.Int64, arrays.IntKind)
}

func withMetadata(mem memory.Allocator, name string, value Expression, dt arrow.DataType, kinds ...arrays.Kind) *BuiltinOp {
	if err := value.check(); err != nil {
		return invalidOperator(&ColumnError{Column: name, Row: namedcols.NoRow, Cause: err})
	}
	return newDerivation(mem, "set", []NamedExpression{value.As(name)}, func(bound *boundExpression) (arrow.DataType, error) {
		what := bound.kind.String()
		isStamp := bound.when == nil || bound.when.ID() == arrow.TIMESTAMP
		if !isStamp {
			what = bound.when.String()
		}
		if bound.kind != arrays.AnyKind && (!slices.Contains(kinds, bound.kind) || !isStamp) {
			return nil, &ColumnError{Column: name, Row: namedcols.NoRow, Cause: errors.New("cannot be made of values that are " + what)}
		}
		return dt, nil
	})
}

// newDerivation returns an operator that computes columns. typeOf fixes the type
// of the results; nil leaves it to the expressions.
func newDerivation(mem memory.Allocator, verb string, columns []NamedExpression, typeOf func(*boundExpression) (arrow.DataType, error)) *BuiltinOp {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = column.Name + " = " + column.Expression.String()
	}
	return newOperator(verb+" "+strings.Join(texts, ", "), "", func() kernel {
		programs := make([]program, len(columns))
		for i, column := range columns {
			programs[i].expression = column.Expression
			programs[i].millis = typeOf != nil && column.Name == TimestampColumn
		}
		return &derivation{columns: len(columns), compute: func(batch arrow.RecordBatch, i int) (arrow.Field, arrow.Array, error) {
			column, err := programs[i].column(mem, batch, typeOf)
			if err != nil {
				return arrow.Field{}, nil, err
			}
			return arrow.Field{Name: columns[i].Name, Type: column.DataType(), Nullable: true}, column, nil
		}}
	})
}

// column computes the expression as an array that the caller owns.
func (p *program) column(mem memory.Allocator, batch arrow.RecordBatch, typeOf func(*boundExpression) (arrow.DataType, error)) (arrow.Array, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
	}
	var dt arrow.DataType
	if typeOf != nil {
		var err error
		if dt, err = typeOf(p.bound); err != nil {
			return nil, err
		}
	}
	if p.bound.isStored() && (dt == nil || arrow.TypeEqual(dt, p.bound.dt)) {
		column := batch.Column(p.bound.column)
		column.Retain()
		return column, nil
	}
	ev := newEvaluation(mem, batch)
	defer ev.release()
	v, err := p.eval(ev)
	if err != nil {
		return nil, err
	}
	if p.millis {
		if v, err = v.inMillis(); err != nil {
			return nil, namedcols.Failure(p.expression.node.firstColumnOf(), err)
		}
	}
	if dt == nil {
		if dt = p.bound.dt; dt == nil {
			dt = v.naturalType()
		}
	}
	column, err := v.build(mem, dt, ev.rows, nil)
	if err != nil {
		return nil, namedcols.Failure(p.expression.node.firstColumnOf(), err)
	}
	return column, nil
}
