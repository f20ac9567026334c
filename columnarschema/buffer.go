// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// maxBufferBytes bounds one buffer of a column, as 32-bit offsets into it do.
const maxBufferBytes = math.MaxInt32

// buffer is growing memory of one column, from the allocator of a batch.
type buffer struct {
	owner *memory.Buffer // nil before the first byte
	b     []byte         // all memory of owner
	n     int            // bytes in use
}

// reserve makes room for n more bytes at once. A hint that is too large is cut
// to what a buffer can hold.
func (b *buffer) reserve(mem memory.Allocator, n int) {
	n = min(n, maxBufferBytes-b.n)
	if n <= len(b.b)-b.n {
		return
	}
	if b.owner == nil {
		b.owner = memory.NewResizableBuffer(mem)
	}
	b.owner.Reserve(b.n + n)
	b.b = b.owner.Buf()
}

// grow makes room for n more bytes and for as many again as are in use. It
// reports whether they fit into a buffer.
func (b *buffer) grow(mem memory.Allocator, n int) bool {
	if n > maxBufferBytes-b.n {
		return false
	}
	b.reserve(mem, max(n, b.n, minBufferBytes))
	return true
}

// minBufferBytes is the least that a buffer grows by.
const minBufferBytes = 64

// finish hands the memory over and empties the buffer. The result is nil where
// nothing was reserved.
func (b *buffer) finish() *memory.Buffer {
	owner := b.owner
	if owner != nil {
		owner.ResizeNoShrink(b.n)
	}
	*b = buffer{}
	return owner
}

// release frees the memory and empties the buffer.
func (b *buffer) release() {
	if b.owner != nil {
		b.owner.Release()
	}
	*b = buffer{}
}

func (b *buffer) offset(index int) int {
	return int(int32(binary.NativeEndian.Uint32(b.b[4*index:])))
}
