// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// Codec converts between one batch and one stream. It may be used by several
// goroutines at a time.
type Codec struct {
	mem     memory.Allocator
	reader  *Reader
	layouts Layouts
}

// NewCodec returns a codec that reads within limits. A negative limit is an error.
func NewCodec(mem memory.Allocator, limits Limits) (*Codec, error) {
	reader, err := NewReader(mem, limits)
	if err != nil {
		return nil, err
	}
	return &Codec{mem: mem, reader: reader}, nil
}

// Encode returns batch as an uncompressed stream of one record batch. It does not
// keep the batch.
func (c *Codec) Encode(batch arrow.RecordBatch) ([]byte, error) {
	encoder, err := NewEncoder(c.mem, &c.layouts, batch)
	if err != nil {
		return nil, fmt.Errorf("cannot write Arrow IPC stream: %w", err)
	}
	defer encoder.Release()
	return encoder.Encode(0, int(batch.NumRows())), nil
}

// Decode reads a stream, whose record batches become one. The caller owns the
// returned batch, whose columns use the memory of data.
func (c *Codec) Decode(data []byte) (arrow.RecordBatch, error) {
	schema, batches, err := c.reader.Read(data)
	if err != nil {
		return nil, err
	}
	for _, batch := range batches {
		defer batch.Release()
	}
	return Join(c.mem, schema, batches)
}

// Join makes one batch of batches of a schema, which the caller owns. A batch without
// columns stands for rows of nulls. The columns of a single batch are not copied.
func Join(mem memory.Allocator, schema *arrow.Schema, batches []Batch) (arrow.RecordBatch, error) {
	rows := 0
	for _, batch := range batches {
		rows += batch.Rows
	}
	columns := make([]arrow.Array, 0, schema.NumFields())
	defer func() { arrays.Release(columns) }()
	parts := make([]arrow.ArrayData, len(batches))
	for i, field := range schema.Fields() {
		column, err := joinColumn(mem, batches, i, field.Type, parts)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, int64(rows)), nil
}

func joinColumn(mem memory.Allocator, batches []Batch, i int, dt arrow.DataType, parts []arrow.ArrayData) (arrow.Array, error) {
	var absent []arrow.Array
	defer func() { arrays.Release(absent) }()
	for j, batch := range batches {
		if batch.Columns != nil {
			parts[j] = batch.Columns[i]
			continue
		}
		if n := len(absent); n == 0 || absent[n-1].Len() != batch.Rows {
			nulls, err := arrays.Nulls(mem, dt, batch.Rows)
			if err != nil {
				return nil, err
			}
			absent = append(absent, nulls)
		}
		parts[j] = absent[len(absent)-1].Data()
	}
	if len(parts) == 1 {
		return array.MakeFromData(parts[0]), nil
	}
	data, err := arrays.Concat(mem, parts)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}
