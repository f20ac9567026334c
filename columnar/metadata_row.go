// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/headercol"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// PayloadBatch returns the payload columns of a batch: without metadata
// columns, and under the names that the payload had before it was decoded. The
// columns are shared, and the caller owns the returned batch.
func PayloadBatch(batch arrow.RecordBatch) arrow.RecordBatch {
	return newPayloadPlan(batch.Schema()).batch(batch)
}

// RowMetadata reads the metadata columns of a batch for a sink. It borrows the
// batch.
//
// A RowMetadata is not safe for concurrent use.
type RowMetadata struct {
	keys       *array.Binary
	timestamps *array.Int64
	headers    *array.Binary
	tombstones *array.Boolean

	keyBytes    []byte // copy of what keys refers to
	headerBytes []byte
	headerRow   int // row that parsed belongs to, or -1
	parsed      []RecordHeader
}

// NewRowMetadata finds the metadata columns of a batch. Columns that are absent
// or of another type than [BatchCodec] describes count as columns of nulls.
func NewRowMetadata(batch arrow.RecordBatch) *RowMetadata {
	m := &RowMetadata{headerRow: -1}
	m.keys, _ = namedcols.Column(batch, KeyColumn).(*array.Binary)
	m.timestamps, _ = namedcols.Column(batch, TimestampColumn).(*array.Int64)
	m.headers, _ = namedcols.Column(batch, HeadersColumn).(*array.Binary)
	m.tombstones, _ = namedcols.Column(batch, TombstoneColumn).(*array.Boolean)
	return m
}

// Tombstone reports whether the row stands for a record without a value.
func (m *RowMetadata) Tombstone(row int) bool {
	return m.tombstones != nil && m.tombstones.IsValid(row) && m.tombstones.Value(row)
}

// Record returns the record to produce for a row, but for its value, which is
// nil. A null key gives a nil key, a null timestamp 0 and null headers none.
// The record shares no memory with the batch.
//
// Malformed headers are an error that names the row.
func (m *RowMetadata) Record(row int) (ProduceRecord, error) {
	record := ProduceRecord{Key: m.key(row)}
	if m.timestamps != nil && m.timestamps.IsValid(row) {
		record.Timestamp = m.timestamps.Value(row)
	}
	var err error
	if record.Headers, err = m.headersOf(row); err != nil {
		return ProduceRecord{}, fmt.Errorf("column %q, row %d: %w", HeadersColumn, row, err)
	}
	return record, nil
}

func (m *RowMetadata) key(row int) []byte {
	if m.keys == nil || m.keys.IsNull(row) {
		return nil
	}
	if m.keyBytes == nil {
		m.keyBytes = append([]byte{}, m.keys.ValueBytes()...)
	}
	from := m.keys.ValueOffset(row) - m.keys.ValueOffset(0)
	to := from + m.keys.ValueLen(row)
	return m.keyBytes[from:to:to]
}

// noHeaders is the value of the headers column for a record without headers.
var noHeaders = []byte{0, 0, 0, 0}

// headerBlob returns the headers column's value; null and no headers are one.
func (m *RowMetadata) headerBlob(row int) []byte {
	if m.headers == nil || m.headers.IsNull(row) {
		return noHeaders
	}
	return m.headers.Value(row)
}

func (m *RowMetadata) headersOf(row int) ([]RecordHeader, error) {
	if m.headers == nil {
		return nil, nil
	}
	blob := m.headerBlob(row)
	if bytes.Equal(blob, noHeaders) {
		return nil, nil
	}
	if m.headerRow >= 0 && bytes.Equal(m.headerBlob(m.headerRow), blob) {
		return slices.Clone(m.parsed), nil
	}
	if m.headerBytes == nil {
		m.headerBytes = append([]byte{}, m.headers.ValueBytes()...)
	}
	from := m.headers.ValueOffset(row) - m.headers.ValueOffset(0)
	headers, err := headercol.Decode[RecordHeader](m.headerBytes[from : from+len(blob)])
	if err != nil {
		return nil, err
	}
	m.headerRow, m.parsed = row, headers
	return headers, nil
}

// sameRecord reports whether two rows that follow each other may be rows of one
// record: they agree in key, timestamp and headers, and neither stands for a
// record without a value.
func (m *RowMetadata) sameRecord(a, b int) bool {
	if m.Tombstone(a) || m.Tombstone(b) {
		return false
	}
	if m.keys != nil && (m.keys.IsNull(a) != m.keys.IsNull(b) ||
		m.keys.IsValid(a) && !bytes.Equal(m.keys.Value(a), m.keys.Value(b))) {
		return false
	}
	if m.timestamps != nil && m.timestampOf(a) != m.timestampOf(b) {
		return false
	}
	return bytes.Equal(m.headerBlob(a), m.headerBlob(b))
}

func (m *RowMetadata) timestampOf(row int) int64 {
	if m.timestamps.IsNull(row) {
		return 0
	}
	return m.timestamps.Value(row)
}

// recordRuns returns the row after each run of rows that make one record.
func (m *RowMetadata) recordRuns(rows int) []int {
	var ends []int
	for row := range rows {
		if row+1 == rows || !m.sameRecord(row, row+1) {
			ends = append(ends, row+1)
		}
	}
	return ends
}
