// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/binary"
	"math"
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
	return binary.AppendUvarint(dst, u)
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
