// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

var (
	//lint:ignore ST1005 Arrow is a name
	errNoBatch     = errors.New("Arrow IPC stream has no record batch")
	errTrailing    = errors.New("trailing bytes behind the Arrow IPC stream")
	errTruncated   = errors.New("truncated message")
	errFile        = errors.New("the value looks like an Arrow file, which is not an IPC stream: write it with a stream writer")
	errNoSchema    = errors.New("the stream does not begin with a schema")
	errMessageKind = errors.New("unexpected message type")
	errVersion     = errors.New("unsupported metadata version")
	errRows        = errors.New("columns of different lengths")
)

// Limits bounds what reading an Arrow IPC stream may use. A zero field
// stands for its default.
type Limits struct {
	ValueBytes        int // largest stream; default 256 MiB
	UncompressedBytes int // largest sum of decompressed buffers in a message; default 16 MiB
	Rows              int // most rows of a column where its bytes do not show how many there are; default 65536
}

const (
	defaultValueBytes        = 256 << 20
	defaultUncompressedBytes = 16 << 20
	defaultRows              = 1 << 16
)

// resolve checks the limits and fills in defaults.
func (l Limits) resolve() (Limits, error) {
	if l.ValueBytes < 0 || l.UncompressedBytes < 0 || l.Rows < 0 {
		return l, fmt.Errorf("negative limit in %+v", l)
	}
	if l.ValueBytes == 0 {
		l.ValueBytes = defaultValueBytes
	}
	if l.UncompressedBytes == 0 {
		l.UncompressedBytes = defaultUncompressedBytes
	}
	if l.Rows == 0 {
		l.Rows = defaultRows
	}
	return l, nil
}

// fileMagic begins an Arrow file.
const fileMagic = "ARROW1"

// Reader reads IPC streams. It may be used by several goroutines at a time.
type Reader struct {
	mem     memory.Allocator
	limits  Limits
	schemas schemaCache
	inflate decompressors
}

// NewReader returns a reader. A negative limit is an error.
func NewReader(mem memory.Allocator, limits Limits) (*Reader, error) {
	limits, err := limits.resolve()
	if err != nil {
		return nil, err
	}
	return &Reader{mem: mem, limits: limits, inflate: decompressors{limit: limits.UncompressedBytes}}, nil
}

// Batch is one record batch of a stream, as columns without array objects.
type Batch struct {
	Rows    int
	Columns []arrow.ArrayData
}

// Release releases the columns.
func (b Batch) Release() { arrays.Release(b.Columns) }

// Read reads all record batches of a stream. The columns refer to data.
func (r *Reader) Read(data []byte) (schema *arrow.Schema, batches []Batch, err error) {
	if len(data) > r.limits.ValueBytes {
		return nil, nil, fmt.Errorf("cannot read Arrow IPC stream: %d bytes exceed the limit of %d", len(data), r.limits.ValueBytes)
	}
	if bytes.HasPrefix(data, []byte(fileMagic)) {
		return nil, nil, fmt.Errorf("cannot read Arrow IPC stream: %w", errFile)
	}
	s := streamReader{reader: r, rest: data, size: len(data)}
	defer func() {
		for _, dictionary := range s.dictionaries {
			dictionary.Release()
		}
		if err != nil {
			for _, batch := range batches {
				batch.Release()
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
		return nil, nil, fmt.Errorf("cannot read Arrow IPC stream: %w", errNoSchema)
	case len(s.rest) > 0:
		return nil, batches, errTrailing
	case len(batches) == 0:
		return nil, nil, errNoBatch
	}
	return s.schema.schema, batches, nil
}

// streamReader is a stream that is being read.
type streamReader struct {
	reader       *Reader
	rest         []byte
	size         int // of the whole stream
	schema       *streamSchema
	dictionaries map[int64]arrow.ArrayData
}

// messageFrame is one message of a stream.
type messageFrame struct {
	metadata []byte
	reader   *flatReader
	kind     byte
	version  int
	header   flatTable
	body     []byte
}

// next returns the next message; there is none at the end of the stream.
func (s *streamReader) next() (message messageFrame, ok bool, err error) {
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
		return message, false, errTruncated
	}
	message.metadata, s.rest = s.rest[:size], s.rest[size:]
	message.reader = &flatReader{data: message.metadata}
	root := message.reader.root()
	message.version, message.kind = root.uint16(0), root.uint8(1)
	length := root.int64(3)
	message.header, ok = root.sub(2)
	if message.reader.bad || !ok {
		return message, false, errMetadata
	}
	if length < 0 || length > int64(len(s.rest)) {
		return message, false, errTruncated
	}
	message.body, s.rest = alignedBody(s.rest[:length]), s.rest[length:]
	return message, true, nil
}

func (s *streamReader) word() (uint32, error) {
	if len(s.rest) < 4 {
		return 0, errTruncated
	}
	word := binary.LittleEndian.Uint32(s.rest)
	s.rest = s.rest[4:]
	return word, nil
}

// message takes a message in. For a record batch it returns the batch.
func (s *streamReader) message(message messageFrame) (*Batch, error) {
	if message.version != version4 && message.version != version5 {
		return nil, errVersion
	}
	if (message.kind == schemaMessage) != (s.schema == nil) {
		return nil, errNoSchema
	}
	switch message.kind {
	case schemaMessage:
		schema, err := s.reader.schemas.parse(message.metadata)
		if err != nil {
			return nil, err
		}
		s.schema = schema
		return nil, nil
	case dictionaryMessage:
		return nil, s.dictionary(message)
	case batchMessage:
		return s.batch(message)
	}
	return nil, errMessageKind
}

// loader returns a loader for a record batch that is in a message's body.
func (s *streamReader) loader(message messageFrame, table flatTable) (*loader, error) {
	l := &loader{r: message.reader, body: message.body, dictionaries: s.dictionaries}
	l.nodes, l.nodesLeft = table.vector(1, 16)
	l.buffers, l.buffersLeft = table.vector(2, 16)
	l.variadic, l.variadicLeft = table.vector(4, 8)
	l.limit = max(8*int64(s.size), int64(s.reader.limits.Rows))
	if compression, ok := table.sub(3); ok {
		inflate, err := s.reader.inflate.inflater(compression.uint8(0), compression.uint8(1))
		if err != nil {
			return nil, err
		}
		l.inflate = inflate
		l.limit = max(l.limit, 8*int64(s.reader.limits.UncompressedBytes))
	}
	if message.reader.bad {
		return nil, errMetadata
	}
	return l, nil
}

func (s *streamReader) batch(message messageFrame) (*Batch, error) {
	l, err := s.loader(message, message.header)
	if err != nil {
		return nil, err
	}
	rows := message.header.int64(0)
	if rows < 0 || rows > l.limit {
		return nil, errNode
	}
	batch := &Batch{int(rows), make([]arrow.ArrayData, 0, len(s.schema.fields))}
	for i := range s.schema.fields {
		field := s.schema.schema.Field(i)
		if message.version == version4 && hasVersionedLayout(field.Type) {
			err = errVersion
		} else {
			var column arrow.ArrayData
			if column, err = l.load(&s.schema.fields[i], field.Type); err == nil {
				batch.Columns = append(batch.Columns, column)
				if column.Len() != batch.Rows {
					err = errRows
				}
			}
		}
		if err == nil && message.reader.bad {
			err = errMetadata
		}
		if err != nil {
			batch.Release()
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
func (s *streamReader) dictionary(message messageFrame) error {
	id := message.header.int64(0)
	field := s.schema.dictionaries[id]
	table, ok := message.header.sub(1)
	if field == nil || !ok || message.reader.bad {
		return errMetadata
	}
	if message.version == version4 && hasVersionedLayout(field.valueType) {
		return errVersion
	}
	l, err := s.loader(message, table)
	if err != nil {
		return err
	}
	values, err := l.load(&fieldShape{dictionary: -1, children: field.children}, field.valueType)
	if err == nil && message.reader.bad {
		values.Release()
		err = errMetadata
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
