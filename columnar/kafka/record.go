// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// appendConsumed appends the data records of one fetched partition to out and
// returns it. Keys, values and header values alias the client's memory: the
// client writes a fetched batch once and never reuses it unless a record is
// recycled, which nothing here does. Only the header lists are copied, all of
// one partition into one allocation, because their element type differs. Nil
// stays nil, empty stays empty.
func appendConsumed(out []columnar.ConsumedRecord, records []*kgo.Record) []columnar.ConsumedRecord {
	data, headers := 0, 0
	for _, r := range records {
		if !r.Attrs.IsControl() {
			data++
			headers += len(r.Headers)
		}
	}
	if data == 0 {
		return out
	}
	if out == nil {
		out = make([]columnar.ConsumedRecord, 0, data)
	}
	var slab []columnar.RecordHeader
	if headers > 0 {
		slab = make([]columnar.RecordHeader, 0, headers)
	}
	for _, r := range records {
		if r.Attrs.IsControl() {
			continue
		}
		record := columnar.ConsumedRecord{
			Key:       r.Key,
			Value:     r.Value,
			Timestamp: r.Timestamp.UnixMilli(),
			Partition: int(r.Partition),
			Offset:    r.Offset,
		}
		if len(r.Headers) > 0 {
			from := len(slab)
			for _, h := range r.Headers {
				slab = append(slab, columnar.RecordHeader(h))
			}
			record.Headers = slab[from:len(slab):len(slab)]
		}
		out = append(out, record)
	}
	return out
}

// fill makes r the client's form of a record. It aliases key, value and header
// values, which the caller must leave alone until the record is acknowledged.
func fill(r *kgo.Record, topic string, record columnar.ProduceRecord) {
	r.Topic, r.Key, r.Value = topic, record.Key, record.Value
	if record.Timestamp >= 0 {
		r.Timestamp = time.UnixMilli(record.Timestamp)
	}
	if len(record.Headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(record.Headers))
		for i, h := range record.Headers {
			r.Headers[i] = kgo.RecordHeader(h)
		}
	}
}
