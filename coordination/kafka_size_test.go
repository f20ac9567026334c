// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// inflate writes records of zeros, each in a batch that is compressed.
func (s *stage) inflate(t *testing.T, at coordination.TopicPartition, sizes ...int) {
	t.Helper()
	const most = 64 << 20
	client := s.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(most), kgo.BrokerMaxWriteBytes(most))
	for n, size := range sizes {
		record := &kgo.Record{Topic: at.Topic, Partition: int32(at.Partition), Key: fmt.Append(nil, "zeros ", n), Value: make([]byte, size)}
		if err := client.ProduceSync(within(t, patience), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever may write the topic can write batches that decompress to far more
// than was written. Together they are read piece by piece.
func TestReadTakesCompressedBatchesPieceByPiece(t *testing.T) {
	const size = 10 << 20
	x := newReading(t)
	x.inflate(t, x.at, size, size, size)
	var requests wire
	x.transport = x.stage.transport(t, standardConfig(t), reporting(&requests))
	records, err := x.transport.ReadPartition(within(t, patience), x.at)
	if err != nil || len(records) != 3 || len(records[2].Value) != size {
		t.Fatalf("read: %d records, %v; want 3 of %d bytes", len(records), err, size)
	}
	if got := requests.of(kmsg.Fetch); got != 2 {
		t.Errorf("%d fetches, want 2 that decompress to 20 MiB at most", got)
	}
}

func TestReadRefusesABatchThatTakesAllMemory(t *testing.T) {
	x := newReading(t)
	x.append(t, "a", "1")
	x.inflate(t, x.at, 20<<20)
	var failed *coordination.TopicError
	_, err := x.transport.ReadPartition(within(t, patience), x.at)
	if !errors.As(err, &failed) || !errors.Is(err, kgo.ErrMaxDecompress) || failed.Topic != x.at.Topic {
		t.Errorf("read: %v, want a TopicError with ErrMaxDecompress", err)
	}
	var large *kgo.ErrDecompressTooLarge
	if !errors.As(err, &large) || large.Offset != 1 {
		t.Errorf("read: %v, want the offset of the batch", err)
	}
	x.transport = x.stage.transport(t, standardConfig(t), func(options *coordination.KafkaOptions) {
		options.ClientOptions = append(options.ClientOptions, kgo.MaxDecompressBatchBytes(32<<20))
	})
	if records, err := x.transport.ReadPartition(within(t, patience), x.at); err != nil || len(records) != 2 {
		t.Errorf("read with a higher limit: %d records, %v; want both", len(records), err)
	}
}

// A record that no broker takes is not sent, and leaves nothing behind.
func TestGuardedRecordThatNoRequestHoldsIsRefused(t *testing.T) {
	const limit = 2 << 20
	x := newGuarded(t, 1)
	var requests longest
	transport := x.stage.transport(t, standardConfig(t), reporting(&requests), func(options *coordination.KafkaOptions) {
		options.ClientOptions = append(options.ClientOptions, kgo.BrokerMaxWriteBytes(limit))
	})
	minted, err := transport.AcquireEpoch(within(t, patience), x.l.Role())
	if err != nil {
		t.Fatal(err)
	}
	write := func(values ...[]byte) error {
		var records []coordination.GuardedRecord
		for _, value := range values {
			records = append(records, coordination.GuardedRecord{Topic: x.commands, Value: value})
		}
		return transport.WriteRecords(within(t, patience), x.l.Role(), minted, records)
	}
	var refused *coordination.TopicError
	err = write([]byte("before"), make([]byte, limit+1))
	if !errors.As(err, &refused) || !errors.Is(err, kerr.MessageTooLarge) || refused.Retriable() || errors.Is(err, coordination.ErrOutcomeUnknown) {
		t.Errorf("write: %v, want a final TopicError with MESSAGE_TOO_LARGE and no doubt", err)
	}
	if got := requests.bytes.Load(); got > limit {
		t.Errorf("a request of %d bytes was sent", got)
	}
	if err := write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"after"}, x.visible(t, x.commands, 0)); diff != "" {
		t.Errorf("visible (-want +got):\n%s", diff)
	}
}

// longest is the longest request that was written.
type longest struct{ bytes atomic.Int64 }

func (l *longest) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, written int, _, _ time.Duration, _ error) {
	for {
		most := l.bytes.Load()
		if int64(written) <= most || l.bytes.CompareAndSwap(most, int64(written)) {
			return
		}
	}
}
