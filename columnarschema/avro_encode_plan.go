// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// avroEncodePlan writes records under one schema.
type avroEncodePlan struct {
	schema *avroplan.Schema // of a record
	// foreign says that the schema is not the codec's own, so that fields without
	// a column take their defaults.
	foreign bool
}

func (p *avroEncodePlan) bind(batch arrow.RecordBatch) (rowEncoder, error) {
	b := avroBinder{foreign: p.foreign}
	fields := b.record(p.schema, "", func(name string) arrow.Array {
		if indices := batch.Schema().FieldIndices(name); len(indices) > 0 {
			return batch.Column(slices.Min(indices))
		}
		return nil
	})
	if len(b.mismatches) > 0 {
		return nil, &MismatchError{Columns: b.mismatches}
	}
	return &avroRowWriter{fields: fields}, nil
}

// avroBinder finds what writes the columns of a batch.
type avroBinder struct {
	foreign    bool
	mismatches []ColumnMismatch
}

func (b *avroBinder) mismatch(path, format string, args ...any) avroColumn {
	b.mismatches = append(b.mismatches, ColumnMismatch{Column: path, Reason: fmt.Sprintf(format, args...)})
	return avroColumn{}
}

// record binds the fields of a record to the columns that find returns for
// their names, nil where there is none.
func (b *avroBinder) record(s *avroplan.Schema, path string, find func(name string) arrow.Array) []avroColumn {
	columns := make([]avroColumn, len(s.Fields))
	for i, f := range s.Fields {
		at := f.Name
		if path != "" {
			at = path + "." + f.Name
		}
		values := find(f.Name)
		switch {
		case values != nil:
			columns[i] = b.column(f.Type, values, at)
		case b.foreign && f.HasDefault:
			columns[i] = avroColumn{code: writeConstant, branch: -1, null: -1, data: f.Default}
		default:
			columns[i] = b.mismatch(at, "the batch has no such column, which the schema has a field for")
		}
	}
	return columns
}

// column binds a schema to the values of a column.
func (b *avroBinder) column(s *avroplan.Schema, values arrow.Array, path string) avroColumn {
	null, branch := -1, -1
	if s.Kind == avroplan.Union {
		null = slices.IndexFunc(s.Branches, func(b *avroplan.Schema) bool { return b.Kind == avroplan.Null })
		if s.Values() > 1 {
			w := b.union(s, values, path)
			w.null, w.branch = null, -1
			return w
		}
		branch = slices.IndexFunc(s.Branches, func(b *avroplan.Schema) bool { return b.Kind != avroplan.Null })
		s = s.Branches[branch]
	}
	w := b.value(s, values, path)
	w.null = null
	w.setBranch(branch)
	return w
}

// setBranch makes the values that are not null write a branch of a union: those
// of a dictionary, which may be null too, and none in a column of nulls.
func (w *avroColumn) setBranch(branch int) {
	switch w.code {
	case writeDictionary:
		w.kids[0].null = w.null
		w.kids[0].setBranch(branch)
	case writeNull:
	default:
		w.branch = branch
	}
}

// newAvroColumn returns what the columns of all types need.
func newAvroColumn(s *avroplan.Schema, values arrow.Array, path string) avroColumn {
	w := avroColumn{schema: s, path: path, null: -1, branch: -1}
	if values.NullN() > 0 && values.NullBitmapBytes() != nil {
		w.valid, w.validStart = values.NullBitmapBytes(), values.Data().Offset()
	}
	return w
}

// value binds a schema that is no union.
func (b *avroBinder) value(s *avroplan.Schema, values arrow.Array, path string) avroColumn {
	w := newAvroColumn(s, values, path)
	switch arr := values.(type) {
	case *array.Null:
		w.code = writeNull
		return w
	case *array.Dictionary:
		return b.dictionary(w, arr)
	}
	if text, ok := values.(*array.String); ok && s.Kind == avroplan.Record {
		w.code = writeText
		w.setText(text)
		return w
	}
	if s.Logical == avroplan.Decimal {
		return b.decimal(w, values)
	}
	switch s.Kind {
	case avroplan.Boolean:
		if arr, ok := values.(*array.Boolean); ok {
			w.code, w.bitStart = writeBool, arr.Data().Offset()
			if buffer := arr.Data().Buffers()[1]; buffer != nil {
				w.bytes = buffer.Bytes()
			}
			return w
		}
	case avroplan.Int, avroplan.Long:
		return b.integer(w, values)
	case avroplan.Float, avroplan.Double:
		return b.float(w, values)
	case avroplan.String, avroplan.Enum:
		return b.text(w, values)
	case avroplan.Bytes:
		if arr, ok := values.(*array.Binary); ok {
			w.code = writeBytes
			w.ints, w.bytes = offsetsOf(arr), dataBytes(arr)
			return w
		}
	case avroplan.Fixed:
		if arr, ok := values.(*array.FixedSizeBinary); ok && arr.DataType().(*arrow.FixedSizeBinaryType).ByteWidth == s.Size {
			w.code = writeFixed
			w.setFixed(arr, s.Size)
			return w
		}
	case avroplan.Array:
		return b.list(w, values)
	case avroplan.Map:
		return b.entries(w, values)
	case avroplan.Record:
		if arr, ok := values.(*array.Struct); ok {
			w.code = writeRecord
			w.kids = b.record(s, path, structField(arr))
			return w
		}
	}
	return b.unfit(w, values)
}

// unfit reports a column whose type does not fit.
func (b *avroBinder) unfit(w avroColumn, values arrow.Array) avroColumn {
	name := w.schema.BranchName()
	if w.schema.Logical != avroplan.NoLogical {
		name += " " + w.schema.Logical.String()
	}
	return b.mismatch(w.path, "%v cannot be written as Avro %s", values.DataType(), name)
}

// structField returns what finds the columns of a struct by name.
func structField(arr *array.Struct) func(string) arrow.Array {
	dt := arr.DataType().(*arrow.StructType)
	return func(name string) arrow.Array {
		if i, ok := dt.FieldIdx(name); ok {
			return arr.Field(i)
		}
		return nil
	}
}

// offsetsOf returns the offsets of the values of a column, one more than there
// are values, or none for a column without values.
func offsetsOf(arr arrow.Array) []int32 {
	data := arr.Data()
	if data.Len() == 0 {
		return nil
	}
	return arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())[data.Offset() : data.Offset()+data.Len()+1]
}

// dataBytes returns the bytes that the offsets of a column refer to.
func dataBytes(arr arrow.Array) []byte {
	buffers := arr.Data().Buffers()
	if len(buffers) < 3 || buffers[2] == nil {
		return nil
	}
	return buffers[2].Bytes()
}

func (w *avroColumn) setText(arr *array.String) {
	w.ints, w.bytes, w.ascii = offsetsOf(arr), dataBytes(arr), true
	if len(w.ints) > 0 {
		w.ascii = arrays.IsASCII(w.bytes[w.ints[0]:w.ints[len(w.ints)-1]])
	}
}

// setFixed takes the values of a column of fixed width.
func (w *avroColumn) setFixed(arr arrow.Array, size int) {
	w.size = size
	if buffer := arr.Data().Buffers()[1]; buffer != nil {
		w.bytes = buffer.Bytes()[arr.Data().Offset()*size:]
	}
}

// text binds text to a string or an enum.
func (b *avroBinder) text(w avroColumn, values arrow.Array) avroColumn {
	arr, ok := values.(*array.String)
	if !ok {
		return b.unfit(w, values)
	}
	w.code = writeString
	w.setText(arr)
	if w.schema.Kind == avroplan.Enum {
		w.code, w.symbols = writeSymbol, symbolTable(w.schema)
	}
	return w
}

func symbolTable(s *avroplan.Schema) map[string]int {
	table := make(map[string]int, len(s.Symbols))
	for i, symbol := range s.Symbols {
		table[symbol] = i
	}
	return table
}

// dictionary binds a dictionary: to an enum by a table of symbols, to anything
// else by its values.
func (b *avroBinder) dictionary(w avroColumn, arr *array.Dictionary) avroColumn {
	w.index = arr.GetValueIndex
	symbols, ok := arr.Dictionary().(*array.String)
	if !ok || w.schema.Kind != avroplan.Enum || symbols.NullN() > 0 {
		w.code = writeDictionary
		w.kids = []avroColumn{b.value(w.schema, arr.Dictionary(), w.path)}
		return w
	}
	w.code = writeSymbolIndex
	w.ints = make([]int32, symbols.Len())
	table := symbolTable(w.schema)
	for i := range w.ints {
		symbol, ok := table[symbols.Value(i)]
		if !ok {
			symbol = -1
		}
		w.ints[i] = int32(symbol)
	}
	return w
}

// float binds floating-point numbers.
func (b *avroBinder) float(w avroColumn, values arrow.Array) avroColumn {
	switch arr := values.(type) {
	case *array.Float32:
		w.code, w.ints = writeFloat, arrow.Int32Traits.CastFromBytes(arrow.Float32Traits.CastToBytes(arr.Float32Values()))
		if w.schema.Kind == avroplan.Double {
			w.code = writeWidened
		}
		return w
	case *array.Float64:
		if w.schema.Kind == avroplan.Double {
			w.code = writeDouble
			w.longs = arrow.Int64Traits.CastFromBytes(arrow.Float64Traits.CastToBytes(arr.Float64Values()))
			return w
		}
	}
	return b.unfit(w, values)
}

// decimal binds decimals of the same scale.
func (b *avroBinder) decimal(w avroColumn, values arrow.Array) avroColumn {
	dt, ok := values.DataType().(arrow.DecimalType)
	if !ok {
		return b.unfit(w, values)
	}
	if int(dt.GetScale()) != w.schema.Scale {
		return b.mismatch(w.path, "%v has another scale than Avro decimal(%d,%d)", dt, w.schema.Precision, w.schema.Scale)
	}
	w.code, w.limit = writeDecimal, powerOfTen(w.schema.Precision)
	w.setFixed(values, dt.BitWidth()/8)
	return w
}

// list binds lists to an array.
func (b *avroBinder) list(w avroColumn, values arrow.Array) avroColumn {
	arr, ok := values.(*array.List)
	if !ok {
		return b.unfit(w, values)
	}
	w.code, w.ints = writeList, offsetsOf(arr)
	w.kids = []avroColumn{b.column(w.schema.Items, arr.ListValues(), w.path+"[]")}
	return w
}

// entries binds maps with keys of text to a map.
func (b *avroBinder) entries(w avroColumn, values arrow.Array) avroColumn {
	arr, ok := values.(*array.Map)
	if !ok {
		return b.unfit(w, values)
	}
	pairs := arr.ListValues().(*array.Struct)
	keys, ok := pairs.Field(0).(*array.String)
	if !ok {
		return b.unfit(w, values)
	}
	w.code, w.ints = writeMap, offsetsOf(arr)
	w.kids = []avroColumn{
		b.column(&avroplan.Schema{Kind: avroplan.String}, keys, w.path+"{}"),
		b.column(w.schema.Items, pairs.Field(1), w.path+"{}"),
	}
	return w
}

// union binds a struct whose fields are the branches of a union.
func (b *avroBinder) union(s *avroplan.Schema, values arrow.Array, path string) avroColumn {
	w := newAvroColumn(s, values, path)
	if _, ok := values.(*array.Null); ok {
		w.code = writeNull
		return w
	}
	arr, ok := values.(*array.Struct)
	if !ok {
		return b.unfit(w, values)
	}
	find := structField(arr)
	w.code = writeUnion
	for i, branch := range s.Branches {
		if branch.Kind == avroplan.Null {
			continue
		}
		at := path + "." + branch.BranchName()
		field := find(branch.BranchName())
		if field == nil {
			if !b.foreign {
				return b.mismatch(at, "the struct of the union has no field for this branch")
			}
			continue
		}
		kid := b.column(branch, field, at)
		kid.setBranch(i)
		w.kids = append(w.kids, kid)
	}
	return w
}

// integer binds integers, dates and times to an int or a long.
func (b *avroBinder) integer(w avroColumn, values arrow.Array) avroColumn {
	if w.schema.Logical != avroplan.NoLogical {
		return b.time(w, values)
	}
	switch arr := values.(type) {
	case *array.Int32:
		w.code, w.ints = writeInt32, arr.Int32Values()
		return w
	case *array.Int64:
		if w.schema.Kind == avroplan.Long {
			w.code, w.longs = writeInt64, arr.Int64Values()
			return w
		}
	case *array.Int8:
		w.setWidened(arr.Len(), func(i int) int64 { return int64(arr.Value(i)) })
		return w
	case *array.Int16:
		w.setWidened(arr.Len(), func(i int) int64 { return int64(arr.Value(i)) })
		return w
	case *array.Uint8:
		w.setWidened(arr.Len(), func(i int) int64 { return int64(arr.Value(i)) })
		return w
	case *array.Uint16:
		w.setWidened(arr.Len(), func(i int) int64 { return int64(arr.Value(i)) })
		return w
	case *array.Uint32:
		if w.schema.Kind == avroplan.Long {
			w.setWidened(arr.Len(), func(i int) int64 { return int64(arr.Value(i)) })
			return w
		}
	}
	return b.unfit(w, values)
}

func (w *avroColumn) setWidened(length int, value func(int) int64) {
	w.code, w.longs = writeInt64, make([]int64, length)
	for i := range w.longs {
		w.longs[i] = value(i)
	}
}

// avroUnits are the units of the logical types in nanoseconds, and the Arrow
// types whose values they can hold.
var avroUnits = map[avroplan.Logical]struct {
	nanos int64
	kinds []arrow.Type
	local bool
}{
	avroplan.Date:                 {24 * 3600 * 1e9, []arrow.Type{arrow.DATE32, arrow.DATE64}, false},
	avroplan.TimeMillis:           {1e6, []arrow.Type{arrow.TIME32, arrow.TIME64}, false},
	avroplan.TimeMicros:           {1e3, []arrow.Type{arrow.TIME32, arrow.TIME64}, false},
	avroplan.TimestampMillis:      {1e6, []arrow.Type{arrow.TIMESTAMP}, false},
	avroplan.TimestampMicros:      {1e3, []arrow.Type{arrow.TIMESTAMP}, false},
	avroplan.TimestampNanos:       {1, []arrow.Type{arrow.TIMESTAMP}, false},
	avroplan.LocalTimestampMillis: {1e6, []arrow.Type{arrow.TIMESTAMP}, true},
	avroplan.LocalTimestampMicros: {1e3, []arrow.Type{arrow.TIMESTAMP}, true},
	avroplan.LocalTimestampNanos:  {1, []arrow.Type{arrow.TIMESTAMP}, true},
}

// time binds dates and times to a logical type, between units where they
// differ.
func (b *avroBinder) time(w avroColumn, values arrow.Array) avroColumn {
	unit := avroUnits[w.schema.Logical]
	dt := values.DataType()
	if !slices.Contains(unit.kinds, dt.ID()) {
		return b.unfit(w, values)
	}
	nanos := unit.nanos
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		if unit.local != (dt.TimeZone == "") {
			return b.unfit(w, values)
		}
		nanos = int64(dt.Unit.Multiplier())
	case *arrow.Time32Type:
		nanos = int64(dt.Unit.Multiplier())
	case *arrow.Time64Type:
		nanos = int64(dt.Unit.Multiplier())
	case *arrow.Date64Type:
		nanos = 1e6
	}
	if nanos >= unit.nanos {
		w.factor = nanos / unit.nanos
	} else {
		w.factor = -(unit.nanos / nanos)
	}
	buffer := values.Data().Buffers()[1]
	if buffer == nil {
		w.code = writeNull // there are no values
		return w
	}
	start := values.Data().Offset()
	if dt.(arrow.FixedWidthDataType).Bytes() == 8 {
		w.longs = arrow.Int64Traits.CastFromBytes(buffer.Bytes())[start:]
		w.code = writeScaled
		if w.factor == 1 && w.schema.Kind == avroplan.Long {
			w.code = writeInt64
		}
		return w
	}
	ints := arrow.Int32Traits.CastFromBytes(buffer.Bytes())[start : start+values.Len()]
	if w.factor == 1 {
		w.code, w.ints = writeInt32, ints
		return w
	}
	w.setWidened(len(ints), func(i int) int64 { return int64(ints[i]) })
	w.code = writeScaled
	return w
}
