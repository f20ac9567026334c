// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"
	"time"
)

// Coordinator mints and reports the leadership epoch of a role. An adapter
// implements it over the transaction coordinator of a cluster.
//
// The two calls carry different weight: AcquireEpoch takes the role, and
// DescribeEpoch only looks.
type Coordinator interface {
	// AcquireEpoch mints a new epoch for the role and fences the previous
	// holder. The implementation calls InitProducerId with
	// transactional.id = <role> and no expected pair, and it keeps the
	// producer that the epoch binds, because [LeaseWriter.WriteLease] writes
	// through that producer. It should pass the lease duration as the
	// transaction timeout, so that the coordinator aborts the open transaction
	// of a dead holder.
	//
	// Every call mints. An implementation that lost an answer and asks again
	// burns an epoch, and it returns the token of the last answer only.
	AcquireEpoch(ctx context.Context, role Role) (FencingToken, error)

	// DescribeEpoch reports the token that the transaction coordinator holds
	// for the role. It reports [NoEpoch] and false for a role that the
	// coordinator does not know, because no member has taken it or because
	// its id expired. The implementation calls DescribeTransactions, which
	// joins no group and takes no epoch.
	DescribeEpoch(ctx context.Context, role Role) (FencingToken, bool, error)
}

// StateReader reads one partition of [StateTopic].
type StateReader interface {
	// ReadPartition returns every committed record of the partition, oldest
	// first, from the first offset to the last stable offset that held at some
	// instant during the call. The read takes committed records only, so an
	// aborted lease write stays invisible. A record that compaction could have
	// removed may be left out. An empty partition is no error.
	//
	// The caller owns the returned records.
	ReadPartition(ctx context.Context, partition TopicPartition) ([]StateRecord, error)
}

// Registrar appends the registration record of one candidate.
//
// The append carries no authority. A candidate holds no epoch when it
// announces itself and must take none to do so, so the append sits outside a
// transaction. The offset that the broker assigns is the join sequence that
// the succession rules rank on.
type Registrar interface {
	// Append appends one record to the partition. The producer behind it pins
	// the partition and applies no partitioner of its own. An empty value is
	// written as null, which is the only value that compaction removes. Append
	// does not keep key and value after it returns.
	//
	// A context that ends first leaves the outcome open.
	Append(ctx context.Context, partition TopicPartition, key, value []byte) error
}

// LeaseWriter writes the lease record of a role in a transaction under the
// epoch of the role.
//
// The broker fences every writer that does not hold the newest epoch, so a
// lease record that a transaction of the role committed proves that its author
// held the epoch. That proof is as good as the access rules of the topic:
// anybody who may write the topic can append a lease outside a transaction.
type LeaseWriter interface {
	// WriteLease writes one record under the token, in a transaction of the
	// producer that minted the token, and commits it. An empty value clears
	// the lease and is written as null. The producer pins the partition and
	// applies no partitioner of its own. WriteLease does not keep key and
	// value after it returns.
	//
	// The implementation returns an error that wraps [ErrFenced] when the
	// broker rejects the token, and for a token that it minted and saw
	// superseded. Every other error says that the record may or may not be
	// committed and that the token may still be good; a later call under the
	// same token continues where the failed one stopped.
	WriteLease(ctx context.Context, partition TopicPartition, token FencingToken, key, value []byte) error
}

// Transport is every cluster operation that this package performs. One
// adapter type satisfies all four interfaces; [KafkaTransport] is the one for
// franz-go.
//
// An implementation is safe for concurrent use by multiple goroutines. It
// retries what a retry settles inside the context of the call, because a
// failed call ends an acquisition. It never calls back into a [Leadership].
//
// A transport may be a [TermTransport], a [TopicTransport] or both as well. The
// package finds that out by a type assertion.
type Transport interface {
	Coordinator
	StateReader
	Registrar
	LeaseWriter
}

// TermTransport is a [Transport] that follows the epochs it minted, the terms,
// from the mint to the end of the leadership. [Leadership.Guard] and
// [Leadership.Sequence] need one. A member also mints more carefully over it,
// and learns sooner that it was deposed.
type TermTransport interface {
	Transport

	// Lease returns the lease policy that the transport was built for, which
	// every call over it takes and none may contradict. The zero value leaves
	// the policy to the calls.
	Lease() LeaseConfig

	// AcquireEpochWhile is [Coordinator.AcquireEpoch], and asks still right
	// before every request that may mint: after each wait and each look-up, and
	// as close to the request as it can. When still returns an error, no further
	// request goes out, and that error, or one that wraps it, is the result. A
	// mint that waited for other mints or for a cluster that is not ready would
	// otherwise depose whoever took the role meanwhile.
	//
	// still reads the role over the same transport. AcquireEpochWhile calls it
	// with a context that ends with ctx, from one goroutine at a time, and never
	// after AcquireEpochWhile returned.
	AcquireEpochWhile(ctx context.Context, role Role, still func(ctx context.Context) error) (FencingToken, error)

	// WriteLeaseAt is [LeaseWriter.WriteLease] and returns the offset of the
	// committed record, or -1 when the broker did not tell.
	WriteLeaseAt(ctx context.Context, partition TopicPartition, token FencingToken, key, value []byte) (int64, error)

	// WriteRecords writes the records in one transaction of the producer that
	// minted the token, and commits it: all records become visible to
	// read-committed readers, or none does. WriteRecords does not keep the
	// records after it returns.
	//
	// A nil error says that the transaction is committed. An error that wraps
	// [ErrOutcomeUnknown] says that it may be; the next call under the token
	// settles the open transaction before it writes. Every other error says
	// that the records are not visible and never will be; it wraps [ErrFenced]
	// when the broker rejects the token. A fence that comes after an
	// unanswered commit wraps both.
	WriteRecords(ctx context.Context, role Role, token FencingToken, records []GuardedRecord) error

	// CurrentToken returns the pair that the coordinator holds for the
	// leadership that started with the minted token, as the last acknowledged
	// write over the transport left it. The pair differs from the minted one
	// where brokers advance the producer epoch with every transaction.
	// CurrentToken reports false for a token that the transport did not mint,
	// released or saw superseded.
	CurrentToken(role Role, minted FencingToken) (FencingToken, bool)

	// Superseded returns a channel that closes when the transport learns that
	// the minted token is not the newest of its role any more, for example
	// because another member minted over the same transport. The channel of a
	// token that the transport does not know is closed.
	Superseded(role Role, minted FencingToken) <-chan struct{}

	// Release says that the leadership that started with the minted token
	// writes nothing any more. Release does not block, and it is safe to call
	// while a write under the token is in flight.
	Release(role Role, minted FencingToken)
}

// TopicTransport is a [Transport] that knows more of the coordination topic than
// what a read-committed consumer sees of one partition.
type TopicTransport interface {
	Transport

	// EnsureTopic checks that the topic exists, is compacted and has this
	// partition count, and creates it where the transport was told to. A member
	// calls it before it relies on the topic.
	EnsureTopic(ctx context.Context, topic string, partitions int) error

	// ReadCommitted returns every record of the partition that was committed
	// at some instant during the call, oldest first: also one at or above the
	// last stable offset, when it stands outside a transaction or when the
	// marker that commits its transaction is in the log. It leaves out what
	// [StateReader.ReadPartition] may leave out, and reports whether the read
	// met no open transaction.
	//
	// Over a plain Transport, a program that leaves a transaction open in the
	// coordination topic hides the renewals of the roles of that partition, and
	// standbys take the roles over from healthy holders for as long.
	//
	// The caller owns the returned records.
	ReadCommitted(ctx context.Context, partition TopicPartition) (records []StateRecord, complete bool, err error)
}

// GuardedRecord is one record that a holder writes under its epoch.
type GuardedRecord struct {
	Topic string // the topic to write to

	// Partition is the partition to write to. The writer applies no
	// partitioner.
	Partition int
	Key       []byte // the record key. A nil key is written as null

	// Value is the record value. A nil value is written as null, and an empty
	// one as empty.
	Value []byte

	Headers []GuardedHeader // the record headers, in order

	// Timestamp is the create time of the record, in whole milliseconds from
	// 1970 on. The zero time stands for the time of the write.
	Timestamp time.Time
}

// GuardedHeader is one header of a [GuardedRecord].
type GuardedHeader struct {
	Key   string
	Value []byte // the header value. A nil value is written as null
}
