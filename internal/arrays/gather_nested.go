// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math"
	"sort"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// offsetInt is the type of the offsets of variable-size values.
type offsetInt interface{ int32 | int64 }

// offsetsOf returns the offsets of an array from the physical row base on, or a
// single zero for an empty array, which may have no offsets at all.
func offsetsOf[O offsetInt](data arrow.ArrayData, base int) []O {
	if data.Len() == 0 || data.Buffers()[1] == nil {
		return []O{0}
	}
	return Cast[O](data.Buffers()[1].Bytes())[base:]
}

// gatherOffsets adds the offsets of the selected values, whose lengths follow
// from the source's offsets, and returns their total.
func gatherOffsets[O offsetInt](g *gatherer, limit int64) (int64, error) {
	target := Cast[O](g.newBuffer((g.sel.count + 1) * int(unsafe.Sizeof(O(0)))))
	offsets := offsetsOf[O](g.data, g.base)
	var total int64
	target[0] = 0
	if g.sel.spans != nil {
		at := 1
		for _, run := range g.sel.spans {
			if run.start < 0 {
				for range run.length {
					target[at] = O(total)
					at++
				}
				continue
			}
			shift := total - int64(offsets[run.start])
			total = shift + int64(offsets[run.start+run.length])
			if total > limit {
				return 0, errTooLarge(g.data, limit)
			}
			for _, offset := range offsets[run.start+1 : run.start+run.length+1] {
				target[at] = O(shift + int64(offset))
				at++
			}
		}
		return total, nil
	}
	for i, row := range g.sel.rows {
		if row >= 0 {
			total += int64(offsets[row+1] - offsets[row])
		}
		target[i+1] = O(total)
	}
	if total > limit {
		return 0, errTooLarge(g.data, limit)
	}
	return total, nil
}

func errTooLarge(data arrow.ArrayData, limit int64) error {
	//lint:ignore ST1005 Arrow is a name
	return fmt.Errorf("Arrow type %s cannot hold more than %d bytes or values in one array", data.DataType(), limit)
}

// gatherBytes adds offsets and bytes of strings or binary values.
func gatherBytes[O offsetInt](g *gatherer, limit int64) error {
	total, err := gatherOffsets[O](g, limit)
	if err != nil {
		return err
	}
	offsets := offsetsOf[O](g.data, g.base)
	target := g.newBuffer(int(total))
	var source []byte
	if buffer := g.data.Buffers()[2]; buffer != nil {
		source = buffer.Bytes()
	}
	if g.sel.spans != nil {
		for _, run := range g.sel.spans {
			if run.start >= 0 {
				n := copy(target, source[offsets[run.start]:offsets[run.start+run.length]])
				target = target[n:]
			}
		}
		return nil
	}
	for _, row := range g.sel.rows {
		if row >= 0 {
			n := copy(target, source[offsets[row]:offsets[row+1]])
			target = target[n:]
		}
	}
	return nil
}

// takeViews adds view headers and moves the bytes of long values into one
// buffer.
func (g *gatherer) takeViews() error {
	g.takeFixed(arrow.ViewHeaderSizeBytes)
	headers := Cast[arrow.ViewHeader](g.buffers[1].Bytes())
	return packViews(g, headers, g.data.Buffers()[2:])
}

// packViews copies the long values that headers name out of blocks into one
// new buffer, and makes the headers refer to it.
func packViews(g *gatherer, headers []arrow.ViewHeader, blocks []*memory.Buffer) error {
	var validity []byte
	if g.buffers[0] != nil {
		validity = g.buffers[0].Bytes()
	}
	total := 0
	for i := range headers {
		if bitIsClear(validity, i) {
			headers[i] = arrow.ViewHeader{}
		}
		if !headers[i].IsInline() {
			total += headers[i].Len()
		}
	}
	if total == 0 {
		return nil
	}
	if total > math.MaxInt32 {
		return errTooLarge(g.data, math.MaxInt32)
	}
	target := g.newBuffer(total)
	at := int32(0)
	for i := range headers {
		header := &headers[i]
		if header.IsInline() {
			continue
		}
		from := blocks[header.BufferIndex()].Bytes()[header.BufferOffset():]
		copy(target[at:], from[:header.Len()])
		size := int32(header.Len())
		header.SetIndexOffset(0, at)
		at += size
	}
	return nil
}

func bitIsClear(bits []byte, i int) bool {
	return bits != nil && bits[i>>3]>>(i&7)&1 == 0
}

// gatherList takes lists or maps: offsets, and the values between them.
func gatherList[O offsetInt](g *gatherer, limit int64) (arrow.ArrayData, error) {
	if _, err := gatherOffsets[O](g, limit); err != nil {
		return nil, err
	}
	offsets := offsetsOf[O](g.data, g.base)
	var values Selection
	g.sel.each(func(start, length int) {
		if start >= 0 {
			values.Extend(int(offsets[start]), int(offsets[start+length]-offsets[start]))
		}
	})
	return g.resultWith(gatherChild(g.mem, g.data.Children()[0], values))
}

// gatherChild takes rows of a child array, counted from its own start.
func gatherChild(mem memory.Allocator, child arrow.ArrayData, sel Selection) (arrow.ArrayData, error) {
	return sel.Take(mem, child, child.Offset())
}

// gatherListView takes list views. The values of the result are in the order of
// its lists, without gaps.
func gatherListView[O offsetInt](g *gatherer, limit int64) (arrow.ArrayData, error) {
	var offsets, sizes []O
	if g.data.Len() > 0 {
		offsets = Cast[O](g.data.Buffers()[1].Bytes())[g.base:]
		sizes = Cast[O](g.data.Buffers()[2].Bytes())[g.base:]
	}
	width := int(unsafe.Sizeof(O(0)))
	newOffsets := Cast[O](g.newBuffer(g.sel.count * width))
	newSizes := Cast[O](g.newBuffer(g.sel.count * width))
	var validity []byte
	if g.buffers[0] != nil {
		validity = g.buffers[0].Bytes()
	}
	var values Selection
	at := 0
	g.sel.each(func(start, length int) {
		for i := range length {
			newOffsets[at], newSizes[at] = O(values.count), 0
			if start >= 0 && !bitIsClear(validity, at) {
				newSizes[at] = sizes[start+i]
				values.Extend(int(offsets[start+i]), int(sizes[start+i]))
			}
			at++
		}
	})
	if int64(values.count) > limit {
		return nil, errTooLarge(g.data, limit)
	}
	return g.resultWith(gatherChild(g.mem, g.data.Children()[0], values))
}

func (g *gatherer) takeFixedSizeList(size int) (arrow.ArrayData, error) {
	var values Selection
	g.sel.each(func(start, length int) {
		if start >= 0 {
			start = (g.base + start) * size
		}
		values.Extend(start, length*size)
	})
	return g.resultWith(gatherChild(g.mem, g.data.Children()[0], values))
}

// takeChildren takes the selected rows of children that are as long as their
// parent, and returns the result.
func (g *gatherer) takeChildren() (arrow.ArrayData, error) {
	for _, child := range g.data.Children() {
		taken, err := g.sel.Take(g.mem, child, child.Offset()+g.base)
		if err != nil {
			return nil, err
		}
		g.children = append(g.children, taken)
	}
	return g.result(), nil
}

// takeTypeCodes adds the type codes of a union. A null row is a null of the
// union's first member.
func (g *gatherer) takeTypeCodes(union arrow.UnionType) []arrow.UnionTypeCode {
	g.buffers = append(g.buffers, nil)
	g.takeFixed(1)
	codes := Cast[arrow.UnionTypeCode](g.buffers[1].Bytes())
	if g.sel.nulls && len(union.TypeCodes()) > 0 {
		at := 0
		g.sel.each(func(start, length int) {
			if start < 0 {
				for i := range length {
					codes[at+i] = union.TypeCodes()[0]
				}
			}
			at += length
		})
	}
	return codes
}

func (g *gatherer) takeSparseUnion(union *arrow.SparseUnionType) (arrow.ArrayData, error) {
	g.takeTypeCodes(union)
	return g.takeChildren()
}

func (g *gatherer) takeDenseUnion(union *arrow.DenseUnionType) (arrow.ArrayData, error) {
	codes := g.takeTypeCodes(union)
	var offsets []int32
	if g.data.Len() > 0 {
		offsets = Cast[int32](g.data.Buffers()[2].Bytes())[g.base:]
	}
	target := Cast[int32](g.newBuffer(g.sel.count * 4))
	ids := union.ChildIDs()
	values := make([]Selection, len(g.data.Children()))
	at := 0
	g.sel.each(func(start, length int) {
		for i := range length {
			child := &values[ids[codes[at]]]
			target[at] = int32(child.count)
			if start < 0 {
				child.Extend(-1, 1)
			} else {
				child.Extend(int(offsets[start+i]), 1)
			}
			at++
		}
	})
	for i, child := range g.data.Children() {
		taken, err := gatherChild(g.mem, child, values[i])
		if err != nil {
			return nil, err
		}
		g.children = append(g.children, taken)
	}
	return g.result(), nil
}

// takeRunEndEncoded takes rows of a run-end encoded array. Rows of one run that
// follow each other stay one run.
func (g *gatherer) takeRunEndEncoded() (arrow.ArrayData, error) {
	ends := RunEnds(g.data.Children()[0])
	var newEnds []int64
	var values Selection
	run := 0
	last := -2
	take := func(physical, length int) {
		if physical == last {
			newEnds[len(newEnds)-1] += int64(length)
			return
		}
		end := int64(length)
		if len(newEnds) > 0 {
			end += newEnds[len(newEnds)-1]
		}
		newEnds = append(newEnds, end)
		values.Extend(physical, 1)
		last = physical
	}
	g.sel.each(func(start, length int) {
		if start < 0 {
			take(-1, length)
			return
		}
		for from, to := g.base+start, g.base+start+length; from < to; {
			if int64(from) >= ends[run] || run > 0 && int64(from) < ends[run-1] {
				run = sort.Search(len(ends), func(i int) bool { return ends[i] > int64(from) })
			}
			step := min(to, int(ends[run])) - from
			take(run, step)
			from += step
		}
	})
	return newRunEndEncoded(g.mem, g.data, newEnds, g.sel.count, func() (arrow.ArrayData, error) {
		return gatherChild(g.mem, g.data.Children()[1], values)
	})
}

// RunEnds returns the values of the child with the run ends of a run-end encoded
// array, as they are stored: an offset of the parent does not move them.
func RunEnds(child arrow.ArrayData) []int64 {
	ends := make([]int64, child.Len())
	if len(ends) == 0 {
		return ends
	}
	raw := child.Buffers()[1].Bytes()
	switch child.DataType().ID() {
	case arrow.INT16:
		for i := range ends {
			ends[i] = int64(Cast[int16](raw)[child.Offset()+i])
		}
	case arrow.INT32:
		for i := range ends {
			ends[i] = int64(Cast[int32](raw)[child.Offset()+i])
		}
	default:
		copy(ends, Cast[int64](raw)[child.Offset():])
	}
	return ends
}

// newRunEndEncoded builds an array like the given one from run ends and the
// values of the runs.
func newRunEndEncoded(mem memory.Allocator, like arrow.ArrayData, ends []int64, length int, values func() (arrow.ArrayData, error)) (arrow.ArrayData, error) {
	endType := like.Children()[0].DataType()
	limit := int64(math.MaxInt64)
	switch endType.ID() {
	case arrow.INT16:
		limit = math.MaxInt16
	case arrow.INT32:
		limit = math.MaxInt32
	}
	if int64(length) > limit {
		return nil, errTooLarge(like, limit)
	}
	child, err := values()
	if err != nil {
		return nil, err
	}
	defer child.Release()
	width := endType.(arrow.FixedWidthDataType).BitWidth() / 8
	buffer := NewBuffer(mem, len(ends)*width)
	defer buffer.Release()
	switch width {
	case 2:
		for i, end := range ends {
			Cast[int16](buffer.Bytes())[i] = int16(end)
		}
	case 4:
		for i, end := range ends {
			Cast[int32](buffer.Bytes())[i] = int32(end)
		}
	default:
		copy(Cast[int64](buffer.Bytes()), ends)
	}
	endData := array.NewData(endType, len(ends), []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer endData.Release()
	return array.NewData(like.DataType(), length, []*memory.Buffer{nil}, []arrow.ArrayData{endData, child}, 0, 0), nil
}
