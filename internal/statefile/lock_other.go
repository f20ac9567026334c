// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package statefile

import (
	"io"
	"os"
)

// TryLock takes no lock where the system's file locks are not known to the
// library: one process must be the only one that uses the directory.
func (OS) TryLock(path string) (io.Closer, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
