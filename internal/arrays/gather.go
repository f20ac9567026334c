// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// GatherBatch takes rows of batch, in the given order and with repetitions, for
// every Arrow type. A row of -1 is a row of nulls. The result has the batch's
// own schema object; when rows names all rows in order it is the batch itself,
// retained. Otherwise the two share no memory but dictionaries.
//
// The caller owns the returned batch. An error names the row or the column.
func GatherBatch(mem memory.Allocator, batch arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	sel, err := NewSelection(rows, int(batch.NumRows()))
	if err != nil {
		return nil, err
	}
	return gatherSelection(mem, batch, sel)
}

func gatherSelection(mem memory.Allocator, batch arrow.RecordBatch, sel Selection) (arrow.RecordBatch, error) {
	if sel.isIdentity(int(batch.NumRows())) {
		batch.Retain()
		return batch, nil
	}
	columns := make([]arrow.Array, 0, batch.NumCols())
	defer func() { Release(columns) }()
	for i, column := range batch.Columns() {
		taken, err := gatherSelected(mem, column, sel)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", batch.ColumnName(i), err)
		}
		columns = append(columns, taken)
	}
	return array.NewRecordBatch(batch.Schema(), columns, int64(sel.count)), nil
}

// Gather takes rows of arr as GatherBatch does. The caller owns the
// returned array.
func Gather(mem memory.Allocator, arr arrow.Array, rows []int32) (arrow.Array, error) {
	sel, err := NewSelection(rows, arr.Len())
	if err != nil {
		return nil, err
	}
	if sel.isIdentity(arr.Len()) {
		arr.Retain()
		return arr, nil
	}
	return gatherSelected(mem, arr, sel)
}

func gatherSelected(mem memory.Allocator, arr arrow.Array, sel Selection) (arrow.Array, error) {
	data, err := sel.Take(mem, arr.Data(), arr.Data().Offset())
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// Take returns the selected rows of data, counted from the physical row base.
// The caller owns them.
func (sel Selection) Take(mem memory.Allocator, data arrow.ArrayData, base int) (arrow.ArrayData, error) {
	g := gatherer{mem: mem, data: data, base: base, sel: sel}
	defer g.release()
	storage := StorageType(data.DataType())
	switch storage := storage.(type) {
	case *arrow.NullType:
		return array.NewData(data.DataType(), sel.count, []*memory.Buffer{nil}, nil, sel.count, 0), nil
	case *arrow.BooleanType:
		g.takeValidity()
		g.takeBits()
	case *arrow.StringType, *arrow.BinaryType:
		g.takeValidity()
		if err := gatherBytes[int32](&g, math.MaxInt32); err != nil {
			return nil, err
		}
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		g.takeValidity()
		if err := gatherBytes[int64](&g, math.MaxInt64); err != nil {
			return nil, err
		}
	case arrow.BinaryViewDataType:
		g.takeValidity()
		if err := g.takeViews(); err != nil {
			return nil, err
		}
	case *arrow.ListType, *arrow.MapType:
		g.takeValidity()
		return gatherList[int32](&g, math.MaxInt32)
	case *arrow.LargeListType:
		g.takeValidity()
		return gatherList[int64](&g, math.MaxInt64)
	case *arrow.ListViewType:
		g.takeValidity()
		return gatherListView[int32](&g, math.MaxInt32)
	case *arrow.LargeListViewType:
		g.takeValidity()
		return gatherListView[int64](&g, math.MaxInt64)
	case *arrow.FixedSizeListType:
		g.takeValidity()
		return g.takeFixedSizeList(int(storage.Len()))
	case *arrow.StructType:
		g.takeValidity()
		return g.takeChildren()
	case *arrow.SparseUnionType:
		return g.takeSparseUnion(storage)
	case *arrow.DenseUnionType:
		return g.takeDenseUnion(storage)
	case *arrow.RunEndEncodedType:
		return g.takeRunEndEncoded()
	case *arrow.DictionaryType:
		g.takeValidity()
		g.takeFixed(storage.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8)
		return array.NewDataWithDictionary(data.DataType(), sel.count, g.takeBuffers(), g.nullCount, 0, data.Dictionary().(*array.Data)), nil
	case arrow.FixedWidthDataType:
		g.takeValidity()
		g.takeFixed(storage.BitWidth() / 8)
	default:
		return nil, fmt.Errorf("cannot take rows of Arrow type %s", data.DataType())
	}
	return g.result(), nil
}

// StorageType returns the type that an array is laid out as.
func StorageType(dt arrow.DataType) arrow.DataType {
	for {
		extension, ok := dt.(arrow.ExtensionType)
		if !ok {
			return dt
		}
		dt = extension.StorageType()
	}
}

// gatherer takes the selected rows of one array into new buffers. It owns
// buffers, children and copies until it is released; the result retains what it
// needs.
type gatherer struct {
	mem       memory.Allocator
	data      arrow.ArrayData
	base      int
	sel       Selection
	buffers   []*memory.Buffer
	children  []arrow.ArrayData
	copies    []arrow.ArrayData // that the result is made of
	nullCount int
}

func (g *gatherer) release() {
	Release(g.buffers)
	Release(g.children)
	Release(g.copies)
}

// takeBuffers returns the buffers for an array that retains them itself.
func (g *gatherer) takeBuffers() []*memory.Buffer {
	return append([]*memory.Buffer(nil), g.buffers...)
}

func (g *gatherer) result() arrow.ArrayData {
	return array.NewData(g.data.DataType(), g.sel.count, g.takeBuffers(), slices.Clone(g.children), g.nullCount, 0)
}

// resultWith is result with one more child, or the error of making it.
func (g *gatherer) resultWith(child arrow.ArrayData, err error) (arrow.ArrayData, error) {
	if err != nil {
		return nil, err
	}
	g.children = append(g.children, child)
	return g.result(), nil
}

// newBuffer adds a buffer of that many bytes, with unspecified contents.
func (g *gatherer) newBuffer(size int) []byte {
	buffer := NewBuffer(g.mem, size)
	g.buffers = append(g.buffers, buffer)
	return buffer.Bytes()
}

// takeValidity adds the validity bitmap: none where all taken rows are valid.
func (g *gatherer) takeValidity() {
	source := g.data.Buffers()[0]
	if g.data.NullN() == 0 || source == nil {
		source = nil
	}
	if source == nil && !g.sel.nulls {
		g.buffers = append(g.buffers, nil)
		return
	}
	bits := g.newBuffer(int(bitutil.BytesForBits(int64(g.sel.count))))
	if source == nil {
		g.markSelected(bits)
	} else {
		g.copyBits(bits, source.Bytes())
	}
	g.nullCount = g.sel.count - bitutil.CountSetBits(bits, 0, g.sel.count)
	if g.nullCount == 0 {
		Release(g.buffers)
		g.buffers[0] = nil
	}
}

// markSelected sets the bits of the rows that are not null rows.
func (g *gatherer) markSelected(bits []byte) {
	position := 0
	g.sel.each(func(start, length int) {
		bitutil.SetBitsTo(bits, int64(position), int64(length), start >= 0)
		position += length
	})
}

// takeBits adds a buffer of one bit a row.
func (g *gatherer) takeBits() {
	bits := g.newBuffer(int(bitutil.BytesForBits(int64(g.sel.count))))
	if g.data.Len() > 0 {
		g.copyBits(bits, g.data.Buffers()[1].Bytes())
	} else {
		clear(bits)
	}
}

func (g *gatherer) copyBits(bits, source []byte) {
	if g.sel.spans != nil {
		clear(bits)
		position := 0
		for _, run := range g.sel.spans {
			if run.start >= 0 {
				bitutil.CopyBitmap(source, g.base+run.start, run.length, bits, position)
			}
			position += run.length
		}
		return
	}
	rows := g.sel.rows
	base := uint(g.base)
	for i := range bits {
		var packed byte
		group := rows[i*8:]
		if len(group) > 8 {
			group = group[:8]
		}
		for j, row := range group {
			if row >= 0 {
				at := base + uint(row)
				packed |= source[at>>3] >> (at & 7) & 1 << j
			}
		}
		bits[i] = packed
	}
}

// takeFixed adds the values of a type that is width bytes wide.
func (g *gatherer) takeFixed(width int) {
	var source []byte
	if g.data.Len() > 0 && width > 0 {
		source = g.data.Buffers()[1].Bytes()
	}
	target := g.newBuffer(g.sel.count * width)
	g.copyFixed(target, source, width)
}

func (g *gatherer) copyFixed(target, source []byte, width int) {
	if g.sel.spans != nil {
		for _, run := range g.sel.spans {
			size := run.length * width
			if run.start < 0 {
				clear(target[:size])
			} else {
				copy(target[:size], source[(g.base+run.start)*width:])
			}
			target = target[size:]
		}
		return
	}
	source = source[min(g.base*width, len(source)):]
	switch width {
	case 1:
		gatherFixed[uint8](target, source, g.sel)
	case 2:
		gatherFixed[uint16](target, source, g.sel)
	case 4:
		gatherFixed[uint32](target, source, g.sel)
	case 8:
		gatherFixed[uint64](target, source, g.sel)
	case 16:
		gatherFixed[[2]uint64](target, source, g.sel)
	case 32:
		gatherFixed[[4]uint64](target, source, g.sel)
	default:
		for _, row := range g.sel.rows {
			if row < 0 {
				clear(target[:width])
			} else {
				copy(target[:width], source[int(row)*width:])
			}
			target = target[width:]
		}
	}
}

func gatherFixed[T any](target, source []byte, sel Selection) {
	to, from := Cast[T](target), Cast[T](source)
	if sel.nulls {
		for i, row := range sel.rows {
			if row < 0 {
				var zero T
				to[i] = zero
			} else {
				to[i] = from[row]
			}
		}
		return
	}
	to = to[:len(sel.rows)]
	for i, row := range sel.rows {
		to[i] = from[row]
	}
}

// Cast views bytes as values of T, which holds no pointers.
func Cast[T any](bytes []byte) []T {
	var zero T
	length := len(bytes) / int(unsafe.Sizeof(zero))
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), length)
}

// NewBuffer returns a buffer of that many bytes, with unspecified contents.
func NewBuffer(mem memory.Allocator, size int) *memory.Buffer {
	buffer := memory.NewResizableBuffer(mem)
	buffer.Resize(size)
	return buffer
}

// Release releases the items that are not nil.
func Release[T interface {
	comparable
	Release()
}](items []T) {
	var none T
	for _, item := range items {
		if item != none {
			item.Release()
		}
	}
}
