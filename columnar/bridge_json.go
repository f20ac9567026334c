// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// scalarColumn is the column of rows that are not objects in JSON.
const scalarColumn = "value"

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
	pinned  atomic.Pointer[jsonBridgePlan]
	pinning sync.Mutex // held while the first batch decides the schema
	wrapped rowShape
	pointer bool // T is a pointer to a struct or map
}

// rowShape tells whether rows are objects in JSON.
type rowShape uint8

const (
	objectRows rowShape = iota
	scalarRows
	anyRows // each row may be either
)

// jsonBridgePlan is how rows of a schema are converted.
type jsonBridgePlan struct {
	schema   *arrow.Schema
	root     *jsonrows.Node
	scalar   bool // the one column is the row itself
	decoders sync.Pool
}

// NewJSONRowBridge returns a bridge that infers the schema from the first
// batch.
func NewJSONRowBridge[T any]() *JSONRowBridge[T] {
	b := &JSONRowBridge[T]{}
	b.wrapped, b.pointer = rowShapeOf(reflect.TypeFor[T]())
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
	scalar := b.wrapped == scalarRows || b.wrapped == anyRows && schema.NumFields() == 1 && schema.Field(0).Name == scalarColumn
	plan, err := newJSONBridgePlan(schema, scalar)
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
	document, err := parseJSONSchema(jsonSchema)
	if err != nil {
		return nil, err
	}
	b := NewJSONRowBridge[T]()
	var schema *arrow.Schema
	if b.wrapped == scalarRows {
		schema, err = document.scalar()
	} else {
		schema, err = document.object()
	}
	if err != nil {
		return nil, err
	}
	plan, err := newJSONBridgePlan(schema, b.wrapped == scalarRows)
	if err != nil {
		return nil, err
	}
	b.pinned.Store(plan)
	return b, nil
}

// rowShapeOf tells from a row type whether rows are objects, and whether a row may
// be a nil pointer to one.
func rowShapeOf(t reflect.Type) (shape rowShape, pointer bool) {
	for t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	switch t.Kind() {
	case reflect.Map:
		return objectRows, pointer
	case reflect.Struct:
		marshaler := reflect.TypeFor[json.Marshaler]()
		text := reflect.TypeFor[encoding.TextMarshaler]()
		if p := reflect.PointerTo(t); p.Implements(marshaler) || p.Implements(text) {
			// The type decides itself how it looks.
			if sample, err := json.Marshal(reflect.New(t).Interface()); err == nil && sample[0] != '{' {
				return scalarRows, false
			}
		}
		return objectRows, pointer
	case reflect.Interface:
		return anyRows, pointer
	}
	return scalarRows, false
}

func newJSONBridgePlan(schema *arrow.Schema, scalar bool) (*jsonBridgePlan, error) {
	root, err := jsonrows.NewRoot(schema.Fields(), true)
	if err != nil {
		return nil, err
	}
	if scalar && len(root.Children) != 1 {
		return nil, fmt.Errorf("rows that are not objects in JSON need a schema of one field, got %d", len(root.Children))
	}
	return &jsonBridgePlan{schema: schema, root: root, scalar: scalar}, nil
}

// RowsToBatch converts rows through their JSON. Rows that cannot be converted
// are [RowError] values, joined.
//
// The caller owns the returned batch.
func (b *JSONRowBridge[T]) RowsToBatch(rows []T, mem memory.Allocator) (arrow.RecordBatch, error) {
	if b.err != nil {
		return nil, b.err
	}
	documents, err := marshalRows(rows)
	if err != nil {
		return nil, err
	}
	if plan := b.pinned.Load(); plan != nil {
		return plan.batch(documents, mem)
	}
	if len(rows) == 0 {
		return array.NewRecordBatch(noFields, nil, 0), nil
	}
	b.pinning.Lock()
	defer b.pinning.Unlock()
	if plan := b.pinned.Load(); plan != nil {
		return plan.batch(documents, mem)
	}
	plan, err := inferJSONPlan(documents, b.wrapped, reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	batch, err := plan.batch(documents, mem)
	if err == nil && plan.schema.NumFields() > 0 {
		b.pinned.Store(plan)
	}
	return batch, err
}

// marshalRows returns the JSON of each row.
func marshalRows[T any](rows []T) ([][]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	ends := make([]int, len(rows))
	var errs []error
	for i := range rows {
		start := text.Len()
		if err := encoder.Encode(&rows[i]); err != nil {
			text.Truncate(start)
			errs = append(errs, &RowError{Row: i, Cause: fmt.Errorf("cannot encode row as JSON: %w", err)})
		}
		ends[i] = text.Len()
	}
	if len(errs) > 0 {
		return nil, joinedRowErrors(errs)
	}
	documents := make([][]byte, len(rows))
	start := 0
	for i, end := range ends {
		documents[i] = text.Bytes()[start:end]
		start = end
	}
	return documents, nil
}

// batch reads documents into a batch.
func (p *jsonBridgePlan) batch(documents [][]byte, mem memory.Allocator) (arrow.RecordBatch, error) {
	d, _ := p.decoders.Get().(*jsonrows.Decoder)
	if d == nil {
		d = jsonrows.NewDecoder(mem, p.root)
	}
	defer p.decoders.Put(d)
	d.Root.Use(mem)
	defer d.Root.Release()
	d.Root.Begin(len(documents))
	var errs []error
	for i, document := range documents {
		if err := p.row(d, document); err != nil {
			errs = append(errs, &RowError{Row: i, Cause: fieldError(err)})
		}
	}
	if len(errs) > 0 {
		return nil, joinedRowErrors(errs)
	}
	if d.Root.Overflows() {
		return nil, errBatchTooLarge
	}
	columns, err := d.Columns()
	if err != nil {
		return nil, err
	}
	defer arrays.Release(columns)
	return array.NewRecordBatch(p.schema, columns, int64(len(documents))), nil
}

// row reads a document into the next row.
func (p *jsonBridgePlan) row(d *jsonrows.Decoder, document []byte) *JSONError {
	d.Data, d.Pos = document, 0
	c := d.Peek()
	if !p.scalar && c == '{' {
		return d.Document(document)
	}
	row := d.Root.Count
	var err *JSONError
	switch sink := p.scalarSink(d); {
	case !p.scalar && c == 'n': // a nil row
	case sink == nil:
		err = jsonrows.InPath(d.Unexpected("an object"), scalarColumn)
	default:
		if err = d.Value(sink); err != nil {
			err = jsonrows.InPath(err, sink.Node.Name)
		}
	}
	if err == nil {
		err = d.Missing(&d.Root, row)
	}
	if err != nil {
		d.Root.Truncate(row)
	}
	return err
}

// scalarSink returns the sink for rows that are not objects.
func (p *jsonBridgePlan) scalarSink(d *jsonrows.Decoder) *jsonrows.Sink {
	if p.scalar {
		return &d.Root.Children[0]
	}
	if i, ok := p.root.Members[scalarColumn]; ok {
		return &d.Root.Children[i]
	}
	return nil
}

// fieldError puts the documented text around what is wrong with a field.
func fieldError(err *JSONError) error {
	if errors.Is(err, ErrRequiredField) {
		return fmt.Errorf("%w: %s", ErrRequiredField, err.Path)
	}
	return fmt.Errorf("cannot write JSON field %s: %w", err.Path, err.Cause)
}

// BatchToRows converts each row of a batch, whose columns may be others than
// those that the bridge makes. A row that T does not fit is a [RowError].
func (b *JSONRowBridge[T]) BatchToRows(batch arrow.RecordBatch) ([]T, error) {
	if b.err != nil {
		return nil, b.err
	}
	scalar := b.wrapped == scalarRows
	if plan := b.pinned.Load(); plan != nil && b.wrapped == anyRows {
		scalar = plan.scalar
	}
	columns, err := b.columns(batch, scalar)
	if err != nil {
		return nil, err
	}
	rows := make([]T, batch.NumRows())
	var text []byte
	for i := range rows {
		if text, err = b.document(text[:0], batch, columns, i, scalar); err != nil {
			return nil, &RowError{Row: i, Cause: err}
		}
		if err := json.Unmarshal(text, &rows[i]); err != nil {
			return nil, &RowError{Row: i, Cause: fmt.Errorf("cannot convert Arrow row %d to %T: %w", i, rows[i], err)}
		}
	}
	return rows, nil
}

// columns returns the appenders of a batch's columns.
func (b *JSONRowBridge[T]) columns(batch arrow.RecordBatch, scalar bool) ([]jsonrows.Column, error) {
	destinations := newJSONDestinations(reflect.TypeFor[T]())
	columns := make([]jsonrows.Column, 0, batch.NumCols())
	for i, field := range batch.Schema().Fields() {
		if scalar && field.Name != scalarColumn {
			continue
		}
		destination := destinations.member(field.Name)
		if scalar {
			destination = destinations.row
		}
		column, err := formFor(destination).Column(field, batch.Column(i), len(columns) == 0)
		if err != nil {
			return nil, fmt.Errorf("cannot read JSON field %s: %w", field.Name, err)
		}
		columns = append(columns, column)
		if scalar {
			break
		}
	}
	if scalar && len(columns) == 0 {
		//lint:ignore ST1005 Arrow is a name
		return nil, fmt.Errorf("Arrow column does not exist: %s", scalarColumn)
	}
	return columns, nil
}

// document appends the JSON of a row.
func (b *JSONRowBridge[T]) document(dst []byte, batch arrow.RecordBatch, columns []jsonrows.Column, row int, scalar bool) ([]byte, error) {
	if scalar {
		dst, err := columns[0].Append(dst, row)
		if err != nil {
			err = fmt.Errorf("cannot read JSON field %s: %w", columns[0].Name, err)
		}
		return dst, err
	}
	if b.pointer && isNullRow(batch, row) {
		return append(dst, "null"...), nil
	}
	dst, err := jsonrows.AppendObject(dst, columns, row)
	var column *ColumnError
	if errors.As(err, &column) {
		err = fmt.Errorf("cannot read JSON field %s: %w", column.Column, column.Cause)
	}
	return dst, err
}

func isNullRow(batch arrow.RecordBatch, row int) bool {
	for _, column := range batch.Columns() {
		if column.IsValid(row) && column.DataType().ID() != arrow.NULL {
			return false
		}
	}
	return true
}
