// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"

	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/avrovalue"
	values "github.com/krabka-io/krabka-streams-go/internal/avrovalue/schema"
)

// AvroSchemaError reports a text that is not an Avro schema, and where it is
// wrong.
type AvroSchemaError = avroplan.ParseError

// AvroResolutionError reports a writer schema of which the reader schema can
// read no datum. It lists every mismatch with its path.
type AvroResolutionError = avroplan.ResolveError

// AvroDataError reports an Avro body that its writer schema does not describe,
// or a datum that the reader schema has no value for. It names the element and
// the offset.
type AvroDataError = avroplan.DatumError

// AvroValueError reports a Go value that its Avro schema cannot express.
//
// Path() names the element that could not be written, such as
// "order.items[3].price", and is empty for the value as a whole. Unwrap() tells
// what is wrong with the element.
type AvroValueError = avrovalue.ValueError

// AvroDuration is the value of Avro's duration: months, days and milliseconds
// that are counted apart, because neither months nor days have a fixed length.
// Its fields are Months, Days and Milliseconds, each a uint32.
type AvroDuration = values.AvroDuration

// AvroSerde is a [Serde] for Avro.
//
// Data are read as the serde's own schema says, whatever the writer's schema,
// by Avro's rules of schema resolution. Each writer schema is parsed and
// compiled once.
//
// An AvroSerde is safe for concurrent use by multiple goroutines. The zero
// value is not usable.
type AvroSerde[T any] struct {
	serdeCore[T]
	reader avro.Schema
}

// NewAvroSerde returns a serde for values of type T under schemaText, which is
// registered as given, without white space.
//
// Records are structs, whose fields carry the name of the Avro field in an avro
// tag, or maps. A field that can be null is a pointer, slice, map or interface;
// null leaves any other type at its zero value. The package documentation lists
// the Go types for each Avro type.
//
// A schema that is not valid is an error, and so is a type T that can neither
// be read nor written under it. If T can only be read, or only be written, the
// other direction returns the error.
func NewAvroSerde[T any](schemaText string, cache *SchemaCache, role Role, options ...SerdeOption) (*AvroSerde[T], error) {
	var mapping avrovalue.Options
	o, err := serdeOptionsFor(KindAvro, &mapping, options)
	if err != nil {
		return nil, err
	}
	// References that conflict are refused by serdeOptionsFor.
	references, _ := dependencyOrder(o.references)
	local, err := avroplan.ParseAfter(avroplan.Parse, schemaText, references, namedText)
	if err != nil {
		return nil, fmt.Errorf("invalid Avro schema: %w", err)
	}
	f := &avroFormat[T]{text: compacted(KindAvro, schemaText), values: avrovalue.NewCodec[T](local, mapping)}
	if err := f.values.Check(); err != nil {
		return nil, err
	}
	s := new(AvroSerde[T])
	s.reader = hambaSchema(schemaText, references, local)
	spec := serdeSpec{kind: KindAvro, text: f.text, recordName: local.Name}
	if err := s.init(spec, cache, role, o, f); err != nil {
		return nil, err
	}
	return s, nil
}

// NewGenericAvroSerde returns a serde for values in the generic mapping, which
// the package documentation describes: records are map[string]any, and so on.
func NewGenericAvroSerde(schemaText string, cache *SchemaCache, role Role, options ...SerdeOption) (*AvroSerde[any], error) {
	return NewAvroSerde[any](schemaText, cache, role, options...)
}

// ReaderSchema returns the serde's schema in the form of the hamba/avro
// library, or nil where that library has no form for it. The serde itself does not use
// it.
func (s *AvroSerde[T]) ReaderSchema() avro.Schema { return s.reader }

// AvroSchemaFor returns the text of a schema under which values of T are read
// and written. Named types are in the namespace, which may be empty, and have
// the names of their Go types.
//
// Integers of up to 32 bits are int, others long; [n]byte is a fixed; time.Time
// is timestamp-micros and time.Duration time-micros; a pointer is a union of
// null and its element, with null as the default of a field; types that write
// themselves as text are strings. The avro tag of a field, after its name, takes
// options, separated by commas: a logical type such as date, timestamp-millis,
// uuid or decimal(10,2); alias=NAME, any number of times; and last default=JSON.
//
// Interfaces, big.Rat without decimal(precision,scale), and types that no Avro
// type can hold are errors.
func AvroSchemaFor[T any](namespace string) (string, error) {
	return avrovalue.SchemaFor[T](namespace)
}

// avroFormat plugs Avro into the serde core.
type avroFormat[T any] struct {
	text   string // of the codec's schema, without white space
	values *avrovalue.Codec[T]
}

func (f *avroFormat[T]) indexed() bool { return false }

func (f *avroFormat[T]) needsWriter() bool { return true }

func (f *avroFormat[T]) compileDecoder(writer *writerSchema) (decoder[T], error) {
	local := f.values.Schema()
	schema := local
	if len(writer.references) > 0 || compacted(KindAvro, writer.text) != f.text {
		var err error
		if schema, err = avroplan.ParseAfter(avroplan.ParseWriter, writer.text, writer.references, namedText); err != nil {
			return nil, fmt.Errorf("invalid writer schema %v: %w", writer.id, err)
		}
	}
	plan, err := avroplan.Resolve(schema, local)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve writer schema %v against the reader schema: %w", writer.id, err)
	}
	decode, err := f.values.Decoder(plan)
	if err != nil {
		return nil, err
	}
	return func(_, body []byte) (T, error) { return decode(body) }, nil
}

func (f *avroFormat[T]) compileEncoder(target *writerSchema) (encoder[T], error) {
	write, err := f.values.Encoder()
	if err != nil {
		return encoder[T]{}, err
	}
	if target.text != f.text || len(target.references) > 0 { // equal texts may refer to other types
		schema, err := avroplan.ParseAfter(avroplan.Parse, target.text, target.references, namedText)
		if err != nil {
			return encoder[T]{}, fmt.Errorf("invalid writer schema %v: %w", target.id, err)
		}
		if !avroplan.SameLayout(schema, f.values.Schema()) {
			if write, err = f.values.Converter(schema); err != nil {
				return encoder[T]{}, fmt.Errorf("cannot write under schema %v: %w", target.id, err)
			}
		}
	}
	return encoder[T]{appendBody: write}, nil
}
