// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

var errPowerLost = errors.New("power lost")

// memoryFileSystem is a [fileSystem] that keeps apart what was written from what
// was synced. After crash, each file has lost some of what was not synced, and
// each directory some of the changes of names since it was synced, in any
// combination.
type memoryFileSystem struct {
	mu      sync.Mutex
	rand    *rand.Rand
	names   map[string]*memoryFile
	durable map[string]*memoryFile
	changes []nameChange // of names since their directory was synced
	locks   map[string]bool
	dead    bool
	before  func(op, path string) error // runs ahead of each change; may fail it
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

func newMemoryFileSystem(seed uint64) *memoryFileSystem {
	return &memoryFileSystem{
		rand:  rand.New(rand.NewPCG(seed, 1)),
		names: map[string]*memoryFile{}, durable: map[string]*memoryFile{}, locks: map[string]bool{},
	}
}

// restart brings the file system back as a machine finds it that lost power, or
// with lost false, as the next process finds it after a kill.
func (m *memoryFileSystem) restart(lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
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

func (m *memoryFileSystem) change(op, path string) error {
	if m.dead {
		return errPowerLost
	}
	if m.before != nil {
		if err := m.before(op, path); err != nil {
			return err
		}
		if m.dead {
			return errPowerLost
		}
	}
	return nil
}

func (m *memoryFileSystem) record(change nameChange) {
	change.apply(m.names)
	m.changes = append(m.changes, change)
}

func (m *memoryFileSystem) MakeDirectory(string) error { return nil }

func (m *memoryFileSystem) Names(directory string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
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

func (m *memoryFileSystem) Read(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errPowerLost
	}
	file := m.names[path]
	if file == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return bytes.Clone(file.data), nil
}

func (m *memoryFileSystem) Size(path string) (int64, error) {
	data, err := m.Read(path)
	return int64(len(data)), err
}

func (m *memoryFileSystem) Create(path string) (durableFile, error) {
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

func (m *memoryFileSystem) Rename(from, to string) error {
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

func (m *memoryFileSystem) Remove(path string) error {
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

func (m *memoryFileSystem) SyncDirectory(path string) error {
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

func (m *memoryFileSystem) TryLock(path string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errPowerLost
	}
	if m.locks[path] {
		return nil, nil
	}
	m.locks[path] = true
	return memoryLock{m, path}, nil
}

func (m *memoryFileSystem) LockForProcess(string) (io.Closer, error) {
	return io.NopCloser(nil), nil
}

type memoryLock struct {
	system *memoryFileSystem
	path   string
}

func (l memoryLock) Close() error {
	l.system.mu.Lock()
	defer l.system.mu.Unlock()
	delete(l.system.locks, l.path)
	return nil
}

type openMemoryFile struct {
	system *memoryFileSystem
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
