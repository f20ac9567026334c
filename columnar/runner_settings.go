// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"time"
)

const (
	// defaultSnapshotInterval is how often a changed partition's state is saved
	// outside barriers.
	defaultSnapshotInterval = 30 * time.Second
	// defaultHeldBytes is how much may wait in memory for a barrier.
	defaultHeldBytes = 64 << 20
	// defaultAnnouncementHold is how long records that may lie behind an announced cut
	// wait for the cut at most: ten notices of a publisher with default options.
	defaultAnnouncementHold = time.Second
	// defaultAlignmentDeadline is how long a runner waits for every partition to
	// reach a cut.
	defaultAlignmentDeadline = 5 * time.Minute
	// defaultPollTimeout is how long a poll of [GroupRunner.Run] waits for
	// records.
	defaultPollTimeout = 250 * time.Millisecond
	// defaultMinBackoff is the first pause of [GroupRunner.Run] after a round
	// that failed and may be tried again.
	defaultMinBackoff = 100 * time.Millisecond
	// defaultMaxBackoff is the longest such pause.
	defaultMaxBackoff = 10 * time.Second
	// defaultCloseTimeout is how long [GroupRunner.Close] lets a round finish.
	defaultCloseTimeout = 30 * time.Second
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

// OutOfRangePolicy says what a runner does with a partition whose log has lost
// the records that are next, because they were deleted before they were
// processed.
type OutOfRangePolicy int

const (
	// OutOfRangeFail returns the [*OffsetOutOfRangeError]. The runner stays where
	// it is, and so does the group.
	OutOfRangeFail OutOfRangePolicy = iota
	// OutOfRangeEarliest goes on at the first record that is left.
	OutOfRangeEarliest
	// OutOfRangeLatest goes on behind the last record.
	OutOfRangeLatest
)

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
	snapshotTimeout  time.Duration
	// beside runs work beside the rounds, and returns what waits for its end.
	beside           func(work func()) func(context.Context) bool
	missingState     MissingStatePolicy
	outOfRange       OutOfRangePolicy
	strictSnapshots  bool
	allowUnmapped    bool
	allowUncovered   bool
	allowGrowth      bool
	heldBytes        int64
	alignment        time.Duration
	announcementHold time.Duration
	newestCut        bool
	idleTimeout      time.Duration

	pollTimeout  time.Duration
	minBackoff   time.Duration
	maxBackoff   time.Duration
	closeTimeout time.Duration
}

// beside runs work in a goroutine. The returned function waits for its end, and
// returns false where the context ends first.
func beside(work func()) func(context.Context) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	return func(ctx context.Context) bool {
		select {
		case <-done:
			return true
		default:
		}
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func defaultRunnerSettings() runnerSettings {
	return runnerSettings{
		policy:           FailPolicy(),
		store:            NoStateStore(),
		metrics:          NewMetrics(),
		logger:           slog.Default(),
		parallelism:      runtime.GOMAXPROCS(0),
		maxInFlight:      defaultMaxInFlight,
		snapshotInterval: defaultSnapshotInterval,
		snapshotTimeout:  5 * time.Minute,
		beside:           beside,
		heldBytes:        defaultHeldBytes,
		alignment:        defaultAlignmentDeadline,
		announcementHold: defaultAnnouncementHold,
		pollTimeout:      defaultPollTimeout,
		minBackoff:       defaultMinBackoff,
		maxBackoff:       defaultMaxBackoff,
		closeTimeout:     defaultCloseTimeout,
	}
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
		{s.snapshotTimeout < 0, fmt.Sprintf("snapshot timeout %v is negative", s.snapshotTimeout)},
		{s.missingState < MissingStateFail || s.missingState > MissingStateEmpty, fmt.Sprintf("unknown missing state policy %d", s.missingState)},
		{s.outOfRange < OutOfRangeFail || s.outOfRange > OutOfRangeLatest, fmt.Sprintf("unknown out of range policy %d", s.outOfRange)},
		{s.heldBytes < 1, fmt.Sprintf("%d held bytes", s.heldBytes)},
		{s.announcementHold < 0, fmt.Sprintf("announcement hold %v is negative", s.announcementHold)},
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

// environment is what the parts of a runner share: settings, topology, the seams
// to Kafka and to the store, and the counters.
type environment struct {
	settings runnerSettings
	topology *BuiltTopology
	shape    topologyShape
	consumer Consumer
	producer Producer

	// Optional seams; nil where the consumer, producer or store lacks them.
	subscriber ContextSubscriber
	positions  PositionReader
	committed  CommittedReader
	ranges     OffsetRangeReader
	counter    PartitionCounter
	pauser     Pauser
	noter      OffsetNoter
	snapshots  SnapshotStore
	journal    JournalStore

	stats statsRecorder
}

// findSeams looks up what consumer, producer and store can do beyond their
// interfaces.
func (e *environment) findSeams() {
	e.subscriber, _ = e.consumer.(ContextSubscriber)
	e.positions, _ = e.consumer.(PositionReader)
	e.committed, _ = e.consumer.(CommittedReader)
	e.ranges, _ = e.consumer.(OffsetRangeReader)
	e.counter, _ = e.consumer.(PartitionCounter)
	e.pauser, _ = e.consumer.(Pauser)
	e.noter, _ = e.producer.(OffsetNoter)
	e.snapshots, _ = e.settings.store.(SnapshotStore)
	e.journal, _ = e.settings.store.(JournalStore)
}

// reportError reports an error that ends no round.
func (e *environment) reportError(err error) {
	e.settings.logger.Error("group runner", "error", err)
	if e.settings.hooks.Error != nil {
		e.settings.hooks.Error(err)
	}
}

// keepsState reports whether state and positions are stored together.
func (e *environment) keepsState() bool { return e.snapshots != nil && e.shape.stateful }

// topologyShape is what a runner has to know about its topology.
type topologyShape struct {
	topics   []string // all source topics, ascending
	stateful bool
	// together are the topics whose records change state, ascending: one member
	// has to own the same partition number of all of them.
	together []string
	// interleaved says that state depends on the order in which the records of
	// several topics are processed.
	interleaved bool
	layout      map[string]string
}

func shapeOf(topology *BuiltTopology, topics []string) topologyShape {
	shape := topologyShape{
		topics:   slices.Compact(slices.Sorted(slices.Values(topics))),
		stateful: topology.stateful(),
		layout:   topology.layout(),
	}
	for topic, nodes := range topology.logicalTopics() {
		if len(nodes) > 0 {
			shape.together = append(shape.together, topic)
		}
	}
	slices.Sort(shape.together)
	for _, node := range topology.stateNodes() {
		shape.interleaved = shape.interleaved || len(node.topics) > 1
	}
	return shape
}
