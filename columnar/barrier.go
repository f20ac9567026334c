// SPDX-License-Identifier: Apache-2.0

package columnar

// Barrier describes one fired barrier: a cut whose state was snapshotted and
// whose offsets were committed.
type Barrier struct {
	Cut        BarrierCut
	Partitions []int                    // logical partitions snapshotted, ascending
	Offsets    map[TopicPartition]int64 // what was committed for the aligned partitions
}

// BarrierListener is told about a barrier after its commit, once for each, on
// the goroutine of the round, which returns after the listener does. A listener
// that calls the runner's RunOnce, RestoreToEpoch or Close deadlocks. The
// listener owns the barrier. Its panic is logged and counted, and ends neither
// the round nor the process.
type BarrierListener func(Barrier)
