// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// GuardedWriter writes records of the holder in transactions under the epoch
// of its role, so the broker rejects them once another member took the role.
// [Leadership.Guard] makes one; it needs no close.
//
// A GuardedWriter is safe for concurrent use by multiple goroutines. Writes of
// one leadership take turns, with each other and with the renewals of the
// lease. The zero value, like a nil one, writes nothing.
type GuardedWriter struct{ leadership *Leadership }

// Guard returns a writer whose records the broker accepts only while this
// leadership is the newest of its role. It fails for a transport that is not a
// [TermTransport].
func (l *Leadership) Guard() (*GuardedWriter, error) {
	if l.orNobody() == nobody {
		return nil, nobody.reason
	}
	if l.elector.terms == nil {
		return nil, l.elector.failed("guard", fmt.Errorf("%w: the transport writes no guarded records", errors.ErrUnsupported))
	}
	return &GuardedWriter{leadership: l}, nil
}

// Write writes the records in one transaction and returns when it is
// committed: read-committed readers see all of them or none.
//
// An error that matches [ErrFenced] says that another member took the role; it
// ends the leadership. An error that matches [ErrOutcomeUnknown] says that the
// records may be committed or not; the next write under the leadership settles
// that before it writes. Any other error says that the records are not visible
// and will not be. After the leadership ended, Write makes no call and returns
// an error that matches [ErrNotHeld] and the reason.
//
// A context that ends while Write waits for its turn ends it without a write.
// Write does not keep the records after it returns. No records are no
// transaction.
//
// Write takes three quarters of the renew interval at most, and half of what
// remains of the lease when a renewal is due, so that a topic that does not
// answer leaves the renewals their turn; a context that ends earlier bounds it
// further. The bound counts from the turn. A renewal waits behind one write at most, however
// many goroutines write.
func (w *GuardedWriter) Write(ctx context.Context, records ...GuardedRecord) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if w == nil {
		return nobody.reason
	}
	l := w.leadership.orNobody()
	if err := l.ended(); err != nil {
		return err
	}
	if err := checkRecords(records); err != nil {
		return l.elector.failed("write records", err)
	}
	if len(records) == 0 {
		return nil
	}
	bounded, pass, err := l.work(ctx)
	if err != nil {
		return l.elector.failed("write records", err)
	}
	defer pass()
	if err := l.ended(); err != nil {
		return err
	}
	return l.writeRecords(ctx, bounded, records)
}

// writeRecords runs with the turn of the leadership.
func (l *Leadership) writeRecords(ctx, bounded context.Context, records []GuardedRecord) error {
	size := 0
	for _, record := range records {
		size += len(record.Key) + len(record.Value)
	}
	token, began := l.Token(), l.elector.now()
	err := l.elector.terms.WriteRecords(bounded, l.elector.role, token, slices.Clone(records))
	l.elector.report(began, CallEvent{
		Operation: OperationWriteRecords, Token: token, Records: len(records), Bytes: size, Err: err,
	})
	l.track()
	if err != nil {
		return l.refused(l.elector.failed("write records", l.elector.overran(ctx, bounded, err)))
	}
	return nil
}

// The timestamps of Kafka count milliseconds from 1970 on.
var firstTimestamp, lastTimestamp = time.UnixMilli(0), time.UnixMilli(math.MaxInt64)

func checkRecords(records []GuardedRecord) error {
	for i, record := range records {
		if err := checkTopic(record.Topic); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if record.Partition < 0 {
			return fmt.Errorf("record %d: topic %q: partition %d must not be negative", i, record.Topic, record.Partition)
		}
		if at := record.Timestamp; !at.IsZero() && (at.Before(firstTimestamp) || at.After(lastTimestamp)) {
			return fmt.Errorf("record %d: topic %q: Kafka has no timestamp for %v", i, record.Topic, at)
		}
	}
	return nil
}
