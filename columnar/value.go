// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// Value returns the value of a column at a row as a Go value that shares no
// memory with the column. A null is nil.
//
//	Arrow type                              Go value
//	Boolean, Int8 to Uint64, Float32/64     the Go type of that kind and size
//	Float16                                 float32
//	Utf8, LargeUtf8, Utf8View               string
//	Binary, LargeBinary, FixedSize, View    []byte
//	Date32, Time32                          int32 in the column's unit
//	Date64, Time64, Timestamp, Duration     int64 in the column's unit
//	Decimal32 to Decimal256                 *big.Rat
//	intervals                               arrow.MonthInterval, DayTimeInterval or MonthDayNanoInterval
//	all lists and list views                []any
//	Struct                                  map[string]any; of equal names the last counts
//	Map                                     map[string]any by the text of the keys
//	unions                                  the value of the active member
//	dictionary and run-end encoded          the value that the row stands for
//	extension types                         the value of their storage
//
// A row outside the column panics.
func Value(arr arrow.Array, row int) any { return arrays.Value(arr, row) }

// AppendValue appends a Go value to a builder. A nil appends a null. What
// [Value] returns for a column can be appended to a column of its type.
//
//	builder                accepts
//	text                   anything: text and bytes as they are, *big.Rat as a plain decimal, else the default format
//	binary                 []byte and string, of the exact size where it is fixed
//	integers               every integer type, integral floats, *big.Int, integral *big.Rat, text in base 10; in range
//	floats                 floats, integers, *big.Int, *big.Rat, integer text; rounded, but not to infinity
//	Boolean                bool
//	decimals               *big.Rat, *big.Int, numbers, numeric text; exact
//	dates, Timestamp       time.Time, or integers in the column's unit
//	Time32/64, Duration    time.Duration truncated to the column's unit, or integers in the unit
//	intervals              their Arrow types
//	lists                  slices and arrays
//	Struct                 map[string]any; missing keys are null, further ones are ignored
//	Map                    map[string]any, in the order of the keys' text
//	unions                 what the first member takes that accepts the kind of the value
//	dictionary, run-end    what their values' type accepts
//	extension types        what their storage accepts
//
// A value that the builder does not accept is an error and appends nothing. Null
// in a part of a nested value is refused where that part is not nullable. Only
// a dictionary inside a nested type that runs out of indexes leaves the builder
// unusable.
func AppendValue(builder array.Builder, value any) error {
	return arrays.AppendValue(builder, value)
}
