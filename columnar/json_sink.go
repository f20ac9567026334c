// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// jsonSink collects the values of one column, or of one part of a nested
// column. It can go back to an earlier row, so that a record that turns out to
// be malformed leaves no trace.
type jsonSink struct {
	node  *jsonNode
	mem   memory.Allocator
	count int
	nulls int

	validity *memory.Buffer // nil while there are no nulls
	bits     []byte         // memory of validity
	fixed    *memory.Buffer // values of a fixed width, or offsets
	values   []byte         // memory of fixed
	text     *memory.Buffer // bytes of texts and binary values
	bytes    []byte         // memory of text
	used     int            // bytes of text in use
	perRow   int            // bytes of text that a row took in the call before

	children []jsonSink
	order    []jsonMember // members in the order of the documents before
	position []int        // where order has each child
	dropped  []int        // entries of a map that a later one of that key replaces

	members []uint8 // the child of each value of a union
	places  []int32 // where that child has it
}

// jsonMember is a member name as it stands in a document.
type jsonMember struct {
	raw   []byte // from the opening quote to behind the colon
	child int    // -1 for a member without a column
}

func newJSONSink(mem memory.Allocator, node *jsonNode) jsonSink {
	s := jsonSink{node: node, mem: mem, children: make([]jsonSink, len(node.children)), position: make([]int, len(node.children))}
	for i := range node.children {
		s.children[i] = newJSONSink(mem, &node.children[i])
	}
	return s
}

// use makes mem the allocator of the next batch.
func (s *jsonSink) use(mem memory.Allocator) {
	s.mem = mem
	for i := range s.children {
		s.children[i].use(mem)
	}
}

// begin prepares for about that many rows.
func (s *jsonSink) begin(rows int) {
	switch s.node.kind {
	case jsonText, jsonRaw, jsonBinary:
		s.text = memory.NewResizableBuffer(s.mem)
		s.reserveText(rows * (s.perRow + s.perRow/8))
		s.beginFixed(rows + 1)
		s.putOffset(0, 0)
	case jsonList, jsonMap:
		s.beginFixed(rows + 1)
		s.putOffset(0, 0)
	case jsonBool:
		s.fixed = memory.NewResizableBuffer(s.mem)
		s.reserveFixed((rows + 7) / 8)
	case jsonNull, jsonStruct, jsonFixedList, jsonUnion, jsonEncoded:
	default:
		s.beginFixed(rows)
	}
	for i := range s.children {
		if s.node.kind == jsonStruct || s.node.kind == jsonEncoded {
			s.children[i].begin(rows)
		} else {
			s.children[i].begin(0)
		}
	}
}

func (s *jsonSink) beginFixed(values int) {
	s.fixed = memory.NewResizableBuffer(s.mem)
	s.reserveFixed(values * s.node.width)
}

// reserveFixed makes room for that many bytes of values in all.
func (s *jsonSink) reserveFixed(size int) {
	if size > len(s.values) {
		s.fixed.Reserve(max(size, 2*len(s.values)))
		s.values = s.fixed.Buf()
	}
}

// reserveText makes room for that many bytes of text in all.
func (s *jsonSink) reserveText(size int) {
	if size > len(s.bytes) {
		s.text.Reserve(max(size, 2*len(s.bytes)))
		s.bytes = s.text.Buf()
	}
}

// release drops everything that is not finished.
func (s *jsonSink) release() {
	arrays.Release([]*memory.Buffer{s.validity, s.fixed, s.text})
	s.reset()
	for i := range s.children {
		s.children[i].release()
	}
}

// reset forgets the buffers and what refers to the documents.
func (s *jsonSink) reset() {
	s.validity, s.bits, s.fixed, s.values, s.text, s.bytes = nil, nil, nil, nil, nil, nil
	s.count, s.nulls, s.used = 0, 0, 0
	clear(s.order)
	clear(s.position)
	s.order, s.dropped = s.order[:0], s.dropped[:0]
	s.members, s.places = s.members[:0], s.places[:0]
}

// valid counts the value that was just written.
func (s *jsonSink) valid() {
	if s.bits != nil {
		s.setBit(true)
	}
	s.count++
}

// setBit sets the validity of the next value.
func (s *jsonSink) setBit(valid bool) {
	if s.count>>3 >= len(s.bits) {
		s.validity.Reserve(max(64, 2*len(s.bits)))
		s.bits = s.validity.Buf()
	}
	mark := byte(1) << (s.count & 7)
	if valid {
		s.bits[s.count>>3] |= mark
	} else {
		s.bits[s.count>>3] &^= mark
	}
}

// null appends a null.
func (s *jsonSink) null() {
	switch s.node.kind {
	case jsonNull:
		s.count++
		return
	case jsonEncoded:
		s.children[0].null()
		s.count++
		return
	case jsonUnion:
		s.nullMember()
		return
	}
	if s.bits == nil {
		s.validity = memory.NewResizableBuffer(s.mem)
		s.validity.Reserve(max(s.count/8+1, len(s.values)/max(s.node.width, 1)/8))
		s.bits = s.validity.Buf()
		for i := range (s.count + 7) / 8 {
			s.bits[i] = 0xff
		}
	}
	switch s.node.kind {
	case jsonText, jsonRaw, jsonBinary:
		s.putOffset(s.count+1, s.used)
	case jsonList, jsonMap:
		s.putOffset(s.count+1, s.children[0].count)
	case jsonFixedList:
		for range s.node.size {
			s.children[0].null()
		}
	case jsonStruct:
		for i := range s.children {
			s.children[i].null()
		}
	case jsonBool:
		s.putBool(false)
	default:
		clear(s.slot())
	}
	s.setBit(false)
	s.count++
	s.nulls++
}

// slot returns the memory of the next value.
func (s *jsonSink) slot() []byte {
	width := s.node.width
	at := s.count * width
	if at+width > len(s.values) {
		s.reserveFixed(at + width)
	}
	return s.values[at : at+width]
}

// putInt writes the next value as an integer of the column's width.
func (s *jsonSink) putInt(v uint64) {
	slot := s.slot()
	switch len(slot) {
	case 8:
		binary.NativeEndian.PutUint64(slot, v)
	case 4:
		binary.NativeEndian.PutUint32(slot, uint32(v))
	case 2:
		binary.NativeEndian.PutUint16(slot, uint16(v))
	case 1:
		slot[0] = byte(v)
	}
	s.valid()
}

// putFloat writes the next value as a float of the column's width.
func (s *jsonSink) putFloat(v float64) {
	switch s.node.width {
	case 8:
		s.putInt(math.Float64bits(v))
	case 4:
		s.putInt(uint64(math.Float32bits(float32(v))))
	default:
		s.putInt(uint64(float16.New(float32(v)).Uint16()))
	}
}

func (s *jsonSink) putBool(v bool) {
	if s.count>>3 >= len(s.values) {
		s.reserveFixed(max(64, s.count>>3+1))
	}
	mark := byte(1) << (s.count & 7)
	if v {
		s.values[s.count>>3] |= mark
	} else {
		s.values[s.count>>3] &^= mark
	}
}

func (s *jsonSink) putOffset(i, offset int) {
	end := (i + 1) * s.node.width
	if end > len(s.values) {
		s.reserveFixed(end)
	}
	if s.node.width == 4 {
		binary.NativeEndian.PutUint32(s.values[end-4:], uint32(offset))
	} else {
		binary.NativeEndian.PutUint64(s.values[end-8:], uint64(offset))
	}
}

func (s *jsonSink) offset(i int) int {
	at := i * s.node.width
	if s.node.width == 4 {
		return int(binary.NativeEndian.Uint32(s.values[at:]))
	}
	return int(binary.NativeEndian.Uint64(s.values[at:]))
}

// room returns memory for size more bytes of text.
func (s *jsonSink) room(size int) []byte {
	if s.used+size > len(s.bytes) {
		s.reserveText(s.used + size)
	}
	return s.bytes[s.used : s.used+size]
}

// putText writes the next value.
func (s *jsonSink) putText(text []byte) {
	copy(s.room(len(text)), text)
	s.endText(len(text))
}

// endText ends the next value, whose bytes room has returned.
func (s *jsonSink) endText(size int) {
	s.used += size
	s.putOffset(s.count+1, s.used)
	s.valid()
}

// overflows reports whether the values outgrew the offsets of their type.
func (s *jsonSink) overflows() bool {
	switch s.node.kind {
	case jsonText, jsonRaw, jsonBinary:
		return uint64(s.used) > s.node.limit
	case jsonList, jsonMap:
		if uint64(s.children[0].count) > s.node.limit {
			return true
		}
	case jsonUnion, jsonEncoded:
		if uint64(s.count) > s.node.limit {
			return true
		}
	}
	for i := range s.children {
		if s.children[i].overflows() {
			return true
		}
	}
	return false
}

// truncate drops the values from row on, and what of a value was written
// before it failed.
func (s *jsonSink) truncate(row int) {
	if s.bits != nil {
		for i := row; i < s.count; i++ {
			if !bitutil.BitIsSet(s.bits, i) {
				s.nulls--
			}
		}
	}
	s.count = min(s.count, row)
	switch s.node.kind {
	case jsonEncoded:
		s.children[0].truncate(s.count)
	case jsonUnion:
		s.truncateMembers(s.count)
	case jsonText, jsonRaw, jsonBinary:
		s.used = s.offset(s.count)
	case jsonList, jsonMap:
		first := s.offset(s.count)
		s.children[0].truncate(first)
		for len(s.dropped) > 0 && s.dropped[len(s.dropped)-1] >= first {
			s.dropped = s.dropped[:len(s.dropped)-1]
		}
	case jsonFixedList:
		s.children[0].truncate(s.count * s.node.size)
	case jsonStruct:
		for i := range s.children {
			s.children[i].truncate(s.count)
		}
	}
}
