// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FileSystem is what the files of a partition need of a file system. What is written
// to a file survives a crash once the file is synced, and a name once its
// directory is.
type FileSystem interface {
	// MakeDirectory makes a directory and its parents, durably.
	MakeDirectory(path string) error
	// Names lists a directory. A directory that does not exist is empty.
	Names(directory string) ([]string, error)
	// Read returns a whole file, and fs.ErrNotExist for none.
	Read(path string) ([]byte, error)
	// Size returns the size of a file, and fs.ErrNotExist for none.
	Size(path string) (int64, error)
	// Create makes a file for writing that does not exist yet.
	Create(path string) (File, error)
	// Sync makes the bytes of a file durable, whoever wrote them.
	Sync(path string) error
	// Rename gives a file another name in its directory, whose holder it replaces.
	Rename(from, to string) error
	// Remove deletes a file, and returns fs.ErrNotExist for none.
	Remove(path string) error
	// SyncDirectory makes the names in a directory durable.
	SyncDirectory(path string) error
	// TryLock takes an exclusive lock on a file, which it creates. It returns
	// nil without an error when another holder has it.
	TryLock(path string) (io.Closer, error)
}

// File is an open file whose content can be made durable.
type File interface {
	io.WriteCloser
	// Sync makes the written bytes durable.
	Sync() error
}

// OS is the file system of the operating system.
type OS struct{}

// Sync syncs a file.
func (OS) Sync(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return cmp.Or(file.Sync(), file.Close())
}

// MakeDirectory makes a directory and its parents, and syncs the directory above them.
func (s OS) MakeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return s.SyncDirectory(filepath.Dir(filepath.Clean(path)))
}

// Names lists a directory.
func (OS) Names(directory string) ([]string, error) {
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

// Read reads a whole file.
func (OS) Read(path string) ([]byte, error) { return os.ReadFile(path) }

// Size returns the size of a regular file.
func (OS) Size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrInvalid}
	}
	return info.Size(), nil
}

// Create makes a file that only its owner can read.
func (OS) Create(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Rename renames a file.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove deletes a file.
func (OS) Remove(path string) error { return os.Remove(path) }

// SyncDirectory syncs a directory.
func (OS) SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	err = directory.Sync()
	return cmp.Or(err, directory.Close())
}
