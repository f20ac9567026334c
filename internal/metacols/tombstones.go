// SPDX-License-Identifier: Apache-2.0

package metacols

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// AlignTombstones makes batches joinable of which only some hold tombstones:
// the others get a tombstone column, and batches of nothing but tombstones,
// whose payload columns their decoder could not know, get null columns. The
// returned batches are valid until release is called.
func AlignTombstones(mem memory.Allocator, batches []arrow.RecordBatch) (aligned []arrow.RecordBatch, release func(), err error) {
	at := -1
	var like *arrow.Schema
	for _, batch := range batches {
		if indices := batch.Schema().FieldIndices(Tombstone); len(indices) > 0 {
			at = max(at, indices[0])
			if like == nil && hasPayload(batch.Schema()) {
				like = batch.Schema()
			}
		}
	}
	if at < 0 {
		return batches, func() {}, nil
	}
	var made []arrow.RecordBatch
	release = func() {
		for _, batch := range made {
			batch.Release()
		}
	}
	aligned = slices.Clone(batches)
	replace := func(i int, batch arrow.RecordBatch) {
		made = append(made, batch)
		aligned[i] = batch
	}
	for i, batch := range batches {
		if !batch.Schema().HasField(Tombstone) && at <= int(batch.NumCols()) {
			replace(i, insertTombstones(mem, batch, at))
			if like == nil {
				like = aligned[i].Schema()
			}
		}
	}
	for i, batch := range aligned {
		if like != nil && batch.Schema() != like && !hasPayload(batch.Schema()) {
			filled, err := fillColumns(mem, batch, like)
			if err != nil {
				release()
				return nil, nil, err
			}
			replace(i, filled)
		}
	}
	return aligned, release, nil
}

func hasPayload(schema *arrow.Schema) bool {
	return slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return !IsReserved(f.Name) })
}

// insertTombstones adds a tombstone column that marks no row.
func insertTombstones(mem memory.Allocator, batch arrow.RecordBatch, at int) arrow.RecordBatch {
	values := arrays.NewBuffer(mem, int(batch.NumRows()+7)/8)
	defer values.Release()
	clear(values.Bytes())
	data := array.NewData(arrow.FixedWidthTypes.Boolean, int(batch.NumRows()), []*memory.Buffer{nil, values}, nil, 0, 0)
	defer data.Release()
	column := array.MakeFromData(data)
	defer column.Release()
	metadata := batch.Schema().Metadata()
	fields := slices.Insert(slices.Clone(batch.Schema().Fields()), at, TombstoneField())
	columns := slices.Insert(slices.Clone(batch.Columns()), at, column)
	return array.NewRecordBatch(arrow.NewSchema(fields, &metadata), columns, batch.NumRows())
}

// fillColumns arranges a batch's columns as in schema, with nulls for those
// that it does not have.
func fillColumns(mem memory.Allocator, batch arrow.RecordBatch, schema *arrow.Schema) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, schema.NumFields())
	defer func() { arrays.Release(columns) }()
	for _, field := range schema.Fields() {
		column := namedcols.Column(batch, field.Name)
		if column == nil || !arrow.TypeEqual(column.DataType(), field.Type) {
			var err error
			if column, err = arrays.Nulls(mem, field.Type, int(batch.NumRows())); err != nil {
				return nil, fmt.Errorf("column %q: %w", field.Name, err)
			}
		} else {
			column.Retain()
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, batch.NumRows()), nil
}
