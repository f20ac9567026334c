// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"math/bits"
)

// decimalWords is a number of up to 256 bits in words, the lowest first.
type decimalWords [4]uint64

// powerOfTen returns 10 to the power of n, which is 76 at most.
func powerOfTen(n int) decimalWords {
	p := decimalWords{1}
	for range n {
		var carry uint64
		for i := range p {
			hi, lo := bits.Mul64(p[i], 10)
			var c uint64
			p[i], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
	}
	return p
}

// negative reports whether the number is negative in two's complement.
func (w *decimalWords) negative() bool { return w[3]>>63 == 1 }

// short reports whether the number is one of 64 bits.
func (w *decimalWords) short() bool {
	sign := uint64(int64(w[0]) >> 63)
	return w[1] == sign && w[2] == sign && w[3] == sign
}

// below reports whether the amount of w is below limit, a positive number.
func (w *decimalWords) below(limit *decimalWords) bool {
	if w.short() && limit.short() {
		return int64(w[0]) < int64(limit[0]) && int64(w[0]) > -int64(limit[0])
	}
	amount := *w
	if w.negative() {
		carry := uint64(1)
		for i := range amount {
			amount[i], carry = bits.Add64(^amount[i], 0, carry)
		}
	}
	for i := len(amount) - 1; i >= 0; i-- {
		if amount[i] != limit[i] {
			return amount[i] < limit[i]
		}
	}
	return false
}

// setBytes sets w to a big-endian number in two's complement, of which no bytes
// are zero. It reports whether the number fits.
func (w *decimalWords) setBytes(v []byte) bool {
	var fill byte
	if len(v) > 0 {
		fill = byte(int8(v[0]) >> 7)
	}
	if len(v) <= 8 {
		short := int64(int8(fill))
		for _, b := range v {
			short = short<<8 | int64(b)
		}
		rest := uint64(short >> 63)
		*w = decimalWords{uint64(short), rest, rest, rest}
		return true
	}
	for len(v) > 8*len(w) {
		if v[0] != fill || (v[1]^fill)&0x80 != 0 {
			return false
		}
		v = v[1:]
	}
	sign := uint64(0)
	if fill != 0 {
		sign = ^uint64(0)
	}
	for i := range w {
		w[i] = sign
		if n := min(len(v), 8); n > 0 {
			tail := v[len(v)-n:]
			for _, b := range tail {
				w[i] = w[i]<<8 | uint64(b)
			}
			v = v[:len(v)-n]
		}
	}
	return true
}

// setMemory sets w to a decimal of 4, 8, 16 or 32 bytes as it lies in a column.
func (w *decimalWords) setMemory(v []byte) {
	switch len(v) {
	case 4:
		w[0] = uint64(int32(binary.NativeEndian.Uint32(v)))
		v = nil
	default:
		for i := range len(v) / 8 {
			w[i] = binary.NativeEndian.Uint64(v[8*i:])
		}
	}
	used := max(1, len(v)/8)
	sign := uint64(int64(w[used-1]) >> 63)
	for i := used; i < len(w); i++ {
		w[i] = sign
	}
}

// appendBytes appends the number as big-endian two's complement: in size bytes,
// or in as few as it takes where size is zero. It reports whether it fits.
func (w *decimalWords) appendBytes(dst []byte, size int) ([]byte, bool) {
	var all [32]byte
	for i, word := range w {
		binary.BigEndian.PutUint64(all[24-8*i:], word)
	}
	fill := byte(int8(all[0]) >> 7)
	short := all[:]
	for len(short) > 1 && short[0] == fill && (short[1]^fill)&0x80 == 0 {
		short = short[1:]
	}
	for range size - len(short) {
		dst = append(dst, fill)
	}
	return append(dst, short...), size == 0 || len(short) <= size
}
