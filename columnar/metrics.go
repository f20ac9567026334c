// SPDX-License-Identifier: Apache-2.0

package columnar

import "sync/atomic"

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
