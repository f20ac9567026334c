// SPDX-License-Identifier: Apache-2.0

package columnar

import "github.com/krabka-io/krabka-streams-go/internal/namedcols"

// ColumnError says that an operator, a codec or an expression cannot use a
// column of a batch. Its fields are
//
//	Column string // name of the column
//	Row    int    // row in the batch, or -1 where the column as a whole is meant
//	Cause  error  // what is wrong with the column; Unwrap returns it
type ColumnError = namedcols.Error

// ErrNoColumn is the error that a [ColumnError] wraps if a batch lacks the
// column.
var ErrNoColumn = namedcols.ErrMissing
