// SPDX-License-Identifier: Apache-2.0

package columnset

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// maxBytes bounds one buffer of a column, as 32-bit offsets into it do.
	maxBytes = math.MaxInt32
	// minBytes is the least that a buffer grows by.
	minBytes = 64
)

// vector is a growing array in memory of an allocator. Its values are appended to
// s, as long as they fit its capacity.
type vector[T uint8 | uint32 | uint64 | int32] struct {
	s     []T
	owner *memory.Buffer // of the memory of s; nil before the first growth
}

func (v *vector[T]) width() int {
	var value T
	return int(unsafe.Sizeof(value))
}

// reserve makes the capacity at least n. A hint that is too large is cut to what
// a buffer can hold.
func (v *vector[T]) reserve(mem memory.Allocator, n int) {
	n = min(n, maxBytes/v.width())
	if n <= cap(v.s) {
		return
	}
	if v.owner == nil {
		v.owner = memory.NewResizableBuffer(mem)
	}
	v.owner.Reserve(n * v.width())
	room := v.owner.Buf()
	v.s = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room))), len(room)/v.width())[:len(v.s)]
}

// grow makes room for n more values and for as many again as there are. It
// reports whether they fit into a buffer of limit bytes.
func (v *vector[T]) grow(mem memory.Allocator, n, limit int) bool {
	if n > limit/v.width()-len(v.s) {
		return false
	}
	v.reserve(mem, max(len(v.s)+n, 2*len(v.s), minBytes/v.width()))
	return true
}

// finish hands the memory over and empties the vector. The result is nil where
// nothing was reserved.
func (v *vector[T]) finish() *memory.Buffer {
	owner := v.owner
	if owner != nil {
		owner.ResizeNoShrink(len(v.s) * v.width())
	}
	*v = vector[T]{}
	return owner
}

// release frees the memory and empties the vector.
func (v *vector[T]) release() {
	if v.owner != nil {
		v.owner.Release()
	}
	*v = vector[T]{}
}
