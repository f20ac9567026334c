// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/ipcstream"
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
type IPCSerde struct{ codec *ipcstream.Codec }

var _ ValueSerde[arrow.RecordBatch] = (*IPCSerde)(nil)

// IPCLimits bounds what reading an Arrow IPC stream may use. A zero field stands
// for its default. The fields are
//
//	ValueBytes        int // largest stream; default 256 MiB
//	UncompressedBytes int // largest sum of decompressed buffers in a message; default 16 MiB
//	Rows              int // most rows of a column where its bytes do not show how many there are; default 65536
type IPCLimits = ipcstream.Limits

// NewIPCSerde returns a serde with the default [IPCLimits].
func NewIPCSerde(mem memory.Allocator) *IPCSerde {
	codec, _ := ipcstream.NewCodec(mem, IPCLimits{})
	return &IPCSerde{codec: codec}
}

// NewIPCSerdeWithLimits returns a serde that reads within limits. A negative
// limit is an error.
func NewIPCSerdeWithLimits(mem memory.Allocator, limits IPCLimits) (*IPCSerde, error) {
	codec, err := ipcstream.NewCodec(mem, limits)
	if err != nil {
		return nil, textPrefix.Wrap(err, "IPC limits")
	}
	return &IPCSerde{codec: codec}, nil
}

// Serialize returns batch as an uncompressed stream of one record batch. A nil
// batch gives nil. Serialize does not keep the batch.
func (s *IPCSerde) Serialize(_ string, batch arrow.RecordBatch) ([]byte, error) {
	if batch == nil {
		return nil, nil
	}
	return s.codec.Encode(batch)
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
	return s.codec.Decode(data)
}
