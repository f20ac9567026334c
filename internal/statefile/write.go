// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bufio"
	"cmp"
	"hash"
	"hash/crc32"
	"io"
)

// measured counts and checksums what is written through it.
type measured struct {
	io.Writer
	bytes    int64
	checksum hash.Hash32
}

func (m *measured) Write(data []byte) (int, error) {
	n, err := m.Writer.Write(data)
	m.bytes += int64(n)
	m.checksum.Write(data[:n])
	return n, err
}

// writeSynced writes and syncs a new file, and removes it where that fails.
func writeSynced(files FileSystem, path string, write func(io.Writer) error) (*measured, error) {
	file, err := files.Create(path)
	if err != nil {
		return nil, err
	}
	written := &measured{Writer: file, checksum: crc32.New(castagnoli)}
	buffered := bufio.NewWriterSize(written, 1<<16)
	err = cmp.Or(write(buffered), buffered.Flush())
	if err == nil {
		err = file.Sync()
	}
	if err = cmp.Or(err, file.Close()); err != nil {
		files.Remove(path)
		return nil, err
	}
	return written, nil
}
