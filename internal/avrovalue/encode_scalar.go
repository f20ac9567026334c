// SPDX-License-Identifier: Apache-2.0

package avrovalue

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

func encodeString(w *buffer, p unsafe.Pointer) *ValueError {
	return w.string(*(*string)(p))
}

// encodeText writes a slice of bytes as a string.
func encodeText(w *buffer, p unsafe.Pointer) *ValueError {
	return w.text(*(*[]byte)(p))
}

func (w *buffer) string(v string) *ValueError {
	if !utf8.ValidString(v) {
		return valueErrorf("string %q is not valid UTF-8", v)
	}
	w.data = avroplan.AppendString(w.data, v)
	return nil
}

func (w *buffer) text(v []byte) *ValueError {
	if !utf8.Valid(v) {
		return valueErrorf("string %q is not valid UTF-8", v)
	}
	w.data = avroplan.AppendBytes(w.data, v)
	return nil
}

// integer adds a number of the schema, an int or a long.
func (w *buffer) integer(s *avroplan.Schema, v int64) *ValueError {
	if s.Kind == avroplan.Int && int64(int32(v)) != v {
		return valueErrorf("%d exceeds an Avro int", v)
	}
	w.long(v)
	return nil
}

func (w *buffer) moment(s *avroplan.Schema, t time.Time) *ValueError {
	v, err := timeCount(s.Logical, t)
	if err != nil {
		return &ValueError{cause: err}
	}
	w.long(v)
	return nil
}

func (w *buffer) clock(s *avroplan.Schema, d time.Duration) *ValueError {
	return w.integer(s, int64(d/clockUnit(s.Logical)))
}

// integerFrom compiles an int or long for integers, and for time.Time and
// time.Duration where the logical type is one of theirs.
func integerFrom(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	switch {
	case t == timeType && isMoment(s.Logical):
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			return w.moment(s, *(*time.Time)(p))
		}, nil
	case t == durationType && isClock(s.Logical):
		return func(w *buffer, p unsafe.Pointer) *ValueError {
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

func longFrom[T integer](s *avroplan.Schema) encodeFunc {
	lowest, highest := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Kind == avroplan.Int {
		lowest, highest = math.MinInt32, math.MaxInt32
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
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
func floatFrom(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	double := s.Kind == avroplan.Double
	switch {
	case t.Kind() == reflect.Float64 && double:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			w.data = avroplan.AppendDouble(w.data, *(*float64)(p))
			return nil
		}, nil
	case t.Kind() == reflect.Float32 && double:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			w.data = avroplan.AppendDouble(w.data, float64(*(*float32)(p)))
			return nil
		}, nil
	case t.Kind() == reflect.Float32:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			w.data = avroplan.AppendFloat(w.data, *(*float32)(p))
			return nil
		}, nil
	case t.Kind() == reflect.Float64:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			return w.narrow(*(*float64)(p))
		}, nil
	}
	return nil, cannotWrite(s, t)
}

// narrow adds a float64 as a float, which must hold it exactly.
func (w *buffer) narrow(v float64) *ValueError {
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
func symbolWriter(s *avroplan.Schema) func(w *buffer, symbol string) *ValueError {
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
	return func(w *buffer, symbol string) *ValueError {
		i := find(symbol)
		if i < 0 {
			return valueErrorf("%q is no symbol of enum %s", symbol, s.Name)
		}
		w.long(int64(i))
		return nil
	}
}

func enumFrom(s *avroplan.Schema) encodeFunc {
	symbol := symbolWriter(s)
	return func(w *buffer, p unsafe.Pointer) *ValueError { return symbol(w, *(*string)(p)) }
}

// bytesFrom compiles bytes or a fixed. See bytesInto for the Go types.
func bytesFrom(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	switch {
	case t == ratType && s.Logical == avroplan.Decimal:
		decimal, err := newDecimalType(s)
		if err != nil {
			return nil, err
		}
		return func(w *buffer, p unsafe.Pointer) *ValueError { return w.decimal(decimal, (*big.Rat)(p)) }, nil
	case t == calendarType && s.Logical == avroplan.Duration:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			w.duration(*(*Duration)(p))
			return nil
		}, nil
	case isByteSlice(t):
		return func(w *buffer, p unsafe.Pointer) *ValueError { return w.bytes(s, *(*[]byte)(p)) }, nil
	case isByteArray(t) && s.Kind == avroplan.Fixed && t.Len() == s.Size:
		return func(w *buffer, p unsafe.Pointer) *ValueError {
			w.raw(unsafe.Slice((*byte)(p), s.Size))
			return nil
		}, nil
	}
	return nil, cannotWrite(s, t)
}

func (w *buffer) decimal(decimal *decimalType, r *big.Rat) *ValueError {
	data, err := decimal.append(w.data, r)
	if err != nil {
		return &ValueError{cause: err}
	}
	w.data = data
	return nil
}

func (w *buffer) duration(d Duration) {
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Months)
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Days)
	w.data = binary.LittleEndian.AppendUint32(w.data, d.Milliseconds)
}

// bytes adds the value of bytes or a fixed.
func (w *buffer) bytes(s *avroplan.Schema, v []byte) *ValueError {
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
