// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/binary"
	"math/bits"
)

// varintWord is how many bytes ReadVarint looks at.
const varintWord = 8

// ReadVarint reads the int or the long that begins at a position of data, and returns
// the position behind it. next is 0 for a number of more than eight bytes and where
// fewer than eight bytes remain: a [Cursor] reads these.
//
// The seven bits of each byte are put together without a branch, since the number of
// bytes differs from value to value.
func ReadVarint(data []byte, at int) (v int64, next int) {
	if len(data)-at < varintWord {
		return 0, 0
	}
	w := binary.LittleEndian.Uint64(data[at:])
	ends := ^w & 0x8080808080808080
	if ends == 0 {
		return 0, 0
	}
	w &= ends ^ (ends - 1) // up to the first byte that ends a number
	w = w&0x007f007f007f007f | w&0x7f007f007f007f00>>1
	w = w&0x00003fff00003fff | w&0x3fff00003fff0000>>2
	w = w&0x000000000fffffff | w&0x0fffffff00000000>>4
	return int64(w>>1) ^ -int64(w&1), at + bits.TrailingZeros64(ends)/8 + 1
}
