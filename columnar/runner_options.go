// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// GroupRunnerOption configures a [GroupRunner].
type GroupRunnerOption func(*GroupRunner)

// WithErrorPolicy sets what happens to records that fail. The default is
// [FailPolicy].
func WithErrorPolicy(policy ErrorPolicy) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.policy = policy }
}

// WithPoisonIsolation makes the runner search for the records that make a batch
// fail where the error does not name them, by running parts of the batch, so
// that [SkipPolicy] and [DeadLetterPolicy] take those records alone. Processors
// without undo are restored from a snapshot for each part.
func WithPoisonIsolation() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.isolate = true }
}

// WithStateStore sets where state is kept. The default is [NoStateStore].
func WithStateStore(store StateStore) GroupRunnerOption {
	return func(r *GroupRunner) {
		if isAbsent(store) {
			r.settings.problem("the state store is nil")
			return
		}
		r.settings.store = store
	}
}

// WithMetrics sets the counters, which other runners may share. The default is
// counters of the runner's own.
func WithMetrics(metrics *Metrics) GroupRunnerOption {
	return func(r *GroupRunner) {
		if metrics == nil {
			r.settings.problem("the metrics are nil")
			return
		}
		r.settings.metrics = metrics
	}
}

// WithBarrierGroup makes the runner align on the cuts of a barrier group, which
// reader reads. The reader needs a consumer of its own.
func WithBarrierGroup(group string, reader *CutReader) GroupRunnerOption {
	return func(r *GroupRunner) {
		r.settings.barrier, r.settings.cuts, r.settings.barrierSet = group, reader, true
	}
}

// WithBarrierListener sets a function that is told about each barrier. It needs
// [WithBarrierGroup].
func WithBarrierListener(listener BarrierListener) GroupRunnerOption {
	return func(r *GroupRunner) {
		if listener == nil {
			r.settings.problem("the barrier listener is nil")
			return
		}
		r.settings.listener = listener
	}
}

// WithNewestCut makes a runner that is behind skip to the newest cut that it can
// still align on. The default is the oldest one, so that every epoch is taken.
func WithNewestCut() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.newestCut = true }
}

// WithAlignmentDeadline sets how long the runner waits for every partition to
// reach a cut before it abandons the cut. The default is
// five minutes. After that the runner takes up no cut for as long, so
// that no partition falls behind for another that is slow, and then the newest one
// that it can reach; the pause doubles while cuts are abandoned in a row, up to eight
// deadlines. 0 waits without end, and a negative deadline is an
// error.
func WithAlignmentDeadline(deadline time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.alignment = deadline }
}

// WithAnnouncementHold sets how long records that may lie behind an announced cut
// wait for the cut, where it does not come. A cut that comes ends the wait at once,
// and so does the start of a newer one. The default is one second; 0
// does not wait, and a negative time is an error. It should be several times the
// notice of the publisher.
func WithAnnouncementHold(limit time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.announcementHold = limit }
}

// WithHeldBytes sets how many bytes of records may wait in memory for a barrier
// or a recovery. The consumer is paused at a cut where it can be; what is held
// beyond the limit is dropped and fetched again. The default is
// 64 MiB; a limit below 1 is an error.
func WithHeldBytes(limit int64) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.heldBytes = limit }
}

// WithHooks sets functions that are called when something happens, in place of
// those of an earlier WithHooks; [Hooks.Join] makes one of several.
func WithHooks(hooks Hooks) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.hooks = hooks }
}

// WithLogger sets the logger. The default is [slog.Default].
func WithLogger(logger *slog.Logger) GroupRunnerOption {
	return func(r *GroupRunner) {
		if logger == nil {
			r.settings.problem("the logger is nil")
			return
		}
		r.settings.logger = logger
	}
}

// WithParallelism sets how many logical partitions of a round run at once, and
// how many load their state at once. The default is [runtime.GOMAXPROCS]; less
// than 1 is an error.
func WithParallelism(partitions int) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.parallelism = partitions }
}

// WithMaxInFlight sets how many records may be sent ahead of their
// acknowledgements. The default is 16 384; less than 1 is an error.
func WithMaxInFlight(records int) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.maxInFlight = records }
}

// WithMaxPollRecords limits a round to about this many records, where the
// consumer is a [PollBounder]. The default is the consumer's; less than 1 is an
// error.
func WithMaxPollRecords(records int) GroupRunnerOption {
	return func(r *GroupRunner) {
		if records < 1 {
			r.settings.problem(fmt.Sprintf("%d records a poll", records))
			return
		}
		r.settings.pollRecords = records
	}
}

// WithSnapshotInterval sets how often changed state is saved outside barriers,
// where the store is a [SnapshotStore]. It bounds what a recovery has to process
// again. One partition is copied in a round, the one that has waited longest, and
// written beside the next rounds. The interval counts from the end of a partition's
// last save, and doubles with each save in a row that fails, up to 64 times. The
// default is 30 seconds; 0 saves a partition after every round, and
// a negative interval is an error.
func WithSnapshotInterval(interval time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.snapshotInterval = interval }
}

// WithSnapshotTimeout sets how long one save of a partition's state may take where
// the store is a [SnapshotStore]. Such a store is written beside the rounds, so a slow
// one makes epochs and snapshots late, and no round: of the states at cuts that wait
// for a save to end, the newest is kept, and the others are reported as skipped cuts.
// A topology whose history needs a journal waits for the save before it adds to the
// journal. The default is five minutes; 0 waits without end, and a negative timeout is
// an error.
func WithSnapshotTimeout(timeout time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.snapshotTimeout = timeout }
}

// WithMissingState sets what happens to a partition whose state is not in the
// store. The default is [MissingStateFail].
func WithMissingState(policy MissingStatePolicy) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.missingState = policy }
}

// WithStrictSnapshots makes a damaged snapshot an error. The default passes it
// over for the next older one and reports it through [Hooks].
func WithStrictSnapshots() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.strictSnapshots = true }
}

// WithUnmappedState lets snapshots be restored that hold state of nodes which
// the topology does not have. That state is dropped.
func WithUnmappedState() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.allowUnmapped = true }
}

// WithUncoveredState lets snapshots be restored that hold no state for some
// nodes of the topology. Those nodes start empty.
func WithUncoveredState() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.allowUncovered = true }
}

// WithPartitionGrowth declares it safe that the partition counts of the source
// topics change. The default is a [*PartitionCountError] for topologies with
// state, since keys move to other partitions.
func WithPartitionGrowth() GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.allowGrowth = true }
}

// WithPollTimeout sets how long a poll of [GroupRunner.Run] waits for records.
// The default is 250 milliseconds; 0 does not wait, and a negative timeout is
// an error.
func WithPollTimeout(timeout time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.pollTimeout = timeout }
}

// WithIdleTimeout makes event time go on where records have stopped, so that the
// last windows of a silent stream are emitted, each once. A partition is idle
// when the consumer has read all of its topics to the end and no record has come
// for timeout, each partition for itself. One that is paused or recovering, or
// has records that wait for a cut, is not idle.
//
// The stream time of an idle partition is the latest event time that its windows
// and joins have seen, plus the time that has passed since the latest record
// came, or since the partition was assigned. The runner moves it there as
// [GroupRunner.AdvanceTime] does once that closes a window of [EmitFinal]; records
// of a closed window are late from then on, as always. A partition with a
// [TimeAdvancer] calls it, once in timeout; without windows and joins, the
// latest timestamp of a record that the runner has read counts.
//
// That is a round of its own, ahead of the poll of the next one, and as exact as
// AdvanceTime is: what one process has sent, no other sends again, whatever the
// clock says there.
//
// The default is 0: records alone move stream time. A negative timeout is an
// error. Which records an idle partition finds late depends on when they arrive
// and not on their timestamps alone, so the timeout should exceed the usual
// pauses of the input.
func WithIdleTimeout(timeout time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.idleTimeout = timeout }
}

// WithBackoff sets the first and the longest pause of [GroupRunner.Run] after
// rounds that failed and may be tried again. The pause doubles with each
// failure in a row. The defaults are 100 milliseconds and
// 10 seconds; the first must be positive and not above the second.
func WithBackoff(minimum, maximum time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.minBackoff, r.settings.maxBackoff = minimum, maximum }
}

// WithCloseTimeout sets how long [GroupRunner.Close], and [GroupRunner.Run] when
// its context ends, let a round finish before they cut it short. The default is
// 30 seconds; 0 cuts it short at once, and a negative timeout is an
// error.
func WithCloseTimeout(timeout time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.closeTimeout = timeout }
}

// WithOutOfRange sets what happens to a partition whose next records were
// deleted. The default is [OutOfRangeFail]. The other policies keep the state,
// which then lacks those records, commit the offset behind them, and report the
// gap through [Hooks] and [RuntimeStats].
//
// An offset behind the end of the log is an error under each policy: the log has
// lost records that were processed, or the topic is another one of the same
// name, so that no state fits it.
func WithOutOfRange(policy OutOfRangePolicy) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.outOfRange = policy }
}

// NewGroupRunner builds topology, subscribes consumer to its source topics with
// the runner as listener, and returns the runner. It returns everything that is
// wrong with the arguments and options, joined.
//
// It talks to nobody. The first round does, under its context: where the consumer is
// a [ContextSubscriber] the runner joins there, after it has claimed the names of the
// member in a [MemberStore]. Where the consumer can tell partition counts, topics that
// share state need equal ones: otherwise the first round returns a
// [*PartitionCountError].
//
// Consumer and producer stay the caller's to close, after the runner.
func NewGroupRunner(topology *Topology, consumer Consumer, producer Producer, options ...GroupRunnerOption) (*GroupRunner, error) {
	var errs []error
	need := func(what string, absent bool) {
		if absent {
			errs = append(errs, fmt.Errorf("a group runner needs a %s", what))
		}
	}
	need("topology", topology == nil)
	need("consumer", isAbsent(consumer))
	need("producer", isAbsent(producer))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	built, err := topology.Build()
	if err != nil {
		return nil, err
	}
	r := newRunner(built, topology.SourceTopics(), consumer, producer)
	for i, option := range options {
		if option == nil {
			r.settings.problem(fmt.Sprintf("group runner option %d is nil", i))
			continue
		}
		option(r)
	}
	if err := r.settings.validate(); err != nil {
		return nil, errors.Join(err, built.Close())
	}
	r.connect()
	r.entry.topics = topology.SourceTopics()
	if r.subscriber == nil {
		if err := consumer.Subscribe(r.entry.topics, r); err != nil {
			return nil, errors.Join(err, built.Close())
		}
	}
	if _, none := r.settings.store.(noStateStore); none && r.shape.stateful {
		r.settings.logger.Warn("the topology keeps state and the runner has no state store: state is lost when the process ends; set one with WithStateStore")
	}
	return r, nil
}

// connect finds the optional seams, and tells the consumer what the runner wants of
// it.
func (r *GroupRunner) connect() {
	r.findSeams()
	if notifier, ok := r.consumer.(RebalanceNotifier); ok {
		r.topology.signal = r.signal
		notifier.NotifyRebalance(r.signal.raise)
	}
	if bounder, ok := r.consumer.(PollBounder); ok && r.settings.pollRecords > 0 {
		bounder.BoundPolls(r.settings.pollRecords)
	}
}

// Subscribe joins the group with consumer for the source topics of topology,
// without a listener.
func Subscribe(topology *Topology, consumer Consumer) error {
	return consumer.Subscribe(topology.SourceTopics(), nil)
}
