// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
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
// encoding/json would take for a field of T although the schema knows the field
// by another name, which differs by case, is a violation, and so are repeated
// members and text that is not Unicode. Types that read themselves, and codecs
// given with [WithJSONCodec], take members as they please.
//
// A schema without $schema is read as draft-07. The record name for record
// strategies is the schema's title.
func NewJSONSchemaSerde[T any](schemaText string, cache *SchemaCache, role Role, validate bool, options ...SerdeOption) (*JSONSchemaSerde[T], error) {
	o, err := serdeOptionsFor(KindJSON, options)
	if err != nil {
		return nil, err
	}
	document, err := parseJSON([]byte(schemaText))
	switch {
	case err != nil && validate:
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	case err != nil:
		return nil, errors.New("invalid JSON Schema")
	}
	f := &jsonFormat[T]{options: o.json, validate: validate}
	if validate {
		// Checked by serdeOptionsFor.
		dependencies, _ := dependencyOrder(o.references)
		if f.local, err = o.json.validator(schemaText, dependencies); err != nil {
			return nil, fmt.Errorf("invalid JSON Schema: %w", err)
		}
	}
	switch reflect.TypeFor[T]() {
	case reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any]():
		f.tree = o.json.unmarshal == nil
	}
	spec := serdeSpec{kind: KindJSON, text: schemaText}
	if o.json.key() != new(jsonDialect).key() {
		spec.dialect = &o.json.jsonDialect
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
type ValidationError struct {
	// Violations lists what is wrong, sorted by pointer. It has one element at
	// least, and 1000 at most.
	Violations []Violation

	more int // violations that are not listed
}

// Violation is one place of a document that breaks a schema.
type Violation struct {
	Pointer string // JSON pointer into the document; "" is the root
	Message string // of 1024 bytes at most
	Keyword string // address of the broken keyword in the schema; "" when none is
}

// within puts a violation into a member or element.
func (v *Violation) within(token string) *Violation {
	v.Pointer = jsonPointer(token) + v.Pointer
	return v
}

// Error tells the first violation, where it is, and how many more there are.
func (e *ValidationError) Error() string {
	first := e.Violations[0]
	text := fmt.Sprintf("JSON Schema validation failed: %s at %q", first.Message, shortText(first.Pointer))
	if more := len(e.Violations) - 1 + e.more; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// jsonFormat plugs JSON Schema into the serde core.
type jsonFormat[T any] struct {
	options  jsonOptions
	validate bool
	local    *jsonValidator // nil without validation
	tree     bool           // T can hold what parseJSON returns
	scratch  sync.Pool      // of *jsonScratch
}

func (f *jsonFormat[T]) indexed() bool { return false }

func (f *jsonFormat[T]) needsWriter() bool { return f.validate && !f.options.readerValidation }

func (f *jsonFormat[T]) compileEncoder(target *writerSchema) (encoder[T], error) {
	if !f.validate {
		return encoder[T]{appendBody: f.appendJSON}, nil
	}
	compiled, err := f.options.validator(target.text, target.references)
	if err != nil {
		return encoder[T]{}, fmt.Errorf("invalid JSON Schema %v: %w", target.id, err)
	}
	appendBody := func(dst []byte, value T) ([]byte, error) {
		out, err := f.appendJSON(dst, value)
		if err != nil {
			return dst, err
		}
		document, err := parseDocument(out[len(dst):])
		if err != nil {
			return dst, err
		}
		return out, validateJSON(compiled, nil, document)
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
		if check, err = f.options.validator(writer.text, writer.references); err != nil {
			return nil, fmt.Errorf("invalid writer JSON Schema %v: %w", writer.id, err)
		}
	}
	var members *jsonMembers
	if check != nil && !f.tree && f.options.unmarshal == nil {
		var err error
		if members, err = planJSONMembers(reflect.TypeFor[T](), check.Schema); err != nil {
			return nil, err
		}
	}
	return func(_, body []byte) (T, error) {
		if check == nil {
			return f.read(body)
		}
		document, err := parseDocument(body)
		if err == nil {
			err = validateJSON(check, members, document)
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
		if document, err = floatNumbers(document); err != nil {
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
		return zero, atByte(err)
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

// validateJSON reports what is wrong with a document by the schema, and with the
// names of its members.
func validateJSON(schema *jsonValidator, members *jsonMembers, document any) error {
	if excess := schema.excess(document); excess != nil {
		return &ValidationError{Violations: []Violation{*excess}}
	}
	err := schema.Validate(document)
	if err == nil && members == nil {
		return nil
	}
	result := new(ValidationError)
	if err != nil {
		failed, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return err
		}
		result.collect(failed, "")
	}
	result.Violations = members.check(document, result.Violations)
	switch excess := len(result.Violations) - maxViolations; {
	case len(result.Violations) == 0:
		return nil
	case excess > 0:
		result.Violations = result.Violations[:maxViolations]
		result.more += excess
	}
	slices.SortStableFunc(result.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	return result
}

// collect adds the leaves of an error of the library, which are about the value
// at a place of the document.
func (e *ValidationError) collect(failed *jsonschema.ValidationError, place string) {
	if misnamed, ok := failed.ErrorKind.(*kind.PropertyNames); ok {
		place = jsonPointer(failed.InstanceLocation...) + jsonPointer(misnamed.Property)
	}
	for _, cause := range failed.Causes {
		e.collect(cause, place)
	}
	switch {
	case len(failed.Causes) > 0:
	case len(e.Violations) == maxViolations:
		e.more++
	default:
		unit := failed.BasicOutput()
		e.Violations = append(e.Violations, Violation{
			Pointer: place + unit.InstanceLocation,
			Message: shortText(unit.Error.String()),
			Keyword: strings.Join(append([]string{failed.SchemaURL}, failed.ErrorKind.KeywordPath()...), "/"),
		})
	}
}

// maxViolations bounds the list of a [ValidationError].
const maxViolations = 1000

// maxShownText bounds what messages show of a document.
const maxShownText = 1024

// shortText cuts off what is too long to be shown.
func shortText(text string) string {
	if len(text) <= maxShownText {
		return text
	}
	return strings.ToValidUTF8(text[:maxShownText-len("...")], "") + "..."
}

// schemaAddress stands for a schema text that has no $id. Nothing is read from
// it.
const schemaAddress = "registry:///schema.json"

// validator compiles a schema for documents to be validated.
func (d *jsonDialect) validator(text string, dependencies []Reference) (*jsonValidator, error) {
	compiled, err := d.compile(text, dependencies)
	if err != nil {
		return nil, err
	}
	placePropertyNames(compiled)
	return &jsonValidator{compiled, repeats(compiled)}, nil
}

// compile prepares a schema and everything that it refers to.
func (d *jsonDialect) compile(text string, dependencies []Reference) (*jsonschema.Schema, error) {
	compiled, _, err := d.compileAt(schemaAddress, text, dependencies)
	return compiled, err
}

// compileAt is compile for a schema at another address. It returns the documents
// as well, by address.
func (d *jsonDialect) compileAt(address, text string, dependencies []Reference) (*jsonschema.Schema, referenceLoader, error) {
	document, err := parseJSON([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	loader := referenceLoader{}
	bases := []*url.URL{baseOf(address, document)}
	parsed := make([]any, len(dependencies))
	for i, dependency := range dependencies {
		if parsed[i], err = parseJSON([]byte(dependency.Schema)); err != nil {
			return nil, nil, fmt.Errorf("invalid JSON Schema reference %s: %w", dependency.Name, err)
		}
		bases = append(bases, baseOf(resolved(bases[0], dependency.Name), parsed[i]))
	}
	for i, dependency := range dependencies {
		for _, base := range bases {
			loader[resolved(base, dependency.Name)] = parsed[i]
		}
	}
	loader[address] = document
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(loader)
	compiler.DefaultDraft(cmp.Or(d.draft, jsonschema.Draft7))
	compileRegexp := d.compileRegexp
	if compileRegexp == nil {
		compileRegexp = compilePattern
	}
	compiler.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return compileRegexp(pattern) })
	if d.assertFormats {
		compiler.AssertFormat()
	}
	if d.ignoreFormats {
		for _, document := range append(parsed, document) {
			ignoreFormats(compiler, document)
		}
	}
	compiled, err := compiler.Compile(address)
	return compiled, loader, err
}

// baseOf returns the address against which a schema's references are resolved:
// its $id, where it has one.
func baseOf(address string, document any) *url.URL {
	base, err := url.Parse(address)
	if err != nil {
		base = &url.URL{Scheme: "registry", Path: "/"}
	}
	object, _ := document.(map[string]any)
	for _, keyword := range []string{"$id", "id"} {
		if id, ok := object[keyword].(string); ok {
			if parsed, err := url.Parse(id); err == nil {
				base = base.ResolveReference(parsed)
				base.Fragment = ""
				break
			}
		}
	}
	return base
}

func resolved(base *url.URL, name string) string {
	parsed, err := url.Parse(name)
	if err != nil {
		return name
	}
	address := base.ResolveReference(parsed)
	address.Fragment = ""
	return address.String()
}

// referenceLoader holds a schema and the registry's references by address. It is
// all that the schema can reach.
type referenceLoader map[string]any

// Load returns the schema at an address.
func (l referenceLoader) Load(address string) (any, error) {
	document, ok := l[address]
	if !ok {
		return nil, errors.New("it is not among the schema's registry references, and nothing else is read")
	}
	return document, nil
}

// ignoreFormats makes every format that is named anywhere in a schema accept all
// values.
func ignoreFormats(compiler *jsonschema.Compiler, value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			ignoreFormats(compiler, element)
		}
	case map[string]any:
		for key, member := range v {
			if name, ok := member.(string); ok && key == "format" {
				compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
			}
			ignoreFormats(compiler, member)
		}
	}
}
