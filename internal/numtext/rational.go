// SPDX-License-Identifier: Apache-2.0

package numtext

import (
	"math/big"
	"strings"
)

// Rat returns an integer divided by ten to the scale. It may change the
// integer.
func Rat(unscaled *big.Int, scale int32) *big.Rat {
	if scale < 0 {
		return new(big.Rat).SetInt(unscaled.Mul(unscaled, PowerOfTen(-scale)))
	}
	return new(big.Rat).SetFrac(unscaled, PowerOfTen(scale))
}

// PowerOfTen returns ten to an exponent that is not negative.
func PowerOfTen(exponent int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)
}

// RatText returns a number as a plain decimal of at most 38 digits behind the
// point.
func RatText(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	return strings.TrimRight(v.FloatString(38), "0")
}
