// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ValueSerde converts values of a type to and from record values. The serdes
// of package schema are ValueSerdes.
//
// A serde that a codec uses must be safe for concurrent use.
type ValueSerde[T any] interface {
	// Serialize returns the record value for value. A nil result is a record
	// without a value.
	Serialize(topic string, value T) ([]byte, error)
	// Deserialize reads a record value, which it does not keep.
	Deserialize(topic string, data []byte) (T, error)
}

// RowBridge converts rows of a type to and from batches that hold the payload
// columns alone.
//
// A bridge that a codec uses must be safe for concurrent use.
type RowBridge[T any] interface {
	// RowsToBatch returns a batch with a row for each of rows. The caller owns
	// the returned batch.
	RowsToBatch(rows []T, mem memory.Allocator) (arrow.RecordBatch, error)
	// BatchToRows returns a row for each row of batch. The rows share no memory
	// with the batch.
	BatchToRows(batch arrow.RecordBatch) ([]T, error)
}
