// SPDX-License-Identifier: Apache-2.0

// Package statebytes writes and reads the bytes of operator snapshots: numbers,
// blocks with a length, and a checksum over all of them.
//
// The packages of operator state (group-by, join) use it. It knows nothing of
// what the bytes mean, of versions, or of where they are stored.
package statebytes

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// ErrTrailingBytes says that bytes follow the end of a snapshot.
var ErrTrailingBytes = errors.New("trailing bytes")

var (
	errTruncated = errors.New("truncated snapshot")
	errChecksum  = errors.New("checksum does not match")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer appends to a snapshot. Numbers are big-endian. The zero Writer is
// empty and ready for use.
//
// A Writer is not safe for concurrent use.
type Writer struct{ data []byte }

// Byte appends one byte.
func (w *Writer) Byte(value byte) { w.data = append(w.data, value) }

// Flag appends one byte: 1 for true, 0 for false.
func (w *Writer) Flag(value bool) {
	if value {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// Uint32 appends four bytes.
func (w *Writer) Uint32(value uint32) { w.data = binary.BigEndian.AppendUint32(w.data, value) }

// Uint64 appends eight bytes.
func (w *Writer) Uint64(value uint64) { w.data = binary.BigEndian.AppendUint64(w.data, value) }

// Append appends bytes without their length.
func (w *Writer) Append(value []byte) { w.data = append(w.data, value...) }

// Block appends bytes behind their length, a uint64.
func (w *Writer) Block(value []byte) {
	w.Uint64(uint64(len(value)))
	w.Append(value)
}

// Reserve makes room for count more bytes, so that appending them moves none of
// the earlier ones.
func (w *Writer) Reserve(count int) { w.data = slices.Grow(w.data, count) }

// Extend appends count bytes of undefined value and returns them, for the
// caller to set before the next call of a method.
func (w *Writer) Extend(count int) []byte {
	known := len(w.data)
	w.data = slices.Grow(w.data, count)[:known+count]
	return w.data[known:]
}

// Seal appends the CRC-32C of the bytes that were appended, and returns all
// bytes. They alias the Writer.
func (w *Writer) Seal() []byte {
	w.Uint32(crc32.Checksum(w.data, castagnoli))
	return w.data
}

// Open returns the bytes of a sealed snapshot without the checksum that
// [Writer.Seal] appended. A checksum that does not match is an error.
func Open(snapshot []byte) ([]byte, error) {
	end := len(snapshot) - 4
	if end < 0 {
		return nil, errTruncated
	}
	if binary.BigEndian.Uint32(snapshot[end:]) != crc32.Checksum(snapshot[:end], castagnoli) {
		return nil, errChecksum
	}
	return snapshot[:end], nil
}

// Reader reads a snapshot from its start. A Reader trusts no length: a read
// beyond the end makes [Reader.Err] return an error, and all later reads return
// zero values.
//
// A Reader is not safe for concurrent use.
type Reader struct {
	data []byte
	err  error
}

// NewReader returns a Reader of data. The bytes that it returns alias data.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Fail makes err the error of the Reader, unless the Reader has one already.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Take returns the next n bytes.
func (r *Reader) Take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)) {
		r.err = errTruncated
	}
	if r.err != nil {
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if taken := r.Take(1); taken != nil {
		return taken[0]
	}
	return 0
}

// Uint32 reads four bytes.
func (r *Reader) Uint32() uint32 {
	if taken := r.Take(4); taken != nil {
		return binary.BigEndian.Uint32(taken)
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if taken := r.Take(8); taken != nil {
		return int64(binary.BigEndian.Uint64(taken))
	}
	return 0
}

// Count reads a number of items, a uint32, of which each takes at least size of
// the bytes that follow. More items than those bytes can hold are an error.
func (r *Reader) Count(size int) int {
	count := uint64(r.Uint32())
	if r.err == nil && count*uint64(size) > uint64(len(r.data)) {
		r.err = errTruncated
		return 0
	}
	return int(count)
}

// Block reads bytes behind their length, a uint64.
func (r *Reader) Block() []byte { return r.Take(uint64(r.Int64())) }

// End makes bytes that have not been read an [ErrTrailingBytes].
func (r *Reader) End() {
	if r.err == nil && len(r.data) > 0 {
		r.err = ErrTrailingBytes
	}
}
