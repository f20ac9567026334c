// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

var (
	errJSONFraction = errors.New("number is not an integer")
	errJSONNegative = errors.New("number is negative")
)

func errJSONRange(dt fmt.Stringer) error {
	return fmt.Errorf("number overflows %s", dt)
}

// integer reads a number with an integral value whose magnitude is at most
// limit, or limit+1 where it is negative and signed.
func (r *jsonReader) integer(dt fmt.Stringer, limit uint64, signed bool) (uint64, *JSONError) {
	data, pos := r.data, r.pos
	negative := pos < len(data) && data[pos] == '-'
	if negative {
		pos++
	}
	start := pos
	var v uint64
	for pos < len(data) {
		digit := data[pos] - '0'
		if digit > 9 {
			break
		}
		v = v*10 + uint64(digit)
		pos++
	}
	count := pos - start
	if count == 0 || count > 1 && data[start] == '0' {
		return 0, r.failAt(start, errJSONNumber)
	}
	if count > 19 || pos < len(data) && (data[pos] == '.' || data[pos]|0x20 == 'e') {
		// Many digits, a fraction or an exponent.
		var err *JSONError
		if v, err = r.exactInteger(dt); err != nil {
			return 0, err
		}
		pos, r.pos = r.pos, start
	}
	if negative {
		if !signed && v != 0 {
			return 0, r.fail(errJSONNegative)
		}
		if v > limit+1 {
			return 0, r.fail(errJSONRange(dt))
		}
		v = -v
	} else if v > limit {
		return 0, r.fail(errJSONRange(dt))
	}
	r.pos = pos
	return v, nil
}

// exactInteger reads the magnitude of a number in any notation.
func (r *jsonReader) exactInteger(dt fmt.Stringer) (uint64, *JSONError) {
	start := r.pos
	if err := r.number(); err != nil {
		return 0, err
	}
	d := r.decimal(r.data[start:r.pos])
	v, err := d.unsigned()
	switch err {
	case nil:
		return v, nil
	case errJSONFraction:
		return 0, r.failAt(start, err)
	}
	return 0, r.failAt(start, errJSONRange(dt))
}

// decimalText is a number as digits without leading and trailing zeros, times
// ten to the exponent. Zero has no digits.
type decimalText struct {
	negative bool
	digits   []byte // '0' to '9'
	exponent int
}

// decimal takes a number apart that number has scanned. The digits are valid
// until the next call.
func (r *jsonReader) decimal(text []byte) decimalText {
	var d decimalText
	d.negative, text = text[0] == '-', text[min(len(text), indexOfDigit(text)):]
	digits := r.digits[:0]
	point, i := -1, 0
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		if text[i] == '.' {
			point = len(digits)
			continue
		}
		digits = append(digits, text[i])
	}
	r.digits = digits
	if point >= 0 {
		d.exponent = point - len(digits)
	}
	if i < len(text) {
		d.exponent += exponentOf(text[i+1:])
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		d.exponent++
	}
	if len(digits) == 0 {
		return decimalText{}
	}
	d.digits = digits
	return d
}

func indexOfDigit(text []byte) int {
	if text[0] == '-' {
		return 1
	}
	return 0
}

// exponentOf reads an exponent and limits it to what no column can hold.
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

// unsigned returns the magnitude of an integral number.
func (d decimalText) unsigned() (uint64, error) {
	if d.exponent < 0 {
		return 0, errJSONFraction
	}
	if len(d.digits)+d.exponent > 20 {
		return 0, errDecimalRange
	}
	var v uint64
	for i := range len(d.digits) + d.exponent {
		digit := uint64(0)
		if i < len(d.digits) {
			digit = uint64(d.digits[i] - '0')
		}
		high, low := bits.Mul64(v, 10)
		var carry uint64
		if v, carry = bits.Add64(low, digit, 0); high+carry != 0 {
			return 0, errDecimalRange
		}
	}
	return v, nil
}

// scaled returns the number times ten to the scale, as two's complement limbs
// with the lowest first.
func (d decimalText) scaled(precision, scale int32) ([4]uint64, error) {
	var v [4]uint64
	if len(d.digits) == 0 {
		return v, nil
	}
	exponent := d.exponent + int(scale)
	if exponent < 0 {
		return v, fmt.Errorf("number does not fit scale %d", scale)
	}
	if len(d.digits)+exponent > int(precision) {
		return v, fmt.Errorf("number does not fit precision %d", precision)
	}
	for i := range len(d.digits) + exponent {
		carry := uint64(0)
		if i < len(d.digits) {
			carry = uint64(d.digits[i] - '0')
		}
		for limb := range v {
			high, low := bits.Mul64(v[limb], 10)
			var over uint64
			v[limb], over = bits.Add64(low, carry, 0)
			carry = high + over
		}
	}
	if d.negative {
		carry := uint64(1)
		for limb := range v {
			v[limb], carry = bits.Add64(^v[limb], 0, carry)
		}
	}
	return v, nil
}

// powersOfTen are those that float64 holds exactly.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// float reads a number, correctly rounded to that many bits.
func (r *jsonReader) float(size int) (float64, *JSONError) {
	start := r.pos
	if err := r.number(); err != nil {
		return 0, err
	}
	text := r.data[start:r.pos]
	if size == 64 {
		if v, ok := shortFloat(text); ok {
			return v, nil
		}
	}
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), size)
	if err != nil {
		return 0, r.failAt(start, fmt.Errorf("number overflows float%d", size))
	}
	return v, nil
}

// shortFloat converts a number that has at most 15 digits and a small fraction:
// both it and the power of ten are exact, so that their quotient is correctly
// rounded.
func shortFloat(text []byte) (float64, bool) {
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
	v := float64(mantissa)
	if fraction > 0 {
		v /= powersOfTen[fraction]
	}
	if text[0] == '-' {
		v = -v
	}
	return v, true
}
