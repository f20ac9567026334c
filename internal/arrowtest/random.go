// SPDX-License-Identifier: Apache-2.0

package arrowtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// NewRand returns a generator whose seed is printed when the test fails; the
// variable COLUMNAR_TEST_SEED sets it.
func NewRand(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("COLUMNAR_TEST_SEED"); text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			tb.Fatalf("COLUMNAR_TEST_SEED: %v", err)
		}
		seed = parsed
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("seed: COLUMNAR_TEST_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// NewAllocator returns an allocator that fails the test when memory is
// left at its end.
func NewAllocator(tb testing.TB) *memory.CheckedAllocator {
	tb.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	tb.Cleanup(func() { mem.AssertSize(tb, 0) })
	return mem
}

// EveryType lists at least one type of every layout.
func EveryType() []arrow.DataType {
	nullable := func(dt arrow.DataType) arrow.Field { return arrow.Field{Name: "item", Type: dt, Nullable: true} }
	members := []arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String}
	return []arrow.DataType{
		arrow.Null,
		arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary,
		arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		&arrow.FixedSizeBinaryType{ByteWidth: 5},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time64us,
		&arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"},
		arrow.FixedWidthTypes.Duration_ns,
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		&arrow.Decimal32Type{Precision: 7, Scale: 2}, &arrow.Decimal64Type{Precision: 15, Scale: 2},
		&arrow.Decimal128Type{Precision: 30, Scale: 2}, &arrow.Decimal256Type{Precision: 60, Scale: 2},
		dictionary,
		arrow.ListOfField(nullable(arrow.PrimitiveTypes.Int32)),
		arrow.LargeListOfField(nullable(arrow.BinaryTypes.String)),
		arrow.ListViewOfField(nullable(arrow.BinaryTypes.String)),
		arrow.LargeListViewOfField(nullable(arrow.PrimitiveTypes.Float64)),
		arrow.FixedSizeListOfField(3, nullable(arrow.PrimitiveTypes.Int16)),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
		arrow.StructOf(members...),
		arrow.SparseUnionOf(members, []arrow.UnionTypeCode{3, 7}),
		arrow.DenseUnionOf(members, []arrow.UnionTypeCode{5, 1}),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64),
		extensions.NewUUIDType(),
		arrow.ListOfField(nullable(arrow.StructOf(
			arrow.Field{Name: "u", Type: arrow.DenseUnionOf(members, []arrow.UnionTypeCode{0, 1}), Nullable: true},
			arrow.Field{Name: "d", Type: dictionary, Nullable: true},
			arrow.Field{Name: "r", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int8), Nullable: true},
			arrow.Field{Name: "v", Type: arrow.ListViewOfField(nullable(arrow.BinaryTypes.StringView)), Nullable: true},
		))),
	}
}

// RandomArray returns an array with nulls of any type in [EveryType].
func RandomArray(r *rand.Rand, mem memory.Allocator, dt arrow.DataType, length int) arrow.Array {
	builder := array.NewBuilder(mem, dt)
	defer builder.Release()
	for range length {
		appendRandom(r, builder)
	}
	return builder.NewArray()
}

func appendRandom(r *rand.Rand, builder array.Builder) {
	if r.IntN(5) == 0 {
		builder.AppendNull()
		return
	}
	text := func() string {
		const letters = "The quick brown fox jumps over the lazy dog, twice a day."
		from := r.IntN(len(letters))
		return letters[from : from+r.IntN(min(30, len(letters)-from)+1)]
	}
	switch b := builder.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Int8Builder:
		b.Append(int8(r.Int()))
	case *array.Int16Builder:
		b.Append(int16(r.Int()))
	case *array.Int32Builder:
		b.Append(int32(r.Int()))
	case *array.Int64Builder:
		b.Append(int64(r.Uint64()))
	case *array.Uint8Builder:
		b.Append(uint8(r.Int()))
	case *array.Uint16Builder:
		b.Append(uint16(r.Int()))
	case *array.Uint32Builder:
		b.Append(r.Uint32())
	case *array.Uint64Builder:
		b.Append(r.Uint64())
	case *array.Float16Builder:
		b.Append(float16.New(r.Float32()))
	case *array.Float32Builder:
		b.Append(r.Float32())
	case *array.Float64Builder:
		b.Append(r.NormFloat64())
	case array.StringLikeBuilder:
		b.Append(text())
	case array.BinaryLikeBuilder:
		b.Append([]byte("<" + text()))
	case *array.FixedSizeBinaryBuilder:
		b.Append(fmt.Appendf(nil, "%05d", r.IntN(1e5)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(r.IntN(20000)))
	case *array.Date64Builder:
		b.Append(arrow.Date64(int64(r.IntN(20000)) * 86_400_000))
	case *array.Time32Builder:
		b.Append(arrow.Time32(r.IntN(86400)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.Int64N(86_400_000_000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(r.Int64N(2e12)))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(r.Int64N(1e15)))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(r.IntN(100)))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(r.IntN(100)), Milliseconds: int32(r.IntN(1000))})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(r.IntN(12)), Days: int32(r.IntN(30)), Nanoseconds: r.Int64N(1e9)})
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(r.IntN(1e6) - 5e5))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(r.Int64N(1e12)))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(r.IntN(1000))-500, r.Uint64()))
	case *array.Decimal256Builder:
		b.Append(decimal256.New(0, uint64(r.IntN(1000)), r.Uint64(), r.Uint64()))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(fmt.Sprint("word ", r.IntN(9))); err != nil {
			panic(err)
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range r.IntN(4) {
			b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprint("k", i))
			appendRandom(r, b.ItemBuilder())
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendRandom(r, b.ValueBuilder())
		}
	case array.VarLenListLikeBuilder:
		length := r.IntN(4)
		b.AppendWithSize(true, length)
		for range length {
			appendRandom(r, b.ValueBuilder())
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(r, b.FieldBuilder(i))
		}
	case *array.SparseUnionBuilder:
		codes := b.Type().(arrow.UnionType).TypeCodes()
		child := r.IntN(len(codes))
		b.Append(codes[child])
		for i := range codes {
			if i == child {
				appendRandom(r, b.Child(i))
			} else {
				b.Child(i).AppendEmptyValue()
			}
		}
	case *array.DenseUnionBuilder:
		codes := b.Type().(arrow.UnionType).TypeCodes()
		child := r.IntN(len(codes))
		b.Append(codes[child])
		appendRandom(r, b.Child(child))
	case *array.RunEndEncodedBuilder:
		if b.Len() > 0 && r.IntN(2) == 0 {
			b.ContinueRun(1)
			return
		}
		b.Append(1)
		appendRandom(r, b.ValueBuilder())
	case *array.ExtensionBuilder:
		b.StorageBuilder().(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%016d", r.Int64N(1e16)))
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte(fmt.Appendf(nil, "%016d", r.Int64N(1e16))))
	default:
		panic(fmt.Sprintf("no random values for %T", builder))
	}
}
