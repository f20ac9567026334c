// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

var errNegative = errors.New("number is negative")

func errRange(dt fmt.Stringer) error {
	return fmt.Errorf("number overflows %s", dt)
}

// integer reads a number with an integral value whose magnitude is at most
// limit, or limit+1 where it is negative and signed.
func (r *Reader) integer(dt fmt.Stringer, limit uint64, signed bool) (uint64, *Error) {
	data, pos := r.Data, r.Pos
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
		return 0, r.failAt(start, errNumber)
	}
	if count > 19 || pos < len(data) && (data[pos] == '.' || data[pos]|0x20 == 'e') {
		// Many digits, a fraction or an exponent.
		var err *Error
		if v, err = r.exactInteger(dt); err != nil {
			return 0, err
		}
		pos, r.Pos = r.Pos, start
	}
	if negative {
		if !signed && v != 0 {
			return 0, r.fail(errNegative)
		}
		if v > limit+1 {
			return 0, r.fail(errRange(dt))
		}
		v = -v
	} else if v > limit {
		return 0, r.fail(errRange(dt))
	}
	r.Pos = pos
	return v, nil
}

// exactInteger reads the magnitude of a number in any notation.
func (r *Reader) exactInteger(dt fmt.Stringer) (uint64, *Error) {
	start := r.Pos
	if err := r.number(); err != nil {
		return 0, err
	}
	d := r.Decimal(r.Data[start:r.Pos])
	v, err := d.Unsigned()
	switch err {
	case nil:
		return v, nil
	case numtext.ErrFraction:
		return 0, r.failAt(start, err)
	}
	return 0, r.failAt(start, errRange(dt))
}

// Decimal takes a number apart that number has scanned. The digits are valid
// until the next call.
func (r *Reader) Decimal(text []byte) (d numtext.Decimal) {
	d, r.digits = numtext.SplitDecimal(text, r.digits)
	return d
}

// float reads a number, correctly rounded to that many bits.
func (r *Reader) float(size int) (float64, *Error) {
	start := r.Pos
	if err := r.number(); err != nil {
		return 0, err
	}
	text := r.Data[start:r.Pos]
	if size == 64 {
		if v, ok := numtext.ShortFloat(text); ok {
			return v, nil
		}
	}
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), size)
	if err != nil {
		return 0, r.failAt(start, fmt.Errorf("number overflows float%d", size))
	}
	return v, nil
}
