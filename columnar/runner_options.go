// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"time"
)

const (
	// DefaultSnapshotInterval is how often a changed partition's state is saved
	// outside barriers.
	DefaultSnapshotInterval = 30 * time.Second
	// DefaultHeldBytes is how much may wait in memory for a barrier.
	DefaultHeldBytes = 64 << 20
	// DefaultAlignmentDeadline is how long a runner waits for every partition to
	// reach a cut.
	DefaultAlignmentDeadline = 5 * time.Minute
	// DefaultPollTimeout is how long a poll of [GroupRunner.Run] waits for
	// records.
	DefaultPollTimeout = 250 * time.Millisecond
	// DefaultMinBackoff is the first pause of [GroupRunner.Run] after a round
	// that failed and may be tried again.
	DefaultMinBackoff = 100 * time.Millisecond
	// DefaultMaxBackoff is the longest such pause.
	DefaultMaxBackoff = 10 * time.Second
	// DefaultCloseTimeout is how long [GroupRunner.Close] lets a round finish.
	DefaultCloseTimeout = 30 * time.Second
)

// MissingStatePolicy says what a runner does with a partition whose group has
// committed offsets and whose state is not in the store.
type MissingStatePolicy int

const (
	// MissingStateFail returns a [*MissingStateError].
	MissingStateFail MissingStatePolicy = iota
	// MissingStateRebuild processes the partition's log from its start up to the
	// committed offsets, with outputs suppressed. A log that does not start at
	// offset 0 has lost records: that is a [*MissingStateError].
	MissingStateRebuild
	// MissingStateRebuildAvailable is MissingStateRebuild from the first offset
	// that the log still holds.
	MissingStateRebuildAvailable
	// MissingStateEmpty goes on from the committed offsets with empty state.
	MissingStateEmpty
)

// GroupRunnerOption configures a [GroupRunner].
type GroupRunnerOption func(*GroupRunner)

// runnerSettings is what the options of a runner set.
type runnerSettings struct {
	policy   ErrorPolicy
	isolate  bool
	store    StateStore
	metrics  *Metrics
	hooks    Hooks
	logger   *slog.Logger
	barrier  string
	cuts     *CutReader
	listener BarrierListener
	problems []error // of the options themselves

	barrierSet bool

	parallelism      int
	maxInFlight      int
	pollRecords      int
	snapshotInterval time.Duration
	missingState     MissingStatePolicy
	outOfRange       OutOfRangePolicy
	strictSnapshots  bool
	allowUnmapped    bool
	allowUncovered   bool
	allowGrowth      bool
	heldBytes        int64
	alignment        time.Duration
	newestCut        bool
	idleTimeout      time.Duration

	pollTimeout  time.Duration
	minBackoff   time.Duration
	maxBackoff   time.Duration
	closeTimeout time.Duration
}

func defaultRunnerSettings() runnerSettings {
	return runnerSettings{
		policy:           FailPolicy(),
		store:            NoStateStore(),
		metrics:          NewMetrics(),
		logger:           slog.New(slog.DiscardHandler),
		parallelism:      runtime.GOMAXPROCS(0),
		maxInFlight:      DefaultMaxInFlight,
		snapshotInterval: DefaultSnapshotInterval,
		heldBytes:        DefaultHeldBytes,
		alignment:        DefaultAlignmentDeadline,
		pollTimeout:      DefaultPollTimeout,
		minBackoff:       DefaultMinBackoff,
		maxBackoff:       DefaultMaxBackoff,
		closeTimeout:     DefaultCloseTimeout,
	}
}

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
// [DefaultAlignmentDeadline]; 0 waits without end, and a negative deadline is an
// error.
func WithAlignmentDeadline(deadline time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.alignment = deadline }
}

// WithHeldBytes sets how many bytes of records may wait in memory for a barrier
// or a recovery. The consumer is paused at a cut where it can be; what is held
// beyond the limit is dropped and fetched again. The default is
// [DefaultHeldBytes]; a limit below 1 is an error.
func WithHeldBytes(limit int64) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.heldBytes = limit }
}

// WithHooks sets functions that are called when something happens, in place of
// those of an earlier WithHooks; [Hooks.Join] makes one of several.
func WithHooks(hooks Hooks) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.hooks = hooks }
}

// WithLogger sets the logger. The default discards.
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
// acknowledgements. The default is [DefaultMaxInFlight]; less than 1 is an error.
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
// again. One partition is saved in a round, the one that has waited longest. The
// default is [DefaultSnapshotInterval]; 0 saves a partition after every round, and
// a negative interval is an error.
func WithSnapshotInterval(interval time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.snapshotInterval = interval }
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
// The default is [DefaultPollTimeout]; 0 does not wait, and a negative timeout is
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
// failure in a row. The defaults are [DefaultMinBackoff] and
// [DefaultMaxBackoff]; the first must be positive and not above the second.
func WithBackoff(minimum, maximum time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.minBackoff, r.settings.maxBackoff = minimum, maximum }
}

// WithCloseTimeout sets how long [GroupRunner.Close], and [GroupRunner.Run] when
// its context ends, let a round finish before they cut it short. The default is
// [DefaultCloseTimeout]; 0 cuts it short at once, and a negative timeout is an
// error.
func WithCloseTimeout(timeout time.Duration) GroupRunnerOption {
	return func(r *GroupRunner) { r.settings.closeTimeout = timeout }
}

func (s *runnerSettings) problem(text string) {
	s.problems = append(s.problems, errors.New(text))
}

// validate returns everything that is wrong with the settings.
func (s *runnerSettings) validate() error {
	errs := []error{s.policy.validate()}
	if s.barrierSet && (s.barrier == "" || s.cuts == nil) {
		errs = append(errs, errors.New("a barrier group needs both a name and a cut reader"))
	}
	if s.listener != nil && !s.barrierSet {
		errs = append(errs, errors.New("a barrier listener requires a barrier group"))
	}
	errs = append(errs, s.problems...)
	for _, check := range []struct {
		wrong bool
		text  string
	}{
		{s.parallelism < 1, fmt.Sprintf("parallelism of %d partitions", s.parallelism)},
		{s.maxInFlight < 1, fmt.Sprintf("%d records in flight", s.maxInFlight)},
		{s.snapshotInterval < 0, fmt.Sprintf("snapshot interval %v is negative", s.snapshotInterval)},
		{s.missingState < MissingStateFail || s.missingState > MissingStateEmpty, fmt.Sprintf("unknown missing state policy %d", s.missingState)},
		{s.outOfRange < OutOfRangeFail || s.outOfRange > OutOfRangeLatest, fmt.Sprintf("unknown out of range policy %d", s.outOfRange)},
		{s.heldBytes < 1, fmt.Sprintf("%d held bytes", s.heldBytes)},
		{s.alignment < 0, fmt.Sprintf("alignment deadline %v is negative", s.alignment)},
		{s.pollTimeout < 0, fmt.Sprintf("poll timeout %v is negative", s.pollTimeout)},
		{s.minBackoff <= 0 || s.maxBackoff < s.minBackoff, fmt.Sprintf("back-off from %v to %v", s.minBackoff, s.maxBackoff)},
		{s.idleTimeout < 0, fmt.Sprintf("idle timeout %v is negative", s.idleTimeout)},
		{s.closeTimeout < 0, fmt.Sprintf("close timeout %v is negative", s.closeTimeout)},
	} {
		if check.wrong {
			errs = append(errs, errors.New(check.text))
		}
	}
	return errors.Join(errs...)
}

// isAbsent reports whether an interface holds no value or a nil pointer.
func isAbsent(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
