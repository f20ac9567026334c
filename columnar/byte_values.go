// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// byteValues reads a column of text, bytes or encoded values row by row,
// without copying. Null rows have no defined value.
type byteValues struct {
	data    []byte
	short   []int32 // offsets into data, 32 bits wide
	long    []int64 // offsets into data, 64 bits wide
	width   int     // of values of one width
	generic func(row int) []byte
}

func (v *byteValues) at(row int) []byte {
	switch {
	case v.short != nil:
		return v.data[v.short[row]:v.short[row+1]]
	case v.long != nil:
		return v.data[v.long[row]:v.long[row+1]]
	case v.generic != nil:
		return v.generic(row)
	default:
		return v.data[row*v.width : (row+1)*v.width]
	}
}

// byteValuesOf reads a plain column of textKind or bytesKind.
func byteValuesOf(arr arrow.Array) (byteValues, error) {
	data := arr.Data()
	switch dt := arr.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return byteValues{short: offsetsOf[int32](data, data.Offset()), data: bytesOf(data, 2)}, nil
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return byteValues{long: offsetsOf[int64](data, data.Offset()), data: bytesOf(data, 2)}, nil
	case *arrow.FixedSizeBinaryType:
		values := bytesOf(data, 1)
		return byteValues{width: dt.ByteWidth, data: values[min(len(values), data.Offset()*dt.ByteWidth):]}, nil
	case *arrow.StringViewType:
		view := arr.(*array.StringView)
		return byteValues{generic: func(row int) []byte { return viewBytes(view.Value(row)) }}, nil
	case *arrow.BinaryViewType:
		return byteValues{generic: arr.(*array.BinaryView).Value}, nil
	case *arrow.NullType:
		return byteValues{}, nil
	default:
		return byteValues{}, fmt.Errorf("a column of Arrow type %s holds neither text nor bytes", dt)
	}
}

// viewBytes returns the bytes of text, which must not be changed.
func viewBytes(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text))
}

func bytesOf(data arrow.ArrayData, buffer int) []byte {
	if data.Buffers()[buffer] == nil {
		return nil
	}
	return data.Buffers()[buffer].Bytes()
}

// encodedValues is scratch for values that are compared in encoded form.
type encodedValues struct {
	data    []byte
	offsets []int64
}

// read encodes a plain column of decimalKind or nestedKind. The result is
// valid until the next call.
func (e *encodedValues) read(arr arrow.Array) (byteValues, error) {
	e.data, e.offsets = e.data[:0], append(e.offsets[:0], 0)
	for row := range arr.Len() {
		if arr.IsValid(row) {
			var err error
			if e.data, err = appendKeyValue(e.data, Value(arr, row)); err != nil {
				return byteValues{}, err
			}
		}
		e.offsets = append(e.offsets, int64(len(e.data)))
	}
	return byteValues{data: e.data, long: e.offsets}, nil
}
