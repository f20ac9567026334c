// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// schemaLayout is what writing needs to know about a schema.
type schemaLayout struct {
	schema *arrow.Schema
	prefix []byte // the schema message
	fields []fieldShape
}

// Layouts remembers the layout of the schema that was written last.
type Layouts struct{ last atomic.Pointer[schemaLayout] }

func (c *Layouts) of(schema *arrow.Schema) (*schemaLayout, error) {
	if last := c.last.Load(); last != nil && last.schema == schema {
		return last, nil
	}
	var stream bytes.Buffer
	writer := ipc.NewWriter(&stream, ipc.WithSchema(schema))
	if err := writer.Close(); err != nil {
		return nil, err
	}
	prefix := bytes.TrimSuffix(stream.Bytes(), endOfStream[:])
	parsed, err := parseSchema(prefix[8:])
	if err != nil {
		return nil, err
	}
	layout := &schemaLayout{schema, prefix, parsed.fields}
	c.last.Store(layout)
	return layout, nil
}

// Encoder writes ranges of a batch's rows as streams. The size of a stream
// is known before it is written.
type Encoder struct {
	layout       *schemaLayout
	columns      []rowRange
	dictionaries []byte // the messages with the dictionaries
	owned        []arrow.ArrayData
	plan         messagePlan
}

// rowRange is a range of physical rows of a column.
type rowRange struct {
	data         arrow.ArrayData
	base, length int
}

// NewEncoder returns an encoder of the rows of a batch, which the caller releases.
func NewEncoder(mem memory.Allocator, layouts *Layouts, batch arrow.RecordBatch) (*Encoder, error) {
	layout, err := layouts.of(batch.Schema())
	if err != nil {
		return nil, err
	}
	e := &Encoder{layout: layout, columns: make([]rowRange, batch.NumCols())}
	finished := false
	defer func() {
		if !finished {
			e.Release()
		}
	}()
	e.plan.nodes = make([]int64, 0, 2*len(e.columns))
	e.plan.parts = make([]bodyPart, 0, 3*len(e.columns))
	for i, column := range batch.Columns() {
		e.columns[i] = rowRange{column.Data(), column.Data().Offset(), column.Len()}
		if err := e.normalize(mem, &e.columns[i]); err != nil {
			return nil, err
		}
		e.addDictionaries(&layout.fields[i], e.columns[i].data)
	}
	finished = true
	return e, nil
}

// HasDictionaries reports whether every stream of the encoder holds dictionaries.
func (e *Encoder) HasDictionaries() bool { return len(e.dictionaries) > 0 }

// Release releases the memory of the encoder.
func (e *Encoder) Release() { arrays.Release(e.owned) }

// normalize copies a column whose values lie anywhere in its children or
// blocks, so that the values of consecutive rows follow each other, and a
// dictionary column with unused values.
func (e *Encoder) normalize(mem memory.Allocator, column *rowRange) error {
	var copied arrow.ArrayData
	var err error
	if hasLooseValues(column.data.DataType()) {
		var rows arrays.Selection
		rows.Extend(0, column.length)
		copied, err = rows.Take(mem, column.data, column.base)
	} else if _, ok := arrays.StorageType(column.data.DataType()).(*arrow.DictionaryType); ok {
		copied, err = arrays.PruneDictionary(mem, column.data, column.base, column.length)
	}
	if err != nil || copied == nil {
		return err
	}
	e.owned = append(e.owned, copied)
	*column = rowRange{copied, 0, column.length}
	return nil
}

func hasLooseValues(dt arrow.DataType) bool {
	switch storage := arrays.StorageType(dt).(type) {
	case arrow.BinaryViewDataType, *arrow.ListViewType, *arrow.LargeListViewType, *arrow.DenseUnionType:
		return true
	case arrow.NestedType:
		return slices.ContainsFunc(storage.Fields(), func(f arrow.Field) bool { return hasLooseValues(f.Type) })
	}
	return false
}

// addDictionaries writes the messages for the dictionaries of a column, the
// inner ones first.
func (e *Encoder) addDictionaries(field *fieldShape, data arrow.ArrayData) {
	children := data.Children()
	if field.dictionary >= 0 {
		children = data.Dictionary().Children()
	}
	for i := range field.children {
		e.addDictionaries(&field.children[i], children[i])
	}
	if field.dictionary < 0 {
		return
	}
	values := data.Dictionary()
	e.plan.reset()
	e.plan.column(values, values.Offset(), values.Len())
	e.dictionaries = slices.Grow(e.dictionaries, e.plan.messageSize(dictionaryMessage))
	e.dictionaries = e.plan.append(e.dictionaries, dictionaryMessage, values.Len(), field.dictionary)
}

// Size returns the size of the stream of a range of rows.
func (e *Encoder) Size(from, to int) int {
	e.prepare(from, to)
	return len(e.layout.prefix) + len(e.dictionaries) + e.plan.messageSize(batchMessage) + len(endOfStream)
}

func (e *Encoder) prepare(from, to int) {
	e.plan.reset()
	for _, column := range e.columns {
		e.plan.column(column.data, column.base+from, to-from)
	}
}

// Encode returns the stream of a range of rows.
func (e *Encoder) Encode(from, to int) []byte {
	stream := make([]byte, 0, e.Size(from, to))
	stream = append(stream, e.layout.prefix...)
	stream = append(stream, e.dictionaries...)
	stream = e.plan.append(stream, batchMessage, to-from, 0)
	return append(stream, endOfStream[:]...)
}

func (p *messagePlan) reset() {
	p.nodes, p.parts, p.variadic, p.body = p.nodes[:0], p.parts[:0], p.variadic[:0], 0
}

func (p *messagePlan) add(part bodyPart) {
	p.parts = append(p.parts, part)
	p.body += (part.size + 7) &^ 7
}

func (p *messagePlan) raw(data []byte) { p.add(bodyPart{kind: bytesPart, data: data, size: len(data)}) }

func (p *messagePlan) bits(data []byte, base, rows int) {
	p.add(bodyPart{kind: bitsPart, data: data, base: base, rows: rows, size: (rows + 7) / 8})
}

// column plans rows of a column from the physical row base on.
func (p *messagePlan) column(data arrow.ArrayData, base, rows int) {
	storage := arrays.StorageType(data.DataType())
	switch storage := storage.(type) {
	case *arrow.NullType:
		p.nodes = append(p.nodes, int64(rows), int64(rows))
		return
	case *arrow.RunEndEncodedType:
		p.runEndEncoded(data, base, rows)
		return
	case *arrow.SparseUnionType:
		p.nodes = append(p.nodes, int64(rows), 0)
		p.raw(fixedRange(data, base, rows, 1))
		p.children(data, base, rows)
		return
	case *arrow.DenseUnionType:
		p.denseUnion(data, storage, base, rows)
		return
	}
	p.validity(data, base, rows)
	switch storage := storage.(type) {
	case *arrow.BooleanType:
		if rows == 0 {
			p.raw(nil)
			return
		}
		p.bits(data.Buffers()[1].Bytes(), base, rows)
	case *arrow.StringType, *arrow.BinaryType:
		first, count := planOffsets[int32](p, offsets32Part, data, base, rows)
		p.raw(bytesRange(data, first, count))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		first, count := planOffsets[int64](p, offsets64Part, data, base, rows)
		p.raw(bytesRange(data, first, count))
	case arrow.BinaryViewDataType:
		p.views(data, base, rows)
	case *arrow.ListType, *arrow.MapType:
		first, count := planOffsets[int32](p, offsets32Part, data, base, rows)
		p.child(data, 0, first, count)
	case *arrow.LargeListType:
		first, count := planOffsets[int64](p, offsets64Part, data, base, rows)
		p.child(data, 0, first, count)
	case *arrow.ListViewType:
		planListView[int32](p, offsets32Part, data, base, rows)
	case *arrow.LargeListViewType:
		planListView[int64](p, offsets64Part, data, base, rows)
	case *arrow.FixedSizeListType:
		size := int(storage.Len())
		p.child(data, 0, base*size, rows*size)
	case *arrow.StructType:
		p.children(data, base, rows)
	case arrow.FixedWidthDataType: // also indexes of a dictionary
		p.raw(fixedRange(data, base, rows, storage.BitWidth()/8))
	}
}

func (p *messagePlan) validity(data arrow.ArrayData, base, rows int) {
	nulls := 0
	bitmap := data.Buffers()[0]
	if bitmap != nil && data.NullN() != 0 && rows > 0 {
		nulls = rows - bitutil.CountSetBits(bitmap.Bytes(), base, rows)
	}
	p.nodes = append(p.nodes, int64(rows), int64(nulls))
	if nulls == 0 {
		p.raw(nil)
		return
	}
	p.bits(bitmap.Bytes(), base, rows)
}

func (p *messagePlan) child(data arrow.ArrayData, i, first, count int) {
	child := data.Children()[i]
	p.column(child, child.Offset()+first, count)
}

func (p *messagePlan) children(data arrow.ArrayData, base, rows int) {
	for i := range data.Children() {
		p.child(data, i, base, rows)
	}
}

func fixedRange(data arrow.ArrayData, base, rows, width int) []byte {
	if rows*width == 0 {
		return nil
	}
	return data.Buffers()[1].Bytes()[base*width : (base+rows)*width]
}

func bytesRange(data arrow.ArrayData, first, count int) []byte {
	if count == 0 {
		return nil
	}
	return data.Buffers()[2].Bytes()[first : first+count]
}

// planOffsets plans the offsets of values and returns the range that they span.
func planOffsets[O offsetInt](p *messagePlan, kind partKind, data arrow.ArrayData, base, rows int) (first, count int) {
	width := int(unsafe.Sizeof(O(0)))
	if rows == 0 {
		p.raw(make([]byte, width))
		return 0, 0
	}
	raw := data.Buffers()[1].Bytes()
	offsets := arrays.Cast[O](raw)
	first = int(offsets[base])
	p.add(bodyPart{kind: kind, data: raw, base: base, rows: rows + 1, size: (rows + 1) * width, move: int64(first)})
	return first, int(offsets[base+rows]) - first
}

// planListView plans list views whose values are in the order of their rows.
func planListView[O offsetInt](p *messagePlan, kind partKind, data arrow.ArrayData, base, rows int) {
	if rows == 0 {
		p.raw(nil)
		p.raw(nil)
		p.child(data, 0, 0, 0)
		return
	}
	width := int(unsafe.Sizeof(O(0)))
	raw, sizes := data.Buffers()[1].Bytes(), data.Buffers()[2].Bytes()
	offsets := arrays.Cast[O](raw)
	first, last := int(offsets[base]), base+rows-1
	p.add(bodyPart{kind: kind, data: raw, base: base, rows: rows, size: rows * width, move: int64(first)})
	p.raw(sizes[base*width : (base+rows)*width])
	p.child(data, 0, first, int(offsets[last]+arrays.Cast[O](sizes)[last])-first)
}

// views plans views whose long values are in the order of their rows, in one
// block.
func (p *messagePlan) views(data arrow.ArrayData, base, rows int) {
	raw := fixedRange(data, base, rows, arrow.ViewHeaderSizeBytes)
	first, end := 0, 0
	headers := arrays.Cast[arrow.ViewHeader](raw)
	for i := range headers {
		if header := &headers[i]; !header.IsInline() {
			if end == 0 {
				first = int(header.BufferOffset())
			}
			end = int(header.BufferOffset()) + header.Len()
		}
	}
	p.add(bodyPart{kind: viewsPart, data: raw, rows: rows, size: len(raw), move: int64(first)})
	p.variadic = append(p.variadic, 1)
	if end == 0 {
		p.raw(nil)
		return
	}
	p.raw(data.Buffers()[2].Bytes()[first:end])
}

// denseUnion plans a union each of whose children is in the order of the rows.
func (p *messagePlan) denseUnion(data arrow.ArrayData, union *arrow.DenseUnionType, base, rows int) {
	p.nodes = append(p.nodes, int64(rows), 0)
	p.raw(fixedRange(data, base, rows, 1))
	ranges := make([]struct{ start, length int }, len(data.Children()))
	relative := make([]byte, rows*4)
	if rows > 0 {
		ids := union.ChildIDs()
		codes := arrays.Cast[arrow.UnionTypeCode](data.Buffers()[1].Bytes())[base:]
		offsets := arrays.Cast[int32](data.Buffers()[2].Bytes())[base:]
		for i := range rows {
			child := &ranges[ids[codes[i]]]
			if child.length == 0 {
				child.start = int(offsets[i])
			}
			binary.NativeEndian.PutUint32(relative[i*4:], uint32(child.length))
			child.length++
		}
	}
	p.raw(relative)
	for i, r := range ranges {
		p.child(data, i, r.start, r.length)
	}
}

func (p *messagePlan) runEndEncoded(data arrow.ArrayData, base, rows int) {
	p.nodes = append(p.nodes, int64(rows), 0)
	var ends []int64
	first := 0
	for i, end := range arrays.RunEnds(data.Children()[0]) {
		if rows == 0 || end <= int64(base) {
			continue
		}
		if len(ends) == 0 {
			first = i
		}
		ends = append(ends, min(end, int64(base+rows))-int64(base))
		if end >= int64(base+rows) {
			break
		}
	}
	width := data.Children()[0].DataType().(arrow.FixedWidthDataType).BitWidth() / 8
	p.nodes = append(p.nodes, int64(len(ends)), 0)
	p.raw(nil)
	p.add(bodyPart{kind: runEndsPart, ends: ends, rows: len(ends), size: len(ends) * width})
	p.child(data, 1, first, len(ends))
}
