// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// Value returns the value of a column at a row as a Go value that shares no
// memory with the column; a null is nil. Package columnar lists the Go type for
// each Arrow type. A row outside the column panics.
func Value(arr arrow.Array, row int) any {
	if arr.IsNull(row) {
		return nil
	}
	switch arr := arr.(type) {
	case *array.Null:
		return nil
	case *array.Boolean:
		return arr.Value(row)
	case *array.Int8:
		return arr.Value(row)
	case *array.Int16:
		return arr.Value(row)
	case *array.Int32:
		return arr.Value(row)
	case *array.Int64:
		return arr.Value(row)
	case *array.Uint8:
		return arr.Value(row)
	case *array.Uint16:
		return arr.Value(row)
	case *array.Uint32:
		return arr.Value(row)
	case *array.Uint64:
		return arr.Value(row)
	case *array.Float16:
		return arr.Value(row).Float32()
	case *array.Float32:
		return arr.Value(row)
	case *array.Float64:
		return arr.Value(row)
	case array.StringLike:
		return strings.Clone(arr.Value(row))
	case interface {
		arrow.Array
		Value(row int) []byte
	}:
		return append([]byte{}, arr.Value(row)...)
	case *array.Date32:
		return int32(arr.Value(row))
	case *array.Time32:
		return int32(arr.Value(row))
	case *array.Date64:
		return int64(arr.Value(row))
	case *array.Time64:
		return int64(arr.Value(row))
	case *array.Timestamp:
		return int64(arr.Value(row))
	case *array.Duration:
		return int64(arr.Value(row))
	case *array.MonthInterval:
		return arr.Value(row)
	case *array.DayTimeInterval:
		return arr.Value(row)
	case *array.MonthDayNanoInterval:
		return arr.Value(row)
	case *array.Decimal32:
		return scaledRat(big.NewInt(int64(arr.Value(row))), arr)
	case *array.Decimal64:
		return scaledRat(big.NewInt(int64(arr.Value(row))), arr)
	case *array.Decimal128:
		return scaledRat(arr.Value(row).BigInt(), arr)
	case *array.Decimal256:
		return scaledRat(arr.Value(row).BigInt(), arr)
	case *array.Map:
		return mapValue(arr, row)
	case array.ListLike:
		start, end := arr.ValueOffsets(row)
		values := make([]any, 0, end-start)
		for i := start; i < end; i++ {
			values = append(values, Value(arr.ListValues(), int(i)))
		}
		return values
	case *array.Struct:
		fields := arr.DataType().(*arrow.StructType).Fields()
		values := make(map[string]any, len(fields))
		for i, field := range fields {
			values[field.Name] = Value(arr.Field(i), row)
		}
		return values
	case array.Union:
		member := arr.Field(arr.ChildID(row))
		if dense, ok := arr.(*array.DenseUnion); ok {
			row = int(dense.ValueOffset(row))
		}
		return Value(member, row)
	case *array.Dictionary:
		return Value(arr.Dictionary(), arr.GetValueIndex(row))
	case *array.RunEndEncoded:
		return Value(arr.Values(), arr.GetPhysicalIndex(row))
	case array.ExtensionArray:
		return Value(arr.Storage(), row)
	}
	return arr.ValueStr(row)
}

// scaledRat returns an integer of a decimal column divided by ten to its scale.
func scaledRat(unscaled *big.Int, arr arrow.Array) *big.Rat {
	return numtext.Rat(unscaled, arr.DataType().(arrow.DecimalType).GetScale())
}

func mapValue(arr *array.Map, row int) map[string]any {
	start, end := arr.ValueOffsets(row)
	values := make(map[string]any, end-start)
	for i := start; i < end; i++ {
		values[keyText(arr.Keys(), int(i))] = Value(arr.Items(), int(i))
	}
	return values
}

// keyText returns the text of a map key.
func keyText(keys arrow.Array, row int) string {
	switch key := Value(keys, row).(type) {
	case string:
		return key
	case []byte:
		return string(key)
	case *big.Rat:
		return numtext.RatText(key)
	default:
		return fmt.Sprint(key)
	}
}
