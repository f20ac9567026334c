// SPDX-License-Identifier: Apache-2.0

package columnar

import "fmt"

// bulkRunLength is the mean length of consecutive rows from which on a
// selection is copied run by run instead of row by row.
const bulkRunLength = 8

// span is a run of consecutive rows, or of length null rows when start is
// negative.
type span struct{ start, length int }

// selection lists the rows to take from an array, in output order: as rows, or
// as spans where runs are long. A negative row stands for a null.
type selection struct {
	rows  []int32
	spans []span
	count int  // rows in the output
	nulls bool // some rows are negative
}

// newSelection checks rows against the length of the array that they are taken
// from. Consecutive rows become spans when there are few of them.
func newSelection(rows []int32, length int) (selection, error) {
	sel := selection{rows: rows, count: len(rows)}
	runs := 0
	next := int32(-2)
	for i, row := range rows {
		if row < 0 || int(row) >= length {
			if row != -1 {
				return selection{}, fmt.Errorf("row %d at position %d is outside a batch of %d rows", row, i, length)
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

// newSpanSelection returns an empty selection to be filled by addSpan.
func newSpanSelection(capacity int) selection {
	return selection{spans: make([]span, 0, capacity)}
}

// addSpan appends rows and joins them with the span before where they continue
// it. It does not touch count, which newSelection has already set.
func (s *selection) addSpan(start, length int) {
	if last := len(s.spans) - 1; last >= 0 {
		tail := &s.spans[last]
		if start < 0 && tail.start < 0 || start >= 0 && tail.start >= 0 && tail.start+tail.length == start {
			tail.length += length
			return
		}
	}
	s.spans = append(s.spans, span{start, length})
}

// extend appends length rows to a selection of spans.
func (s *selection) extend(start, length int) {
	if length == 0 {
		return
	}
	s.addSpan(start, length)
	s.count += length
	s.nulls = s.nulls || start < 0
}

// isIdentity reports whether the selection takes all rows of an array of that
// length in order.
func (s *selection) isIdentity(length int) bool {
	if s.count != length || s.nulls {
		return false
	}
	if s.spans != nil {
		return length == 0 || len(s.spans) == 1 && s.spans[0].start == 0
	}
	for i, row := range s.rows {
		if int(row) != i {
			return false
		}
	}
	return true
}

// each calls f with the start and length of each span in output order.
func (s *selection) each(f func(start, length int)) {
	if s.spans != nil {
		for _, run := range s.spans {
			f(run.start, run.length)
		}
		return
	}
	for _, row := range s.rows {
		f(int(row), 1)
	}
}
