// SPDX-License-Identifier: Apache-2.0

// Package namedcols finds columns by their names, and has the errors that name a
// column.
//
// The packages that compute over batches use it: operators, expressions, and the
// state of operators. It reads schemas, never values.
package namedcols

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/krabka-io/krabka-streams-go/internal/errtext"
)

// prefix begins the texts of errors, which users see as those of package
// columnar.
const prefix = errtext.Prefix("columnar: ")

// Error says that a column of a batch cannot be used. Package columnar documents
// it as ColumnError.
type Error struct {
	Column string
	Row    int // row in the batch, or NoRow
	Cause  error
}

// NoRow is the row of an [Error] that concerns a column as a whole.
const NoRow = -1

func (e *Error) Error() string {
	cause := prefix.Quote(e.Cause)
	if e.Row == NoRow {
		return fmt.Sprintf("columnar: column `%s`: %s", e.Column, cause)
	}
	return fmt.Sprintf("columnar: column `%s`, row %d: %s", e.Column, e.Row, cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrMissing is the error that an [Error] wraps if a batch lacks the column.
var ErrMissing = errors.New("column does not exist")

// missing is a cause with a text of its own that is [ErrMissing].
type missing struct {
	format string
	name   string
	schema *arrow.Schema // that lacks the column
}

func (e *missing) Error() string {
	return fmt.Sprintf(e.format, e.name) + " (the columns are " + list(e.schema) + ")"
}

func (e *missing) Is(target error) bool { return target == ErrMissing }

// maxListed bounds how many columns the error for a missing one lists.
const maxListed = 32

func list(schema *arrow.Schema) string {
	names := make([]string, 0, maxListed)
	for _, field := range schema.Fields()[:min(schema.NumFields(), maxListed)] {
		names = append(names, field.Name)
	}
	text := strings.Join(names, ", ")
	switch more := schema.NumFields() - len(names); {
	case len(names) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// Missing returns the error for a column that a schema lacks. The text lists the
// columns that the schema has.
func Missing(schema *arrow.Schema, name string) error {
	return MissingText(schema, "Arrow column does not exist: %s", name)
}

// MissingText is [Missing] with another text, in which a verb of format stands
// for the column's name.
func MissingText(schema *arrow.Schema, format, name string) error {
	return &Error{Column: name, Row: NoRow, Cause: &missing{format, name, schema}}
}

// ErrType is matched by the errors of [WrongType].
var ErrType = errors.New("column has another type")

// wrongType is a cause with a text of its own that is [ErrType].
type wrongType struct{ cause error }

func (e *wrongType) Error() string { return e.cause.Error() }

func (e *wrongType) Unwrap() error { return e.cause }

func (e *wrongType) Is(target error) bool { return target == ErrType }

// WrongType returns cause as an error that the type of a column is to blame for,
// whatever its values are. Its text is that of cause; nil stays nil.
func WrongType(cause error) error {
	if cause == nil {
		return nil
	}
	return &wrongType{cause}
}

// rowError is an error that concerns one row of a column.
type rowError struct {
	row   int
	cause error
}

func (e *rowError) Error() string { return e.cause.Error() }

func (e *rowError) Unwrap() error { return e.cause }

// AtRow returns an error that concerns one row of a column that the caller
// cannot name. Its text is that of cause, and [Failure] finds the row.
func AtRow(row int, cause error) error { return &rowError{row, cause} }

// Failure returns an [Error] of a column, with the row if [AtRow] has noted it
// in cause.
func Failure(column string, cause error) error {
	row := NoRow
	if failed, ok := cause.(*rowError); ok {
		row, cause = failed.row, failed.cause
	}
	return &Error{Column: column, Row: row, Cause: cause}
}

// First returns the index of the first column of that name, or -1.
func First(schema *arrow.Schema, name string) int {
	if found := schema.FieldIndices(name); len(found) > 0 {
		return found[0]
	}
	return -1
}

// Index returns the index of the first column of that name. A missing column is
// an error.
func Index(schema *arrow.Schema, name string) (int, error) {
	if i := First(schema, name); i >= 0 {
		return i, nil
	}
	return -1, Missing(schema, name)
}

// Column returns the first column of that name, or nil. The batch keeps it.
func Column(batch arrow.RecordBatch, name string) arrow.Array {
	if i := First(batch.Schema(), name); i >= 0 {
		return batch.Column(i)
	}
	return nil
}

// SameSchema reports whether two schemas, which may be nil, describe the same
// columns. Batches of one source mostly share the schema object.
func SameSchema(a, b *arrow.Schema) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}

// Put returns batch with columns that replace those of the same name,
// or follow behind all others. like is a schema to use again if it fits. The
// caller owns the result and keeps its references to columns.
func Put(batch arrow.RecordBatch, fields []arrow.Field, columns []arrow.Array, like *arrow.Schema) arrow.RecordBatch {
	schema := batch.Schema()
	allFields, all := schema.Fields(), slices.Clone(batch.Columns())
	for i, field := range fields {
		if at := First(schema, field.Name); at >= 0 {
			allFields[at], all[at] = field, columns[i]
		} else {
			allFields, all = append(allFields, field), append(all, columns[i])
		}
	}
	metadata := schema.Metadata()
	target := arrow.NewSchema(allFields, &metadata)
	if SameSchema(like, target) {
		target = like
	}
	return array.NewRecordBatch(target, all, batch.NumRows())
}
