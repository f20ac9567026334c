// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// JSONSchemaBatchCodec is a [columnar.BatchCodec] for JSON records in the frames of
// a schema registry. It takes the frame off and reads the document with a
// [columnar.JSONCodec], straight into the columns that
// [columnar.SchemaFromJSONSchema] gives for the codec's own schema, whatever the
// writer's.
//
// Documents are not validated unless [WithValidation] asks for it. Without it, the
// writer's schema is not needed to read a record, and is not fetched.
//
// A JSONSchemaBatchCodec is safe for concurrent use by multiple goroutines.
type JSONSchemaBatchCodec struct {
	mem     memory.Allocator
	options *codecOptions
	text    string
	cache   *schema.SchemaCache
	framer  *schema.Framer[*jsonPlan, *jsonPlan]
	rows    *columnar.JSONCodec
	// required are the members that are written also where they are null.
	required map[string]bool
}

var _ columnar.ProjectingCodec = (*JSONSchemaBatchCodec)(nil)

// WithValidation refuses documents that break the schema that they were written
// with, and rows that break the schema that they are written under, with a
// [*schema.ValidationError]. It is an option of JSON Schema codecs.
func WithValidation() CodecOption {
	return func(o *codecOptions) {
		o.needsFormat = append(o.needsFormat, limitedOption{"WithValidation", schema.KindJSON})
		o.validate = true
	}
}

// NewJSONSchemaBatchCodec returns a codec whose columns are the properties of
// schemaText, which is registered as given without white space. It does no I/O.
// [AsKey] and [WithKey] are not for it.
func NewJSONSchemaBatchCodec(schemaText string, cache *schema.SchemaCache, mem memory.Allocator, options ...CodecOption) (*JSONSchemaBatchCodec, error) {
	o, err := codecOptionsFor(schema.KindJSON, options)
	if err != nil {
		return nil, err
	}
	return newJSONSchemaCodec(schemaText, cache, mem, o)
}

func newJSONSchemaCodec(schemaText string, cache *schema.SchemaCache, mem memory.Allocator, o *codecOptions) (*JSONSchemaBatchCodec, error) {
	c := &JSONSchemaBatchCodec{mem: mem, options: o, cache: cache, text: schemaText}
	if err := c.init(); err != nil {
		return nil, textPrefix.Wrap(err, "JSON Schema codec")
	}
	return c, nil
}

// Project implements [columnar.ProjectingCodec] as [WithColumns] does.
func (c *JSONSchemaBatchCodec) Project(columns []string) (columnar.BatchCodec, error) {
	o := *c.options
	o.projection, o.projected = columns, true
	return newJSONSchemaCodec(c.text, c.cache, c.mem, &o)
}

func (c *JSONSchemaBatchCodec) init() error {
	text := c.text
	switch {
	case c.mem == nil:
		return errNoAllocator
	case c.options.bare && c.options.tombstones == TombstoneKeep:
		return errBareTombstones
	case c.options.role == schema.RoleKey || c.options.key != nil:
		return errJSONKey
	}
	root := jsonRoot(text)
	c.required = root.required
	columns, err := columnar.SchemaFromJSONSchema(text)
	if err != nil {
		return err
	}
	if columns, err = c.options.project(columns); err != nil {
		return err
	}
	if c.rows, err = columnar.NewJSONCodec(c.mem, columns); err != nil {
		return err
	}
	spec := schema.FramerSpec{Kind: schema.KindJSON, Schema: text, RecordName: root.title, WriterUnused: !c.options.validate}
	c.framer, err = schema.NewFramer(spec, c.cache, c.options.role, schema.FramerFormat[*jsonPlan, *jsonPlan](jsonFormat{c.options.validate}), c.options.serde...)
	if err != nil || !c.options.validate {
		return err
	}
	references, err := schema.ReferencesOf(c.options.serde...)
	if err != nil {
		return err
	}
	_, err = newJSONPlan(schema.ResolvedSchema{Schema: text, Dependencies: references})
	return err
}

var errJSONKey = errors.New("AsKey and WithKey are not for JSON Schema codecs")

// jsonRoot returns what the root of a schema says: its title, which record
// strategies use, and the members that it requires.
func jsonRoot(text string) (root struct {
	title    string
	required map[string]bool
}) {
	document, _ := jsoncheck.ParseSchema([]byte(text)) // faults are found by those who compile it
	object, _ := document.(map[string]any)
	root.title, _ = object["title"].(string)
	root.required = map[string]bool{}
	names, _ := object["required"].([]any)
	for _, name := range names {
		if name, ok := name.(string); ok {
			root.required[name] = true
		}
	}
	return root
}

// jsonFormat compiles the schemas of documents.
type jsonFormat struct{ validate bool }

// jsonPlan reads and writes documents of one schema.
type jsonPlan struct{ validator *jsoncheck.Validator } // nil without validation

func (f jsonFormat) CompileDecoder(writer schema.ResolvedSchema) (*jsonPlan, error) {
	if !f.validate {
		return new(jsonPlan), nil
	}
	return newJSONPlan(writer)
}

func (f jsonFormat) CompileEncoder(target schema.ResolvedSchema) (*jsonPlan, []int, error) {
	plan, err := f.CompileDecoder(target)
	return plan, nil, err
}

func newJSONPlan(s schema.ResolvedSchema) (*jsonPlan, error) {
	var named []jsoncheck.Source
	for _, reference := range s.Dependencies {
		named = append(named, jsoncheck.Source{Name: reference.Name, Text: reference.Schema})
	}
	validator, err := new(jsoncheck.Dialect).Validator(s.Schema, named)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	}
	return &jsonPlan{validator}, nil
}

// check reports why a document breaks the schema.
func (p *jsonPlan) check(body []byte) error {
	if p.validator == nil {
		return nil
	}
	document, err := jsoncheck.ParseDocument(body)
	if err != nil {
		return err
	}
	return jsoncheck.Validate(p.validator, nil, document)
}

// keyPart implements [KeyCodec], which the codec cannot be.
func (c *JSONSchemaBatchCodec) keyPart() (*part, error) { return nil, errJSONKey }

// RegisterSubject interns the codec's schema for topic, to be resolved by the next
// [schema.SchemaCache.Prewarm].
func (c *JSONSchemaBatchCodec) RegisterSubject(topic string) { c.framer.RegisterSubject(topic) }

// Subject returns the subject of the codec's schema for topic.
func (c *JSONSchemaBatchCodec) Subject(topic string) string { return c.framer.Subject(topic) }

// ArrowSchema returns the schema of the payload columns. It is the same object in
// every call.
func (c *JSONSchemaBatchCodec) ArrowSchema() *arrow.Schema { return c.rows.Schema() }

// Schema returns the schema of the payload columns.
func (c *JSONSchemaBatchCodec) Schema() *arrow.Schema { return c.rows.Schema() }

// CheckSchema reports why batches of a schema cannot be encoded.
func (c *JSONSchemaBatchCodec) CheckSchema(schema *arrow.Schema) error {
	return c.rows.CheckSchema(schema)
}

// Decode reads records into one batch: the payload columns of ArrowSchema, then the
// metadata columns. Its errors are those of the other codecs of this package.
//
// The caller owns the returned batch, which shares no memory with the records.
func (c *JSONSchemaBatchCodec) Decode(topic string, records []columnar.ConsumedRecord) (arrow.RecordBatch, error) {
	d := jsonBatch{codec: c, topic: topic, records: records, frames: c.framer.Reader(topic)}
	d.unframe()
	if len(d.pending) > 0 {
		return nil, &columnar.DecodeError{Records: d.pending}
	}
	return d.read()
}

// jsonBatch is one call of Decode.
type jsonBatch struct {
	codec   *JSONSchemaBatchCodec
	topic   string
	records []columnar.ConsumedRecord
	frames  *schema.FrameReader[*jsonPlan, *jsonPlan]

	bodies          []columnar.ConsumedRecord // with bare values
	indexes         []int                     // of bodies among records
	failed, pending []*columnar.RecordError
}

// unframe takes the frames off the values and validates the documents.
func (d *jsonBatch) unframe() {
	for i := range d.records {
		record := d.records[i]
		if record.Value == nil {
			switch d.codec.options.tombstones {
			case TombstoneReject:
				d.fail(i, errTombstone)
				continue
			case TombstoneSkip:
				continue
			}
		} else {
			body, err := d.body(&record)
			if err != nil {
				d.fail(i, err)
				continue
			}
			record.Value = body
		}
		d.bodies, d.indexes = append(d.bodies, record), append(d.indexes, i)
	}
}

func (d *jsonBatch) body(record *columnar.ConsumedRecord) ([]byte, error) {
	plan, body, err := d.split(record)
	if err != nil {
		return nil, err
	}
	if err := plan.check(body); err != nil {
		return nil, d.frames.Failure(err)
	}
	return body, nil
}

// split finds the schema of a record: by its header where it has one, otherwise by
// the frame.
func (d *jsonBatch) split(record *columnar.ConsumedRecord) (*jsonPlan, []byte, error) {
	for _, header := range slices.Backward(record.Headers) {
		if header.Key == schema.ValueSchemaIDHeader {
			plan, _, err := d.frames.SplitHeader(header.Value)
			return plan, record.Value, err
		}
	}
	plan, _, body, err := d.frames.Split(record.Value)
	return plan, body, err
}

func (d *jsonBatch) fail(index int, cause error) {
	record := &d.records[index]
	failure := &columnar.RecordError{Topic: d.topic, Partition: record.Partition, Offset: record.Offset, Index: index, Cause: cause}
	if columnar.IsRetriable(cause) {
		d.pending = append(d.pending, failure)
	} else {
		d.failed = append(d.failed, failure)
	}
}

// read makes a batch of the documents that can be read.
func (d *jsonBatch) read() (arrow.RecordBatch, error) {
	batch, err := d.decode()
	var bad *columnar.DecodeError
	if errors.As(err, &bad) {
		d.drop(bad)
	} else if err != nil {
		return nil, err
	}
	if len(d.failed) == 0 {
		return d.finish(batch)
	}
	slices.SortFunc(d.failed, func(a, b *columnar.RecordError) int { return a.Index - b.Index })
	if d.codec.options.onPoison == nil {
		if batch != nil {
			batch.Release()
		}
		return nil, &columnar.DecodeError{Records: d.failed}
	}
	if batch == nil {
		if batch, err = d.decode(); err != nil {
			return nil, err
		}
	}
	for _, failure := range d.failed {
		d.codec.options.onPoison(failure)
	}
	return d.finish(batch)
}

// drop leaves out the documents that failed.
func (d *jsonBatch) drop(bad *columnar.DecodeError) {
	for _, failure := range slices.Backward(bad.Records) {
		at := failure.Index
		d.fail(d.indexes[at], failure.Cause)
		d.bodies, d.indexes = slices.Delete(d.bodies, at, at+1), slices.Delete(d.indexes, at, at+1)
	}
}

func (d *jsonBatch) decode() (arrow.RecordBatch, error) {
	if len(d.bodies) > 0 {
		batch, err := d.codec.rows.Decode(d.topic, d.bodies)
		return batch, d.tooLarge(err)
	}
	b := array.NewRecordBuilder(d.codec.mem, d.codec.rows.Schema())
	defer b.Release()
	payload := b.NewRecordBatch()
	defer payload.Release()
	return columnar.AttachMetadata(d.codec.mem, payload, nil)
}

// tooLarge makes an error of documents that are too many for a batch one of records.
func (d *jsonBatch) tooLarge(err error) error {
	split, ok := err.(interface{ SplitAt() int })
	if !ok {
		return err
	}
	fits := split.SplitAt()
	if fits > 0 {
		return &BatchTooLargeError{Topic: d.topic, Fits: d.indexes[fits]}
	}
	return &columnar.DecodeError{Records: []*columnar.RecordError{{Cause: &BatchTooLargeError{Topic: d.topic}}}}
}

// finish takes the metadata columns off where they are not wanted.
func (d *jsonBatch) finish(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if !d.codec.options.bare {
		return batch, nil
	}
	defer batch.Release()
	return columnar.PayloadBatch(batch), nil
}

// Encode makes a record of each row: a JSON object of the payload columns, in the
// frame of the codec's schema. A null is left out of the object, unless the schema
// requires the member. It neither releases nor keeps the batch, and the records
// share no memory with it.
func (c *JSONSchemaBatchCodec) Encode(topic string, batch arrow.RecordBatch) ([]columnar.ProduceRecord, error) {
	w, err := c.framer.Writer(topic)
	if err != nil {
		return nil, err
	}
	records, err := c.rows.Encode(topic, batch)
	if err != nil {
		return nil, err
	}
	prefix := w.Prefix
	if c.options.headers {
		prefix = nil
	}
	size := 0
	for i := range records {
		size += len(prefix) + len(records[i].Value)
	}
	arena := make([]byte, 0, size)
	for i := range records {
		record := &records[i]
		if record.Value == nil {
			continue
		}
		start := len(arena)
		arena = appendPresent(append(arena, prefix...), record.Value, c.required)
		record.Value = arena[start:len(arena):len(arena)]
		if err := w.Plan.check(record.Value[len(prefix):]); err != nil {
			return nil, &columnar.RowError{Row: i, Cause: w.Failure(err)}
		}
		if c.options.headers {
			record.Headers = append(slices.Clip(record.Headers), columnar.RecordHeader{Key: schema.ValueSchemaIDHeader, Value: w.Header})
		}
	}
	return records, nil
}
