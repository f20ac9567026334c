// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"fmt"
	"io/fs"
)

// StaleOwnerError says that another owner has claimed the partition since the
// generation of a refused call.
type StaleOwnerError struct {
	Generation int64 // of the refused call
	Current    int64 // of the present owner
}

func (e *StaleOwnerError) Error() string {
	return fmt.Sprintf("the files belong to generation %d, not to generation %d", e.Current, e.Generation)
}

// DamageError says that a file does not hold the bytes that were saved.
type DamageError struct {
	Epoch int64  // NoEpoch outside barriers
	Name  string // of the file
	Cause error
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Name, e.Cause) }

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Cause }

func damage(epoch int64, name string, cause error) error {
	return &DamageError{Epoch: epoch, Name: name, Cause: cause}
}

// ignoreMissing turns the error for a file that does not exist into none.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
