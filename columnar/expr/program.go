// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// Program computes an expression for batches. It keeps what it found out about the
// schema of the latest batch, and memory. It is used by one goroutine at a time.
type Program struct {
	expression Expression
	schema     *arrow.Schema
	bound      *bound
	rows       []int32 // scratch
}

// NewProgram returns a program for an expression whose [Expression.Err] is nil.
func NewProgram(e Expression) *Program { return &Program{expression: e} }

// KindError says that a program cannot make the column that was asked for of its
// values.
type KindError struct{ Kind string }

func (e *KindError) Error() string { return "cannot be made of values that are " + e.Kind }

func (p *Program) bind(schema *arrow.Schema) error {
	if err := p.expression.Err(); err != nil {
		return err
	}
	if namedcols.SameSchema(p.schema, schema) {
		return nil
	}
	b, err := bind(p.expression.node, schema)
	if err != nil {
		return err
	}
	if b.isTime() {
		if err := b.setTime(literalTimeType(b.node.value)); err != nil {
			return err
		}
	}
	p.schema, p.bound = schema, b
	return nil
}

// eval computes the expression; the vector is valid until ev is released.
func (p *Program) eval(ev *evaluation) (vector, error) {
	v, err := ev.eval(p.bound, nil)
	if err != nil {
		return vector{}, p.failure(err)
	}
	return v, nil
}

// failure makes an error name a column.
func (p *Program) failure(err error) error {
	var known *namedcols.Error
	if errors.As(err, &known) {
		return err
	}
	return namedcols.Failure(p.expression.node.firstColumn(), err)
}

var errNotBoolean = errors.New("predicate is not boolean")

// True returns the rows for which the expression, which is boolean, is true: not
// those for which it is false or null. The result is valid until the next call.
func (p *Program) True(mem memory.Allocator, batch arrow.RecordBatch) ([]int32, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
	}
	if kind := p.bound.kind; kind != arrays.BoolKind && kind != arrays.AnyKind {
		return nil, p.failure(errNotBoolean)
	}
	ev := newEvaluation(mem, batch)
	defer ev.release()
	v, err := p.eval(ev)
	if err != nil {
		return nil, err
	}
	if v.kind == arrays.AnyKind {
		return nil, nil
	}
	chosen, count, mask := arrays.Resized(&p.rows, ev.rows), 0, v.mask()
	for row := range ev.rows {
		// Without a branch, which would be a guess.
		chosen[count] = int32(row)
		if v.truths[row&mask] && !v.isNull(row) {
			count++
		}
	}
	return chosen[:count], nil
}

// Column computes the expression for all rows. The caller owns the result.
func (p *Program) Column(mem memory.Allocator, batch arrow.RecordBatch) (arrow.Array, error) {
	return p.compute(mem, batch, nil, false)
}

// Field describes the column that [Program.Column] has made of the latest batch. A
// column of the batch, and a choice between columns that have the same metadata,
// keeps its metadata, and cannot be null where the columns cannot. Everything that
// is computed has no metadata and can be null.
func (p *Program) Field(name string, column arrow.Array) arrow.Field {
	return arrow.Field{Name: name, Type: column.DataType(), Nullable: !p.bound.required, Metadata: p.bound.metadata}
}

// Bytes computes an expression of text or bytes as a Binary column, which the caller
// owns. An expression of other values is a [KindError].
func (p *Program) Bytes(mem memory.Allocator, batch arrow.RecordBatch) (arrow.Array, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
	}
	switch p.bound.kind {
	case arrays.AnyKind, arrays.TextKind, arrays.BytesKind:
		return p.compute(mem, batch, arrow.BinaryTypes.Binary, false)
	}
	return nil, &KindError{p.bound.kind.String()}
}

// Millis computes an expression of integers in milliseconds, or of timestamps, as an
// Int64 column of milliseconds since the Unix epoch, which the caller owns. Parts of
// a millisecond are rounded down. An expression of other values is a [KindError].
func (p *Program) Millis(mem memory.Allocator, batch arrow.RecordBatch) (arrow.Array, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
	}
	switch when := p.bound.when; {
	case when != nil && when.ID() != arrow.TIMESTAMP:
		return nil, &KindError{when.String()}
	case p.bound.kind != arrays.IntKind && p.bound.kind != arrays.AnyKind:
		return nil, &KindError{p.bound.kind.String()}
	}
	return p.compute(mem, batch, arrow.PrimitiveTypes.Int64, true)
}

// compute makes a column of type dt, or of the expression's own type for nil.
func (p *Program) compute(mem memory.Allocator, batch arrow.RecordBatch, dt arrow.DataType, millis bool) (arrow.Array, error) {
	if err := p.bind(batch.Schema()); err != nil {
		return nil, err
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
	if millis {
		if v, err = v.inMillis(); err != nil {
			return nil, p.failure(err)
		}
	}
	if dt == nil {
		if dt = p.bound.dt; dt == nil {
			dt = v.naturalType()
		}
	}
	column, err := v.build(mem, dt, ev.rows, nil)
	if err != nil {
		return nil, p.failure(err)
	}
	return column, nil
}
