// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// timeClass tells dates and times apart by the point that they count from.
type timeClass uint8

const (
	notTime timeClass = iota
	instantClass
	clockClass
	spanClass
)

func (c timeClass) String() string {
	return [...]string{"number", "date or timestamp", "time of day", "duration"}[c]
}

// timeTypeOf returns the plain type of dates and times, and nil for other types.
func timeTypeOf(dt arrow.DataType) arrow.DataType {
	if dt == nil {
		return nil
	}
	if plain := arrays.PlainType(dt); classOf(plain) != notTime {
		return plain
	}
	return nil
}

// classOf returns the class of a plain type, which may be nil.
func classOf(dt arrow.DataType) timeClass {
	switch dt.(type) {
	case *arrow.TimestampType, *arrow.Date32Type, *arrow.Date64Type:
		return instantClass
	case *arrow.Time32Type, *arrow.Time64Type:
		return clockClass
	case *arrow.DurationType:
		return spanClass
	}
	return notTime
}

// nanosOf returns how many nanoseconds one count of a time type is.
func nanosOf(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return int64(24 * time.Hour)
	case arrow.TemporalWithUnit:
		return int64(dt.TimeUnit().Multiplier())
	}
	return int64(time.Millisecond) // Date64
}

// timeUnitOf returns the coarsest unit that holds all values of a time type.
func timeUnitOf(dt arrow.DataType) arrow.TimeUnit {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return arrow.Second
	case arrow.TemporalWithUnit:
		return dt.TimeUnit()
	}
	return arrow.Millisecond // Date64
}

// timeType returns a type of a class that counts a unit.
func timeType(class timeClass, unit arrow.TimeUnit, zone string) arrow.DataType {
	switch {
	case class == spanClass:
		return &arrow.DurationType{Unit: unit}
	case class == instantClass:
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	case unit <= arrow.Millisecond:
		return &arrow.Time32Type{Unit: unit}
	}
	return &arrow.Time64Type{Unit: unit}
}

// zoneOf returns the time zone of timestamps of two types, at least one of which
// is of timestamps or dates: the one that they agree on, and otherwise UTC.
func zoneOf(types ...arrow.DataType) string {
	zone, known := "", false
	for _, dt := range types {
		timestamp, ok := dt.(*arrow.TimestampType)
		switch {
		case !ok:
		case !known:
			zone, known = timestamp.TimeZone, true
		case zone != timestamp.TimeZone:
			return "UTC"
		}
	}
	return zone
}

// commonTimeType returns the type that holds the values of two types of one class.
func commonTimeType(a, b arrow.DataType) arrow.DataType {
	if arrow.TypeEqual(a, b) {
		return a
	}
	_, aStamp := a.(*arrow.TimestampType)
	_, bStamp := b.(*arrow.TimestampType)
	if classOf(a) == instantClass && !aStamp && !bStamp {
		return arrow.FixedWidthTypes.Date64
	}
	return timeType(classOf(a), max(timeUnitOf(a), timeUnitOf(b)), zoneOf(a, b))
}

// multiplied returns the product of a value and a positive factor, if it fits.
func multiplied(value, factor int64) (int64, bool) {
	product := value * factor
	if int64(int32(value)) == value && int64(int32(factor)) == factor {
		return product, true
	}
	return product, productFault(value, factor) >= 0
}

// compareCounts compares counts of different units, exactly.
func compareCounts(left, leftNanos, right, rightNanos int64) int {
	if leftNanos < rightNanos {
		return -compareCounts(right, rightNanos, left, leftNanos)
	}
	whole, rest := numtext.FloorDivMod(right, leftNanos/rightNanos)
	switch {
	case left < whole:
		return -1
	case left > whole:
		return 1
	case rest > 0:
		return -1
	}
	return 0
}

var errTimeUnitRange = errors.New("the time is out of the range of its unit")

// castTime returns one count of a time type as a count of another one. A date is
// the day of an instant, and a time of day is how far the instant is into it.
func castTime(word int64, from, to arrow.DataType) (int64, error) {
	const day = int64(24 * time.Hour)
	unit, per := nanosOf(from), nanosOf(to)
	switch to.(type) {
	case *arrow.Date32Type, *arrow.Date64Type:
		days, _ := numtext.FloorDivMod(word, day/unit)
		word, unit = days, day
	case *arrow.Time32Type, *arrow.Time64Type:
		if classOf(from) == instantClass {
			_, word = numtext.FloorDivMod(word, day/unit)
		} else if word < 0 || word >= day/unit {
			return 0, fmt.Errorf("%d of %s is not within a day", word, from)
		}
	}
	if unit >= per {
		converted, ok := multiplied(word, unit/per)
		if !ok {
			return 0, fmt.Errorf("%w: %d of %s as %s", errTimeUnitRange, word, from, to)
		}
		return converted, nil
	}
	if word%(per/unit) != 0 {
		return 0, fmt.Errorf("%d of %s is no whole number of units of %s", word, from, to)
	}
	return word / (per / unit), nil
}

// timeText returns a count as text: an RFC 3339 time in UTC, a date, a time of day,
// or for a duration the count and its unit.
func timeText(word int64, dt arrow.DataType) (string, error) {
	var text []byte
	var err error
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		text, err = numtext.AppendDate(nil, word)
	case *arrow.Date64Type:
		days, _ := numtext.FloorDivMod(word, 86400_000)
		text, err = numtext.AppendDate(nil, days)
	case *arrow.TimestampType:
		text, err = numtext.AppendTime(nil, word, numtext.UnitOf(dt.Unit.Multiplier()))
	case *arrow.DurationType:
		return fmt.Sprintf("%d%s", word, dt.Unit), nil
	default:
		text, err = numtext.AppendClock(nil, word, numtext.UnitOf(timeUnitOf(dt).Multiplier()))
	}
	return string(text), err
}

// compareSigned compares a signed with an unsigned integer.
func compareSigned(signed int64, unsigned uint64) int {
	if signed < 0 || uint64(signed) < unsigned {
		return -1
	}
	if uint64(signed) > unsigned {
		return 1
	}
	return 0
}

// productFault is negative if the product of two integers is not one.
func productFault(x, y int64) int64 {
	high, low := bits.Mul64(uint64(x), uint64(y))
	// The unsigned high word of a signed product.
	signed := int64(high) - (x>>63)&y - (y>>63)&x
	if signed != int64(low)>>63 {
		return -1
	}
	return 0
}
