// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// Tags of encoded values. Numbers behind them are big-endian.
const (
	tagNull     = 'n'
	tagTrue     = 't'
	tagFalse    = 'F'
	tagText     = 's' // uint32 length, bytes
	tagBytes    = 'b' // uint32 length, bytes
	tagInt      = 'i' // 8 bytes, two's complement
	tagUint64   = 'u' // 8 bytes
	tagFloat32  = 'g' // 8 bytes, the bits of the value as a float64
	tagFloat64  = 'f' // 8 bytes
	tagBigInt   = 'I' // uint32 length, decimal digits
	tagRational = 'R' // uint32 length, digits or digits/digits
	tagList     = 'L' // uint32 count, values
	tagMap      = 'M' // uint32 count, and in the order of keys: uint32 length, key, value
)

// maxValueDepth bounds how deep lists and maps may nest in an encoded value.
const maxValueDepth = 100

// AppendValue appends the encoding of a value that [Value] returned. Equal
// values have equal encodings: -0 is 0, and there is one NaN.
func AppendValue(data []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return append(data, tagNull), nil
	case bool:
		if value {
			return append(data, tagTrue), nil
		}
		return append(data, tagFalse), nil
	case string:
		return appendTagged(data, tagText, value)
	case []byte:
		return appendTagged(data, tagBytes, value)
	case int:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case int8:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case int16:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case int32:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case int64:
		return appendTaggedWord(data, tagInt, value), nil
	case uint8:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case uint16:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case uint32:
		return appendTaggedWord(data, tagInt, int64(value)), nil
	case uint64:
		return appendTaggedWord(data, tagUint64, int64(value)), nil
	case float32:
		return appendTaggedWord(data, tagFloat32, equalityWord(float64(value))), nil
	case float64:
		return appendTaggedWord(data, tagFloat64, equalityWord(value)), nil
	case *big.Int:
		return appendTagged(data, tagBigInt, value.String())
	case *big.Rat:
		return appendTagged(data, tagRational, value.RatString())
	case []any:
		var err error
		data = appendCount(data, tagList, len(value))
		for _, item := range value {
			if data, err = AppendValue(data, item); err != nil {
				return nil, err
			}
		}
		return data, nil
	case map[string]any:
		var err error
		data = appendCount(data, tagMap, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			data = binary.BigEndian.AppendUint32(data, uint32(len(key)))
			data = append(data, key...)
			if data, err = AppendValue(data, value[key]); err != nil {
				return nil, err
			}
		}
		return data, nil
	default:
		return nil, fmt.Errorf("cannot use %T as a group key or aggregate", value)
	}
}

func appendTagged[T string | []byte](data []byte, tag byte, value T) ([]byte, error) {
	if uint64(len(value)) > math.MaxUint32 {
		return nil, fmt.Errorf("a value of %d bytes is too long for a group key", len(value))
	}
	return append(appendCount(data, tag, len(value)), value...), nil
}

func appendCount(data []byte, tag byte, count int) []byte {
	return binary.BigEndian.AppendUint32(append(data, tag), uint32(count))
}

func appendTaggedWord(data []byte, tag byte, word int64) []byte {
	return binary.BigEndian.AppendUint64(append(data, tag), uint64(word))
}

// readValue reads one value. Integers of tagInt are an int64 whatever their width
// was.
func readValue(r *statebytes.Reader, depth int) any {
	if depth > maxValueDepth && r.Err() == nil {
		r.Fail(errors.New("values nest too deep in snapshot"))
	}
	tag := r.Byte()
	if r.Err() != nil {
		return nil
	}
	switch tag {
	case tagNull:
		return nil
	case tagTrue:
		return true
	case tagFalse:
		return false
	case tagText:
		return string(r.Take(uint64(r.Uint32())))
	case tagBytes:
		return append([]byte{}, r.Take(uint64(r.Uint32()))...)
	case tagInt:
		return r.Int64()
	case tagUint64:
		return uint64(r.Int64())
	case tagFloat32:
		return float32(math.Float64frombits(uint64(r.Int64())))
	case tagFloat64:
		return math.Float64frombits(uint64(r.Int64()))
	case tagBigInt:
		return readBigInt(r)
	case tagRational:
		return readRational(r)
	case tagList:
		// The list grows as items are read, since counts of nested lists may each
		// claim the whole rest.
		list := []any{}
		for i := r.Count(1); i > 0 && r.Err() == nil; i-- {
			list = append(list, readValue(r, depth+1))
		}
		return list
	case tagMap:
		entries := map[string]any{}
		for i := r.Count(5); i > 0 && r.Err() == nil; i-- {
			key := string(r.Take(uint64(r.Uint32())))
			entries[key] = readValue(r, depth+1)
		}
		return entries
	default:
		r.Fail(fmt.Errorf("unknown snapshot value tag %q", tag))
		return nil
	}
}

// MaxDigits bounds the numbers whose text is read: converting digits
// takes more than linear time.
const MaxDigits = 4096

func readBigInt(r *statebytes.Reader) any {
	text := r.Take(uint64(r.Uint32()))
	if r.Err() != nil {
		return nil
	}
	if len(text) <= MaxDigits && isPlainNumber(text) {
		if value, ok := new(big.Int).SetString(string(text), 10); ok {
			return value
		}
	}
	r.Fail(errors.New("invalid integer in snapshot"))
	return nil
}

func readRational(r *statebytes.Reader) any {
	text := r.Take(uint64(r.Uint32()))
	if r.Err() != nil {
		return nil
	}
	if len(text) <= MaxDigits && isPlainNumber(text) {
		if value, ok := new(big.Rat).SetString(string(text)); ok {
			return value
		}
	}
	r.Fail(errors.New("invalid rational in snapshot"))
	return nil
}

// isPlainNumber reports whether text consists of digits, a sign and a slash: no
// exponents, which could make a number huge.
func isPlainNumber(text []byte) bool {
	for i, c := range text {
		if (c < '0' || c > '9') && c != '/' && (c != '-' || i > 0) {
			return false
		}
	}
	return true
}

// encodedValues is scratch for values that are compared in encoded form.
type encodedValues struct {
	data    []byte
	offsets []int64
}

// read encodes a plain column of arrays.DecimalKind or arrays.NestedKind. The result is
// valid until the next call.
func (e *encodedValues) read(arr arrow.Array) (arrays.Bytes, error) {
	e.data, e.offsets = e.data[:0], append(e.offsets[:0], 0)
	for row := range arr.Len() {
		if arr.IsValid(row) {
			var err error
			if e.data, err = AppendValue(e.data, arrays.Value(arr, row)); err != nil {
				return arrays.Bytes{}, err
			}
		}
		e.offsets = append(e.offsets, int64(len(e.data)))
	}
	return arrays.Bytes{Data: e.data, Offsets: e.offsets}, nil
}

// oneNaN stands for every NaN.
var oneNaN = int64(math.Float64bits(math.NaN()))

// equalityWord returns bits that are equal for equal floats: -0 equals 0, and
// NaN equals NaN.
func equalityWord(f float64) int64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return oneNaN
	default:
		return int64(math.Float64bits(f))
	}
}
