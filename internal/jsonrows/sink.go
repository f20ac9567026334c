// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// Sink collects the values of one column, or of one part of a nested
// column. It can go back to an earlier row, so that a record that turns out to
// be malformed leaves no trace.
type Sink struct {
	Node  *Node
	mem   memory.Allocator
	Count int
	nulls int

	validity *memory.Buffer // nil while there are no nulls
	bits     []byte         // memory of validity
	fixed    *memory.Buffer // values of a fixed width, or offsets
	values   []byte         // memory of fixed
	text     *memory.Buffer // bytes of texts and binary values
	bytes    []byte         // memory of text
	used     int            // bytes of text in use
	perRow   int            // bytes of text that a row took in the call before

	Children []Sink
	order    []member // members in the order of the documents before
	position []int    // where order has each child
	dropped  []int    // entries of a map that a later one of that key replaces

	members []uint8 // the child of each value of a union
	places  []int32 // where that child has it
}

// member is a member name as it stands in a document.
type member struct {
	raw   []byte // from the opening quote to behind the colon
	child int    // -1 for a member without a column
}

func newSink(mem memory.Allocator, node *Node) Sink {
	s := Sink{Node: node, mem: mem, Children: make([]Sink, len(node.Children)), position: make([]int, len(node.Children))}
	for i := range node.Children {
		s.Children[i] = newSink(mem, &node.Children[i])
	}
	return s
}

// Use makes mem the allocator of the next batch.
func (s *Sink) Use(mem memory.Allocator) {
	s.mem = mem
	for i := range s.Children {
		s.Children[i].Use(mem)
	}
}

// Begin prepares for about that many rows.
func (s *Sink) Begin(rows int) {
	switch s.Node.Kind {
	case textNode, rawNode, binaryNode:
		s.text = memory.NewResizableBuffer(s.mem)
		s.reserveText(rows * (s.perRow + s.perRow/8))
		s.beginFixed(rows + 1)
		s.putOffset(0, 0)
	case listNode, mapNode:
		s.beginFixed(rows + 1)
		s.putOffset(0, 0)
	case boolNode:
		s.fixed = memory.NewResizableBuffer(s.mem)
		s.reserveFixed((rows + 7) / 8)
	case nullNode, structNode, fixedListNode, unionNode, encodedNode:
	default:
		s.beginFixed(rows)
	}
	for i := range s.Children {
		if s.Node.Kind == structNode || s.Node.Kind == encodedNode {
			s.Children[i].Begin(rows)
		} else {
			s.Children[i].Begin(0)
		}
	}
}

func (s *Sink) beginFixed(values int) {
	s.fixed = memory.NewResizableBuffer(s.mem)
	s.reserveFixed(values * s.Node.width)
}

// reserveFixed makes room for that many bytes of values in all.
func (s *Sink) reserveFixed(size int) {
	if size > len(s.values) {
		s.fixed.Reserve(max(size, 2*len(s.values)))
		s.values = s.fixed.Buf()
	}
}

// reserveText makes room for that many bytes of text in all.
func (s *Sink) reserveText(size int) {
	if size > len(s.bytes) {
		s.text.Reserve(max(size, 2*len(s.bytes)))
		s.bytes = s.text.Buf()
	}
}

// Release drops everything that is not finished.
func (s *Sink) Release() {
	arrays.Release([]*memory.Buffer{s.validity, s.fixed, s.text})
	s.reset()
	for i := range s.Children {
		s.Children[i].Release()
	}
}

// reset forgets the buffers and what refers to the documents.
func (s *Sink) reset() {
	s.validity, s.bits, s.fixed, s.values, s.text, s.bytes = nil, nil, nil, nil, nil, nil
	s.Count, s.nulls, s.used = 0, 0, 0
	clear(s.order)
	clear(s.position)
	s.order, s.dropped = s.order[:0], s.dropped[:0]
	s.members, s.places = s.members[:0], s.places[:0]
}

// Valid counts the value that was just written.
func (s *Sink) Valid() {
	if s.bits != nil {
		s.setBit(true)
	}
	s.Count++
}

// setBit sets the validity of the next value.
func (s *Sink) setBit(valid bool) {
	if s.Count>>3 >= len(s.bits) {
		s.validity.Reserve(max(64, 2*len(s.bits)))
		s.bits = s.validity.Buf()
	}
	mark := byte(1) << (s.Count & 7)
	if valid {
		s.bits[s.Count>>3] |= mark
	} else {
		s.bits[s.Count>>3] &^= mark
	}
}

// Null appends a null.
func (s *Sink) Null() {
	switch s.Node.Kind {
	case nullNode:
		s.Count++
		return
	case encodedNode:
		s.Children[0].Null()
		s.Count++
		return
	case unionNode:
		s.nullMember()
		return
	}
	if s.bits == nil {
		s.validity = memory.NewResizableBuffer(s.mem)
		s.validity.Reserve(max(s.Count/8+1, len(s.values)/max(s.Node.width, 1)/8))
		s.bits = s.validity.Buf()
		for i := range (s.Count + 7) / 8 {
			s.bits[i] = 0xff
		}
	}
	switch s.Node.Kind {
	case textNode, rawNode, binaryNode:
		s.putOffset(s.Count+1, s.used)
	case listNode, mapNode:
		s.putOffset(s.Count+1, s.Children[0].Count)
	case fixedListNode:
		for range s.Node.size {
			s.Children[0].Null()
		}
	case structNode:
		for i := range s.Children {
			s.Children[i].Null()
		}
	case boolNode:
		s.putBool(false)
	default:
		clear(s.slot())
	}
	s.setBit(false)
	s.Count++
	s.nulls++
}

// slot returns the memory of the next value.
func (s *Sink) slot() []byte {
	width := s.Node.width
	at := s.Count * width
	if at+width > len(s.values) {
		s.reserveFixed(at + width)
	}
	return s.values[at : at+width]
}

// putInt writes the next value as an integer of the column's width.
func (s *Sink) putInt(v uint64) {
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
	s.Valid()
}

// putFloat writes the next value as a float of the column's width.
func (s *Sink) putFloat(v float64) {
	switch s.Node.width {
	case 8:
		s.putInt(math.Float64bits(v))
	case 4:
		s.putInt(uint64(math.Float32bits(float32(v))))
	default:
		s.putInt(uint64(float16.New(float32(v)).Uint16()))
	}
}

func (s *Sink) putBool(v bool) {
	if s.Count>>3 >= len(s.values) {
		s.reserveFixed(max(64, s.Count>>3+1))
	}
	mark := byte(1) << (s.Count & 7)
	if v {
		s.values[s.Count>>3] |= mark
	} else {
		s.values[s.Count>>3] &^= mark
	}
}

func (s *Sink) putOffset(i, offset int) {
	end := (i + 1) * s.Node.width
	if end > len(s.values) {
		s.reserveFixed(end)
	}
	if s.Node.width == 4 {
		binary.NativeEndian.PutUint32(s.values[end-4:], uint32(offset))
	} else {
		binary.NativeEndian.PutUint64(s.values[end-8:], uint64(offset))
	}
}

func (s *Sink) offset(i int) int {
	at := i * s.Node.width
	if s.Node.width == 4 {
		return int(binary.NativeEndian.Uint32(s.values[at:]))
	}
	return int(binary.NativeEndian.Uint64(s.values[at:]))
}

// room returns memory for size more bytes of text.
func (s *Sink) room(size int) []byte {
	if s.used+size > len(s.bytes) {
		s.reserveText(s.used + size)
	}
	return s.bytes[s.used : s.used+size]
}

// putText writes the next value.
func (s *Sink) putText(text []byte) {
	copy(s.room(len(text)), text)
	s.endText(len(text))
}

// endText ends the next value, whose bytes room has returned.
func (s *Sink) endText(size int) {
	s.used += size
	s.putOffset(s.Count+1, s.used)
	s.Valid()
}

// Overflows reports whether the values outgrew the offsets of their type.
func (s *Sink) Overflows() bool {
	switch s.Node.Kind {
	case textNode, rawNode, binaryNode:
		return uint64(s.used) > s.Node.limit
	case listNode, mapNode:
		if uint64(s.Children[0].Count) > s.Node.limit {
			return true
		}
	case unionNode, encodedNode:
		if uint64(s.Count) > s.Node.limit {
			return true
		}
	}
	for i := range s.Children {
		if s.Children[i].Overflows() {
			return true
		}
	}
	return false
}

// Truncate drops the values from row on, and what of a value was written
// before it failed.
func (s *Sink) Truncate(row int) {
	if s.bits != nil {
		for i := row; i < s.Count; i++ {
			if !bitutil.BitIsSet(s.bits, i) {
				s.nulls--
			}
		}
	}
	s.Count = min(s.Count, row)
	switch s.Node.Kind {
	case encodedNode:
		s.Children[0].Truncate(s.Count)
	case unionNode:
		s.truncateMembers(s.Count)
	case textNode, rawNode, binaryNode:
		s.used = s.offset(s.Count)
	case listNode, mapNode:
		first := s.offset(s.Count)
		s.Children[0].Truncate(first)
		for len(s.dropped) > 0 && s.dropped[len(s.dropped)-1] >= first {
			s.dropped = s.dropped[:len(s.dropped)-1]
		}
	case fixedListNode:
		s.Children[0].Truncate(s.Count * s.Node.size)
	case structNode:
		for i := range s.Children {
			s.Children[i].Truncate(s.Count)
		}
	}
}

// putMember counts a value of a union, which was just written to a child. A sparse
// union has a value in every child.
func (s *Sink) putMember(child int) {
	s.members = append(s.members, uint8(child))
	if s.Node.isSparse() {
		for i := range s.Children {
			if i != child {
				s.Children[i].Null()
			}
		}
	}
	s.places = append(s.places, int32(s.Children[child].Count-1))
	s.Count++
}

// nullMember adds a null to a union: in its first child that takes one.
func (s *Sink) nullMember() {
	child := 0
	for i := range s.Children {
		if s.Children[i].Node.nullable {
			child = i
			break
		}
	}
	s.Children[child].Null()
	s.putMember(child)
}

// truncateMembers drops the values of a union from row on, and what was written of
// one that failed.
func (s *Sink) truncateMembers(row int) {
	if s.Node.isSparse() {
		for i := range s.Children {
			s.Children[i].Truncate(row)
		}
	} else {
		ends := make([]int, len(s.Children))
		for i, member := range s.members[:row] {
			ends[member] = int(s.places[i]) + 1
		}
		for i := range s.Children {
			s.Children[i].Truncate(ends[i])
		}
	}
	s.members, s.places = s.members[:row], s.places[:row]
}

// key returns bytes that are equal for equal keys of a map.
func (s *Sink) key(i int) []byte {
	switch s.Node.Kind {
	case textNode:
		return s.bytes[s.offset(i):s.offset(i+1)]
	case boolNode:
		return []byte{s.values[i>>3] >> (i & 7) & 1}
	default:
		return s.values[i*s.Node.width : (i+1)*s.Node.width]
	}
}

// dropEarlier drops the entry of the map from first on that has the last
// entry's key. Seen is an index of large maps.
func (s *Sink) dropEarlier(first int, seen map[string]int) map[string]int {
	keys := &s.Children[0].Children[0]
	last := s.Children[0].Count - 1
	key := keys.key(last)
	if last-first < 16 {
		for i := first; i < last; i++ {
			if string(keys.key(i)) == string(key) {
				s.drop(i)
			}
		}
		return nil
	}
	if seen == nil {
		seen = make(map[string]int)
		for i := first; i < last; i++ {
			seen[string(keys.key(i))] = i
		}
	}
	if earlier, ok := seen[string(key)]; ok {
		s.drop(earlier)
	}
	seen[string(key)] = last
	return seen
}

// drop marks an entry as replaced. Entries may be marked twice and in any order
// within a map.
func (s *Sink) drop(entry int) { s.dropped = append(s.dropped, entry) }
