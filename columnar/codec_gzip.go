// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/gzip"
)

// DefaultMaxUncompressedBytes is the default limit of a decompressed record
// value.
const DefaultMaxUncompressedBytes = 16 * 1024 * 1024

// GzipBatchCodec is a [BatchCodec] that compresses the record values of another
// codec. Keys, timestamps and headers stay as they are, and so do records
// without a value or with an empty one.
//
// A GzipBatchCodec without a delegate fails on every call.
//
// A GzipBatchCodec is safe for concurrent use by multiple goroutines where its
// delegate is.
type GzipBatchCodec struct {
	delegate BatchCodec
	maxBytes int
	readers  sync.Pool // of *gzip.Reader
	writers  sync.Pool // of *gzip.Writer
}

var _ BatchCodec = (*GzipBatchCodec)(nil)

// NewGzipBatchCodec returns a codec around delegate with the default limit.
func NewGzipBatchCodec(delegate BatchCodec) *GzipBatchCodec {
	return &GzipBatchCodec{delegate: delegate, maxBytes: DefaultMaxUncompressedBytes}
}

// NewGzipBatchCodecWithMaxBytes returns a codec around delegate that reads
// record values of at most maxUncompressedBytes.
func NewGzipBatchCodecWithMaxBytes(delegate BatchCodec, maxUncompressedBytes int) (*GzipBatchCodec, error) {
	if maxUncompressedBytes < 1 || maxUncompressedBytes > math.MaxInt-1 {
		return nil, fmt.Errorf("maxUncompressedBytes must be between 1 and %d", math.MaxInt-1)
	}
	return &GzipBatchCodec{delegate: delegate, maxBytes: maxUncompressedBytes}, nil
}

// Decode decompresses the record values and passes the records on. Values that
// are not gzip or exceed the limit are reported in a [DecodeError] together
// with those that the delegate cannot read.
//
// The caller owns the returned batch.
func (c *GzipBatchCodec) Decode(topic string, records []ConsumedRecord) (arrow.RecordBatch, error) {
	if c.delegate == nil {
		return nil, errCodecNil
	}
	plain := make([]ConsumedRecord, 0, len(records))
	failed := failures{topic: topic, records: records}
	var kept []int // positions of the records in plain; nil while none has failed
	for i, record := range records {
		value, err := c.decompress(record.Value)
		if err != nil {
			if len(failed.failed) == 0 {
				kept = make([]int, i, len(records))
				for j := range kept {
					kept[j] = j
				}
			}
			failed.add(i, err)
			continue
		}
		if kept != nil {
			kept = append(kept, i)
		}
		record.Value = value
		plain = append(plain, record)
	}
	if failed.failed == nil {
		return c.delegate.Decode(topic, plain)
	}
	if len(plain) > 0 {
		// Others may fail in the delegate: all of them are reported at once.
		batch, err := c.delegate.Decode(topic, plain)
		if batch != nil {
			batch.Release()
		}
		var more *DecodeError
		if errors.As(err, &more) {
			for _, record := range more.Records {
				if record == nil || record.Index < 0 || record.Index >= len(kept) {
					return nil, errors.Join(failed.sorted(), err)
				}
				failed.add(kept[record.Index], record.Cause)
			}
		}
	}
	return nil, failed.sorted()
}

func (c *GzipBatchCodec) decompress(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return value, nil
	}
	reader, _ := c.readers.Get().(*gzip.Reader)
	if reader == nil {
		reader = new(gzip.Reader)
	}
	defer c.readers.Put(reader)
	if err := reader.Reset(bytes.NewReader(value)); err != nil {
		return nil, fmt.Errorf("cannot decompress GZIP record: %w", err)
	}
	var plain bytes.Buffer
	count, err := io.Copy(&plain, io.LimitReader(reader, int64(c.maxBytes)+1))
	if count > int64(c.maxBytes) {
		return nil, fmt.Errorf("GZIP record exceeds maxUncompressedBytes=%d", c.maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decompress GZIP record: %w", err)
	}
	if plain.Len() == 0 {
		return []byte{}, nil // an empty value, not a missing one
	}
	return plain.Bytes(), nil
}

// Encode compresses the values of the records that the delegate makes.
func (c *GzipBatchCodec) Encode(topic string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	if c.delegate == nil {
		return nil, errCodecNil
	}
	records, err := c.delegate.Encode(topic, batch)
	if err != nil {
		return nil, err
	}
	writer, _ := c.writers.Get().(*gzip.Writer)
	if writer == nil {
		writer = gzip.NewWriter(io.Discard)
	}
	defer c.writers.Put(writer)
	for i := range records {
		if len(records[i].Value) == 0 {
			continue
		}
		var compressed bytes.Buffer
		compressed.Grow(len(records[i].Value)/2 + 64)
		writer.Reset(&compressed)
		if _, err := writer.Write(records[i].Value); err != nil {
			return nil, fmt.Errorf("cannot compress record %d: %w", i, err)
		}
		if err := writer.Close(); err != nil {
			return nil, fmt.Errorf("cannot compress record %d: %w", i, err)
		}
		records[i].Value = compressed.Bytes()
	}
	return records, nil
}
