// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// noRow stands for the row of an error that concerns no single one.
const noRow = -1

// ColumnError says which column of a batch an operator cannot work with.
type ColumnError struct {
	Column string
	Row    int // the row in the batch, or -1
	Cause  error
}

func (e *ColumnError) Error() string {
	cause := textPrefix.Quote(e.Cause)
	if e.Row == noRow {
		return fmt.Sprintf("columnar: column `%s`: %s", e.Column, cause)
	}
	return fmt.Sprintf("columnar: column `%s`, row %d: %s", e.Column, e.Row, cause)
}

// Unwrap returns what is wrong with the column.
func (e *ColumnError) Unwrap() error { return e.Cause }

// ErrNoColumn is what a [ColumnError] wraps when a batch lacks the column.
var ErrNoColumn = errors.New("column does not exist")

// missingColumn is a cause with the documented text, which names the column
// itself.
type missingColumn struct {
	format string
	name   string
}

func (e *missingColumn) Error() string { return fmt.Sprintf(e.format, e.name) }

func (e *missingColumn) Is(target error) bool { return target == ErrNoColumn }

// firstColumn returns the index of the first column of that name, or -1.
func firstColumn(schema *arrow.Schema, name string) int {
	if found := schema.FieldIndices(name); len(found) > 0 {
		return found[0]
	}
	return -1
}

// columnIndex returns the index of the first column of that name. A missing
// column is an error.
func columnIndex(schema *arrow.Schema, name string) (int, error) {
	if i := firstColumn(schema, name); i >= 0 {
		return i, nil
	}
	return -1, missing(name)
}

func missing(name string) error {
	return &ColumnError{Column: name, Row: noRow, Cause: &missingColumn{"Arrow column does not exist: %s", name}}
}

// sameSchema reports whether two schemas describe the same columns. Batches of
// one source mostly share the schema object.
func sameSchema(a, b *arrow.Schema) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}

// rowError is an error that concerns one row of a column.
type rowError struct {
	row   int
	cause error
}

func (e *rowError) Error() string { return e.cause.Error() }

func (e *rowError) Unwrap() error { return e.cause }

// columnFailure says that a column failed, and on which row if cause knows.
func columnFailure(column string, cause error) error {
	row := noRow
	if failed, ok := cause.(*rowError); ok {
		row, cause = failed.row, failed.cause
	}
	return &ColumnError{Column: column, Row: row, Cause: cause}
}
