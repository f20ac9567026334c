// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// Options say how Avro values and Go values stand for each other. The zero
// value is the default mapping.
type Options struct {
	// Tagged reads unions with several branches beside null into interfaces as
	// maps of one entry, from the name of the branch to the value.
	Tagged bool

	types map[string]reflect.Type // by full name of an Avro type
	names map[reflect.Type]string
}

// Register gives the named Avro type of a full name the Go type of sample. An
// error tells which argument is not usable.
func (o *Options) Register(name string, sample any) error {
	t := reflect.TypeOf(sample)
	if name == "" || t == nil {
		return errors.New("needs a name and a value")
	}
	if o.types == nil {
		o.types, o.names = make(map[string]reflect.Type), make(map[reflect.Type]string)
	}
	element := t
	if t.Kind() == reflect.Pointer {
		element = t.Elem()
	}
	if old, ok := o.names[element]; ok && old != name {
		return fmt.Errorf("gives %v to both %s and %s", element, old, name)
	}
	o.types[name] = t
	o.names[element], o.names[reflect.PointerTo(element)] = name, name
	return nil
}

// Codec reads and writes values of type T under one schema, whose values T
// describes. It is safe for concurrent use by multiple goroutines.
type Codec[T any] struct {
	options Options
	schema  *avroplan.Schema

	dynamic sync.Map  // of encodeCompiler
	readers sync.Pool // of *valueReader[T]
	writers sync.Pool // of *valueWriter[T]
}

// NewCodec returns a codec. A type that can neither be read nor written
// under the schema is found by [Codec.Check].
func NewCodec[T any](s *avroplan.Schema, options Options) *Codec[T] {
	return &Codec[T]{options: options, schema: s}
}

// Schema returns the schema of the values.
func (f *Codec[T]) Schema() *avroplan.Schema { return f.schema }

// Check reports why T can be neither read nor written under the schema.
func (f *Codec[T]) Check() error {
	_, writeErr := f.encodeValue()
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

func (f *Codec[T]) decodeValue(plan *avroplan.Node) (decodeFunc, error) {
	return newDecodeCompiler(f.options.types, f.options.Tagged).value(plan, reflect.TypeFor[T]())
}

func (f *Codec[T]) encodeValue() (encodeFunc, error) {
	return newEncodeCompiler(f.options.names, &f.dynamic).value(f.schema, reflect.TypeFor[T]())
}

// valueReader holds what reading one datum needs beside the datum.
type valueReader[T any] struct {
	cursor avroplan.Cursor
	value  T
}

// Decoder returns what reads data of the plan's writer. The plan's reader is the
// schema of the codec. The function does not keep the datum; its error is a
// [*avroplan.DatumError].
func (f *Codec[T]) Decoder(plan *avroplan.Node) (func(datum []byte) (T, error), error) {
	decode, err := f.decodeValue(plan)
	if err != nil {
		return nil, err
	}
	return func(datum []byte) (T, error) {
		r, _ := f.readers.Get().(*valueReader[T])
		if r == nil {
			r = new(valueReader[T])
		}
		r.cursor.Reset(datum)
		problem := decode(&r.cursor, unsafe.Pointer(&r.value))
		if problem == nil {
			problem = r.cursor.End()
		}
		value := r.value
		*r = valueReader[T]{}
		f.readers.Put(r)
		if problem != nil {
			var zero T
			return zero, problem
		}
		return value, nil
	}, nil
}

// valueWriter holds what writing one value needs beside the value.
type valueWriter[T any] struct {
	buffer buffer
	value  T
}

// Encoder returns what appends the datum of a value to dst, which it returns
// as it was with an error: an [*AvroValueError]. It is nil where T can only be
// read, and the error tells why.
func (f *Codec[T]) Encoder() (func(dst []byte, value T) ([]byte, error), error) {
	encode, err := f.encodeValue()
	if err != nil {
		return nil, err
	}
	return f.appender(encode), nil
}

// Converter is encoder for data of another schema: a value is written as Avro
// resolution reads it under that schema. Branches of unions are kept apart on
// the way by their names.
func (f *Codec[T]) Converter(target *avroplan.Schema) (func(dst []byte, value T) ([]byte, error), error) {
	encode, err := f.encodeValue()
	if err != nil {
		return nil, err
	}
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
	return f.appender(func(w *buffer, p unsafe.Pointer) *ValueError {
		var local buffer
		if err := encode(&local, p); err != nil {
			return err
		}
		var c avroplan.Cursor
		c.Reset(local.data)
		value, problem := read(&c)
		if problem != nil {
			return &ValueError{cause: problem}
		}
		return write(w, value)
	}), nil
}

func (f *Codec[T]) appender(encode encodeFunc) func(dst []byte, value T) ([]byte, error) {
	return func(dst []byte, value T) ([]byte, error) {
		w, _ := f.writers.Get().(*valueWriter[T])
		if w == nil {
			w = new(valueWriter[T])
		}
		w.buffer.data, w.value = dst, value
		problem := encode(&w.buffer, unsafe.Pointer(&w.value))
		out := w.buffer.data
		*w = valueWriter[T]{}
		f.writers.Put(w)
		if problem != nil {
			return dst, problem
		}
		return out, nil
	}
}
