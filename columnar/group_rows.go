// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"

	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// groupRows holds what has a fixed size of all groups, a row of words for each.
// Keys and aggregates of a group lie beside each other, so that a row of a batch
// touches little memory. Word 0 of a row is its header.
type groupRows struct {
	words  []uint64
	stride int
	zero   []uint64 // a row of zeros
}

// The header of a row: the number of the round that touched the group last, and
// above it a flag for each key column that says that the key is null.
const (
	roundMask   = 1<<32 - 1
	firstNull   = 32
	headerWords = 1
	// maxKeyColumns is the number of flags.
	maxKeyColumns = 32
)

func (r *groupRows) reshape(stride int) {
	r.words, r.stride, r.zero = nil, stride, make([]uint64, stride)
}

// row returns the words of a group.
func (r *groupRows) row(group uint32) []uint64 {
	start := int(group) * r.stride
	return r.words[start : start+r.stride]
}

// header returns the header of a group.
func (r *groupRows) header(group uint32) *uint64 { return &r.words[int(group)*r.stride] }

// add appends a row of zeros.
func (r *groupRows) add() { r.words = append(r.words, r.zero...) }

func (r *groupRows) grow(groups int) {
	r.words = append(r.words, make([]uint64, groups*r.stride-len(r.words))...)
}

func (r *groupRows) truncate(groups int) { r.words = r.words[:groups*r.stride] }

// keep leaves only the given groups, in memory of their own.
func (r *groupRows) keep(groups []uint32) {
	words := make([]uint64, 0, len(groups)*r.stride*5/4)
	for _, group := range groups {
		words = append(words, r.row(group)...)
	}
	r.words = words
}

// cell is a place of some words in every row.
type cell struct {
	rows   *groupRows
	offset int
}

// place puts the cell at an offset of rows.
func (c *cell) place(rows *groupRows, offset int) { c.rows, c.offset = rows, offset }

// placed returns the offset of the cell, or 0 before it has one.
func (c *cell) placed() int { return c.offset }

// word returns a word of a group's cell.
func (c *cell) word(group uint32, i int) *uint64 {
	return &c.rows.words[int(group)*c.rows.stride+c.offset+i]
}

// encodeWords appends a word of each group's cell.
func (c *cell) encodeWords(w *statebytes.Writer, groups []uint32, i int) {
	words, stride, offset := c.rows.words, c.rows.stride, c.offset+i
	out := w.Extend(8 * len(groups))
	for _, group := range groups {
		binary.BigEndian.PutUint64(out[:8], words[int(group)*stride+offset])
		out = out[8:]
	}
}

// decodeWords reads a word of each group's cell.
func (c *cell) decodeWords(r *statebytes.Reader, groups, i int) {
	words, stride, at := c.rows.words, c.rows.stride, c.offset+i
	for in := r.Take(uint64(groups) * 8); len(in) >= 8; in = in[8:] {
		words[at] = binary.BigEndian.Uint64(in)
		at += stride
	}
}

// placeable is a column of rows.
type placeable interface {
	place(rows *groupRows, offset int)
	placed() int
	// width is the number of words that the column takes in a row.
	width() int
}

// relayout places columns one behind the other and moves their words along.
// Columns that had no place are zero. It does the same to saved, which holds
// former rows.
func (r *groupRows) relayout(columns []placeable, saved []uint64) []uint64 {
	stride := headerWords
	for _, column := range columns {
		stride += column.width()
	}
	move := func(words []uint64) []uint64 {
		if r.stride == 0 {
			return nil
		}
		moved := make([]uint64, 0, len(words)/r.stride*stride)
		for ; len(words) > 0; words = words[r.stride:] {
			moved = append(moved, words[0])
			for _, column := range columns {
				from, width := column.placed(), column.width()
				if from == 0 {
					moved = append(moved, make([]uint64, width)...)
				} else {
					moved = append(moved, words[from:from+width]...)
				}
			}
		}
		return moved
	}
	words := move(r.words)
	saved = move(saved)
	r.reshape(stride)
	r.words = words
	offset := headerWords
	for _, column := range columns {
		column.place(r, offset)
		offset += column.width()
	}
	return saved
}
