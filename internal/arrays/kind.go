// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Kind is how operators hold the values of a column. Columns of one kind
// can be compared with each other whatever their width.
type Kind uint8

const (
	AnyKind     Kind = iota // of a column with nothing but nulls
	IntKind                 // integers of up to 64 bits but Uint64; dates, times, durations
	UintKind                // Uint64
	BoolKind                // Boolean
	Float32Kind             // Float32
	Float64Kind             // Float64
	TextKind                // all string types
	BytesKind               // all binary types
	DecimalKind             // all decimal types
	NestedKind              // all other types, which operators hold in encoded form
)

func (k Kind) String() string {
	return [...]string{"null", "integer", "unsigned 64-bit integer", "boolean", "32-bit float", "64-bit float",
		"text", "binary", "decimal", "nested"}[k]
}

// IsWord reports whether values of the kind are held in 64 bits.
func (k Kind) IsWord() bool { return k >= IntKind && k <= Float64Kind }

// KindOf returns how values of an Arrow type are held.
func KindOf(dt arrow.DataType) Kind {
	switch dt.ID() {
	case arrow.NULL:
		return AnyKind
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return IntKind
	case arrow.UINT64:
		return UintKind
	case arrow.BOOL:
		return BoolKind
	case arrow.FLOAT32:
		return Float32Kind
	case arrow.FLOAT64:
		return Float64Kind
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return TextKind
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return BytesKind
	case arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256:
		return DecimalKind
	case arrow.DICTIONARY:
		return KindOf(dt.(*arrow.DictionaryType).ValueType)
	case arrow.EXTENSION:
		return KindOf(dt.(arrow.ExtensionType).StorageType())
	default:
		return NestedKind
	}
}

// FixedValues returns the values of a plain array of fixed width, without
// copying them.
func FixedValues[T any](arr arrow.Array) []T {
	data := arr.Data()
	buffer := data.Buffers()[1]
	if buffer == nil || data.Len() == 0 {
		return nil
	}
	return Cast[T](buffer.Bytes())[data.Offset() : data.Offset()+data.Len()]
}

// Validity is the null bitmap of an array; the zero value is that of an array
// without nulls.
type Validity struct {
	bits   []byte
	offset int
}

// ValidityOf returns the null bitmap of an array, which keeps it.
func ValidityOf(arr arrow.Array) Validity {
	if arr.NullN() == 0 {
		return Validity{}
	}
	if arr.DataType().ID() == arrow.NULL {
		return Validity{bits: make([]byte, bitutil.BytesForBits(int64(arr.Len())))}
	}
	return Validity{bits: arr.NullBitmapBytes(), offset: arr.Data().Offset()}
}

// HasNulls reports whether some row may be null.
func (v Validity) HasNulls() bool { return v.bits != nil }

// IsNull reports whether a row is null.
func (v Validity) IsNull(row int) bool {
	return v.bits != nil && !bitutil.BitIsSet(v.bits, v.offset+row)
}

// Valid returns the rows, of that many, that are not null.
func (v Validity) Valid(rows int) []int32 {
	valid := make([]int32, 0, rows)
	for row := range rows {
		if !v.IsNull(row) {
			valid = append(valid, int32(row))
		}
	}
	return valid
}

// canonicalNaN stands for every NaN.
var canonicalNaN = int64(math.Float64bits(math.NaN()))

// OrderedWord returns an integer that sorts like the float in its total order:
// -0 before 0, and NaN behind everything.
func OrderedWord(f float64) int64 {
	word := canonicalNaN
	if f == f {
		word = int64(math.Float64bits(f))
	}
	return word ^ (word >> 63 & math.MaxInt64)
}

// ReadWords returns the values of a plain array of a word kind in 64 bits each:
// integers as they are, floats through encode. The result is the array's own
// memory where that has the form, and scratch otherwise.
func ReadWords(arr arrow.Array, scratch *[]int64, encode func(float64) int64) ([]int64, error) {
	switch arr.DataType().ID() {
	case arrow.INT64, arrow.UINT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return FixedValues[int64](arr), nil
	}
	words := Resized(scratch, arr.Len())
	switch arr.DataType().ID() {
	case arrow.INT8:
		widen(words, FixedValues[int8](arr))
	case arrow.INT16:
		widen(words, FixedValues[int16](arr))
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		widen(words, FixedValues[int32](arr))
	case arrow.UINT8:
		widen(words, FixedValues[uint8](arr))
	case arrow.UINT16:
		widen(words, FixedValues[uint16](arr))
	case arrow.UINT32:
		widen(words, FixedValues[uint32](arr))
	case arrow.FLOAT32:
		for i, value := range FixedValues[float32](arr) {
			words[i] = encode(float64(value))
		}
	case arrow.FLOAT64:
		for i, value := range FixedValues[float64](arr) {
			words[i] = encode(value)
		}
	case arrow.BOOL:
		bits := arr.(*array.Boolean)
		for i := range words {
			words[i] = 0
			if bits.Value(i) {
				words[i] = 1
			}
		}
	case arrow.NULL:
		clear(words)
	default:
		return nil, fmt.Errorf("values of Arrow type %s do not fit 64 bits", arr.DataType())
	}
	return words, nil
}

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32](words []int64, values []T) {
	for i, value := range values {
		words[i] = int64(value)
	}
}

// Resized returns a slice of that length in *scratch, with unspecified
// contents.
func Resized[T any](scratch *[]T, length int) []T {
	if cap(*scratch) < length {
		*scratch = make([]T, length, length+length/4)
	}
	*scratch = (*scratch)[:length]
	return *scratch
}
