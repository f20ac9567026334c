// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

const (
	defaultTransactionTimeout = 60 * time.Second
	defaultRebalanceTimeout   = 45 * time.Second
)

// TransactionalMember is a member of a consumer group that produces in
// transactions: consumer and producer of a runner that processes each record
// exactly once. One client does both, so that consumed offsets and produced
// records become visible together or not at all.
//
// It reads as a [Member] does. Its transactional id must be its own: a second
// member with the same id takes over, and the first gets a
// [columnar.FencedError] from then on. A fenced member is of no further use;
// close it.
//
// Poll, Seek, CommitOffsets, GroupMetadata and the calls of a transaction
// belong to one goroutine at a time; Send and the other methods of a
// TransactionalMember may be called concurrently. The zero value is not usable.
type TransactionalMember struct {
	*groupConsumer
	session *kgo.GroupTransactSession
	txn     transaction
}

var (
	_ columnar.Consumer                     = (*TransactionalMember)(nil)
	_ columnar.ContextSubscriber            = (*TransactionalMember)(nil)
	_ columnar.GroupMember                  = (*TransactionalMember)(nil)
	_ columnar.PositionReader               = (*TransactionalMember)(nil)
	_ columnar.CommittedReader              = (*TransactionalMember)(nil)
	_ columnar.OffsetRangeReader            = (*TransactionalMember)(nil)
	_ columnar.LogEndReader                 = (*TransactionalMember)(nil)
	_ columnar.PartitionCounter             = (*TransactionalMember)(nil)
	_ columnar.Pauser                       = (*TransactionalMember)(nil)
	_ columnar.RebalanceNotifier            = (*TransactionalMember)(nil)
	_ columnar.PollBounder                  = (*TransactionalMember)(nil)
	_ columnar.PollWaker                    = (*TransactionalMember)(nil)
	_ columnar.StableEndReader              = (*TransactionalMember)(nil)
	_ columnar.Producer                     = (*TransactionalMember)(nil)
	_ columnar.TransactionalProducer        = (*TransactionalMember)(nil)
	_ columnar.ContextTransactionalProducer = (*TransactionalMember)(nil)
	_ columnar.OffsetNoter                  = (*TransactionalMember)(nil)
)

// NewTransactionalMember returns a member of group that produces under
// transactionalID, with its own client. It does not talk to a broker before
// Subscribe, which initialises the transactional id and so fences an earlier
// member that used it. The caller closes it.
//
// The options are those of [NewMember]. The transaction timeout is 60 seconds
// and the rebalance timeout 45 unless [kgo.TransactionTimeout] and
// [kgo.RebalanceTimeout] say otherwise; the first should stay the longer one,
// because brokers fence a member whose transaction is open for longer. The client
// may ask for metadata every 50 milliseconds unless [kgo.MetadataMinAge] says
// otherwise: records that meet the markers of the transaction before are sent
// again no sooner than new metadata comes.
func NewTransactionalMember(group, transactionalID string, opts ...kgo.Opt) (*TransactionalMember, error) {
	if transactionalID == "" {
		return nil, &OptionError{Option: "TransactionalID", Have: `""`, Want: "an id"}
	}
	t := &TransactionalMember{}
	opts = slices.Concat([]kgo.Opt{
		kgo.TransactionTimeout(defaultTransactionTimeout),
		kgo.RebalanceTimeout(defaultRebalanceTimeout),
		kgo.MetadataMinAge(markerMetadataAge),
	}, opts)
	g, err := joinGroup(group, opts,
		[]owned{{name: "TransactionalID", opt: kgo.TransactionalID(transactionalID), want: transactionalID}},
		func(opts ...kgo.Opt) (*kgo.Client, error) {
			session, err := kgo.NewGroupTransactSession(opts...)
			if err != nil {
				return nil, err
			}
			t.session = session
			return session.Client(), nil
		})
	if err != nil {
		return nil, err
	}
	t.groupConsumer = g
	g.failed = t.txn.doom
	g.prepare = t.initialise
	g.settle = t.settleSession
	return t, nil
}

// Poll is [Member.Poll]. It must not be called between the first Send or
// SendOffsets of a transaction and its end: a rebalance during such a call
// aborts the transaction.
func (t *TransactionalMember) Poll(ctx context.Context, timeout time.Duration) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	if err := t.txn.terminal(); err != nil {
		return nil, err
	}
	return t.groupConsumer.Poll(ctx, timeout)
}

// BeginTransaction starts a transaction. Nothing is sent to a broker before the
// first Send or SendOffsets, so a transaction without either costs nothing.
// Errors: [columnar.FencedError], or a transaction is open already.
func (t *TransactionalMember) BeginTransaction() error {
	return t.txn.begin()
}

// Send sends one record to topic in the open transaction and calls done exactly
// once with the outcome, as [Producer.Send] does. A record that fails makes
// CommitTransaction abort.
func (t *TransactionalMember) Send(topic string, record columnar.ProduceRecord, done func(error)) {
	if !t.txn.ready.Load() {
		ctx, cancel := t.bounded()
		err := t.open(ctx)
		cancel()
		if err != nil {
			done(err)
			return
		}
		t.txn.noteSent()
	}
	t.send(topic, record, done)
}

// SendOffsets is SendOffsetsContext, bounded by [WithCallTimeout].
func (t *TransactionalMember) SendOffsets(offsets map[columnar.TopicPartition]int64, groupMetadata any) error {
	ctx, cancel := t.bounded()
	defer cancel()
	return t.SendOffsetsContext(ctx, offsets, groupMetadata)
}

// SendOffsetsContext adds consumed next-record offsets to the open transaction.
// groupMetadata is what GroupMetadata of this member returned after the Poll
// that brought the records. The offsets travel with the commit.
//
// A [columnar.RebalancedError] says that the member is another one than at that
// Poll, or that a partition is not assigned: abort the transaction.
func (t *TransactionalMember) SendOffsetsContext(ctx context.Context, offsets map[columnar.TopicPartition]int64, groupMetadata any) error {
	return t.SendOffsetsNoted(ctx, offsets, nil, groupMetadata)
}

// SendOffsetsNoted is SendOffsetsContext with a note beside the offsets of some
// partitions. Brokers keep it as metadata of the offset, 4,096 bytes with what the
// member itself keeps there unless they are told otherwise.
func (t *TransactionalMember) SendOffsetsNoted(ctx context.Context, offsets map[columnar.TopicPartition]int64, notes map[columnar.TopicPartition]string, groupMetadata any) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	return t.stash(offsets, notes, groupMetadata)
}

// CommittedNotes returns the notes beside the group's committed offsets. It waits,
// within ctx, for offsets of a transaction that is being completed. Partitions
// without a note are omitted.
func (t *TransactionalMember) CommittedNotes(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]string, error) {
	stable, err := t.stableOffsets(ctx, partitions)
	if err != nil {
		return nil, err
	}
	notes := map[columnar.TopicPartition]string{}
	for tp, found := range stable {
		if _, note, ok := strings.Cut(found.metadata, " "); ok {
			notes[tp] = note
		}
	}
	return notes, nil
}

// CommitTransaction is CommitTransactionContext, bounded by [WithCallTimeout].
func (t *TransactionalMember) CommitTransaction() error {
	ctx, cancel := t.bounded()
	defer cancel()
	return t.CommitTransactionContext(ctx)
}

// CommitTransactionContext waits for the records of the open transaction and
// commits it. A nil result means committed.
//
// A [columnar.TransactionAbortedError] says that nothing of it took effect and
// that positions are back at the committed offsets: a record failed, or the
// group rebalanced. A [columnar.FencedError] is terminal. When the answer of
// the commit is lost, the transactional id is initialised anew, which ends
// whatever is open, and the committed offsets tell what happened; only if that
// fails too, or ctx ends, the result is a [columnar.CommitUnknownError]; the
// member goes on only after an AbortTransaction that succeeds, and whatever the
// committed offsets are then is final.
func (t *TransactionalMember) CommitTransactionContext(ctx context.Context) error {
	if t.calling.Load() {
		return fmt.Errorf("kafka: commit transaction: not possible in a rebalance callback")
	}
	return t.commit(ctx)
}

// AbortTransaction is AbortTransactionContext, bounded by [WithCallTimeout].
func (t *TransactionalMember) AbortTransaction() error {
	ctx, cancel := t.bounded()
	defer cancel()
	return t.AbortTransactionContext(ctx)
}

// AbortTransactionContext aborts the open transaction and takes positions back
// to the committed offsets. Without an open transaction it does nothing, except
// after a [columnar.CommitUnknownError]: it ends whatever may still be open.
func (t *TransactionalMember) AbortTransactionContext(ctx context.Context) error {
	if t.calling.Load() {
		return fmt.Errorf("kafka: abort transaction: not possible in a rebalance callback")
	}
	return t.abort(ctx)
}

// Close aborts an open transaction, leaves the group and ends the client, as
// [Member.Close] does.
func (t *TransactionalMember) Close() error {
	t.txn.closeOnce.Do(func() {
		ctx, cancel := t.bounded()
		defer cancel()
		t.txn.closeErr = t.closeTransaction(ctx)
		if err := t.groupConsumer.Close(); t.txn.closeErr == nil {
			t.txn.closeErr = err
		}
	})
	return t.txn.closeErr
}
