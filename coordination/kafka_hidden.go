// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hiddenRecords are the records from the last stable offset of a partition on.
// The first of them belongs to an open transaction, and a read-committed fetch
// shows nothing of what follows, also of what is committed. The newest record
// of each key is kept.
type hiddenRecords struct {
	from      int64 // the stable offset, where all of it begins
	next      int64 // where reading goes on
	committed map[string]StateRecord
	open      map[int64]map[string]StateRecord // of transactions, by producer id
}

// add takes the next record.
//
// A producer has one transaction at a time, and whoever ends it, itself, its
// successor or the coordinator, writes the marker under the same producer id.
// So the marker ends what is there of that producer.
func (h *hiddenRecords) add(record *kgo.Record) {
	id := record.ProducerID
	switch {
	case record.Attrs.IsControl():
		switch markerOf(record) {
		case markerCommit:
			maps.Copy(h.committed, h.open[id])
			delete(h.open, id)
		case markerAbort:
			delete(h.open, id)
		}
	case record.Attrs.IsTransactional():
		if h.open[id] == nil {
			h.open[id] = make(map[string]StateRecord)
		}
		h.open[id][string(record.Key)] = stateRecord(record)
	default:
		h.committed[string(record.Key)] = stateRecord(record)
	}
}

// records returns what is committed, oldest first.
func (h *hiddenRecords) records() []StateRecord {
	return slices.SortedFunc(maps.Values(h.committed), func(x, y StateRecord) int { return cmp.Compare(x.Offset, y.Offset) })
}

// stateRecord copies a record out of the memory of its fetch. Nil stays nil.
func stateRecord(record *kgo.Record) StateRecord {
	return StateRecord{Offset: record.Offset, Key: bytes.Clone(record.Key), Value: bytes.Clone(record.Value)}
}

// lookBehind returns the committed records from the position of the log, which
// is the stable offset, to the high watermark. It reads nothing twice while the
// stable offset stays.
func (t *KafkaTransport) lookBehind(ctx context.Context, at TopicPartition, log *partitionLog, high int64) ([]StateRecord, error) {
	stable := log.position
	if log.hidden.committed == nil || log.hidden.from != stable {
		log.hidden = hiddenRecords{
			from: stable, next: stable,
			committed: make(map[string]StateRecord), open: make(map[int64]map[string]StateRecord),
		}
	}
	for log.hidden.next < high {
		part, err := t.fetch(ctx, at, log.hidden.next, fetchOptions{of: log})
		switch {
		case errors.Is(err, errOutOfRange):
			log.hidden = hiddenRecords{}
			return nil, &transientError{err: err}
		case err != nil:
			return nil, err
		case log.hidden.committed == nil || part.next <= log.hidden.next && part.size > 0:
			// The log was read from another leader meanwhile, or a batch did
			// not fit.
			return nil, &transientError{err: errors.New("the fetch made no progress")}
		case part.next <= log.hidden.next:
			return log.hidden.records(), nil // nothing is there
		}
		for _, record := range part.records {
			log.hidden.add(record)
		}
		log.hidden.next = part.next
	}
	return log.hidden.records(), nil
}
