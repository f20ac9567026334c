// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/decimals"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// reinterpreted views integers as others of the same size.
func reinterpreted[T uint64](words []int64) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

var (
	errOverflow     = errors.New("integer overflow")
	errDivideByZero = errors.New("division by zero")
)

// arithmetic computes an operator on operands of one kind.
func (b *bound) arithmetic(result, left, right *vector, rows int, ignored []bool) error {
	if b.kind == arrays.AnyKind {
		if result.nulls == nil {
			result.nulls = make([]bool, rows)
		}
		for row := range result.nulls {
			result.nulls[row] = true
		}
		return nil
	}
	// A row counts unless it is null or ignored.
	counts := func(row int) bool { return !result.isNull(row) && (ignored == nil || !ignored[row]) }
	switch b.kind {
	case arrays.IntKind:
		result.words = arrays.Resized(&b.words, rows)
		return integerArithmetic(b.node.op, result.words, left, right, counts)
	case arrays.UintKind:
		result.words = arrays.Resized(&b.words, rows)
		return unsignedArithmetic(b.node.op, result.words, left, right, counts)
	case arrays.Float64Kind:
		result.words = arrays.Resized(&b.words, rows)
		floatArithmetic(b.node.op, result.words, left, right)
		return nil
	default:
		result.numbers = arrays.Resized(&b.numbers, rows)
		return decimalArithmetic(b.node.op, result.numbers, left, right, counts)
	}
}

// integerArithmetic first computes all rows, and looks for the row at fault only
// if there is one.
func integerArithmetic(op operation, out []int64, left, right *vector, counts func(row int) bool) error {
	a, b, am, bm := left.words, right.words, left.mask(), right.mask()
	wrong := int64(0) // negative if some row may have failed
	switch op {
	case opAdd:
		for row := range out {
			x, y := a[row&am], b[row&bm]
			sum := x + y
			wrong |= (x ^ sum) & (y ^ sum)
			out[row] = sum
		}
	case opSub:
		for row := range out {
			x, y := a[row&am], b[row&bm]
			difference := x - y
			wrong |= (x ^ y) & (x ^ difference)
			out[row] = difference
		}
	case opMul:
		for row := range out {
			x, y := a[row&am], b[row&bm]
			out[row] = x * y
			if int64(int32(x)) != x || int64(int32(y)) != y {
				wrong |= productFault(x, y)
			}
		}
	default:
		for row := range out {
			x, y := a[row&am], b[row&bm]
			if y == 0 || x == math.MinInt64 && y == -1 {
				wrong, out[row] = -1, 0
				continue
			}
			if op == opDiv {
				out[row] = x / y
			} else {
				out[row] = x % y
			}
		}
	}
	if wrong >= 0 {
		return nil
	}
	for row := range out {
		if cause := integerFault(op, a[row&am], b[row&bm]); cause != nil && counts(row) {
			return namedcols.AtRow(row, cause)
		}
	}
	return nil
}

func integerFault(op operation, x, y int64) error {
	switch op {
	case opAdd:
		if sum := x + y; (x^sum)&(y^sum) < 0 {
			return errOverflow
		}
	case opSub:
		if difference := x - y; (x^y)&(x^difference) < 0 {
			return errOverflow
		}
	case opMul:
		if productFault(x, y) < 0 {
			return errOverflow
		}
	case opDiv:
		if x == math.MinInt64 && y == -1 {
			return errOverflow
		}
		fallthrough
	default:
		if y == 0 {
			return errDivideByZero
		}
	}
	return nil
}

func unsignedArithmetic(op operation, out []int64, left, right *vector, counts func(row int) bool) error {
	am, bm := left.mask(), right.mask()
	for row := range out {
		x, y := uint64(left.words[row&am]), uint64(right.words[row&bm])
		var value, carry uint64
		cause := errOverflow
		switch op {
		case opAdd:
			value, carry = bits.Add64(x, y, 0)
		case opSub:
			value, carry = bits.Sub64(x, y, 0)
		case opMul:
			carry, value = bits.Mul64(x, y)
		default:
			if y == 0 {
				carry, cause = 1, errDivideByZero
			} else if value = x / y; op == opMod {
				value = x % y
			}
		}
		if carry != 0 && counts(row) {
			return namedcols.AtRow(row, cause)
		}
		out[row] = int64(value)
	}
	return nil
}

func floatArithmetic(op operation, out []int64, left, right *vector) {
	am, bm := left.mask(), right.mask()
	for row := range out {
		x, y := math.Float64frombits(uint64(left.words[row&am])), math.Float64frombits(uint64(right.words[row&bm]))
		switch op {
		case opAdd:
			x += y
		case opSub:
			x -= y
		case opMul:
			x *= y
		default:
			x /= y
		}
		out[row] = int64(math.Float64bits(x))
	}
}

func decimalArithmetic(op operation, out []decimal256.Num, left, right *vector, counts func(row int) bool) error {
	am, bm := left.mask(), right.mask()
	for row := range out {
		x, y := left.numbers[row&am], right.numbers[row&bm]
		ok := true
		switch op {
		case opMul:
			// Both operands of up to 126 bits have a product of up to 253.
			if ok = fitsHalf(x) && fitsHalf(y); ok {
				out[row] = x.Mul(y)
			} else {
				product := x.BigInt()
				out[row], ok = decimals.FromInt(product.Mul(product, y.BigInt()))
			}
		default:
			if op == opSub {
				y = y.Negate()
			}
			out[row] = x.Add(y)
			negative := x.Sign() < 0
			ok = negative != (y.Sign() < 0) || negative == (out[row].Sign() < 0)
		}
		if !ok && counts(row) {
			return namedcols.AtRow(row, decimals.ErrOverflow)
		}
	}
	return nil
}

// fitsHalf reports whether the number has at most 126 bits and a sign.
func fitsHalf(number decimal256.Num) bool {
	words := number.Array()
	sign := uint64(int64(words[3]) >> 63)
	return words[3] == sign && words[2] == sign && int64(words[1])>>62 == int64(sign)
}
