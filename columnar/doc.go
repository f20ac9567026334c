// SPDX-License-Identifier: Apache-2.0

// Package columnar processes Kafka records as Arrow record batches: codecs,
// operators, topologies with partition-local state, and a group runner with
// exact barrier cuts.
//
// # Model
//
// A fetch of one topic partition becomes one Arrow record batch. A [BatchCodec]
// decodes it: the payload in typed columns, and behind them what Kafka says
// about each record, the metadata columns [KeyColumn], [TimestampColumn],
// [PartitionColumn], [OffsetColumn] and [HeadersColumn]. A record without a
// value, a tombstone, is a row of nulls that [TombstoneColumn] marks, and has no
// value again when it is produced.
//
// A [Topology] is a graph of sources, operators, processors of the user, merges,
// joins and sinks. [Topology.Build] makes a [BuiltTopology] of it, which turns
// records into records and needs no Kafka: that is how topologies are tested.
// Operators read whole columns. What a row contributes is said by an
// [Expression], evaluated for a batch at a time, or by a Go function of a row
// where expressions do not reach.
//
// State belongs to a logical partition: a partition number, shared by all source
// topics. Records that meet, in a group or a join, therefore need the same
// partition number in all topics: equal keys, partition counts and partitioners.
// Nothing is repartitioned.
//
// A [GroupRunner] drives a topology as a member of a consumer group, in rounds.
// A round is one poll: the records of each logical partition are processed, the
// partitions in parallel; the outputs are sent; state is saved where that is
// due; the offsets are committed, with a [TransactionalProducer] in one
// transaction with the outputs. A round that fails has not happened: state and
// positions are what they were, and the next round gets the same records.
//
// A snapshot is the state of a logical partition at known offsets, in a
// [StateStore]. When a partition is assigned, the newest snapshot at or below
// the committed offsets is restored, the records in between are processed again
// without producing anything, and the partition goes on at the committed
// offsets. So the state is exact after a crash at any moment, for topologies
// whose processors depend on their input alone, and as long as the log holds the
// records since the snapshot.
//
// A cut is one offset in each partition of a group of topics, published under an
// epoch on [BarrierStateTopic]; a [CutReader] reads them. With
// [WithBarrierGroup] the runner stops each partition exactly there, saves all
// state under that epoch, commits, and goes on. [GroupRunner.RestoreToEpoch]
// takes state and offsets back to it.
//
// # Time
//
// Event time is the timestamp of the record, or a column that
// [Grouping.TimeColumn] names. Stream time is the latest event time that an
// operator has seen in a logical partition. It is judged row by row, so results
// do not depend on how records were cut into batches. A window closes when
// stream time passes its end and the grace period; rows that come later are late:
// counted, and passed on to where [Topology.AddLateRows] leads. Silent input
// moves no time; [GroupRunner.AdvanceTime] and [WithIdleTimeout] do.
//
// # Ownership
//
// Arrow memory is counted by references. What a public function returns belongs
// to the caller, who releases it; arguments stay the caller's. Inside a
// topology the input of a [Processor] belongs to the topology and is valid until
// Process returns; retain it to keep it. A batch that is passed to
// [Context.Forward] is handed over. No Arrow memory outlives a run, and what a
// run returns shares none: the checked allocator of package memory shows zero
// after it.
//
// Decoded batches may use the memory of the records' keys and values, which
// therefore must not change.
//
// # Concurrency
//
//	BatchCodec, Expression, IPCSerde, JSONRowBridge    safe for concurrent use
//	BuiltTopology                                      safe; logical partitions run in parallel
//	GroupRunner                                        safe; one round, restore or close at a time
//	CutReader, FileStateStore, Metrics                 safe for concurrent use
//	Topology, BuiltinOp, Context, RowMetadata          not safe
//	a Processor                                        called by one goroutine at a time, others of its kind beside it
//	functions given to Filter and WithColumns          called for several logical partitions at a time
//	a Consumer                                         called by one goroutine at a time
//	a StateStore                                       called by several goroutines, for different partitions
//	Hooks, a BarrierListener                           called on the goroutine of the round, which waits
//
// The package starts goroutines only within a call, and waits for them before
// the call returns.
//
// # Errors
//
// Errors name what they are about, and wrap their cause. [IsRetriable] tells
// whether another try may succeed: [GroupRunner.Run] pauses and tries again
// then, and also after a CommitUnknownError; any other error ends it. Errors of
// data are subject to the [ErrorPolicy] first.
//
// Data:
//
//	DecodeError, RecordError   records cannot be decoded          fix the producer, or set an ErrorPolicy
//	JSONError, RowError        where in a document or batch, and why; causes of a DecodeError
//	ColumnError                a column is missing, or its values do not fit; the cause may be ErrNoColumn
//	SchemaMismatchError        batches to be joined differ        make the branches alike; matches ErrSchemaMismatch
//	TopologyError              the topology needs other columns   mend it; no ErrorPolicy takes the records
//	NodeError                  which node, topic and partition    look at its cause
//	StateLimitError            MaxGroups or MaxRows is reached    raise the limit, or keep less
//
// Kafka:
//
//	RebalancedError            the group has moved on             retriable
//	TransactionAbortedError    nothing of the round took effect   retriable
//	CommitUnknownError         how a commit ended is not known    state is recovered from the committed offsets
//	FencedError                a newer owner exists               terminal; give each process ids of its own
//	OffsetOutOfRangeError      records were deleted unread        choose where to go on: WithOutOfRange
//	TopicError                 a topic cannot be used             create it, or grant access
//	PartitionCountError        counts differ or have changed      make them equal; WithPartitionGrowth
//	PartialOwnershipError      the balancer splits a partition    use a co-partitioning one, as columnar/kafka does
//
// State:
//
//	MissingStateError          offsets are committed, no state    WithMissingState
//	MissingCutError            no such complete cut               choose one of those it lists
//	MissingSnapshotError       no snapshot of a cut               choose one of those it lists
//	SnapshotMismatchError      a snapshot of another topology     WithUnmappedState, WithUncoveredState, or rebuild
//	StateLayoutError           the same, from Restore             keep the configuration, or start the node empty
//	DamagedSnapshotError       stored bytes have changed          passed over; an error with WithStrictSnapshots
//	StaleOwnerError            another process owns the state     terminal for this owner
//	MemberInUseError           a living runner has the same ids   end it, or give each process ids of its own
//	StateGroupError            the store is another group's       a store for each group; WithStateGroup
//	ReplayError                history cannot be repeated         an older snapshot, or MissingStateRebuild with a new store
//	RollbackError              a round could not be taken back    terminal; start again
//	ErrRunnerClosed            a call after Close                 none
//	BarrierFormatError         a bad record in the barrier topic  reported once, passed over
//
// # Examples
//
// The package example runs a topology without Kafka. [GroupRunner] has a whole
// service, [Topology.AddProcessor] a processor with state, and each codec and
// operator an example of its own. The pages in docs describe the model, the
// operators and the runner at length.
package columnar
