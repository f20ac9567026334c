// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// jsonInference finds the columns of documents.
type jsonInference struct {
	jsonrows.Reader
	fields []arrow.Field // without type while only nulls were seen
	index  map[string]int
	types  jsonDestinations
}

// inferJSONPlan returns the plan for rows like documents, which are of type row.
func inferJSONPlan(documents [][]byte, shape rowShape, row reflect.Type) (*jsonBridgePlan, error) {
	in := jsonInference{index: make(map[string]int), types: newJSONDestinations(row)}
	objects := 0
	for i, document := range documents {
		in.Data, in.Pos = document, 0
		var err *JSONError
		switch c := in.Peek(); {
		case c == '{' && shape != scalarRows:
			objects++
			err = in.object()
		case c != 'n' || shape == scalarRows:
			err = in.sample(scalarColumn)
		}
		if err != nil {
			return nil, &RowError{Row: i, Cause: err}
		}
	}
	if len(in.fields) == 0 && shape == anyRows && objects == 0 {
		in.field(scalarColumn)
	}
	for i := range in.fields {
		if in.fields[i].Type == nil {
			in.fields[i].Type = arrow.BinaryTypes.String
		}
	}
	scalar := shape == scalarRows || shape == anyRows && objects == 0
	return newJSONBridgePlan(arrow.NewSchema(in.fields, nil), scalar)
}

func (in *jsonInference) object() *JSONError {
	in.Pos++
	for more := in.Peek() != '}'; more; {
		name, err := in.Quoted()
		if err != nil {
			return err
		}
		column := string(name)
		if err := in.Expect(':', "a colon"); err != nil {
			return err
		}
		if err := in.sample(column); err != nil {
			return err
		}
		if more = in.Peek() == ','; more {
			in.Pos++
		}
	}
	return in.Expect('}', "a comma or the end of the object")
}

// field returns the column of that name, a new one where there is none.
func (in *jsonInference) field(name string) *arrow.Field {
	i, ok := in.index[name]
	if !ok {
		i = len(in.fields)
		in.index[name] = i
		in.fields = append(in.fields, arrow.Field{Name: name, Nullable: true})
	}
	return &in.fields[i]
}

// sample reads a value of a column, and takes the column's type from it where
// it is the first that is not null.
func (in *jsonInference) sample(name string) *JSONError {
	field := in.field(name)
	c := in.Peek()
	start := in.Pos
	if err := in.Skip(); err != nil {
		return err
	}
	if field.Type != nil || c == 'n' {
		return nil
	}
	switch c {
	case '{', '[':
		field.Metadata = arrow.NewMetadata([]string{jsonrows.TextKey}, []string{"true"})
		field.Type = arrow.BinaryTypes.String
	case '"':
		field.Type = arrow.BinaryTypes.String
	case 't', 'f':
		field.Type = arrow.FixedWidthTypes.Boolean
	default:
		field.Type = numberType(in.Data[start:in.Pos])
		if in.types.isFloat(name) {
			field.Type = arrow.PrimitiveTypes.Float64
		}
	}
	return nil
}

// numberType returns the type of a column whose first value is that number.
func numberType(text []byte) arrow.DataType {
	for _, c := range text {
		if c == '.' || c|0x20 == 'e' {
			return arrow.PrimitiveTypes.Float64
		}
	}
	var r jsonrows.Reader
	if d := r.Decimal(text); !d.Negative {
		if v, err := d.Unsigned(); err == nil && v > math.MaxInt64 {
			return arrow.PrimitiveTypes.Uint64
		}
	}
	return arrow.PrimitiveTypes.Int64
}

// jsonDestinations tells which Go types the members of a row are read into.
type jsonDestinations struct {
	row    reflect.Type
	fields map[string]reflect.Type // nil where the row is no struct
}

func newJSONDestinations(row reflect.Type) jsonDestinations {
	d := jsonDestinations{row: row}
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
func (d jsonDestinations) member(name string) reflect.Type {
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
func (d jsonDestinations) isFloat(name string) bool {
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
