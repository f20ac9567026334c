// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"bytes"
	"context"
	"time"
)

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int
}

// RebalanceListener is told when a group member's partitions change. A
// [Consumer] calls it from inside [Consumer.Poll], on the polling goroutine.
type RebalanceListener interface {
	// OnPartitionsAssigned names the partitions that are new to the member.
	OnPartitionsAssigned(partitions []TopicPartition)
	// OnPartitionsRevoked names the partitions that leave the member while its
	// commits are still accepted.
	OnPartitionsRevoked(partitions []TopicPartition)
	// OnPartitionsLost names the partitions that another member may already
	// own: nothing of them may be committed or saved.
	OnPartitionsLost(partitions []TopicPartition)
}

// Consumer reads records. A runner calls it from one goroutine at a time.
//
// A consumer may also be a [ContextSubscriber], [GroupMember], [PositionReader],
// [CommittedReader], [OffsetRangeReader], [LogEndReader], [PartitionCounter],
// [Pauser], [RebalanceNotifier], [PollWaker], [StableEndReader] or [PollBounder]; a
// runner and a [CutReader] find these by type assertion and work without them.
type Consumer interface {
	// Assign makes partitions the whole assignment. It is for consumers outside
	// a group.
	Assign(partitions []TopicPartition) error
	// Seek makes offset the next to be fetched for an assigned partition and
	// drops whatever was fetched ahead. It returns an error for a partition that
	// is not assigned. A [RebalanceListener] may call it for a partition that is
	// just being assigned.
	Seek(partition TopicPartition, offset int64) error
	// Poll returns fetched records by partition, in offset order. It waits at
	// most timeout, and with a timeout of 0 returns what is ready. An elapsed
	// timeout is an empty result and no error. Rebalance callbacks run inside
	// Poll, before it returns records.
	Poll(ctx context.Context, timeout time.Duration) (map[TopicPartition][]ConsumedRecord, error)
	// CommitOffsets commits next-record offsets for the group, and returns an
	// error if any partition's commit was refused.
	CommitOffsets(ctx context.Context, offsets map[TopicPartition]int64) error
	// Subscribe joins the group. The listener may be nil.
	Subscribe(topics []string, listener RebalanceListener) error
	// GroupMetadata identifies the member and generation of the latest Poll, for
	// [TransactionalProducer.SendOffsets]. It is opaque.
	GroupMetadata() any
}

// ContextSubscriber is a [Consumer] that joins its group under a context. A runner
// joins in its first round then, under the context of the round, and not where the
// runner is made.
type ContextSubscriber interface {
	// SubscribeContext is [Consumer.Subscribe], bounded by ctx. After an error it may
	// be called again.
	SubscribeContext(ctx context.Context, topics []string, listener RebalanceListener) error
}

// GroupMember is a [Consumer] that knows its group, and the names that one process at
// a time can go by. A runner whose store is a [MemberStore] claims them before it
// joins, because joining under the name of a living process harms that one.
type GroupMember interface {
	// Membership returns the group, and names such as a transactional id.
	Membership() (group string, names []string)
}

// PositionReader is a [Consumer] that knows the next offset it will deliver,
// also across offsets that never arrive as records: control records, aborted
// data, compaction gaps.
type PositionReader interface {
	// Positions returns the next offset to be delivered. Partitions whose
	// position is not known are omitted.
	Positions(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
}

// CommittedReader is a [Consumer] that can read the group's committed offsets.
type CommittedReader interface {
	// Committed returns the committed next-record offsets. It waits for offsets
	// of a transaction that is being completed. Partitions without a commit are
	// omitted.
	Committed(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
}

// OffsetRangeReader is a [Consumer] that can ask the broker for the first and
// the last offsets of partitions.
type OffsetRangeReader interface {
	// StartOffsets returns the earliest available offset of each partition.
	StartOffsets(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
	// EndOffsets returns the offset behind the last record that the consumer may
	// read: for a read-committed consumer, the last stable offset.
	EndOffsets(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
}

// LogEndReader is a [Consumer] that can ask the broker where the logs of
// partitions end, whatever it may read of them.
type LogEndReader interface {
	// LogEndOffsets returns the offset behind the last record of each partition,
	// committed or not: the high watermark. While a transaction is open, that is
	// above what [OffsetRangeReader.EndOffsets] returns to a read-committed
	// consumer.
	LogEndOffsets(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
}

// PartitionCounter is a [Consumer] that can tell how many partitions topics
// have.
type PartitionCounter interface {
	// PartitionCounts returns the partition count of each topic. A topic that
	// does not exist is an error that names it. The map may be shared; nobody
	// changes it.
	PartitionCounts(ctx context.Context, topics []string) (map[string]int, error)
}

// Pauser is a [Consumer] that can stop and continue fetching partitions
// without giving them up.
type Pauser interface {
	// Pause stops fetching the partitions until Resume.
	Pause(partitions []TopicPartition)
	// Resume continues fetching the partitions.
	Resume(partitions []TopicPartition)
}

// RebalanceNotifier is a [Consumer] that can tell during a round that a
// rebalance waits for the next Poll. A runner then keeps what it has not begun to
// process for the round behind it, and processors see it in
// [Context.RebalancePending].
type RebalanceNotifier interface {
	// NotifyRebalance makes the consumer call pending, on any goroutine, when a
	// rebalance begins to wait. It replaces the function of an earlier call.
	NotifyRebalance(pending func())
}

// PollWaker is a [Consumer] whose waiting polls can be ended. A runner ends one when
// there is news of a cut, and a [CutReader] follows its topic in the background
// where its consumer is one.
type PollWaker interface {
	// WakePoll makes a Poll that waits return what is there, without an error. If
	// none waits, the next Poll does not wait. It may be called on any goroutine.
	WakePoll()
}

// StableEndReader is a [Consumer] that remembers the ends that brokers told it with
// the records that they sent.
type StableEndReader interface {
	// StableEnds returns the latest end that a broker told of each partition, behind
	// the last record that the consumer may read then. It never asks a broker.
	// Partitions of which no end is known are omitted.
	StableEnds(partitions []TopicPartition) map[TopicPartition]int64
}

// PollBounder is a [Consumer] whose polls can be bounded.
type PollBounder interface {
	// BoundPolls limits what one Poll returns to about this many records.
	BoundPolls(records int)
}

// Producer sends records.
type Producer interface {
	// Send sends one record to topic and calls done exactly once with the
	// outcome, on any goroutine, possibly before Send returns. Records of one
	// topic and key are sent in the order of the calls.
	Send(topic string, record ProduceRecord, done func(error))
}

// TransactionalProducer sends records and consumed offsets in one transaction.
// It is initialised before a runner uses it.
//
// Errors tell what became of the transaction: a [FencedError] is terminal, a
// [TransactionAbortedError] says that nothing of the transaction took effect, and a
// [CommitUnknownError] that the producer could not find out.
type TransactionalProducer interface {
	Producer
	// BeginTransaction starts a transaction. It need not reach the broker before
	// the first record or offset is sent.
	BeginTransaction() error
	// SendOffsets adds consumed next-record offsets to the transaction, for the
	// member and generation that [Consumer.GroupMetadata] returned.
	SendOffsets(offsets map[TopicPartition]int64, groupMetadata any) error
	// CommitTransaction commits. A nil result means committed.
	CommitTransaction() error
	// AbortTransaction aborts. Aborting when no transaction is open does
	// nothing.
	AbortTransaction() error
}

// OffsetNoter is a [TransactionalProducer] that can keep a note beside a committed
// offset. A runner that finds it tells by the notes whether a transaction that
// moves no offset took effect.
type OffsetNoter interface {
	// SendOffsetsNoted is [TransactionalProducer.SendOffsets], bounded by ctx, with
	// notes for some of the partitions. A note stays beside the offset until the next
	// commit of the partition, which replaces or removes it.
	SendOffsetsNoted(ctx context.Context, offsets map[TopicPartition]int64, notes map[TopicPartition]string, groupMetadata any) error
	// CommittedNotes returns the notes beside the group's committed offsets. It
	// waits for offsets of a transaction that is being completed. Partitions without
	// a note are omitted.
	CommittedNotes(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]string, error)
}

// ContextTransactionalProducer is a [TransactionalProducer] whose blocking
// calls take a context. A runner prefers these calls where a producer has them.
type ContextTransactionalProducer interface {
	TransactionalProducer
	// SendOffsetsContext is SendOffsets, bounded by ctx.
	SendOffsetsContext(ctx context.Context, offsets map[TopicPartition]int64, groupMetadata any) error
	// CommitTransactionContext is CommitTransaction, bounded by ctx. A commit
	// that ctx cuts short returns a [CommitUnknownError].
	CommitTransactionContext(ctx context.Context) error
	// AbortTransactionContext is AbortTransaction, bounded by ctx.
	AbortTransactionContext(ctx context.Context) error
}

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
