// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/journal"
)

// phase is where a logical partition is on its way from its assignment to its
// leaving.
type phase int

const (
	// arriving: the committed offsets have not been read, and no snapshot is chosen.
	arriving phase = iota
	// recovering: the topics are placed at a chosen snapshot, whose state is to be
	// loaded.
	recovering
	// replaying: committed history is processed again, with outputs suppressed.
	replaying
	// live: records are processed for the first time.
	live
	// leaving: the member has given the partition up. Nothing follows.
	leaving
)

func (p phase) String() string {
	return [...]string{"arriving", "recovering", "replaying", "live", "leaving"}[p]
}

// followers are the phases that may follow each phase.
var followers = map[phase][]phase{
	// live: a partition without stored state, or one that was restored to a cut.
	arriving: {arriving, recovering, live, leaving},
	// recovering: the snapshot was damaged, and an older one is chosen; arriving:
	// the loading failed, and begins again with the committed offsets.
	recovering: {recovering, replaying, live, arriving, leaving},
	// arriving: a topic has joined, or the committed offsets have moved.
	replaying: {live, arriving, leaving},
	live:      {live, arriving, leaving},
	leaving:   nil,
}

// recovery is what a partition needs to get its state, while it is arriving or
// recovering.
type recovery struct {
	started time.Time
	again   bool // the partition has run before, and the consumer stands anywhere

	committed map[TopicPartition]int64 // nil where the consumer cannot tell
	noted     int64                    // journaled rounds that are committed; -1 where nothing tells
	stored    []SnapshotInfo           // everything in the store, the newest first
	usable    []SnapshotInfo           // what is left to try of it
	chosen    *SnapshotInfo            // nil to start with empty state
	cause     error                    // why a snapshot could not be used
}

// replay is history of a partition that is processed again.
type replay struct {
	started  time.Time
	snapshot *SnapshotInfo
	// until is where the topics go live; topics that are there already are left
	// out.
	until map[TopicPartition]int64
	// rounds are the journaled rounds that are left, in order.
	rounds  []*journal.Round
	records int64 // processed so far
	// transactional says that the last journaled round was: then no record is
	// left behind it.
	transactional bool
}

// endOfReplay returns up to which offset records of a topic are history.
func (r *replay) endOfReplay(tp TopicPartition) int64 {
	if end, ok := r.until[tp]; ok {
		return end
	}
	return math.MinInt64
}

// saving is the copied state of a partition on its way into the store.
type saving struct {
	partition *logicalPartition
	info      SnapshotInfo
	state     map[string][]byte
	barrier   *firedBarrier // nil outside barriers

	cancel   context.CancelFunc         // of one that is written beside the rounds
	finished func(context.Context) bool // waits for its end; false where the context ends first

	// What follows is set when the writing has ended.
	saved       SnapshotInfo
	took        time.Duration
	err         error
	unconfirmed error // why the stored snapshot is not marked confirmed
}

// firedBarrier is a barrier that has been committed, and whose snapshots are being
// stored.
type firedBarrier struct {
	barrier Barrier
	waiting int   // snapshots that are not stored yet
	failure error // of a snapshot that will not be
}

// logicalPartition is what the runner knows of one partition number.
type logicalPartition struct {
	number int
	topics map[string]*topicProgress
	// departed are the positions of topics that have left the member, one after the
	// other, while their records are part of the state.
	departed map[TopicPartition]int64

	// owned says that the group has given the partition to this member. Before
	// the first assignment of all, partitions are used without being owned.
	owned bool

	phase    phase
	recovery *recovery // while the phase is arriving or recovering
	replay   *replay   // while the phase is replaying

	// doubt says why nobody knows whether the group has committed the state; nil
	// when somebody does.
	doubt error

	generation int64        // of the claim in the store; 0 for none
	snapshot   SnapshotInfo // the newest that state goes back to; sequence 0 for none
	dirty      bool         // the state has changed since that snapshot
	lastClosed int64        // epoch of the last barrier, or of the last cut passed over

	round        int64 // number of the next journal round
	journalStale bool  // the journal may hold a round of that number

	saving       *saving   // what is being written; nil for nothing
	saveNext     *saving   // what waits for that
	saveFailures int       // in a row
	lastSnapshot time.Time // when the last save ended

	idle idleClock
}

// newLogicalPartition returns a partition of which nothing is known. One that
// nobody has assigned is live.
func newLogicalPartition(number int) *logicalPartition {
	return &logicalPartition{number: number, topics: map[string]*topicProgress{}, lastClosed: NoEpoch, phase: live}
}

// checkPhase fails for a phase that may not follow the present one.
func (p *logicalPartition) checkPhase(next phase) error {
	if !slices.Contains(followers[p.phase], next) {
		return fmt.Errorf("columnar: partition %d cannot go from %v to %v", p.number, p.phase, next)
	}
	return nil
}

// ready reports whether the partition has its state.
func (p *logicalPartition) ready() bool { return p.phase == replaying || p.phase == live }

// live reports whether what the partition processes is new.
func (p *logicalPartition) live() bool { return p.phase == live }

func (p *logicalPartition) topic(topic string) *topicProgress {
	progress := p.topics[topic]
	if progress == nil {
		progress = &topicProgress{TopicPartition: TopicPartition{topic, p.number}}
		p.topics[topic] = progress
	}
	return progress
}

// inOrder returns the topics' progress by ascending topic.
func (p *logicalPartition) inOrder() []*topicProgress {
	ordered := make([]*topicProgress, 0, len(p.topics))
	for _, topic := range slices.Sorted(maps.Keys(p.topics)) {
		ordered = append(ordered, p.topics[topic])
	}
	return ordered
}

func (p *logicalPartition) partitions() []TopicPartition {
	partitions := make([]TopicPartition, 0, len(p.topics))
	for _, progress := range p.inOrder() {
		partitions = append(partitions, progress.TopicPartition)
	}
	return partitions
}

// positions returns the offsets that the committed state stands for.
func (p *logicalPartition) positions() map[TopicPartition]int64 {
	positions := make(map[TopicPartition]int64, len(p.topics)+len(p.departed))
	maps.Copy(positions, p.departed)
	for _, progress := range p.topics {
		if progress.known {
			positions[progress.TopicPartition] = progress.stored()
		}
	}
	return positions
}

// waits reports whether records of the partition were delivered and not processed.
func (p *logicalPartition) waits() bool {
	for _, progress := range p.topics {
		if len(progress.queue) > 0 {
			return true
		}
	}
	return false
}

// standing returns empty ranges at which the topics of a partition stand.
func (p *logicalPartition) standing() []journal.Range {
	var ranges []journal.Range
	for _, progress := range p.inOrder() {
		if progress.known {
			ranges = append(ranges, journal.Range{Topic: progress.Topic, Start: progress.processed, End: progress.processed})
		}
	}
	return ranges
}
