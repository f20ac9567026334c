// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
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
	o, err := serdeOptionsFor(KindAvro, options)
	if err != nil {
		return nil, err
	}
	// References that conflict are refused by serdeOptionsFor.
	references, _ := dependencyOrder(o.references)
	local, err := parseAvro(schemaText, references, avroplan.Parse)
	if err != nil {
		return nil, fmt.Errorf("invalid Avro schema: %w", err)
	}
	f := &avroFormat[T]{options: o.avro, text: compacted(KindAvro, schemaText), schema: local}
	if err := f.check(); err != nil {
		return nil, err
	}
	s := new(AvroSerde[T])
	if s.reader, err = hambaSchema(schemaText, references, local); err != nil {
		return nil, fmt.Errorf("invalid Avro schema: %w", err)
	}
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
// library. The serde itself does not use it.
func (s *AvroSerde[T]) ReaderSchema() avro.Schema { return s.reader }

// parseAvro parses text after its references, which are in the order of their
// dependencies.
func parseAvro(text string, references []Reference, parse func(string, ...*avroplan.Schema) (*avroplan.Schema, error)) (*avroplan.Schema, error) {
	known := make([]*avroplan.Schema, 0, len(references))
	for _, r := range references {
		s, err := parse(r.Schema, known...)
		if err != nil {
			return nil, fmt.Errorf("invalid Avro reference schema %s: %w", r.Name, err)
		}
		known = append(known, s)
	}
	return parse(text, known...)
}

// avroFormat plugs Avro into the serde core.
type avroFormat[T any] struct {
	options avroOptions
	text    string // of schema, without white space
	schema  *avroplan.Schema

	dynamic sync.Map  // of encodeCompiler
	readers sync.Pool // of *avroReader[T]
	writers sync.Pool // of *avroWriter[T]
}

func (f *avroFormat[T]) indexed() bool { return false }

func (f *avroFormat[T]) needsWriter() bool { return true }

// check reports whether T can be neither read nor written under the schema.
func (f *avroFormat[T]) check() error {
	_, writeErr := f.encodeValue(f.schema)
	if writeErr == nil {
		return nil
	}
	plan, err := avroplan.Resolve(f.schema, f.schema)
	if err != nil {
		return fmt.Errorf("invalid Avro schema: %w", err)
	}
	if _, err := f.decodeValue(plan); err != nil {
		return fmt.Errorf("type %v does not suit the Avro schema: %w", reflect.TypeFor[T](), err)
	}
	return nil
}

func (f *avroFormat[T]) decodeValue(plan *avroplan.Node) (avroDecode, error) {
	return newDecodeCompiler(f.options.types, f.options.tagged).value(plan, reflect.TypeFor[T]())
}

func (f *avroFormat[T]) encodeValue(s *avroplan.Schema) (avroEncode, error) {
	return newEncodeCompiler(f.options.names, &f.dynamic).value(s, reflect.TypeFor[T]())
}

// avroReader holds what reading one datum needs beside the datum.
type avroReader[T any] struct {
	cursor avroplan.Cursor
	value  T
}

func (f *avroFormat[T]) compileDecoder(writer *writerSchema) (decoder[T], error) {
	schema := f.schema
	if len(writer.references) > 0 || compacted(KindAvro, writer.text) != f.text {
		var err error
		if schema, err = parseAvro(writer.text, writer.references, avroplan.ParseWriter); err != nil {
			return nil, fmt.Errorf("invalid writer schema %v: %w", writer.id, err)
		}
	}
	plan, err := avroplan.Resolve(schema, f.schema)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve writer schema %v against the reader schema: %w", writer.id, err)
	}
	decode, err := f.decodeValue(plan)
	if err != nil {
		return nil, err
	}
	return func(_, body []byte) (T, error) {
		r, _ := f.readers.Get().(*avroReader[T])
		if r == nil {
			r = new(avroReader[T])
		}
		r.cursor.Reset(body)
		problem := decode(&r.cursor, unsafe.Pointer(&r.value))
		if problem == nil {
			problem = r.cursor.End()
		}
		value := r.value
		*r = avroReader[T]{}
		f.readers.Put(r)
		if problem != nil {
			var zero T
			return zero, problem
		}
		return value, nil
	}, nil
}

// avroWriter holds what writing one value needs beside the value.
type avroWriter[T any] struct {
	buffer avroBuffer
	value  T
}

func (f *avroFormat[T]) compileEncoder(target *writerSchema) (encoder[T], error) {
	encode, err := f.encodeValue(f.schema)
	if err != nil {
		return encoder[T]{}, err
	}
	if target.text != f.text || len(target.references) > 0 { // equal texts may refer to other types
		schema, err := parseAvro(target.text, target.references, avroplan.Parse)
		if err != nil {
			return encoder[T]{}, fmt.Errorf("invalid writer schema %v: %w", target.id, err)
		}
		if !avroplan.SameLayout(schema, f.schema) {
			if encode, err = f.convert(encode, schema); err != nil {
				return encoder[T]{}, fmt.Errorf("cannot write under schema %v: %w", target.id, err)
			}
		}
	}
	return encoder[T]{appendBody: func(dst []byte, value T) ([]byte, error) {
		w, _ := f.writers.Get().(*avroWriter[T])
		if w == nil {
			w = new(avroWriter[T])
		}
		w.buffer.data, w.value = dst, value
		problem := encode(&w.buffer, unsafe.Pointer(&w.value))
		out := w.buffer.data
		*w = avroWriter[T]{}
		f.writers.Put(w)
		if problem != nil {
			return dst, problem
		}
		return out, nil
	}}, nil
}

// convert returns what writes values of the local schema under another one: as
// Avro resolution reads them under it. Branches of unions are kept apart on the
// way by their names.
func (f *avroFormat[T]) convert(encode avroEncode, target *avroplan.Schema) (avroEncode, error) {
	plan, err := avroplan.Resolve(f.schema, target)
	if err != nil {
		return nil, err
	}
	read, err := newDecodeCompiler(nil, true).generic(plan)
	if err != nil {
		return nil, err
	}
	write, err := newEncodeCompiler(nil, &f.dynamic).generic(target)
	if err != nil {
		return nil, err
	}
	return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
		var local avroBuffer
		if err := encode(&local, p); err != nil {
			return err
		}
		var c avroplan.Cursor
		c.Reset(local.data)
		value, problem := read(&c)
		if problem != nil {
			return &AvroValueError{cause: problem}
		}
		return write(w, value)
	}, nil
}

// hambaSchema parses text with the hamba library, in a name table of its own.
// That library refuses defaults of a later branch of a union, among others, so
// that a text which it cannot take is reduced to what describes data.
func hambaSchema(text string, references []Reference, local *avroplan.Schema) (avro.Schema, error) {
	names := &avro.SchemaCache{}
	var err error
	for _, r := range references {
		if _, err = avro.ParseWithCache(r.Schema, "", names); err != nil {
			break
		}
	}
	if err == nil {
		var s avro.Schema
		if s, err = avro.ParseWithCache(text, "", names); err == nil {
			return s, nil
		}
	}
	s, layoutErr := avro.ParseWithCache(local.Layout(), "", &avro.SchemaCache{})
	if layoutErr != nil {
		return nil, err
	}
	return s, nil
}
