// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"math"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// inference finds the columns of documents.
type inference struct {
	jsonrows.Reader
	fields []arrow.Field // without type while only nulls were seen
	index  map[string]int
	types  destinations
}

// Infer returns the plan for rows like documents, which are of type row.
func Infer(documents [][]byte, shape Shape, row reflect.Type) (*Plan, error) {
	in := inference{index: make(map[string]int), types: newDestinations(row)}
	objects := 0
	for i, document := range documents {
		in.Data, in.Pos = document, 0
		var err *jsonrows.Error
		switch c := in.Peek(); {
		case c == '{' && shape != Scalars:
			objects++
			err = in.object()
		case c != 'n' || shape == Scalars:
			err = in.sample(ScalarColumn)
		}
		if err != nil {
			return nil, &RowError{Row: i, Cause: err}
		}
	}
	if len(in.fields) == 0 && shape == Mixed && objects == 0 {
		in.field(ScalarColumn)
	}
	for i := range in.fields {
		if in.fields[i].Type == nil {
			in.fields[i].Type = arrow.BinaryTypes.String
		}
	}
	scalar := shape == Scalars || shape == Mixed && objects == 0
	return NewPlan(arrow.NewSchema(in.fields, nil), scalar)
}

func (in *inference) object() *jsonrows.Error {
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
func (in *inference) field(name string) *arrow.Field {
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
func (in *inference) sample(name string) *jsonrows.Error {
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
