// SPDX-License-Identifier: Apache-2.0

package statefile_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
)

// rival does something ahead of each attempt at the lock of the group file, and says
// whether it holds the lock then.
type rival struct {
	statefile.FileSystem
	holds func(attempt int) bool
	tried int
}

func (r *rival) TryLock(path string) (io.Closer, error) {
	if filepath.Base(path) == "group.lock" {
		if r.tried++; r.holds(r.tried) {
			return nil, nil
		}
	}
	return r.FileSystem.TryLock(path)
}

// Of the members of two groups that find an empty directory at once one group gets it:
// whether the other has written its name by the time of the lock, or holds the lock.
func TestOfTwoGroupsOneGetsTheDirectory(t *testing.T) {
	for _, held := range []int{0, 2} {
		directory := t.TempDir()
		claim := func(files statefile.FileSystem, group string) error {
			claimed, err := statefile.ClaimMember(t.Context(), files, directory, group, []string{group})
			if err == nil {
				err = claimed.Close()
			}
			return err
		}
		late := &rival{FileSystem: statefile.OS{}, holds: func(attempt int) bool {
			if attempt == held+1 {
				if err := claim(statefile.OS{}, "first"); err != nil {
					t.Errorf("the first group: %v", err)
				}
			}
			return attempt <= held
		}}
		var other *statefile.OtherGroupError
		if err := claim(late, "second"); !errors.As(err, &other) || other.Owner != "first" {
			t.Errorf("a group that comes while another claims, and finds the lock held %d times = %v; want that the directory is the other's", held, err)
		}
		if err := claim(statefile.OS{}, "first"); err != nil {
			t.Errorf("the first group, again: %v", err)
		}
	}
}
