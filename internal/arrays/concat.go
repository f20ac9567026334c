// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// part is a range of physical rows of an array.
type part struct {
	data         arrow.ArrayData
	base, length int
}

// child returns the rows of a child array that a part of its parent spans, for
// a child with scale rows per row of the parent.
func (p part) child(index, scale int) part {
	child := p.data.Children()[index]
	return part{child, child.Offset() + p.base*scale, p.length * scale}
}

// concatenator joins parts of arrays of one type into new buffers. It owns the
// buffers until result hands them over.
type concatenator struct {
	gatherer
	parts []part
}

// Concat joins at least one array of one type. The caller owns the result.
func Concat(mem memory.Allocator, arrays []arrow.ArrayData) (arrow.ArrayData, error) {
	parts := make([]part, len(arrays))
	for i, data := range arrays {
		parts[i] = part{data, data.Offset(), data.Len()}
	}
	return concatParts(mem, parts)
}

// ConcatBatches joins at least one batch of equal columns, in order. The result has
// the schema object of the first batch and belongs to the caller.
func ConcatBatches(mem memory.Allocator, batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	schema, rows := batches[0].Schema(), int64(0)
	for _, batch := range batches {
		rows += batch.NumRows()
	}
	columns := make([]arrow.Array, 0, schema.NumFields())
	defer func() { Release(columns) }()
	parts := make([]arrow.ArrayData, len(batches))
	for i := range schema.NumFields() {
		for j, batch := range batches {
			parts[j] = batch.Column(i).Data()
		}
		data, err := Concat(mem, parts)
		if err != nil {
			return nil, fmt.Errorf("cannot concatenate Arrow batches: column %q: %w", schema.Field(i).Name, err)
		}
		columns = append(columns, array.MakeFromData(data))
		data.Release()
	}
	return array.NewRecordBatch(schema, columns, rows), nil
}

func concatParts(mem memory.Allocator, parts []part) (arrow.ArrayData, error) {
	count := 0
	for _, p := range parts {
		count += p.length
	}
	c := concatenator{gatherer: gatherer{mem: mem, data: parts[0].data, sel: Selection{count: count}}, parts: parts}
	defer c.release()
	switch storage := StorageType(c.data.DataType()).(type) {
	case *arrow.NullType:
		return array.NewData(c.data.DataType(), count, []*memory.Buffer{nil}, nil, count, 0), nil
	case *arrow.BooleanType:
		c.joinValidity()
		c.joinBits(1)
	case *arrow.StringType, *arrow.BinaryType:
		c.joinValidity()
		return joinBytes[int32](&c, math.MaxInt32)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		c.joinValidity()
		return joinBytes[int64](&c, math.MaxInt64)
	case arrow.BinaryViewDataType:
		return c.joinViews()
	case *arrow.ListType, *arrow.MapType:
		c.joinValidity()
		return joinLists[int32](&c, math.MaxInt32)
	case *arrow.LargeListType:
		c.joinValidity()
		return joinLists[int64](&c, math.MaxInt64)
	case *arrow.ListViewType:
		return joinListViews[int32](&c, math.MaxInt32)
	case *arrow.LargeListViewType:
		return joinListViews[int64](&c, math.MaxInt64)
	case *arrow.FixedSizeListType:
		c.joinValidity()
		return c.joinChildren(int(storage.Len()))
	case *arrow.StructType:
		c.joinValidity()
		return c.joinChildren(1)
	case *arrow.SparseUnionType:
		c.buffers = append(c.buffers, nil)
		c.joinFixed(1)
		return c.joinChildren(1)
	case *arrow.DenseUnionType:
		return c.joinDenseUnions(storage)
	case *arrow.RunEndEncodedType:
		return c.joinRunEndEncoded()
	case *arrow.DictionaryType:
		return c.joinDictionaries(storage)
	case arrow.FixedWidthDataType:
		c.joinValidity()
		c.joinFixed(storage.BitWidth() / 8)
	default:
		return nil, fmt.Errorf("cannot concatenate Arrow type %s", c.data.DataType())
	}
	return c.result(), nil
}

// joinValidity adds the validity bitmap: none where no part has nulls.
func (c *concatenator) joinValidity() {
	bitmap := false
	for _, p := range c.parts {
		bitmap = bitmap || p.hasBitmap()
	}
	if !bitmap {
		c.buffers = append(c.buffers, nil)
		return
	}
	c.joinBits(0)
	bits := c.buffers[0].Bytes()
	c.nullCount = c.sel.count - bitutil.CountSetBits(bits, 0, c.sel.count)
}

func (p part) hasBitmap() bool {
	return p.data.NullN() != 0 && p.data.Buffers()[0] != nil
}

// joinBits adds a buffer of one bit a row from a buffer of each part; a part
// without validity bitmap has all bits set.
func (c *concatenator) joinBits(index int) {
	bits := c.newBuffer(int(bitutil.BytesForBits(int64(c.sel.count))))
	clear(bits)
	at := 0
	for _, p := range c.parts {
		switch {
		case p.length == 0:
		case index == 0 && !p.hasBitmap():
			bitutil.SetBitsTo(bits, int64(at), int64(p.length), true)
		default:
			bitutil.CopyBitmap(p.data.Buffers()[index].Bytes(), p.base, p.length, bits, at)
		}
		at += p.length
	}
}

// joinFixed adds the values of a type that is width bytes wide.
func (c *concatenator) joinFixed(width int) {
	target := c.newBuffer(c.sel.count * width)
	for _, p := range c.parts {
		if size := p.length * width; size > 0 {
			copy(target, p.data.Buffers()[1].Bytes()[p.base*width:][:size])
			target = target[size:]
		}
	}
}

// joinOffsets adds the offsets of all parts and returns the range of bytes or
// values that each part uses.
func joinOffsets[O offsetInt](c *concatenator, limit int64) ([]span, error) {
	target := Cast[O](c.newBuffer((c.sel.count + 1) * int(unsafe.Sizeof(O(0)))))
	target[0] = 0
	ranges := make([]span, len(c.parts))
	var total int64
	at := 1
	for i, p := range c.parts {
		if p.length == 0 {
			continue
		}
		offsets := offsetsOf[O](p.data, p.base)
		first, last := int64(offsets[0]), int64(offsets[p.length])
		ranges[i] = span{int(first), int(last - first)}
		shift := total - first
		if total += last - first; total > limit {
			return nil, errTooLarge(c.data, limit)
		}
		for _, offset := range offsets[1 : p.length+1] {
			target[at] = O(int64(offset) + shift)
			at++
		}
	}
	return ranges, nil
}

func joinBytes[O offsetInt](c *concatenator, limit int64) (arrow.ArrayData, error) {
	ranges, err := joinOffsets[O](c, limit)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, r := range ranges {
		total += r.length
	}
	target := c.newBuffer(total)
	for i, p := range c.parts {
		if r := ranges[i]; r.length > 0 {
			copy(target, p.data.Buffers()[2].Bytes()[r.start:][:r.length])
			target = target[r.length:]
		}
	}
	return c.result(), nil
}

func (c *concatenator) joinViews() (arrow.ArrayData, error) {
	c.joinValidity()
	c.joinFixed(arrow.ViewHeaderSizeBytes)
	headers := Cast[arrow.ViewHeader](c.buffers[1].Bytes())
	var validity []byte
	if c.buffers[0] != nil {
		validity = c.buffers[0].Bytes()
	}
	var blocks []*memory.Buffer
	at := 0
	for _, p := range c.parts {
		for i := range p.length {
			header := &headers[at+i]
			if !header.IsInline() && !bitIsClear(validity, at+i) {
				header.SetIndexOffset(header.BufferIndex()+int32(len(blocks)), header.BufferOffset())
			}
		}
		at += p.length
		blocks = append(blocks, p.data.Buffers()[2:]...)
	}
	if err := packViews(&c.gatherer, headers, blocks); err != nil {
		return nil, err
	}
	return c.result(), nil
}

func joinLists[O offsetInt](c *concatenator, limit int64) (arrow.ArrayData, error) {
	ranges, err := joinOffsets[O](c, limit)
	if err != nil {
		return nil, err
	}
	values := make([]part, len(c.parts))
	for i, p := range c.parts {
		child := p.data.Children()[0]
		values[i] = part{child, child.Offset() + ranges[i].start, ranges[i].length}
	}
	return c.resultWith(concatParts(c.mem, values))
}

// joinChildren joins children that have scale rows per row of their parent.
func (c *concatenator) joinChildren(scale int) (arrow.ArrayData, error) {
	parts := make([]part, len(c.parts))
	for i := range c.data.Children() {
		for j, p := range c.parts {
			parts[j] = p.child(i, scale)
		}
		child, err := concatParts(c.mem, parts)
		if err != nil {
			return nil, err
		}
		c.children = append(c.children, child)
	}
	return c.result(), nil
}

// compact copies the rows of parts whose values lie anywhere in their children,
// so that the values of each copy are in row order and without gaps.
func (c *concatenator) compact() error {
	parts := make([]part, len(c.parts))
	for i, p := range c.parts {
		var rows Selection
		rows.Extend(0, p.length)
		data, err := rows.Take(c.mem, p.data, p.base)
		if err != nil {
			return err
		}
		c.copies = append(c.copies, data)
		parts[i] = part{data, 0, p.length}
	}
	c.parts = parts
	return nil
}

func joinListViews[O offsetInt](c *concatenator, limit int64) (arrow.ArrayData, error) {
	if err := c.compact(); err != nil {
		return nil, err
	}
	c.joinValidity()
	c.joinFixed(int(unsafe.Sizeof(O(0))))
	offsets := Cast[O](c.buffers[1].Bytes())
	sizes := Cast[O](c.newBuffer(c.sel.count * int(unsafe.Sizeof(O(0)))))
	values := make([]part, len(c.parts))
	var total int64
	at := 0
	for i, p := range c.parts {
		child := p.data.Children()[0]
		values[i] = part{child, 0, child.Len()}
		if p.length > 0 {
			copy(sizes[at:], Cast[O](p.data.Buffers()[2].Bytes()))
		}
		for j := range p.length {
			offsets[at+j] += O(total)
		}
		at += p.length
		if total += int64(child.Len()); total > limit {
			return nil, errTooLarge(c.data, limit)
		}
	}
	return c.resultWith(concatParts(c.mem, values))
}

func (c *concatenator) joinDenseUnions(union *arrow.DenseUnionType) (arrow.ArrayData, error) {
	if err := c.compact(); err != nil {
		return nil, err
	}
	c.buffers = append(c.buffers, nil)
	c.joinFixed(1)
	codes := Cast[arrow.UnionTypeCode](c.buffers[1].Bytes())
	offsets := Cast[int32](c.newBuffer(c.sel.count * 4))
	ids := union.ChildIDs()
	shifts := make([]int64, len(c.data.Children()))
	values := make([][]part, len(shifts))
	at := 0
	for _, p := range c.parts {
		for i := range p.length {
			child := ids[codes[at+i]]
			offsets[at+i] = int32(shifts[child]) + Cast[int32](p.data.Buffers()[2].Bytes())[i]
		}
		at += p.length
		for i, child := range p.data.Children() {
			values[i] = append(values[i], part{child, 0, child.Len()})
			if shifts[i] += int64(child.Len()); shifts[i] > math.MaxInt32 {
				return nil, errTooLarge(c.data, math.MaxInt32)
			}
		}
	}
	for _, parts := range values {
		child, err := concatParts(c.mem, parts)
		if err != nil {
			return nil, err
		}
		c.children = append(c.children, child)
	}
	return c.result(), nil
}

func (c *concatenator) joinRunEndEncoded() (arrow.ArrayData, error) {
	var ends []int64
	var values []part
	done := int64(0)
	for _, p := range c.parts {
		if p.length == 0 {
			continue
		}
		first := -1
		from, to := int64(p.base), int64(p.base+p.length)
		last := 0
		for i, end := range RunEnds(p.data.Children()[0]) {
			if end <= from {
				continue
			}
			if first < 0 {
				first = i
			}
			last = i
			ends = append(ends, done+min(end, to)-from)
			if end >= to {
				break
			}
		}
		done += int64(p.length)
		child := p.data.Children()[1]
		values = append(values, part{child, child.Offset() + first, last - first + 1})
	}
	if len(values) == 0 {
		child := c.data.Children()[1]
		values = []part{{child, child.Offset(), 0}}
	}
	return newRunEndEncoded(c.mem, c.data, ends, c.sel.count, func() (arrow.ArrayData, error) {
		return concatParts(c.mem, values)
	})
}
