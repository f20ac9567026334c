// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"sort"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

var errNullElement = errors.New("null in a field that is not nullable")

// Coerce converts a Go value that is not nil to what [put] writes into a column
// of that type. It either converts the whole of a nested value or fails.
func Coerce(dt arrow.DataType, value any) (any, error) {
	switch dt := StorageType(dt).(type) {
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return coerceText(value), nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return coerceBytes(value)
	case *arrow.FixedSizeBinaryType:
		data, err := coerceBytes(value)
		if err == nil && len(data) != dt.ByteWidth {
			err = fmt.Errorf("fixed-size binary column requires %d bytes, got %d", dt.ByteWidth, len(data))
		}
		return data, err
	case *arrow.BooleanType:
		if v, ok := value.(bool); ok {
			return v, nil
		}
		return nil, fmt.Errorf("cannot write %T into a boolean column", value)
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return coerceSigned(value, dt.(arrow.FixedWidthDataType).BitWidth())
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		return coerceUnsigned(value, dt.(arrow.FixedWidthDataType).BitWidth())
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		return coerceFloat(value, dt.(arrow.FixedWidthDataType).BitWidth())
	case *arrow.Date32Type, *arrow.Date64Type, *arrow.TimestampType, *arrow.Time32Type, *arrow.Time64Type, *arrow.DurationType:
		return coerceTime(dt, value)
	case arrow.DecimalType:
		return coerceDecimal(dt, value)
	case *arrow.MonthIntervalType:
		if v, ok := value.(arrow.MonthInterval); ok {
			return v, nil
		}
		months, err := coerceSigned(value, 32)
		return arrow.MonthInterval(months), err
	case *arrow.DayTimeIntervalType:
		if v, ok := value.(arrow.DayTimeInterval); ok {
			return v, nil
		}
	case *arrow.MonthDayNanoIntervalType:
		if v, ok := value.(arrow.MonthDayNanoInterval); ok {
			return v, nil
		}
	case *arrow.MapType:
		return coerceMap(dt, value)
	case arrow.ListLikeType:
		return coerceList(dt, value)
	case *arrow.StructType:
		return coerceStruct(dt, value)
	case arrow.UnionType:
		return coerceUnion(dt, value)
	case *arrow.DictionaryType:
		return Coerce(dt.ValueType, value)
	case *arrow.RunEndEncodedType:
		return Coerce(dt.Encoded(), value)
	}
	return nil, fmt.Errorf("cannot write Arrow type %s", dt)
}

func coerceText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case *big.Rat:
		return numtext.RatText(v)
	}
	return fmt.Sprint(value)
}

func coerceBytes(value any) ([]byte, error) {
	switch v := value.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("cannot write %T into a binary column", value)
}

// integerOf returns the integer that a value stands for: as int64 where it
// fits, or as a big integer.
func integerOf(value any) (int64, *big.Int, error) {
	switch v := value.(type) {
	case int64:
		return v, nil, nil
	case int:
		return int64(v), nil, nil
	case *big.Int:
		return shortInt(v)
	case *big.Rat:
		if !v.IsInt() {
			return 0, nil, fmt.Errorf("not an integer: %v", v)
		}
		return shortInt(v.Num())
	case string:
		whole, ok := integerText(v)
		if !ok {
			return 0, nil, fmt.Errorf("not an integer: %q", v)
		}
		return shortInt(whole)
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if v.Uint() <= math.MaxInt64 {
			return int64(v.Uint()), nil, nil
		}
		return 0, new(big.Int).SetUint64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		if v.Float() != math.Trunc(v.Float()) || math.IsInf(v.Float(), 0) {
			return 0, nil, fmt.Errorf("not an integer: %v", value)
		}
		whole, _ := big.NewFloat(v.Float()).Int(nil)
		return shortInt(whole)
	}
	return 0, nil, fmt.Errorf("cannot convert %T to an integer", value)
}

func shortInt(v *big.Int) (int64, *big.Int, error) {
	if v.IsInt64() {
		return v.Int64(), nil, nil
	}
	return 0, v, nil
}

// integerText reads an integer in base 10: digits with an optional sign.
func integerText(text string) (*big.Int, bool) {
	digits := text
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if digits == "" || numtext.SkipDigits([]byte(digits), 0) != len(digits) {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}

func coerceSigned(value any, width int) (int64, error) {
	v, large, err := integerOf(value)
	if err != nil {
		return 0, err
	}
	if large != nil {
		return 0, fmt.Errorf("integer overflow: %s", large)
	}
	if limit := int64(1) << (width - 1); width < 64 && (v >= limit || v < -limit) {
		return 0, fmt.Errorf("integer overflow: %d", v)
	}
	return v, nil
}

func coerceUnsigned(value any, width int) (uint64, error) {
	v, large, err := integerOf(value)
	if err != nil {
		return 0, err
	}
	if large != nil {
		if width < 64 || !large.IsUint64() {
			return 0, fmt.Errorf("unsigned %d-bit overflow: %s", width, large)
		}
		return large.Uint64(), nil
	}
	if v < 0 || width < 64 && v >= 1<<width {
		return 0, fmt.Errorf("unsigned %d-bit overflow: %d", width, v)
	}
	return uint64(v), nil
}

// coerceFloat converts to a float of that many bits. A finite value that
// overflows is an error; one that is between two floats is rounded.
func coerceFloat(value any, width int) (float64, error) {
	v, err := floatOf(value)
	if err != nil {
		return 0, err
	}
	rounded := v
	switch width {
	case 32:
		rounded = float64(float32(v))
	case 16:
		rounded = float64(float16.New(float32(v)).Float32())
	}
	if math.IsInf(rounded, 0) && !isInfinite(value) {
		return 0, fmt.Errorf("%d-bit float overflow: %v", width, value)
	}
	return rounded, nil
}

func isInfinite(value any) bool {
	v := reflect.ValueOf(value)
	return v.CanFloat() && math.IsInf(v.Float(), 0)
}

func floatOf(value any) (float64, error) {
	switch v := value.(type) {
	case float64:
		return v, nil
	case float32:
		return float64(v), nil
	case *big.Rat:
		f, _ := v.Float64()
		return f, nil
	case bool:
		return 0, fmt.Errorf("cannot convert %T to a float", value)
	}
	if v := reflect.ValueOf(value); v.CanFloat() {
		return v.Float(), nil
	}
	short, large, err := integerOf(value)
	if err != nil {
		if _, text := value.(string); text {
			return 0, err
		}
		return 0, fmt.Errorf("cannot convert %T to a float", value)
	}
	if large != nil {
		f, _ := new(big.Float).SetInt(large).Float64()
		return f, nil
	}
	return float64(short), nil
}

// coerceTime converts to the integer of a date, time or duration column.
func coerceTime(dt arrow.DataType, value any) (int64, error) {
	width := dt.(arrow.FixedWidthDataType).BitWidth()
	switch v := value.(type) {
	case time.Time:
		switch dt := dt.(type) {
		case *arrow.Date32Type:
			return coerceSigned(dayOf(v), 32)
		case *arrow.Date64Type:
			return dayOf(v) * 86_400_000, nil
		case *arrow.TimestampType:
			at, err := numtext.InUnit(v.Unix(), int64(v.Nanosecond()), numtext.UnitOf(dt.Unit.Multiplier()))
			if err != nil {
				return 0, fmt.Errorf("timestamp overflow: %v", v)
			}
			return at, nil
		}
		return 0, fmt.Errorf("cannot convert %T to an integer", value)
	case time.Duration:
		switch dt := dt.(type) {
		case *arrow.Time32Type:
			return coerceSigned(int64(v/dt.Unit.Multiplier()), width)
		case *arrow.Time64Type:
			return int64(v / dt.Unit.Multiplier()), nil
		case *arrow.DurationType:
			return int64(v / dt.Unit.Multiplier()), nil
		}
	}
	return coerceSigned(value, width)
}

// dayOf returns the days from the epoch to the day of a time in its own zone.
func dayOf(t time.Time) int64 {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// coerceDecimal converts to the unscaled integer of a decimal column.
func coerceDecimal(dt arrow.DecimalType, value any) (*big.Int, error) {
	var v *big.Rat
	switch value := value.(type) {
	case *big.Rat:
		v = value
	case string:
		d, ok := numtext.ParseDecimal(value)
		if !ok {
			return nil, fmt.Errorf("not a decimal: %q", value)
		}
		if len(d.Digits) == 0 {
			return new(big.Int), nil
		}
		if d.Exponent < -int(dt.GetScale()) {
			return nil, fmt.Errorf("decimal value does not fit scale %d", dt.GetScale())
		}
		if len(d.Digits)+d.Exponent > int(dt.GetPrecision()-dt.GetScale()) {
			return nil, errPrecision(dt)
		}
		unscaled, _ := new(big.Int).SetString(string(d.Digits), 10)
		unscaled.Mul(unscaled, numtext.PowerOfTen(int32(d.Exponent)+dt.GetScale()))
		if d.Negative {
			unscaled.Neg(unscaled)
		}
		return unscaled, nil
	case bool:
		return nil, fmt.Errorf("cannot convert %T to a decimal", value)
	default:
		if f := reflect.ValueOf(value); f.CanFloat() {
			if v = new(big.Rat).SetFloat64(f.Float()); v == nil {
				return nil, fmt.Errorf("not a decimal: %v", value)
			}
			break
		}
		short, large, err := integerOf(value)
		if err != nil {
			return nil, fmt.Errorf("cannot convert %T to a decimal", value)
		}
		if large == nil {
			large = big.NewInt(short)
		}
		v = new(big.Rat).SetInt(large)
	}
	scale := dt.GetScale()
	unscaled, divisor := new(big.Int).Set(v.Num()), new(big.Int).Set(v.Denom())
	if scale < 0 {
		divisor.Mul(divisor, numtext.PowerOfTen(-scale))
	} else {
		unscaled.Mul(unscaled, numtext.PowerOfTen(scale))
	}
	rest := new(big.Int)
	if unscaled.QuoRem(unscaled, divisor, rest); rest.Sign() != 0 {
		return nil, fmt.Errorf("decimal value does not fit scale %d", scale)
	}
	if unscaled.CmpAbs(numtext.PowerOfTen(dt.GetPrecision())) >= 0 {
		return nil, errPrecision(dt)
	}
	return unscaled, nil
}

func errPrecision(dt arrow.DecimalType) error {
	return fmt.Errorf("decimal value does not fit precision %d", dt.GetPrecision())
}

// element converts a part of a nested value, which may be nil.
func element(field arrow.Field, value any) (any, error) {
	if isNil(value) {
		if !field.Nullable {
			return nil, errNullElement
		}
		return nil, nil
	}
	return Coerce(field.Type, value)
}

// isNil reports whether a value stands for null.
func isNil(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case *big.Int:
		return v == nil
	case *big.Rat:
		return v == nil
	}
	return false
}

func coerceList(dt arrow.ListLikeType, value any) ([]any, error) {
	items := reflect.ValueOf(value)
	if items.Kind() != reflect.Slice && items.Kind() != reflect.Array {
		return nil, fmt.Errorf("cannot write %T into a list column", value)
	}
	if fixed, ok := dt.(*arrow.FixedSizeListType); ok && items.Len() != int(fixed.Len()) {
		return nil, fmt.Errorf("fixed-size list requires %d values, got %d", fixed.Len(), items.Len())
	}
	values := make([]any, items.Len())
	field := dt.ElemField()
	for i := range values {
		var err error
		if values[i], err = element(field, items.Index(i).Interface()); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return values, nil
}

func coerceStruct(dt *arrow.StructType, value any) ([]any, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("cannot write %T into a struct column", value)
	}
	values := make([]any, dt.NumFields())
	for i, field := range dt.Fields() {
		var err error
		if values[i], err = element(field, members[field.Name]); err != nil {
			return nil, fmt.Errorf("field %q: %w", field.Name, err)
		}
	}
	return values, nil
}

// mapEntries are the entries of a map value, by ascending text of the key.
type mapEntries struct{ keys, items []any }

func coerceMap(dt *arrow.MapType, value any) (mapEntries, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return mapEntries{}, fmt.Errorf("cannot write %T into a map column", value)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	entries := mapEntries{make([]any, len(names)), make([]any, len(names))}
	for i, name := range names {
		var err error
		if entries.keys[i], err = Coerce(dt.KeyType(), name); err != nil {
			return mapEntries{}, fmt.Errorf("key %q: %w", name, err)
		}
		if entries.items[i], err = element(dt.ItemField(), members[name]); err != nil {
			return mapEntries{}, fmt.Errorf("key %q: %w", name, err)
		}
	}
	return entries, nil
}

// unionValue is a value for one member of a union.
type unionValue struct {
	member int
	value  any
}

// coerceUnion converts to the first member that accepts the kind of a value and
// can hold it.
func coerceUnion(dt arrow.UnionType, value any) (unionValue, error) {
	accepted := unionTypes(value)
	var first error
	for i, field := range dt.Fields() {
		if !slices.Contains(accepted, StorageType(field.Type).ID()) {
			continue
		}
		converted, err := Coerce(field.Type, value)
		if err == nil {
			return unionValue{i, converted}, nil
		}
		if first == nil {
			first = fmt.Errorf("member %q: %w", field.Name, err)
		}
	}
	if first == nil {
		first = fmt.Errorf("no Arrow union member accepts %T", value)
	}
	return unionValue{}, first
}

// unionTypes returns the types of members that accept the kind of a value.
func unionTypes(value any) []arrow.Type {
	switch value.(type) {
	case string:
		return []arrow.Type{arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW}
	case []byte:
		return []arrow.Type{arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY, arrow.BINARY_VIEW}
	case bool:
		return []arrow.Type{arrow.BOOL}
	case float32, float64:
		return []arrow.Type{arrow.FLOAT32, arrow.FLOAT64}
	case *big.Rat:
		return []arrow.Type{arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256}
	case time.Time:
		return []arrow.Type{arrow.DATE32, arrow.DATE64, arrow.TIMESTAMP}
	case time.Duration:
		return []arrow.Type{arrow.TIME32, arrow.TIME64, arrow.DURATION}
	case map[string]any:
		return []arrow.Type{arrow.STRUCT, arrow.MAP}
	case *big.Int:
		return integerTypes
	}
	switch v := reflect.ValueOf(value); {
	case v.CanInt(), v.CanUint():
		return integerTypes
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		return []arrow.Type{arrow.LIST, arrow.LARGE_LIST, arrow.FIXED_SIZE_LIST, arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW}
	}
	return nil
}

var integerTypes = []arrow.Type{
	arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
}
