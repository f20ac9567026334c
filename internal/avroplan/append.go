// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// AppendBool adds a boolean to dst.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendLong adds an int, a long, an enum symbol, a branch of a union, or a
// count of items to dst.
func AppendLong(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	if u < 0x80 {
		return append(dst, byte(u))
	}
	return appendVarint(dst, u)
}

// appendVarint adds a number of several bytes to dst: the counterpart of
// [ReadVarint].
func appendVarint(dst []byte, u uint64) []byte {
	if u >= 1<<(7*varintWord) || cap(dst)-len(dst) < varintWord {
		return binary.AppendUvarint(dst, u)
	}
	w := u&0x000000000fffffff | u&0x00fffffff0000000<<4
	w = w&0x00003fff00003fff | w&0x0fffc0000fffc000<<2
	w = w&0x007f007f007f007f | w&0x3f803f803f803f80<<1
	size := (bits.Len64(u) + 6) / 7
	w |= 0x8080808080808080 &^ (math.MaxUint64 << uint(8*size-8)) // all bytes but the last
	at := len(dst)
	binary.LittleEndian.PutUint64(dst[at:at+varintWord], w)
	return dst[:at+size]
}

// AppendFloat adds a float to dst.
func AppendFloat(dst []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
}

// AppendDouble adds a double to dst.
func AppendDouble(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// AppendBytes adds bytes with their length to dst.
func AppendBytes(dst, v []byte) []byte {
	return append(AppendLong(dst, int64(len(v))), v...)
}

// AppendString adds a string with its length to dst.
func AppendString(dst []byte, v string) []byte {
	return append(AppendLong(dst, int64(len(v))), v...)
}
