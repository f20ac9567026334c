// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"sync"
	"time"
)

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
	*environment
	*ownership
	*committer
	signal *rebalanceSignal

	turn      chan struct{} // holds a token while a round, restore or close runs
	closeOnce sync.Once

	mu          sync.Mutex // guards what follows and the partitions, except while a round is busy
	phase       runnerPhase
	pollContext context.Context // of the poll in progress
	interrupt   context.CancelFunc
	joining     bool // a round waits to become a member
	closing     bool
	closed      bool
	events      []rebalance // that arrived while a round was busy
	deferred    []error     // of callbacks, for the next round

	entry     entry
	pulse     pulse
	alignment alignment
	fired     []*firedBarrier // that are committed and not stored yet, by epoch
	terminal  error           // why no further round runs
	polled    time.Time       // when the latest poll returned
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

// newRunner returns a runner with default settings that has joined no group.
func newRunner(built *BuiltTopology, topics []string, consumer Consumer, producer Producer) *GroupRunner {
	env := &environment{
		settings: defaultRunnerSettings(), topology: built, consumer: consumer, producer: producer, shape: shapeOf(built, topics),
	}
	owned := newOwnership(env)
	r := &GroupRunner{
		environment: env, ownership: owned, committer: &committer{ownership: owned},
		entry: entry{ownership: owned}, turn: make(chan struct{}, 1), signal: newRebalanceSignal(),
	}
	r.stats.stats.PendingEpoch, r.stats.stats.LastEpoch = NoEpoch, NoEpoch
	return r
}

// Metrics returns the counters of the runner.
func (r *GroupRunner) Metrics() *Metrics { return r.settings.metrics }

// Stats returns the counters of the runner that [Metrics] does not have. It does
// not wait for a round.
func (r *GroupRunner) Stats() RuntimeStats { return r.stats.snapshot() }

// Topology returns the topology that the runner drives. Running it beside the
// runner changes state that no offset stands for.
func (r *GroupRunner) Topology() *BuiltTopology { return r.topology }

// settle makes a fencing and other lasting errors terminal: the state of all
// partitions is dropped without being saved.
func (r *GroupRunner) settle(err error) error {
	var lasting *terminalError
	if errors.As(err, &lasting) {
		err = lasting.error
	}
	if r.terminal != nil || lasting == nil && !errors.As(err, new(*FencedError)) {
		return err
	}
	r.terminal = err
	if failed := r.dropAll(); failed != nil {
		r.reportError(failed)
	}
	r.alignment = alignment{unwatch: r.alignment.unwatch}
	r.notePending()
	return err
}
