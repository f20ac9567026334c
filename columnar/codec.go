// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BatchCodec converts between the records of a topic and Arrow batches.
// Sources decode with one and sinks encode with one.
//
// A decoded batch holds the payload columns in payload order, then the five
// metadata columns [KeyColumn], [TimestampColumn], [PartitionColumn],
// [OffsetColumn] and [HeadersColumn]. A batch with tombstones has
// [TombstoneColumn] behind them. [AttachMetadata] makes such a batch of a
// payload, and [RowMetadata] and [PayloadBatch] take it apart.
//
// A codec is used by several partitions at a time and must be safe for
// concurrent use.
type BatchCodec interface {
	// Decode reads records, of which there is at least one, into one batch in
	// record order. Records that cannot be read are reported together in a
	// [DecodeError].
	//
	// Records that are too many for one batch are an error with a method SplitAt,
	// which returns how many of the first records fit as an int: a source decodes
	// these, and the others in further batches.
	//
	// The caller owns the returned batch. The batch may use the memory of the
	// records' keys and values, which do not change; Decode does not keep the
	// slice of records or their headers.
	Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error)
	// Encode makes the records that a sink produces for a batch, in row order.
	// It neither releases nor keeps the batch, and the records share no memory
	// with it.
	Encode(topic string, batch arrow.RecordBatch) ([]ProduceRecord, error)
}

// SchemaCodec is a [BatchCodec] that can tell about columns before the first
// record, so that [Topology.Build] finds what does not fit.
type SchemaCodec interface {
	BatchCodec
	// Schema returns the payload columns of decoded batches, or nil where they are
	// known only when there are records.
	Schema() *arrow.Schema
	// CheckSchema reports why batches of a schema, metadata columns among them,
	// cannot be encoded.
	CheckSchema(schema *arrow.Schema) error
}

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
