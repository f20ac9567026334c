// SPDX-License-Identifier: Apache-2.0

// Package eventtime reads the event times of columns and computes with them.
//
// Event time is in milliseconds since the Unix epoch. Joins, windows and the
// idle clock of the runner use it.
package eventtime

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// None is the event time before the first row.
const None = math.MinInt64

// Plus adds millis, which is not negative, to a timestamp, within the range of an
// int64.
func Plus(timestamp, millis int64) int64 {
	if timestamp > math.MaxInt64-millis {
		return math.MaxInt64
	}
	return timestamp + millis
}

// Require makes a null timestamp an error.
func Require(arr arrow.Array) error {
	if arr.NullN() > 0 {
		for row := range arr.Len() {
			if arr.IsNull(row) {
				return namedcols.AtRow(row, fmt.Errorf("event timestamp is null at row %d", row))
			}
		}
	}
	return nil
}

// Millis returns the timestamps of a column in milliseconds, rounded down: a
// Timestamp column has its own unit, and an Int64 column counts unit, which is that of
// a Timestamp or 0 for milliseconds. scratch is used where the unit differs. Null rows
// have no defined timestamp.
func Millis(arr arrow.Array, unit time.Duration, scratch *[]int64) ([]int64, error) {
	times := arrays.FixedValues[int64](arr)
	if dt, ok := arr.DataType().(*arrow.TimestampType); ok {
		unit = dt.Unit.Multiplier()
	}
	if unit == 0 || unit == time.Millisecond {
		return times, nil
	}
	millis, nulls := arrays.Resized(scratch, len(times)), arrays.ValidityOf(arr)
	switch unit {
	case time.Second:
		for row, seconds := range times {
			if millis[row] = seconds * 1000; millis[row]/1000 != seconds && !nulls.IsNull(row) {
				return nil, namedcols.AtRow(row, fmt.Errorf("timestamp of %d seconds is out of range", seconds))
			}
		}
	case time.Microsecond:
		for row, micros := range times {
			millis[row] = floorDivide(micros, 1000)
		}
	default:
		for row, nanos := range times {
			millis[row] = floorDivide(nanos, 1_000_000)
		}
	}
	return millis, nil
}

func floorDivide(value, divisor int64) int64 {
	quotient := value / divisor
	if value%divisor < 0 {
		quotient--
	}
	return quotient
}

// Holds reports whether a column of that type can hold event time.
func Holds(dt arrow.DataType) bool {
	return dt.ID() == arrow.INT64 || dt.ID() == arrow.TIMESTAMP
}
