// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Bytes reads a column of text, bytes or encoded values row by row,
// without copying. Null rows have no defined value.
type Bytes struct {
	Data    []byte
	short   []int32 // offsets into data, 32 bits wide
	Offsets []int64 // offsets into data, 64 bits wide
	Width   int     // of values of one width
	Func    func(row int) []byte
}

// At returns the value of a row, which aliases the column.
func (v *Bytes) At(row int) []byte {
	switch {
	case v.short != nil:
		return v.Data[v.short[row]:v.short[row+1]]
	case v.Offsets != nil:
		return v.Data[v.Offsets[row]:v.Offsets[row+1]]
	case v.Func != nil:
		return v.Func(row)
	default:
		return v.Data[row*v.Width : (row+1)*v.Width]
	}
}

// ReadBytes reads a plain column of TextKind or BytesKind.
func ReadBytes(arr arrow.Array) (Bytes, error) {
	data := arr.Data()
	switch dt := arr.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return Bytes{short: offsetsOf[int32](data, data.Offset()), Data: bytesOf(data, 2)}, nil
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return Bytes{Offsets: offsetsOf[int64](data, data.Offset()), Data: bytesOf(data, 2)}, nil
	case *arrow.FixedSizeBinaryType:
		values := bytesOf(data, 1)
		return Bytes{Width: dt.ByteWidth, Data: values[min(len(values), data.Offset()*dt.ByteWidth):]}, nil
	case *arrow.StringViewType:
		view := arr.(*array.StringView)
		return Bytes{Func: func(row int) []byte { return viewBytes(view.Value(row)) }}, nil
	case *arrow.BinaryViewType:
		return Bytes{Func: arr.(*array.BinaryView).Value}, nil
	case *arrow.NullType:
		return Bytes{}, nil
	default:
		return Bytes{}, fmt.Errorf("a column of Arrow type %s holds neither text nor bytes", dt)
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

// IsASCII reports whether all bytes are ASCII.
func IsASCII(v []byte) bool {
	var all uint64
	for ; len(v) >= 8; v = v[8:] {
		all |= binary.NativeEndian.Uint64(v)
	}
	for _, c := range v {
		all |= uint64(c)
	}
	return all&0x8080808080808080 == 0
}
