// SPDX-License-Identifier: Apache-2.0

package ipcstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

const (
	// maxDepth is how deep the types of an IPC schema may nest.
	maxDepth = 64
	// maxCachedSchemas and maxCachedSchemaBytes bound what a codec keeps of
	// the schemas it has read.
	maxCachedSchemas     = 64
	maxCachedSchemaBytes = 1 << 20
)

// Types of IPC messages.
const (
	schemaMessage     = 1
	dictionaryMessage = 2
	batchMessage      = 3
)

// Members of the IPC type union that hold vectors or texts.
const (
	timestampType = 10
	unionType     = 14
)

// Metadata versions. In version 4, unions have a validity bitmap.
const (
	version4 = 3
	version5 = 4
)

var (
	errMetadata = errors.New("malformed message metadata")
	errTooDeep  = fmt.Errorf("types are nested deeper than %d levels", maxDepth)
)

// streamSchema is a schema that was read from an IPC message.
type streamSchema struct {
	message      []byte // the metadata of the message
	schema       *arrow.Schema
	fields       []fieldShape
	dictionaries map[int64]*fieldShape // the fields of each dictionary id
}

// fieldShape is what loading needs to know of a field beside its Arrow type.
type fieldShape struct {
	dictionary int64          // id, or -1
	valueType  arrow.DataType // of the dictionary
	children   []fieldShape
}

// parseSchema checks the metadata of a schema message and reads it.
func parseSchema(message []byte) (*streamSchema, error) {
	r := &flatReader{data: message}
	header, _ := r.root().sub(2)
	if r.bad {
		return nil, errMetadata
	}
	if header.uint16(0) != 0 {
		return nil, errors.New("big-endian data is not supported")
	}
	walk := schemaWalk{fields: len(message) / 8, bytes: len(message)}
	fields, err := walk.vector(header, 1, 0)
	if err == nil {
		err = walk.pairs(header, 2)
	}
	if err != nil {
		return nil, err
	}
	schema, err := readSchema(message)
	if err != nil {
		return nil, err
	}
	if schema.NumFields() != len(fields) {
		return nil, errMetadata
	}
	s := &streamSchema{message: bytes.Clone(message), schema: schema, fields: fields, dictionaries: make(map[int64]*fieldShape)}
	for i, field := range schema.Fields() {
		if err := s.bind(&fields[i], field.Type); err != nil {
			return nil, fmt.Errorf("field %q: %w", field.Name, err)
		}
	}
	return s, nil
}

// readSchema turns the metadata of a checked schema message into a schema.
func readSchema(message []byte) (*arrow.Schema, error) {
	stream := make([]byte, 0, len(message)+16)
	stream = binary.LittleEndian.AppendUint32(stream, math.MaxUint32)
	stream = binary.LittleEndian.AppendUint32(stream, uint32(len(message)))
	stream = append(stream, message...)
	reader, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	return reader.Schema(), nil
}

// schemaWalk visits the fields of a schema message. Its budgets keep vectors
// that refer to one element many times from growing beyond the message.
type schemaWalk struct {
	fields int // fields and metadata pairs left
	bytes  int // bytes of text left
}

func (w *schemaWalk) vector(table flatTable, i, depth int) ([]fieldShape, error) {
	first, count := table.vector(i, 4)
	if w.fields -= count; table.r.bad || w.fields < 0 {
		return nil, errMetadata
	}
	if count > 0 && depth == maxDepth {
		return nil, errTooDeep
	}
	fields := make([]fieldShape, count)
	for j := range fields {
		if err := w.field(&fields[j], table.element(first, j), depth); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

func (w *schemaWalk) field(field *fieldShape, table flatTable, depth int) error {
	if err := w.text(table, 0); err != nil {
		return err
	}
	dt, _ := table.sub(3)
	switch table.uint8(2) {
	case unionType:
		dt.vector(1, 4)
	case timestampType:
		if err := w.text(dt, 1); err != nil {
			return err
		}
	}
	field.dictionary = -1
	if dictionary, ok := table.sub(4); ok {
		dictionary.sub(1)
		if field.dictionary = dictionary.int64(0); field.dictionary < 0 {
			return errMetadata
		}
	}
	var err error
	if field.children, err = w.vector(table, 5, depth+1); err != nil {
		return err
	}
	return w.pairs(table, 6)
}

func (w *schemaWalk) pairs(table flatTable, i int) error {
	first, count := table.vector(i, 4)
	if w.fields -= count; table.r.bad || w.fields < 0 {
		return errMetadata
	}
	for j := range count {
		pair := table.element(first, j)
		if err := w.text(pair, 0); err != nil {
			return err
		}
		if err := w.text(pair, 1); err != nil {
			return err
		}
	}
	return nil
}

func (w *schemaWalk) text(table flatTable, i int) error {
	_, size := table.vector(i, 1)
	if w.bytes -= size; table.r.bad || w.bytes < 0 {
		return errMetadata
	}
	return nil
}

// bind connects fields with their Arrow types and finds the dictionaries.
func (s *streamSchema) bind(field *fieldShape, dt arrow.DataType) error {
	storage := arrays.StorageType(dt)
	if dictionary, ok := storage.(*arrow.DictionaryType); ok {
		if field.dictionary < 0 {
			return errMetadata
		}
		field.valueType = dictionary.ValueType
		if other, taken := s.dictionaries[field.dictionary]; taken {
			if !arrow.TypeEqual(other.valueType, field.valueType) {
				return fmt.Errorf("two types have dictionary %d", field.dictionary)
			}
		} else {
			s.dictionaries[field.dictionary] = field
		}
		storage = arrays.StorageType(dictionary.ValueType)
		if _, nested := storage.(*arrow.DictionaryType); nested {
			return errors.New("a dictionary of dictionaries is not supported")
		}
	} else if field.dictionary >= 0 {
		return errMetadata
	}
	switch dt := storage.(type) {
	case *arrow.FixedSizeBinaryType:
		if dt.ByteWidth < 0 {
			return fmt.Errorf("invalid width %d", dt.ByteWidth)
		}
	case *arrow.FixedSizeListType:
		if dt.Len() < 0 {
			return fmt.Errorf("invalid list size %d", dt.Len())
		}
	case arrow.DecimalType:
		if digits := decimalDigits(dt); dt.GetPrecision() < 1 || dt.GetPrecision() > digits || max(dt.GetScale(), -dt.GetScale()) > digits {
			return fmt.Errorf("invalid precision %d or scale %d", dt.GetPrecision(), dt.GetScale())
		}
	}
	nested, ok := storage.(arrow.NestedType)
	if !ok {
		return nil
	}
	children := nested.Fields()
	if len(children) != len(field.children) {
		return errMetadata
	}
	for i, child := range children {
		if err := s.bind(&field.children[i], child.Type); err != nil {
			return fmt.Errorf("%s: %w", child.Name, err)
		}
	}
	return nil
}

// decimalDigits returns how many digits a decimal type of that width can have.
func decimalDigits(dt arrow.DecimalType) int32 {
	switch dt.BitWidth() {
	case 32:
		return 9
	case 64:
		return 18
	case 128:
		return 38
	}
	return 76
}

// schemaCache caches schemas by the bytes of their message.
type schemaCache struct {
	last atomic.Pointer[streamSchema]

	mu    sync.Mutex // guards the fields below
	known map[string]*streamSchema
	size  int
}

// parse returns the schema of a message.
func (c *schemaCache) parse(message []byte) (*streamSchema, error) {
	if last := c.last.Load(); last != nil && bytes.Equal(last.message, message) {
		return last, nil
	}
	c.mu.Lock()
	schema := c.known[string(message)]
	c.mu.Unlock()
	if schema == nil {
		var err error
		if schema, err = parseSchema(message); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if other := c.known[string(message)]; other != nil {
			schema = other
		} else if len(message) <= maxCachedSchemaBytes {
			if len(c.known) == maxCachedSchemas || c.size+len(message) > maxCachedSchemaBytes {
				c.known, c.size = nil, 0
			}
			if c.known == nil {
				c.known = make(map[string]*streamSchema)
			}
			c.known[string(message)] = schema
			c.size += len(message)
		}
		c.mu.Unlock()
	}
	c.last.Store(schema)
	return schema, nil
}
