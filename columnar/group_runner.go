// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// countTimeout bounds how long the construction of a runner waits for the
// partition counts of its topics.
const countTimeout = 30 * time.Second

// GroupRunner runs a topology as a member of a consumer group: it polls,
// processes, sends, and commits, one round after the other, and keeps the state
// of the partitions that the group gives it.
//
// A round that fails has not happened: state, positions and held records are
// what they were, the consumer is back at the first uncommitted record, and the
// next round gets the same records. With a [SnapshotStore] and a
// [CommittedReader] the state is exact after a crash at any moment: the newest
// snapshot that is not ahead of the committed offsets is restored, what lies
// between is processed again with outputs suppressed, and the partition goes on
// at the committed offset.
//
// A GroupRunner is safe for concurrent use by multiple goroutines. One round,
// restore or close runs at a time; the others wait for it. Rebalance callbacks
// from inside the consumer's Poll take effect before its records are processed,
// those from elsewhere between rounds.
type GroupRunner struct {
	settings runnerSettings
	topology *BuiltTopology
	consumer Consumer
	producer Producer
	shape    topologyShape

	// Optional seams; nil where the consumer or store lacks them.
	positions PositionReader
	committed CommittedReader
	ranges    OffsetRangeReader
	counter   PartitionCounter
	pauser    Pauser
	snapshots SnapshotStore
	journal   JournalStore
	noter     OffsetNoter

	stats  statsRecorder
	signal *rebalanceSignal

	turn      chan struct{} // holds a token while a round, restore or close runs
	closeOnce sync.Once

	mu          sync.Mutex // guards what follows, except while a round is busy
	phase       runnerPhase
	pollContext context.Context // of the poll in progress
	interrupt   context.CancelFunc
	closing     bool
	closed      bool
	events      []rebalance // that arrived while a round was busy
	deferred    []error     // of callbacks, for the next round

	partitions map[int]*logicalPartition
	assigned   bool // some partition has ever been assigned
	restored   map[int]restoredPartition
	rewinds    []*topicProgress // whose restored offsets are still to be committed
	counts     map[string]int   // partitions of the topics with state, where known
	recount    bool             // they may have changed
	alignment  alignment
	open       bool // a transaction has begun and holds nothing
	unsettled  *unsettled
	terminal   error     // why no further round runs
	polled     time.Time // when the latest poll returned
}

// runnerPhase tells who may touch the state of a runner.
type runnerPhase int

const (
	// idle: whoever holds mu.
	phaseIdle runnerPhase = iota
	// polling: the consumer's Poll is running, and callbacks that hold mu.
	phasePolling
	// busy: the holder of turn. Callbacks queue up.
	phaseBusy
)

var _ RebalanceListener = (*GroupRunner)(nil)

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

// NewGroupRunner builds topology, subscribes consumer to its source topics with
// the runner as listener, and returns the runner. It returns everything that is
// wrong with the arguments and options, joined. Where the consumer can tell
// partition counts, topics that share state need equal ones: otherwise the error
// is a [*PartitionCountError].
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
	r.findSeams()
	if err := r.start(topology); err != nil {
		return nil, errors.Join(err, built.Close())
	}
	return r, nil
}

// newRunner returns a runner with default settings that has joined no group.
func newRunner(built *BuiltTopology, topics []string, consumer Consumer, producer Producer) *GroupRunner {
	r := &GroupRunner{
		settings:   defaultRunnerSettings(),
		topology:   built,
		consumer:   consumer,
		producer:   producer,
		shape:      shapeOf(built, topics),
		turn:       make(chan struct{}, 1),
		partitions: map[int]*logicalPartition{},
		restored:   map[int]restoredPartition{},
		signal:     newRebalanceSignal(),
	}
	r.stats.stats.PendingEpoch = NoEpoch
	return r
}

// findSeams looks up what the consumer and the store can do beyond their
// interfaces.
func (r *GroupRunner) findSeams() {
	r.positions, _ = r.consumer.(PositionReader)
	r.committed, _ = r.consumer.(CommittedReader)
	r.ranges, _ = r.consumer.(OffsetRangeReader)
	r.counter, _ = r.consumer.(PartitionCounter)
	r.pauser, _ = r.consumer.(Pauser)
	r.snapshots, _ = r.settings.store.(SnapshotStore)
	r.journal, _ = r.settings.store.(JournalStore)
	r.noter, _ = r.producer.(OffsetNoter)
	if notifier, ok := r.consumer.(RebalanceNotifier); ok {
		r.topology.signal = r.signal
		notifier.NotifyRebalance(r.signal.raise)
	}
	if bounder, ok := r.consumer.(PollBounder); ok && r.settings.pollRecords > 0 {
		bounder.BoundPolls(r.settings.pollRecords)
	}
}

// start checks the partition counts and joins the group.
func (r *GroupRunner) start(topology *Topology) error {
	if r.counter != nil && r.shape.stateful {
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		defer cancel()
		counts, err := r.counter.PartitionCounts(ctx, r.shape.together)
		if err != nil {
			return textPrefix.Wrap(err, "partition counts")
		}
		if !equalCounts(counts) {
			return &PartitionCountError{Counts: counts}
		}
		r.counts = maps.Clone(counts)
	}
	return r.consumer.Subscribe(topology.SourceTopics(), r)
}

func equalCounts(counts map[string]int) bool {
	values := slices.Collect(maps.Values(counts))
	return len(values) == 0 || slices.Min(values) == slices.Max(values)
}

// RunOnce runs one round with at-least-once commits, and returns the offsets
// that it committed. The map is empty when there was nothing to commit.
//
// The round polls once and waits there at most pollTimeout. When ctx ends, the
// round ends with its error and has not happened. After any error the same
// records come again, except: a [*FencedError] and a [*RollbackError] are
// terminal, every later round returns them; [ErrRunnerClosed] follows
// [GroupRunner.Close]. Errors of rebalance callbacks are returned by the round
// that follows them.
func (r *GroupRunner) RunOnce(ctx context.Context, pollTimeout time.Duration) (map[TopicPartition]int64, error) {
	return r.runRound(ctx, ctx, pollTimeout, nil)
}

// RunOnceTransactional is [GroupRunner.RunOnce] with outputs and offsets in one
// transaction. The producer must be a [TransactionalProducer].
//
// A round that finds nothing to do leaves its transaction begun for the next
// one. When the outcome of a commit is not known, the committed offsets tell: the
// round succeeds if they moved, and fails if they did not. While nobody can tell,
// because the transaction cannot be ended or the offsets cannot be read, rounds
// return a [*CommitUnknownError] and process nothing; once it is known, state that
// the group has gone beyond recovers first. A runner that can never know, or
// cannot recover, is done: a consumer without [CommittedReader], a topology with
// state and a store that is no [SnapshotStore].
func (r *GroupRunner) RunOnceTransactional(ctx context.Context, pollTimeout time.Duration) (map[TopicPartition]int64, error) {
	producer, ok := r.producer.(TransactionalProducer)
	if !ok {
		return nil, errors.New("producer does not support transactions")
	}
	return r.runRound(ctx, ctx, pollTimeout, producer)
}

// Metrics returns the counters of the runner.
func (r *GroupRunner) Metrics() *Metrics { return r.settings.metrics }

// Stats returns the counters of the runner that [Metrics] does not have. It does
// not wait for a round.
func (r *GroupRunner) Stats() RuntimeStats { return r.stats.snapshot() }

// Topology returns the topology that the runner drives. Running it beside the
// runner changes state that no offset stands for.
func (r *GroupRunner) Topology() *BuiltTopology { return r.topology }

// Lag asks the broker how many offsets lie between the group's commits, or where
// nothing is committed the positions, and the end of each owned partition that
// the consumer may read. The consumer must be an [OffsetRangeReader]. Lag waits
// for a round in progress, within ctx. A partition whose position is not known
// yet is left out.
func (r *GroupRunner) Lag(ctx context.Context) (map[TopicPartition]int64, error) {
	if r.ranges == nil {
		return nil, errors.New("columnar: the consumer cannot tell end offsets")
	}
	if err := r.acquire(ctx); err != nil {
		return nil, err
	}
	at := map[TopicPartition]int64{}
	for _, p := range r.partitions {
		for _, progress := range p.topics {
			switch {
			case progress.hasCommitted:
				at[progress.TopicPartition] = progress.committed
			case progress.known:
				at[progress.TopicPartition] = progress.processed
			}
		}
	}
	r.release()
	ends, err := r.ranges.EndOffsets(ctx, slices.SortedFunc(maps.Keys(at), compareTopicPartitions))
	if err != nil {
		return nil, textPrefix.Wrap(err, "end offsets")
	}
	lag := map[TopicPartition]int64{}
	for tp, end := range ends {
		if position, ok := at[tp]; ok {
			lag[tp] = max(0, end-position)
		}
	}
	return lag, nil
}

// acquire waits for the runner's turn and makes the caller the one who may touch
// its state.
func (r *GroupRunner) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.closing {
		<-r.turn
		return ErrRunnerClosed
	}
	r.phase = phaseBusy
	return nil
}

// release applies what callbacks left behind, and ends the turn.
func (r *GroupRunner) release() {
	r.mu.Lock()
	r.applyEvents(context.Background())
	r.phase = phaseIdle
	r.mu.Unlock()
	<-r.turn
}

// ordered returns the logical partitions by ascending number.
func (r *GroupRunner) ordered() []*logicalPartition {
	ordered := make([]*logicalPartition, 0, len(r.partitions))
	for _, number := range slices.Sorted(maps.Keys(r.partitions)) {
		ordered = append(ordered, r.partitions[number])
	}
	return ordered
}

// partition returns what is known of a partition number, which may be nothing
// yet.
func (r *GroupRunner) partition(number int) *logicalPartition {
	p := r.partitions[number]
	if p == nil {
		p = &logicalPartition{number: number, topics: map[string]*topicProgress{}, lastClosed: NoEpoch}
		r.partitions[number] = p
	}
	return p
}

// Subscribe joins the group with consumer for the source topics of topology,
// without a listener.
func Subscribe(topology *Topology, consumer Consumer) error {
	return consumer.Subscribe(topology.SourceTopics(), nil)
}
