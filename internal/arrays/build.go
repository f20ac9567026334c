// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Words is a column of a word kind that is to become an array: integers
// and booleans as they are, floats as the bits of a float64.
type Words struct {
	Kind   Kind
	Values []int64
	Nulls  []bool // nil without nulls
}

func (c *Words) buildPlain(mem memory.Allocator, dt arrow.DataType) (arrow.Array, error) {
	id := dt.ID()
	switch {
	case c.Kind == IntKind && KindOf(dt) == IntKind:
		switch dt.(arrow.FixedWidthDataType).BitWidth() {
		case 64:
			return c.CopyWords(mem, dt), nil
		case 32:
			if id == arrow.UINT32 {
				return narrowArray[uint32](mem, dt, c)
			}
			return narrowArray[int32](mem, dt, c)
		case 16:
			if id == arrow.UINT16 {
				return narrowArray[uint16](mem, dt, c)
			}
			return narrowArray[int16](mem, dt, c)
		default:
			if id == arrow.UINT8 {
				return narrowArray[uint8](mem, dt, c)
			}
			return narrowArray[int8](mem, dt, c)
		}
	case c.Kind == UintKind && id == arrow.UINT64, c.isFloat() && id == arrow.FLOAT64:
		return c.CopyWords(mem, dt), nil
	case c.Kind == BoolKind && id == arrow.BOOL:
		return c.bits(mem), nil
	case c.isFloat() && id == arrow.FLOAT32:
		return c.shortFloats(mem, dt)
	}
	return appendedArray(mem, dt, len(c.Values), func(row int) any {
		if c.isNull(row) {
			return nil
		}
		return c.value(row)
	})
}

func (c *Words) isFloat() bool { return c.Kind == Float32Kind || c.Kind == Float64Kind }

func (c *Words) isNull(row int) bool { return c.Nulls != nil && c.Nulls[row] }

// SetNull makes a row null.
func (c *Words) SetNull(row int) {
	if c.Nulls == nil {
		c.Nulls = make([]bool, len(c.Values))
	}
	c.Nulls[row], c.Values[row] = true, 0
}

// value returns a row that is not null as a Go value.
func (c *Words) value(row int) any {
	word := c.Values[row]
	switch c.Kind {
	case UintKind:
		return uint64(word)
	case BoolKind:
		return word != 0
	case Float32Kind:
		return float32(math.Float64frombits(uint64(word)))
	case Float64Kind:
		return math.Float64frombits(uint64(word))
	default:
		return word
	}
}

// CopyWords returns the column as an array of a plain type 64 bits wide, whose
// values are those of c. The caller owns the array.
func (c *Words) CopyWords(mem memory.Allocator, dt arrow.DataType) arrow.Array {
	values := NewBuffer(mem, len(c.Values)*8)
	defer values.Release()
	copy(Cast[int64](values.Bytes()), c.Values)
	return c.finish(mem, dt, values)
}

// narrowArray returns the integers of c in a narrower type.
func narrowArray[T int8 | int16 | int32 | uint8 | uint16 | uint32](mem memory.Allocator, dt arrow.DataType, c *Words) (arrow.Array, error) {
	values := NewBuffer(mem, len(c.Values)*int(unsafe.Sizeof(T(0))))
	defer values.Release()
	target := Cast[T](values.Bytes())[:len(c.Values)]
	for row, word := range c.Values {
		if target[row] = T(word); int64(target[row]) != word && !c.isNull(row) {
			return nil, fmt.Errorf("integer overflow: %d does not fit %s", word, dt)
		}
	}
	return c.finish(mem, dt, values), nil
}

func (c *Words) shortFloats(mem memory.Allocator, dt arrow.DataType) (arrow.Array, error) {
	values := NewBuffer(mem, len(c.Values)*4)
	defer values.Release()
	target := Cast[float32](values.Bytes())[:len(c.Values)]
	for row, word := range c.Values {
		f := math.Float64frombits(uint64(word))
		if target[row] = float32(f); math.IsInf(float64(target[row]), 0) && !math.IsInf(f, 0) && !c.isNull(row) {
			return nil, fmt.Errorf("float overflow: %v does not fit %s", f, dt)
		}
	}
	return c.finish(mem, dt, values), nil
}

func (c *Words) bits(mem memory.Allocator) arrow.Array {
	values := packBits(mem, len(c.Values), func(row int) bool { return c.Values[row] != 0 })
	defer values.Release()
	return c.finish(mem, arrow.FixedWidthTypes.Boolean, values)
}

func (c *Words) finish(mem memory.Allocator, dt arrow.DataType, values *memory.Buffer) arrow.Array {
	return Finish(mem, dt, len(c.Values), c.Nulls, values)
}

// Finish returns a plain array of the buffers behind the validity bitmap.
func Finish(mem memory.Allocator, dt arrow.DataType, length int, nulls []bool, buffers ...*memory.Buffer) arrow.Array {
	valid, nullCount := validityBuffer(mem, nulls)
	if valid != nil {
		defer valid.Release()
	}
	data := array.NewData(dt, length, append([]*memory.Buffer{valid}, buffers...), nil, nullCount, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// validityBuffer returns the validity bitmap for nulls, or nil if none is true.
func validityBuffer(mem memory.Allocator, nulls []bool) (*memory.Buffer, int) {
	count := 0
	for _, null := range nulls {
		if null {
			count++
		}
	}
	if count == 0 {
		return nil, 0
	}
	return packBits(mem, len(nulls), func(row int) bool { return !nulls[row] }), count
}

func packBits(mem memory.Allocator, length int, isSet func(row int) bool) *memory.Buffer {
	buffer := NewBuffer(mem, (length+7)/8)
	bits := buffer.Bytes()
	clear(bits)
	for row := range length {
		if isSet(row) {
			bits[row>>3] |= 1 << (row & 7)
		}
	}
	return buffer
}

func plainByteArray(mem memory.Allocator, dt arrow.DataType, length int, value func(row int) []byte) (arrow.Array, error) {
	switch dt.ID() {
	case arrow.STRING, arrow.BINARY:
		return offsetArray[int32](mem, dt, length, value)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return offsetArray[int64](mem, dt, length, value)
	}
	isText := KindOf(dt) == TextKind
	return appendedArray(mem, dt, length, func(row int) any {
		bytes := value(row)
		switch {
		case bytes == nil:
			return nil
		case isText:
			return string(bytes)
		default:
			return bytes
		}
	})
}

func offsetArray[O offsetInt](mem memory.Allocator, dt arrow.DataType, length int, value func(row int) []byte) (arrow.Array, error) {
	size, nulls := 0, []bool(nil)
	for row := range length {
		bytes := value(row)
		size += len(bytes)
		if bytes == nil {
			if nulls == nil {
				nulls = make([]bool, length)
			}
			nulls[row] = true
		}
	}
	if int(O(size)) != size || size < 0 {
		return nil, fmt.Errorf("%d bytes do not fit one column of type %s", size, dt)
	}
	offsets := NewBuffer(mem, (length+1)*int(unsafe.Sizeof(O(0))))
	defer offsets.Release()
	data := NewBuffer(mem, size)
	defer data.Release()
	ends, target, at := Cast[O](offsets.Bytes()), data.Bytes(), 0
	ends[0] = 0
	for row := range length {
		at += copy(target[at:], value(row))
		ends[row+1] = O(at)
	}
	return Finish(mem, dt, length, nulls, offsets, data), nil
}

// appendedArray returns an array that is built value by value, for types that
// have no faster way. The caller owns it.
func appendedArray(mem memory.Allocator, dt arrow.DataType, length int, value func(row int) any) (arrow.Array, error) {
	if err := CheckBuilder(dt); err != nil {
		return nil, err
	}
	builder := array.NewBuilder(mem, dt)
	defer builder.Release()
	builder.Reserve(length)
	for row := range length {
		if err := AppendValue(builder, value(row)); err != nil {
			return nil, err
		}
	}
	return builder.NewArray(), nil
}

// CheckBuilder fails for types that Arrow has no builder for, and panics where
// it is asked for one: dictionaries of some values, also within other types.
func CheckBuilder(dt arrow.DataType) error {
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return CheckBuilder(dt.StorageType())
	case *arrow.DictionaryType:
		switch dt.ValueType.(type) {
		case *arrow.BooleanType, *arrow.LargeStringType, *arrow.LargeBinaryType, arrow.BinaryViewDataType,
			arrow.NestedType, arrow.ExtensionType, *arrow.DictionaryType:
			return fmt.Errorf("cannot write Arrow type %s", dt)
		}
	case arrow.NestedType:
		for _, field := range dt.Fields() {
			if err := CheckBuilder(field.Type); err != nil {
				return err
			}
		}
	}
	return nil
}
