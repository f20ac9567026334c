// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"

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
	batches, release, err := metacols.AlignTombstones(mem, batches)
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
