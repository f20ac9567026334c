// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// JSONSchemaSerde is a [Serde] for JSON documents described by a JSON Schema.
// Values are written and read with encoding/json, unless an option says
// otherwise.
//
// A schema can refer to what the registry keeps as its references, and to
// nothing else: no file and no network address is read.
//
// A JSONSchemaSerde is safe for concurrent use by multiple goroutines. The zero
// value is not usable.
type JSONSchemaSerde[T any] struct {
	serdeCore[T]
}

// NewJSONSchemaSerde returns a serde for values of type T under schemaText,
// which is registered as given. With validate, a value that breaks the schema is
// not written, and a document that breaks the schema it was written with is not
// read: the error is a [*ValidationError]. Without, reading needs no schema of
// the registry.
//
// With validate, a document is not read past its schema either: a member that
// encoding/json would take for a field of T although the schema spells its name
// nowhere, and in another case somewhere, is a violation, and so are repeated
// members and text that is not Unicode. Types that read themselves, and codecs
// given with [WithJSONCodec], take members as they please.
//
// A schema without $schema is read as draft-07. The record name for record
// strategies is the schema's title.
func NewJSONSchemaSerde[T any](schemaText string, cache *SchemaCache, role Role, validate bool, options ...SerdeOption) (*JSONSchemaSerde[T], error) {
	var own jsonOptions
	o, err := serdeOptionsFor(KindJSON, &own, options)
	if err != nil {
		return nil, err
	}
	document, err := jsoncheck.ParseSchema([]byte(schemaText))
	switch {
	case err != nil && validate:
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	case err != nil:
		return nil, errors.New("invalid JSON Schema")
	}
	f := &jsonFormat[T]{options: own, validate: validate}
	if validate {
		// Checked by serdeOptionsFor.
		dependencies, _ := dependencyOrder(o.references)
		if f.local, err = own.Validator(schemaText, namedTexts(dependencies)); err != nil {
			return nil, fmt.Errorf("invalid JSON Schema: %w", err)
		}
	}
	switch reflect.TypeFor[T]() {
	case reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any]():
		f.tree = own.unmarshal == nil
	}
	spec := serdeSpec{kind: KindJSON, text: schemaText}
	if own.Key() != new(jsoncheck.Dialect).Key() {
		spec.dialect = &own.Dialect
	}
	if object, ok := document.(map[string]any); ok {
		spec.recordName, _ = object["title"].(string)
	}
	s := new(JSONSchemaSerde[T])
	if err := s.init(spec, cache, role, o, f); err != nil {
		return nil, err
	}
	return s, nil
}

// ValidationError says that a JSON document breaks its schema, or that it can be
// understood in a way which the schema did not see: a member is repeated or goes
// by another name, or the text is not Unicode.
//
// Violations lists what is wrong, sorted by pointer. It has one element at
// least, and 1000 at most; the error text tells how many more there are.
type ValidationError = jsoncheck.ValidationError

// Violation is one place of a document that breaks a schema.
//
// Pointer is a JSON pointer into the document; "" is the root. Message tells what
// is wrong, in 1024 bytes at most. Keyword is the address of the broken keyword
// in the schema; "" when no keyword is broken.
type Violation = jsoncheck.Violation

// jsonFormat plugs JSON Schema into the serde core.
type jsonFormat[T any] struct {
	options  jsonOptions
	validate bool
	local    *jsoncheck.Validator // nil without validation
	tree     bool                 // T can hold what parseJSON returns
	scratch  sync.Pool            // of *jsonScratch
}

func (f *jsonFormat[T]) indexed() bool { return false }

func (f *jsonFormat[T]) needsWriter() bool { return f.validate && !f.options.readerValidation }

func (f *jsonFormat[T]) compileEncoder(target *writerSchema) (encoder[T], error) {
	if !f.validate {
		return encoder[T]{appendBody: f.appendJSON}, nil
	}
	compiled, err := f.options.Validator(target.text, namedTexts(target.references))
	if err != nil {
		return encoder[T]{}, fmt.Errorf("invalid JSON Schema %v: %w", target.id, err)
	}
	appendBody := func(dst []byte, value T) ([]byte, error) {
		out, err := f.appendJSON(dst, value)
		if err != nil {
			return dst, err
		}
		document, err := jsoncheck.ParseDocument(out[len(dst):])
		if err != nil {
			return dst, err
		}
		return out, jsoncheck.Validate(compiled, nil, document)
	}
	return encoder[T]{appendBody: appendBody}, nil
}

// jsonScratch writes documents without new buffers.
type jsonScratch struct {
	out bytes.Buffer
	enc *json.Encoder
}

func (f *jsonFormat[T]) appendJSON(dst []byte, value T) ([]byte, error) {
	if f.options.marshal != nil {
		data, err := f.options.marshal(value)
		return append(dst, data...), err
	}
	scratch, _ := f.scratch.Get().(*jsonScratch)
	if scratch == nil {
		scratch = new(jsonScratch)
		scratch.enc = json.NewEncoder(&scratch.out)
	}
	scratch.out.Reset()
	if err := scratch.enc.Encode(value); err != nil {
		return dst, err
	}
	// The encoder ends each document with a line feed.
	dst = append(dst, scratch.out.Bytes()[:scratch.out.Len()-1]...)
	f.scratch.Put(scratch)
	return dst, nil
}

func (f *jsonFormat[T]) compileDecoder(writer *writerSchema) (decoder[T], error) {
	check := f.local
	if f.needsWriter() {
		var err error
		if check, err = f.options.Validator(writer.text, namedTexts(writer.references)); err != nil {
			return nil, fmt.Errorf("invalid writer JSON Schema %v: %w", writer.id, err)
		}
	}
	var members *jsoncheck.Members
	if check != nil && !f.tree && f.options.unmarshal == nil {
		members = jsoncheck.PlanMembers(reflect.TypeFor[T](), check.Schema)
	}
	return func(_, body []byte) (T, error) {
		if check == nil {
			return f.read(body)
		}
		document, err := jsoncheck.ParseDocument(body)
		if err == nil {
			err = jsoncheck.Validate(check, members, document)
		}
		if err != nil {
			var zero T
			return zero, err
		}
		if f.tree {
			return f.fromTree(document)
		}
		return f.read(body)
	}, nil
}

// fromTree turns a parsed document into a T without parsing it again.
func (f *jsonFormat[T]) fromTree(document any) (T, error) {
	var zero T
	if !f.options.exactNumbers {
		var err error
		if document, err = jsoncheck.FloatNumbers(document); err != nil {
			return zero, err
		}
	}
	if document == nil {
		return zero, nil
	}
	value, ok := document.(T)
	if !ok {
		return zero, fmt.Errorf("cannot read a %T as %v", document, reflect.TypeFor[T]())
	}
	return value, nil
}

func (f *jsonFormat[T]) read(body []byte) (T, error) {
	var value T
	var err error
	switch {
	case f.options.unmarshal != nil:
		err = f.options.unmarshal(body, &value)
	case f.options.exactNumbers || f.options.knownFields:
		err = f.options.decode(body, &value)
	default:
		err = json.Unmarshal(body, &value)
	}
	if err != nil {
		var zero T
		return zero, jsoncheck.AtByte(err)
	}
	return value, nil
}

func (o *jsonOptions) decode(body []byte, value any) error {
	in := json.NewDecoder(bytes.NewReader(body))
	if o.exactNumbers {
		in.UseNumber()
	}
	if o.knownFields {
		in.DisallowUnknownFields()
	}
	if err := in.Decode(value); err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("data follows the JSON value")
	}
	return nil
}
