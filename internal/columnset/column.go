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
	size     int // bytes of all texts
	marked   int // bytes of valid in use
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
	mem, limit := c.room.mem, c.room.limit
	switch c.kind {
	case words:
		c.words.reserve(mem, length, limit)
	case halfWords:
		c.halves.reserve(mem, length, limit)
	case fixed:
		c.bytes.reserve(mem, length*c.width, limit)
	case bools:
		c.bytes.reserve(mem, (length+7)/8, limit)
	case texts:
		c.bytes.reserve(mem, min(c.scaled(c.lastBytes, rows), size)+shortText, limit)
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
	c.offsets.reserve(c.room.mem, length+1, max(c.room.limit, minBytes))
	c.offsets.s[0] = 0
}

func (c *Column) discard() {
	c.valid.release()
	c.words.release()
	c.halves.release()
	c.bytes.release()
	c.offsets.release()
	c.empty()
}

// empty forgets the values.
func (c *Column) empty() { c.length, c.nulls, c.size, c.marked = 0, 0, 0, 0 }

// full notes that the column has no room.
func (c *Column) full() {
	if c.room.overflow == nil {
		c.room.overflow = c
	}
}

// Append8 appends a value of eight bytes in the order of this machine.
func (c *Column) Append8(v uint64) {
	if c.length < len(c.words.s) || c.grow8() {
		c.words.s[c.length] = v
		c.length++
	}
}

func (c *Column) grow8() bool {
	if !c.words.grow(c.room.mem, c.length, 1, c.room.limit) {
		c.full()
		return false
	}
	return true
}

// Append4 appends a value of four bytes in the order of this machine.
func (c *Column) Append4(v uint32) {
	if c.length < len(c.halves.s) || c.grow4() {
		c.halves.s[c.length] = v
		c.length++
	}
}

func (c *Column) grow4() bool {
	if !c.halves.grow(c.room.mem, c.length, 1, c.room.limit) {
		c.full()
		return false
	}
	return true
}

// AppendFixed appends a value of a fixed width, as it lies in memory.
func (c *Column) AppendFixed(v []byte) {
	switch c.kind {
	case words:
		c.Append8(binary.NativeEndian.Uint64(v))
	case halfWords:
		c.Append4(binary.NativeEndian.Uint32(v))
	default:
		start := c.length * c.width
		if c.roomAt(start, c.width) {
			copy(c.bytes.s[start:], v[:c.width])
			c.length++
		}
	}
}

// roomAt makes room for n bytes behind the first used ones.
func (c *Column) roomAt(used, n int) bool {
	if used+n > len(c.bytes.s) && !c.bytes.grow(c.room.mem, used, n, c.room.limit) {
		c.full()
		return false
	}
	return true
}

// AppendBool appends a Boolean.
func (c *Column) AppendBool(v bool) {
	at, shift := c.length>>3, c.length&7
	if shift == 0 {
		if !c.roomAt(at, 1) {
			return
		}
		c.bytes.s[at] = 0
	}
	var bit byte
	if v {
		bit = 1
	}
	c.bytes.s[at] |= bit << shift
	c.length++
}

// AppendBytes appends a value of a String or Binary column.
func (c *Column) AppendBytes(v []byte) {
	if c.roomAt(c.size, len(v)) && c.putOffset(c.size+len(v)) {
		copy(c.bytes.s[c.size:], v)
		c.size += len(v)
	}
}

// shortText is the size of the texts that AppendShort takes.
const shortText = 16

// AppendShort appends the first n bytes of v as a value of a String or Binary
// column, which is quicker than AppendBytes.
func (c *Column) AppendShort(v *[shortText]byte, n int) {
	end, next := c.size+n, c.length+1
	if c.size+shortText > len(c.bytes.s) || next >= len(c.offsets.s) {
		c.AppendBytes(v[:n])
		return
	}
	*(*[shortText]byte)(c.bytes.s[c.size:]) = *v // what is behind the text is overwritten by the next
	c.offsets.s[next] = int32(end)
	c.size, c.length = end, next
}

// AppendString appends a value of a String or Binary column.
func (c *Column) AppendString(v string) {
	if c.roomAt(c.size, len(v)) && c.putOffset(c.size+len(v)) {
		copy(c.bytes.s[c.size:], v)
		c.size += len(v)
	}
}

// putOffset ends a value at a place.
func (c *Column) putOffset(end int) bool {
	next := c.length + 1
	if next >= len(c.offsets.s) && !c.offsets.grow(c.room.mem, next, 1, c.room.limit) || end > math.MaxInt32 {
		c.full()
		return false
	}
	c.offsets.s[next] = int32(end)
	c.length = next
	return true
}

// EndList makes the items that the children have got since the last row a row of
// a List or Map column.
func (c *Column) EndList() { c.putOffset(c.children[0].length) }

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
		start := c.length * c.width
		if c.roomAt(start, c.width) {
			clear(c.bytes.s[start : start+c.width])
			c.length++
		}
	case bools:
		c.AppendBool(false)
	case texts:
		c.putOffset(c.size)
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
	if at >= c.marked && !c.growValid(at) {
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
	mem, limit := c.room.mem, c.room.limit
	if c.valid.owner == nil {
		c.valid.reserve(mem, at+1+c.lastLength/8, limit)
	}
	if at >= len(c.valid.s) && !c.valid.grow(mem, c.marked, at+1-c.marked, limit) {
		return false
	}
	for ; c.marked <= at; c.marked++ {
		c.valid.s[c.marked] = 0xff
	}
	return true
}

// Truncate goes back to the first length values, and drops items that belong to
// no row of a list or map.
func (c *Column) Truncate(length int) {
	length = min(length, c.length) // a column without room may be behind its parent
	if c.nulls > 0 {
		for i := length; i < min(8*c.marked, c.length+1); i++ {
			if bit := byte(1) << (i & 7); c.valid.s[i>>3]&bit == 0 {
				c.valid.s[i>>3] |= bit
				c.nulls--
			}
		}
	}
	c.length = length
	switch c.kind {
	case bools:
		if length&7 != 0 {
			c.bytes.s[length>>3] &= 1<<(length&7) - 1
		}
	case texts:
		c.size = int(c.offsets.s[length])
	case lists, maps:
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
		return append([]byte{}, c.bytes.s[last*c.width:c.length*c.width]...)
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
	c.lastBytes, c.lastLength, c.lastRows = c.size, c.length, rows
	buffers := append(make([]*memory.Buffer, 0, 3), c.finishValid())
	switch c.kind {
	case words:
		buffers = append(buffers, c.words.finish(c.length))
	case halfWords:
		buffers = append(buffers, c.halves.finish(c.length))
	case fixed:
		buffers = append(buffers, c.bytes.finish(c.length*c.width))
	case bools:
		buffers = append(buffers, c.bytes.finish((c.length+7)/8))
	case texts:
		buffers = append(buffers, c.offsets.finish(c.length+1), c.bytes.finish(c.size))
	case lists, maps:
		buffers = append(buffers, c.offsets.finish(c.length+1))
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
	c.empty()
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
	if c.length&7 != 0 {
		c.valid.s[size-1] &= 1<<(c.length&7) - 1
	}
	return c.valid.finish(size)
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
