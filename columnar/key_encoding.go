// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
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

// appendKeyValue appends the encoding of a value that [Value] returned. Equal
// values have equal encodings: -0 is 0, and there is one NaN.
func appendKeyValue(data []byte, value any) ([]byte, error) {
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
			if data, err = appendKeyValue(data, item); err != nil {
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
			if data, err = appendKeyValue(data, value[key]); err != nil {
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

// value reads one value. Integers of tagInt are an int64 whatever their width
// was.
func (r *snapshotReader) value(depth int) any {
	if depth > maxValueDepth && r.err == nil {
		r.err = errors.New("values nest too deep in snapshot")
	}
	tag := r.byte()
	if r.err != nil {
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
		return string(r.take(uint64(r.uint32())))
	case tagBytes:
		return append([]byte{}, r.take(uint64(r.uint32()))...)
	case tagInt:
		return r.int64()
	case tagUint64:
		return uint64(r.int64())
	case tagFloat32:
		return float32(math.Float64frombits(uint64(r.int64())))
	case tagFloat64:
		return math.Float64frombits(uint64(r.int64()))
	case tagBigInt:
		return r.bigInt()
	case tagRational:
		return r.rational()
	case tagList:
		// The list grows as items are read, since counts of nested lists may each
		// claim the whole rest.
		list := []any{}
		for i := r.count(1); i > 0 && r.err == nil; i-- {
			list = append(list, r.value(depth+1))
		}
		return list
	case tagMap:
		entries := map[string]any{}
		for i := r.count(5); i > 0 && r.err == nil; i-- {
			key := string(r.take(uint64(r.uint32())))
			entries[key] = r.value(depth + 1)
		}
		return entries
	default:
		r.err = fmt.Errorf("unknown snapshot value tag %q", tag)
		return nil
	}
}

// maxSnapshotDigits bounds the numbers whose text is read: converting digits
// takes more than linear time.
const maxSnapshotDigits = 4096

func (r *snapshotReader) bigInt() any {
	text := r.take(uint64(r.uint32()))
	if r.err != nil {
		return nil
	}
	if len(text) <= maxSnapshotDigits && isPlainNumber(text) {
		if value, ok := new(big.Int).SetString(string(text), 10); ok {
			return value
		}
	}
	r.err = errors.New("invalid integer in snapshot")
	return nil
}

func (r *snapshotReader) rational() any {
	text := r.take(uint64(r.uint32()))
	if r.err != nil {
		return nil
	}
	if len(text) <= maxSnapshotDigits && isPlainNumber(text) {
		if value, ok := new(big.Rat).SetString(string(text)); ok {
			return value
		}
	}
	r.err = errors.New("invalid rational in snapshot")
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
