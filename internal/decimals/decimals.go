// SPDX-License-Identifier: Apache-2.0

// Package decimals computes with decimal columns: integers of 256 bits divided by
// a power of ten.
//
// Expressions and aggregates use it. It knows nothing of rows that are null or of
// groups.
package decimals

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// MaxScale bounds the scale of decimals, on both sides of the point.
const MaxScale = 76

// ErrOverflow says that a number needs more than 256 bits.
var ErrOverflow = errors.New("decimal overflow: the value needs more than 256 bits")

// Of returns the unscaled values of a plain column of decimals.
func Of(arr arrow.Array, scratch *[]decimal256.Num) []decimal256.Num {
	switch arr.DataType().ID() {
	case arrow.DECIMAL256:
		return arrays.FixedValues[decimal256.Num](arr)
	case arrow.DECIMAL128:
		numbers := arrays.Resized(scratch, arr.Len())
		for i, value := range arrays.FixedValues[decimal128.Num](arr) {
			numbers[i] = decimal256.FromDecimal128(value)
		}
		return numbers
	case arrow.DECIMAL64:
		numbers := arrays.Resized(scratch, arr.Len())
		for i, value := range arrays.FixedValues[int64](arr) {
			numbers[i] = decimal256.FromI64(value)
		}
		return numbers
	case arrow.DECIMAL32:
		numbers := arrays.Resized(scratch, arr.Len())
		for i, value := range arrays.FixedValues[int32](arr) {
			numbers[i] = decimal256.FromI64(int64(value))
		}
		return numbers
	default:
		return arrays.Resized(scratch, arr.Len())
	}
}

// Rescaled returns the number with more digits behind the point, if it fits. A
// negative number of digits takes zeros away.
func Rescaled(number decimal256.Num, more int32) (decimal256.Num, bool) {
	if more < 0 {
		return FromInt(new(big.Int).Quo(number.BigInt(), numtext.PowerOfTen(-more)))
	}
	return FromInt(new(big.Int).Mul(number.BigInt(), numtext.PowerOfTen(more)))
}

// FromInt returns value in 256 bits, if it fits.
func FromInt(value *big.Int) (decimal256.Num, bool) {
	if value.BitLen() > 255 {
		return decimal256.Num{}, false
	}
	return decimal256.FromBigInt(value), true
}

// FromRat returns a rational number as an integer divided by ten to the scale. A
// number that is not a decimal, or does not fit, is an error.
func FromRat(value *big.Rat) (number decimal256.Num, scale int32, err error) {
	digits, exact := value.FloatPrec()
	if !exact || digits > MaxScale {
		return number, 0, fmt.Errorf("%s is not a decimal", value)
	}
	scale = int32(digits)
	unscaled := new(big.Rat).Mul(value, new(big.Rat).SetInt(numtext.PowerOfTen(scale)))
	number, ok := FromInt(unscaled.Num())
	if !ok {
		return number, 0, ErrOverflow
	}
	return number, scale, nil
}
