// SPDX-License-Identifier: Apache-2.0

// Package crashfs is a file system in memory for tests of crashes. Tests of
// package columnar use it in place of [statefile.OS]; no program does.
package crashfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
)

var errPowerLost = errors.New("power lost")

// FileSystem is a [statefile.FileSystem] that keeps written bytes apart from
// synced ones. After a crash, each file has lost some of its unsynced bytes, and
// each directory some of the changes of names since it was synced, in any
// combination.
type FileSystem struct {
	mu      sync.Mutex
	rand    *rand.Rand
	names   map[string]*memoryFile
	durable map[string]*memoryFile
	changes []nameChange // of names since their directory was synced
	locks   map[string]bool

	// Dead makes every call fail until [FileSystem.Restart], as after a power cut.
	Dead bool
	// Before runs ahead of each change, which does not happen if Before returns an
	// error.
	Before func(op, path string) error
}

type memoryFile struct {
	data   []byte
	synced int
}

// nameChange is one call: a renamed file changes both names or neither.
type nameChange struct {
	name string
	file *memoryFile // nil for a removal
	from string      // of a rename
}

func (c nameChange) apply(names map[string]*memoryFile) {
	delete(names, c.from)
	if c.file == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.file
	}
}

// New returns an empty file system. The seed decides what each crash loses.
func New(seed uint64) *FileSystem {
	return &FileSystem{
		rand:  rand.New(rand.NewPCG(seed, 1)),
		names: map[string]*memoryFile{}, durable: map[string]*memoryFile{}, locks: map[string]bool{},
	}
}

// Restart brings the file system back: with lost, as a machine finds it after a
// power cut; without, as the next process finds it after a kill.
func (m *FileSystem) Restart(lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Dead = false
	clear(m.locks)
	if !lost {
		return
	}
	names := map[string]*memoryFile{}
	for name, file := range m.durable {
		names[name] = file
	}
	for _, change := range m.changes {
		if m.rand.IntN(2) == 0 {
			change.apply(names)
		}
	}
	m.changes = nil
	m.names, m.durable = names, map[string]*memoryFile{}
	for name, file := range names {
		if unsynced := len(file.data) - file.synced; unsynced > 0 {
			file.data = file.data[:file.synced+m.rand.IntN(unsynced+1)]
			file.synced = len(file.data)
		}
		m.durable[name] = file
	}
}

func (m *FileSystem) change(op, path string) error {
	if m.Dead {
		return errPowerLost
	}
	if m.Before != nil {
		if err := m.Before(op, path); err != nil {
			return err
		}
		if m.Dead {
			return errPowerLost
		}
	}
	return nil
}

func (m *FileSystem) record(change nameChange) {
	change.apply(m.names)
	m.changes = append(m.changes, change)
}

// MakeDirectory does nothing: every directory exists.
func (m *FileSystem) MakeDirectory(string) error { return nil }

// Names lists a directory.
func (m *FileSystem) Names(directory string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Dead {
		return nil, errPowerLost
	}
	var names []string
	for name := range m.names {
		if filepath.Dir(name) == filepath.Clean(directory) {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Read returns a copy of a file.
func (m *FileSystem) Read(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Dead {
		return nil, errPowerLost
	}
	file := m.names[path]
	if file == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return bytes.Clone(file.data), nil
}

// Size returns the size of a file.
func (m *FileSystem) Size(path string) (int64, error) {
	data, err := m.Read(path)
	return int64(len(data)), err
}

// Create makes a file.
func (m *FileSystem) Create(path string) (statefile.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.change("create", path); err != nil {
		return nil, err
	}
	if m.names[path] != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	file := &memoryFile{}
	m.record(nameChange{name: path, file: file})
	return &openMemoryFile{system: m, file: file, path: path}, nil
}

// Sync makes the bytes of a file durable.
func (m *FileSystem) Sync(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.change("sync", path); err != nil {
		return err
	}
	file := m.names[path]
	if file == nil {
		return &fs.PathError{Op: "sync", Path: path, Err: fs.ErrNotExist}
	}
	file.synced = len(file.data)
	return nil
}

// Rename renames a file.
func (m *FileSystem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.change("rename", to); err != nil {
		return err
	}
	file := m.names[from]
	if file == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	m.record(nameChange{name: to, file: file, from: from})
	return nil
}

// Remove deletes a file.
func (m *FileSystem) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.change("remove", path); err != nil {
		return err
	}
	if m.names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	m.record(nameChange{name: path})
	return nil
}

// SyncDirectory makes the names in a directory durable.
func (m *FileSystem) SyncDirectory(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.change("sync directory", path); err != nil {
		return err
	}
	m.changes = slices.DeleteFunc(m.changes, func(change nameChange) bool {
		if filepath.Dir(change.name) != filepath.Clean(path) {
			return false
		}
		change.apply(m.durable)
		return true
	})
	return nil
}

// TryLock takes a lock until it is closed or the file system restarts.
func (m *FileSystem) TryLock(path string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Dead {
		return nil, errPowerLost
	}
	if m.locks[path] {
		return nil, nil
	}
	m.locks[path] = true
	return memoryLock{m, path}, nil
}

type memoryLock struct {
	system *FileSystem
	path   string
}

func (l memoryLock) Close() error {
	l.system.mu.Lock()
	defer l.system.mu.Unlock()
	delete(l.system.locks, l.path)
	return nil
}

type openMemoryFile struct {
	system *FileSystem
	file   *memoryFile
	path   string
}

func (f *openMemoryFile) Write(data []byte) (int, error) {
	f.system.mu.Lock()
	defer f.system.mu.Unlock()
	if err := f.system.change("write", f.path); err != nil {
		return 0, err
	}
	f.file.data = append(f.file.data, data...)
	return len(data), nil
}

func (f *openMemoryFile) Sync() error {
	f.system.mu.Lock()
	defer f.system.mu.Unlock()
	if err := f.system.change("sync", f.path); err != nil {
		return err
	}
	f.file.synced = len(f.file.data)
	return nil
}

func (f *openMemoryFile) Close() error { return nil }
