// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxFetchBytes = 4 << 20

	// maxFetchMemory bounds what a fetch is decompressed to, give or take a
	// batch. Records of this package take some hundred bytes, but whoever may
	// write the topic can write batches that decompress to a multiple of their
	// size.
	maxFetchMemory = 16 << 20

	// maxStableGrace bounds how long a read waits for an open transaction of
	// somebody else to end.
	maxStableGrace = time.Second

	stableWait = 100 * time.Millisecond

	timestampLatest   = -1
	timestampEarliest = -2
)

// errOutOfRange says that a partition does not have the offset any more.
var errOutOfRange = errors.New("the offset is out of range")

// errBehind says that a leader shows less of a partition than is known to be
// there.
var errBehind = errors.New("the high watermark is behind the end of the partition")

// ReadPartition implements [StateReader]. It returns at once from an empty
// partition and from one that ends with a transaction marker. No timer ends it,
// only ctx does.
//
// The transport remembers what it read: the next call fetches what was written
// since, and may leave out records that compaction could have removed. Calls
// for one partition at the same time share the fetches that began after all of
// them, so that any number of members on one transport cost 50 requests a
// second at most; for that a call may take 20 milliseconds longer.
//
// While a transaction of another role is open, what was committed after it
// began is out of sight. ReadPartition waits for it, half a renew interval and
// a second at most, and then returns what is below it. Only the first call that
// meets the transaction waits so long.
func (t *KafkaTransport) ReadPartition(ctx context.Context, partition TopicPartition) ([]StateRecord, error) {
	seen, err := t.view(ctx, partition)
	if err != nil {
		return nil, err
	}
	return cloneRecords(seen.records), nil
}

// ReadCommitted implements [TopicTransport]: it is [KafkaTransport.ReadPartition]
// and reads on from the last stable offset to the high watermark. It takes the
// markers in the log for the end of each transaction, where a read-committed
// consumer waits until every earlier transaction has ended too.
func (t *KafkaTransport) ReadCommitted(ctx context.Context, partition TopicPartition) (records []StateRecord, complete bool, err error) {
	seen, err := t.view(ctx, partition)
	if err != nil {
		return nil, false, err
	}
	return cloneRecords(slices.Concat(seen.records, seen.hidden)), seen.complete, nil
}

// view returns what a fetch shows that begins after the call.
func (t *KafkaTransport) view(ctx context.Context, at TopicPartition) (view, error) {
	ctx, leave, err := t.enter(ctx)
	if err != nil {
		return view{}, err
	}
	defer leave()
	log, request := t.logs.of(at), request{operation: "Fetch", subject: at.String()}
	asked := log.fetches.Load()
	pass, err := log.take(ctx)
	if err != nil {
		return view{}, request.failed(err)
	}
	defer pass()
	if log.newest.fetch > asked {
		return log.newest, nil
	}
	if wait := log.spacing(time.Now()); wait > 0 && !pause(ctx, wait) {
		return view{}, request.failed(ended(ctx, nil))
	}
	count, size := 0, 0
	err = t.persist(ctx, request, func(ctx context.Context) error { return t.catchUp(ctx, at, log, &count, &size) })
	if err != nil {
		return view{}, err
	}
	if hook := t.options.Hooks.Fetched; hook != nil {
		hook(at, count, size)
	}
	return log.newest, nil
}

// catchUp reads from the position of the log to the last stable offset.
func (t *KafkaTransport) catchUp(ctx context.Context, at TopicPartition, log *partitionLog, count, size *int) error {
	patience := min(t.lease.renewInterval/2, maxStableGrace)
	latest, wait := time.Now().Add(patience), time.Duration(0)
	restarted := false
	for {
		number := log.begin(time.Now())
		part, err := t.fetch(ctx, at, log.position, fetchOptions{committed: true, wait: wait, of: log})
		if errors.Is(err, errOutOfRange) {
			start, err := t.offset(ctx, at, timestampEarliest)
			if err != nil {
				return err
			}
			log.reset(start)
			if restarted {
				return &transientError{err: errOutOfRange}
			}
			restarted = true
			continue
		}
		if err != nil {
			return err
		}
		*size += part.size
		for _, record := range part.records {
			if record.Offset < part.stable {
				log.add(record)
				*count++
			}
		}
		next := min(part.next, part.stable)
		moved := next > log.position
		log.position = max(next, log.position)
		if !moved && log.position < part.stable && part.size == 0 {
			// What is left below the stable offset was compacted away.
			log.position = part.stable
		}
		if log.position < part.stable {
			if !moved {
				return &transientError{err: errors.New("the fetch made no progress")}
			}
			wait = 0
			continue
		}
		grace := log.until(part, time.Now().Add(patience))
		if grace.After(latest) {
			grace = latest
		}
		if wait = min(stableWait, time.Until(grace)); wait <= 0 {
			seen := view{records: log.records, complete: part.stable >= part.high, fetch: number}
			if !seen.complete {
				if seen.hidden, err = t.lookBehind(ctx, at, log, part.high); err != nil {
					return err
				}
			}
			log.newest = seen
			return nil
		}
	}
}

// fetchOptions say how to fetch.
type fetchOptions struct {
	committed bool          // leave out what is not committed; else control records are kept
	wait      time.Duration // for something to come
	of        *partitionLog // forgotten when the topic or its leader is another one
	end       int64         // an offset that the high watermark reaches
}

// fetched is one answer about one partition.
type fetched struct {
	records []*kgo.Record
	size    int   // of the batches, in bytes
	next    int64 // the offset to go on from
	stable  int64 // the last stable offset
	high    int64 // the high watermark
}

// fetch asks the leader of a partition once.
func (t *KafkaTransport) fetch(ctx context.Context, at TopicPartition, from int64, options fetchOptions) (fetched, error) {
	route, leader, err := t.leader(ctx, at)
	if err != nil {
		return fetched{}, err
	}
	if options.of != nil {
		if err := t.checkCount(at.Topic, len(route.partitions)); err != nil {
			return fetched{}, err
		}
		if options.of.follow(route.id, leader.epoch) {
			from = options.of.position
		}
		if options.end = options.of.end; options.end < 0 {
			if options.end, err = t.offset(ctx, at, timestampLatest); err != nil {
				return fetched{}, err
			}
			options.of.end = options.end
		}
	}
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition = int32(at.Partition)
	partition.CurrentLeaderEpoch = leader.epoch
	partition.FetchOffset = from
	partition.PartitionMaxBytes = maxFetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = at.Topic, route.id
	topic.Partitions = append(topic.Partitions, partition)
	ask := kmsg.NewPtrFetchRequest()
	ask.MaxWaitMillis = int32(options.wait / time.Millisecond)
	ask.MinBytes = 1
	ask.MaxBytes = maxFetchBytes
	if options.committed {
		ask.IsolationLevel = 1
	}
	ask.SessionEpoch = -1
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(ctx, t.clients.plain.Broker(int(leader.leader)))
	if err != nil {
		return fetched{}, t.lost(ctx, t.clients.plain, at.Topic, err)
	}
	if err := t.readable(at, answer.ErrorCode); err != nil {
		return fetched{}, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return fetched{}, &transientError{err: errors.New("the broker left the partition out")} // it throttles
	}
	found := &answer.Topics[0].Partitions[0]
	if err := t.readable(at, found.ErrorCode); err != nil {
		return fetched{}, err
	}
	isolation := kgo.ReadUncommitted()
	if options.committed {
		isolation = kgo.ReadCommitted()
	}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: !options.committed,
		Offset:             from,
		IsolationLevel:     isolation,
		Topic:              at.Topic,
		Partition:          int32(at.Partition),
	}, found, &fetchMemory{Decompressor: t.clients.decompressor, left: maxFetchMemory}, nil)
	if part.Err != nil && !(errors.Is(part.Err, kgo.ErrMaxDecompress) && next > from) {
		return fetched{}, &TopicError{Topic: at.Topic, Partition: at.Partition, Err: part.Err}
	}
	result := fetched{
		records: part.Records,
		size:    len(found.RecordBatches),
		next:    next,
		stable:  found.LastStableOffset,
		high:    found.HighWatermark,
	}
	if result.stable < 0 {
		result.stable = result.high
	}
	if result.high < options.end {
		return fetched{}, &transientError{err: errBehind}
	}
	return result, nil
}

// fetchMemory is a decompressor that gives up once the batches of a fetch took
// enough memory. The next fetch goes on with the batch that was left.
type fetchMemory struct {
	kgo.Decompressor
	left int
}

func (m *fetchMemory) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if m.left <= 0 {
		return nil, kgo.ErrMaxDecompress
	}
	batch, err := m.Decompressor.Decompress(src, codec)
	m.left -= len(batch)
	return batch, err
}

// readable classifies the error code of a read.
func (t *KafkaTransport) readable(at TopicPartition, code int16) error {
	switch answer := kerr.ErrorForCode(code); answer {
	case nil:
		return nil
	case kerr.OffsetOutOfRange:
		return errOutOfRange
	case kerr.InconsistentTopicID:
		t.forgetTopic(at.Topic)
		return missingTopic(at.Topic, at.Partition, code)
	}
	err := topicAnswer(at.Topic, at.Partition, "READ", code)
	if isTransient(err) {
		t.forgetTopic(at.Topic)
	}
	return err
}

// offset returns the first offset of a partition, or the one after its last
// record. A leader that was just elected answers the question about the last
// record only when it knows how much of the log is committed, whereas its
// answers to fetches show less of the log until then.
func (t *KafkaTransport) offset(ctx context.Context, at TopicPartition, timestamp int64) (int64, error) {
	_, leader, err := t.leader(ctx, at)
	if err != nil {
		return 0, err
	}
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Partition = int32(at.Partition)
	partition.CurrentLeaderEpoch = leader.epoch
	partition.Timestamp = timestamp
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = at.Topic
	topic.Partitions = append(topic.Partitions, partition)
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(ctx, t.clients.plain.Broker(int(leader.leader)))
	if err != nil {
		return 0, t.lost(ctx, t.clients.plain, at.Topic, err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, &transientError{err: errors.New("the broker left the partition out")}
	}
	found := answer.Topics[0].Partitions[0]
	if err := t.readable(at, found.ErrorCode); err != nil {
		return 0, err
	}
	return found.Offset, nil
}
