// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// AvroBatchCodec is a [columnar.BatchCodec] for Avro records in the frames of a
// schema registry. It reads the bytes of records straight into columns and
// writes columns straight to bytes.
//
// Records are read as the codec's own schema says, whatever the writer's, by
// Avro's rules of schema resolution, which are compiled once for each writer
// schema. The page on columns of schemas lists the Arrow type of each Avro type.
//
// An AvroBatchCodec is safe for concurrent use by multiple goroutines.
type AvroBatchCodec struct{ *recordCodec }

// WithDictionaryEnums makes enums columns of Dictionary(Int32, Utf8) in place of
// text. It is an option of Avro codecs.
func WithDictionaryEnums() CodecOption {
	return func(o *codecOptions) {
		o.needsFormat = append(o.needsFormat, limitedOption{"WithDictionaryEnums", schema.KindAvro})
		o.dictionary = true
	}
}

// NewAvroBatchCodec returns a codec whose columns are those of schemaText, the
// schema of a record, which is registered as given without white space. It does
// no I/O.
func NewAvroBatchCodec(schemaText string, cache *schema.SchemaCache, mem memory.Allocator, options ...CodecOption) (*AvroBatchCodec, error) {
	o, err := codecOptionsFor(schema.KindAvro, options)
	if err != nil {
		return nil, err
	}
	c, err := newAvroCodec(schemaText, cache, mem, o)
	if err != nil {
		return nil, err
	}
	return &AvroBatchCodec{c}, nil
}

func newAvroCodec(schemaText string, cache *schema.SchemaCache, mem memory.Allocator, o *codecOptions) (*recordCodec, error) {
	references, err := schema.ReferencesOf(o.serde...)
	if err != nil {
		return nil, textPrefix.Wrap(err, "Avro codec")
	}
	local, err := avroplan.ParseAfter(avroplan.Parse, schemaText, references, namedText)
	if err != nil {
		return nil, textPrefix.Wrap(err, "invalid Avro schema")
	}
	f, err := newAvroFormat(local, o)
	if err != nil {
		return nil, err
	}
	spec := schema.FramerSpec{Kind: schema.KindAvro, Schema: schemaText, RecordName: local.Name}
	c, err := newRecordCodec(f, spec, cache, mem, o)
	if err != nil {
		return nil, err
	}
	c.remake = func(o *codecOptions) (*recordCodec, error) { return newAvroCodec(schemaText, cache, mem, o) }
	return c, nil
}

// avroFormat is Avro with one local schema.
type avroFormat struct {
	local  *avroplan.Schema // as it is written
	reader *avroplan.Schema // with the fields alone that have columns
	spec   *columnset.Spec
}

func newAvroFormat(local *avroplan.Schema, o *codecOptions) (*avroFormat, error) {
	if local.Kind != avroplan.Record {
		return nil, fmt.Errorf("columnarschema: the Avro schema of a codec is a record, not a %v", local.Kind)
	}
	all, err := avroColumns(local, o.dictionary)
	if err != nil {
		return nil, err
	}
	chosen, err := o.project(all)
	if err != nil {
		return nil, err
	}
	f := &avroFormat{local: local, reader: local}
	if chosen != all {
		reader := *local
		reader.Fields = nil
		for _, field := range local.Fields {
			if chosen.HasField(field.Name) {
				reader.Fields = append(reader.Fields, field)
			}
		}
		f.reader = &reader
	}
	f.spec = columnset.NewSpec(chosen, symbolDictionary)
	return f, nil
}

// symbolDictionary returns the values of the dictionary of an enum.
func symbolDictionary(field arrow.Field) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for symbol := range strings.SplitSeq(metadataValue(field, MetadataAvroEnumSymbols), ",") {
		b.Append(symbol)
	}
	return b.NewArray()
}

func (f *avroFormat) columns() *columnset.Spec { return f.spec }

func (f *avroFormat) dictionaries() bool { return true }

func (f *avroFormat) newScratch() any { return new(avroReader) }

// localPlan implements localEncoder.
func (f *avroFormat) localPlan() encodePlan { return &avroEncodePlan{schema: f.local} }

func (f *avroFormat) compileDecoder(writer schema.ResolvedSchema) (decodePlan, error) {
	w, err := avroplan.ParseAfter(avroplan.ParseWriter, writer.Schema, writer.Dependencies, namedText)
	if err != nil {
		return nil, fmt.Errorf("invalid writer schema: %w", err)
	}
	plan, err := compileAvro(w, f.reader, f.spec)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve the writer schema against the reader schema: %w", err)
	}
	return plan, nil
}

func (f *avroFormat) compileEncoder(target schema.ResolvedSchema) (encodePlan, []int, error) {
	t, err := avroplan.ParseAfter(avroplan.Parse, target.Schema, target.Dependencies, namedText)
	if err != nil {
		return nil, nil, fmt.Errorf("invalid schema: %w", err)
	}
	if t.Kind != avroplan.Record {
		return nil, nil, errors.New("the schema of the subject is no record")
	}
	return &avroEncodePlan{schema: t, foreign: !avroplan.SameLayout(t, f.local)}, nil, nil
}

// namedText is how the parser of Avro takes a reference.
func namedText(r schema.Reference) (name, text string) { return r.Name, r.Schema }
