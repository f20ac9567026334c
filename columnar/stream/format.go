// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// Format makes the codec of a source or a sink.
type Format interface {
	// Codec returns a codec whose batches are allocated from mem.
	Codec(mem memory.Allocator) (columnar.BatchCodec, error)
}

// Using is the format of a codec that exists, such as one of package
// columnarschema.
func Using(codec columnar.BatchCodec) Format { return given{codec} }

type given struct{ codec columnar.BatchCodec }

func (g given) Codec(memory.Allocator) (columnar.BatchCodec, error) {
	if g.codec == nil {
		return nil, errors.New("codec must not be nil")
	}
	return g.codec, nil
}

// JSONFormat is records whose values are JSON objects; [columnar.JSONCodec] says
// which types of columns stand for which JSON. Its methods return a changed copy.
type JSONFormat struct {
	fields  []arrow.Field
	options []columnar.JSONCodecOption
}

// JSON is objects with the given fields, in a source. A sink writes the columns
// that its rows have, and needs no fields.
func JSON(fields ...arrow.Field) JSONFormat { return JSONFormat{fields: fields} }

// Key makes the key of a written record a JSON object of the named columns
// ([columnar.WithJSONKey]).
func (f JSONFormat) Key(columns ...string) JSONFormat {
	return f.With(columnar.WithJSONKey(columns...))
}

// With adds options of the codec.
func (f JSONFormat) With(options ...columnar.JSONCodecOption) JSONFormat {
	f.options = slices.Concat(f.options, options)
	return f
}

// Codec returns a [columnar.JSONCodec].
func (f JSONFormat) Codec(mem memory.Allocator) (columnar.BatchCodec, error) {
	var schema *arrow.Schema
	if len(f.fields) > 0 {
		schema = arrow.NewSchema(f.fields, nil)
	}
	return columnar.NewJSONCodec(mem, schema, f.options...)
}

// Text is a field of UTF-8 text. A record without it is an error, as for all
// fields that [Optional] does not wrap.
func Text(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String}
}

// Int is a field of 64-bit integers.
func Int(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64}
}

// Float is a field of 64-bit floating-point numbers.
func Float(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64}
}

// Bool is a field of true and false.
func Bool(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean}
}

// Time is a field of instants in milliseconds since the Unix epoch, in UTC. JSON
// has them as text in RFC 3339, or as a number of milliseconds.
func Time(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Timestamp_ms}
}

// Decimal is a field of exact decimal numbers with up to precision digits, of
// which scale are behind the point. The precision is 38 at most.
func Decimal(name string, precision, scale int32) arrow.Field {
	return arrow.Field{Name: name, Type: &arrow.Decimal128Type{Precision: precision, Scale: scale}}
}

// List is a field of lists, whose elements are values of field: a list of texts is
// List(Text("tags")).
func List(field arrow.Field) arrow.Field {
	name := field.Name
	field.Name = "item"
	return arrow.Field{Name: name, Type: arrow.ListOfField(field)}
}

// Optional is a field that may be missing, or null.
func Optional(field arrow.Field) arrow.Field {
	field.Nullable = true
	return field
}
