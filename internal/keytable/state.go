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

// StateLayoutError says that a snapshot was taken by an operator of another
// configuration.
type StateLayoutError struct {
	Saved, Want string // layouts, in words
}

func (e *StateLayoutError) Error() string {
	return fmt.Sprintf("state was saved by %s, and this is %s", e.Saved, e.Want)
}

// MinCompaction is the least number of groups, or of rows, from which on it is
// worth looking for those that are held no more.
const MinCompaction = 1024
