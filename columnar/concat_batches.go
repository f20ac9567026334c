// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// concatBatches joins batches of equal schemas, in order, for every Arrow type.
// The result has the first batch's schema object. One batch is retained and
// not copied. A batch without the tombstone column counts as a batch without
// tombstones.
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
	rows := int64(0)
	for i, batch := range batches {
		if batch.Schema() != schema && !batch.Schema().Equal(schema) {
			return nil, &SchemaMismatchError{Index: i, Want: schema, Got: batch.Schema()}
		}
		rows += batch.NumRows()
	}
	columns := make([]arrow.Array, 0, schema.NumFields())
	defer func() { arrays.Release(columns) }()
	parts := make([]arrow.ArrayData, len(batches))
	for i := range schema.NumFields() {
		for j, batch := range batches {
			parts[j] = batch.Column(i).Data()
		}
		data, err := arrays.Concat(mem, parts)
		if err != nil {
			return nil, fmt.Errorf("cannot concatenate Arrow batches: column %q: %w", schema.Field(i).Name, err)
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(schema, columns, rows), nil
}
