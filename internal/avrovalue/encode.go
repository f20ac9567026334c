// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// ValueError reports a Go value that its Avro schema cannot express.
type ValueError struct {
	path  avroplan.Path
	cause error
}

// Path names the element that could not be written, such as
// "order.items[3].price". It is empty for the value as a whole.
func (e *ValueError) Path() string { return e.path.String() }

// Error returns the path and the cause.
func (e *ValueError) Error() string {
	if path := e.Path(); path != "" {
		return "field " + path + ": " + e.cause.Error()
	}
	return e.cause.Error()
}

// Unwrap returns what is wrong with the element.
func (e *ValueError) Unwrap() error { return e.cause }

func valueErrorf(format string, args ...any) *ValueError {
	return &ValueError{cause: fmt.Errorf(format, args...)}
}

func (e *ValueError) in(field string) *ValueError {
	e.path.In(field)
	return e
}

func (e *ValueError) at(index int) *ValueError {
	e.path.At(index)
	return e
}

func (e *ValueError) under(key string) *ValueError {
	e.path.Under(key)
	return e
}

// buffer takes the bytes of one datum.
type buffer struct {
	data  []byte
	depth int
}

// enter counts one more level of nesting, which leave takes back. The bound is
// that of the reader; it also ends values that contain themselves.
func (w *buffer) enter() *ValueError {
	if w.depth++; w.depth > avroplan.MaxDepth {
		return valueErrorf("nesting exceeds %d levels", avroplan.MaxDepth)
	}
	return nil
}

func (w *buffer) leave() { w.depth-- }

// long adds an int, a long, an index or a count.
func (w *buffer) long(v int64) { w.data = avroplan.AppendLong(w.data, v) }

// raw adds bytes as they are.
func (w *buffer) raw(v []byte) { w.data = append(w.data, v...) }

// end adds the count of zero that ends an array or map.
func (w *buffer) end() { w.data = append(w.data, 0) }

// encodeFunc writes the value of the variable at p, which is of the type that
// the function was compiled for. See decodeFunc for the unsafe pointer.
type encodeFunc func(w *buffer, p unsafe.Pointer) *ValueError

// anyEncode writes a value of any Go type that suits its schema.
type anyEncode func(w *buffer, v any) *ValueError

// encodeCompiler compiles schemas to functions that write Go values.
type encodeCompiler struct {
	// names holds the full names of Avro types that have a Go type of their
	// own.
	names map[reflect.Type]string

	records map[*avroplan.Schema]*recordEncoder
	structs map[encodeKey]*structEncoder

	// dynamic holds what is compiled for Go types that turn up in interfaces:
	// a *dynamicEncode by encodeKey. All compilers of a serde share it.
	dynamic *sync.Map
}

type encodeKey struct {
	schema *avroplan.Schema
	typ    reflect.Type
}

func newEncodeCompiler(names map[reflect.Type]string, dynamic *sync.Map) *encodeCompiler {
	return &encodeCompiler{
		names: names, dynamic: dynamic,
		records: make(map[*avroplan.Schema]*recordEncoder),
		structs: make(map[encodeKey]*structEncoder),
	}
}

var (
	textAppenderType  = reflect.TypeFor[encoding.TextAppender]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// cannotWrite is the error of a Go type that has no place in a schema.
func cannotWrite(s *avroplan.Schema, t reflect.Type) error {
	if s.Logical != avroplan.NoLogical {
		return fmt.Errorf("type %v cannot be written as Avro %v %v", t, s.Kind, s.Logical)
	}
	return fmt.Errorf("type %v cannot be written as Avro %v", t, s.Kind)
}

// value compiles a schema for values of type t.
func (k *encodeCompiler) value(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	switch {
	case t.Kind() == reflect.Interface:
		return k.iface(s, t)
	case s.Kind == avroplan.Union:
		return k.union(s, t)
	case t.Kind() == reflect.Pointer:
		return k.pointer(s, t)
	}
	if encode := textual(s, t); encode != nil {
		return encode, nil
	}
	switch s.Kind {
	case avroplan.Boolean:
		if t.Kind() == reflect.Bool {
			return func(w *buffer, p unsafe.Pointer) *ValueError {
				w.data = avroplan.AppendBool(w.data, *(*bool)(p))
				return nil
			}, nil
		}
	case avroplan.Int, avroplan.Long:
		return integerFrom(s, t)
	case avroplan.Float, avroplan.Double:
		return floatFrom(s, t)
	case avroplan.String:
		if t.Kind() == reflect.String {
			return encodeString, nil
		}
		if isByteSlice(t) {
			return encodeText, nil
		}
	case avroplan.Enum:
		if t.Kind() == reflect.String {
			return enumFrom(s), nil
		}
	case avroplan.Bytes, avroplan.Fixed:
		return bytesFrom(s, t)
	case avroplan.Array:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			return k.slice(s, t)
		}
	case avroplan.Map:
		if t.Kind() == reflect.Map && t.Key().Kind() == reflect.String {
			return k.dictionary(s, t)
		}
	case avroplan.Record:
		switch {
		case t.Kind() == reflect.Struct && !isScalarStruct(t):
			return k.structure(s, t)
		case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
			return k.recordMap(s, t)
		}
	}
	return nil, cannotWrite(s, t)
}

// iface compiles a schema for the values of an interface, whose Go types show
// when they are written.
func (k *encodeCompiler) iface(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	encode, err := k.generic(s)
	if err != nil {
		return nil, err
	}
	if t.NumMethod() == 0 {
		return func(w *buffer, p unsafe.Pointer) *ValueError { return encode(w, *(*any)(p)) }, nil
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		return encode(w, reflect.NewAt(t, p).Elem().Interface())
	}, nil
}

// union compiles a union for values of one Go type. Nil pointers, slices and
// maps are null. If several branches suit the type, the value decides as it
// does in an interface.
func (k *encodeCompiler) union(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	null, branch := -1, -1
	var encode encodeFunc
	var problems []error
	for i, b := range s.Branches {
		if b.Kind == avroplan.Null {
			null = i
			continue
		}
		e, err := k.value(b, t)
		switch {
		case err != nil:
			problems = append(problems, err)
		case encode != nil, isStringMap(t) && len(s.Branches) > 2:
			return k.dynamicUnion(s, t)
		default:
			branch, encode = i, e
		}
	}
	if encode == nil {
		if problems == nil {
			problems = append(problems, cannotWrite(s, t))
		}
		return nil, errors.Join(problems...)
	}
	write := func(w *buffer, p unsafe.Pointer) *ValueError {
		w.long(int64(branch))
		return encode(w, p)
	}
	if null < 0 {
		return write, nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		// The first word of each is nil exactly if the value is.
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			if *(*unsafe.Pointer)(p) == nil {
				w.long(int64(null))
				return nil
			}
			return write(w, p)
		}, nil
	}
	return write, nil
}

func isStringMap(t reflect.Type) bool {
	return t.Kind() == reflect.Map && t.Key().Kind() == reflect.String
}

func (k *encodeCompiler) dynamicUnion(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	encode, err := k.generic(s)
	if err != nil {
		return nil, err
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		return encode(w, reflect.NewAt(t, p).Elem().Interface())
	}, nil
}

func (k *encodeCompiler) pointer(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	if s.Kind == avroplan.Null {
		return nil, cannotWrite(s, t)
	}
	encode, err := k.value(s, t.Elem())
	if err != nil {
		return nil, err
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		v := *(*unsafe.Pointer)(p)
		if v == nil {
			return valueErrorf("nil %v for Avro %v", t, s.Kind)
		}
		return encode(w, v)
	}, nil
}

// textual compiles a string or enum for a type that writes itself as text. It
// returns nil for other schemas and types.
func textual(s *avroplan.Schema, t reflect.Type) encodeFunc {
	if s.Kind != avroplan.String && s.Kind != avroplan.Enum {
		return nil
	}
	pointer := reflect.PointerTo(t)
	var text func(v any) ([]byte, error)
	switch {
	case pointer.Implements(textAppenderType):
		text = func(v any) ([]byte, error) { return v.(encoding.TextAppender).AppendText(nil) }
	case pointer.Implements(textMarshalerType):
		text = func(v any) ([]byte, error) { return v.(encoding.TextMarshaler).MarshalText() }
	default:
		return nil
	}
	write := (*buffer).text
	if s.Kind == avroplan.Enum {
		symbol := symbolWriter(s)
		write = func(w *buffer, text []byte) *ValueError { return symbol(w, string(text)) }
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		out, err := text(reflect.NewAt(t, p).Interface())
		if err != nil {
			return &ValueError{cause: err}
		}
		return write(w, out)
	}
}

// slice compiles an array for slices and Go arrays.
func (k *encodeCompiler) slice(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	encode, err := k.value(s.Items, t.Elem())
	if err != nil {
		return nil, err
	}
	width := t.Elem().Size()
	items := func(w *buffer, item unsafe.Pointer, n int) *ValueError {
		if err := w.enter(); err != nil {
			return err
		}
		if n > 0 {
			w.long(int64(n))
		}
		for i := range n {
			if err := encode(w, unsafe.Add(item, uintptr(i)*width)); err != nil {
				return err.at(i)
			}
		}
		w.end()
		w.leave()
		return nil
	}
	if t.Kind() == reflect.Array {
		return func(w *buffer, p unsafe.Pointer) *ValueError { return items(w, p, t.Len()) }, nil
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		// Every slice has the layout of a slice of bytes.
		v := (*[]byte)(p)
		return items(w, unsafe.Pointer(unsafe.SliceData(*v)), len(*v))
	}, nil
}

// dictionary compiles a map. The entries are written in the order of their
// keys, so that equal values have equal bytes.
func (k *encodeCompiler) dictionary(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	encode, err := k.value(s.Items, t.Elem())
	if err != nil {
		return nil, err
	}
	switch t.Elem().Kind() {
	case reflect.String:
		return mapFrom[string](encode), nil
	case reflect.Int:
		return mapFrom[int](encode), nil
	case reflect.Int64:
		return mapFrom[int64](encode), nil
	case reflect.Float64:
		return mapFrom[float64](encode), nil
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		if err := w.enter(); err != nil {
			return err
		}
		entries := reflect.NewAt(t, p).Elem()
		keys := entries.MapKeys()
		if len(keys) > 0 {
			w.long(int64(len(keys)))
		}
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		value := reflect.New(t.Elem()).Elem()
		for _, key := range keys {
			if err := w.string(key.String()); err != nil {
				return err
			}
			value.Set(entries.MapIndex(key))
			if err := encode(w, value.Addr().UnsafePointer()); err != nil {
				return err.under(key.String())
			}
		}
		w.end()
		w.leave()
		return nil
	}, nil
}

// fewKeys is the number of map keys that are sorted without an allocation.
const fewKeys = 16

// appendKeys appends the keys of a map to dst, in order.
func appendKeys[T any](dst []string, entries map[string]T) []string {
	for key := range entries {
		dst = append(dst, key)
	}
	slices.Sort(dst)
	return dst
}

// mapFrom compiles a map for maps whose values have the layout of T.
func mapFrom[T any](encode encodeFunc) encodeFunc {
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		if err := w.enter(); err != nil {
			return err
		}
		entries := *(*map[string]T)(p)
		if len(entries) > 0 {
			w.long(int64(len(entries)))
		}
		var few [fewKeys]string
		value := new(T)
		for _, key := range appendKeys(few[:0], entries) {
			if err := w.string(key); err != nil {
				return err
			}
			*value = entries[key]
			if err := encode(w, unsafe.Pointer(value)); err != nil {
				return err.under(key)
			}
		}
		w.end()
		w.leave()
		return nil
	}
}
