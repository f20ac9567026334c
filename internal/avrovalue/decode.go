// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// decodeFunc reads one value into the variable at p, which is of the type that
// the function was compiled for and holds its zero value.
//
// Values are stored through unsafe pointers because reflection costs several
// times as much for each. Every such store is in a function that a
// decodeCompiler chose for the exact type or kind of the variable.
type decodeFunc func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError

// decodeCompiler compiles plans to functions that build Go values.
type decodeCompiler struct {
	// types holds the Go types of named Avro types that are read into
	// interfaces.
	types map[string]reflect.Type

	// tagged wraps the values of unions that are read into interfaces.
	tagged bool

	records map[*avroplan.Node]*genericRecord
	structs map[structKey]*structDecoder
	maps    map[structKey]*mapDecoder
}

type structKey struct {
	node *avroplan.Node
	typ  reflect.Type
}

func newDecodeCompiler(types map[string]reflect.Type, tagged bool) *decodeCompiler {
	return &decodeCompiler{
		types: types, tagged: tagged,
		records: make(map[*avroplan.Node]*genericRecord),
		structs: make(map[structKey]*structDecoder),
		maps:    make(map[structKey]*mapDecoder),
	}
}

var (
	timeType            = reflect.TypeFor[time.Time]()
	durationType        = reflect.TypeFor[time.Duration]()
	ratType             = reflect.TypeFor[big.Rat]()
	calendarType        = reflect.TypeFor[Duration]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isScalarStruct reports whether values of a struct type stand for one Avro
// value that is no record.
func isScalarStruct(t reflect.Type) bool {
	return t == timeType || t == ratType || t == calendarType
}

// cannotRead is the error of a Go type that cannot hold the values of a node.
func cannotRead(n *avroplan.Node, t reflect.Type) error {
	s := n.Schema
	if s.Logical != avroplan.NoLogical {
		return fmt.Errorf("type %v cannot hold Avro %v %v", t, s.Kind, s.Logical)
	}
	return fmt.Errorf("type %v cannot hold Avro %v", t, s.Kind)
}

// value compiles a node to values of type t.
func (k *decodeCompiler) value(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	switch {
	case n.Err != "":
		return func(c *avroplan.Cursor, _ unsafe.Pointer) *avroplan.DatumError { return c.Fail("%s", n.Err) }, nil
	case t.Kind() == reflect.Interface:
		return k.iface(n, t)
	case n.Choose != nil:
		return k.union(n, t)
	case n.Schema.Kind == avroplan.Null:
		return func(*avroplan.Cursor, unsafe.Pointer) *avroplan.DatumError { return nil }, nil
	case t.Kind() == reflect.Pointer:
		return k.pointer(n, t)
	}
	if decode := k.textual(n, t); decode != nil {
		return decode, nil
	}
	switch n.Schema.Kind {
	case avroplan.Boolean:
		if t.Kind() == reflect.Bool {
			return decodeBool, nil
		}
	case avroplan.Int, avroplan.Long:
		return integerInto(n, t)
	case avroplan.Float, avroplan.Double:
		return floatInto(n, t)
	case avroplan.String:
		if t.Kind() == reflect.String {
			return decodeString, nil
		}
		if isByteSlice(t) {
			return decodeText, nil
		}
	case avroplan.Enum:
		if t.Kind() == reflect.String {
			return enumInto(n), nil
		}
	case avroplan.Bytes, avroplan.Fixed:
		return bytesInto(n, t)
	case avroplan.Array:
		if t.Kind() == reflect.Slice {
			return k.slice(n, t)
		}
	case avroplan.Map:
		if t.Kind() == reflect.Map && t.Key().Kind() == reflect.String {
			return k.dictionary(n, t)
		}
	case avroplan.Record:
		switch {
		case t.Kind() == reflect.Struct && !isScalarStruct(t):
			return k.structure(n, t)
		case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
			return k.recordMap(n, t)
		}
	}
	return nil, cannotRead(n, t)
}

// iface compiles a node to an interface: the generic mapping, whose values must
// implement it.
func (k *decodeCompiler) iface(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	decode, err := k.generic(n)
	if err != nil {
		return nil, err
	}
	if t.NumMethod() == 0 {
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := decode(c)
			*(*any)(p) = v
			return err
		}, nil
	}
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		v, err := decode(c)
		if err != nil || v == nil {
			return err
		}
		value := reflect.ValueOf(v)
		if !value.Type().Implements(t) {
			return c.Fail("type %T does not implement %v", v, t)
		}
		reflect.NewAt(t, p).Elem().Set(value)
		return nil
	}, nil
}

// union compiles a union on either side to a type that holds the values of at
// least one branch. Null leaves the zero value.
func (k *decodeCompiler) union(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	branches := make([]decodeFunc, len(n.Choose.Branches))
	usable := false
	var problems []error
	for i, b := range n.Choose.Branches {
		decode, err := k.value(b.Node, t)
		if err != nil {
			problems = append(problems, err)
			decode = func(c *avroplan.Cursor, _ unsafe.Pointer) *avroplan.DatumError { return c.Fail("%v", err) }
		} else if b.Node.Err == "" && b.Node.Schema.Kind != avroplan.Null {
			usable = true
		}
		branches[i] = decode
	}
	if !usable && problems != nil {
		return nil, errors.Join(problems...)
	}
	if !n.Choose.Indexed {
		return branches[0], nil
	}
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		i, err := c.Index(len(branches))
		if err != nil {
			return err
		}
		return branches[i](c, p)
	}, nil
}

func (k *decodeCompiler) pointer(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	element := t.Elem()
	decode, err := k.value(n, element)
	if err != nil {
		return nil, err
	}
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		v := reflect.New(element).UnsafePointer()
		*(*unsafe.Pointer)(p) = v
		return decode(c, v)
	}, nil
}

// textual compiles a string or enum to a type that reads itself from text. It
// returns nil for other nodes and types.
func (k *decodeCompiler) textual(n *avroplan.Node, t reflect.Type) decodeFunc {
	if n.Schema.Kind != avroplan.String && n.Schema.Kind != avroplan.Enum ||
		!reflect.PointerTo(t).Implements(textUnmarshalerType) {
		return nil
	}
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		var text []byte
		if n.Schema.Kind == avroplan.Enum {
			i, err := n.ReadSymbol(c)
			if err != nil {
				return err
			}
			text = []byte(n.Schema.Symbols[i])
		} else {
			view, err := c.RawString()
			if err != nil {
				return err
			}
			text = append(text, view...)
		}
		if err := reflect.NewAt(t, p).Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil {
			return c.Fail("%v: %v", t, err)
		}
		return nil
	}
}

// dictionary compiles a map.
func (k *decodeCompiler) dictionary(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	decode, err := k.value(n.Items, t.Elem())
	if err != nil {
		return nil, err
	}
	// Maps with equal kinds of keys and values have equal layouts.
	switch t.Elem().Kind() {
	case reflect.String:
		return mapInto[string](n, decode), nil
	case reflect.Int:
		return mapInto[int](n, decode), nil
	case reflect.Int64:
		return mapInto[int64](n, decode), nil
	case reflect.Float64:
		return mapInto[float64](n, decode), nil
	}
	size := n.ItemSize
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		if err := c.Enter(); err != nil {
			return err
		}
		entries := reflect.NewAt(t, p).Elem()
		value := reflect.New(t.Elem()).Elem()
		for {
			block, err := c.Block(size)
			if err != nil {
				return err
			}
			if entries.IsNil() {
				entries.Set(reflect.MakeMapWithSize(t, min(block.Count, maxMapHint)))
			}
			if block.Count == 0 {
				c.Leave()
				return nil
			}
			for range block.Count {
				key, err := c.String()
				if err != nil {
					return err
				}
				value.SetZero()
				if err := decode(c, value.Addr().UnsafePointer()); err != nil {
					return err.Under(key)
				}
				entries.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
			}
		}
	}, nil
}

// mapInto compiles a map to maps whose values have the layout of T.
func mapInto[T any](n *avroplan.Node, decode decodeFunc) decodeFunc {
	size := n.ItemSize
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		if err := c.Enter(); err != nil {
			return err
		}
		var entries map[string]T
		var value T
		for {
			block, err := c.Block(size)
			if err != nil {
				return err
			}
			if entries == nil {
				entries = make(map[string]T, min(block.Count, maxMapHint))
			}
			if block.Count == 0 {
				*(*map[string]T)(p) = entries
				c.Leave()
				return nil
			}
			for range block.Count {
				key, err := c.String()
				if err != nil {
					return err
				}
				value = *new(T)
				if err := decode(c, unsafe.Pointer(&value)); err != nil {
					return err.Under(key)
				}
				entries[key] = value
			}
		}
	}
}

// slice compiles an array. An empty array is an empty slice, not nil.
func (k *decodeCompiler) slice(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	decode, err := k.value(n.Items, t.Elem())
	if err != nil {
		return nil, err
	}
	// Slices with equal kinds of elements have equal layouts.
	switch t.Elem().Kind() {
	case reflect.String:
		return sliceInto[string](n, decode), nil
	case reflect.Int:
		return sliceInto[int](n, decode), nil
	case reflect.Int32:
		return sliceInto[int32](n, decode), nil
	case reflect.Int64:
		return sliceInto[int64](n, decode), nil
	case reflect.Float32:
		return sliceInto[float32](n, decode), nil
	case reflect.Float64:
		return sliceInto[float64](n, decode), nil
	}
	size, width := n.ItemSize, t.Elem().Size()
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		if err := c.Enter(); err != nil {
			return err
		}
		items := reflect.NewAt(t, p).Elem()
		for {
			block, err := c.Block(size)
			if err != nil {
				return err
			}
			if block.Count == 0 {
				if items.IsNil() {
					items.Set(reflect.MakeSlice(t, 0, 0))
				}
				c.Leave()
				return nil
			}
			start := items.Len()
			items.Grow(block.Count)
			items.SetLen(start + block.Count)
			item := unsafe.Add(items.UnsafePointer(), uintptr(start)*width)
			for i := range block.Count {
				if err := decode(c, unsafe.Add(item, uintptr(i)*width)); err != nil {
					return err.At(start + i)
				}
			}
		}
	}, nil
}

// sliceInto compiles an array to slices whose elements have the layout of T.
func sliceInto[T any](n *avroplan.Node, decode decodeFunc) decodeFunc {
	size := n.ItemSize
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		if err := c.Enter(); err != nil {
			return err
		}
		items := []T{}
		for {
			block, err := c.Block(size)
			if err != nil {
				return err
			}
			if block.Count == 0 {
				*(*[]T)(p) = items
				c.Leave()
				return nil
			}
			start := len(items)
			if start == 0 {
				items = make([]T, block.Count)
			} else {
				items = append(items, make([]T, block.Count)...)
			}
			for i := range block.Count {
				if err := decode(c, unsafe.Pointer(&items[start+i])); err != nil {
					return err.At(start + i)
				}
			}
		}
	}
}
