// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

var (
	errNoRecords    = errors.New("decode called with an empty record batch")
	errNoJSONSchema = errors.New("a JSON codec without a schema cannot decode")
	errTombstone    = errors.New("record has no value")
)

// batchTooLargeError says that so many records do not fit one batch.
type batchTooLargeError int

func (e batchTooLargeError) Error() string { return "the records' values do not fit one Arrow batch" }

// SplitAt says that half of the records may fit.
func (e batchTooLargeError) SplitAt() int { return int(e) / 2 }

// JSONCodec is a [BatchCodec] for records whose values are JSON objects, one
// row a record. It reads the bytes of records straight into the columns of a
// schema.
//
// Members without a column are checked and skipped, so that a schema of few
// columns is a cheap projection. A member that is null or missing is null, and
// an error where the column is not nullable. Of equal members the last counts.
// Numbers are exact or an error, where they are integers or decimals, and
// correctly rounded where they are floats.
//
//	Arrow type                         JSON, as it is read and written
//	Boolean                            true, false
//	Int8 to Int64, Uint8 to Uint64     number; also 6.5e1 where the value is integral
//	Float16, Float32, Float64          number
//	Decimal32 to Decimal256            number, or text with a number; written as number
//	Utf8, LargeUtf8                    text
//	the same, metadata krabka.json     any value, kept as text
//	Binary, LargeBinary, FixedSize     text in base64
//	Date32, Date64                     text 2006-01-02, or number of days or milliseconds
//	Time32, Time64                     text 15:04:05.999, or number in the column's unit
//	Timestamp                          text in RFC 3339, or number in the column's unit
//	Duration                           number in the column's unit
//	List, LargeList, FixedSizeList     array
//	Struct, Map                        object
//	dictionary, run-end encoded, list
//	and text view, union               as the values that they stand for
//
// Encode also writes binary views, and extension columns as their storage.
//
// A record without a value is a row of nulls that [TombstoneColumn] marks, and
// has no value again when it is encoded.
//
// A JSONCodec is safe for concurrent use by multiple goroutines.
type JSONCodec struct {
	mem          memory.Allocator
	root         *jsonrows.Node
	payload      *arrow.Schema
	full         [2]*arrow.Schema // with metadata columns; the second also for tombstones
	noTombstones bool
	form         jsonrows.Form
	key          []string
	plan         atomic.Pointer[jsonEncodePlan]
	perRow       atomic.Int64 // bytes of a record in the call before
	decoders     sync.Pool    // of *jsonDecoder
}

// JSONCodecOption configures a [JSONCodec].
type JSONCodecOption interface{ applyJSON(*JSONCodec) }

type jsonCodecOption func(*JSONCodec)

func (f jsonCodecOption) applyJSON(c *JSONCodec) { f(c) }

// WithoutJSONTombstones makes a record without a value a [RecordError].
func WithoutJSONTombstones() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.noTombstones = true })
}

// WithJSONKey makes the key of an encoded record a JSON object of these columns,
// in place of the value of [KeyColumn]. It is for the results of group-by
// operators, which have no record key. A tombstone keeps its key.
func WithJSONKey(columns ...string) JSONCodecOption {
	columns = slices.Clone(columns)
	return jsonCodecOption(func(c *JSONCodec) { c.key = columns })
}

// WithJSONEpochTimes writes dates, times of day and timestamps as numbers in
// the unit of their column, in place of text.
func WithJSONEpochTimes() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.form.EpochTimes = true })
}

// NewJSONCodec returns a codec that decodes into the fields of schema. A nil
// schema is for a codec that only encodes. The schema's fields need distinct
// names and types that the table at [JSONCodec] lists.
func NewJSONCodec(mem memory.Allocator, schema *arrow.Schema, options ...JSONCodecOption) (*JSONCodec, error) {
	c := &JSONCodec{mem: mem}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("columnar: JSON codec option %d is nil", i)
		}
		option.applyJSON(c)
	}
	if schema == nil {
		return c, nil
	}
	return c, c.decodeInto(schema)
}

// decodeInto makes a schema the codec's.
func (c *JSONCodec) decodeInto(schema *arrow.Schema) error {
	root, err := jsonrows.NewRoot(schema.Fields(), false)
	if err != nil {
		return err
	}
	c.root, c.payload = root, schema
	c.full = [2]*arrow.Schema{withMetadataSchema(schema, false), withMetadataSchema(schema, true)}
	c.decoders.New = func() any { return jsonrows.NewDecoder(c.mem, root) }
	return nil
}

// Project implements [ProjectingCodec]. A member without a column is checked and
// skipped, and not missed.
func (c *JSONCodec) Project(columns []string) (BatchCodec, error) {
	if c.payload == nil {
		return nil, errNoJSONSchema
	}
	var fields []arrow.Field
	for _, field := range c.payload.Fields() {
		if slices.Contains(columns, field.Name) {
			fields = append(fields, field)
		}
	}
	metadata := c.payload.Metadata()
	projected := &JSONCodec{mem: c.mem, noTombstones: c.noTombstones, form: c.form, key: c.key}
	return projected, projected.decodeInto(arrow.NewSchema(fields, &metadata))
}

// Schema returns the schema that the codec decodes into, nil for a codec that
// only encodes.
func (c *JSONCodec) Schema() *arrow.Schema { return c.payload }

// CheckSchema reports why the codec cannot encode batches of a schema: columns of
// a type without JSON, or no column for a part of [WithJSONKey].
func (c *JSONCodec) CheckSchema(schema *arrow.Schema) error {
	_, err := c.encodePlan(schema)
	return err
}

// Decode reads records into a batch with the codec's schema and the metadata
// columns. Values that cannot be read are reported together in a
// [DecodeError], with a [JSONError] for each.
//
// The caller owns the returned batch, which shares no memory with the records.
func (c *JSONCodec) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	if len(records) == 0 {
		return nil, errNoRecords
	}
	if c.root == nil {
		return nil, errNoJSONSchema
	}
	d := c.decoders.Get().(*jsonrows.Decoder)
	defer c.decoders.Put(d)
	defer d.Root.Release()
	d.Root.Begin(len(records))
	failed := failures{topic: topic, records: records}
	full := c.full[0]
	for i := range records {
		value := records[i].Value
		if value == nil {
			if c.noTombstones {
				failed.add(i, errTombstone)
				continue
			}
			full = c.full[1]
			d.NullRow()
			continue
		}
		if err := d.Document(value); err != nil {
			failed.add(i, err)
		}
	}
	if err := failed.err(); err != nil {
		return nil, err
	}
	if d.Root.Overflows() {
		return nil, batchTooLargeError(len(records))
	}
	columns, err := d.Columns()
	if err != nil {
		return nil, err
	}
	defer arrays.Release(columns)
	payload := array.NewRecordBatch(c.payload, columns, int64(len(records)))
	defer payload.Release()
	return attachMetadata(c.mem, payload, records, nil, full)
}

// jsonEncodePlan is what encoding needs to know about a schema.
type jsonEncodePlan struct {
	schema *arrow.Schema
	value  []jsonEncodeField
	key    []jsonEncodeField
}

type jsonEncodeField struct {
	index  int
	name   string
	prefix []byte
}

func (c *JSONCodec) encodePlan(schema *arrow.Schema) (*jsonEncodePlan, error) {
	if plan := c.plan.Load(); plan != nil && plan.schema == schema {
		return plan, nil
	}
	plan := &jsonEncodePlan{schema: schema}
	for i, field := range schema.Fields() {
		if metacols.IsReserved(field.Name) {
			continue
		}
		name := metacols.Restore(field).Name
		prefix, err := jsonrows.MemberPrefix(name, len(plan.value) == 0)
		if err != nil {
			return nil, &ColumnError{Column: name, Row: namedcols.NoRow, Cause: err}
		}
		plan.value = append(plan.value, jsonEncodeField{i, name, prefix})
	}
	for i, name := range c.key {
		at := slices.IndexFunc(plan.value, func(f jsonEncodeField) bool { return f.name == name })
		if at < 0 {
			return nil, namedcols.Missing(schema, name)
		}
		prefix, err := jsonrows.MemberPrefix(name, i == 0)
		if err != nil {
			return nil, &ColumnError{Column: name, Row: namedcols.NoRow, Cause: err}
		}
		plan.key = append(plan.key, jsonEncodeField{plan.value[at].index, name, prefix})
	}
	c.plan.Store(plan)
	return plan, nil
}

// Encode makes a record of each row: a JSON object of the payload columns in
// their order, with key, timestamp and headers from the metadata columns. A
// value without a JSON form is a [ColumnError].
func (c *JSONCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	plan, err := c.encodePlan(batch.Schema())
	if err != nil {
		return nil, err
	}
	rows := int(batch.NumRows())
	value, err := c.bind(batch, plan.value)
	if err != nil {
		return nil, err
	}
	key, err := c.bind(batch, plan.key)
	if err != nil {
		return nil, err
	}
	metadata := NewRowMetadata(batch)
	records := make([]ProduceRecord, rows)
	ends := make([]int, 2*rows) // of key and value in arena
	arena := make([]byte, 0, rows*int(c.perRow.Load()*9/8))
	for row := range rows {
		if records[row], err = metadata.Record(row); err != nil {
			return nil, err
		}
		if metadata.Tombstone(row) {
			ends[2*row], ends[2*row+1] = -1, -1
			continue
		}
		ends[2*row] = -1
		if c.key != nil {
			if arena, err = jsonrows.AppendObject(arena, key, row); err != nil {
				return nil, err
			}
			ends[2*row] = len(arena)
		}
		if arena, err = jsonrows.AppendObject(arena, value, row); err != nil {
			return nil, err
		}
		ends[2*row+1] = len(arena)
	}
	start := 0
	for row := range rows {
		if end := ends[2*row]; end >= 0 {
			records[row].Key = arena[start:end:end]
			start = end
		}
		if end := ends[2*row+1]; end >= 0 {
			records[row].Value = arena[start:end:end]
			start = end
		}
	}
	if rows > 0 {
		c.perRow.Store(int64(len(arena) / rows))
	}
	return records, nil
}

// bind returns the columns of a batch that a plan names.
func (c *JSONCodec) bind(batch arrow.RecordBatch, fields []jsonEncodeField) ([]jsonrows.Column, error) {
	columns := make([]jsonrows.Column, len(fields))
	for i, field := range fields {
		values, err := c.form.Appender(batch.Column(field.index), batch.Schema().Field(field.index).Metadata)
		if err != nil {
			return nil, &ColumnError{Column: field.name, Row: namedcols.NoRow, Cause: err}
		}
		columns[i] = jsonrows.Column{Name: field.name, Prefix: field.prefix, Append: values}
	}
	return columns, nil
}
