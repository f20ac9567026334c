// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// ScalarColumn is the column of rows that are not objects in JSON.
const ScalarColumn = "value"

// Shape tells whether rows are objects in JSON.
type Shape uint8

const (
	// Objects are rows that are objects, or null.
	Objects Shape = iota
	// Scalars are rows that are no objects.
	Scalars
	// Mixed are rows of which each may be either.
	Mixed
)

// ShapeOf tells from a row type whether rows are objects, and whether a row may
// be a nil pointer to one.
func ShapeOf(t reflect.Type) (shape Shape, pointer bool) {
	for t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	switch t.Kind() {
	case reflect.Map:
		return Objects, pointer
	case reflect.Struct:
		marshaler := reflect.TypeFor[json.Marshaler]()
		text := reflect.TypeFor[encoding.TextMarshaler]()
		if p := reflect.PointerTo(t); p.Implements(marshaler) || p.Implements(text) {
			// The type decides itself how it looks.
			if sample, err := json.Marshal(reflect.New(t).Interface()); err == nil && sample[0] != '{' {
				return Scalars, false
			}
		}
		return Objects, pointer
	case reflect.Interface:
		return Mixed, pointer
	}
	return Scalars, false
}

// destinations tells which Go types the members of a row are read into.
type destinations struct {
	row    reflect.Type
	fields map[string]reflect.Type // nil where the row is no struct
}

func newDestinations(row reflect.Type) destinations {
	d := destinations{row: row}
	for row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	switch row.Kind() {
	case reflect.Struct:
		d.fields = make(map[string]reflect.Type)
		for _, field := range reflect.VisibleFields(row) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" || field.Anonymous && name == "" {
				continue
			}
			if name == "" {
				name = field.Name
			}
			d.fields[name] = field.Type
		}
	case reflect.Map:
		d.row = row.Elem()
	}
	return d
}

// member returns the type that a member is read into, or nil.
func (d destinations) member(name string) reflect.Type {
	if d.fields == nil {
		return d.row
	}
	if t, ok := d.fields[name]; ok {
		return t
	}
	for other, t := range d.fields {
		if strings.EqualFold(other, name) {
			return t
		}
	}
	return nil
}

// isFloat reports whether a member is a float in Go, so that its numbers may
// have fractions although one has none.
func (d destinations) isFloat(name string) bool {
	t := d.member(name)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && (t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64)
}

// formFor returns the form in which decimals and times are read into a type.
func formFor(t reflect.Type) jsonrows.Form {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return jsonrows.Form{}
	}
	if t == reflect.TypeFor[json.Number]() {
		return jsonrows.Form{EpochTimes: true}
	}
	if t == reflect.TypeFor[time.Time]() {
		return jsonrows.Form{}
	}
	pointer := reflect.PointerTo(t)
	if pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) && !pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return jsonrows.Form{TextDecimals: true}
	}
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		return jsonrows.Form{TextDecimals: true}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return jsonrows.Form{EpochTimes: true}
	}
	return jsonrows.Form{}
}
