// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/jsontable"
)

var errNoBridgeSchema = errors.New("columnar: a JSON row bridge with a schema needs one")

// JSONRowBridge is a [RowBridge] for any type that encoding/json can write and
// read. The members of the rows' JSON objects are the columns; rows that are
// not objects in JSON have one column, "value".
//
// Without a schema, the first batch with rows decides it for good: the columns
// in the order in which members first appear, each of the type of its first
// value that is not null. Whole numbers make an Int64 column, or Uint64 where
// they are larger, other numbers Float64, true and false Boolean, and text Utf8.
// Objects and arrays make a Utf8 column of JSON text, which the field metadata
// krabka.json marks; a column of nulls is Utf8. A float member of a struct makes
// a Float64 column in any case. Members that the first batch did not have are
// left out.
//
// A value is converted to the type of its column where nothing is lost: whole
// numbers and their text to integers, any value to text. A nil pointer to a
// struct is a row of nulls, and the other way around. Rows read through
// BatchToRows get decimals and times as text or as numbers, as the type of the
// member wants it.
//
// A JSONRowBridge is safe for concurrent use by multiple goroutines.
type JSONRowBridge[T any] struct {
	err     error
	pinned  atomic.Pointer[jsontable.Plan]
	pinning sync.Mutex // held while the first batch decides the schema
	wrapped jsontable.Shape
	pointer bool // T is a pointer to a struct or map
}

// NewJSONRowBridge returns a bridge that infers the schema from the first
// batch.
func NewJSONRowBridge[T any]() *JSONRowBridge[T] {
	b := &JSONRowBridge[T]{}
	b.wrapped, b.pointer = jsontable.ShapeOf(reflect.TypeFor[T]())
	return b
}

// NewJSONRowBridgeWithSchema returns a bridge for rows of a schema. A null or
// missing member of a field that is not nullable is an error. A bridge for no
// schema, or for one with types that JSON cannot be read into, fails on every
// call.
func NewJSONRowBridgeWithSchema[T any](schema *arrow.Schema) *JSONRowBridge[T] {
	b := NewJSONRowBridge[T]()
	if schema == nil {
		b.err = errNoBridgeSchema
		return b
	}
	scalar := b.wrapped == jsontable.Scalars || b.wrapped == jsontable.Mixed && schema.NumFields() == 1 && schema.Field(0).Name == jsontable.ScalarColumn
	plan, err := jsontable.NewPlan(schema, scalar)
	if err != nil {
		b.err = textPrefix.Wrap(err, "schema of the rows")
		return b
	}
	b.pinned.Store(plan)
	return b
}

// JSONRowBridgeFromJSONSchema returns a bridge for rows that a JSON Schema
// describes, see [SchemaFromJSONSchema]. For a T that is not an object in JSON,
// the JSON Schema describes the row itself.
func JSONRowBridgeFromJSONSchema[T any](jsonSchema string) (*JSONRowBridge[T], error) {
	document, err := jsontable.ParseSchema(jsonSchema)
	if err != nil {
		return nil, err
	}
	b := NewJSONRowBridge[T]()
	var schema *arrow.Schema
	if b.wrapped == jsontable.Scalars {
		schema, err = document.Scalar()
	} else {
		schema, err = document.Object()
	}
	if err != nil {
		return nil, err
	}
	plan, err := jsontable.NewPlan(schema, b.wrapped == jsontable.Scalars)
	if err != nil {
		return nil, err
	}
	b.pinned.Store(plan)
	return b, nil
}

// RowsToBatch converts rows through their JSON. Rows that cannot be converted
// are [RowError] values, joined.
//
// The caller owns the returned batch.
func (b *JSONRowBridge[T]) RowsToBatch(rows []T, mem memory.Allocator) (arrow.RecordBatch, error) {
	if b.err != nil {
		return nil, b.err
	}
	documents, err := jsontable.Marshal(rows)
	if err != nil {
		return nil, err
	}
	if plan := b.pinned.Load(); plan != nil {
		return plan.Batch(documents, mem)
	}
	if len(rows) == 0 {
		return array.NewRecordBatch(noFields, nil, 0), nil
	}
	b.pinning.Lock()
	defer b.pinning.Unlock()
	if plan := b.pinned.Load(); plan != nil {
		return plan.Batch(documents, mem)
	}
	plan, err := jsontable.Infer(documents, b.wrapped, reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	batch, err := plan.Batch(documents, mem)
	if err == nil && plan.Schema().NumFields() > 0 {
		b.pinned.Store(plan)
	}
	return batch, err
}

// BatchToRows converts each row of a batch, whose columns may be others than
// those that the bridge makes. A row that T does not fit is a [RowError].
func (b *JSONRowBridge[T]) BatchToRows(batch arrow.RecordBatch) ([]T, error) {
	if b.err != nil {
		return nil, b.err
	}
	scalar := b.wrapped == jsontable.Scalars
	if plan := b.pinned.Load(); plan != nil && b.wrapped == jsontable.Mixed {
		scalar = plan.Scalar()
	}
	documents, err := jsontable.NewRows(batch, reflect.TypeFor[T](), scalar, b.pointer)
	if err != nil {
		return nil, err
	}
	rows := make([]T, batch.NumRows())
	var text []byte
	for i := range rows {
		if text, err = documents.Append(text[:0], i); err != nil {
			return nil, &RowError{Row: i, Cause: err}
		}
		if err := json.Unmarshal(text, &rows[i]); err != nil {
			return nil, &RowError{Row: i, Cause: fmt.Errorf("cannot convert Arrow row %d to %T: %w", i, rows[i], err)}
		}
	}
	return rows, nil
}

// SchemaFromJSONSchema returns the Arrow schema of the objects that a JSON
// Schema describes, for [NewJSONCodec] and [NewJSONRowBridgeWithSchema].
//
// The fields are the properties in their order. Fields that are required and
// not null are not nullable.
//
//	JSON Schema                               Arrow type
//	integer, number, boolean                  Int64, Float64, Boolean
//	object, array                             Utf8 with metadata krabka.json: the JSON text
//	text with contentEncoding base64          Binary with metadata krabka.binary
//	anything else                             Utf8
//
// A "$ref" within the document is followed. Where allOf, anyOf or oneOf stand
// in place of a type and agree on one, beside null, that is the type.
func SchemaFromJSONSchema(jsonSchema string) (*arrow.Schema, error) {
	root, err := jsontable.ParseSchema(jsonSchema)
	if err != nil {
		return nil, err
	}
	return root.Object()
}
