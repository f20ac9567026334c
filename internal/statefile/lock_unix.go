// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// TryLock takes a lock on a file without waiting; nil says that another holder has it.
func (OS) TryLock(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// LockForProcess takes a record lock on a file, which other processes contend for.
// Everybody in this process who locks the file shares the lock, which ends with the
// last one's Close.
func (OS) LockForProcess(path string) (io.Closer, error) {
	processLocks.mu.Lock()
	defer processLocks.mu.Unlock()
	// The system drops a record lock as soon as the process closes any descriptor of
	// the file. So a file that is locked is not opened again.
	if id, err := identify(os.Stat(path)); err == nil {
		if lock := processLocks.held[id]; lock != nil {
			lock.holders++
			return &processHold{lock: lock}, nil
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	id, err := identify(file.Stat())
	if err == nil {
		err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	lock := &processLock{id: id, file: file, holders: 1}
	processLocks.held[id] = lock
	return &processHold{lock: lock}, nil
}

// processLocks are the record locks that this process holds, by file.
var processLocks = struct {
	mu   sync.Mutex
	held map[fileID]*processLock
}{held: map[fileID]*processLock{}}

// fileID identifies a file whatever the path that leads to it.
type fileID struct{ device, inode uint64 }

func identify(info os.FileInfo, err error) (fileID, error) {
	if err != nil {
		return fileID{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, errors.New("the system does not identify the file")
	}
	return fileID{uint64(stat.Dev), uint64(stat.Ino)}, nil
}

// processLock is the record lock of one file.
type processLock struct {
	id      fileID
	file    *os.File
	holders int
}

// processHold is the share of one holder in a lock.
type processHold struct {
	lock *processLock
	once sync.Once
}

// Close ends the share. A second Close does nothing.
func (h *processHold) Close() (err error) {
	h.once.Do(func() {
		processLocks.mu.Lock()
		defer processLocks.mu.Unlock()
		if h.lock.holders--; h.lock.holders == 0 {
			delete(processLocks.held, h.lock.id)
			err = h.lock.file.Close()
		}
	})
	return err
}
