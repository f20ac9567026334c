// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Names of the metadata columns of a decoded batch.
const (
	// KeyColumn holds the record key as Binary; a null key is null.
	KeyColumn = "__key"
	// TimestampColumn holds the record timestamp as Int64, in milliseconds since
	// the epoch.
	TimestampColumn = "__timestamp"
	// PartitionColumn holds the partition as Int32.
	PartitionColumn = "__partition"
	// OffsetColumn holds the offset as Int64.
	OffsetColumn = "__offset"
	// HeadersColumn holds the record headers as Binary: big-endian int32 numbers
	// of the header count and, for each header, the length of the key, the key,
	// the length of the value, the value. The length -1 stands for a null value.
	HeadersColumn = "__headers"
	// TombstoneColumn is a Boolean that is true for records without a value. Only
	// batches with at least one such record have the column, behind the other
	// metadata columns. All payload columns of such a row are null, and a sink
	// produces a record without a value for it.
	TombstoneColumn = "__tombstone"
)

const (
	payloadPrefix = "__payload_"
	// payloadNameKey is the metadata key of a renamed payload field.
	payloadNameKey = "krabka.payload.name"
)

// reservedColumns are the metadata columns in their canonical order.
var reservedColumns = [...]string{KeyColumn, TimestampColumn, PartitionColumn, OffsetColumn, HeadersColumn, TombstoneColumn}

// metadataFields are the fields of the metadata columns in canonical order.
var metadataFields = [...]arrow.Field{
	{Name: KeyColumn, Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: TimestampColumn, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: PartitionColumn, Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: OffsetColumn, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: HeadersColumn, Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: TombstoneColumn, Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
}

var errRowCounts = errors.New("payload and metadata row counts differ")

// isReservedColumn reports whether name is that of a metadata column.
func isReservedColumn(name string) bool {
	return strings.HasPrefix(name, "__") && slices.Contains(reservedColumns[:], name)
}

// PayloadColumn returns the name under which a decoded batch holds the payload
// field of that name: the name itself, or "__payload_" and the name where it is
// that of a metadata column.
func PayloadColumn(name string) string {
	if isReservedColumn(name) {
		return payloadPrefix + name
	}
	return name
}

// escapeFields renames payload fields that are named like a metadata column.
// It returns fields itself when there are none.
func escapeFields(fields []arrow.Field) []arrow.Field {
	if !slices.ContainsFunc(fields, func(f arrow.Field) bool { return isReservedColumn(f.Name) }) {
		return fields
	}
	taken := make(map[string]bool, len(fields))
	for _, field := range fields {
		taken[field.Name] = true
	}
	fields = slices.Clone(fields)
	for i := range fields {
		field := &fields[i]
		if !isReservedColumn(field.Name) {
			continue
		}
		name := payloadPrefix + field.Name
		for taken[name] {
			name = payloadPrefix + name
		}
		taken[name] = true
		pairs := field.Metadata.ToMap()
		pairs[payloadNameKey] = field.Name
		field.Name, field.Metadata = name, arrow.MetadataFrom(pairs)
	}
	return fields
}

// restoreField undoes what escapeFields did to a field.
func restoreField(field arrow.Field) arrow.Field {
	if !strings.HasPrefix(field.Name, payloadPrefix) {
		return field
	}
	name, ok := field.Metadata.GetValue(payloadNameKey)
	if !ok || !isReservedColumn(name) {
		return field
	}
	prefix, ok := strings.CutSuffix(field.Name, name)
	if !ok || prefix != strings.Repeat(payloadPrefix, len(prefix)/len(payloadPrefix)) {
		return field
	}
	pairs := field.Metadata.ToMap()
	delete(pairs, payloadNameKey)
	field.Name, field.Metadata = name, arrow.Metadata{}
	if len(pairs) > 0 {
		field.Metadata = arrow.MetadataFrom(pairs)
	}
	return field
}

// withMetadataSchema returns the schema of a decoded batch for a payload
// schema.
func withMetadataSchema(payload *arrow.Schema, tombstones bool) *arrow.Schema {
	count := len(metadataFields)
	if !tombstones {
		count--
	}
	fields := slices.Concat(escapeFields(payload.Fields()), metadataFields[:count])
	metadata := payload.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

// AttachMetadata returns a batch of payload's columns and the metadata columns
// of records, one row a record. Payload fields that are named like a metadata
// column are renamed, see [PayloadColumn]. Records without a value are marked
// in [TombstoneColumn]; payload has a row for them as well, whose values are
// not looked at by sinks.
//
// The caller owns the returned batch and keeps its own reference to payload.
func AttachMetadata(mem memory.Allocator, payload arrow.RecordBatch, records []ConsumedRecord) (arrow.RecordBatch, error) {
	return attachMetadata(mem, payload, records, nil, withMetadataSchema(payload.Schema(), hasTombstone(records)))
}

func hasTombstone(records []ConsumedRecord) bool {
	for i := range records {
		if records[i].Value == nil {
			return true
		}
	}
	return false
}

// attachMetadata is [AttachMetadata] for records that have counts[i] rows each,
// one where counts is nil, and a schema made by withMetadataSchema.
func attachMetadata(mem memory.Allocator, payload arrow.RecordBatch, records []ConsumedRecord, counts []int, schema *arrow.Schema) (arrow.RecordBatch, error) {
	rows := len(records)
	if counts != nil {
		rows = 0
		for _, count := range counts {
			rows += count
		}
	}
	if int64(rows) != payload.NumRows() {
		return nil, fmt.Errorf("%w: %d and %d", errRowCounts, payload.NumRows(), rows)
	}
	m := metadataBuilder{mem: mem, records: records, counts: counts, rows: rows}
	defer m.release()
	if err := m.build(schema.NumFields() - int(payload.NumCols())); err != nil {
		return nil, err
	}
	return array.NewRecordBatch(schema, slices.Concat(payload.Columns(), m.columns), payload.NumRows()), nil
}

// metadataBuilder makes the metadata columns of records in bulk.
type metadataBuilder struct {
	mem     memory.Allocator
	records []ConsumedRecord
	counts  []int
	rows    int
	columns []arrow.Array
}

func (m *metadataBuilder) release() { releaseArrays(m.columns) }

func (m *metadataBuilder) build(columns int) error {
	m.columns = make([]arrow.Array, 0, columns)
	if err := m.buildKeys(); err != nil {
		return err
	}
	timestamps := m.fixed(arrow.PrimitiveTypes.Int64, 8)
	fillRows(m, castBytes[int64](timestamps), func(r *ConsumedRecord) int64 { return r.Timestamp })
	partitions := m.fixed(arrow.PrimitiveTypes.Int32, 4)
	for i := range m.records {
		if partition := m.records[i].Partition; partition < 0 || partition > math.MaxInt32 {
			return fmt.Errorf("partition %d of record %d is not a valid partition number", partition, i)
		}
	}
	fillRows(m, castBytes[int32](partitions), func(r *ConsumedRecord) int32 { return int32(r.Partition) })
	offsets := m.fixed(arrow.PrimitiveTypes.Int64, 8)
	fillRows(m, castBytes[int64](offsets), func(r *ConsumedRecord) int64 { return r.Offset })
	if err := m.buildHeaders(); err != nil {
		return err
	}
	if columns > len(m.columns) {
		m.buildTombstones()
	}
	return nil
}

// count returns the number of rows of a record.
func (m *metadataBuilder) count(record int) int {
	if m.counts == nil {
		return 1
	}
	return m.counts[record]
}

// fixed adds a column without nulls and returns the memory of its values.
func (m *metadataBuilder) fixed(dt arrow.DataType, width int) []byte {
	values := newSizedBuffer(m.mem, m.rows*width)
	defer values.Release()
	m.add(dt, 0, nil, values)
	return values.Bytes()
}

func (m *metadataBuilder) add(dt arrow.DataType, nulls int, buffers ...*memory.Buffer) {
	data := array.NewData(dt, m.rows, buffers, nil, nulls, 0)
	defer data.Release()
	m.columns = append(m.columns, array.MakeFromData(data))
}

func fillRows[T any](m *metadataBuilder, target []T, value func(*ConsumedRecord) T) {
	if m.counts == nil {
		for i := range target {
			target[i] = value(&m.records[i])
		}
		return
	}
	at := 0
	for i, count := range m.counts {
		v := value(&m.records[i])
		for j := range count {
			target[at+j] = v
		}
		at += count
	}
}

func (m *metadataBuilder) buildKeys() error {
	size, nulls := 0, 0
	for i := range m.records {
		count := m.count(i)
		size += len(m.records[i].Key) * count
		if m.records[i].Key == nil {
			nulls += count
		}
	}
	offsets, values, err := m.binaryBuffers(KeyColumn, size)
	if err != nil {
		return err
	}
	defer releaseBuffers([]*memory.Buffer{offsets, values})
	var validity *memory.Buffer
	var bits []byte
	if nulls > 0 {
		validity = newSizedBuffer(m.mem, (m.rows+7)/8)
		defer validity.Release()
		bits = validity.Bytes()
		clear(bits)
	}
	ends, data := castBytes[int32](offsets.Bytes())[1:], values.Bytes()
	row, at := 0, 0
	for i := range m.records {
		key := m.records[i].Key
		for range m.count(i) {
			at += copy(data[at:], key)
			ends[row] = int32(at)
			if bits != nil && key != nil {
				bits[row>>3] |= 1 << (row & 7)
			}
			row++
		}
	}
	m.add(arrow.BinaryTypes.Binary, nulls, validity, offsets, values)
	return nil
}

// binaryBuffers returns buffers for offsets, of which the first is set, and
// values of a Binary column.
func (m *metadataBuilder) binaryBuffers(column string, size int) (offsets, values *memory.Buffer, err error) {
	if size > math.MaxInt32 {
		return nil, nil, fmt.Errorf("column %q: %d bytes do not fit one batch", column, size)
	}
	offsets = newSizedBuffer(m.mem, (m.rows+1)*4)
	castBytes[int32](offsets.Bytes())[0] = 0
	return offsets, newSizedBuffer(m.mem, size), nil
}

func (m *metadataBuilder) buildHeaders() error {
	size := 0
	for i := range m.records {
		one, err := headersSize(m.records[i].Headers)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		size += one * m.count(i)
	}
	offsets, values, err := m.binaryBuffers(HeadersColumn, size)
	if err != nil {
		return err
	}
	defer releaseBuffers([]*memory.Buffer{offsets, values})
	ends, data := castBytes[int32](offsets.Bytes())[1:], values.Bytes()[:0]
	row := 0
	for i := range m.records {
		start := len(data)
		for j := range m.count(i) {
			if j == 0 {
				data = appendHeaders(data, m.records[i].Headers)
			} else {
				data = append(data, data[start:ends[row-j]]...)
			}
			ends[row] = int32(len(data))
			row++
		}
	}
	m.add(arrow.BinaryTypes.Binary, 0, nil, offsets, values)
	return nil
}

func (m *metadataBuilder) buildTombstones() {
	values := newSizedBuffer(m.mem, (m.rows+7)/8)
	defer values.Release()
	bits := values.Bytes()
	clear(bits)
	row := 0
	for i := range m.records {
		for range m.count(i) {
			if m.records[i].Value == nil {
				bits[row>>3] |= 1 << (row & 7)
			}
			row++
		}
	}
	m.add(arrow.FixedWidthTypes.Boolean, 0, nil, values)
}
