// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

var (
	errNode        = errors.New("invalid field node")
	errBuffer      = errors.New("a buffer is outside the message body")
	errShort       = errors.New("a buffer is too short for its column")
	errOffsets     = errors.New("offsets are not ascending or outside the values")
	errUTF8        = errors.New("text is not valid UTF-8")
	errViews       = errors.New("a view is outside its buffers")
	errChild       = errors.New("a child column is too short")
	errUnion       = errors.New("a union refers to a value that is not there")
	errRunEnds     = errors.New("run ends are not ascending or too short")
	errIndex       = errors.New("a dictionary index is outside the dictionary")
	errDictionary  = errors.New("the dictionary is missing")
	errNullKeys    = errors.New("a map has null keys or entries")
	errBufferCount = errors.New("buffers are missing")
)

// loader makes columns of the body of one message, without copying. It
// checks all that reading the columns relies on.
type loader struct {
	r            *flatReader
	nodes        int // position of the next field node
	nodesLeft    int
	buffers      int // position of the next buffer
	buffersLeft  int
	variadic     int // position of the next count of view buffers
	variadicLeft int
	body         []byte
	inflate      *inflater // nil for a body that is not compressed
	dictionaries map[int64]arrow.ArrayData
	limit        int64 // most rows of a column
}

// node returns the length and null count of the next field.
func (l *loader) node() (length, nulls int, err error) {
	if l.nodesLeft == 0 {
		return 0, 0, errNode
	}
	rows, count := l.r.int64(l.nodes), l.r.int64(l.nodes+8)
	l.nodes += 16
	l.nodesLeft--
	if rows < 0 || rows > l.limit || count < 0 || count > rows {
		return 0, 0, errNode
	}
	return int(rows), int(count), nil
}

// buffer returns the next buffer of the body.
func (l *loader) buffer() ([]byte, error) {
	if l.buffersLeft == 0 {
		return nil, errBufferCount
	}
	offset, length := l.r.int64(l.buffers), l.r.int64(l.buffers+8)
	l.buffers += 16
	l.buffersLeft--
	if length == 0 {
		return nil, nil
	}
	if offset < 0 || length < 0 || offset > int64(len(l.body)) || length > int64(len(l.body))-offset {
		return nil, errBuffer
	}
	data := l.body[offset : offset+length : offset+length]
	if l.inflate != nil {
		return l.inflate.buffer(data)
	}
	return data, nil
}

// sized returns the next buffer, which must have at least size bytes.
func (l *loader) sized(size int64) ([]byte, error) {
	data, err := l.buffer()
	if err == nil && int64(len(data)) < size {
		return nil, errShort
	}
	return data, err
}

// validity returns the next validity bitmap and the true number of nulls.
func (l *loader) validity(length, nulls int) ([]byte, int, error) {
	if nulls == 0 {
		_, err := l.buffer()
		return nil, 0, err
	}
	bits, err := l.sized(bitutil.BytesForBits(int64(length)))
	if err != nil {
		return nil, 0, err
	}
	if nulls = length - bitutil.CountSetBits(bits, 0, length); nulls == 0 {
		bits = nil
	}
	return bits, nulls, nil
}

// bitmapBuffer wraps a validity bitmap, which may be nil.
func bitmapBuffer(bits []byte) *memory.Buffer {
	if bits == nil {
		return nil
	}
	return memory.NewBufferBytes(bits)
}

// load returns the next column. The caller owns it.
func (l *loader) load(field *fieldShape, dt arrow.DataType) (arrow.ArrayData, error) {
	length, nulls, err := l.node()
	if err != nil {
		return nil, err
	}
	storage := arrays.StorageType(dt)
	switch storage := storage.(type) {
	case *arrow.NullType:
		return array.NewData(dt, length, []*memory.Buffer{nil}, nil, length, 0), nil
	case *arrow.RunEndEncodedType:
		return l.loadRunEndEncoded(field, dt, storage, length)
	case arrow.UnionType:
		return l.loadUnion(field, dt, storage, length)
	}
	validity, nulls, err := l.validity(length, nulls)
	if err != nil {
		return nil, err
	}
	column := columnLoader{l, field, dt, length, nulls, validity}
	switch storage := storage.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return loadBytes[int32](column, storage.ID() == arrow.STRING)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return loadBytes[int64](column, storage.ID() == arrow.LARGE_STRING)
	case arrow.BinaryViewDataType:
		return column.loadViews(storage.ID() == arrow.STRING_VIEW)
	case *arrow.ListType, *arrow.MapType:
		return loadList[int32](column, storage.(arrow.ListLikeType))
	case *arrow.LargeListType:
		return loadList[int64](column, storage)
	case *arrow.ListViewType:
		return loadListView[int32](column, storage)
	case *arrow.LargeListViewType:
		return loadListView[int64](column, storage)
	case *arrow.FixedSizeListType:
		return column.loadFixedSizeList(storage)
	case *arrow.StructType:
		return column.loadStruct(storage)
	case *arrow.DictionaryType:
		return column.loadDictionary(storage)
	case arrow.FixedWidthDataType:
		values, err := l.sized(bitutil.BytesForBits(int64(length) * int64(storage.BitWidth())))
		if err != nil {
			return nil, err
		}
		return column.data(nil, values), nil
	}
	return nil, fmt.Errorf("cannot read Arrow type %s", dt)
}

// columnLoader is a column with a validity bitmap that is being loaded.
type columnLoader struct {
	l        *loader
	field    *fieldShape
	dt       arrow.DataType
	length   int
	nulls    int
	validity []byte
}

func (c *columnLoader) data(children []arrow.ArrayData, buffers ...[]byte) arrow.ArrayData {
	wrapped := make([]*memory.Buffer, 1+len(buffers))
	wrapped[0] = bitmapBuffer(c.validity)
	for i, buffer := range buffers {
		wrapped[i+1] = memory.NewBufferBytes(buffer)
	}
	return array.NewData(c.dt, c.length, wrapped, children, c.nulls, 0)
}

// owning is data for children that it releases.
func (c *columnLoader) owning(children []arrow.ArrayData, buffers ...[]byte) arrow.ArrayData {
	defer arrays.Release(children)
	return c.data(children, buffers...)
}

// valid reports whether a row is not null.
func (c *columnLoader) valid(row int) bool {
	return c.validity == nil || bitutil.BitIsSet(c.validity, row)
}

// loadOffsets returns the next buffer as offsets into that many bytes or values.
func loadOffsets[O offsetInt](l *loader, length int) ([]byte, []O, error) {
	if length == 0 {
		_, err := l.buffer()
		return nil, nil, err
	}
	raw, err := l.sized((int64(length) + 1) * int64(unsafe.Sizeof(O(0))))
	if err != nil {
		return nil, nil, err
	}
	offsets := arrays.Cast[O](raw)[:length+1]
	previous := offsets[0]
	if previous < 0 {
		return nil, nil, errOffsets
	}
	for _, offset := range offsets[1:] {
		if offset < previous {
			return nil, nil, errOffsets
		}
		previous = offset
	}
	return raw, offsets, nil
}

func loadBytes[O offsetInt](c columnLoader, text bool) (arrow.ArrayData, error) {
	raw, offsets, err := loadOffsets[O](c.l, c.length)
	if err != nil {
		return nil, err
	}
	values, err := c.l.buffer()
	if err != nil {
		return nil, err
	}
	if c.length == 0 {
		return c.data(nil, nil, nil), nil
	}
	if int64(offsets[c.length]) > int64(len(values)) {
		return nil, errOffsets
	}
	if text && !validTexts(values, offsets) {
		return nil, errUTF8
	}
	return c.data(nil, raw, values), nil
}

// validTexts reports whether the bytes between each two offsets are valid
// UTF-8: they are valid as a whole and no text begins within a character.
func validTexts[O offsetInt](values []byte, offsets []O) bool {
	last := offsets[len(offsets)-1]
	if !utf8.Valid(values[offsets[0]:last]) {
		return false
	}
	for _, offset := range offsets {
		if offset < last && !utf8.RuneStart(values[offset]) {
			return false
		}
	}
	return true
}

func (c *columnLoader) loadViews(text bool) (arrow.ArrayData, error) {
	raw, err := c.l.sized(int64(c.length) * int64(arrow.ViewHeaderSizeBytes))
	if err != nil {
		return nil, err
	}
	if c.l.variadicLeft == 0 {
		return nil, errBufferCount
	}
	count := c.l.r.int64(c.l.variadic)
	c.l.variadic += 8
	c.l.variadicLeft--
	if count < 0 || count > int64(c.l.buffersLeft) {
		return nil, errBufferCount
	}
	buffers := make([][]byte, 1, 1+count)
	buffers[0] = raw
	for range count {
		block, err := c.l.buffer()
		if err != nil {
			return nil, err
		}
		if block == nil {
			block = []byte{}
		}
		buffers = append(buffers, block)
	}
	headers := arrays.Cast[arrow.ViewHeader](raw)
	for row := range c.length {
		if !c.valid(row) {
			continue
		}
		header := &headers[row]
		var value []byte
		switch size := header.Len(); {
		case size < 0:
			return nil, errViews
		case header.IsInline():
			value = header.InlineBytes()
		default:
			block, offset := int64(header.BufferIndex()), int64(header.BufferOffset())
			if block < 0 || block >= count || offset < 0 || offset+int64(size) > int64(len(buffers[1+block])) {
				return nil, errViews
			}
			value = buffers[1+block][offset : offset+int64(size)]
		}
		if text && !utf8.Valid(value) {
			return nil, errUTF8
		}
	}
	return c.data(nil, buffers...), nil
}

// child loads a child column, which must have at least that many rows.
func (l *loader) child(field *fieldShape, i int, dt arrow.DataType, length int64) (arrow.ArrayData, error) {
	data, err := l.load(&field.children[i], dt)
	if err != nil {
		return nil, err
	}
	if int64(data.Len()) < length {
		data.Release()
		return nil, errChild
	}
	return data, nil
}

func loadList[O offsetInt](c columnLoader, dt arrow.ListLikeType) (arrow.ArrayData, error) {
	raw, offsets, err := loadOffsets[O](c.l, c.length)
	if err != nil {
		return nil, err
	}
	last := int64(0)
	if c.length > 0 {
		last = int64(offsets[c.length])
	}
	child, err := c.l.child(c.field, 0, dt.Elem(), last)
	if err != nil {
		return nil, err
	}
	if dt.ID() == arrow.MAP && (child.NullN() != 0 || child.Children()[0].NullN() != 0) {
		child.Release()
		return nil, errNullKeys
	}
	return c.owning([]arrow.ArrayData{child}, raw), nil
}

func loadListView[O offsetInt](c columnLoader, dt arrow.ListLikeType) (arrow.ArrayData, error) {
	size := int64(c.length) * int64(unsafe.Sizeof(O(0)))
	rawOffsets, err := c.l.sized(size)
	if err != nil {
		return nil, err
	}
	rawSizes, err := c.l.sized(size)
	if err != nil {
		return nil, err
	}
	child, err := c.l.child(c.field, 0, dt.Elem(), 0)
	if err != nil {
		return nil, err
	}
	offsets, sizes := arrays.Cast[O](rawOffsets), arrays.Cast[O](rawSizes)
	for row := range c.length {
		if first, count := int64(offsets[row]), int64(sizes[row]); first < 0 || count < 0 || first > int64(child.Len())-count {
			child.Release()
			return nil, errOffsets
		}
	}
	return c.owning([]arrow.ArrayData{child}, rawOffsets, rawSizes), nil
}

func (c *columnLoader) loadFixedSizeList(dt *arrow.FixedSizeListType) (arrow.ArrayData, error) {
	child, err := c.l.child(c.field, 0, dt.Elem(), int64(c.length)*int64(dt.Len()))
	if err != nil {
		return nil, err
	}
	return c.owning([]arrow.ArrayData{child}), nil
}

// children loads the children of a struct or union.
func (l *loader) children(field *fieldShape, fields []arrow.Field, length int) ([]arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, 0, len(fields))
	for i, child := range fields {
		data, err := l.child(field, i, child.Type, int64(length))
		if err != nil {
			arrays.Release(children)
			return nil, fmt.Errorf("%s: %w", child.Name, err)
		}
		children = append(children, data)
	}
	return children, nil
}

func (c *columnLoader) loadStruct(dt *arrow.StructType) (arrow.ArrayData, error) {
	children, err := c.l.children(c.field, dt.Fields(), c.length)
	if err != nil {
		return nil, err
	}
	return c.owning(children), nil
}

func (l *loader) loadUnion(field *fieldShape, dt arrow.DataType, union arrow.UnionType, length int) (arrow.ArrayData, error) {
	rawCodes, err := l.sized(int64(length))
	if err != nil {
		return nil, err
	}
	dense := union.Mode() == arrow.DenseMode
	var rawOffsets []byte
	rows := length // of each child
	if dense {
		if rawOffsets, err = l.sized(int64(length) * 4); err != nil {
			return nil, err
		}
		rows = 0
	}
	children, err := l.children(field, union.Fields(), rows)
	if err != nil {
		return nil, err
	}
	defer arrays.Release(children)
	ids := union.ChildIDs()
	codes, offsets := arrays.Cast[arrow.UnionTypeCode](rawCodes), arrays.Cast[int32](rawOffsets)
	for row := range length {
		code := codes[row]
		if code < 0 || int(code) >= len(ids) || ids[code] == arrow.InvalidUnionChildID {
			return nil, errUnion
		}
		if dense && (offsets[row] < 0 || int(offsets[row]) >= children[ids[code]].Len()) {
			return nil, errUnion
		}
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(rawCodes)}
	if dense {
		buffers = append(buffers, memory.NewBufferBytes(rawOffsets))
	}
	return array.NewData(dt, length, buffers, children, 0, 0), nil
}

func (l *loader) loadRunEndEncoded(field *fieldShape, dt arrow.DataType, encoded *arrow.RunEndEncodedType, length int) (arrow.ArrayData, error) {
	runEnds, err := l.child(field, 0, encoded.RunEnds(), 0)
	if err != nil {
		return nil, err
	}
	defer runEnds.Release()
	values, err := l.child(field, 1, encoded.Encoded(), int64(runEnds.Len()))
	if err != nil {
		return nil, err
	}
	defer values.Release()
	if runEnds.NullN() != 0 || !encoded.ValidRunEndsType(runEnds.DataType()) {
		return nil, errRunEnds
	}
	previous := int64(0)
	for _, end := range arrays.RunEnds(runEnds) {
		if end <= previous {
			return nil, errRunEnds
		}
		previous = end
	}
	if previous < int64(length) {
		return nil, errRunEnds
	}
	return array.NewData(dt, length, []*memory.Buffer{nil}, []arrow.ArrayData{runEnds, values}, 0, 0), nil
}

func (c *columnLoader) loadDictionary(dt *arrow.DictionaryType) (arrow.ArrayData, error) {
	width := dt.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
	raw, err := c.l.sized(int64(c.length) * int64(width))
	if err != nil {
		return nil, err
	}
	dictionary := c.l.dictionaries[c.field.dictionary]
	if dictionary == nil {
		if c.length > c.nulls {
			return nil, errDictionary
		}
		dictionary = arrays.EmptyData(dt.ValueType)
		defer dictionary.Release()
	}
	inside := false
	switch dt.IndexType.ID() {
	case arrow.INT8:
		inside = indexesInside[int8](c, raw, dictionary.Len())
	case arrow.UINT8:
		inside = indexesInside[uint8](c, raw, dictionary.Len())
	case arrow.INT16:
		inside = indexesInside[int16](c, raw, dictionary.Len())
	case arrow.UINT16:
		inside = indexesInside[uint16](c, raw, dictionary.Len())
	case arrow.INT32:
		inside = indexesInside[int32](c, raw, dictionary.Len())
	case arrow.UINT32:
		inside = indexesInside[uint32](c, raw, dictionary.Len())
	case arrow.INT64:
		inside = indexesInside[int64](c, raw, dictionary.Len())
	case arrow.UINT64:
		inside = indexesInside[uint64](c, raw, dictionary.Len())
	}
	if !inside {
		return nil, errIndex
	}
	buffers := []*memory.Buffer{bitmapBuffer(c.validity), memory.NewBufferBytes(raw)}
	return array.NewDataWithDictionary(c.dt, c.length, buffers, c.nulls, 0, dictionary.(*array.Data)), nil
}

// indexesInside reports whether the valid indexes are those of a dictionary of
// that size.
func indexesInside[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](c *columnLoader, raw []byte, size int) bool {
	indexes := arrays.Cast[T](raw)
	for row := range c.length {
		// A negative index becomes a large one.
		if uint64(indexes[row]) >= uint64(size) && c.valid(row) {
			return false
		}
	}
	return true
}

// offsetInt is the type of the offsets of variable-size values.
type offsetInt interface{ int32 | int64 }
