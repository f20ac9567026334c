// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Plain returns arr without extension type and dictionary. The caller owns
// it.
func Plain(mem memory.Allocator, arr arrow.Array) (arrow.Array, error) {
	switch arr := arr.(type) {
	case array.ExtensionArray:
		return Plain(mem, arr.Storage())
	case *array.Dictionary:
		rows := make([]int32, arr.Len())
		for i := range rows {
			rows[i] = -1
			if arr.IsValid(i) {
				rows[i] = int32(arr.GetValueIndex(i))
			}
		}
		values, err := Gather(mem, arr.Dictionary(), rows)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return Plain(mem, values)
	default:
		arr.Retain()
		return arr, nil
	}
}

// Dress is the inverse of Plain: it gives plain values the type dt.
// It takes over plain, and the caller owns the result.
func Dress(mem memory.Allocator, plain arrow.Array, dt arrow.DataType) (arrow.Array, error) {
	defer plain.Release()
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		plain.Retain()
		storage, err := Dress(mem, plain, dt.StorageType())
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(dt, storage), nil
	case *arrow.DictionaryType:
		return dictionaryOf(mem, plain, dt)
	default:
		plain.Retain()
		return plain, nil
	}
}

// PlainType returns dt without extension type and dictionary.
func PlainType(dt arrow.DataType) arrow.DataType {
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return PlainType(dt.StorageType())
	case *arrow.DictionaryType:
		return PlainType(dt.ValueType)
	default:
		return dt
	}
}

// dictionaryOf returns values, which have no dictionary, as an array with one
// that holds each of them once. The caller owns it.
func dictionaryOf(mem memory.Allocator, values arrow.Array, dt *arrow.DictionaryType) (arrow.Array, error) {
	valid, err := Gather(mem, values, ValidityOf(values).Valid(values.Len()))
	if err != nil {
		return nil, err
	}
	defer valid.Release()
	unified, moved, err := unifyDictionaries(mem, []part{{valid.Data(), valid.Data().Offset(), valid.Len()}})
	if err != nil {
		return nil, err
	}
	defer unified.Release()
	if int64(unified.Len()) > maxDictionary(dt.IndexType) {
		return nil, fmt.Errorf("%d distinct values do not fit %s", unified.Len(), dt)
	}
	indexes := Words{Kind: IntKind, Values: make([]int64, values.Len())}
	at := 0
	for row := range indexes.Values {
		if values.IsNull(row) {
			indexes.SetNull(row)
			continue
		}
		indexes.Values[row] = int64(moved[0][at])
		at++
	}
	built, err := indexes.buildPlain(mem, dt.IndexType)
	if err != nil {
		return nil, err
	}
	defer built.Release()
	dictionary, err := Dress(mem, array.MakeFromData(unified), dt.ValueType)
	if err != nil {
		return nil, err
	}
	defer dictionary.Release()
	return array.NewDictionaryArray(dt, built, dictionary), nil
}

// Build returns the column as an array of type dt. A value that dt does not
// hold is an error. The caller owns the array.
func (c *Words) Build(mem memory.Allocator, dt arrow.DataType) (arrow.Array, error) {
	plain, err := c.buildPlain(mem, PlainType(dt))
	if err != nil {
		return nil, err
	}
	return Dress(mem, plain, dt)
}

// BuildBytes returns an array of text or bytes of type dt, which is dressed as
// dt says. A nil value is null. The caller owns the array.
func BuildBytes(mem memory.Allocator, dt arrow.DataType, length int, value func(row int) []byte) (arrow.Array, error) {
	plain, err := plainByteArray(mem, PlainType(dt), length, value)
	if err != nil {
		return nil, err
	}
	return Dress(mem, plain, dt)
}

// Build is appendedArray for any type, dressed ones among them.
func Build(mem memory.Allocator, dt arrow.DataType, length int, value func(row int) any) (arrow.Array, error) {
	plain, err := appendedArray(mem, PlainType(dt), length, value)
	if err != nil {
		return nil, err
	}
	return Dress(mem, plain, dt)
}
