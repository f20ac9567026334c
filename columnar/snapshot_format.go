// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/binary"
	"errors"
	"slices"
)

// snapshotWriter appends numbers, big-endian, and bytes.
type snapshotWriter struct{ data []byte }

func (w *snapshotWriter) byte(value byte) { w.data = append(w.data, value) }

func (w *snapshotWriter) flag(value bool) {
	if value {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *snapshotWriter) uint32(value uint32) { w.data = binary.BigEndian.AppendUint32(w.data, value) }

func (w *snapshotWriter) uint64(value uint64) { w.data = binary.BigEndian.AppendUint64(w.data, value) }

// reserve makes room for so many bytes more, so that they are appended without
// moving what is there.
func (w *snapshotWriter) reserve(count int) { w.data = slices.Grow(w.data, count) }

// extend appends so many bytes, whose values are undefined, for the caller to
// set.
func (w *snapshotWriter) extend(count int) []byte {
	known := len(w.data)
	w.data = slices.Grow(w.data, count)[:known+count]
	return w.data[known:]
}

func (w *snapshotWriter) bytes(value []byte) { w.data = append(w.data, value...) }

// block appends bytes behind their length.
func (w *snapshotWriter) block(value []byte) {
	w.uint64(uint64(len(value)))
	w.bytes(value)
}

var (
	errTruncatedSnapshot = errors.New("truncated snapshot")
	errTrailingBytes     = errors.New("trailing bytes")
)

// snapshotReader reads numbers and encoded values. No length is trusted: what
// is not there is an error, behind which all reads return zero values.
type snapshotReader struct {
	data []byte
	err  error
}

// take returns the next n bytes, which alias the input.
func (r *snapshotReader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)) {
		r.err = errTruncatedSnapshot
	}
	if r.err != nil {
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

func (r *snapshotReader) byte() byte {
	if taken := r.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (r *snapshotReader) uint32() uint32 {
	if taken := r.take(4); taken != nil {
		return binary.BigEndian.Uint32(taken)
	}
	return 0
}

func (r *snapshotReader) int64() int64 {
	if taken := r.take(8); taken != nil {
		return int64(binary.BigEndian.Uint64(taken))
	}
	return 0
}

// count reads the number of items that follow, each of at least size bytes.
func (r *snapshotReader) count(size int) int {
	count := uint64(r.uint32())
	if r.err == nil && count*uint64(size) > uint64(len(r.data)) {
		r.err = errTruncatedSnapshot
		return 0
	}
	return int(count)
}

// block reads bytes behind their length. They alias the input.
func (r *snapshotReader) block() []byte { return r.take(uint64(r.int64())) }

func (r *snapshotReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// end makes trailing bytes an error.
func (r *snapshotReader) end() {
	if r.err == nil && len(r.data) > 0 {
		r.err = errTrailingBytes
	}
}
