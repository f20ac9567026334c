// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// finish returns the column, which the caller owns, and resets the sink.
func (s *Sink) finish() (arrow.ArrayData, error) {
	switch s.Node.Kind {
	case unionNode:
		return s.finishUnion()
	case encodedNode:
		return s.finishEncoded()
	}
	var buffers []*memory.Buffer
	if s.nulls == 0 && s.validity != nil {
		s.validity.Release()
		s.validity = nil
	}
	if s.validity != nil {
		s.validity.ResizeNoShrink((s.Count + 7) / 8)
	}
	buffers = append(buffers, s.validity)
	var child arrow.ArrayData
	var err error
	switch s.Node.Kind {
	case nullNode:
		s.nulls = s.Count
	case textNode, rawNode, binaryNode:
		s.perRow = s.used / max(s.Count, 1)
		s.fixed.ResizeNoShrink((s.Count + 1) * s.Node.width)
		s.text.ResizeNoShrink(s.used)
		buffers = append(buffers, s.fixed, s.text)
	case listNode, mapNode:
		s.fixed.ResizeNoShrink((s.Count + 1) * s.Node.width)
		buffers = append(buffers, s.fixed)
		child, err = s.finishEntries()
	case fixedListNode:
		child, err = s.Children[0].finish()
	case structNode:
		return s.finishStruct()
	case boolNode:
		s.fixed.ResizeNoShrink((s.Count + 7) / 8)
		buffers = append(buffers, s.fixed)
	default:
		s.fixed.ResizeNoShrink(s.Count * s.Node.width)
		buffers = append(buffers, s.fixed)
	}
	defer s.reset()
	defer arrays.Release(buffers)
	if err != nil {
		return nil, err
	}
	var children []arrow.ArrayData
	if child != nil {
		defer child.Release()
		children = []arrow.ArrayData{child}
	}
	switch s.Node.Type.(type) {
	case *arrow.StringViewType:
		headers := s.viewHeaders()
		defer headers.Release()
		return array.NewData(s.Node.Type, s.Count, []*memory.Buffer{s.validity, headers, s.text}, nil, s.nulls, 0), nil
	case *arrow.ListViewType, *arrow.LargeListViewType:
		sizes := s.listSizes()
		defer sizes.Release()
		return array.NewData(s.Node.Type, s.Count, []*memory.Buffer{s.validity, s.fixed, sizes}, children, s.nulls, 0), nil
	}
	return array.NewData(s.Node.Type, s.Count, append([]*memory.Buffer(nil), buffers...), children, s.nulls, 0), nil
}

func (s *Sink) finishStruct() (arrow.ArrayData, error) {
	validity := s.validity
	defer s.reset()
	defer arrays.Release([]*memory.Buffer{validity})
	var children []arrow.ArrayData
	defer func() { arrays.Release(children) }()
	if err := s.finishChildren(&children); err != nil {
		return nil, err
	}
	return array.NewData(s.Node.Type, s.Count, []*memory.Buffer{validity}, append([]arrow.ArrayData(nil), children...), s.nulls, 0), nil
}

// finishEntries returns the values of lists, or the entries of maps without
// those that were replaced.
func (s *Sink) finishEntries() (arrow.ArrayData, error) {
	child, err := s.Children[0].finish()
	if err != nil || len(s.dropped) == 0 {
		return child, err
	}
	defer child.Release()
	dropped := make([]bool, child.Len())
	for _, entry := range s.dropped {
		dropped[entry] = true
	}
	var keep arrays.Selection
	start := 0
	for i := range s.Count {
		end := s.offset(i + 1)
		for ; start < end; start++ {
			if !dropped[start] {
				keep.Extend(start, 1)
			}
		}
		s.putOffset(i+1, keep.Len())
	}
	return keep.Take(s.mem, child, 0)
}

// viewHeaders returns the views of texts, which refer to the bytes of the sink.
func (s *Sink) viewHeaders() *memory.Buffer {
	buffer := arrays.NewBuffer(s.mem, s.Count*arrow.ViewHeaderSizeBytes)
	clear(buffer.Bytes())
	headers := arrays.Cast[arrow.ViewHeader](buffer.Bytes())
	for i := range headers {
		start := s.offset(i)
		headers[i].SetBytes(s.bytes[start:s.offset(i+1)])
		if !headers[i].IsInline() {
			headers[i].SetIndexOffset(0, int32(start))
		}
	}
	return buffer
}

// listSizes returns the sizes of list views, and leaves the sink one offset for each
// of them.
func (s *Sink) listSizes() *memory.Buffer {
	sizes := Sink{Node: s.Node, fixed: arrays.NewBuffer(s.mem, s.Count*s.Node.width)}
	sizes.values = sizes.fixed.Bytes()
	for i := range s.Count {
		sizes.putOffset(i, s.offset(i+1)-s.offset(i))
	}
	s.fixed.ResizeNoShrink(s.Count * s.Node.width)
	return sizes.fixed
}

// finishChildren appends the columns of the children, which the caller owns also
// after an error or a panic of the allocator.
func (s *Sink) finishChildren(children *[]arrow.ArrayData) error {
	for i := range s.Children {
		child, err := s.Children[i].finish()
		if err != nil {
			return err
		}
		*children = append(*children, child)
	}
	return nil
}

func (s *Sink) finishUnion() (arrow.ArrayData, error) {
	defer s.reset()
	var children []arrow.ArrayData
	defer func() { arrays.Release(children) }()
	if err := s.finishChildren(&children); err != nil {
		return nil, err
	}
	codes := arrays.NewBuffer(s.mem, s.Count)
	defer codes.Release()
	byChild := s.Node.Type.(arrow.UnionType).TypeCodes()
	for i, member := range s.members {
		codes.Bytes()[i] = byte(byChild[member])
	}
	buffers := []*memory.Buffer{nil, codes}
	if !s.Node.isSparse() {
		offsets := arrays.NewBuffer(s.mem, s.Count*4)
		defer offsets.Release()
		copy(arrays.Cast[int32](offsets.Bytes()), s.places)
		buffers = append(buffers, offsets)
	}
	return array.NewData(s.Node.Type, s.Count, buffers, children, 0, 0), nil
}

// finishEncoded returns the values of the child as a dictionary, or as one run each.
func (s *Sink) finishEncoded() (arrow.ArrayData, error) {
	defer s.reset()
	data, err := s.Children[0].finish()
	if err != nil {
		return nil, err
	}
	defer data.Release()
	if dt, ok := s.Node.Type.(*arrow.DictionaryType); ok {
		encoded, err := arrays.Dress(s.mem, array.MakeFromData(data), dt)
		if err != nil {
			return nil, err
		}
		defer encoded.Release()
		encoded.Data().Retain()
		return encoded.Data(), nil
	}
	ends := arrays.Words{Kind: arrays.IntKind, Values: make([]int64, s.Count)}
	for i := range ends.Values {
		ends.Values[i] = int64(i) + 1
	}
	runs, err := ends.Build(s.mem, s.Node.Type.(*arrow.RunEndEncodedType).RunEnds())
	if err != nil {
		return nil, err
	}
	defer runs.Release()
	return array.NewData(s.Node.Type, s.Count, []*memory.Buffer{nil}, []arrow.ArrayData{runs.Data(), data}, 0, 0), nil
}
