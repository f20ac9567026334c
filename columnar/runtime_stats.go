// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"sync"
	"sync/atomic"
	"time"
)

// RuntimeStats are the counters of one [GroupRunner], beside those of
// [Metrics]. Counts grow for the life of the runner.
type RuntimeStats struct {
	Rounds       int64 // that committed something
	EmptyRounds  int64 // with nothing to process and nothing to commit
	RoundsFailed int64
	LongestRound time.Duration

	FailedBatches  int64 // of a logical partition, that failed their round
	RecordsSkipped int64 // records that the error policy dropped or sent to the dead-letter topic

	TransactionsAborted int64
	CommitsUnknown      int64 // commits whose outcome had to be found out

	Gaps        int64 // partitions that went on behind deleted records
	OffsetsLost int64 // in those gaps

	RoundsCutShort       int64         // because a rebalance waited for their end
	LongestRebalanceWait time.Duration // that a rebalance waited for a round to end

	PartitionsAssigned int64
	PartitionsRevoked  int64
	PartitionsLost     int64

	Recoveries       int64 // partitions that got their state from a snapshot
	RecordsReplayed  int64
	Restores         int64 // explicit ones, to an epoch
	DamagedSnapshots int64 // snapshots that were passed over

	Snapshots        int64
	SnapshotFailures int64
	SnapshotBytes    int64
	SnapshotTime     time.Duration

	Barriers             int64 // that fired, and whose state is stored
	LastEpoch            int64 // of the latest barrier that fired; NoEpoch for none
	CutsSkipped          int64
	CutsAbandoned        int64         // at the alignment deadline
	CutsAnnounced        int64         // that records beyond them waited for
	AnnouncementsExpired int64         // whose cuts did not come in time
	LongestHold          time.Duration // of records that waited for an announced cut
	BadBarrierRecords    int64
	// BarrierOffsetsHidden is how many offsets of the barrier state topic lie
	// behind a transaction that stays open, now: cuts among them are not seen.
	BarrierOffsetsHidden int64
	ListenerPanics       int64

	HeldRecords  int           // that wait for a barrier or a replay, now
	HeldBytes    int64         // of their keys, values and headers
	PendingEpoch int64         // of the cut that is being aligned on; NoEpoch for none
	PendingAge   time.Duration // since the cut was taken up
}

// statsRecorder guards the counters of a runner.
type statsRecorder struct {
	mu           sync.Mutex // guards what follows
	stats        RuntimeStats
	pendingSince time.Time
}

func (s *statsRecorder) add(change func(*RuntimeStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

func (s *statsRecorder) snapshot() RuntimeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	if stats.PendingEpoch != NoEpoch {
		stats.PendingAge = time.Since(s.pendingSince)
	}
	return stats
}

// Metrics counts what runners processed. Counts are added when a round has
// committed, so records of a round that failed and ran again count once.
// Several runners may share one. A Metrics is safe for concurrent use by
// multiple goroutines.
type Metrics struct {
	batches, inputRecords, outputRecords, failures, deadLetterRecords, processingNanos atomic.Int64
}

// NewMetrics returns counters at zero.
func NewMetrics() *Metrics { return new(Metrics) }

// MetricsSnapshot is the value of a [Metrics] at one moment.
type MetricsSnapshot struct {
	Batches           int64 // batches of one logical partition
	InputRecords      int64
	OutputRecords     int64 // without dead letters
	Failures          int64 // batches with records that were skipped or sent to the dead-letter topic
	DeadLetterRecords int64
	ProcessingNanos   int64
}

// Snapshot returns the counts. Each is exact; together they are those of one
// moment only while no round is committing.
func (m *Metrics) Snapshot() MetricsSnapshot {
	return MetricsSnapshot{
		Batches:           m.batches.Load(),
		InputRecords:      m.inputRecords.Load(),
		OutputRecords:     m.outputRecords.Load(),
		Failures:          m.failures.Load(),
		DeadLetterRecords: m.deadLetterRecords.Load(),
		ProcessingNanos:   m.processingNanos.Load(),
	}
}

func (m *Metrics) add(delta MetricsSnapshot) {
	m.batches.Add(delta.Batches)
	m.inputRecords.Add(delta.InputRecords)
	m.outputRecords.Add(delta.OutputRecords)
	m.failures.Add(delta.Failures)
	m.deadLetterRecords.Add(delta.DeadLetterRecords)
	m.processingNanos.Add(delta.ProcessingNanos)
}
