// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
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
	for i, batch := range batches {
		if batch.Schema() != schema && !batch.Schema().Equal(schema) {
			return nil, &SchemaMismatchError{Index: i, Want: schema, Got: batch.Schema()}
		}
	}
	return arrays.ConcatBatches(mem, batches)
}
