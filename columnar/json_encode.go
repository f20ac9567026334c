// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
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

// jsonAppender appends the JSON form of the value at a row.
type jsonAppender func(dst []byte, row int) ([]byte, error)

// binaryArray is an array of any binary type.
type binaryArray interface {
	arrow.Array
	Value(row int) []byte
}

// jsonForm tells how times and decimals are written.
type jsonForm struct {
	epochTimes  bool // as numbers in the column's unit
	decimalText bool // decimals as text
}

// appender returns the appender of a column.
func (f jsonForm) appender(arr arrow.Array, metadata arrow.Metadata) (jsonAppender, error) {
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

func (f jsonForm) valueAppender(arr arrow.Array, metadata arrow.Metadata) (jsonAppender, error) {
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
		if text, ok := metadata.GetValue(jsonFieldKey); ok && text == "true" {
			return func(dst []byte, row int) ([]byte, error) { return appendRawJSON(dst, arr.Value(row)) }, nil
		}
		return func(dst []byte, row int) ([]byte, error) { return appendText(dst, arr.Value(row)) }, nil
	case binaryArray:
		return func(dst []byte, row int) ([]byte, error) { return appendBase64(dst, arr.Value(row)), nil }, nil
	case *array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		if f.decimalText {
			return quoted(decimalAppender(arr)), nil
		}
		return decimalAppender(arr), nil
	case *array.Date32, *array.Date64, *array.Time32, *array.Time64, *array.Timestamp:
		return f.timeAppender(arr)
	case *array.Dictionary:
		values, err := f.appender(arr.Dictionary(), metadata)
		if err != nil {
			return nil, err
		}
		return func(dst []byte, row int) ([]byte, error) { return values(dst, arr.GetValueIndex(row)) }, nil
	case *array.RunEndEncoded:
		values, err := f.appender(arr.Values(), metadata)
		if err != nil {
			return nil, err
		}
		return func(dst []byte, row int) ([]byte, error) { return values(dst, arr.GetPhysicalIndex(row)) }, nil
	case array.ExtensionArray:
		return f.appender(arr.Storage(), metadata)
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

func signedAppender[T ~int8 | ~int16 | ~int32 | ~int64](values []T) jsonAppender {
	return func(dst []byte, row int) ([]byte, error) { return strconv.AppendInt(dst, int64(values[row]), 10), nil }
}

func unsignedAppender[T uint8 | uint16 | uint32 | uint64](values []T) jsonAppender {
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

// plainEnd returns where a run of plain text that starts at pos ends: at a
// quote, a backslash, a control character, a byte beyond ASCII or the end.
func plainEnd(data []byte, pos int) int {
	for pos+8 <= len(data) {
		if found := textBreak(binary.LittleEndian.Uint64(data[pos:])); found != 0 {
			return pos + bits.TrailingZeros64(found)>>3
		}
		pos += 8
	}
	for pos < len(data) && data[pos] >= ' ' && data[pos] < utf8.RuneSelf && data[pos] != '"' && data[pos] != '\\' {
		pos++
	}
	return pos
}

// appendRawJSON appends text that is JSON already.
func appendRawJSON(dst []byte, text string) ([]byte, error) {
	r := jsonReader{data: unsafe.Slice(unsafe.StringData(text), len(text))}
	err := r.skip()
	if err == nil {
		err = r.end()
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

func decimalAppender(arr arrow.Array) jsonAppender {
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
func quoted(appendTo jsonAppender) jsonAppender {
	return func(dst []byte, row int) ([]byte, error) {
		dst, err := appendTo(append(dst, '"'), row)
		return append(dst, '"'), err
	}
}

func (f jsonForm) timeAppender(arr arrow.Array) (jsonAppender, error) {
	switch arr := arr.(type) {
	case *array.Date32:
		if f.epochTimes {
			return signedAppender(arr.Date32Values()), nil
		}
		return quoted(func(dst []byte, row int) ([]byte, error) { return numtext.AppendDate(dst, int64(arr.Value(row))) }), nil
	case *array.Date64:
		if f.epochTimes {
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
		if f.epochTimes {
			return signedAppender(arr.Time32Values()), nil
		}
		unit := numtext.UnitOf(arr.DataType().(*arrow.Time32Type).Unit.Multiplier())
		return quoted(func(dst []byte, row int) ([]byte, error) {
			return numtext.AppendClock(dst, int64(arr.Value(row)), unit)
		}), nil
	case *array.Time64:
		if f.epochTimes {
			return signedAppender(arr.Time64Values()), nil
		}
		unit := numtext.UnitOf(arr.DataType().(*arrow.Time64Type).Unit.Multiplier())
		return quoted(func(dst []byte, row int) ([]byte, error) {
			return numtext.AppendClock(dst, int64(arr.Value(row)), unit)
		}), nil
	}
	times := arr.(*array.Timestamp)
	if f.epochTimes {
		return signedAppender(times.TimestampValues()), nil
	}
	unit := numtext.UnitOf(arr.DataType().(*arrow.TimestampType).Unit.Multiplier())
	return quoted(func(dst []byte, row int) ([]byte, error) {
		return numtext.AppendTime(dst, int64(times.Value(row)), unit)
	}), nil
}

func (f jsonForm) listAppender(arr array.ListLike) (jsonAppender, error) {
	elem := arr.DataType().(arrow.ListLikeType).ElemField()
	values, err := f.appender(arr.ListValues(), elem.Metadata)
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

func (f jsonForm) structAppender(arr *array.Struct) (jsonAppender, error) {
	columns := make([]jsonColumn, arr.NumField())
	for i, field := range arr.DataType().(*arrow.StructType).Fields() {
		var err error
		if columns[i], err = f.column(field, arr.Field(i), i == 0); err != nil {
			return nil, err
		}
	}
	return func(dst []byte, row int) ([]byte, error) { return appendObject(dst, columns, row) }, nil
}

// jsonColumn is a member of an object: a column with what stands in front of
// its values.
type jsonColumn struct {
	name   string
	prefix []byte
	append jsonAppender
}

func (f jsonForm) column(field arrow.Field, arr arrow.Array, first bool) (jsonColumn, error) {
	values, err := f.appender(arr, field.Metadata)
	if err != nil {
		return jsonColumn{}, &ColumnError{Column: field.Name, Row: namedcols.NoRow, Cause: err}
	}
	prefix, err := memberPrefix(field.Name, first)
	if err != nil {
		return jsonColumn{}, &ColumnError{Column: field.Name, Row: namedcols.NoRow, Cause: err}
	}
	return jsonColumn{field.Name, prefix, values}, nil
}

// memberPrefix returns a member name with what precedes and follows it.
func memberPrefix(name string, first bool) ([]byte, error) {
	var prefix []byte
	if !first {
		prefix = append(prefix, ',')
	}
	prefix, err := appendText(prefix, name)
	return append(prefix, ':'), err
}

func appendObject(dst []byte, columns []jsonColumn, row int) ([]byte, error) {
	dst = append(dst, '{')
	for i := range columns {
		var err error
		if dst, err = columns[i].append(append(dst, columns[i].prefix...), row); err != nil {
			return dst, &ColumnError{Column: columns[i].name, Row: row, Cause: err}
		}
	}
	return append(dst, '}'), nil
}

func (f jsonForm) mapAppender(arr *array.Map) (jsonAppender, error) {
	var keys jsonAppender
	var err error
	switch arr.Keys().(type) {
	case array.StringLike:
		keys, err = f.valueAppender(arr.Keys(), arrow.Metadata{})
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64:
		var numbers jsonAppender
		numbers, err = f.valueAppender(arr.Keys(), arrow.Metadata{})
		keys = quoted(numbers)
	default:
		//lint:ignore ST1005 Arrow is a name
		err = fmt.Errorf("Arrow type %s has no JSON form: its keys are not texts", arr.DataType())
	}
	if err != nil {
		return nil, err
	}
	items, err := f.appender(arr.Items(), arr.DataType().(*arrow.MapType).ItemField().Metadata)
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

func (f jsonForm) unionAppender(arr array.Union) (jsonAppender, error) {
	fields := arr.UnionType().Fields()
	members := make([]jsonAppender, len(fields))
	for i := range members {
		var err error
		if members[i], err = f.appender(arr.Field(i), fields[i].Metadata); err != nil {
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
