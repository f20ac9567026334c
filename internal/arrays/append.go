// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// AppendValue appends a Go value to a builder, converted to the builder's type;
// nil is a null. Package columnar lists what each type accepts. After an error
// the builder is as before, but for a dictionary inside a nested type that runs
// out of indexes.
func AppendValue(builder array.Builder, value any) error {
	switch b := builder.(type) {
	case *array.Int64Builder:
		if v, ok := value.(int64); ok {
			b.Append(v)
			return nil
		}
	case *array.Float64Builder:
		if v, ok := value.(float64); ok {
			b.Append(v)
			return nil
		}
	case *array.StringBuilder:
		if v, ok := value.(string); ok {
			b.Append(v)
			return nil
		}
	}
	if isNil(value) {
		builder.AppendNull()
		return nil
	}
	converted, err := Coerce(builder.Type(), value)
	if err != nil {
		return err
	}
	return put(builder, converted)
}

// put appends what coerce has returned for the builder's type, or nil.
func put(builder array.Builder, value any) error {
	if value == nil {
		builder.AppendNull()
		return nil
	}
	switch b := builder.(type) {
	case array.DictionaryBuilder:
		return putDictionary(b, value)
	case array.StringLikeBuilder:
		b.Append(value.(string))
	case array.BinaryLikeBuilder:
		b.Append(value.([]byte))
	case *array.FixedSizeBinaryBuilder:
		b.Append(value.([]byte))
	case *array.BooleanBuilder:
		b.Append(value.(bool))
	case *array.Int8Builder:
		b.Append(int8(value.(int64)))
	case *array.Int16Builder:
		b.Append(int16(value.(int64)))
	case *array.Int32Builder:
		b.Append(int32(value.(int64)))
	case *array.Int64Builder:
		b.Append(value.(int64))
	case *array.Uint8Builder:
		b.Append(uint8(value.(uint64)))
	case *array.Uint16Builder:
		b.Append(uint16(value.(uint64)))
	case *array.Uint32Builder:
		b.Append(uint32(value.(uint64)))
	case *array.Uint64Builder:
		b.Append(value.(uint64))
	case *array.Float16Builder:
		b.Append(float16.New(float32(value.(float64))))
	case *array.Float32Builder:
		b.Append(float32(value.(float64)))
	case *array.Float64Builder:
		b.Append(value.(float64))
	case *array.Date32Builder:
		b.Append(arrow.Date32(value.(int64)))
	case *array.Date64Builder:
		b.Append(arrow.Date64(value.(int64)))
	case *array.Time32Builder:
		b.Append(arrow.Time32(value.(int64)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(value.(int64)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(value.(int64)))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(value.(int64)))
	case *array.MonthIntervalBuilder:
		b.Append(value.(arrow.MonthInterval))
	case *array.DayTimeIntervalBuilder:
		b.Append(value.(arrow.DayTimeInterval))
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(value.(arrow.MonthDayNanoInterval))
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(value.(*big.Int).Int64()))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(value.(*big.Int).Int64()))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(value.(*big.Int)))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromBigInt(value.(*big.Int)))
	default:
		return putNested(builder, value)
	}
	return nil
}

func putNested(builder array.Builder, value any) error {
	switch b := builder.(type) {
	case *array.MapBuilder:
		entries := value.(mapEntries)
		b.Append(true)
		if err := putAll(b.KeyBuilder(), entries.keys); err != nil {
			return err
		}
		return putAll(b.ItemBuilder(), entries.items)
	case *array.FixedSizeListBuilder:
		b.Append(true)
		return putAll(b.ValueBuilder(), value.([]any))
	case array.VarLenListLikeBuilder:
		items := value.([]any)
		b.AppendWithSize(true, len(items))
		return putAll(b.ValueBuilder(), items)
	case *array.StructBuilder:
		b.Append(true)
		for i, part := range value.([]any) {
			if err := put(b.FieldBuilder(i), part); err != nil {
				return err
			}
		}
		return nil
	case *array.SparseUnionBuilder:
		chosen := value.(unionValue)
		b.Append(b.Type().(arrow.UnionType).TypeCodes()[chosen.member])
		for i := range b.NumChildren() {
			if i != chosen.member {
				b.Child(i).AppendEmptyValue()
			}
		}
		return put(b.Child(chosen.member), chosen.value)
	case *array.DenseUnionBuilder:
		chosen := value.(unionValue)
		b.Append(b.Type().(arrow.UnionType).TypeCodes()[chosen.member])
		return put(b.Child(chosen.member), chosen.value)
	case *array.RunEndEncodedBuilder:
		b.Append(1)
		return put(b.ValueBuilder(), value)
	case interface{ StorageBuilder() array.Builder }:
		return put(b.StorageBuilder(), value)
	}
	return fmt.Errorf("cannot write Arrow type %s", builder.Type())
}

func putAll(builder array.Builder, values []any) error {
	for _, value := range values {
		if err := put(builder, value); err != nil {
			return err
		}
	}
	return nil
}

// putDictionary appends a value to the dictionary, unless it is there, and its
// index.
func putDictionary(builder array.DictionaryBuilder, value any) error {
	if b, ok := builder.(*array.BinaryDictionaryBuilder); ok {
		if text, ok := value.(string); ok {
			return b.AppendString(text)
		}
		return b.Append(value.([]byte))
	}
	one := array.NewBuilder(memory.DefaultAllocator, builder.Type().(*arrow.DictionaryType).ValueType)
	defer one.Release()
	if err := put(one, value); err != nil {
		return err
	}
	values := one.NewArray()
	defer values.Release()
	return builder.AppendArray(values)
}
