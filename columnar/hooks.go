// SPDX-License-Identifier: Apache-2.0

package columnar

import "time"

// Hooks are functions that a [GroupRunner] calls when something happens. Any of
// them may be nil. They run on the goroutine of the round, or of the rebalance
// callback, which waits for them; they must not call the runner, except for
// [GroupRunner.Stats] and [GroupRunner.Metrics]. What they are given is theirs.
type Hooks struct {
	// Round is called when a round has ended that processed records, fired a
	// barrier or failed. A round that its context ends while it waits for records
	// has not failed.
	Round func(RoundInfo)
	// Rebalance is called when partitions were assigned, revoked or lost.
	Rebalance func(RebalanceInfo)
	// Recovery is called when the state of a partition stands at the committed
	// offsets again.
	Recovery func(RecoveryInfo)
	// Snapshot is called when a snapshot was saved, or could not be.
	Snapshot func(SnapshotInfo, time.Duration, error)
	// SetAside is called when a round has committed without records that the error
	// policy took.
	// It is called once for each partition of a topic.
	SetAside func(SetAsideInfo)
	// Gap is called when a partition goes on behind records that were deleted
	// before they were processed, see [WithOutOfRange].
	Gap func(GapInfo)
	// Damage is called when a damaged snapshot is passed over for an older one.
	Damage func(error)
	// CutSkipped is called when a cut is not aligned on, with the reason.
	CutSkipped func(BarrierCut, error)
	// Announcement is called when the wait for an announced cut has ended.
	Announcement func(AnnouncementInfo)
	// Error is called for an error that ends no round: a malformed barrier record,
	// an open transaction that may hide cuts, a snapshot between rounds that failed,
	// a panic of the barrier listener.
	Error func(error)
}

// RoundInfo describes one round.
type RoundInfo struct {
	Records  int // processed
	Outputs  int // sent, dead letters included
	Offsets  map[TopicPartition]int64
	Duration time.Duration // with the wait for records
	Barrier  int64         // epoch of the barrier that fired, or NoEpoch
	Err      error
}

// AnnouncementInfo describes the wait for a cut that was announced.
type AnnouncementInfo struct {
	Epoch   int64
	Held    time.Duration // how long records that may lie behind the cut could not run
	Expired bool          // the cut has not come within the time of [WithAnnouncementHold]
}

// RebalanceInfo describes one rebalance callback.
type RebalanceInfo struct {
	Assigned, Revoked, Lost []TopicPartition
}

// RecoveryInfo describes how a partition got its state.
type RecoveryInfo struct {
	Partition int
	Snapshot  *SnapshotInfo // nil when there was none
	Committed map[TopicPartition]int64
	Replayed  int64 // records processed again, their outputs suppressed
	Duration  time.Duration
}

// GapInfo describes records that were deleted before they were processed.
type GapInfo struct {
	Partition TopicPartition
	From, To  int64 // the first offset that is missing, and the offset behind the last
}

// SetAsideInfo describes the records of one partition of a topic that the error
// policy took in one round.
type SetAsideInfo struct {
	Partition   TopicPartition
	Records     int
	First, Last int64             // offsets of the first record and the last one
	Action      ErrorPolicyAction // [ActionSkip] or [ActionDeadLetter]
	Err         error             // why the first one was taken
}

// Join returns hooks that call h and then other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Round:        join1(h.Round, other.Round),
		Rebalance:    join1(h.Rebalance, other.Rebalance),
		Recovery:     join1(h.Recovery, other.Recovery),
		SetAside:     join1(h.SetAside, other.SetAside),
		Gap:          join1(h.Gap, other.Gap),
		Damage:       join1(h.Damage, other.Damage),
		Announcement: join1(h.Announcement, other.Announcement),
		Error:        join1(h.Error, other.Error),
		CutSkipped:   join2(h.CutSkipped, other.CutSkipped),
		Snapshot:     join3(h.Snapshot, other.Snapshot),
	}
}

func join1[A any](first, second func(A)) func(A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A) { first(a); second(a) }
}

func join2[A, B any](first, second func(A, B)) func(A, B) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A, b B) { first(a, b); second(a, b) }
}

func join3[A, B, C any](first, second func(A, B, C)) func(A, B, C) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A, b B, c C) { first(a, b, c); second(a, b, c) }
}

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
