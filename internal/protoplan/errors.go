// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"fmt"
	"strings"
)

// DataError reports wire bytes that are no message of a plan.
type DataError struct {
	// Path names the field; "" is the message itself.
	Path string
	// Offset is where the fault is, in bytes from the start of the message, or -1
	// where it is in no single place.
	Offset int
	// Reason says what is wrong.
	Reason string

	steps []string // of Path, innermost first
	cause error
}

// Error tells the field, the offset and the fault.
func (e *DataError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "field %s: ", e.Path)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Unwrap returns the error of the Protobuf library, if one is the reason.
func (e *DataError) Unwrap() error { return e.cause }

// ValueError reports a row that cannot be written as a message.
type ValueError struct {
	// Path names the column.
	Path string
	// Reason says what is wrong.
	Reason string

	steps []string
	cause error
}

// Error tells the fault. The path is left to the one who reports the error.
func (e *ValueError) Error() string { return e.Reason }

// Unwrap returns the error of the Protobuf library, if one is the reason.
func (e *ValueError) Unwrap() error { return e.cause }

// ColumnError is a column that a plan cannot write.
type ColumnError struct {
	Path   string
	Reason string
}

// ColumnErrors are all columns of a batch that a plan cannot write, at least one.
type ColumnErrors []*ColumnError

// Error tells each column and why it does not fit.
func (e ColumnErrors) Error() string {
	var b strings.Builder
	for i, column := range e {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "column %s: %s", column.Path, column.Reason)
	}
	return b.String()
}

func dataFault(offset int, format string, args ...any) *DataError {
	return &DataError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func valueFault(format string, args ...any) *ValueError {
	return &ValueError{Reason: fmt.Sprintf(format, args...)}
}

// under puts a field, or an element in brackets, in front of the path of an
// error.
func under(err error, step string) error {
	switch e := err.(type) {
	case *DataError:
		e.steps = append(e.steps, step)
	case *ValueError:
		e.steps = append(e.steps, step)
	}
	return err
}

// located returns an error whose path is complete.
func located(err error) error {
	switch e := err.(type) {
	case *DataError:
		e.Path, e.steps = pathOf(e.steps), nil
	case *ValueError:
		e.Path, e.steps = pathOf(e.steps), nil
	}
	return err
}

// pathOf joins steps, of which the innermost comes first.
func pathOf(steps []string) string {
	var b strings.Builder
	for i := len(steps) - 1; i >= 0; i-- {
		if b.Len() > 0 && !strings.HasPrefix(steps[i], "[") {
			b.WriteByte('.')
		}
		b.WriteString(steps[i])
	}
	return b.String()
}
