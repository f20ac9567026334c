// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var errCompression = errors.New("malformed compressed buffer")

const (
	codecLZ4  = 0
	codecZstd = 1
)

// decompressors are shared by the messages that a [Reader] reads.
type decompressors struct {
	limit int       // bytes that the buffers of one message may have
	zstd  sync.Pool // of *zstd.Decoder
}

var lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

// inflater decompresses the buffers of one message.
type inflater struct {
	from  *decompressors
	codec byte
	left  int // bytes that may still be decompressed
}

// buffer decompresses a buffer, which begins with its decompressed size, or
// with -1 where it is not compressed.
func (f *inflater) buffer(data []byte) ([]byte, error) {
	if len(data) < 8 {
		return nil, errCompression
	}
	size := int64(binary.LittleEndian.Uint64(data))
	data = data[8:]
	if size == -1 {
		return alignedBody(data), nil
	}
	if size < 0 || size > int64(f.left) {
		return nil, fmt.Errorf("decompressed buffers exceed the limit: %d bytes where %d are left", size, f.left)
	}
	f.left -= int(size)
	var from io.Reader
	if f.codec == codecLZ4 {
		reader := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(reader)
		reader.Reset(bytes.NewReader(data))
		from = reader
	} else {
		decoder, err := f.from.zstdDecoder()
		if err != nil {
			return nil, err
		}
		defer f.from.zstd.Put(decoder)
		if err := decoder.Reset(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%w: %w", errCompression, err)
		}
		from = decoder
	}
	// The memory grows with what is really there, not with what is declared.
	var out bytes.Buffer
	count, err := io.Copy(&out, io.LimitReader(from, size+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCompression, err)
	}
	if count != size {
		return nil, errCompression
	}
	return out.Bytes(), nil
}

// zstdDecoder returns a decoder whose window is not larger than what may be
// decompressed. Without concurrency it has no goroutines, and nothing to close.
func (d *decompressors) zstdDecoder() (*zstd.Decoder, error) {
	if decoder, ok := d.zstd.Get().(*zstd.Decoder); ok {
		return decoder, nil
	}
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(d.limit, zstd.MinWindowSize))))
}

// inflater returns what decompresses the buffers of one message.
func (d *decompressors) inflater(codec, method byte) (*inflater, error) {
	if codec != codecLZ4 && codec != codecZstd || method != 0 {
		return nil, errors.New("unknown compression")
	}
	return &inflater{d, codec, d.limit}, nil
}

// alignedBody returns body at an address from which its values can be read.
func alignedBody(body []byte) []byte {
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || uintptr(unsafe.Pointer(unsafe.SliceData(body)))%8 == 0 {
		return body
	}
	return slices.Clone(body)
}
