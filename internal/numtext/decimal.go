// SPDX-License-Identifier: Apache-2.0

package numtext

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrFraction says that a number is not an integer.
var ErrFraction = errors.New("number is not an integer")

// Decimal is a number: its digits, without leading and trailing zeros, times ten
// to the exponent. Zero has no digits.
type Decimal struct {
	Negative bool
	Digits   []byte // '0' to '9'
	Exponent int
}

// SplitDecimal takes the text of a JSON number apart, whose syntax the caller
// has checked. The digits of the result are written over scratch, which may be
// nil; grown is scratch or the longer buffer that replaced it.
func SplitDecimal(text, scratch []byte) (d Decimal, grown []byte) {
	d.Negative, text = text[0] == '-', text[min(len(text), indexOfDigit(text)):]
	digits := scratch[:0]
	point, i := -1, 0
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		if text[i] == '.' {
			point = len(digits)
			continue
		}
		digits = append(digits, text[i])
	}
	grown = digits
	if point >= 0 {
		d.Exponent = point - len(digits)
	}
	if i < len(text) {
		d.Exponent += exponentOf(text[i+1:])
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		d.Exponent++
	}
	if len(digits) == 0 {
		return Decimal{}, grown
	}
	d.Digits = digits
	return d, grown
}

func indexOfDigit(text []byte) int {
	if text[0] == '-' {
		return 1
	}
	return 0
}

// exponentOf reads an exponent. A magnitude that no column can hold is cut to
// the limit.
func exponentOf(text []byte) int {
	const limit = math.MaxInt32
	negative := text[0] == '-'
	if text[0] == '-' || text[0] == '+' {
		text = text[1:]
	}
	exponent := 0
	for _, c := range text {
		if exponent = exponent*10 + int(c-'0'); exponent > limit {
			exponent = limit
		}
	}
	if negative {
		return -exponent
	}
	return exponent
}

var errDecimalRange = errors.New("number is too large")

// Unsigned returns the magnitude of an integral number. A fraction is
// [ErrFraction]; a magnitude beyond 64 bits is another error.
func (d Decimal) Unsigned() (uint64, error) {
	if d.Exponent < 0 {
		return 0, ErrFraction
	}
	if len(d.Digits)+d.Exponent > 20 {
		return 0, errDecimalRange
	}
	var v uint64
	for i := range len(d.Digits) + d.Exponent {
		digit := uint64(0)
		if i < len(d.Digits) {
			digit = uint64(d.Digits[i] - '0')
		}
		high, low := bits.Mul64(v, 10)
		var carry uint64
		if v, carry = bits.Add64(low, digit, 0); high+carry != 0 {
			return 0, errDecimalRange
		}
	}
	return v, nil
}

// Floor returns the greatest integer that is not above the number times ten to the
// shift. One beyond 64 bits is an error.
func (d Decimal) Floor(shift int) (int64, error) {
	d.Exponent += shift
	below := d.Exponent < 0
	if below {
		d.Digits, d.Exponent = d.Digits[:max(0, len(d.Digits)+d.Exponent)], 0
	}
	magnitude, err := d.Unsigned()
	if err != nil || !d.Negative {
		if magnitude > math.MaxInt64 {
			err = errDecimalRange
		}
		return int64(magnitude), err
	}
	if below {
		magnitude++
	}
	if magnitude > 1<<63 {
		return 0, errDecimalRange
	}
	return int64(-magnitude), nil
}

// Scaled returns the number times ten to the scale, as two's complement limbs
// with the lowest first.
func (d Decimal) Scaled(precision, scale int32) ([4]uint64, error) {
	var v [4]uint64
	if len(d.Digits) == 0 {
		return v, nil
	}
	exponent := d.Exponent + int(scale)
	if exponent < 0 {
		return v, fmt.Errorf("number does not fit scale %d", scale)
	}
	if len(d.Digits)+exponent > int(precision) {
		return v, fmt.Errorf("number does not fit precision %d", precision)
	}
	for i := range len(d.Digits) + exponent {
		carry := uint64(0)
		if i < len(d.Digits) {
			carry = uint64(d.Digits[i] - '0')
		}
		for limb := range v {
			high, low := bits.Mul64(v[limb], 10)
			var over uint64
			v[limb], over = bits.Add64(low, carry, 0)
			carry = high + over
		}
	}
	if d.Negative {
		carry := uint64(1)
		for limb := range v {
			v[limb], carry = bits.Add64(^v[limb], 0, carry)
		}
	}
	return v, nil
}

// ParseDecimal reads a number with an optional sign, fraction and exponent. It
// reports whether text is such a number and nothing else.
func ParseDecimal(text string) (Decimal, bool) {
	if len(text) > 0 && text[0] == '+' {
		text = text[1:]
		if len(text) > 0 && text[0] == '-' {
			return Decimal{}, false
		}
	}
	number := []byte(text)
	pos := 0
	if pos < len(number) && number[pos] == '-' {
		pos++
	}
	whole := SkipDigits(number, pos)
	end, fraction := whole, 0
	if end < len(number) && number[end] == '.' {
		end = SkipDigits(number, end+1)
		fraction = end - whole - 1
	}
	if whole-pos+fraction == 0 {
		return Decimal{}, false
	}
	if end < len(number) && number[end]|0x20 == 'e' {
		start := end + 1
		if start < len(number) && (number[start] == '-' || number[start] == '+') {
			start++
		}
		if end = SkipDigits(number, start); end == start {
			return Decimal{}, false
		}
	}
	if end != len(number) {
		return Decimal{}, false
	}
	d, _ := SplitDecimal(number, nil)
	return d, true
}

// SkipDigits returns the position of the first byte at or after pos that is not
// a digit.
func SkipDigits(data []byte, pos int) int {
	for pos < len(data) && data[pos]-'0' <= 9 {
		pos++
	}
	return pos
}

// powersOfTen are those that float64 holds exactly.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// ShortFloat converts a JSON number of at most 15 digits without an exponent; ok
// is false for other numbers. Such digits and the power of ten are both exact as
// float64, so their quotient is correctly rounded.
func ShortFloat(text []byte) (v float64, ok bool) {
	digits := text
	if text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) > 16 {
		return 0, false
	}
	var mantissa uint64
	count, fraction := 0, -1
	for _, c := range digits {
		switch {
		case c == '.':
			fraction = 0
		case c > '9': // an exponent
			return 0, false
		default:
			mantissa = mantissa*10 + uint64(c-'0')
			count++
			if fraction >= 0 {
				fraction++
			}
		}
	}
	if count > 15 {
		return 0, false
	}
	v = float64(mantissa)
	if fraction > 0 {
		v /= powersOfTen[fraction]
	}
	if text[0] == '-' {
		v = -v
	}
	return v, true
}
