// SPDX-License-Identifier: Apache-2.0

package columnset

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// room is what all columns of a set share.
type room struct {
	mem      memory.Allocator
	limit    int     // bytes of a buffer
	overflow *Column // the first one without room for a value of the current row
}

// Column collects the values of one column for one batch. A method that appends
// a value of another kind than the column's must not be called.
type Column struct {
	*ColumnSpec
	room     *room
	children []*Column
	length   int
	nulls    int
	// valid has a zero bit for each null. All values beyond its end are valid.
	valid   vector[uint8]
	words   vector[uint64]
	halves  vector[uint32]
	bytes   vector[uint8] // of texts and fixed, and bits of bools
	offsets vector[int32] // length+1 of them

	// What a batch took before, for the memory of the next.
	lastBytes, lastLength, lastRows int
}

// Children returns the columns inside the column: the items of a list, the keys
// and the values of a map, the fields of a struct.
func (c *Column) Children() []*Column { return c.children }

// Len returns the number of values, those of the current row included.
func (c *Column) Len() int { return c.length }

// NullN returns the number of nulls, those of the current row included.
func (c *Column) NullN() int { return c.nulls }

// begin makes room for length values in a batch of that many rows and bytes.
func (c *Column) begin(rows, length, size int) {
	mem := c.room.mem
	switch c.kind {
	case words:
		c.words.reserve(mem, length)
	case halfWords:
		c.halves.reserve(mem, length)
	case fixed:
		c.bytes.reserve(mem, length*c.width)
	case bools:
		c.bytes.reserve(mem, (length+7)/8)
	case texts:
		c.bytes.reserve(mem, min(c.scaled(c.lastBytes, rows), size))
		c.beginOffsets(length)
	case lists, maps:
		c.beginOffsets(length)
		for _, child := range c.children {
			child.begin(rows, min(child.scaled(child.lastLength, rows), size), size)
		}
	case structs:
		for _, child := range c.children {
			child.begin(rows, length, size)
		}
	}
}

// scaled returns what rows rows take if they are like those of the batch before.
func (c *Column) scaled(last, rows int) int {
	if c.lastRows == 0 {
		return 0
	}
	return int(float64(last)/float64(c.lastRows)*float64(rows)*1.02) + 1
}

func (c *Column) beginOffsets(length int) {
	c.offsets.reserve(c.room.mem, length+1)
	c.offsets.s = append(c.offsets.s[:0], 0)
}

func (c *Column) discard() {
	c.valid.release()
	c.words.release()
	c.halves.release()
	c.bytes.release()
	c.offsets.release()
	c.length, c.nulls = 0, 0
}

// full notes that the column has no room.
func (c *Column) full() {
	if c.room.overflow == nil {
		c.room.overflow = c
	}
}

// Append8 appends a value of eight bytes in the order of this machine.
func (c *Column) Append8(v uint64) {
	if len(c.words.s) == cap(c.words.s) && !c.words.grow(c.room.mem, 1, c.room.limit) {
		c.full()
		return
	}
	c.words.s = append(c.words.s, v)
	c.length++
}

// Append4 appends a value of four bytes in the order of this machine.
func (c *Column) Append4(v uint32) {
	if len(c.halves.s) == cap(c.halves.s) && !c.halves.grow(c.room.mem, 1, c.room.limit) {
		c.full()
		return
	}
	c.halves.s = append(c.halves.s, v)
	c.length++
}

// AppendFixed appends a value of a fixed width, as it lies in memory.
func (c *Column) AppendFixed(v []byte) {
	switch c.kind {
	case words:
		c.Append8(binary.NativeEndian.Uint64(v))
	case halfWords:
		c.Append4(binary.NativeEndian.Uint32(v))
	default:
		if c.appendRaw(v[:c.width]) {
			c.length++
		}
	}
}

// AppendBool appends a Boolean.
func (c *Column) AppendBool(v bool) {
	if c.length&7 == 0 && !c.appendRaw(noBits[:]) {
		return
	}
	if v {
		c.bytes.s[c.length>>3] |= 1 << (c.length & 7)
	}
	c.length++
}

var noBits = [1]byte{}

// AppendBytes appends a value of a String or Binary column.
func (c *Column) AppendBytes(v []byte) {
	if end := len(c.bytes.s) + len(v); end <= cap(c.bytes.s) && end <= math.MaxInt32 && len(c.offsets.s) < cap(c.offsets.s) {
		c.bytes.s = append(c.bytes.s, v...)
		c.offsets.s = append(c.offsets.s, int32(end))
		c.length++
		return
	}
	if c.appendRaw(v) && c.putOffset(len(c.bytes.s)) {
		c.length++
	}
}

// AppendString appends a value of a String or Binary column.
func (c *Column) AppendString(v string) {
	if len(v) > cap(c.bytes.s)-len(c.bytes.s) && !c.bytes.grow(c.room.mem, len(v), c.room.limit) {
		c.full()
		return
	}
	c.bytes.s = append(c.bytes.s, v...)
	if c.putOffset(len(c.bytes.s)) {
		c.length++
	}
}

// appendRaw appends bytes that belong to the next value.
func (c *Column) appendRaw(v []byte) bool {
	if len(v) > cap(c.bytes.s)-len(c.bytes.s) && !c.bytes.grow(c.room.mem, len(v), c.room.limit) {
		c.full()
		return false
	}
	c.bytes.s = append(c.bytes.s, v...)
	return true
}

// putOffset ends a value at a place.
func (c *Column) putOffset(end int) bool {
	full := len(c.offsets.s) == cap(c.offsets.s) && !c.offsets.grow(c.room.mem, 1, c.room.limit)
	if full || end > math.MaxInt32 {
		c.full()
		return false
	}
	c.offsets.s = append(c.offsets.s, int32(end))
	return true
}

// EndList makes the items that the children have got since the last row a row of
// a List or Map column.
func (c *Column) EndList() {
	if c.putOffset(c.children[0].length) {
		c.length++
	}
}

// ListStart returns where the items of the next row of a List or Map column begin
// in the children.
func (c *Column) ListStart() int { return int(c.offsets.s[c.length]) }

// EndStruct makes the values that the children have got a row of a Struct column.
func (c *Column) EndStruct() { c.length++ }

// AppendNull appends a null, also to a column that is not nullable.
func (c *Column) AppendNull() { c.AppendZero(false) }

// AppendZero appends the zero value of the type: a null where valid is false. Where
// a struct is null its children are null too, also those that are not nullable.
func (c *Column) AppendZero(valid bool) {
	if !valid {
		c.clearValid()
	}
	switch c.kind {
	case words:
		c.Append8(0)
	case halfWords:
		c.Append4(0)
	case fixed:
		var zero [64]byte
		for rest := c.width; rest > 0; rest -= len(zero) {
			if !c.appendRaw(zero[:min(rest, len(zero))]) {
				return
			}
		}
		c.length++
	case bools:
		c.AppendBool(false)
	case texts:
		if c.putOffset(len(c.bytes.s)) {
			c.length++
		}
	case lists, maps:
		c.EndList()
	case structs:
		for _, child := range c.children {
			child.AppendZero(valid)
		}
		c.length++
	}
}

// clearValid makes the next value a null.
func (c *Column) clearValid() {
	at := c.length >> 3
	if at >= len(c.valid.s) && !c.growValid(at) {
		c.full()
		return
	}
	if bit := byte(1) << (c.length & 7); c.valid.s[at]&bit != 0 {
		c.valid.s[at] &^= bit
		c.nulls++
	}
}

// growValid lengthens the validity bits by valid ones, up to the byte at.
func (c *Column) growValid(at int) bool {
	if c.valid.owner == nil {
		c.valid.reserve(c.room.mem, at+1+c.lastLength/8)
	}
	if missing := at + 1 - len(c.valid.s); missing > cap(c.valid.s)-len(c.valid.s) && !c.valid.grow(c.room.mem, missing, c.room.limit) {
		return false
	}
	for len(c.valid.s) <= at {
		c.valid.s = append(c.valid.s, 0xff)
	}
	return true
}

// Truncate goes back to the first length values, and drops items that belong to
// no row of a list or map.
func (c *Column) Truncate(length int) {
	length = min(length, c.length) // a column without room may be behind its parent
	if c.nulls > 0 {
		for i := length; i < min(8*len(c.valid.s), c.length+1); i++ {
			if bit := byte(1) << (i & 7); c.valid.s[i>>3]&bit == 0 {
				c.valid.s[i>>3] |= bit
				c.nulls--
			}
		}
	}
	c.length = length
	switch c.kind {
	case words:
		c.words.s = c.words.s[:length]
	case halfWords:
		c.halves.s = c.halves.s[:length]
	case fixed:
		c.bytes.s = c.bytes.s[:length*c.width]
	case bools:
		c.bytes.s = c.bytes.s[:(length+7)/8]
		if length&7 != 0 {
			c.bytes.s[length>>3] &= 1<<(length&7) - 1
		}
	case texts:
		c.offsets.s = c.offsets.s[:length+1]
		c.bytes.s = c.bytes.s[:c.offsets.s[length]]
	case lists, maps:
		c.offsets.s = c.offsets.s[:length+1]
		for _, child := range c.children {
			child.Truncate(int(c.offsets.s[length]))
		}
	case structs:
		for _, child := range c.children {
			child.Truncate(length)
		}
	}
}

// Text returns a value of a String or Binary column. It is valid until the next
// append.
func (c *Column) Text(row int) []byte { return c.bytes.s[c.offsets.s[row]:c.offsets.s[row+1]] }

// Number returns the bits of a Boolean or of a value of four or eight bytes.
func (c *Column) Number(row int) uint64 {
	switch c.kind {
	case words:
		return c.words.s[row]
	case halfWords:
		return uint64(c.halves.s[row])
	default:
		return uint64(c.bytes.s[row>>3] >> (row & 7) & 1)
	}
}

// Constant returns the last value of a column without children as it lies in
// memory, for [Column.AppendConstant].
func (c *Column) Constant() []byte {
	last := c.length - 1
	switch c.kind {
	case words:
		return binary.NativeEndian.AppendUint64(nil, c.words.s[last])
	case halfWords:
		return binary.NativeEndian.AppendUint32(nil, c.halves.s[last])
	case bools:
		return []byte{byte(c.Number(last))}
	case texts:
		return append([]byte{}, c.Text(last)...)
	default:
		return append([]byte{}, c.bytes.s[last*c.width:]...)
	}
}

// AppendConstant appends a value that Constant has returned.
func (c *Column) AppendConstant(v []byte) {
	switch c.kind {
	case bools:
		c.AppendBool(v[0] == 1)
	case texts:
		c.AppendBytes(v)
	default:
		c.AppendFixed(v)
	}
}

// finish returns the column's data, which the caller owns, and empties the
// column. rows is the size of the batch.
func (c *Column) finish(rows int) arrow.ArrayData {
	c.lastBytes, c.lastLength, c.lastRows = len(c.bytes.s), c.length, rows
	buffers := append(make([]*memory.Buffer, 0, 3), c.finishValid())
	switch c.kind {
	case words:
		buffers = append(buffers, c.words.finish())
	case halfWords:
		buffers = append(buffers, c.halves.finish())
	case fixed, bools:
		buffers = append(buffers, c.bytes.finish())
	case texts:
		buffers = append(buffers, c.offsets.finish(), c.bytes.finish())
	case lists, maps:
		buffers = append(buffers, c.offsets.finish())
	}
	var children []arrow.ArrayData
	for _, child := range c.children {
		children = append(children, child.finish(rows))
	}
	if c.kind == maps {
		entries := array.NewData(c.Field.Type.(*arrow.MapType).Elem(), children[0].Len(), []*memory.Buffer{nil}, children, 0, 0)
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

// finishValid returns the validity bits, or nil where no value is null.
func (c *Column) finishValid() *memory.Buffer {
	if c.nulls == 0 {
		c.valid.release()
		return nil
	}
	size := (c.length + 7) / 8
	c.growValid(size - 1)
	c.valid.s = c.valid.s[:size]
	if c.length&7 != 0 {
		c.valid.s[size-1] &= 1<<(c.length&7) - 1
	}
	return c.valid.finish()
}

func (c *Column) newData(buffers []*memory.Buffer, children []arrow.ArrayData) *array.Data {
	if c.dictionary != nil {
		return array.NewDataWithDictionary(c.Field.Type, c.length, buffers, c.nulls, 0, c.dictionary.Data().(*array.Data))
	}
	return array.NewData(c.Field.Type, c.length, buffers, children, c.nulls, 0)
}

func releaseData(all []arrow.ArrayData) {
	for _, data := range all {
		data.Release()
	}
}
