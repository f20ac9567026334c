// SPDX-License-Identifier: Apache-2.0

package numtext

import (
	"errors"
	"fmt"
	"math"
	"time"
)

var (
	// ErrDate is the error of a text that [ParseDate] does not accept as a whole.
	ErrDate = errors.New("text is not a date of the form 2006-01-02")
	// ErrClock is the error of a text that [ParseClock] does not accept as a whole.
	ErrClock = errors.New("text is not a time of day of the form 15:04:05")

	errTimeText  = errors.New("text is not an RFC 3339 time")
	errNoZone    = errors.New("text is a time without a zone, which RFC 3339 has behind it: Z, or an offset such as +02:00")
	errTimeRange = errors.New("time is out of the range of its column's unit")
)

// Unit is a unit of time as the number of units that a second has.
type Unit int64

// The units of date and time columns.
const (
	Second      Unit = 1
	Millisecond Unit = 1e3
	Microsecond Unit = 1e6
	Nanosecond  Unit = 1e9
)

// UnitOf returns the unit that lasts d.
func UnitOf(d time.Duration) Unit { return Unit(time.Second / d) }

// Digits returns the number of decimal digits of a second in the unit.
func (u Unit) Digits() int {
	digits := 0
	for ; u >= 10; u /= 10 {
		digits++
	}
	return digits
}

// String returns the unit's symbol, as Arrow writes it.
func (u Unit) String() string {
	switch u {
	case Second:
		return "s"
	case Millisecond:
		return "ms"
	case Microsecond:
		return "us"
	case Nanosecond:
		return "ns"
	}
	return fmt.Sprintf("1/%d s", int64(u))
}

// digitsAt reads count digits at the start of text.
func digitsAt(text []byte, count int) (v int, rest []byte, ok bool) {
	if len(text) < count {
		return 0, nil, false
	}
	for _, c := range text[:count] {
		if c -= '0'; c > 9 {
			return 0, nil, false
		}
		v = v*10 + int(c)
	}
	return v, text[count:], true
}

// ParseDate reads a date of the form 2006-01-02 at the start of text, as days
// since the epoch, and returns the text behind it.
func ParseDate(text []byte) (days int64, rest []byte, ok bool) {
	year, rest, ok := digitsAt(text, 4)
	if !ok || len(rest) < 6 || rest[0] != '-' || rest[3] != '-' {
		return 0, nil, false
	}
	month, _, ok := digitsAt(rest[1:], 2)
	day, _, ok2 := digitsAt(rest[4:], 2)
	if !ok || !ok2 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, nil, false
	}
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / 86400, rest[6:], true
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// ParseClock reads a time of day of the form 15:04:05.999 at the start of text,
// and returns the text behind it. Digits of the fraction behind the ninth are
// skipped.
func ParseClock(text []byte) (seconds, nanos int64, rest []byte, ok bool) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return 0, 0, nil, false
	}
	hour, _, ok1 := digitsAt(text, 2)
	minute, _, ok2 := digitsAt(text[3:], 2)
	second, rest, ok3 := digitsAt(text[6:], 2)
	if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, nil, false
	}
	if len(rest) > 0 && rest[0] == '.' {
		rest = rest[1:]
		scale := int64(1e8)
		count := SkipDigits(rest, 0)
		if count == 0 {
			return 0, 0, nil, false
		}
		for _, c := range rest[:count] {
			nanos += int64(c-'0') * scale
			scale /= 10
		}
		rest = rest[count:]
	}
	return int64(hour)*3600 + int64(minute)*60 + int64(second), nanos, rest, true
}

// ParseTime reads an RFC 3339 time as units since the epoch; a finer fraction is
// truncated. The zone may be missing where zoned is false.
func ParseTime(text []byte, unit Unit, zoned bool) (int64, error) {
	days, rest, ok := ParseDate(text)
	if !ok || len(rest) == 0 || rest[0]|0x20 != 't' && rest[0] != ' ' {
		return 0, errTimeText
	}
	seconds, nanos, rest, ok := ParseClock(rest[1:])
	if !ok {
		return 0, errTimeText
	}
	if len(rest) == 0 && zoned {
		return 0, errNoZone
	}
	offset, ok := parseZone(rest)
	if !ok {
		return 0, errTimeText
	}
	return InUnit(days*86400+seconds-offset, nanos, unit)
}

// parseZone reads the zone behind a time, which may be missing.
func parseZone(text []byte) (offset int64, ok bool) {
	if len(text) == 0 {
		return 0, true
	}
	if len(text) == 1 {
		return 0, text[0]|0x20 == 'z'
	}
	if len(text) != 6 || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	hour, _, ok1 := digitsAt(text[1:], 2)
	minute, _, ok2 := digitsAt(text[4:], 2)
	if !ok1 || !ok2 || hour > 23 || minute > 59 {
		return 0, false
	}
	offset = int64(hour)*3600 + int64(minute)*60
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// InUnit converts seconds since the epoch and nanoseconds of the second to units
// since the epoch. A part below the unit is cut off.
func InUnit(seconds, nanos int64, unit Unit) (int64, error) {
	per := int64(unit)
	fraction := nanos / (1e9 / per)
	if seconds < 0 && fraction > 0 {
		// The next second is nearer to the epoch, so it fits where the time does.
		seconds, fraction = seconds+1, fraction-per
	}
	if seconds > math.MaxInt64/per || seconds < math.MinInt64/per {
		return 0, errTimeRange
	}
	v := seconds*per + fraction
	if fraction > 0 && v < seconds*per || fraction < 0 && v > seconds*per {
		return 0, errTimeRange
	}
	return v, nil
}

// AppendTime appends units since the epoch as an RFC 3339 time in UTC.
func AppendTime(dst []byte, v int64, unit Unit) ([]byte, error) {
	per := int64(unit)
	seconds, fraction := FloorDivMod(v, per)
	at := time.Unix(seconds, fraction*(1e9/per)).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		return dst, fmt.Errorf("time %d %s since the epoch has no RFC 3339 form", v, unit)
	}
	return at.AppendFormat(dst, time.RFC3339Nano), nil
}

// AppendDate appends days since the epoch.
func AppendDate(dst []byte, days int64) ([]byte, error) {
	const first, last = -719528, 2932896 // of the years 0 to 9999
	if days < first || days > last {
		return dst, fmt.Errorf("date %d days since the epoch has no RFC 3339 form", days)
	}
	return time.Unix(days*86400, 0).UTC().AppendFormat(dst, time.DateOnly), nil
}

// AppendClock appends units since midnight as a time of day.
func AppendClock(dst []byte, v int64, unit Unit) ([]byte, error) {
	per := int64(unit)
	if v < 0 || v >= 86400*per {
		return dst, fmt.Errorf("time of day %d %s is not within a day", v, unit)
	}
	return time.Unix(v/per, v%per*(1e9/per)).UTC().AppendFormat(dst, "15:04:05.999999999"), nil
}

// FloorDivMod divides a by b > 0, rounding down: the remainder is not negative.
func FloorDivMod(a, b int64) (quotient, remainder int64) {
	quotient, remainder = a/b, a%b
	if remainder < 0 {
		return quotient - 1, remainder + b
	}
	return quotient, remainder
}
