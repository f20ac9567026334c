// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/avrovalue/schema"
)

// Duration is the value of Avro's duration.
type Duration = schema.AvroDuration

const secondsPerDay = 86400

// timeOf returns the moment that v counts in the unit of the logical type.
// Dates and local timestamps, which have no zone, come out in UTC.
func timeOf(logical avroplan.Logical, v int64) time.Time {
	switch logical {
	case avroplan.Date:
		return time.Unix(v*secondsPerDay, 0).UTC()
	case avroplan.TimestampMillis, avroplan.LocalTimestampMillis:
		return time.UnixMilli(v).UTC()
	case avroplan.TimestampMicros, avroplan.LocalTimestampMicros:
		return time.UnixMicro(v).UTC()
	default:
		return time.Unix(v/1e9, v%1e9).UTC()
	}
}

// timeCount is the reverse of timeOf. A date and a local timestamp take the
// calendar and the clock of t's own zone. What the unit cannot express is cut
// off towards the past.
func timeCount(logical avroplan.Logical, t time.Time) (int64, error) {
	switch logical {
	case avroplan.Date:
		days := wallClock(t).Unix()
		days = (days - mod(days, secondsPerDay)) / secondsPerDay
		if days < math.MinInt32 || days > math.MaxInt32 {
			return 0, fmt.Errorf("%v exceeds a date", t)
		}
		return days, nil
	case avroplan.LocalTimestampMillis, avroplan.LocalTimestampMicros, avroplan.LocalTimestampNanos:
		t = wallClock(t)
	}
	perSecond := int64(1e9)
	switch logical {
	case avroplan.TimestampMillis, avroplan.LocalTimestampMillis:
		perSecond = 1e3
	case avroplan.TimestampMicros, avroplan.LocalTimestampMicros:
		perSecond = 1e6
	}
	hi, lo := bits.Mul64(uint64(abs(t.Unix())), uint64(perSecond))
	if hi != 0 || lo > math.MaxInt64 {
		return beyond(logical, t, perSecond)
	}
	count := int64(lo)
	if t.Unix() < 0 {
		count = -count
	}
	fraction := int64(t.Nanosecond()) / (1e9 / perSecond)
	if count > math.MaxInt64-fraction {
		return 0, fmt.Errorf("%v exceeds a %s", t, logical)
	}
	return count + fraction, nil
}

// beyond counts a moment whose whole seconds lie below the smallest long while
// the moment itself, with its fraction, may not.
func beyond(logical avroplan.Logical, t time.Time, perSecond int64) (int64, error) {
	if t.Unix() == math.MinInt64/perSecond-1 {
		count := (t.Unix() + 1) * perSecond
		behind := perSecond - int64(t.Nanosecond())/(1e9/perSecond)
		if behind <= count-math.MinInt64 {
			return count - behind, nil
		}
	}
	return 0, fmt.Errorf("%v exceeds a %s", t, logical)
}

func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

func mod(a, b int64) int64 { return (a%b + b) % b }

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// clockUnit returns the unit of a time of day.
func clockUnit(logical avroplan.Logical) time.Duration {
	if logical == avroplan.TimeMillis {
		return time.Millisecond
	}
	return time.Microsecond
}

// clockOf returns the time of day that v counts, or false if it exceeds a
// time.Duration.
func clockOf(logical avroplan.Logical, v int64) (time.Duration, bool) {
	unit := clockUnit(logical)
	limit := math.MaxInt64 / int64(unit)
	return time.Duration(v) * unit, v <= limit && v >= -limit
}

// isMoment reports whether values of the logical type are time.Time.
func isMoment(l avroplan.Logical) bool {
	return l == avroplan.Date || l >= avroplan.TimestampMillis && l <= avroplan.LocalTimestampNanos
}

// isClock reports whether values of the logical type are time.Duration.
func isClock(l avroplan.Logical) bool {
	return l == avroplan.TimeMillis || l == avroplan.TimeMicros
}

// maxDecimalScale bounds the scale of decimals that are converted to rational
// numbers, whose denominator has as many digits.
const maxDecimalScale = 10_000

// maxInt64Digits is the number of digits that an int64 always holds.
const maxInt64Digits = 18

// decimalType converts the decimals of one schema.
type decimalType struct {
	precision, scale int
	size             int   // of a fixed, 0 for bytes
	unit             int64 // 10^scale, 0 if it exceeds an int64
	bigUnit          *big.Int
	bigLimit         func() *big.Int
}

func newDecimalType(s *avroplan.Schema) (*decimalType, error) {
	if s.Scale > maxDecimalScale {
		return nil, fmt.Errorf("decimal scale %d exceeds %d", s.Scale, maxDecimalScale)
	}
	d := &decimalType{precision: s.Precision, scale: s.Scale, bigUnit: power10(s.Scale)}
	d.bigLimit = sync.OnceValue(func() *big.Int { return power10(s.Precision) })
	if s.Scale <= maxInt64Digits {
		d.unit = d.bigUnit.Int64()
	}
	if s.Kind == avroplan.Fixed {
		d.size = s.Size
	}
	return d, nil
}

func power10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// set makes r the number whose unscaled value is data, in two's complement and
// big-endian. The precision binds those who write.
func (d *decimalType) set(r *big.Rat, data []byte) {
	if len(data) <= 8 && d.unit != 0 {
		v := int64(0)
		if len(data) > 0 {
			v = int64(int8(data[0]))
			for _, b := range data[1:] {
				v = v<<8 | int64(b)
			}
		}
		r.SetFrac64(v, d.unit)
		return
	}
	v := new(big.Int).SetBytes(data)
	if len(data) > 0 && data[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(data))))
	}
	r.SetFrac(v, d.bigUnit)
}

// holds reports whether v has at most as many digits as the precision. The
// bound of the precision is computed only for a v that comes near it.
func (d *decimalType) holds(v *big.Int) bool {
	if int64(v.BitLen()) <= 3*int64(d.precision) {
		return true
	}
	return v.CmpAbs(d.bigLimit()) < 0
}

// append adds the unscaled value of r to dst: as it is for a fixed, with its
// length for bytes. A number that the decimal cannot hold exactly is an error.
func (d *decimalType) append(dst []byte, r *big.Rat) ([]byte, error) {
	v := new(big.Int).Mul(r.Num(), d.bigUnit)
	if !r.IsInt() {
		rest := new(big.Int)
		if v.QuoRem(v, r.Denom(), rest); rest.Sign() != 0 {
			return dst, fmt.Errorf("%s has more than %d decimal places", r.RatString(), d.scale)
		}
	}
	if !d.holds(v) {
		return dst, fmt.Errorf("%s has more than %d digits", r.RatString(), d.precision)
	}
	// Two's complement needs a sign bit: the bits of v, or of -v-1 if negative.
	size := v.BitLen()/8 + 1
	if v.Sign() < 0 {
		size = new(big.Int).Not(v).BitLen()/8 + 1
	}
	if d.size > 0 {
		size = d.size
	} else {
		dst = avroplan.AppendLong(dst, int64(size))
	}
	if v.Sign() < 0 {
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	start := len(dst)
	dst = append(dst, make([]byte, size)...)
	v.FillBytes(dst[start:])
	return dst, nil
}
