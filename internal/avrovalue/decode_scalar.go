// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"math/big"
	"reflect"
	"time"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

func decodeBool(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
	v, err := c.Bool()
	*(*bool)(p) = v
	return err
}

func decodeString(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
	v, err := c.String()
	*(*string)(p) = v
	return err
}

// decodeText reads a string into a slice of bytes.
func decodeText(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
	v, err := c.RawString()
	if err != nil {
		return err
	}
	*(*[]byte)(p) = append(make([]byte, 0, len(v)), v...)
	return nil
}

func isByteSlice(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func isByteArray(t reflect.Type) bool {
	return t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8
}

// integerInto compiles an int or long. Its logical type decides about
// time.Time and time.Duration; integers take the number itself.
func integerInto(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	logical := n.Schema.Logical
	switch {
	case t == timeType && isMoment(logical):
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := n.ReadLong(c)
			if err != nil {
				return err
			}
			*(*time.Time)(p) = timeOf(logical, v)
			return nil
		}, nil
	case t == durationType && isClock(logical):
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := n.ReadLong(c)
			if err != nil {
				return err
			}
			d, ok := clockOf(logical, v)
			if !ok {
				return c.Fail("%d exceeds a time.Duration", v)
			}
			*(*time.Duration)(p) = d
			return nil
		}, nil
	case t == durationType:
		return nil, cannotRead(n, t)
	}
	switch t.Kind() {
	case reflect.Int:
		return longInto[int](n), nil
	case reflect.Int8:
		return longInto[int8](n), nil
	case reflect.Int16:
		return longInto[int16](n), nil
	case reflect.Int32:
		return longInto[int32](n), nil
	case reflect.Int64:
		return longInto[int64](n), nil
	case reflect.Uint:
		return longInto[uint](n), nil
	case reflect.Uint8:
		return longInto[uint8](n), nil
	case reflect.Uint16:
		return longInto[uint16](n), nil
	case reflect.Uint32:
		return longInto[uint32](n), nil
	case reflect.Uint64:
		return longInto[uint64](n), nil
	}
	return nil, cannotRead(n, t)
}

type integer interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64
}

// longInto compiles an int or long to an integer type. A number that the type
// does not hold is an error.
func longInto[T integer](n *avroplan.Node) decodeFunc {
	switch {
	case n.Plain() && n.Wire == avroplan.Long:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := c.Long()
			*(*T)(p) = T(v)
			if int64(T(v)) != v || T(v) < 0 != (v < 0) {
				return beyondType[T](c, v)
			}
			return err
		}
	case n.Plain():
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := c.Int()
			*(*T)(p) = T(v)
			if int64(T(v)) != int64(v) || T(v) < 0 != (v < 0) {
				return beyondType[T](c, int64(v))
			}
			return err
		}
	}
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		v, err := n.ReadLong(c)
		*(*T)(p) = T(v)
		if int64(T(v)) != v || T(v) < 0 != (v < 0) {
			return beyondType[T](c, v)
		}
		return err
	}
}

func beyondType[T integer](c *avroplan.Cursor, v int64) *avroplan.DatumError {
	return c.Fail("%d exceeds Go type %v", v, reflect.TypeFor[T]())
}

// floatInto compiles a float to either floating-point type, and a double to
// the one that holds it.
func floatInto(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	double := n.Schema.Kind == avroplan.Double
	switch {
	case t.Kind() == reflect.Float64 && double:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := n.ReadDouble(c)
			*(*float64)(p) = v
			return err
		}, nil
	case t.Kind() == reflect.Float64:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := n.ReadFloat(c)
			*(*float64)(p) = float64(v)
			return err
		}, nil
	case t.Kind() == reflect.Float32 && !double:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := n.ReadFloat(c)
			*(*float32)(p) = v
			return err
		}, nil
	}
	return nil, cannotRead(n, t)
}

func enumInto(n *avroplan.Node) decodeFunc {
	return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		i, err := n.ReadSymbol(c)
		if err != nil {
			return err
		}
		*(*string)(p) = n.Schema.Symbols[i]
		return nil
	}
}

// bytesInto compiles bytes or a fixed. Decimals become big.Rat and durations
// AvroDuration; byte slices and arrays take the bytes themselves.
func bytesInto(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	s := n.Schema
	switch {
	case t == ratType && s.Logical == avroplan.Decimal:
		set, err := decimalReader(s)
		if err != nil {
			return nil, err
		}
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError { return set(c, (*big.Rat)(p)) }, nil
	case t == calendarType && s.Logical == avroplan.Duration:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := c.Fixed(s.Size)
			if err != nil {
				return err
			}
			*(*Duration)(p) = durationOf(v)
			return nil
		}, nil
	case isByteSlice(t):
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := readRaw(c, s)
			if err != nil {
				return err
			}
			*(*[]byte)(p) = append(make([]byte, 0, len(v)), v...)
			return nil
		}, nil
	case isByteArray(t) && s.Kind == avroplan.Fixed && t.Len() == s.Size:
		return func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
			v, err := c.Fixed(s.Size)
			if err != nil {
				return err
			}
			copy(unsafe.Slice((*byte)(p), s.Size), v)
			return nil
		}, nil
	}
	return nil, cannotRead(n, t)
}

// readRaw reads the bytes of bytes or a fixed, without copying them.
func readRaw(c *avroplan.Cursor, s *avroplan.Schema) ([]byte, *avroplan.DatumError) {
	if s.Kind == avroplan.Fixed {
		return c.Fixed(s.Size)
	}
	return c.Bytes()
}
