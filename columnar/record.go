// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// RecordHeader is one header of a Kafka record. Keys may repeat within a
// record and order matters. A nil Value is a null header value, which Kafka
// keeps apart from an empty one.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Equal reports whether h and other have the same key and value bytes. A null
// and an empty value compare equal.
func (h RecordHeader) Equal(other RecordHeader) bool {
	return h.Key == other.Key && bytes.Equal(h.Value, other.Value)
}

// ConsumedRecord is one record read from a partition. A nil Key is a null key
// and a nil Value is a tombstone.
type ConsumedRecord struct {
	Key       []byte
	Value     []byte
	Timestamp int64 // milliseconds since the epoch
	Partition int
	Offset    int64
	Headers   []RecordHeader
}

// NewConsumedRecord returns a record with its own copies of key, value and
// header values. A nil key stays nil; a nil value becomes empty. Use a struct
// literal or [NewConsumedTombstone] for a tombstone.
func NewConsumedRecord(key, value []byte, timestamp int64, partition int, offset int64, headers ...RecordHeader) ConsumedRecord {
	return ConsumedRecord{
		Key:       bytes.Clone(key),
		Value:     cloneValue(value),
		Timestamp: timestamp,
		Partition: partition,
		Offset:    offset,
		Headers:   cloneHeaders(headers),
	}
}

// NewConsumedTombstone returns a record with a null value and its own copies
// of key and header values.
func NewConsumedTombstone(key []byte, timestamp int64, partition int, offset int64, headers ...RecordHeader) ConsumedRecord {
	record := NewConsumedRecord(key, nil, timestamp, partition, offset, headers...)
	record.Value = nil
	return record
}

// ProduceRecord is one record to produce. A nil Key is a null key and a nil
// Value is a tombstone.
type ProduceRecord struct {
	Key       []byte
	Value     []byte
	Timestamp int64 // milliseconds since the epoch; negative lets the producer choose
	Headers   []RecordHeader
}

// NewProduceRecord returns a record with its own copies of key, value and
// header values. A nil key stays nil; a nil value becomes empty. Use a struct
// literal or [NewProduceTombstone] for a tombstone.
func NewProduceRecord(key, value []byte, timestamp int64, headers ...RecordHeader) ProduceRecord {
	return ProduceRecord{
		Key:       bytes.Clone(key),
		Value:     cloneValue(value),
		Timestamp: timestamp,
		Headers:   cloneHeaders(headers),
	}
}

// NewProduceTombstone returns a record with a null value and its own copies of
// key and header values.
func NewProduceTombstone(key []byte, timestamp int64, headers ...RecordHeader) ProduceRecord {
	record := NewProduceRecord(key, nil, timestamp, headers...)
	record.Value = nil
	return record
}

// Equal reports whether r and other have the same key, value, timestamp and
// headers in order. A null and an empty key, value or header value compare
// equal.
func (r ProduceRecord) Equal(other ProduceRecord) bool {
	if r.Timestamp != other.Timestamp || len(r.Headers) != len(other.Headers) ||
		!bytes.Equal(r.Key, other.Key) || !bytes.Equal(r.Value, other.Value) {
		return false
	}
	for i, header := range r.Headers {
		if !header.Equal(other.Headers[i]) {
			return false
		}
	}
	return true
}

// ProducedToTopic is one output of a topology: a record and the topic of the
// sink that produced it.
type ProducedToTopic struct {
	Topic  string
	Record ProduceRecord
}

func cloneValue(value []byte) []byte {
	return append([]byte{}, value...)
}

func cloneHeaders(headers []RecordHeader) []RecordHeader {
	if len(headers) == 0 {
		return nil
	}
	out := make([]RecordHeader, len(headers))
	for i, header := range headers {
		out[i] = RecordHeader{Key: header.Key, Value: bytes.Clone(header.Value)}
	}
	return out
}

// Errors of malformed values of the headers column.
var (
	errHeadersTruncated    = errors.New("truncated Kafka headers")
	errHeaderCount         = errors.New("invalid Kafka header count")
	errHeaderKeyLength     = errors.New("negative Kafka header key length")
	errHeaderValueLength   = errors.New("invalid Kafka header value length")
	errHeaderTrailingBytes = errors.New("trailing bytes in Kafka headers")
)

// headersSize returns the size of the headers column's value for headers.
func headersSize(headers []RecordHeader) (int, error) {
	size := 4
	for _, header := range headers {
		if len(header.Key) > math.MaxInt32 || len(header.Value) > math.MaxInt32 {
			return 0, fmt.Errorf("header %.40q is too large", header.Key)
		}
		size += 8 + len(header.Key) + len(header.Value)
	}
	return size, nil
}

// appendHeaders appends the headers column's value: a count, then the key and
// the value of each header, each behind its length; all big-endian int32. The
// length -1 stands for a null value.
func appendHeaders(dst []byte, headers []RecordHeader) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	for _, header := range headers {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(header.Key)))
		dst = append(dst, header.Key...)
		if header.Value == nil {
			dst = binary.BigEndian.AppendUint32(dst, math.MaxUint32)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(header.Value)))
		dst = append(dst, header.Value...)
	}
	return dst
}

// decodeHeaders reads a value of the headers column. The header values are
// parts of blob.
func decodeHeaders(blob []byte) ([]RecordHeader, error) {
	count, rest, err := headerInt(blob)
	if err != nil {
		return nil, err
	}
	if count < 0 || count > len(rest)/8+1 {
		return nil, errHeaderCount
	}
	if count == 0 {
		if len(rest) > 0 {
			return nil, errHeaderTrailingBytes
		}
		return nil, nil
	}
	headers := make([]RecordHeader, count)
	for i := range headers {
		var length int
		if length, rest, err = headerInt(rest); err != nil {
			return nil, err
		}
		if length < 0 {
			return nil, errHeaderKeyLength
		}
		if length > len(rest) {
			return nil, errHeadersTruncated
		}
		headers[i].Key, rest = string(rest[:length]), rest[length:]
		if length, rest, err = headerInt(rest); err != nil {
			return nil, err
		}
		switch {
		case length < -1:
			return nil, errHeaderValueLength
		case length > len(rest):
			return nil, errHeadersTruncated
		case length >= 0:
			headers[i].Value, rest = rest[:length:length], rest[length:]
		}
	}
	if len(rest) > 0 {
		return nil, errHeaderTrailingBytes
	}
	return headers, nil
}

func headerInt(blob []byte) (int, []byte, error) {
	if len(blob) < 4 {
		return 0, nil, errHeadersTruncated
	}
	return int(int32(binary.BigEndian.Uint32(blob))), blob[4:], nil
}
