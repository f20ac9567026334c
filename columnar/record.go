// SPDX-License-Identifier: Apache-2.0

package columnar

import "bytes"

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
