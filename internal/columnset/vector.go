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

// vector is an array in memory of an allocator. Whoever uses it knows how many of
// its values are in use.
type vector[T uint8 | uint32 | uint64 | int32] struct {
	s     []T            // all that there is room for
	owner *memory.Buffer // of the memory of s; nil before the first growth
}

func (v *vector[T]) width() int {
	var value T
	return int(unsafe.Sizeof(value))
}

// reserve makes room for n values, or for as many as fit limit bytes.
func (v *vector[T]) reserve(mem memory.Allocator, n, limit int) {
	most := limit / v.width()
	n = min(n, most)
	if n <= len(v.s) {
		return
	}
	if v.owner == nil {
		v.owner = memory.NewResizableBuffer(mem)
	}
	v.owner.Reserve(n * v.width())
	room := v.owner.Buf()
	v.s = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room))), min(len(room)/v.width(), most))
}

// grow makes room for n more values than the used ones, and for as many again as
// there are. It reports whether they fit into a buffer of limit bytes.
func (v *vector[T]) grow(mem memory.Allocator, used, n, limit int) bool {
	if n > limit/v.width()-used {
		return false
	}
	v.reserve(mem, max(used+n, 2*used, minBytes/v.width()), limit)
	return true
}

// finish hands the memory of the used values over and empties the vector. The
// result is nil where nothing was reserved.
func (v *vector[T]) finish(used int) *memory.Buffer {
	owner := v.owner
	if owner != nil {
		owner.ResizeNoShrink(used * v.width())
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
