// SPDX-License-Identifier: Apache-2.0

package jsontable

import "fmt"

// RowError says that a row could not be converted.
type RowError struct {
	Row   int
	Cause error
}

func (e *RowError) Error() string { return fmt.Sprintf("%v (row %d)", e.Cause, e.Row) }

// Unwrap returns why the row could not be converted.
func (e *RowError) Unwrap() error { return e.Cause }

// rowErrors is the error of several rows. Its Unwrap returns a [RowError] for each.
type rowErrors []error

func (e rowErrors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	return fmt.Sprintf("%v (and %d more rows)", e[0], len(e)-1)
}

func (e rowErrors) Unwrap() []error { return e }
