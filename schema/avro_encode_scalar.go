// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/binary"
	"math"
	"math/big"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

func encodeString(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
	return w.string(*(*string)(p))
}

// encodeText writes a slice of bytes as a string.
func encodeText(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
	return w.text(*(*[]byte)(p))
}

func (w *avroBuffer) string(v string) *AvroValueError {
	if !utf8.ValidString(v) {
		return valueErrorf("string %q is not valid UTF-8", v)
	}
	w.data = avroplan.AppendString(w.data, v)
	return nil
}

func (w *avroBuffer) text(v []byte) *AvroValueError {
	if !utf8.Valid(v) {
		return valueErrorf("string %q is not valid UTF-8", v)
	}
	w.data = avroplan.AppendBytes(w.data, v)
	return nil
}

// integer adds a number of the schema, an int or a long.
func (w *avroBuffer) integer(s *avroplan.Schema, v int64) *AvroValueError {
	if s.Kind == avroplan.Int && int64(int32(v)) != v {
		return valueErrorf("%d exceeds an Avro int", v)
	}
	w.long(v)
	return nil
}

func (w *avroBuffer) moment(s *avroplan.Schema, t time.Time) *AvroValueError {
	v, err := timeCount(s.Logical, t)
	if err != nil {
		return &AvroValueError{cause: err}
	}
	w.long(v)
	return nil
}

func (w *avroBuffer) clock(s *avroplan.Schema, d time.Duration) *AvroValueError {
	return w.integer(s, int64(d/clockUnit(s.Logical)))
}

// integerFrom compiles an int or long for integers, and for time.Time and
// time.Duration where the logical type is one of theirs.
func integerFrom(s *avroplan.Schema, t reflect.Type) (avroEncode, error) {
	switch {
	case t == timeType && isMoment(s.Logical):
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			return w.moment(s, *(*time.Time)(p))
		}, nil
	case t == durationType && isClock(s.Logical):
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			return w.clock(s, *(*time.Duration)(p))
		}, nil
	case t == durationType:
		return nil, cannotWrite(s, t)
	}
	switch t.Kind() {
	case reflect.Int:
		return longFrom[int](s), nil
	case reflect.Int8:
		return longFrom[int8](s), nil
	case reflect.Int16:
		return longFrom[int16](s), nil
	case reflect.Int32:
		return longFrom[int32](s), nil
	case reflect.Int64:
		return longFrom[int64](s), nil
	case reflect.Uint:
		return longFrom[uint](s), nil
	case reflect.Uint8:
		return longFrom[uint8](s), nil
	case reflect.Uint16:
		return longFrom[uint16](s), nil
	case reflect.Uint32:
		return longFrom[uint32](s), nil
	case reflect.Uint64:
		return longFrom[uint64](s), nil
	}
	return nil, cannotWrite(s, t)
}

func longFrom[T integer](s *avroplan.Schema) avroEncode {
	lowest, highest := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Kind == avroplan.Int {
		lowest, highest = math.MinInt32, math.MaxInt32
	}
	return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
		v := *(*T)(p)
		n := int64(v)
		if n < lowest || n > highest || n < 0 != (v < 0) {
			return valueErrorf("%d exceeds an Avro %v", v, s.Kind)
		}
		w.long(n)
		return nil
	}
}

// floatFrom compiles a float for float32 and a double for both floating-point
// types.
func floatFrom(s *avroplan.Schema, t reflect.Type) (avroEncode, error) {
	double := s.Kind == avroplan.Double
	switch {
	case t.Kind() == reflect.Float64 && double:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			w.data = avroplan.AppendDouble(w.data, *(*float64)(p))
			return nil
		}, nil
	case t.Kind() == reflect.Float32 && double:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			w.data = avroplan.AppendDouble(w.data, float64(*(*float32)(p)))
			return nil
		}, nil
	case t.Kind() == reflect.Float32:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			w.data = avroplan.AppendFloat(w.data, *(*float32)(p))
			return nil
		}, nil
	case t.Kind() == reflect.Float64:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			return w.narrow(*(*float64)(p))
		}, nil
	}
	return nil, cannotWrite(s, t)
}

// narrow adds a float64 as a float, which must hold it exactly.
func (w *avroBuffer) narrow(v float64) *AvroValueError {
	if float64(float32(v)) != v && v == v {
		return valueErrorf("%v is no Avro float", v)
	}
	w.data = avroplan.AppendFloat(w.data, float32(v))
	return nil
}

// fewSymbols is the number of symbols up to which comparing one by one is faster
// than a map.
const fewSymbols = 8

// symbolWriter returns what adds a symbol of the enum.
func symbolWriter(s *avroplan.Schema) func(w *avroBuffer, symbol string) *AvroValueError {
	find := func(symbol string) int { return slices.Index(s.Symbols, symbol) }
	if len(s.Symbols) > fewSymbols {
		index := make(map[string]int, len(s.Symbols))
		for i, symbol := range s.Symbols {
			index[symbol] = i
		}
		find = func(symbol string) int {
			if i, ok := index[symbol]; ok {
				return i
			}
			return -1
		}
	}
	return func(w *avroBuffer, symbol string) *AvroValueError {
		i := find(symbol)
		if i < 0 {
			return valueErrorf("%q is no symbol of enum %s", symbol, s.Name)
		}
		w.long(int64(i))
		return nil
	}
}

func enumFrom(s *avroplan.Schema) avroEncode {
	symbol := symbolWriter(s)
	return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError { return symbol(w, *(*string)(p)) }
}

// bytesFrom compiles bytes or a fixed. See bytesInto for the Go types.
func bytesFrom(s *avroplan.Schema, t reflect.Type) (avroEncode, error) {
	switch {
	case t == ratType && s.Logical == avroplan.Decimal:
		decimal, err := newDecimalType(s)
		if err != nil {
			return nil, err
		}
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError { return w.decimal(decimal, (*big.Rat)(p)) }, nil
	case t == avroDurationType && s.Logical == avroplan.Duration:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			w.duration(*(*AvroDuration)(p))
			return nil
		}, nil
	case isByteSlice(t):
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError { return w.bytes(s, *(*[]byte)(p)) }, nil
	case isByteArray(t) && s.Kind == avroplan.Fixed && t.Len() == s.Size:
		return func(w *avroBuffer, p unsafe.Pointer) *AvroValueError {
			w.raw(unsafe.Slice((*byte)(p), s.Size))
			return nil
		}, nil
	}
	return nil, cannotWrite(s, t)
}

func (w *avroBuffer) decimal(decimal *decimalType, r *big.Rat) *AvroValueError {
	data, err := decimal.append(w.data, r)
	if err != nil {
		return &AvroValueError{cause: err}
	}
	w.data = data
	return nil
}

func (w *avroBuffer) duration(d AvroDuration) {
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Months)
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Days)
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Milliseconds)
}

// bytes adds the value of bytes or a fixed.
func (w *avroBuffer) bytes(s *avroplan.Schema, v []byte) *AvroValueError {
	switch {
	case s.Kind == avroplan.Bytes:
		w.data = avroplan.AppendBytes(w.data, v)
	case len(v) != s.Size:
		return valueErrorf("%d bytes for the %d of fixed %s", len(v), s.Size, s.Name)
	default:
		w.raw(v)
	}
	return nil
}
