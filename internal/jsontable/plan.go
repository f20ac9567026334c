// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

var errTooLarge = errors.New("the rows do not fit one Arrow batch")

// Plan is how documents become rows of a schema. It may be used by several goroutines
// at a time.
type Plan struct {
	schema   *arrow.Schema
	root     *jsonrows.Node
	scalar   bool // the one column is the row itself
	decoders sync.Pool
}

// NewPlan returns a plan for rows of a schema, each of them an object or, with scalar,
// the value of the one column.
func NewPlan(schema *arrow.Schema, scalar bool) (*Plan, error) {
	root, err := jsonrows.NewRoot(schema.Fields(), jsonrows.Rules{Convert: true})
	if err != nil {
		return nil, err
	}
	if scalar && len(root.Children) != 1 {
		return nil, fmt.Errorf("rows that are not objects in JSON need a schema of one field, got %d", len(root.Children))
	}
	return &Plan{schema: schema, root: root, scalar: scalar}, nil
}

// Marshal returns the JSON of each row. Rows that have none are [RowError] values,
// joined.
func Marshal[T any](rows []T) ([][]byte, error) {
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
		return nil, rowErrors(errs)
	}
	documents := make([][]byte, len(rows))
	start := 0
	for i, end := range ends {
		documents[i] = text.Bytes()[start:end]
		start = end
	}
	return documents, nil
}

// Batch reads documents, one a row, into a batch that the caller owns. What is wrong
// with rows is a [RowError] for each of them, joined.
func (p *Plan) Batch(documents [][]byte, mem memory.Allocator) (arrow.RecordBatch, error) {
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
		return nil, rowErrors(errs)
	}
	if d.Root.Overflows() {
		return nil, errTooLarge
	}
	columns, err := d.Columns()
	if err != nil {
		return nil, err
	}
	defer arrays.Release(columns)
	return array.NewRecordBatch(p.schema, columns, int64(len(documents))), nil
}

// Schema returns the schema of the rows.
func (p *Plan) Schema() *arrow.Schema { return p.schema }

// Scalar reports whether the one column is the row itself.
func (p *Plan) Scalar() bool { return p.scalar }

// row reads a document into the next row.
func (p *Plan) row(d *jsonrows.Decoder, document []byte) *jsonrows.Error {
	d.Data, d.Pos = document, 0
	c := d.Peek()
	if !p.scalar && c == '{' {
		return d.Document(document)
	}
	row := d.Root.Count
	var err *jsonrows.Error
	switch sink := p.scalarSink(d); {
	case !p.scalar && c == 'n': // a nil row
	case sink == nil:
		err = jsonrows.InPath(d.Unexpected("an object"), ScalarColumn)
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
func (p *Plan) scalarSink(d *jsonrows.Decoder) *jsonrows.Sink {
	if p.scalar {
		return &d.Root.Children[0]
	}
	if i, ok := p.root.Members[ScalarColumn]; ok {
		return &d.Root.Children[i]
	}
	return nil
}

// fieldError puts the documented text around what is wrong with a field.
func fieldError(err *jsonrows.Error) error {
	if errors.Is(err, jsonrows.ErrRequiredField) {
		return fmt.Errorf("%w: %s", jsonrows.ErrRequiredField, err.Path)
	}
	return fmt.Errorf("cannot write JSON field %s: %w", err.Path, err.Cause)
}
