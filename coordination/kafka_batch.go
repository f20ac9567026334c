// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// recordOverhead is the most that the encoding of a record adds to its
	// key, value and headers.
	recordOverhead = 32

	batchMagic         = 2
	batchTransactional = 1 << 4
	batchLengthAt      = 12 // where the bytes that the length counts begin
	batchChecksumAt    = 21 // where the bytes that the checksum covers begin
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kafkaBatch is one batch of records for one partition, as it is sent.
type kafkaBatch struct {
	at      TopicPartition
	records []GuardedRecord // nil when the call that brought them is over
	count   int
	offset  int64 // of the first record, or -1
	acked   bool

	// bytes is the encoded batch once it has its sequence number. It does not
	// change any more: a batch that is sent again must be the same.
	bytes    []byte
	producer FencingToken // that the bytes name

	// unknown says that the batch was sent without an answer that tells
	// whether it was appended.
	unknown bool

	discard bool // the records must never become visible
}

// seal encodes the batch under a producer and a sequence number. Under NoEpoch
// it is a batch outside any transaction.
func (b *kafkaBatch) seal(producer FencingToken, sequence int32, nowMillis int64) {
	latest := int64(math.MinInt64)
	times := make([]int64, len(b.records))
	for i, record := range b.records {
		times[i] = nowMillis
		if !record.Timestamp.IsZero() {
			times[i] = record.Timestamp.UnixMilli()
		}
		latest = max(latest, times[i])
	}
	first := times[0]
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch = -1
	batch.Magic = batchMagic
	if producer != NoEpoch {
		batch.Attributes = batchTransactional
	}
	batch.LastOffsetDelta = int32(len(b.records) - 1)
	batch.FirstTimestamp = first
	batch.MaxTimestamp = latest
	batch.ProducerID = producer.producerID
	batch.ProducerEpoch = producer.producerEpoch
	batch.FirstSequence = sequence
	batch.NumRecords = int32(len(b.records))
	for i, record := range b.records {
		batch.Records = appendRecord(batch.Records, record, int32(i), times[i]-first)
	}
	encoded := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(encoded[8:], uint32(len(encoded)-batchLengthAt))
	binary.BigEndian.PutUint32(encoded[17:], crc32.Checksum(encoded[batchChecksumAt:], castagnoli))
	b.bytes, b.producer = encoded, producer
}

func appendRecord(to []byte, record GuardedRecord, offsetDelta int32, timeDelta int64) []byte {
	encoded := kmsg.Record{
		TimestampDelta64: timeDelta,
		OffsetDelta:      offsetDelta,
		Key:              record.Key,
		Value:            record.Value,
	}
	for _, header := range record.Headers {
		encoded.Headers = append(encoded.Headers, kmsg.Header{Key: header.Key, Value: header.Value})
	}
	body := encoded.AppendTo(nil)[1:] // without the length, which is zero
	to = binary.AppendVarint(to, int64(len(body)))
	return append(to, body...)
}

func (b *kafkaBatch) size() int {
	if b.bytes != nil {
		return len(b.bytes)
	}
	size := 0
	for _, record := range b.records {
		size += recordSize(record)
	}
	return size
}

func (b *kafkaBatch) after(sequence int32) int32 {
	return int32((int64(sequence) + int64(b.count)) & math.MaxInt32)
}

func newBatch(at TopicPartition, records ...GuardedRecord) *kafkaBatch {
	return &kafkaBatch{at: at, records: records, count: len(records), offset: -1}
}

// reopen makes a batch one that was never sent.
func (b *kafkaBatch) reopen() { *b = *newBatch(b.at, b.records...) }

// batches groups records by partition, in the order of their first record.
func batches(records []GuardedRecord) []*kafkaBatch {
	var all []*kafkaBatch
	for _, record := range records {
		at := TopicPartition{Topic: record.Topic, Partition: record.Partition}
		i := slices.IndexFunc(all, func(b *kafkaBatch) bool { return b.at == at })
		if i < 0 {
			i, all = len(all), append(all, newBatch(at))
		}
		all[i].records = append(all[i].records, record)
		all[i].count++
	}
	return all
}

func recordSize(record GuardedRecord) int {
	size := recordOverhead + len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		size += recordOverhead + len(header.Key) + len(header.Value)
	}
	return size
}
