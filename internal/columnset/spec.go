// SPDX-License-Identifier: Apache-2.0

package columnset

import "github.com/apache/arrow-go/v18/arrow"

// kind is how a column lies in memory.
type kind uint8

const (
	words     kind = iota // values of eight bytes
	halfWords             // values of four bytes
	fixed                 // values of another width
	bools                 // bits
	texts                 // offsets and bytes
	lists                 // offsets and one child, the items
	maps                  // offsets and two children, keys and values
	structs               // one child a field
)

// ColumnSpec describes a column of a schema and the columns inside it.
type ColumnSpec struct {
	ID       int // position in the walk over a schema's columns, parents before children
	Field    arrow.Field
	Children []*ColumnSpec // as in [Column.Children]

	kind  kind
	width int // bytes of a value that has a fixed width

	// dictionary holds the values of a column of indexes; nil for others.
	dictionary arrow.Array
}

// Spec describes the columns of a schema. It is immutable and safe for concurrent
// use.
type Spec struct {
	schema  *arrow.Schema
	columns []*ColumnSpec // the top level, as in schema
	count   int           // of all columns
}

// NewSpec describes the columns of a schema, which may be of Boolean, fixed-width,
// String, Binary, Dictionary, List, Map and Struct types. dictionary returns the
// values of a dictionary column; it may be nil where there are none.
func NewSpec(schema *arrow.Schema, dictionary func(arrow.Field) arrow.Array) *Spec {
	s := &Spec{schema: schema}
	for _, field := range schema.Fields() {
		s.columns = append(s.columns, s.add(field, dictionary))
	}
	return s
}

// Schema returns the schema that the spec describes.
func (s *Spec) Schema() *arrow.Schema { return s.schema }

// Columns returns the columns of the top level, as in the schema.
func (s *Spec) Columns() []*ColumnSpec { return s.columns }

func (s *Spec) add(field arrow.Field, dictionary func(arrow.Field) arrow.Array) *ColumnSpec {
	c := &ColumnSpec{ID: s.count, Field: field}
	s.count++
	nested := func(fields ...arrow.Field) {
		for _, f := range fields {
			c.Children = append(c.Children, s.add(f, dictionary))
		}
	}
	switch dt := field.Type.(type) {
	case *arrow.BooleanType:
		c.kind = bools
	case *arrow.StringType, *arrow.BinaryType:
		c.kind = texts
	case *arrow.ListType:
		c.kind = lists
		nested(dt.ElemField())
	case *arrow.MapType:
		c.kind = maps
		nested(dt.KeyField(), dt.ItemField())
	case *arrow.StructType:
		c.kind = structs
		nested(dt.Fields()...)
	case *arrow.DictionaryType:
		c.setWidth(dt.IndexType.(arrow.FixedWidthDataType).Bytes())
		c.dictionary = dictionary(field)
	case arrow.FixedWidthDataType:
		c.setWidth(dt.Bytes())
	}
	return c
}

func (c *ColumnSpec) setWidth(width int) {
	c.width = width
	switch width {
	case 4:
		c.kind = halfWords
	case 8:
		c.kind = words
	default:
		c.kind = fixed
	}
}
