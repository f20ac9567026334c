// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

var (
	//lint:ignore ST1005 Arrow is a name
	errIPCNoBatch     = errors.New("Arrow IPC stream has no record batch")
	errIPCTrailing    = errors.New("trailing bytes behind the Arrow IPC stream")
	errIPCTruncated   = errors.New("truncated message")
	errIPCNoSchema    = errors.New("the stream does not begin with a schema")
	errIPCMessageKind = errors.New("unexpected message type")
	errIPCVersion     = errors.New("unsupported metadata version")
	errIPCRows        = errors.New("columns of different lengths")
	errIPCCompression = errors.New("malformed compressed buffer")
)

// IPCLimits bounds what reading an Arrow IPC stream may use. A zero field
// stands for its default.
type IPCLimits struct {
	ValueBytes        int // largest stream; default 256 MiB
	UncompressedBytes int // largest sum of decompressed buffers in a message; default 16 MiB
	Rows              int // most rows of a column where its bytes do not show how many there are; default 65536
}

const (
	defaultIPCValueBytes        = 256 << 20
	defaultIPCUncompressedBytes = DefaultMaxUncompressedBytes
	defaultIPCRows              = 1 << 16
)

// resolve checks the limits and fills in defaults.
func (l IPCLimits) resolve() (IPCLimits, error) {
	if l.ValueBytes < 0 || l.UncompressedBytes < 0 || l.Rows < 0 {
		return l, fmt.Errorf("columnar: negative limit in %+v", l)
	}
	if l.ValueBytes == 0 {
		l.ValueBytes = defaultIPCValueBytes
	}
	if l.UncompressedBytes == 0 {
		l.UncompressedBytes = defaultIPCUncompressedBytes
	}
	if l.Rows == 0 {
		l.Rows = defaultIPCRows
	}
	return l, nil
}

// ipcReader reads IPC streams. It may be used by several goroutines at a time.
type ipcReader struct {
	mem     memory.Allocator
	limits  IPCLimits
	schemas ipcSchemas
	zstd    sync.Pool // of *zstd.Decoder
}

// ipcBatch is one record batch of a stream, as columns without array objects.
type ipcBatch struct {
	rows    int
	columns []arrow.ArrayData
}

func (b ipcBatch) release() { arrays.Release(b.columns) }

// read reads all record batches of a stream. The columns refer to data.
func (r *ipcReader) read(data []byte) (schema *arrow.Schema, batches []ipcBatch, err error) {
	if len(data) > r.limits.ValueBytes {
		return nil, nil, fmt.Errorf("cannot read Arrow IPC stream: %d bytes exceed the limit of %d", len(data), r.limits.ValueBytes)
	}
	s := ipcStream{reader: r, rest: data, size: len(data)}
	defer func() {
		for _, dictionary := range s.dictionaries {
			dictionary.Release()
		}
		if err != nil {
			for _, batch := range batches {
				batch.release()
			}
			batches = nil
		}
	}()
	for {
		message, ok, err := s.next()
		if err != nil {
			return nil, batches, fmt.Errorf("cannot read Arrow IPC stream: %w", err)
		}
		if !ok {
			break
		}
		batch, err := s.message(message)
		if err != nil {
			return nil, batches, fmt.Errorf("cannot read Arrow IPC stream: %w", err)
		}
		if batch != nil {
			batches = append(batches, *batch)
		}
	}
	switch {
	case s.schema == nil:
		return nil, nil, fmt.Errorf("cannot read Arrow IPC stream: %w", errIPCNoSchema)
	case len(s.rest) > 0:
		return nil, batches, errIPCTrailing
	case len(batches) == 0:
		return nil, nil, errIPCNoBatch
	}
	return s.schema.schema, batches, nil
}

// ipcStream is a stream that is being read.
type ipcStream struct {
	reader       *ipcReader
	rest         []byte
	size         int // of the whole stream
	schema       *ipcSchema
	dictionaries map[int64]arrow.ArrayData
}

// ipcMessage is one message of a stream.
type ipcMessage struct {
	metadata []byte
	reader   *flatReader
	kind     byte
	version  int
	header   flatTable
	body     []byte
}

// next returns the next message; there is none at the end of the stream.
func (s *ipcStream) next() (message ipcMessage, ok bool, err error) {
	if len(s.rest) == 0 && s.schema != nil {
		return message, false, nil
	}
	size, err := s.word()
	if err == nil && size == math.MaxUint32 {
		size, err = s.word()
	}
	if err != nil {
		return message, false, err
	}
	if size == 0 {
		return message, false, nil
	}
	if int64(size) > int64(len(s.rest)) {
		return message, false, errIPCTruncated
	}
	message.metadata, s.rest = s.rest[:size], s.rest[size:]
	message.reader = &flatReader{data: message.metadata}
	root := message.reader.root()
	message.version, message.kind = root.uint16(0), root.uint8(1)
	length := root.int64(3)
	message.header, ok = root.sub(2)
	if message.reader.bad || !ok {
		return message, false, errIPCMetadata
	}
	if length < 0 || length > int64(len(s.rest)) {
		return message, false, errIPCTruncated
	}
	message.body, s.rest = alignedBody(s.rest[:length]), s.rest[length:]
	return message, true, nil
}

func (s *ipcStream) word() (uint32, error) {
	if len(s.rest) < 4 {
		return 0, errIPCTruncated
	}
	word := binary.LittleEndian.Uint32(s.rest)
	s.rest = s.rest[4:]
	return word, nil
}

// alignedBody returns body at an address from which its values can be read.
func alignedBody(body []byte) []byte {
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || uintptr(unsafe.Pointer(unsafe.SliceData(body)))%8 == 0 {
		return body
	}
	return slices.Clone(body)
}

// Metadata versions. In version 4, unions have a validity bitmap.
const (
	ipcVersion4 = 3
	ipcVersion5 = 4
)

// message takes a message in. For a record batch it returns the batch.
func (s *ipcStream) message(message ipcMessage) (*ipcBatch, error) {
	if message.version != ipcVersion4 && message.version != ipcVersion5 {
		return nil, errIPCVersion
	}
	if (message.kind == ipcSchemaMessage) != (s.schema == nil) {
		return nil, errIPCNoSchema
	}
	switch message.kind {
	case ipcSchemaMessage:
		schema, err := s.reader.schemas.parse(message.metadata)
		if err != nil {
			return nil, err
		}
		s.schema = schema
		return nil, nil
	case ipcDictionaryMessage:
		return nil, s.dictionary(message)
	case ipcBatchMessage:
		return s.batch(message)
	}
	return nil, errIPCMessageKind
}

// loader returns a loader for a record batch that is in a message's body.
func (s *ipcStream) loader(message ipcMessage, table flatTable) (*ipcLoader, error) {
	l := &ipcLoader{r: message.reader, body: message.body, dictionaries: s.dictionaries}
	l.nodes, l.nodesLeft = table.vector(1, 16)
	l.buffers, l.buffersLeft = table.vector(2, 16)
	l.variadic, l.variadicLeft = table.vector(4, 8)
	l.limit = max(8*int64(s.size), int64(s.reader.limits.Rows))
	if compression, ok := table.sub(3); ok {
		inflate, err := s.reader.inflater(compression.uint8(0), compression.uint8(1))
		if err != nil {
			return nil, err
		}
		l.inflate = inflate
		l.limit = max(l.limit, 8*int64(s.reader.limits.UncompressedBytes))
	}
	if message.reader.bad {
		return nil, errIPCMetadata
	}
	return l, nil
}

func (s *ipcStream) batch(message ipcMessage) (*ipcBatch, error) {
	l, err := s.loader(message, message.header)
	if err != nil {
		return nil, err
	}
	rows := message.header.int64(0)
	if rows < 0 || rows > l.limit {
		return nil, errIPCNode
	}
	batch := &ipcBatch{int(rows), make([]arrow.ArrayData, 0, len(s.schema.fields))}
	for i := range s.schema.fields {
		field := s.schema.schema.Field(i)
		if message.version == ipcVersion4 && hasVersionedLayout(field.Type) {
			err = errIPCVersion
		} else {
			var column arrow.ArrayData
			if column, err = l.load(&s.schema.fields[i], field.Type); err == nil {
				batch.columns = append(batch.columns, column)
				if column.Len() != batch.rows {
					err = errIPCRows
				}
			}
		}
		if err == nil && message.reader.bad {
			err = errIPCMetadata
		}
		if err != nil {
			batch.release()
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
	}
	return batch, nil
}

// hasVersionedLayout reports whether columns of the type are laid out otherwise
// before metadata version 5.
func hasVersionedLayout(dt arrow.DataType) bool {
	switch storage := arrays.StorageType(dt).(type) {
	case arrow.UnionType, *arrow.RunEndEncodedType:
		return true
	case *arrow.DictionaryType:
		return hasVersionedLayout(storage.ValueType)
	case arrow.NestedType:
		return slices.ContainsFunc(storage.Fields(), func(f arrow.Field) bool { return hasVersionedLayout(f.Type) })
	}
	return false
}

// dictionary takes in the values of a dictionary: new ones, or more of them.
func (s *ipcStream) dictionary(message ipcMessage) error {
	id := message.header.int64(0)
	field := s.schema.dictionaries[id]
	table, ok := message.header.sub(1)
	if field == nil || !ok || message.reader.bad {
		return errIPCMetadata
	}
	if message.version == ipcVersion4 && hasVersionedLayout(field.valueType) {
		return errIPCVersion
	}
	l, err := s.loader(message, table)
	if err != nil {
		return err
	}
	values, err := l.load(&ipcField{dictionary: -1, children: field.children}, field.valueType)
	if err == nil && message.reader.bad {
		values.Release()
		err = errIPCMetadata
	}
	if err != nil {
		return fmt.Errorf("dictionary %d: %w", id, err)
	}
	previous := s.dictionaries[id]
	if message.header.uint8(2) != 0 && previous != nil {
		joined, err := arrays.Concat(s.reader.mem, []arrow.ArrayData{previous, values})
		values.Release()
		if err != nil {
			return fmt.Errorf("dictionary %d: %w", id, err)
		}
		values = joined
	}
	if previous != nil {
		previous.Release()
	}
	if s.dictionaries == nil {
		s.dictionaries = make(map[int64]arrow.ArrayData)
	}
	s.dictionaries[id] = values
	return nil
}

// ipcInflater decompresses the buffers of one message.
type ipcInflater struct {
	reader *ipcReader
	codec  byte
	left   int // bytes that may still be decompressed
}

const (
	ipcLZ4  = 0
	ipcZstd = 1
)

func (r *ipcReader) inflater(codec, method byte) (*ipcInflater, error) {
	if codec != ipcLZ4 && codec != ipcZstd || method != 0 {
		return nil, errors.New("unknown compression")
	}
	return &ipcInflater{r, codec, r.limits.UncompressedBytes}, nil
}

// buffer decompresses a buffer, which begins with its decompressed size, or
// with -1 where it is not compressed.
func (f *ipcInflater) buffer(data []byte) ([]byte, error) {
	if len(data) < 8 {
		return nil, errIPCCompression
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
	if f.codec == ipcLZ4 {
		reader := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(reader)
		reader.Reset(bytes.NewReader(data))
		from = reader
	} else {
		decoder, err := f.reader.zstdDecoder()
		if err != nil {
			return nil, err
		}
		defer f.reader.zstd.Put(decoder)
		if err := decoder.Reset(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%w: %w", errIPCCompression, err)
		}
		from = decoder
	}
	// The memory grows with what is really there, not with what is declared.
	var out bytes.Buffer
	count, err := io.Copy(&out, io.LimitReader(from, size+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIPCCompression, err)
	}
	if count != size {
		return nil, errIPCCompression
	}
	return out.Bytes(), nil
}

var lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

// zstdDecoder returns a decoder whose window is not larger than what may be
// decompressed. Without concurrency it has no goroutines, and nothing to close.
func (r *ipcReader) zstdDecoder() (*zstd.Decoder, error) {
	if decoder, ok := r.zstd.Get().(*zstd.Decoder); ok {
		return decoder, nil
	}
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(r.limits.UncompressedBytes, zstd.MinWindowSize))))
}

// arrays returns the columns of a batch as arrays, which the caller owns.
func (b ipcBatch) arrays() []arrow.Array {
	columns := make([]arrow.Array, len(b.columns))
	for i, column := range b.columns {
		columns[i] = array.MakeFromData(column)
	}
	return columns
}
