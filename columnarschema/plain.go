// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// plainer makes columns of the types that encoders read: Utf8, Binary and List in
// place of their views and their large forms, and values in place of their run-end
// and dictionary encodings and of extensions.
type plainer struct {
	mem memory.Allocator
	// dictionaries says that the encoder reads dictionaries.
	dictionaries bool
}

// batch returns a batch of plain columns, which the caller owns.
func (p plainer) batch(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	plain := true
	for _, field := range batch.Schema().Fields() {
		plain = plain && p.isPlain(field.Type)
	}
	if plain {
		batch.Retain()
		return batch, nil
	}
	fields, columns := batch.Schema().Fields(), make([]arrow.Array, 0, batch.NumCols())
	defer func() { arrays.Release(columns) }()
	for i, column := range batch.Columns() {
		converted, err := p.array(column)
		if err != nil {
			return nil, &ValueError{Column: fields[i].Name, Cause: err}
		}
		columns = append(columns, converted)
		fields[i].Type = converted.DataType()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, batch.NumRows()), nil
}

func (p plainer) isPlain(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case arrow.ExtensionType, *arrow.RunEndEncodedType, *arrow.LargeStringType, *arrow.LargeBinaryType,
		*arrow.StringViewType, *arrow.BinaryViewType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.ListViewType, *arrow.LargeListViewType:
		return false
	case *arrow.DictionaryType:
		return p.dictionaries && p.isPlain(dt.ValueType)
	case arrow.NestedType:
		for _, field := range dt.Fields() {
			if !p.isPlain(field.Type) {
				return false
			}
		}
	}
	return true
}

// array returns a plain column, which the caller owns.
func (p plainer) array(arr arrow.Array) (arrow.Array, error) {
	if p.isPlain(arr.DataType()) {
		arr.Retain()
		return arr, nil
	}
	switch arr := arr.(type) {
	case array.ExtensionArray, *array.Dictionary:
		values, err := arrays.Plain(p.mem, arr)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return p.array(values)
	case *array.RunEndEncoded:
		rows := make([]int32, arr.Len())
		for i := range rows {
			rows[i] = int32(arr.GetPhysicalIndex(i))
		}
		return p.gathered(arr.Values(), rows)
	case *array.LargeString, *array.StringView:
		return p.bytes(arr, arrow.BinaryTypes.String)
	case *array.LargeBinary, *array.BinaryView:
		return p.bytes(arr, arrow.BinaryTypes.Binary)
	case *array.List, *array.Map, *array.Struct:
		return p.nested(arr)
	default:
		return p.list(arr.(array.ListLike))
	}
}

// gathered returns rows of values; -1 is null.
func (p plainer) gathered(values arrow.Array, rows []int32) (arrow.Array, error) {
	chosen, err := arrays.Gather(p.mem, values, rows)
	if err != nil {
		return nil, err
	}
	defer chosen.Release()
	return p.array(chosen)
}

func (p plainer) bytes(arr arrow.Array, dt arrow.DataType) (arrow.Array, error) {
	values, err := arrays.ReadBytes(arr)
	if err != nil {
		return nil, err
	}
	return arrays.BuildBytes(p.mem, dt, arr.Len(), func(row int) []byte {
		if arr.IsNull(row) {
			return nil
		}
		return append([]byte{}, values.At(row)...)
	})
}

// nested makes the children of a list, map or struct plain.
func (p plainer) nested(arr arrow.Array) (arrow.Array, error) {
	data := arr.Data()
	children := make([]arrow.ArrayData, 0, len(data.Children()))
	defer func() { arrays.Release(children) }()
	for _, child := range data.Children() {
		values := array.MakeFromData(child)
		converted, err := p.array(values)
		values.Release()
		if err != nil {
			return nil, err
		}
		converted.Data().Retain()
		children = append(children, converted.Data())
		converted.Release()
	}
	var dt arrow.DataType
	switch old := arr.DataType().(type) {
	case *arrow.ListType:
		item := old.ElemField()
		item.Type = children[0].DataType()
		dt = arrow.ListOfField(item)
	case *arrow.MapType:
		entries := children[0].DataType().(*arrow.StructType)
		dt = arrow.MapOfFields(entries.Field(0), entries.Field(1))
	case *arrow.StructType:
		fields := old.Fields()
		for i := range fields {
			fields[i].Type = children[i].DataType()
		}
		dt = arrow.StructOf(fields...)
	}
	rebuilt := array.NewData(dt, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	defer rebuilt.Release()
	return array.MakeFromData(rebuilt), nil
}

// list makes a List of a column of lists in another form.
func (p plainer) list(arr array.ListLike) (arrow.Array, error) {
	offsets := arrays.NewBuffer(p.mem, 4*(arr.Len()+1))
	defer offsets.Release()
	ends := arrays.Cast[int32](offsets.Bytes())
	ends[0] = 0
	var rows []int32
	nulls := make([]bool, arr.Len())
	for i := range arr.Len() {
		if nulls[i] = arr.IsNull(i); !nulls[i] {
			from, to := arr.ValueOffsets(i)
			for ; from < to; from++ {
				rows = append(rows, int32(from))
			}
		}
		ends[i+1] = int32(len(rows))
	}
	items, err := p.gathered(arr.ListValues(), rows)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	item := arr.DataType().(arrow.ListLikeType).ElemField()
	item.Type = items.DataType()
	valid, count := validity(p.mem, nulls)
	if valid != nil {
		defer valid.Release()
	}
	data := array.NewData(arrow.ListOfField(item), arr.Len(), []*memory.Buffer{valid, offsets}, []arrow.ArrayData{items.Data()}, count, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// validity returns the bits of values that are not null, nil where none is null, and
// the number of nulls.
func validity(mem memory.Allocator, nulls []bool) (bits *memory.Buffer, count int) {
	for row, null := range nulls {
		if !null {
			continue
		}
		if bits == nil {
			bits = arrays.NewBuffer(mem, (len(nulls)+7)/8)
			memory.Set(bits.Bytes(), 0xff)
		}
		bits.Bytes()[row>>3] &^= 1 << (row & 7)
		count++
	}
	return bits, count
}
