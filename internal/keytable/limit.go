// SPDX-License-Identifier: Apache-2.0

package keytable

import "fmt"

// StateLimitError says that the state of an operator would grow beyond the
// limit that was set for it.
type StateLimitError struct {
	Limit int // in groups, or in rows of one side of a join
}

func (e *StateLimitError) Error() string {
	return fmt.Sprintf("state would grow beyond the limit of %d", e.Limit)
}
