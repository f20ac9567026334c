// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// columnKind is how a column lies in memory.
type columnKind uint8

const (
	fixedColumn  columnKind = iota // values of one width
	boolColumn                     // bits
	bytesColumn                    // offsets and bytes
	listColumn                     // offsets and one child, the items
	mapColumn                      // offsets and two children, keys and values
	structColumn                   // one child a field
)

// columnSpec describes a column of a schema and the columns inside it. It is not
// changed once a codec is built.
type columnSpec struct {
	id       int // position in the walk over a schema's columns, parents before children
	field    arrow.Field
	kind     columnKind
	width    int // bytes of a value of a fixedColumn
	children []*columnSpec

	// dictionary holds the values of a column of indexes; nil for others.
	dictionary arrow.Array
}

// schemaSpec describes the payload columns of a codec.
type schemaSpec struct {
	schema  *arrow.Schema
	columns []*columnSpec // the top level, as in schema
	count   int           // of all columns
}

// newSchemaSpec describes the columns of a schema, whose types are those that
// the translators of this package produce. dictionary returns the values of a
// dictionary column.
func newSchemaSpec(schema *arrow.Schema, dictionary func(arrow.Field) arrow.Array) *schemaSpec {
	s := &schemaSpec{schema: schema}
	for _, field := range schema.Fields() {
		s.columns = append(s.columns, s.add(field, dictionary))
	}
	return s
}

func (s *schemaSpec) add(field arrow.Field, dictionary func(arrow.Field) arrow.Array) *columnSpec {
	c := &columnSpec{id: s.count, field: field}
	s.count++
	nested := func(fields ...arrow.Field) {
		for _, f := range fields {
			c.children = append(c.children, s.add(f, dictionary))
		}
	}
	switch dt := field.Type.(type) {
	case *arrow.BooleanType:
		c.kind = boolColumn
	case *arrow.StringType, *arrow.BinaryType:
		c.kind = bytesColumn
	case *arrow.ListType:
		c.kind = listColumn
		nested(dt.ElemField())
	case *arrow.MapType:
		c.kind = mapColumn
		nested(dt.KeyField(), dt.ItemField())
	case *arrow.StructType:
		c.kind = structColumn
		nested(dt.Fields()...)
	case *arrow.DictionaryType:
		c.width = dt.IndexType.(arrow.FixedWidthDataType).Bytes()
		c.dictionary = dictionary(field)
	case arrow.FixedWidthDataType:
		c.width = dt.Bytes()
	}
	return c
}

// column collects the values of one column for one batch.
//
// Rows are appended one after the other; truncate goes back to an earlier row.
// In a listColumn or mapColumn the items of a row are appended to the children
// first and endList then makes them a row. In a structColumn each child gets one
// value and endStruct then makes them a row.
type column struct {
	*columnSpec
	set      *columnSet
	length   int
	nulls    int
	valid    buffer // bits, from the first null on; nothing while all are valid
	data     buffer // values, bits or bytes
	offsets  buffer // length+1 of them
	children []*column

	// What a batch took before, for the memory of the next.
	lastData, lastLength, lastRows int
}

// columnSet collects the rows of one batch. It belongs to one goroutine at a
// time.
type columnSet struct {
	mem     memory.Allocator
	top     []*column
	all     []*column // by id
	rows    int       // complete rows
	scratch any       // of the format

	// overflow is the first column that has no room for a value. The row that
	// holds the value is not complete.
	overflow *column
}

func newColumnSet(spec *schemaSpec, mem memory.Allocator, scratch any) *columnSet {
	s := &columnSet{mem: mem, all: make([]*column, spec.count), scratch: scratch}
	for _, c := range spec.columns {
		s.top = append(s.top, s.add(c))
	}
	return s
}

func (s *columnSet) add(spec *columnSpec) *column {
	c := &column{columnSpec: spec, set: s}
	s.all[spec.id] = c
	for _, child := range spec.children {
		c.children = append(c.children, s.add(child))
	}
	return c
}

// begin makes room for rows rows that take size bytes on the wire.
func (s *columnSet) begin(rows, size int) {
	s.rows, s.overflow = 0, nil
	for _, c := range s.top {
		c.begin(rows, rows, size)
	}
}

// begin makes room for length values in a batch of that many rows and bytes.
func (c *column) begin(rows, length, size int) {
	switch c.kind {
	case fixedColumn:
		c.data.reserve(c.set.mem, length*c.width)
	case boolColumn:
		c.data.reserve(c.set.mem, (length+7)/8)
	case bytesColumn:
		c.data.reserve(c.set.mem, min(c.scaled(c.lastData, rows), size))
		c.beginOffsets(length)
	case listColumn, mapColumn:
		c.beginOffsets(length)
		for _, child := range c.children {
			child.begin(rows, min(child.scaled(child.lastLength, rows), size), size)
		}
	case structColumn:
		for _, child := range c.children {
			child.begin(rows, length, size)
		}
	}
}

// scaled returns what rows rows take if they are like those of the batch before.
func (c *column) scaled(last, rows int) int {
	if c.lastRows == 0 {
		return 0
	}
	return int(float64(last)/float64(c.lastRows)*float64(rows)*1.02) + 1
}

func (c *column) beginOffsets(length int) {
	c.offsets.reserve(c.set.mem, 4*(length+1))
	binary.NativeEndian.PutUint32(c.offsets.b, 0)
	c.offsets.n = 4
}

// discard frees the memory of all columns.
func (s *columnSet) discard() {
	for _, c := range s.all {
		c.valid.release()
		c.data.release()
		c.offsets.release()
		c.length, c.nulls = 0, 0
	}
}

// commit makes the values appended to every column of the top level a row. It
// reports whether the row fits; one that does not fit is taken back.
func (s *columnSet) commit() bool {
	if s.overflow != nil {
		s.rollback()
		return false
	}
	s.rows++
	return true
}

// rollback removes what has been appended since the last complete row.
func (s *columnSet) rollback() {
	for _, c := range s.top {
		c.truncate(s.rows)
	}
}

// appendNulls appends a row of nulls.
func (s *columnSet) appendNulls() {
	for _, c := range s.top {
		c.appendNull()
	}
}

// finish returns the columns of the top level, which the caller owns, and
// empties the set.
func (s *columnSet) finish() []arrow.Array {
	columns := make([]arrow.Array, len(s.top))
	for i, c := range s.top {
		data := c.finish(s.rows)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	return columns
}

// truncate goes back to the first length values.
func (c *column) truncate(length int) {
	if c.length > length {
		if c.nulls > 0 {
			for i := length; i < c.length; i++ {
				if c.valid.b[i>>3]&(1<<(i&7)) == 0 {
					c.nulls--
				}
			}
		}
		c.length = length
	}
	if c.valid.owner != nil {
		c.valid.n = (length + 7) / 8
	}
	switch c.kind {
	case fixedColumn:
		c.data.n = length * c.width
	case boolColumn:
		c.data.n = (length + 7) / 8
	case bytesColumn:
		c.offsets.n = 4 * (length + 1)
		c.data.n = c.offsets.offset(length)
	case listColumn, mapColumn:
		c.offsets.n = 4 * (length + 1)
		for _, child := range c.children {
			child.truncate(c.offsets.offset(length))
		}
	case structColumn:
		for _, child := range c.children {
			child.truncate(length)
		}
	}
}

// full notes that the column has no room.
func (c *column) full() {
	if c.set.overflow == nil {
		c.set.overflow = c
	}
}

// room makes room for n bytes in b.
func (c *column) room(b *buffer, n int) bool {
	if n <= len(b.b)-b.n || b.grow(c.set.mem, n) {
		return true
	}
	c.full()
	return false
}

// endValue counts a value that is not null.
func (c *column) endValue() {
	if c.valid.owner != nil {
		c.setValid(true)
	}
	c.length++
}

// setValid writes the validity bit of the next value. The bits come into being
// with the first null.
func (c *column) setValid(valid bool) {
	need := c.length>>3 + 1
	if need > len(c.valid.b) {
		first := c.valid.owner == nil
		if !c.valid.grow(c.set.mem, need-c.valid.n) {
			c.full()
			return
		}
		if first {
			for i := range need {
				c.valid.b[i] = 0xff
			}
		}
	}
	c.valid.n = need
	putBit(c.valid.b, c.length, valid)
}

// putBit writes bit i, behind which there are none.
func putBit(bits []byte, i int, v bool) {
	below := byte(1)<<(i&7) - 1
	kept := bits[i>>3] & below
	if v {
		kept |= below + 1
	}
	bits[i>>3] = kept
}

// appendNull appends a null, also to a column that is not nullable.
func (c *column) appendNull() {
	c.appendZero(false)
}

// appendZero appends the zero value of the type: a null where valid is false.
func (c *column) appendZero(valid bool) {
	switch c.kind {
	case fixedColumn:
		if !c.room(&c.data, c.width) {
			return
		}
		clear(c.data.b[c.data.n : c.data.n+c.width])
		c.data.n += c.width
	case boolColumn:
		c.appendBit(false)
	case bytesColumn:
		c.putOffset(c.data.n)
	case listColumn, mapColumn:
		c.putOffset(c.children[0].length)
	case structColumn:
		for _, child := range c.children {
			child.appendZero(valid)
		}
	}
	if valid {
		c.endValue()
		return
	}
	c.setValid(false)
	c.nulls++
	c.length++
}

func (c *column) appendBit(v bool) {
	at := c.length >> 3
	if at >= len(c.data.b) && !c.room(&c.data, at+1-c.data.n) {
		return
	}
	c.data.n = at + 1
	putBit(c.data.b, c.length, v)
}

func (c *column) putOffset(end int) {
	if end > math.MaxInt32 || !c.room(&c.offsets, 4) {
		c.full()
		return
	}
	binary.NativeEndian.PutUint32(c.offsets.b[c.offsets.n:], uint32(end))
	c.offsets.n += 4
}

func (c *column) appendBool(v bool) {
	c.appendBit(v)
	c.endValue()
}

// append4 appends a value of four bytes in the order of this machine.
func (c *column) append4(v uint32) {
	if c.room(&c.data, 4) {
		binary.NativeEndian.PutUint32(c.data.b[c.data.n:], v)
		c.data.n += 4
		c.endValue()
	}
}

// append8 appends a value of eight bytes in the order of this machine.
func (c *column) append8(v uint64) {
	if c.room(&c.data, 8) {
		binary.NativeEndian.PutUint64(c.data.b[c.data.n:], v)
		c.data.n += 8
		c.endValue()
	}
}

// appendFixed appends a value of the column's width, as it lies in memory.
func (c *column) appendFixed(v []byte) {
	if c.room(&c.data, c.width) {
		copy(c.data.b[c.data.n:], v[:c.width])
		c.data.n += c.width
		c.endValue()
	}
}

// appendBytes appends a value of a bytesColumn.
func (c *column) appendBytes(v []byte) {
	if c.room(&c.data, len(v)) {
		copy(c.data.b[c.data.n:], v)
		c.data.n += len(v)
		c.putOffset(c.data.n)
		c.endValue()
	}
}

// appendString appends a value of a bytesColumn.
func (c *column) appendString(v string) {
	if c.room(&c.data, len(v)) {
		copy(c.data.b[c.data.n:], v)
		c.data.n += len(v)
		c.putOffset(c.data.n)
		c.endValue()
	}
}

// endList makes the items that the children have got since the last row a row
// of a listColumn or mapColumn.
func (c *column) endList() {
	c.putOffset(c.children[0].length)
	c.endValue()
}

// endStruct makes the values that the children have got a row of a
// structColumn.
func (c *column) endStruct() { c.endValue() }

// finish returns the column's data, which the caller owns, and empties the
// column. rows is the size of the batch.
func (c *column) finish(rows int) arrow.ArrayData {
	c.lastData, c.lastLength, c.lastRows = c.data.n, c.length, rows
	buffers := []*memory.Buffer{c.valid.finish()}
	if c.nulls == 0 && buffers[0] != nil {
		buffers[0].Release()
		buffers[0] = nil
	}
	var children []arrow.ArrayData
	for _, child := range c.children {
		children = append(children, child.finish(rows))
	}
	switch c.kind {
	case fixedColumn, boolColumn:
		buffers = append(buffers, c.data.finish())
	case bytesColumn:
		buffers = append(buffers, c.offsets.finish(), c.data.finish())
	case listColumn:
		buffers = append(buffers, c.offsets.finish())
	case mapColumn:
		buffers = append(buffers, c.offsets.finish())
		entries := array.NewData(c.field.Type.(*arrow.MapType).Elem(), children[0].Len(), []*memory.Buffer{nil}, children, 0, 0)
		releaseData(children)
		children = []arrow.ArrayData{entries}
	}
	data := c.newData(buffers, children)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	releaseData(children)
	c.length, c.nulls = 0, 0
	return data
}

func (c *column) newData(buffers []*memory.Buffer, children []arrow.ArrayData) *array.Data {
	if c.dictionary != nil {
		return array.NewDataWithDictionary(c.field.Type, c.length, buffers, c.nulls, 0, c.dictionary.Data().(*array.Data))
	}
	return array.NewData(c.field.Type, c.length, buffers, children, c.nulls, 0)
}

func releaseData(all []arrow.ArrayData) {
	for _, data := range all {
		data.Release()
	}
}
