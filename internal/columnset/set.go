// SPDX-License-Identifier: Apache-2.0

package columnset

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Set collects the rows of one batch after the other. It remembers the sizes of a
// batch for the memory of the next.
type Set struct {
	room room
	top  []*Column
	all  []*Column // by ID
	rows int       // complete ones

	// Scratch is what the reader of the rows needs for itself.
	Scratch any
}

// New returns a set of the columns of spec.
func New(spec *Spec, mem memory.Allocator) *Set {
	s := &Set{room: room{mem: mem, limit: maxBytes}, all: make([]*Column, spec.count)}
	for _, c := range spec.columns {
		s.top = append(s.top, s.add(c))
	}
	return s
}

func (s *Set) add(spec *ColumnSpec) *Column {
	c := &Column{ColumnSpec: spec, room: &s.room}
	s.all[spec.ID] = c
	for _, child := range spec.Children {
		c.children = append(c.children, s.add(child))
	}
	return c
}

// Limit bounds the bytes of each buffer below 2^31-1.
func (s *Set) Limit(bytes int) { s.room.limit = min(bytes, maxBytes) }

// Top returns the columns of the top level.
func (s *Set) Top() []*Column { return s.top }

// All returns the columns of all levels, by their ID.
func (s *Set) All() []*Column { return s.all }

// Rows returns the number of complete rows.
func (s *Set) Rows() int { return s.rows }

// Overflow returns the first column that has no room for a value of the current
// row, or nil. Such a row is not complete.
func (s *Set) Overflow() *Column { return s.room.overflow }

// Begin starts a batch in memory of mem, with room for rows rows that take size
// bytes in the form that they are read from.
func (s *Set) Begin(mem memory.Allocator, rows, size int) {
	s.room.mem, s.rows, s.room.overflow = mem, 0, nil
	for _, c := range s.top {
		c.begin(rows, rows, size)
	}
}

// Commit makes the values appended to every column of the top level a row. It
// reports whether the row fits; one that does not fit is taken back.
func (s *Set) Commit() bool {
	if s.room.overflow != nil {
		s.Rollback()
		return false
	}
	s.rows++
	return true
}

// Rollback removes what has been appended since the last complete row. Overflow
// stays as it is.
func (s *Set) Rollback() {
	for _, c := range s.top {
		c.Truncate(s.rows)
	}
}

// AppendNulls appends a null to every column of the top level.
func (s *Set) AppendNulls() {
	for _, c := range s.top {
		c.AppendNull()
	}
}

// Finish returns the columns of the top level, which the caller owns, and empties
// the set.
func (s *Set) Finish() []arrow.Array {
	columns := make([]arrow.Array, len(s.top))
	for i, c := range s.top {
		data := c.finish(s.rows)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	return columns
}

// Discard frees the memory of all columns. It does nothing after Finish.
func (s *Set) Discard() {
	for _, c := range s.all {
		c.discard()
	}
}
