// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/encoding/protowire"
)

// Writer is how the batches of one Arrow schema are written as messages of a
// plan. It is immutable and safe for concurrent use.
type Writer struct {
	plan    *Plan
	columns []int // of the batch, for each field of the plan
	unknown int   // column of undeclared fields, or -1
}

// WriterOptions are what a [Writer] does beyond its plan.
type WriterOptions struct {
	// Unknown appends the column of [UnknownField] to each message, if the batch
	// has it.
	Unknown bool
}

// NewWriter returns how batches of a schema are written. Columns are found by
// name, the first of that name, and further columns do not count. Columns that are
// missing, or of a type that the field cannot take, are [ColumnErrors].
func (p *Plan) NewWriter(schema *arrow.Schema, options WriterOptions) (*Writer, error) {
	w := &Writer{plan: p, unknown: -1}
	var problems ColumnErrors
	for _, f := range p.root.fields {
		at := firstColumn(schema, f.name)
		w.columns = append(w.columns, at)
		switch {
		case at < 0:
			problems = append(problems, &ColumnError{
				Path: f.name, Reason: fmt.Sprintf("the batch has no such column for the field of message %s", p.root.descriptor.FullName()),
			})
		default:
			problems = append(problems, checkField(f, schema.Field(at).Type, f.name)...)
		}
	}
	if options.Unknown {
		if at := firstColumn(schema, UnknownField.Name); at >= 0 {
			w.unknown = at
			if !isBytes(schema.Field(at).Type) {
				problems = append(problems, &ColumnError{UnknownField.Name, fmt.Sprintf("undeclared fields are Binary, not %s", schema.Field(at).Type)})
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return w, nil
}

func firstColumn(schema *arrow.Schema, name string) int {
	first := -1
	for _, at := range schema.FieldIndices(name) {
		if first < 0 || at < first {
			first = at
		}
	}
	return first
}

// checkField reports what keeps a column from being written as a field.
func checkField(f *fieldPlan, column arrow.DataType, path string) ColumnErrors {
	wrong := func() ColumnErrors {
		return ColumnErrors{&ColumnError{path, fmt.Sprintf("a column of Arrow type %s cannot be written as Protobuf %s", column, f.kind())}}
	}
	switch f.cardinality {
	case repeated:
		list, ok := column.(arrow.ListLikeType)
		if _, isMap := column.(*arrow.MapType); !ok || isMap || !isList(column) {
			return wrong()
		}
		return checkValue(&f.value, list.Elem(), path+"[]", f)
	case mapped:
		m, ok := column.(*arrow.MapType)
		if !ok {
			return wrong()
		}
		return append(checkValue(&f.entry.fields[0].value, m.KeyType(), path+".key", f.entry.fields[0]),
			checkValue(&f.entry.fields[1].value, m.ItemType(), path+".value", f.entry.fields[1])...)
	default:
		return checkValue(&f.value, column, path, f)
	}
}

func isList(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.LIST, arrow.LARGE_LIST:
		return true
	}
	return false
}

// kind describes a field for an error.
func (f *fieldPlan) kind() string {
	switch {
	case f.cardinality == mapped:
		return "map " + f.name
	case f.cardinality == repeated:
		return fmt.Sprintf("list %s of %s", f.name, f.value.column)
	default:
		return fmt.Sprintf("field %s, which takes %s", f.name, f.value.column)
	}
}

// checkValue reports what keeps a column from being written as a value.
func checkValue(v *valuePlan, column arrow.DataType, path string, f *fieldPlan) ColumnErrors {
	wrong := func() ColumnErrors {
		return ColumnErrors{&ColumnError{path, fmt.Sprintf("a column of Arrow type %s cannot be written as Protobuf field %s, which takes %s", column, f.name, v.column)}}
	}
	switch v.shape {
	case structShape:
		st, ok := column.(*arrow.StructType)
		if !ok {
			return wrong()
		}
		var problems ColumnErrors
		for _, inner := range v.message.fields {
			if at, ok := st.FieldIdx(inner.name); ok {
				problems = append(problems, checkField(inner, st.Field(at).Type, path+"."+inner.name)...)
			} else {
				problems = append(problems, &ColumnError{path + "." + inner.name, fmt.Sprintf("the struct has no such child for the field of message %s", v.message.descriptor.FullName())})
			}
		}
		return problems
	case timestampShape:
		if column.ID() != arrow.TIMESTAMP {
			return wrong()
		}
		return nil
	case wrapperShape:
		return checkValue(&v.message.fields[0].value, column, path, f)
	case jsonShape:
		if !isBytes(column) {
			return wrong()
		}
		return nil
	}
	if !takes(v, column) {
		return wrong()
	}
	return nil
}

// takes reports whether a scalar can be written from columns of a type. Integers
// of any width are taken, and checked row by row where they are wider.
func takes(v *valuePlan, column arrow.DataType) bool {
	switch {
	case v.storage == storeBool:
		return column.ID() == arrow.BOOL
	case v.storage == storeBytes, v.storage == storeEnum:
		return isBytes(column)
	case v.float:
		return column.ID() == arrow.FLOAT32 || column.ID() == arrow.FLOAT64
	default:
		return arrow.IsInteger(column.ID())
	}
}

func isBytes(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return true
	}
	return false
}

// Encoder writes the rows of one batch, which must outlive it.
//
// An Encoder is not safe for concurrent use.
type Encoder struct {
	root    *sourceMessage
	unknown *source
}

// NewEncoder binds the writer to a batch of its schema.
func (w *Writer) NewEncoder(batch arrow.RecordBatch) *Encoder {
	e := &Encoder{root: newSourceMessage(w.plan.root, func(i int) arrow.Array { return batch.Column(w.columns[i]) })}
	if w.unknown >= 0 {
		unknown := newSource(batch.Column(w.unknown))
		e.unknown = &unknown
	}
	return e
}

// AppendRow appends the message of a row to dst, with its fields in ascending
// order of their numbers, and returns the extended slice. With an error, a
// [*ValueError], it returns dst as it was.
func (e *Encoder) AppendRow(dst []byte, row int) ([]byte, error) {
	out, err := e.root.appendTo(dst, row)
	if err != nil {
		return dst, located(err)
	}
	if e.unknown != nil && e.unknown.isValid(row) {
		undeclared := e.unknown.text(row)
		if !isFields(undeclared) {
			return dst, located(under(valueFault("the bytes are no Protobuf fields"), UnknownField.Name))
		}
		out = append(out, undeclared...)
	}
	return out, nil
}

// isFields reports whether bytes are a sequence of whole fields.
func isFields(wire []byte) bool {
	for len(wire) > 0 {
		_, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return false
		}
		wire = wire[n:]
	}
	return true
}
