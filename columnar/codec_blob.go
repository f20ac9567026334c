// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/ipcstream"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

// DefaultMaxRecordBytes is the default limit of the value of a record that a
// [BlobCodec] produces: room for keys, headers and framing below the broker's
// default limit of a message.
const DefaultMaxRecordBytes = 900 * 1024

// BlobCodec is a [BatchCodec] for records whose values are Arrow IPC streams of
// many rows each. It reads them as carefully as [IPCSerde] does.
//
// Every row of a record has the record's key, timestamp and headers. A record
// without a value is one row of nulls that [TombstoneColumn] marks; where a
// batch holds nothing else, its payload columns are those that the topic had
// before, or none.
//
// A BlobCodec is safe for concurrent use by multiple goroutines.
type BlobCodec struct {
	mem       memory.Allocator
	maxBytes  int
	reader    *ipcstream.Reader
	layouts   ipcstream.Layouts
	decoded   metadataSchemas
	payloads  payloadPlans
	lastKnown topicSchemas
}

var _ BatchCodec = (*BlobCodec)(nil)

// NewBlobCodec returns a codec with the default limits.
func NewBlobCodec(mem memory.Allocator) *BlobCodec {
	reader, _ := ipcstream.NewReader(mem, IPCLimits{})
	return &BlobCodec{mem: mem, maxBytes: DefaultMaxRecordBytes, reader: reader}
}

// NewBlobCodecWithMaxBytes returns a codec that produces values of at most
// maxRecordBytes, which must be positive. Keys and headers do not count.
func NewBlobCodecWithMaxBytes(mem memory.Allocator, maxRecordBytes int) (*BlobCodec, error) {
	return NewBlobCodecWithLimits(mem, maxRecordBytes, IPCLimits{})
}

// NewBlobCodecWithLimits is [NewBlobCodecWithMaxBytes] for a codec that reads
// within limits. A negative limit is an error.
func NewBlobCodecWithLimits(mem memory.Allocator, maxRecordBytes int, limits IPCLimits) (*BlobCodec, error) {
	reader, err := ipcstream.NewReader(mem, limits)
	if err != nil {
		return nil, textPrefix.Wrap(err, "IPC limits")
	}
	if maxRecordBytes < 1 {
		return nil, errors.New("maxRecordBytes must be positive")
	}
	return &BlobCodec{mem: mem, maxBytes: maxRecordBytes, reader: reader}, nil
}

// Decode reads the batches of all records into one, in record order. Values
// that cannot be read are reported together in a [DecodeError]; payload schemas
// that differ are a [SchemaMismatchError] that names the record.
//
// The caller owns the returned batch, whose columns may use the memory of the
// records' values.
func (c *BlobCodec) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	if len(records) == 0 {
		return nil, errNoRecords
	}
	d := blobDecoder{counts: make([]int, len(records))}
	defer d.release()
	failed := failures{topic: topic, records: records}
	var mismatch error
	for i := range records {
		if records[i].Value == nil {
			d.tombstone(i)
			continue
		}
		schema, batches, err := c.reader.Read(records[i].Value)
		if err != nil {
			failed.add(i, fmt.Errorf("cannot decode Arrow record %d: %w", i, err))
			continue
		}
		d.add(i, batches)
		if d.schema == nil {
			d.schema = schema
		} else if mismatch == nil && !namedcols.SameSchema(schema, d.schema) {
			mismatch = &SchemaMismatchError{Index: i, Want: d.schema, Got: schema}
		}
	}
	if err := failed.err(); err != nil {
		return nil, err
	}
	if mismatch != nil {
		return nil, mismatch
	}
	if d.schema == nil {
		d.schema = c.lastKnown.recall(topic)
	} else {
		c.lastKnown.remember(topic, d.schema)
	}
	payload, err := ipcstream.Join(c.mem, d.schema, d.batches)
	if err != nil {
		return nil, fmt.Errorf("cannot concatenate Arrow batches: %w", err)
	}
	defer payload.Release()
	return attachMetadata(c.mem, payload, records, d.counts, c.decoded.of(d.schema, d.tombstones > 0))
}

// blobDecoder collects the batches of the records of one Decode call.
type blobDecoder struct {
	schema     *arrow.Schema
	batches    []ipcstream.Batch // one without columns stands for a tombstone
	counts     []int             // rows of each record
	tombstones int
}

func (d *blobDecoder) tombstone(record int) {
	d.counts[record] = 1
	d.tombstones++
	d.batches = append(d.batches, ipcstream.Batch{Rows: 1})
}

func (d *blobDecoder) add(record int, batches []ipcstream.Batch) {
	for _, batch := range batches {
		d.counts[record] += batch.Rows
	}
	d.batches = append(d.batches, batches...)
}

func (d *blobDecoder) release() {
	for _, batch := range d.batches {
		batch.Release()
	}
}

// Encode packs consecutive rows of equal key, timestamp and headers into
// records, as many rows a record as its limit allows. A row that
// [TombstoneColumn] marks becomes a record without a value. A row that does not
// fit a record on its own, and malformed headers, are errors.
func (c *BlobCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	payload := c.payloads.batch(batch)
	defer payload.Release()
	packer, err := ipcstream.NewPacker(c.mem, &c.layouts, payload, c.maxBytes)
	if err != nil {
		return nil, err
	}
	defer packer.Release()
	metadata := NewRowMetadata(batch)
	var records []ProduceRecord
	add := func(row int, value []byte) error {
		record, err := metadata.Record(row)
		if err != nil {
			return err
		}
		record.Value = value
		records = append(records, record)
		return nil
	}
	from := 0
	for _, to := range metadata.recordRuns(int(batch.NumRows())) {
		if metadata.Tombstone(from) {
			err = add(from, nil)
		} else {
			err = packer.Pack(from, to, add)
		}
		if err != nil {
			return nil, err
		}
		from = to
	}
	return records, nil
}

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
