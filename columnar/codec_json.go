// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

var (
	errNoRecords     = errors.New("decode called with an empty record batch")
	errTombstone     = errors.New("record has no value")
	errScalarColumns = errors.New("JSON values that are no objects are written of batches with one payload column")
)

// batchTooLargeError says that so many records do not fit one batch.
type batchTooLargeError int

func (e batchTooLargeError) Error() string { return "the records' values do not fit one Arrow batch" }

// SplitAt says that half of the records may fit.
func (e batchTooLargeError) SplitAt() int { return int(e) / 2 }

// JSONCodec is a [BatchCodec] for records whose values are JSON objects, one
// row a record. [WithJSONArrays], [WithJSONLines] and [WithJSONScalars] are for other
// values, and [WithLenientJSON] for loose ones. It reads the bytes of records straight into the columns of a
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
	layout       jsonrows.Layout
	rules        jsonrows.Rules
	err          error // of the options
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

// WithJSONArrays decodes a value that is an array into a row for each of its
// elements, all with the metadata of the record. Other values stay one row, and an
// empty array is none. One element that cannot be read refuses the record.
func WithJSONArrays() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.layout.Arrays = true })
}

// WithJSONLines decodes a value that is any number of JSON texts, mostly one a line,
// into a row for each, all with the metadata of the record. Between two texts stands
// white space. An empty value is no row.
func WithJSONLines() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.layout.Lines = true })
}

// WithJSONScalars makes a row the value of the only column itself, such as 42 or
// "text", in place of an object. Encode writes such values, of batches that have one
// payload column.
func WithJSONScalars() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.layout.Scalars = true })
}

// WithLenientJSON decodes what producers write for each other: the text of numbers
// and of true and false, 1 and 0 for true and false and the other way around, numbers
// and true and false as text, times without a zone, which are taken as UTC, and a
// byte-order mark before the value. A value that does not fit its column is an error
// all the same.
func WithLenientJSON() JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) { c.rules.Drift, c.layout.Mark = true, true })
}

// WithJSONEpochUnit decodes numbers in columns of dates and timestamps as counts of
// unit since the Unix epoch, which may have a fraction, such as 1700000000.25 seconds.
// Parts below the unit of the column are cut off. The default is whole numbers in the
// unit of the column. The unit is [time.Second], [time.Millisecond],
// [time.Microsecond] or [time.Nanosecond].
func WithJSONEpochUnit(unit time.Duration) JSONCodecOption {
	return jsonCodecOption(func(c *JSONCodec) {
		switch unit {
		case time.Second, time.Millisecond, time.Microsecond, time.Nanosecond:
			c.rules.Epoch = unit
		default:
			c.err = fmt.Errorf("columnar: %v is no unit of JSON times: it is a second, a millisecond, a microsecond or a nanosecond", unit)
		}
	})
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
	if schema == nil || c.err != nil {
		return c, c.err
	}
	if c.layout.Scalars && schema.NumFields() != 1 {
		return nil, fmt.Errorf("columnar: JSON values that are no objects need a schema of one field, not %d", schema.NumFields())
	}
	return c, c.decodeInto(schema)
}

// decodeInto makes a schema the codec's.
func (c *JSONCodec) decodeInto(schema *arrow.Schema) error {
	root, err := jsonrows.NewRoot(schema.Fields(), c.rules)
	if err != nil {
		return err
	}
	c.root, c.payload = root, schema
	c.full = [2]*arrow.Schema{withMetadataSchema(schema, false), withMetadataSchema(schema, true)}
	c.decoders.New = func() any { return jsonrows.NewDecoder(c.mem, root) }
	return nil
}

// Project implements [ProjectingCodec]. A member without a column is checked and
// skipped, and not missed. A value that is no object is its only column in any case.
func (c *JSONCodec) Project(columns []string) (BatchCodec, error) {
	if c.payload == nil {
		return nil, errNoJSONSchema
	}
	if c.layout.Scalars {
		return c, nil
	}
	var fields []arrow.Field
	for _, field := range c.payload.Fields() {
		if slices.Contains(columns, field.Name) {
			fields = append(fields, field)
		}
	}
	metadata := c.payload.Metadata()
	projected := &JSONCodec{mem: c.mem, noTombstones: c.noTombstones, form: c.form, layout: c.layout, rules: c.rules, key: c.key}
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
	var counts []int // rows of each record, nil where each has one
	if c.layout != (jsonrows.Layout{}) {
		counts = make([]int, len(records))
	}
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
			if counts != nil {
				counts[i] = 1
			}
			continue
		}
		var err *JSONError
		if counts == nil {
			err = d.Document(value)
		} else {
			counts[i], err = d.Rows(value, c.layout)
		}
		if err != nil {
			failed.add(i, c.explain(value, err))
		}
	}
	if err := failed.err(); err != nil {
		return nil, err
	}
	if d.Root.Overflows() {
		return nil, batchTooLargeError(len(records))
	}
	rows := d.Root.Count
	columns, err := d.Columns()
	if err != nil {
		return nil, err
	}
	defer arrays.Release(columns)
	payload := array.NewRecordBatch(c.payload, columns, int64(rows))
	defer payload.Release()
	return attachMetadata(c.mem, payload, records, counts, full)
}

// explain adds to the error of a value that is no JSON object from its first byte on
// what the value looks like, and how it is read.
func (c *JSONCodec) explain(value []byte, err *JSONError) *JSONError {
	if err.Path != "" || err.Offset != 0 || len(value) == 0 {
		return err
	}
	hint := ""
	switch {
	case bytes.HasPrefix(value, []byte(jsonrows.ByteOrderMark)):
		hint = "it begins with a byte-order mark, which WithLenientJSON skips"
	case value[0] == 0 && len(value) > 5:
		hint = fmt.Sprintf("it looks like a record of a schema registry, with schema id %d: package columnarschema reads it", binary.BigEndian.Uint32(value[1:]))
	case value[0] == '[' && !c.layout.Arrays:
		hint = "WithJSONArrays reads an array as rows"
	case value[0] != '{' && !c.layout.Scalars && json.Valid(value):
		hint = "WithJSONScalars reads a value that is no object"
	}
	if hint != "" {
		err.Cause = fmt.Errorf("%w: %s", err.Cause, hint)
	}
	return err
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
		if err == nil && c.layout.Scalars && len(plan.value) > 0 {
			err = errScalarColumns
		}
		if err != nil {
			return nil, &ColumnError{Column: name, Row: namedcols.NoRow, Cause: err}
		}
		plan.value = append(plan.value, jsonEncodeField{i, name, prefix})
	}
	if c.layout.Scalars && len(plan.value) == 0 {
		return nil, errScalarColumns
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
// their order, or with [WithJSONScalars] the value of the only one, with key, timestamp and headers from the metadata columns. A
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
		if c.layout.Scalars {
			if arena, err = value[0].Append(arena, row); err != nil {
				return nil, &ColumnError{Column: value[0].Name, Row: row, Cause: err}
			}
		} else if arena, err = jsonrows.AppendObject(arena, value, row); err != nil {
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
