// SPDX-License-Identifier: Apache-2.0

package columnar

import "github.com/krabka-io/krabka-streams-go/internal/jsonrows"

// JSONError says what is wrong with a JSON document and where. Its fields are
//
//	Path   string // such as "lines[2].sku"; empty for the document itself
//	Offset int    // in bytes
//	Cause  error  // what is wrong with the document; Unwrap returns it
type JSONError = jsonrows.Error

// ErrRequiredField is the cause of a [JSONError] for a null or missing member of a
// column that is not nullable.
var ErrRequiredField = jsonrows.ErrRequiredField
