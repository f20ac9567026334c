// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"bytes"
	"strconv"
)

// Layout says which rows a document holds. The zero value stands for one row, an
// object.
type Layout struct {
	Arrays  bool // an array holds a row in each of its elements
	Lines   bool // any number of values follow each other, with white space between them
	Scalars bool // a row is the value of the only column, not an object of it
	Mark    bool // a byte-order mark before the document is skipped
}

// ByteOrderMark is the mark that some programs write before UTF-8.
const ByteOrderMark = "\ufeff"

// Rows reads the rows of a document and returns how many there are; on error there
// are none.
func (d *Decoder) Rows(data []byte, layout Layout) (int, *Error) {
	d.Data, d.Pos = data, 0
	if layout.Mark && bytes.HasPrefix(data, []byte(ByteOrderMark)) {
		d.Pos = len(ByteOrderMark)
	}
	first := d.Root.Count
	if err := d.rows(layout, first); err != nil {
		d.Root.Truncate(first)
		return 0, err
	}
	return d.Root.Count - first, nil
}

func (d *Decoder) rows(layout Layout, first int) *Error {
	for {
		if c := d.Peek(); layout.Lines && d.Pos >= len(d.Data) {
			return nil
		} else if err := d.rowOrArray(layout, c); err != nil {
			if layout.Lines {
				return err.within("[" + strconv.Itoa(d.Root.Count-first) + "]")
			}
			return err
		}
		end := d.Pos
		if d.Peek(); d.Pos >= len(d.Data) {
			return nil
		}
		if !layout.Lines || d.Pos == end {
			return d.fail(errTrailing)
		}
	}
}

// rowOrArray reads one value of a document, which starts with c: a row, or an array
// of rows.
func (d *Decoder) rowOrArray(layout Layout, c byte) *Error {
	row := &d.Root
	if layout.Scalars {
		row = &d.Root.Children[0]
	}
	var err *Error
	if layout.Arrays && c == '[' {
		_, err = d.elements(row)
	} else if err = d.Value(row); err != nil && layout.Scalars {
		err = err.within(row.Node.Name)
	}
	if err != nil {
		return err
	}
	for d.Root.Count < row.Count {
		d.Root.Valid()
	}
	return nil
}
