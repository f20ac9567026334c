// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Nulls returns an array of nulls. The caller owns it.
func Nulls(mem memory.Allocator, dt arrow.DataType, length int) (arrow.Array, error) {
	empty := EmptyData(dt)
	defer empty.Release()
	var rows Selection
	rows.Extend(-1, length)
	data, err := rows.Take(mem, empty, 0)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// EmptyData returns an array of that type without rows.
func EmptyData(dt arrow.DataType) arrow.ArrayData {
	buffers := 2
	var children []arrow.ArrayData
	switch storage := StorageType(dt).(type) {
	case *arrow.NullType, *arrow.RunEndEncodedType, *arrow.StructType, *arrow.FixedSizeListType:
		buffers = 1
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType,
		*arrow.ListViewType, *arrow.LargeListViewType, *arrow.DenseUnionType:
		buffers = 3
	case *arrow.DictionaryType:
		dictionary := EmptyData(storage.ValueType)
		defer dictionary.Release()
		return array.NewDataWithDictionary(dt, 0, emptyBuffers(2), 0, 0, dictionary.(*array.Data))
	}
	if nested, ok := StorageType(dt).(arrow.NestedType); ok {
		for _, field := range nested.Fields() {
			children = append(children, EmptyData(field.Type))
		}
		defer Release(children)
	}
	return array.NewData(dt, 0, emptyBuffers(buffers), children, 0, 0)
}

// emptyBuffers returns buffers of no bytes; the first, for validity, is nil.
func emptyBuffers(count int) []*memory.Buffer {
	buffers := make([]*memory.Buffer, count)
	for i := range buffers[1:] {
		buffers[i+1] = memory.NewBufferBytes(nil)
	}
	return buffers
}
