// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// source reads an Arrow array without copying. Rows count from the start of the
// array.
type source struct {
	valid  []byte // nil where no row is null
	offset int    // of the first row, in bits of valid and flags

	id     arrow.Type
	raw    []byte  // values of a fixed width, from the first row on
	flags  []byte  // of Booleans
	data   []byte  // of texts
	ascii  bool    // all texts are, so that they are valid UTF-8
	short  []int32 // offsets of texts and lists
	long   []int64
	unit   arrow.TimeUnit // of timestamps
	values arrow.Array    // elements of a list; entries of a map
}

func newSource(arr arrow.Array) source {
	data := arr.Data()
	s := source{id: arr.DataType().ID(), offset: data.Offset()}
	if data.NullN() != 0 && len(data.Buffers()) > 0 && data.Buffers()[0] != nil {
		s.valid = data.Buffers()[0].Bytes()
	}
	switch dt := arr.DataType().(type) {
	case *arrow.BooleanType:
		s.flags = bufferOf(data, 1)
	case *arrow.StringType, *arrow.BinaryType:
		s.short, s.data = offsetsOf[int32](data), bufferOf(data, 2)
		s.ascii = arrays.IsASCII(s.data[s.short[0]:s.short[data.Len()]])
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		s.long, s.data = offsetsOf[int64](data), bufferOf(data, 2)
	case *arrow.ListType, *arrow.MapType:
		s.short, s.values = offsetsOf[int32](data), arr.(array.ListLike).ListValues()
	case *arrow.LargeListType:
		s.long, s.values = offsetsOf[int64](data), arr.(array.ListLike).ListValues()
	case *arrow.TimestampType:
		s.unit = dt.Unit
		s.raw = fixedOf(data, 8)
	case arrow.FixedWidthDataType:
		s.raw = fixedOf(data, dt.BitWidth()/8)
	}
	return s
}

func bufferOf(data arrow.ArrayData, i int) []byte {
	if data.Buffers()[i] == nil {
		return nil
	}
	return data.Buffers()[i].Bytes()
}

func fixedOf(data arrow.ArrayData, width int) []byte {
	if data.Len() == 0 {
		return nil
	}
	return bufferOf(data, 1)[data.Offset()*width:]
}

func offsetsOf[T int32 | int64](data arrow.ArrayData) []T {
	raw := bufferOf(data, 1)
	if data.Len() == 0 || len(raw) == 0 {
		return []T{0}
	}
	all := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/int(unsafe.Sizeof(T(0))))
	return all[data.Offset():]
}

func (s *source) isValid(row int) bool {
	at := s.offset + row
	return s.valid == nil || s.valid[at>>3]&(1<<(at&7)) != 0
}

// text returns the bytes of a row, which are part of the array.
func (s *source) text(row int) []byte {
	if s.short != nil {
		return s.data[s.short[row]:s.short[row+1]]
	}
	return s.data[s.long[row]:s.long[row+1]]
}

// extent returns the elements of a row.
func (s *source) extent(row int) (from, to int) {
	if s.short != nil {
		return int(s.short[row]), int(s.short[row+1])
	}
	return int(s.long[row]), int(s.long[row+1])
}

func (s *source) flag(row int) bool {
	at := s.offset + row
	return s.flags[at>>3]&(1<<(at&7)) != 0
}

func load[T any](s *source, row int) T {
	var zero T
	_ = s.raw[row*int(unsafe.Sizeof(zero))+int(unsafe.Sizeof(zero))-1]
	return *(*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.raw)), row*int(unsafe.Sizeof(zero))))
}

// integer returns a number of a row; large says that it is an unsigned one above
// the signed range, in the bits of value.
func (s *source) integer(row int) (value int64, large bool) {
	switch s.id {
	case arrow.INT64, arrow.TIMESTAMP:
		return load[int64](s, row), false
	case arrow.INT32:
		return int64(load[int32](s, row)), false
	case arrow.INT16:
		return int64(load[int16](s, row)), false
	case arrow.INT8:
		return int64(load[int8](s, row)), false
	case arrow.UINT8:
		return int64(load[uint8](s, row)), false
	case arrow.UINT16:
		return int64(load[uint16](s, row)), false
	case arrow.UINT32:
		return int64(load[uint32](s, row)), false
	default:
		bits := load[uint64](s, row)
		return int64(bits), bits > math.MaxInt64
	}
}

// float returns a floating-point number of a row.
func (s *source) float(row int) float64 {
	if s.id == arrow.FLOAT32 {
		return float64(load[float32](s, row))
	}
	return load[float64](s, row)
}
