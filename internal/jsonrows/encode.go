// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

var (
	errTextUTF8 = errors.New("text is not valid UTF-8")
	errNotJSON  = errors.New("text is not valid JSON")
)

// Appender appends the JSON form of the value at a row.
type Appender func(dst []byte, row int) ([]byte, error)

// binaryArray is an array of any binary type.
type binaryArray interface {
	arrow.Array
	Value(row int) []byte
}

// Form tells how times and decimals are written.
type Form struct {
	EpochTimes   bool // as numbers in the column's unit
	TextDecimals bool // decimals as text
}

// Appender returns the appender of a column.
func (f Form) Appender(arr arrow.Array, metadata arrow.Metadata) (Appender, error) {
	appendValue, err := f.valueAppender(arr, metadata)
	if err != nil || arr.NullN() == 0 {
		return appendValue, err
	}
	return func(dst []byte, row int) ([]byte, error) {
		if arr.IsNull(row) {
			return append(dst, "null"...), nil
		}
		return appendValue(dst, row)
	}, nil
}

func (f Form) valueAppender(arr arrow.Array, metadata arrow.Metadata) (Appender, error) {
	switch arr := arr.(type) {
	case *array.Null:
		return func(dst []byte, _ int) ([]byte, error) { return append(dst, "null"...), nil }, nil
	case *array.Boolean:
		return func(dst []byte, row int) ([]byte, error) { return strconv.AppendBool(dst, arr.Value(row)), nil }, nil
	case *array.Int8:
		return signedAppender(arr.Int8Values()), nil
	case *array.Int16:
		return signedAppender(arr.Int16Values()), nil
	case *array.Int32:
		return signedAppender(arr.Int32Values()), nil
	case *array.Int64:
		return signedAppender(arr.Int64Values()), nil
	case *array.Duration:
		return signedAppender(arr.DurationValues()), nil
	case *array.Uint8:
		return unsignedAppender(arr.Uint8Values()), nil
	case *array.Uint16:
		return unsignedAppender(arr.Uint16Values()), nil
	case *array.Uint32:
		return unsignedAppender(arr.Uint32Values()), nil
	case *array.Uint64:
		return unsignedAppender(arr.Uint64Values()), nil
	case *array.Float16:
		return func(dst []byte, row int) ([]byte, error) {
			return appendFloat(dst, float64(arr.Value(row).Float32()), 32)
		}, nil
	case *array.Float32:
		return func(dst []byte, row int) ([]byte, error) { return appendFloat(dst, float64(arr.Value(row)), 32) }, nil
	case *array.Float64:
		return func(dst []byte, row int) ([]byte, error) { return appendFloat(dst, arr.Value(row), 64) }, nil
	case array.StringLike:
		if text, ok := metadata.GetValue(TextKey); ok && text == "true" {
			return func(dst []byte, row int) ([]byte, error) { return appendRawJSON(dst, arr.Value(row)) }, nil
		}
		return func(dst []byte, row int) ([]byte, error) { return appendText(dst, arr.Value(row)) }, nil
	case binaryArray:
		return func(dst []byte, row int) ([]byte, error) { return appendBase64(dst, arr.Value(row)), nil }, nil
	case *array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		if f.TextDecimals {
			return quoted(decimalAppender(arr)), nil
		}
		return decimalAppender(arr), nil
	case *array.Date32, *array.Date64, *array.Time32, *array.Time64, *array.Timestamp:
		return f.timeAppender(arr)
	case *array.Dictionary:
		values, err := f.Appender(arr.Dictionary(), metadata)
		if err != nil {
			return nil, err
		}
		return func(dst []byte, row int) ([]byte, error) { return values(dst, arr.GetValueIndex(row)) }, nil
	case *array.RunEndEncoded:
		values, err := f.Appender(arr.Values(), metadata)
		if err != nil {
			return nil, err
		}
		return func(dst []byte, row int) ([]byte, error) { return values(dst, arr.GetPhysicalIndex(row)) }, nil
	case array.ExtensionArray:
		return f.Appender(arr.Storage(), metadata)
	case *array.Map:
		return f.mapAppender(arr)
	case array.ListLike:
		return f.listAppender(arr)
	case *array.Struct:
		return f.structAppender(arr)
	case array.Union:
		return f.unionAppender(arr)
	}
	//lint:ignore ST1005 Arrow is a name
	return nil, fmt.Errorf("Arrow type %s has no JSON form", arr.DataType())
}

func signedAppender[T ~int8 | ~int16 | ~int32 | ~int64](values []T) Appender {
	return func(dst []byte, row int) ([]byte, error) { return strconv.AppendInt(dst, int64(values[row]), 10), nil }
}

func unsignedAppender[T uint8 | uint16 | uint32 | uint64](values []T) Appender {
	return func(dst []byte, row int) ([]byte, error) {
		return strconv.AppendUint(dst, uint64(values[row]), 10), nil
	}
}

// appendFloat appends the shortest number that reads back as v.
func appendFloat(dst []byte, v float64, size int) ([]byte, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dst, fmt.Errorf("%v has no JSON form", v)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, size), nil
}

// appendText appends a text with its quotes.
func appendText(dst []byte, text string) ([]byte, error) {
	dst = append(dst, '"')
	data := unsafe.Slice(unsafe.StringData(text), len(text))
	start, pos := 0, 0
	for {
		pos = plainEnd(data, pos)
		if pos == len(data) {
			return append(append(dst, data[start:]...), '"'), nil
		}
		c := data[pos]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(data[pos:])
			if r == utf8.RuneError && size == 1 {
				return dst, errTextUTF8
			}
			pos += size
			continue
		}
		dst = append(dst, data[start:pos]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		pos++
		start = pos
	}
}

// appendRawJSON appends text that is JSON already.
func appendRawJSON(dst []byte, text string) ([]byte, error) {
	r := Reader{Data: unsafe.Slice(unsafe.StringData(text), len(text))}
	err := r.Skip()
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return append(dst, text...), nil
}

func appendBase64(dst, value []byte) []byte {
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), value)
	return append(dst, '"')
}

func decimalAppender(arr arrow.Array) Appender {
	scale := int(arr.DataType().(arrow.DecimalType).GetScale())
	switch arr := arr.(type) {
	case *array.Decimal32:
		return func(dst []byte, row int) ([]byte, error) {
			return appendDecimal(dst, strconv.AppendInt(nil, int64(arr.Value(row)), 10), scale), nil
		}
	case *array.Decimal64:
		return func(dst []byte, row int) ([]byte, error) {
			return appendDecimal(dst, strconv.AppendInt(nil, int64(arr.Value(row)), 10), scale), nil
		}
	case *array.Decimal128:
		return func(dst []byte, row int) ([]byte, error) {
			v := arr.Value(row)
			if high := v.HighBits(); high == int64(v.LowBits())>>63 {
				var digits [20]byte
				return appendDecimal(dst, strconv.AppendInt(digits[:0], int64(v.LowBits()), 10), scale), nil
			}
			return appendDecimal(dst, v.BigInt().Append(nil, 10), scale), nil
		}
	}
	wide := arr.(*array.Decimal256)
	return func(dst []byte, row int) ([]byte, error) {
		return appendDecimal(dst, wide.Value(row).BigInt().Append(nil, 10), scale), nil
	}
}

// appendDecimal appends an integer, given as text, divided by ten to the scale.
func appendDecimal(dst, unscaled []byte, scale int) []byte {
	if unscaled[0] == '-' {
		dst, unscaled = append(dst, '-'), unscaled[1:]
	}
	if scale <= 0 {
		dst = append(dst, unscaled...)
		if unscaled[0] != '0' {
			for range -scale {
				dst = append(dst, '0')
			}
		}
		return dst
	}
	whole := len(unscaled) - scale
	if whole <= 0 {
		dst = append(dst, '0', '.')
		for range -whole {
			dst = append(dst, '0')
		}
		return append(dst, unscaled...)
	}
	dst = append(append(dst, unscaled[:whole]...), '.')
	return append(dst, unscaled[whole:]...)
}

// quoted puts quotes around what an appender appends.
func quoted(appendTo Appender) Appender {
	return func(dst []byte, row int) ([]byte, error) {
		dst, err := appendTo(append(dst, '"'), row)
		return append(dst, '"'), err
	}
}

func (f Form) timeAppender(arr arrow.Array) (Appender, error) {
	switch arr := arr.(type) {
	case *array.Date32:
		if f.EpochTimes {
			return signedAppender(arr.Date32Values()), nil
		}
		return quoted(func(dst []byte, row int) ([]byte, error) { return numtext.AppendDate(dst, int64(arr.Value(row))) }), nil
	case *array.Date64:
		if f.EpochTimes {
			return signedAppender(arr.Date64Values()), nil
		}
		return quoted(func(dst []byte, row int) ([]byte, error) {
			days, rest := numtext.FloorDivMod(int64(arr.Value(row)), 86_400_000)
			if rest != 0 {
				return dst, fmt.Errorf("date %d milliseconds since the epoch is not a whole day", arr.Value(row))
			}
			return numtext.AppendDate(dst, days)
		}), nil
	case *array.Time32:
		if f.EpochTimes {
			return signedAppender(arr.Time32Values()), nil
		}
		unit := numtext.UnitOf(arr.DataType().(*arrow.Time32Type).Unit.Multiplier())
		return quoted(func(dst []byte, row int) ([]byte, error) {
			return numtext.AppendClock(dst, int64(arr.Value(row)), unit)
		}), nil
	case *array.Time64:
		if f.EpochTimes {
			return signedAppender(arr.Time64Values()), nil
		}
		unit := numtext.UnitOf(arr.DataType().(*arrow.Time64Type).Unit.Multiplier())
		return quoted(func(dst []byte, row int) ([]byte, error) {
			return numtext.AppendClock(dst, int64(arr.Value(row)), unit)
		}), nil
	}
	times := arr.(*array.Timestamp)
	if f.EpochTimes {
		return signedAppender(times.TimestampValues()), nil
	}
	unit := numtext.UnitOf(arr.DataType().(*arrow.TimestampType).Unit.Multiplier())
	return quoted(func(dst []byte, row int) ([]byte, error) {
		return numtext.AppendTime(dst, int64(times.Value(row)), unit)
	}), nil
}

func (f Form) listAppender(arr array.ListLike) (Appender, error) {
	elem := arr.DataType().(arrow.ListLikeType).ElemField()
	values, err := f.Appender(arr.ListValues(), elem.Metadata)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, row int) ([]byte, error) {
		dst = append(dst, '[')
		start, end := arr.ValueOffsets(row)
		for i := start; i < end; i++ {
			if i > start {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = values(dst, int(i)); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}, nil
}

func (f Form) structAppender(arr *array.Struct) (Appender, error) {
	columns := make([]Column, arr.NumField())
	for i, field := range arr.DataType().(*arrow.StructType).Fields() {
		var err error
		if columns[i], err = f.Column(field, arr.Field(i), i == 0); err != nil {
			return nil, err
		}
	}
	return func(dst []byte, row int) ([]byte, error) { return AppendObject(dst, columns, row) }, nil
}

// Column is a member of an object: a column with what stands in front of
// its values.
type Column struct {
	Name   string
	Prefix []byte   // the name with what precedes and follows it
	Append Appender // of the values
}

// Column returns the column of a field, which is the first member of its object or
// a further one.
func (f Form) Column(field arrow.Field, arr arrow.Array, first bool) (Column, error) {
	values, err := f.Appender(arr, field.Metadata)
	if err != nil {
		return Column{}, &namedcols.Error{Column: field.Name, Row: namedcols.NoRow, Cause: err}
	}
	prefix, err := MemberPrefix(field.Name, first)
	if err != nil {
		return Column{}, &namedcols.Error{Column: field.Name, Row: namedcols.NoRow, Cause: err}
	}
	return Column{field.Name, prefix, values}, nil
}

// MemberPrefix returns a member name with what precedes and follows it.
func MemberPrefix(name string, first bool) ([]byte, error) {
	var prefix []byte
	if !first {
		prefix = append(prefix, ',')
	}
	prefix, err := appendText(prefix, name)
	return append(prefix, ':'), err
}

// AppendObject appends the object of a row.
func AppendObject(dst []byte, columns []Column, row int) ([]byte, error) {
	dst = append(dst, '{')
	for i := range columns {
		var err error
		if dst, err = columns[i].Append(append(dst, columns[i].Prefix...), row); err != nil {
			return dst, &namedcols.Error{Column: columns[i].Name, Row: row, Cause: err}
		}
	}
	return append(dst, '}'), nil
}

func (f Form) mapAppender(arr *array.Map) (Appender, error) {
	var keys Appender
	var err error
	switch arr.Keys().(type) {
	case array.StringLike:
		keys, err = f.valueAppender(arr.Keys(), arrow.Metadata{})
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64:
		var numbers Appender
		numbers, err = f.valueAppender(arr.Keys(), arrow.Metadata{})
		keys = quoted(numbers)
	default:
		//lint:ignore ST1005 Arrow is a name
		err = fmt.Errorf("Arrow type %s has no JSON form: its keys are not texts", arr.DataType())
	}
	if err != nil {
		return nil, err
	}
	items, err := f.Appender(arr.Items(), arr.DataType().(*arrow.MapType).ItemField().Metadata)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, row int) ([]byte, error) {
		dst = append(dst, '{')
		start, end := arr.ValueOffsets(row)
		for i := start; i < end; i++ {
			if i > start {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = keys(dst, int(i)); err != nil {
				return dst, err
			}
			if dst, err = items(append(dst, ':'), int(i)); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}, nil
}

func (f Form) unionAppender(arr array.Union) (Appender, error) {
	fields := arr.UnionType().Fields()
	members := make([]Appender, len(fields))
	for i := range members {
		var err error
		if members[i], err = f.Appender(arr.Field(i), fields[i].Metadata); err != nil {
			return nil, err
		}
	}
	dense, _ := arr.(*array.DenseUnion)
	return func(dst []byte, row int) ([]byte, error) {
		member := members[arr.ChildID(row)]
		if dense != nil {
			row = int(dense.ValueOffset(row))
		}
		return member(dst, row)
	}, nil
}
