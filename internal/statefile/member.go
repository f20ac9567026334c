// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// groupFile holds the name of the group whose state a directory keeps.
const groupFile = "group"

// MemberInUseError says that somebody else goes by a name.
type MemberInUseError struct{ Name string }

func (e *MemberInUseError) Error() string { return fmt.Sprintf("%s is in use", e.Name) }

// OtherGroupError says that a directory keeps the state of another group.
type OtherGroupError struct{ Owner string }

func (e *OtherGroupError) Error() string {
	return fmt.Sprintf("the state is that of group %q", e.Owner)
}

// memberClaim holds the locks of the names of a member.
type memberClaim []io.Closer

// Close gives the names free.
func (c memberClaim) Close() error {
	var errs []error
	for _, lock := range c {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// ClaimMember makes the caller the only one that goes by each name in a directory,
// until the closer is closed or the process ends, and the directory that of group. An
// empty directory, and one without a group, is anybody's. The errors that tell who
// stands in the way are a [MemberInUseError] and an [OtherGroupError].
func ClaimMember(ctx context.Context, files FileSystem, directory, group string, names []string) (io.Closer, error) {
	var claim memberClaim
	for _, name := range names {
		lock, err := files.TryLock(filepath.Join(directory, memberFile(name)))
		if err == nil && lock == nil {
			err = &MemberInUseError{Name: name}
		}
		if err != nil {
			return nil, errors.Join(err, claim.Close())
		}
		claim = append(claim, lock)
	}
	if err := claimGroup(ctx, files, directory, group); err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return claim, nil
}

// memberFile names the lock file of a name, which may be longer than a file's.
func memberFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "member-" + hex.EncodeToString(sum[:16]) + ".lock"
}

// claimGroup makes a directory that of group. Of members that come at once each waits
// for the one before it, within ctx, and reads what that one has written.
func claimGroup(ctx context.Context, files FileSystem, directory, group string) error {
	path := filepath.Join(directory, groupFile)
	if belongs, err := isGroups(files, path, group); belongs || err != nil {
		return err
	}
	lock, err := files.TryLock(path + ".lock")
	for err == nil && lock == nil {
		select {
		case <-time.After(lockRetry):
			lock, err = files.TryLock(path + ".lock")
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if belongs, err := isGroups(files, path, group); belongs || err != nil {
		return err
	}
	temporary := path + ".tmp"
	if err := ignoreMissing(files.Remove(temporary)); err != nil {
		return err
	}
	file, err := files.Create(temporary)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, group)
	if err = cmp.Or(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return cmp.Or(files.Rename(temporary, path), files.SyncDirectory(directory))
}

// isGroups reports whether a directory is that of group already.
func isGroups(files FileSystem, path, group string) (bool, error) {
	switch owner, err := files.Read(path); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case string(owner) != group:
		return false, &OtherGroupError{Owner: string(owner)}
	}
	return true, nil
}
