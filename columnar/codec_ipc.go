// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// IPCSerde is a [ValueSerde] for Arrow batches in the format of an Arrow IPC
// stream. It ignores the topic.
//
// Deserialize trusts nothing in the bytes: positions, lengths, offsets,
// indexes, text and declared sizes are checked before they are used, and what
// is accepted reads without a panic. Compressed streams are read within
// [IPCLimits].
//
// An IPCSerde is safe for concurrent use by multiple goroutines.
type IPCSerde struct {
	mem     memory.Allocator
	reader  ipcReader
	layouts ipcLayouts
}

var _ ValueSerde[arrow.RecordBatch] = (*IPCSerde)(nil)

// NewIPCSerde returns a serde with the default [IPCLimits].
func NewIPCSerde(mem memory.Allocator) *IPCSerde {
	limits, _ := IPCLimits{}.resolve()
	return &IPCSerde{mem: mem, reader: ipcReader{mem: mem, limits: limits}}
}

// NewIPCSerdeWithLimits returns a serde that reads within limits. A negative
// limit is an error.
func NewIPCSerdeWithLimits(mem memory.Allocator, limits IPCLimits) (*IPCSerde, error) {
	limits, err := limits.resolve()
	if err != nil {
		return nil, err
	}
	return &IPCSerde{mem: mem, reader: ipcReader{mem: mem, limits: limits}}, nil
}

// Serialize returns batch as an uncompressed stream of one record batch. A nil
// batch gives nil. Serialize does not keep the batch.
func (s *IPCSerde) Serialize(_ string, batch arrow.RecordBatch) ([]byte, error) {
	if batch == nil {
		return nil, nil
	}
	encoder, err := newIPCEncoder(s.mem, &s.layouts, batch)
	if err != nil {
		return nil, fmt.Errorf("cannot write Arrow IPC stream: %w", err)
	}
	defer encoder.release()
	return encoder.encode(0, int(batch.NumRows())), nil
}

// Deserialize reads a stream. Several record batches become one. Data that is
// nil gives nil.
//
// The caller owns the returned batch, whose columns use the memory of data:
// data must not change while the batch is in use.
func (s *IPCSerde) Deserialize(_ string, data []byte) (arrow.RecordBatch, error) {
	if data == nil {
		return nil, nil
	}
	schema, read, err := s.reader.read(data)
	if err != nil {
		return nil, err
	}
	batches := make([]arrow.RecordBatch, len(read))
	for i, one := range read {
		columns := one.arrays()
		batches[i] = array.NewRecordBatch(schema, columns, int64(one.rows))
		arrays.Release(columns)
		one.release()
	}
	defer func() {
		for _, batch := range batches {
			batch.Release()
		}
	}()
	return concatBatches(s.mem, batches)
}
