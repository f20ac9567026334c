// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/jsontable"
)

// RowCodec is a [BatchCodec] for records that hold one row each, in the format
// of a [ValueSerde]. A [RowBridge] turns the rows into columns.
//
// The serde and the bridge see no records without a value: those are rows of
// nulls that [TombstoneColumn] marks, and have no value again when they are
// encoded.
//
// A RowCodec is safe for concurrent use by multiple goroutines where its serde
// and bridge are.
type RowCodec[T any] struct {
	serde    ValueSerde[T]
	bridge   RowBridge[T]
	mem      memory.Allocator
	decoded  metadataSchemas
	payloads payloadPlans
}

// NewRowCodec returns a codec for the rows that valueSerde reads and writes.
func NewRowCodec[T any](valueSerde ValueSerde[T], bridge RowBridge[T], mem memory.Allocator) *RowCodec[T] {
	return &RowCodec[T]{serde: valueSerde, bridge: bridge, mem: mem}
}

// Decode reads each record as a row. What the serde cannot read, and what the
// bridge blames on a row with a [RowError], is reported in a [DecodeError] with
// the serde's and the bridge's own errors. Another error of the bridge is
// returned as it is.
//
// The caller owns the returned batch.
func (c *RowCodec[T]) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	rows := make([]T, 0, len(records))
	live := make([]int, 0, len(records))    // the records of rows
	taken := make([]int32, 0, len(records)) // the row of each record, or -1
	failed := failures{topic: topic, records: records}
	for i := range records {
		if records[i].Value == nil {
			taken = append(taken, -1)
			continue
		}
		row, err := c.serde.Deserialize(topic, records[i].Value)
		if err != nil {
			failed.add(i, err)
			continue
		}
		taken = append(taken, int32(len(rows)))
		rows, live = append(rows, row), append(live, i)
	}
	payload, err := c.bridge.RowsToBatch(rows, c.mem)
	if err != nil {
		blamed := rowErrors(err, nil)
		for _, row := range blamed {
			if row.Row < 0 || row.Row >= len(live) {
				return nil, err
			}
			failed.add(live[row.Row], row.Cause)
		}
		if len(blamed) == 0 && len(failed.failed) == 0 {
			return nil, err
		}
		return nil, failed.sorted()
	}
	defer func() { payload.Release() }()
	if err := failed.err(); err != nil {
		return nil, err
	}
	if payload.NumRows() != int64(len(rows)) {
		return nil, fmt.Errorf("%w: %d and %d", errRowCounts, payload.NumRows(), len(rows))
	}
	tombstones := len(rows) < len(records)
	if tombstones {
		spread, err := arrays.GatherBatch(c.mem, payload, taken)
		if err != nil {
			return nil, err
		}
		payload.Release()
		payload = spread
	}
	return attachMetadata(c.mem, payload, records, nil, c.decoded.of(payload.Schema(), tombstones))
}

// Encode makes a record of each row, with key, timestamp and headers from the
// metadata columns. Errors of the serde and the bridge are wrapped.
func (c *RowCodec[T]) Encode(topic string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	payload := c.payloads.batch(batch)
	defer func() { payload.Release() }()
	metadata := NewRowMetadata(batch)
	records := make([]ProduceRecord, batch.NumRows())
	live := make([]int32, 0, len(records))
	for i := range records {
		var err error
		if records[i], err = metadata.Record(i); err != nil {
			return nil, err
		}
		if !metadata.Tombstone(i) {
			live = append(live, int32(i))
		}
	}
	if len(live) == 0 {
		return records, nil
	}
	if len(live) < len(records) {
		rows, err := arrays.GatherBatch(c.mem, payload, live)
		if err != nil {
			return nil, err
		}
		payload.Release()
		payload = rows
	}
	rows, err := c.bridge.BatchToRows(payload)
	if err != nil {
		return nil, err
	}
	if len(rows) != len(live) {
		return nil, fmt.Errorf("columnar: the bridge made %d rows of a batch of %d", len(rows), len(live))
	}
	for i, row := range rows {
		if records[live[i]].Value, err = c.serde.Serialize(topic, row); err != nil {
			return nil, &RowError{Row: int(live[i]), Cause: err}
		}
	}
	return records, nil
}

// RowError says that a row could not be converted. A [RowBridge] returns it,
// alone or joined with others as [errors.Join] does, to blame rows. Its fields are
//
//	Row   int
//	Cause error // why the row could not be converted; Unwrap returns it
type RowError = jsontable.RowError

// rowErrors collects the row errors in an error's tree.
func rowErrors(err error, found []*RowError) []*RowError {
	var row *RowError
	switch err := err.(type) {
	case *RowError:
		return append(found, err)
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			found = rowErrors(one, found)
		}
		return found
	}
	if errors.As(err, &row) {
		return append(found, row)
	}
	return found
}
