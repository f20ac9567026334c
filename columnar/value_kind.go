// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// valueKind is how operators hold the values of a column. Columns of one kind
// can be compared with each other whatever their width.
type valueKind uint8

const (
	// anyKind is the kind of a column with nothing but nulls.
	anyKind valueKind = iota
	intKind
	uintKind // Uint64 only; narrower ones are intKind
	boolKind
	float32Kind
	float64Kind
	textKind
	bytesKind
	decimalKind
	nestedKind // held in encoded form
)

func (k valueKind) String() string {
	return [...]string{"null", "integer", "unsigned 64-bit integer", "boolean", "32-bit float", "64-bit float",
		"text", "binary", "decimal", "nested"}[k]
}

// isWord reports whether values of the kind are held in 64 bits.
func (k valueKind) isWord() bool { return k >= intKind && k <= float64Kind }

// kindOf returns how values of an Arrow type are held.
func kindOf(dt arrow.DataType) valueKind {
	switch dt.ID() {
	case arrow.NULL:
		return anyKind
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return intKind
	case arrow.UINT64:
		return uintKind
	case arrow.BOOL:
		return boolKind
	case arrow.FLOAT32:
		return float32Kind
	case arrow.FLOAT64:
		return float64Kind
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return textKind
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return bytesKind
	case arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256:
		return decimalKind
	case arrow.DICTIONARY:
		return kindOf(dt.(*arrow.DictionaryType).ValueType)
	case arrow.EXTENSION:
		return kindOf(dt.(arrow.ExtensionType).StorageType())
	default:
		return nestedKind
	}
}

// timeUnit returns what a column of dates or times counts; empty for others.
func timeUnit(dt arrow.DataType) string {
	switch dt := plainType(dt).(type) {
	case *arrow.Date32Type:
		return "d"
	case *arrow.Date64Type:
		return arrow.Millisecond.String()
	case arrow.TemporalWithUnit:
		return dt.TimeUnit().String()
	default:
		return ""
	}
}

// checkUnits fails for two types of dates and times that count different units:
// their integers cannot be compared or added.
func checkUnits(dt, held arrow.DataType) error {
	if unit, other := timeUnit(dt), timeUnit(held); unit != other && unit != "" && other != "" {
		return fmt.Errorf("the column is of type %s, but the state holds values of type %s", dt, held)
	}
	return nil
}

// plainArray returns arr without extension type and dictionary. The caller owns
// it.
func plainArray(mem memory.Allocator, arr arrow.Array) (arrow.Array, error) {
	switch arr := arr.(type) {
	case array.ExtensionArray:
		return plainArray(mem, arr.Storage())
	case *array.Dictionary:
		rows := make([]int32, arr.Len())
		for i := range rows {
			rows[i] = -1
			if arr.IsValid(i) {
				rows[i] = int32(arr.GetValueIndex(i))
			}
		}
		values, err := gatherArray(mem, arr.Dictionary(), rows)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return plainArray(mem, values)
	default:
		arr.Retain()
		return arr, nil
	}
}

// dressedArray is the inverse of plainArray: it gives plain values the type dt.
// It takes over plain, and the caller owns the result.
func dressedArray(mem memory.Allocator, plain arrow.Array, dt arrow.DataType) (arrow.Array, error) {
	defer plain.Release()
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		plain.Retain()
		storage, err := dressedArray(mem, plain, dt.StorageType())
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

// plainType returns dt without extension type and dictionary.
func plainType(dt arrow.DataType) arrow.DataType {
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return plainType(dt.StorageType())
	case *arrow.DictionaryType:
		return plainType(dt.ValueType)
	default:
		return dt
	}
}

// fixedValues returns the values of a plain array of fixed width, without
// copying them.
func fixedValues[T any](arr arrow.Array) []T {
	data := arr.Data()
	buffer := data.Buffers()[1]
	if buffer == nil || data.Len() == 0 {
		return nil
	}
	return castBytes[T](buffer.Bytes())[data.Offset() : data.Offset()+data.Len()]
}

// validity is the null bitmap of an array; the zero value is that of an array
// without nulls.
type validity struct {
	bits   []byte
	offset int
}

func validityOf(arr arrow.Array) validity {
	if arr.NullN() == 0 {
		return validity{}
	}
	if arr.DataType().ID() == arrow.NULL {
		return validity{bits: make([]byte, bitutil.BytesForBits(int64(arr.Len())))}
	}
	return validity{bits: arr.NullBitmapBytes(), offset: arr.Data().Offset()}
}

func (v validity) hasNulls() bool { return v.bits != nil }

func (v validity) isNull(row int) bool {
	return v.bits != nil && !bitutil.BitIsSet(v.bits, v.offset+row)
}

// canonicalNaN stands for every NaN.
var canonicalNaN = int64(math.Float64bits(math.NaN()))

// equalityWord returns bits that are equal for equal floats: -0 equals 0, and
// NaN equals NaN.
func equalityWord(f float64) int64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return canonicalNaN
	default:
		return int64(math.Float64bits(f))
	}
}

// orderedWord returns an integer that sorts like the float in its total order:
// -0 before 0, and NaN behind everything.
func orderedWord(f float64) int64 {
	word := canonicalNaN
	if f == f {
		word = int64(math.Float64bits(f))
	}
	return word ^ (word >> 63 & math.MaxInt64)
}

// orderedFloat is the inverse of orderedWord.
func orderedFloat(word int64) float64 {
	return math.Float64frombits(uint64(word ^ (word >> 63 & math.MaxInt64)))
}

// orderedUint returns an integer that sorts like the unsigned one. It is its
// own inverse.
func orderedUint(word int64) int64 { return word ^ math.MinInt64 }

// wordsOf returns the values of a plain array of a word kind in 64 bits each:
// integers as they are, floats through encode. The result is the array's own
// memory where that has the form, and scratch otherwise.
func wordsOf(arr arrow.Array, scratch *[]int64, encode func(float64) int64) ([]int64, error) {
	switch arr.DataType().ID() {
	case arrow.INT64, arrow.UINT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return fixedValues[int64](arr), nil
	}
	words := resized(scratch, arr.Len())
	switch arr.DataType().ID() {
	case arrow.INT8:
		widen(words, fixedValues[int8](arr))
	case arrow.INT16:
		widen(words, fixedValues[int16](arr))
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		widen(words, fixedValues[int32](arr))
	case arrow.UINT8:
		widen(words, fixedValues[uint8](arr))
	case arrow.UINT16:
		widen(words, fixedValues[uint16](arr))
	case arrow.UINT32:
		widen(words, fixedValues[uint32](arr))
	case arrow.FLOAT32:
		for i, value := range fixedValues[float32](arr) {
			words[i] = encode(float64(value))
		}
	case arrow.FLOAT64:
		for i, value := range fixedValues[float64](arr) {
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

// resized returns a slice of that length in *scratch, with unspecified
// contents.
func resized[T any](scratch *[]T, length int) []T {
	if cap(*scratch) < length {
		*scratch = make([]T, length, length+length/4)
	}
	*scratch = (*scratch)[:length]
	return *scratch
}
