// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/headercol"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// Names of the metadata columns of a decoded batch.
const (
	// KeyColumn, "__key", holds the record key as Binary; a null key is null.
	KeyColumn = metacols.Key
	// TimestampColumn, "__timestamp", holds the record timestamp as Int64, in
	// milliseconds since the epoch.
	TimestampColumn = metacols.Timestamp
	// PartitionColumn, "__partition", holds the partition as Int32.
	PartitionColumn = metacols.Partition
	// OffsetColumn, "__offset", holds the offset as Int64.
	OffsetColumn = metacols.Offset
	// HeadersColumn, "__headers", holds the record headers as Binary: big-endian
	// int32 numbers of the header count and, for each header, the length of the
	// key, the key, the length of the value, the value. The length -1 stands for a
	// null value.
	HeadersColumn = metacols.Headers
	// TombstoneColumn, "__tombstone", is a Boolean that is true for records without
	// a value. Only batches with at least one such record have the column, behind
	// the other metadata columns; in expressions it is false for every row of the
	// others.
	// All payload columns of such a row are null, and a sink produces a record
	// without a value for it.
	TombstoneColumn = metacols.Tombstone
)

var errRowCounts = errors.New("payload and metadata row counts differ")

// PayloadColumn returns the name under which a decoded batch holds the payload
// field of that name: the name itself, or "__payload_" and the name where it is
// that of a metadata column.
func PayloadColumn(name string) string { return metacols.Payload(name) }

// withMetadataSchema returns the schema of a decoded batch for a payload
// schema.
func withMetadataSchema(payload *arrow.Schema, tombstones bool) *arrow.Schema {
	fields := slices.Concat(metacols.Escape(payload.Fields()), metacols.Fields(tombstones))
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
	buffers []*memory.Buffer
	columns []arrow.Array
}

func (m *metadataBuilder) release() {
	arrays.Release(m.buffers)
	arrays.Release(m.columns)
}

// newBuffer returns a buffer of that many bytes, which release releases.
func (m *metadataBuilder) newBuffer(size int) *memory.Buffer {
	buffer := arrays.NewBuffer(m.mem, size)
	m.buffers = append(m.buffers, buffer)
	return buffer
}

func (m *metadataBuilder) build(columns int) error {
	m.columns = make([]arrow.Array, 0, columns)
	keys, headers, err := m.measure()
	if err != nil {
		return err
	}
	timestamps, partitions, offsets := m.newBuffer(m.rows*8), m.newBuffer(m.rows*4), m.newBuffer(m.rows*8)
	m.fillNumbers(arrays.Cast[int64](timestamps.Bytes()), arrays.Cast[int32](partitions.Bytes()), arrays.Cast[int64](offsets.Bytes()))
	m.fillKeys(keys)
	m.fillHeaders(headers)

	m.add(arrow.BinaryTypes.Binary, keys.nulls, keys.validity, keys.offsets, keys.values)
	m.add(arrow.PrimitiveTypes.Int64, 0, nil, timestamps)
	m.add(arrow.PrimitiveTypes.Int32, 0, nil, partitions)
	m.add(arrow.PrimitiveTypes.Int64, 0, nil, offsets)
	m.add(arrow.BinaryTypes.Binary, 0, nil, headers.offsets, headers.values)
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

func (m *metadataBuilder) add(dt arrow.DataType, nulls int, buffers ...*memory.Buffer) {
	data := array.NewData(dt, m.rows, buffers, nil, nulls, 0)
	defer data.Release()
	m.columns = append(m.columns, array.MakeFromData(data))
}

// binaryBuffers are the buffers of a Binary column.
type binaryBuffers struct {
	validity, offsets, values *memory.Buffer
	nulls                     int
}

func (m *metadataBuilder) newBinaryBuffers(column string, size, nulls int) (*binaryBuffers, error) {
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("column %q: %d bytes do not fit one batch", column, size)
	}
	b := &binaryBuffers{offsets: m.newBuffer((m.rows + 1) * 4), values: m.newBuffer(size), nulls: nulls}
	arrays.Cast[int32](b.offsets.Bytes())[0] = 0
	if nulls > 0 {
		b.validity = m.newBuffer((m.rows + 7) / 8)
		clear(b.validity.Bytes())
	}
	return b, nil
}

// measure checks the records and returns buffers for keys and headers.
func (m *metadataBuilder) measure() (keys, headers *binaryBuffers, err error) {
	keySize, nulls, headerSize := 0, 0, 4*m.rows
	for i := range m.records {
		record := &m.records[i]
		if record.Partition < 0 || record.Partition > math.MaxInt32 {
			return nil, nil, fmt.Errorf("partition %d of record %d is not a valid partition number", record.Partition, i)
		}
		count := m.count(i)
		keySize += len(record.Key) * count
		if record.Key == nil {
			nulls += count
		}
		if len(record.Headers) > 0 {
			size, err := headercol.Size(record.Headers)
			if err != nil {
				return nil, nil, fmt.Errorf("record %d: %w", i, err)
			}
			headerSize += (size - 4) * count
		}
	}
	if keys, err = m.newBinaryBuffers(KeyColumn, keySize, nulls); err != nil {
		return nil, nil, err
	}
	headers, err = m.newBinaryBuffers(HeadersColumn, headerSize, 0)
	return keys, headers, err
}

func (m *metadataBuilder) fillNumbers(timestamps []int64, partitions []int32, offsets []int64) {
	row := 0
	for i := range m.records {
		record := &m.records[i]
		for range m.count(i) {
			timestamps[row], partitions[row], offsets[row] = record.Timestamp, int32(record.Partition), record.Offset
			row++
		}
	}
}

func (m *metadataBuilder) fillKeys(keys *binaryBuffers) {
	ends, data := arrays.Cast[int32](keys.offsets.Bytes())[1:], keys.values.Bytes()
	var bits []byte
	if keys.validity != nil {
		bits = keys.validity.Bytes()
	}
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
}

func (m *metadataBuilder) fillHeaders(headers *binaryBuffers) {
	ends, data := arrays.Cast[int32](headers.offsets.Bytes())[1:], headers.values.Bytes()
	if len(data) == 4*m.rows { // no record has any
		clear(data)
		for row := range ends {
			ends[row] = int32(4 * (row + 1))
		}
		return
	}
	data = data[:0]
	row := 0
	for i := range m.records {
		start := len(data)
		for j := range m.count(i) {
			if j == 0 {
				data = headercol.Append(data, m.records[i].Headers)
			} else {
				data = append(data, data[start:ends[row-j]]...)
			}
			ends[row] = int32(len(data))
			row++
		}
	}
}

func (m *metadataBuilder) buildTombstones() {
	values := m.newBuffer((m.rows + 7) / 8)
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

// metadataSchemas makes the schemas of decoded batches, and remembers those of
// the last payload schema: batches of one source then share a schema object.
type metadataSchemas struct {
	last atomic.Pointer[metadataSchemaPair]
}

type metadataSchemaPair struct {
	payload *arrow.Schema
	full    [2]*arrow.Schema // the second with a tombstone column
}

func (c *metadataSchemas) of(payload *arrow.Schema, tombstones bool) *arrow.Schema {
	pair := c.last.Load()
	if pair == nil || pair.payload != payload {
		pair = &metadataSchemaPair{payload, [2]*arrow.Schema{withMetadataSchema(payload, false), withMetadataSchema(payload, true)}}
		c.last.Store(pair)
	}
	if tombstones {
		return pair.full[1]
	}
	return pair.full[0]
}

// payloadPlans tells the payload columns of batches, and remembers those of the
// last schema.
type payloadPlans struct {
	last atomic.Pointer[payloadPlan]
}

type payloadPlan struct {
	schema  *arrow.Schema
	payload *arrow.Schema
	indexes []int
}

func newPayloadPlan(schema *arrow.Schema) *payloadPlan {
	plan := &payloadPlan{schema: schema}
	fields := make([]arrow.Field, 0, schema.NumFields())
	for i, field := range schema.Fields() {
		if !metacols.IsReserved(field.Name) {
			fields = append(fields, metacols.Restore(field))
			plan.indexes = append(plan.indexes, i)
		}
	}
	metadata := schema.Metadata()
	plan.payload = arrow.NewSchema(fields, &metadata)
	return plan
}

// batch returns the payload columns of a batch, which the caller owns.
func (p *payloadPlan) batch(batch arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, len(p.indexes))
	for i, index := range p.indexes {
		columns[i] = batch.Column(index)
	}
	return array.NewRecordBatch(p.payload, columns, batch.NumRows())
}

// batch is [PayloadBatch] with a schema object that batches share.
func (c *payloadPlans) batch(batch arrow.RecordBatch) arrow.RecordBatch {
	plan := c.last.Load()
	if plan == nil || plan.schema != batch.Schema() {
		plan = newPayloadPlan(batch.Schema())
		c.last.Store(plan)
	}
	return plan.batch(batch)
}

// maxRememberedTopics bounds how many topics a codec remembers schemas of.
const maxRememberedTopics = 256

// topicSchemas remembers the last payload schema of each topic, for batches of
// nothing but tombstones.
type topicSchemas struct {
	mu    sync.Mutex // guards the map
	known map[string]*arrow.Schema
}

func (t *topicSchemas) remember(topic string, schema *arrow.Schema) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) == maxRememberedTopics {
		t.known = make(map[string]*arrow.Schema)
	}
	t.known[topic] = schema
}

// recall returns the topic's schema, or one without fields.
func (t *topicSchemas) recall(topic string) *arrow.Schema {
	t.mu.Lock()
	defer t.mu.Unlock()
	if schema := t.known[topic]; schema != nil {
		return schema
	}
	return noFields
}

var noFields = arrow.NewSchema(nil, nil)
