// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/internal/protoplan"
)

// ProtobufRowBridge converts Protobuf messages to and from columns. Fields that a
// message does not declare, and its extensions, have no column and are dropped.
//
// The bridge is for programs that work on messages; a [ProtobufBatchCodec] has no
// need of it. It is a [columnar.RowBridge] and safe for concurrent use by multiple
// goroutines.
type ProtobufRowBridge[T proto.Message] struct {
	plan    *protoplan.Plan
	reader  *protoplan.Reader
	message protoreflect.MessageType
	broken  error
}

// NewProtobufRowBridge returns a bridge for messages of the prototype's type, which
// may be a nil pointer of a generated type. A prototype that names no message makes
// every conversion an error.
func NewProtobufRowBridge[T proto.Message](prototype T) *ProtobufRowBridge[T] {
	descriptor, err := descriptorOf(prototype)
	if err != nil {
		return &ProtobufRowBridge[T]{broken: textPrefix.Wrap(err, "Protobuf row bridge")}
	}
	plan := protoplan.Compile(descriptor)
	return &ProtobufRowBridge[T]{
		plan: plan, reader: plan.NewReader(protoplan.ReaderOptions{}), message: prototype.ProtoReflect().Type(),
	}
}

// ArrowSchema returns the schema of the columns.
func (b *ProtobufRowBridge[T]) ArrowSchema() *arrow.Schema {
	if b.broken != nil {
		return arrow.NewSchema(nil, nil)
	}
	return b.reader.Spec().Schema()
}

// RowsToBatch returns a batch with a row for each of rows. A row that is nil, or
// that lacks a required field, is a [columnar.RowError]. The caller owns the batch.
func (b *ProtobufRowBridge[T]) RowsToBatch(rows []T, mem memory.Allocator) (arrow.RecordBatch, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	set := columnset.New(b.reader.Spec(), mem)
	defer set.Discard()
	set.Begin(mem, len(rows), 0)
	decoder := b.reader.NewDecoder(set)
	var body []byte
	for i, row := range rows {
		var err error
		if body, err = b.wire(body[:0], row); err == nil {
			err = decoder.Append(body)
		}
		if err == nil && !set.Commit() {
			err = &BatchTooLargeError{Column: set.Overflow().Field.Name, Fits: i}
		}
		if err != nil {
			return nil, &columnar.RowError{Row: i, Cause: err}
		}
	}
	columns := set.Finish()
	defer func() {
		for _, column := range columns {
			column.Release()
		}
	}()
	return array.NewRecordBatch(b.ArrowSchema(), columns, int64(len(rows))), nil
}

// wire appends the wire form of a row.
func (b *ProtobufRowBridge[T]) wire(dst []byte, row T) ([]byte, error) {
	if _, err := descriptorOf(row); err != nil || !row.ProtoReflect().IsValid() {
		return nil, errors.New("the row is nil")
	}
	if got := row.ProtoReflect().Descriptor().FullName(); got != b.plan.Descriptor().FullName() {
		return nil, fmt.Errorf("the row is a message %s, not a %s", got, b.plan.Descriptor().FullName())
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, row)
}

// BatchToRows returns a message for each row of batch. The messages share no memory
// with the batch.
func (b *ProtobufRowBridge[T]) BatchToRows(batch arrow.RecordBatch) ([]T, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	plain, err := plainer{mem: memory.DefaultAllocator}.batch(batch)
	if err != nil {
		return nil, err
	}
	defer plain.Release()
	w, err := b.plan.NewWriter(plain.Schema(), protoplan.WriterOptions{})
	if err != nil {
		return nil, mismatchOf(err)
	}
	encoder := &protobufEncoder{w.NewEncoder(plain)}
	rows := make([]T, batch.NumRows())
	var body []byte
	for i := range rows {
		if body, err = encoder.appendRow(body[:0], i); err == nil {
			rows[i], err = b.row(body)
		}
		if err != nil {
			return nil, &columnar.RowError{Row: i, Cause: err}
		}
	}
	return rows, nil
}

// row reads a message.
func (b *ProtobufRowBridge[T]) row(body []byte) (T, error) {
	m := b.message.New().Interface()
	row, ok := m.(T)
	if !ok {
		return row, fmt.Errorf("new messages are of type %T", m)
	}
	return row, proto.Unmarshal(body, m)
}
