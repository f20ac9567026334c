// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"io"
	"io/fs"
	"os"
)

// fileSystem is what a [FileStateStore] needs of a file system. What is written
// to a file survives a crash once the file is synced, and a name once its
// directory is.
type fileSystem interface {
	// MakeDirectory makes a directory and its parents, durably.
	MakeDirectory(path string) error
	// Names lists a directory. A directory that does not exist is empty.
	Names(directory string) ([]string, error)
	// Read returns a whole file, and fs.ErrNotExist for none.
	Read(path string) ([]byte, error)
	// Size returns the size of a file, and fs.ErrNotExist for none.
	Size(path string) (int64, error)
	// Create makes a file for writing that does not exist yet.
	Create(path string) (durableFile, error)
	Rename(from, to string) error
	Remove(path string) error
	SyncDirectory(path string) error
	// TryLock takes an exclusive lock on a file, which it creates. It returns
	// nil without an error when another holder has it.
	TryLock(path string) (io.Closer, error)
	// LockForProcess takes a lock that only other processes contend for, until
	// the closer is closed or the process ends.
	LockForProcess(path string) (io.Closer, error)
}

// durableFile is an open file whose content can be made durable.
type durableFile interface {
	io.WriteCloser
	Sync() error
}

// osFileSystem is the operating system's.
type osFileSystem struct{}

func (s osFileSystem) MakeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return s.SyncDirectory(parentDirectory(path))
}

func (osFileSystem) Names(directory string) ([]string, error) {
	opened, err := os.Open(directory)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return opened.Readdirnames(-1)
}

func (osFileSystem) Read(path string) ([]byte, error) { return os.ReadFile(path) }

func (osFileSystem) Size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrInvalid}
	}
	return info.Size(), nil
}

func (osFileSystem) Create(path string) (durableFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (osFileSystem) Rename(from, to string) error { return os.Rename(from, to) }

func (osFileSystem) Remove(path string) error { return os.Remove(path) }

func (osFileSystem) SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	err = directory.Sync()
	return firstError(err, directory.Close())
}
