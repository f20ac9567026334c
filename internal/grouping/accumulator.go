// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// accumulator holds one aggregate of all groups, in their rows.
type accumulator interface {
	keytable.Placeable
	// kind is the kind of input that is held; arrays.AnyKind if all of it was null, or
	// does not matter.
	kind() arrays.Kind
	// load makes arr, a plain array, the input that rows refer to.
	load(arr arrow.Array) error
	// add takes in the rows from first on; row first+i is one of group ids[i].
	add(ids []uint32, first int) error
	// build returns the values of groups as an array that the caller owns.
	build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error)
	// EncodedSize is at least what encode appends, in bytes.
	encodedSize(groups []uint32) int
	encode(w *statebytes.Writer, groups []uint32)
	decode(r *statebytes.Reader, groups int)
}

// sideState is what an accumulator holds beside the rows.
type sideState interface {
	grow(groups int)
	// save remembers the values of groups, and restore brings back those of the
	// same groups. forget drops what is remembered.
	save(groups []uint32)
	restore(groups []uint32)
	forget()
	truncate(groups int)
	// keep leaves only the given groups, which are ascending.
	keep(groups []uint32)
}

// rescalable is an accumulator whose rows take another form when it meets a
// column of another scale.
type rescalable interface {
	// remember says where rows are remembered.
	remember(saved *[]uint64)
	// settle makes the scale that of the latest commit, and unscale brings the
	// rows, which are those of the latest commit, back to it.
	settle()
	unscale()
}

var (
	_ sideState  = (*byteExtremeState)(nil)
	_ rescalable = (*decimalState)(nil)
)

// countState counts rows.
type countState struct{ keytable.Cell }

func (*countState) Width() int { return 1 }

func (*countState) kind() arrays.Kind { return arrays.AnyKind }

func (*countState) load(arrow.Array) error { return nil }

func (s *countState) add(ids []uint32, _ int) error {
	words, stride, offset := s.Rows.Words, s.Rows.Stride, s.Offset
	for _, id := range ids {
		count := &words[int(id)*stride+offset]
		*count++
		if *count > math.MaxInt64 {
			return errors.New("count overflow")
		}
	}
	return nil
}

func (s *countState) build(mem memory.Allocator, dt arrow.DataType, groups []uint32) (arrow.Array, error) {
	column := arrays.Words{Kind: arrays.IntKind, Values: make([]int64, len(groups))}
	for i, group := range groups {
		column.Values[i] = int64(*s.Word(group, 0))
	}
	return column.Build(mem, dt)
}

func (*countState) encodedSize(groups []uint32) int { return 8 * len(groups) }

func (s *countState) encode(w *statebytes.Writer, groups []uint32) { s.EncodeWords(w, groups, 0) }

func (s *countState) decode(r *statebytes.Reader, groups int) {
	s.DecodeWords(r, groups, 0)
	for group := range uint32(groups) {
		if *s.Word(group, 0) > math.MaxInt64 {
			r.Fail(errors.New("count is negative in snapshot"))
		}
	}
}
