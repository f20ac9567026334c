// SPDX-License-Identifier: Apache-2.0

package arrays

import "fmt"

// bulkRunLength is the mean length of consecutive rows from which on a
// selection is copied run by run instead of row by row.
const bulkRunLength = 8

// span is a run of consecutive rows, or of length null rows when start is
// negative.
type span struct{ start, length int }

// Selection lists the rows to take from an array, in output order: as rows, or
// as spans where runs are long. A negative row stands for a null.
type Selection struct {
	rows  []int32
	spans []span
	count int  // rows in the output
	nulls bool // some rows are negative
}

// NewSelection checks rows against the length of the array that they are taken
// from. Consecutive rows become spans when there are few of them.
func NewSelection(rows []int32, length int) (Selection, error) {
	sel := Selection{rows: rows, count: len(rows)}
	runs := 0
	next := int32(-2)
	for i, row := range rows {
		if row < 0 || int(row) >= length {
			if row != -1 {
				return Selection{}, fmt.Errorf("row %d at position %d is outside a batch of %d rows", row, i, length)
			}
			sel.nulls = true
		}
		if row != next {
			runs++
		}
		next = row + 1
		if row < 0 {
			next = -1
		}
	}
	if runs*bulkRunLength <= len(rows) {
		sel.spans = make([]span, 0, runs)
		for _, row := range rows {
			sel.addSpan(int(row), 1)
		}
	}
	return sel, nil
}

// addSpan appends rows and joins them with the span before where they continue
// it. It does not touch count, which NewSelection has already set.
func (sel *Selection) addSpan(start, length int) {
	if last := len(sel.spans) - 1; last >= 0 {
		tail := &sel.spans[last]
		if start < 0 && tail.start < 0 || start >= 0 && tail.start >= 0 && tail.start+tail.length == start {
			tail.length += length
			return
		}
	}
	sel.spans = append(sel.spans, span{start, length})
}

// Extend appends length rows to a selection of spans.
func (sel *Selection) Extend(start, length int) {
	if length == 0 {
		return
	}
	sel.addSpan(start, length)
	sel.count += length
	sel.nulls = sel.nulls || start < 0
}

// Len returns the number of rows that the selection takes.
func (sel *Selection) Len() int { return sel.count }

// isIdentity reports whether the selection takes all rows of an array of that
// length in order.
func (sel *Selection) isIdentity(length int) bool {
	if sel.count != length || sel.nulls {
		return false
	}
	if sel.spans != nil {
		return length == 0 || len(sel.spans) == 1 && sel.spans[0].start == 0
	}
	for i, row := range sel.rows {
		if int(row) != i {
			return false
		}
	}
	return true
}

// each calls f with the start and length of each span in output order.
func (sel *Selection) each(f func(start, length int)) {
	if sel.spans != nil {
		for _, run := range sel.spans {
			f(run.start, run.length)
		}
		return
	}
	for _, row := range sel.rows {
		f(int(row), 1)
	}
}
