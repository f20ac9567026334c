// SPDX-License-Identifier: Apache-2.0

package columnar

import "github.com/krabka-io/krabka-streams-go/internal/keytable"

// StateLimitError says that the state of an operator would grow beyond the
// limit that was set for it. Its field is
//
//	Limit int // in groups, or in rows of one side of a join
type StateLimitError = keytable.StateLimitError

// StateLayoutError says that a snapshot was taken by an operator of another
// configuration. Its fields are
//
//	Saved, Want string // layouts, in words
type StateLayoutError = keytable.StateLayoutError
