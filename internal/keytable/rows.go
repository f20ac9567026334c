// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"encoding/binary"

	"github.com/krabka-io/krabka-streams-go/internal/statebytes"
)

// Rows holds what has a fixed size of all groups, a row of words for each.
// Keys and aggregates of a group lie beside each other, so that a row of a batch
// touches little memory. Word 0 of a row is its header.
type Rows struct {
	Words  []uint64
	Stride int
	zero   []uint64 // a row of zeros
}

// The header of a row: the number of the round that touched the group last, and
// above it a flag for each key column that says that the key is null.
const (
	RoundMask   = 1<<32 - 1
	FirstNull   = 32
	headerWords = 1
	// MaxColumns is the number of flags.
	MaxColumns = 32
)

// Reshape removes all groups and sets the number of words in a row.
func (r *Rows) Reshape(stride int) {
	r.Words, r.Stride, r.zero = nil, stride, make([]uint64, stride)
}

// Row returns the words of a group.
func (r *Rows) Row(group uint32) []uint64 {
	start := int(group) * r.Stride
	return r.Words[start : start+r.Stride]
}

// Header returns the header of a group.
func (r *Rows) Header(group uint32) *uint64 { return &r.Words[int(group)*r.Stride] }

// add appends a row of zeros.
func (r *Rows) add() { r.Words = append(r.Words, r.zero...) }

// Grow appends rows of zeros until there are rows for that many groups.
func (r *Rows) Grow(groups int) {
	r.Words = append(r.Words, make([]uint64, groups*r.Stride-len(r.Words))...)
}

func (r *Rows) truncate(groups int) { r.Words = r.Words[:groups*r.Stride] }

// keep leaves only the given groups, in memory of their own.
func (r *Rows) keep(groups []uint32) {
	words := make([]uint64, 0, len(groups)*r.Stride*5/4)
	for _, group := range groups {
		words = append(words, r.Row(group)...)
	}
	r.Words = words
}

// Cell is a place of some words in every row.
type Cell struct {
	Rows   *Rows
	Offset int
}

// Place puts the cell at an offset of rows.
func (c *Cell) Place(rows *Rows, offset int) { c.Rows, c.Offset = rows, offset }

// Placed returns the offset of the cell, or 0 before it has one.
func (c *Cell) Placed() int { return c.Offset }

// Word returns a word of a group's cell.
func (c *Cell) Word(group uint32, i int) *uint64 {
	return &c.Rows.Words[int(group)*c.Rows.Stride+c.Offset+i]
}

// EncodeWords appends a word of each group's cell.
func (c *Cell) EncodeWords(w *statebytes.Writer, groups []uint32, i int) {
	words, stride, offset := c.Rows.Words, c.Rows.Stride, c.Offset+i
	out := w.Extend(8 * len(groups))
	for _, group := range groups {
		binary.BigEndian.PutUint64(out[:8], words[int(group)*stride+offset])
		out = out[8:]
	}
}

// DecodeWords reads a word of each group's cell.
func (c *Cell) DecodeWords(r *statebytes.Reader, groups, i int) {
	words, stride, at := c.Rows.Words, c.Rows.Stride, c.Offset+i
	for in := r.Take(uint64(groups) * 8); len(in) >= 8; in = in[8:] {
		words[at] = binary.BigEndian.Uint64(in)
		at += stride
	}
}

// Placeable is a column of rows.
type Placeable interface {
	// Place puts the column at an offset of rows.
	Place(rows *Rows, offset int)
	// Placed returns the offset of the column, or 0 before it has one.
	Placed() int
	// Width is the number of words that the column takes in a row.
	Width() int
}

// Relayout places columns one behind the other and moves their words along.
// Columns that had no place are zero. It does the same to saved, which holds
// former rows.
func (r *Rows) Relayout(columns []Placeable, saved []uint64) []uint64 {
	stride := headerWords
	for _, column := range columns {
		stride += column.Width()
	}
	move := func(words []uint64) []uint64 {
		if r.Stride == 0 {
			return nil
		}
		moved := make([]uint64, 0, len(words)/r.Stride*stride)
		for ; len(words) > 0; words = words[r.Stride:] {
			moved = append(moved, words[0])
			for _, column := range columns {
				from, width := column.Placed(), column.Width()
				if from == 0 {
					moved = append(moved, make([]uint64, width)...)
				} else {
					moved = append(moved, words[from:from+width]...)
				}
			}
		}
		return moved
	}
	words := move(r.Words)
	saved = move(saved)
	r.Reshape(stride)
	r.Words = words
	offset := headerWords
	for _, column := range columns {
		column.Place(r, offset)
		offset += column.Width()
	}
	return saved
}
