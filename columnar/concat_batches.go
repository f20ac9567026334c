// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// concatBatches joins batches of equal schemas, in order, for every Arrow type.
// The result has the first batch's schema object, unless a column is nullable in
// some batch and not in the first. One batch is retained and not copied. A batch
// without the tombstone column counts as a batch without tombstones.
//
// The caller owns the returned batch. Different schemas are an error that wraps
// [ErrSchemaMismatch] and names the position of the batch.
func concatBatches(mem memory.Allocator, batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 1 {
		batches[0].Retain()
		return batches[0], nil
	}
	if len(batches) == 0 {
		return nil, fmt.Errorf("no Arrow batches to concatenate")
	}
	batches, release, err := alignTombstones(mem, batches)
	if err != nil {
		return nil, err
	}
	defer release()
	schema := batches[0].Schema()
	for i, batch := range batches {
		common, ok := commonSchema(schema, batch.Schema())
		if !ok {
			return nil, &SchemaMismatchError{Index: i, Want: schema, Got: batch.Schema()}
		}
		schema = common
	}
	if schema == batches[0].Schema() {
		return arrays.ConcatBatches(mem, batches)
	}
	first := array.NewRecordBatch(schema, batches[0].Columns(), batches[0].NumRows())
	defer first.Release()
	return arrays.ConcatBatches(mem, append([]arrow.RecordBatch{first}, batches[1:]...))
}

// commonSchema returns the schema of rows of two schemas that differ at most in
// which of their columns are nullable: a itself where it takes the rows of b.
func commonSchema(a, b *arrow.Schema) (schema *arrow.Schema, ok bool) {
	if namedcols.SameSchema(a, b) {
		return a, true
	}
	if a.NumFields() != b.NumFields() || a.Endianness() != b.Endianness() {
		return nil, false
	}
	fields, widened := a.Fields(), false
	for i, other := range b.Fields() {
		if fields[i].Nullable != other.Nullable {
			widened = widened || other.Nullable
			fields[i].Nullable, other.Nullable = true, true
		}
		if !fields[i].Equal(other) {
			return nil, false
		}
	}
	if !widened {
		return a, true
	}
	metadata := a.Metadata()
	return arrow.NewSchema(fields, &metadata), true
}

// alignTombstones makes batches joinable of which only some hold tombstones:
// the others get a tombstone column, and batches of nothing but tombstones,
// whose payload columns their decoder could not know, get null columns. The
// returned batches are valid until release is called.
func alignTombstones(mem memory.Allocator, batches []arrow.RecordBatch) (aligned []arrow.RecordBatch, release func(), err error) {
	at := -1
	var like *arrow.Schema
	for _, batch := range batches {
		if indices := batch.Schema().FieldIndices(TombstoneColumn); len(indices) > 0 {
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
		if !batch.Schema().HasField(TombstoneColumn) && at <= int(batch.NumCols()) {
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
	return slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return !metacols.IsReserved(f.Name) })
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
	fields := slices.Insert(slices.Clone(batch.Schema().Fields()), at, metacols.TombstoneField())
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
