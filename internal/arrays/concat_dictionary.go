// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// joinDictionaries joins dictionary arrays. Parts of one dictionary keep it;
// else the result's dictionary holds the values of all parts, each once.
func (c *concatenator) joinDictionaries(storage *arrow.DictionaryType) (arrow.ArrayData, error) {
	c.joinValidity()
	width := storage.IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
	c.joinFixed(width)
	var dictionaries []part
	of := make([]int, len(c.parts)) // the dictionary of each part
	for i, p := range c.parts {
		dictionary := p.data.Dictionary()
		if i == 0 || !sameDictionary(dictionary, dictionaries[of[i-1]].data) {
			dictionaries = append(dictionaries, part{dictionary, dictionary.Offset(), dictionary.Len()})
		}
		of[i] = len(dictionaries) - 1
	}
	if len(dictionaries) == 1 {
		return c.dictionaryResult(dictionaries[0].data), nil
	}
	unified, moved, err := unifyDictionaries(c.mem, dictionaries)
	if err != nil {
		return nil, err
	}
	defer unified.Release()
	if limit := maxDictionary(storage.IndexType); int64(unified.Len()) > limit {
		return nil, errTooLarge(c.data, limit)
	}
	var validity []byte
	if c.buffers[0] != nil {
		validity = c.buffers[0].Bytes()
	}
	at := 0
	for i, p := range c.parts {
		moveIndexes(c.buffers[1].Bytes(), width, validity, at, p.length, moved[of[i]])
		at += p.length
	}
	return c.dictionaryResult(unified), nil
}

func (c *concatenator) dictionaryResult(dictionary arrow.ArrayData) arrow.ArrayData {
	return array.NewDataWithDictionary(c.data.DataType(), c.sel.count, c.takeBuffers(), c.nullCount, 0, dictionary.(*array.Data))
}

func sameDictionary(a, b arrow.ArrayData) bool {
	if a == b {
		return true
	}
	if a.Len() != b.Len() {
		return false
	}
	left, right := array.MakeFromData(a), array.MakeFromData(b)
	defer left.Release()
	defer right.Release()
	return array.Equal(left, right)
}

// unifyDictionaries joins dictionaries and drops values that are there already.
// It also returns, for each dictionary, where its values went.
func unifyDictionaries(mem memory.Allocator, dictionaries []part) (arrow.ArrayData, [][]int32, error) {
	all, err := concatParts(mem, dictionaries)
	if err != nil {
		return nil, nil, err
	}
	defer all.Release()
	if all.Len() > math.MaxInt32 {
		return nil, nil, errTooLarge(all, math.MaxInt32)
	}
	seen := make(map[string]int32)
	keep := make([]int32, 0, all.Len())
	moved := make([][]int32, len(dictionaries))
	row := 0
	for i, dictionary := range dictionaries {
		moved[i] = make([]int32, dictionary.length)
		for j := range moved[i] {
			value, ok := dictionaryValue(all, row)
			at, known := seen[string(value)]
			if !ok || !known {
				at = int32(len(keep))
				keep = append(keep, int32(row))
				if ok {
					seen[string(value)] = at
				}
			}
			moved[i][j] = at
			row++
		}
	}
	if len(keep) == all.Len() {
		all.Retain()
		return all, moved, nil
	}
	sel, err := NewSelection(keep, all.Len())
	if err != nil {
		return nil, nil, err
	}
	unified, err := sel.Take(mem, all, 0)
	return unified, moved, err
}

// dictionaryValue returns bytes that are equal for equal values of data, which
// has no offset. Nulls, nested values and other encodings are not comparable.
func dictionaryValue(data arrow.ArrayData, row int) (value []byte, ok bool) {
	buffers := data.Buffers()
	if data.NullN() != 0 && buffers[0] != nil && bitIsClear(buffers[0].Bytes(), row) {
		return nil, false
	}
	switch storage := StorageType(data.DataType()).(type) {
	case *arrow.BooleanType:
		return []byte{buffers[1].Bytes()[row>>3] >> (row & 7) & 1}, true
	case *arrow.StringType, *arrow.BinaryType:
		offsets := offsetsOf[int32](data, row)
		return buffers[2].Bytes()[offsets[0]:offsets[1]], true
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		offsets := offsetsOf[int64](data, row)
		return buffers[2].Bytes()[offsets[0]:offsets[1]], true
	case arrow.BinaryViewDataType:
		header := &Cast[arrow.ViewHeader](buffers[1].Bytes())[row]
		if header.IsInline() {
			return header.InlineBytes(), true
		}
		return buffers[2+header.BufferIndex()].Bytes()[header.BufferOffset():][:header.Len()], true
	case *arrow.DictionaryType:
		return nil, false
	case arrow.FixedWidthDataType:
		width := storage.BitWidth() / 8
		return buffers[1].Bytes()[row*width:][:width], true
	}
	return nil, false
}

// maxDictionary returns how many values a dictionary with indexes of that type
// can have.
func maxDictionary(index arrow.DataType) int64 {
	switch index.ID() {
	case arrow.INT8:
		return 1 << 7
	case arrow.UINT8:
		return 1 << 8
	case arrow.INT16:
		return 1 << 15
	case arrow.UINT16:
		return 1 << 16
	}
	return math.MaxInt32
}

// moveIndexes replaces the valid indexes of length rows from row at on by what
// moved holds for them.
func moveIndexes(raw []byte, width int, validity []byte, at, length int, moved []int32) {
	for i := at; i < at+length; i++ {
		if bitIsClear(validity, i) {
			continue
		}
		switch width {
		case 1:
			raw[i] = uint8(moved[raw[i]])
		case 2:
			index := &Cast[uint16](raw)[i]
			*index = uint16(moved[*index])
		case 4:
			index := &Cast[uint32](raw)[i]
			*index = uint32(moved[*index])
		default:
			index := &Cast[uint64](raw)[i]
			*index = uint64(moved[*index])
		}
	}
}

// PruneDictionary returns length rows of a dictionary column, from the physical
// row base on, with a dictionary of the values that these rows have. It returns
// nil if the dictionary has no more values than there are rows. The caller owns
// the result.
func PruneDictionary(mem memory.Allocator, column arrow.ArrayData, base, length int) (arrow.ArrayData, error) {
	dictionary := column.Dictionary()
	if dictionary.Len() <= length {
		return nil, nil
	}
	var rows Selection
	rows.Extend(0, length)
	copied, err := rows.Take(mem, column, base)
	if err != nil {
		return nil, err
	}
	defer copied.Release()
	width := StorageType(copied.DataType()).(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType).BitWidth() / 8
	raw := copied.Buffers()[1].Bytes()
	var validity []byte
	if copied.Buffers()[0] != nil {
		validity = copied.Buffers()[0].Bytes()
	}
	moved := make([]int32, dictionary.Len())
	for i := range moved {
		moved[i] = -1
	}
	var keep []int32
	for row := range copied.Len() {
		if bitIsClear(validity, row) {
			continue
		}
		index := int(indexAt(raw, width, row))
		if moved[index] < 0 {
			moved[index] = int32(len(keep))
			keep = append(keep, int32(index))
		}
	}
	moveIndexes(raw, width, validity, 0, copied.Len(), moved)
	sel, err := NewSelection(keep, dictionary.Len())
	if err != nil {
		return nil, err
	}
	pruned, err := sel.Take(mem, dictionary, dictionary.Offset())
	if err != nil {
		return nil, err
	}
	defer pruned.Release()
	return array.NewDataWithDictionary(copied.DataType(), copied.Len(), slices.Clone(copied.Buffers()), copied.NullN(), 0, pruned.(*array.Data)), nil
}

func indexAt(raw []byte, width, row int) uint64 {
	switch width {
	case 1:
		return uint64(raw[row])
	case 2:
		return uint64(Cast[uint16](raw)[row])
	case 4:
		return uint64(Cast[uint32](raw)[row])
	}
	return Cast[uint64](raw)[row]
}
