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
	rows := 0
	for _, batch := range batches {
		defer batch.Release()
		rows += batch.Rows
	}
	columns := make([]arrow.Array, 0, schema.NumFields())
	defer func() { arrays.Release(columns) }()
	parts := make([]arrow.ArrayData, len(batches))
	for i, field := range schema.Fields() {
		for j, batch := range batches {
			parts[j] = batch.Columns[i]
		}
		if len(parts) == 1 {
			columns = append(columns, array.MakeFromData(parts[0]))
			continue
		}
		joined, err := arrays.Concat(c.mem, parts)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
		columns = append(columns, array.MakeFromData(joined))
		joined.Release()
	}
	return array.NewRecordBatch(schema, columns, int64(rows)), nil
}
