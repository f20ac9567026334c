// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// compareNumbers compares *big.Rat and *big.Int by value.
var compareNumbers = cmp.Options{
	cmp.Comparer(func(a, b *big.Rat) bool { return a.Cmp(b) == 0 }),
	cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }),
}

func TestValuesOfEveryTypeCanBeAppended(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			whole := arrowtest.RandomArray(r, mem, dt, 80)
			defer whole.Release()
			source := array.NewSlice(whole, 9, 71)
			defer source.Release()
			builder := array.NewBuilder(mem, dt)
			defer builder.Release()
			for row := range source.Len() {
				if err := AppendValue(builder, Value(source, row)); err != nil {
					t.Fatalf("row %d, %s: %v", row, source.ValueStr(row), err)
				}
			}
			copied := builder.NewArray()
			defer copied.Release()
			if diff := cmp.Diff(arrowtest.Texts(source), arrowtest.Texts(copied)); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func rat(text string) *big.Rat {
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return v
}

func bigInt(text string) *big.Int {
	v, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic(text)
	}
	return v
}

var (
	int8Type   = arrow.PrimitiveTypes.Int8
	int32Type  = arrow.PrimitiveTypes.Int32
	int64Type  = arrow.PrimitiveTypes.Int64
	uint8Type  = arrow.PrimitiveTypes.Uint8
	uint64Type = arrow.PrimitiveTypes.Uint64
	floatType  = arrow.PrimitiveTypes.Float64
	textType   = arrow.BinaryTypes.String
	centsType  = &arrow.Decimal128Type{Precision: 5, Scale: 2}
	tensType   = &arrow.Decimal256Type{Precision: 4, Scale: -1}
	clockTime  = 13*time.Hour + 30*time.Minute + 5*time.Second + 123456789
	plusFour   = time.FixedZone("", 4*3600)
	intOrText  = arrow.DenseUnionOf([]arrow.Field{
		{Name: "small", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: "large", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "time", Type: arrow.FixedWidthTypes.Time64ns, Nullable: true},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8), Nullable: true},
		{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8), Nullable: true},
		{Name: "number", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "money", Type: centsType, Nullable: true},
		{Name: "bytes", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, []arrow.UnionTypeCode{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
)

type userID uint16

func TestAppendValueConverts(t *testing.T) {
	for _, test := range []struct {
		dt          arrow.DataType
		value, want any
	}{
		{textType, "ada", "ada"},
		{textType, []byte("ada"), "ada"},
		{textType, 7, "7"},
		{textType, rat("10/4"), "2.5"},
		{textType, rat("-3"), "-3"},
		{textType, rat("1/3"), "0.33333333333333333333333333333333333333"},
		{textType, nil, nil},
		{arrow.BinaryTypes.LargeString, true, "true"},
		{arrow.BinaryTypes.StringView, "a text that is too long to be inlined", "a text that is too long to be inlined"},
		{arrow.BinaryTypes.Binary, "x", []byte("x")},
		{arrow.BinaryTypes.Binary, []byte{}, []byte{}},
		{arrow.BinaryTypes.LargeBinary, []byte{1}, []byte{1}},
		{arrow.BinaryTypes.BinaryView, []byte{1}, []byte{1}},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, "ab", []byte("ab")},
		{int64Type, int64(7), int64(7)},
		{int64Type, userID(7), int64(7)},
		{int64Type, 3.0, int64(3)},
		{int64Type, float32(-3), int64(-3)},
		{int64Type, math.MinInt64 + 0.0, int64(math.MinInt64)},
		{int64Type, bigInt("-9223372036854775808"), int64(math.MinInt64)},
		{int64Type, rat("8/2"), int64(4)},
		{int64Type, "-12", int64(-12)},
		{int64Type, "+12", int64(12)},
		{int8Type, uint64(127), int8(127)},
		{uint8Type, 255, uint8(255)},
		{uint64Type, uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{uint64Type, bigInt("18446744073709551615"), uint64(math.MaxUint64)},
		{floatType, rat("1/2"), 0.5},
		{floatType, bigInt("9007199254740993"), 9007199254740992.0},
		{floatType, uint8(3), 3.0},
		{floatType, "12", 12.0},
		{arrow.PrimitiveTypes.Float32, 0.1, float32(0.1)},
		{arrow.PrimitiveTypes.Float32, math.Inf(1), float32(math.Inf(1))},
		{arrow.FixedWidthTypes.Float16, 0.5, float32(0.5)},
		{arrow.FixedWidthTypes.Boolean, true, true},
		{arrow.FixedWidthTypes.Date32, time.Date(1970, 1, 3, 1, 0, 0, 0, plusFour), int32(2)},
		{arrow.FixedWidthTypes.Date32, time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC), int32(-1)},
		{arrow.FixedWidthTypes.Date32, 5, int32(5)},
		{arrow.FixedWidthTypes.Date64, time.Date(1970, 1, 3, 1, 0, 0, 0, plusFour), int64(2 * 86_400_000)},
		{arrow.FixedWidthTypes.Timestamp_ms, time.Date(1970, 1, 1, 4, 0, 1, 2_999_999, plusFour), int64(1002)},
		{arrow.FixedWidthTypes.Timestamp_s, time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC), int64(-1)},
		{arrow.FixedWidthTypes.Timestamp_us, 5, int64(5)},
		{arrow.FixedWidthTypes.Time32s, clockTime, int32(48605)},
		{arrow.FixedWidthTypes.Time32ms, clockTime, int32(48605123)},
		{arrow.FixedWidthTypes.Time64us, clockTime, int64(48605123456)},
		{arrow.FixedWidthTypes.Time64ns, clockTime, int64(48605123456789)},
		{arrow.FixedWidthTypes.Time64ns, nil, nil},
		{arrow.FixedWidthTypes.Duration_ms, 1999 * time.Microsecond, int64(1)},
		{arrow.FixedWidthTypes.Duration_ms, 5, int64(5)},
		{arrow.FixedWidthTypes.MonthInterval, 5, arrow.MonthInterval(5)},
		{arrow.FixedWidthTypes.DayTimeInterval, arrow.DayTimeInterval{Days: 1}, arrow.DayTimeInterval{Days: 1}},
		{centsType, rat("-12.34"), rat("-12.34")},
		{centsType, "999.99", rat("999.99")},
		{centsType, "+.5e1", rat("5")},
		{centsType, "12340e-2", rat("123.4")},
		{centsType, "0e99", rat("0")},
		{centsType, 0.25, rat("0.25")},
		{centsType, 7, rat("7")},
		{centsType, bigInt("-7"), rat("-7")},
		{centsType, (*big.Int)(nil), nil},
		{tensType, 99990, rat("99990")},
		{tensType, "0", rat("0")},
		{tensType, "9.999e4", rat("99990")},
		{&arrow.Decimal32Type{Precision: 9, Scale: 0}, "-999999999", rat("-999999999")},
		{&arrow.Decimal64Type{Precision: 18, Scale: 9}, 1.5, rat("1.5")},
		{arrow.ListOf(int8Type), []any{1, nil, "3"}, []any{int8(1), nil, int8(3)}},
		{arrow.ListOf(int8Type), []int{1, 2}, []any{int8(1), int8(2)}},
		{arrow.LargeListOf(int8Type), [2]uint64{1, 2}, []any{int8(1), int8(2)}},
		{arrow.ListViewOf(textType), []string{"a"}, []any{"a"}},
		{arrow.FixedSizeListOf(2, int8Type), []byte{1, 2}, []any{int8(1), int8(2)}},
		{arrow.StructOf(arrow.Field{Name: "a", Type: int8Type, Nullable: true}, arrow.Field{Name: "b", Type: textType, Nullable: true}),
			map[string]any{"b": 1, "c": 2}, map[string]any{"a": nil, "b": "1"}},
		{arrow.MapOf(arrow.PrimitiveTypes.Int16, textType), map[string]any{"10": "x", "-2": nil}, map[string]any{"10": "x", "-2": nil}},
		{intOrText, 100, int8(100)},
		{intOrText, 1000, int64(1000)},
		{intOrText, bigInt("1000"), int64(1000)},
		{intOrText, "x", "x"},
		{intOrText, []byte("x"), []byte("x")},
		{intOrText, false, false},
		{intOrText, 1.5, float32(1.5)},
		{intOrText, rat("1.5"), rat("1.5")},
		{intOrText, time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), int32(1)},
		{intOrText, time.Second, int64(1e9)},
		{intOrText, []any{1}, []any{int8(1)}},
		{intOrText, map[string]any{"a": 1}, map[string]any{"a": int8(1)}},
		{intOrText, nil, nil},
		{&arrow.DictionaryType{IndexType: int8Type, ValueType: textType}, "a", "a"},
		{&arrow.DictionaryType{IndexType: int8Type, ValueType: int64Type}, "7", int64(7)},
		{arrow.RunEndEncodedOf(int32Type, int64Type), 7, int64(7)},
		{extensions.NewUUIDType(), "0123456789abcdef", []byte("0123456789abcdef")},
	} {
		mem := arrowtest.NewAllocator(t)
		builder := array.NewBuilder(mem, test.dt)
		err := AppendValue(builder, test.value)
		if err != nil {
			t.Errorf("AppendValue(%s, %T %v): %v", test.dt, test.value, test.value, err)
		} else {
			column := builder.NewArray()
			if diff := cmp.Diff(test.want, Value(column, 0), compareNumbers); diff != "" || column.Len() != 1 {
				t.Errorf("AppendValue(%s, %T %v) gave %d rows, mismatch (-want +got):\n%s", test.dt, test.value, test.value, column.Len(), diff)
			}
			column.Release()
		}
		builder.Release()
	}
}

func TestAppendValueRefusesAndAppendsNothing(t *testing.T) {
	person := arrow.StructOf(
		arrow.Field{Name: "name", Type: textType, Nullable: true},
		arrow.Field{Name: "ages", Type: arrow.ListOf(int8Type)},
	)
	for _, test := range []struct {
		dt    arrow.DataType
		value any
		want  string
	}{
		{arrow.Null, 1, "cannot write Arrow type null"},
		{arrow.BinaryTypes.Binary, 1, "cannot write int into a binary column"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 4}, []byte{1}, "fixed-size binary column requires 4 bytes, got 1"},
		{arrow.FixedWidthTypes.Boolean, 1, "cannot write int into a boolean column"},
		{int8Type, 128, "integer overflow: 128"},
		{int8Type, -129, "integer overflow: -129"},
		{int64Type, uint64(math.MaxUint64), "integer overflow: 18446744073709551615"},
		{int64Type, bigInt("9223372036854775808"), "integer overflow: 9223372036854775808"},
		{int64Type, 1e19, "integer overflow: 10000000000000000000"},
		{int64Type, 1.5, "not an integer: 1.5"},
		{int64Type, math.NaN(), "not an integer: NaN"},
		{int64Type, math.Inf(1), "not an integer: +Inf"},
		{int64Type, rat("1/2"), "not an integer: 1/2"},
		{int64Type, " 1", `not an integer: " 1"`},
		{int64Type, "1_0", `not an integer: "1_0"`},
		{int64Type, "0x1", `not an integer: "0x1"`},
		{int64Type, "+", `not an integer: "+"`},
		{int64Type, true, "cannot convert bool to an integer"},
		{int64Type, []any{}, "cannot convert []interface {} to an integer"},
		{uint8Type, 256, "unsigned 8-bit overflow: 256"},
		{uint8Type, -1, "unsigned 8-bit overflow: -1"},
		{uint8Type, bigInt("18446744073709551615"), "unsigned 8-bit overflow: 18446744073709551615"},
		{uint64Type, bigInt("18446744073709551616"), "unsigned 64-bit overflow: 18446744073709551616"},
		{floatType, true, "cannot convert bool to a float"},
		{floatType, []byte("1"), "cannot convert []uint8 to a float"},
		{floatType, "1.5", `not an integer: "1.5"`},
		{floatType, rat("1e400"), "64-bit float overflow: " + rat("1e400").String()},
		{arrow.PrimitiveTypes.Float32, 1e39, "32-bit float overflow: 1e+39"},
		{arrow.FixedWidthTypes.Float16, 70000, "16-bit float overflow: 70000"},
		{arrow.FixedWidthTypes.Date32, math.MaxInt32 + 1, "integer overflow: 2147483648"},
		{arrow.FixedWidthTypes.Date32, "x", `not an integer: "x"`},
		{arrow.FixedWidthTypes.Timestamp_ns, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), "timestamp overflow: 3000-01-01 00:00:00 +0000 UTC"},
		{arrow.FixedWidthTypes.Time32ms, time.Duration(math.MaxInt64), "integer overflow: 9223372036854"},
		{arrow.FixedWidthTypes.Time32s, time.Now().UTC(), "cannot convert time.Time to an integer"},
		{arrow.FixedWidthTypes.DayTimeInterval, 1, "cannot write Arrow type day_time_interval"},
		{centsType, "1/3", `not a decimal: "1/3"`},
		{centsType, "", `not a decimal: ""`},
		{centsType, "+-1", `not a decimal: "+-1"`},
		{centsType, "1e", `not a decimal: "1e"`},
		{centsType, ".", `not a decimal: "."`},
		{centsType, true, "cannot convert bool to a decimal"},
		{centsType, []byte("1"), "cannot convert []uint8 to a decimal"},
		{centsType, "0.001", "decimal value does not fit scale 2"},
		{centsType, rat("1/3"), "decimal value does not fit scale 2"},
		{centsType, 0.1, "decimal value does not fit scale 2"},
		{centsType, math.NaN(), "not a decimal: NaN"},
		{centsType, math.Inf(-1), "not a decimal: -Inf"},
		{centsType, "1000", "decimal value does not fit precision 5"},
		{centsType, 1000, "decimal value does not fit precision 5"},
		{centsType, "1e2000000000", "decimal value does not fit precision 5"},
		{centsType, bigInt("1" + zeros(200)), "decimal value does not fit precision 5"},
		{tensType, 5, "decimal value does not fit scale -1"},
		{arrow.ListOf(int8Type), "abc", "cannot write string into a list column"},
		{arrow.ListOf(int8Type), []any{1, 300}, "item 1: integer overflow: 300"},
		{arrow.ListOfNonNullable(int8Type), []any{1, nil}, "item 1: null in a field that is not nullable"},
		{arrow.FixedSizeListOf(2, int8Type), []any{1}, "fixed-size list requires 2 values, got 1"},
		{arrow.FixedSizeListOf(2, int8Type), []any{1, true}, "item 1: cannot convert bool to an integer"},
		{person, []any{}, "cannot write []interface {} into a struct column"},
		{person, map[string]any{"name": "a"}, `field "ages": null in a field that is not nullable`},
		{person, map[string]any{"name": "a", "ages": []any{1, 999}}, `field "ages": item 1: integer overflow: 999`},
		{arrow.MapOf(textType, int8Type), map[string]int{}, "cannot write map[string]int into a map column"},
		{arrow.MapOf(textType, int8Type), map[string]any{"a": 1, "b": "x"}, `key "b": not an integer: "x"`},
		{arrow.MapOf(int8Type, int8Type), map[string]any{"x": 1}, `key "x": not an integer: "x"`},
		{intOrText, struct{}{}, "no Arrow union member accepts struct {}"},
		{intOrText, bigInt("9223372036854775808"), `member "small": integer overflow: 9223372036854775808`},
		{&arrow.DictionaryType{IndexType: int8Type, ValueType: int64Type}, "x", `not an integer: "x"`},
		{arrow.RunEndEncodedOf(int32Type, int64Type), "x", `not an integer: "x"`},
		{extensions.NewUUIDType(), "short", "fixed-size binary column requires 16 bytes, got 5"},
	} {
		mem := arrowtest.NewAllocator(t)
		builder := array.NewBuilder(mem, test.dt)
		if err := AppendValue(builder, nil); err != nil {
			t.Fatal(err)
		}
		err := AppendValue(builder, test.value)
		if err == nil || err.Error() != test.want {
			t.Errorf("AppendValue(%s, %T %v): error %v, want %q", test.dt, test.value, test.value, err, test.want)
		}
		column := builder.NewArray()
		if column.Len() != 1 {
			t.Errorf("AppendValue(%s, %T %v) left %d rows, want 1", test.dt, test.value, test.value, column.Len())
		}
		if validator, ok := column.(interface{ ValidateFull() error }); ok {
			if err := validator.ValidateFull(); err != nil {
				t.Errorf("after AppendValue(%s, %T %v): %v", test.dt, test.value, test.value, err)
			}
		}
		column.Release()
		builder.Release()
	}
}

func zeros(count int) string {
	text := make([]byte, count)
	for i := range text {
		text[i] = '0'
	}
	return string(text)
}

func TestValueOfNegativeScaleIsScaled(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewBuilder(mem, tensType)
	defer builder.Release()
	if err := AppendValue(builder, 1230); err != nil {
		t.Fatal(err)
	}
	column := builder.NewArray()
	defer column.Release()
	if got := Value(column, 0).(*big.Rat); got.Cmp(rat("1230")) != 0 {
		t.Errorf("Value = %v, want 1230", got)
	}
}

func TestValueSharesNoMemoryWithItsColumn(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	for _, dt := range []arrow.DataType{textType, arrow.BinaryTypes.Binary, arrow.BinaryTypes.StringView, &arrow.FixedSizeBinaryType{ByteWidth: 4}} {
		builder := array.NewBuilder(mem, dt)
		if err := AppendValue(builder, "abcd"); err != nil {
			t.Fatal(err)
		}
		column := builder.NewArray()
		value := Value(column, 0)
		for _, buffer := range column.Data().Buffers() {
			if buffer != nil {
				clear(buffer.Bytes())
			}
		}
		if got := coerceText(value); got != "abcd" {
			t.Errorf("%s: the value became %q", dt, got)
		}
		column.Release()
		builder.Release()
	}
}

func TestValueOfEmptyBytesIsNotNil(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewBinaryBuilder(mem, arrow.BinaryTypes.Binary)
	defer builder.Release()
	builder.Append([]byte{})
	column := builder.NewArray()
	defer column.Release()
	if got, ok := Value(column, 0).([]byte); !ok || got == nil || len(got) != 0 {
		t.Errorf("Value = %#v, want an empty slice", got)
	}
}
