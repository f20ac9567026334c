// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// timeUnit returns what a column of dates or times counts; empty for others.
func timeUnit(dt arrow.DataType) string {
	switch dt := arrays.PlainType(dt).(type) {
	case *arrow.Date32Type:
		return "d"
	case *arrow.Date64Type:
		return arrow.Millisecond.String()
	case arrow.TemporalWithUnit:
		return dt.TimeUnit().String()
	default:
		return ""
	}
}

// CheckUnits fails for two types of dates and times that count different units:
// their integers cannot be compared or added.
func CheckUnits(dt, held arrow.DataType) error {
	if unit, other := timeUnit(dt), timeUnit(held); unit != other && unit != "" && other != "" {
		return fmt.Errorf("the column is of type %s, but the state holds values of type %s", dt, held)
	}
	return nil
}
