// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrRunnerClosed is returned by a [GroupRunner] that was closed.
var ErrRunnerClosed = errors.New("columnar: the group runner is closed")

// terminalError marks an error after which no further round runs.
type terminalError struct{ error }

func (e *terminalError) Unwrap() error { return e.error }

// MissingStateError says that a partition cannot go on where its group has
// committed, because no stored state leads there. What is allowed instead is set
// with [WithMissingState].
type MissingStateError struct {
	Partition int // logical partition
	Committed map[TopicPartition]int64
	Available []SnapshotInfo // what the store holds, none of it usable
	Cause     error          // why not, where that is not plain; may be nil
}

func (e *MissingStateError) Error() string {
	var text strings.Builder
	text.WriteString("columnar: ")
	if len(e.Committed) == 0 {
		text.WriteString("no committed offset")
	} else {
		fmt.Fprintf(&text, "committed offset %s", formatOffsets(e.Committed))
	}
	fmt.Fprintf(&text, " but no state for partition %d", e.Partition)
	for i, info := range e.Available {
		if i == 8 {
			fmt.Fprintf(&text, ", and %d more", len(e.Available)-i)
			break
		}
		text.WriteString(map[bool]string{true: "; the store has ", false: ", "}[i == 0])
		text.WriteString(describeSnapshot(info))
	}
	if e.Cause != nil {
		fmt.Fprintf(&text, ": %s", textPrefix.Quote(e.Cause))
	}
	return text.String()
}

// Unwrap returns why the state that exists cannot be used.
func (e *MissingStateError) Unwrap() error { return e.Cause }

func describeSnapshot(info SnapshotInfo) string {
	what := "a snapshot"
	if info.Epoch != NoEpoch {
		what = fmt.Sprintf("epoch %d", info.Epoch)
	}
	switch {
	case info.Damage != nil:
		return what + " (damaged)"
	case len(info.Positions) == 0:
		return what + " without positions"
	case info.Abandoned:
		return what + " (abandoned)"
	}
	return what + " at " + formatOffsets(info.Positions)
}

// formatOffsets renders offsets as "a/0:5 b/0:7", or as the offset alone where
// there is one.
func formatOffsets(offsets map[TopicPartition]int64) string {
	var parts []string
	for _, tp := range slices.SortedFunc(maps.Keys(offsets), compareTopicPartitions) {
		parts = append(parts, fmt.Sprintf("%s/%d:%d", tp.Topic, tp.Partition, offsets[tp]))
	}
	return strings.Join(parts, " ")
}

// PartialOwnershipError says that a member owns a logical partition for some of
// the topics that its state is made of, and not for others. The group needs an
// assignment that gives the same partition numbers of all topics to one member.
type PartialOwnershipError struct {
	Partition int
	Owned     []TopicPartition
	Missing   []TopicPartition
}

func (e *PartialOwnershipError) Error() string {
	return fmt.Sprintf("columnar: partition %d is owned in part: this member has %s and not %s; the topics need equal partition counts and a co-partitioning balancer",
		e.Partition, formatPartitions(e.Owned), formatPartitions(e.Missing))
}

func formatPartitions(partitions []TopicPartition) string {
	var parts []string
	for _, tp := range partitions {
		parts = append(parts, fmt.Sprintf("%s/%d", tp.Topic, tp.Partition))
	}
	return strings.Join(parts, " ")
}

// PartitionCountError says that topics which are processed together do not have
// the same number of partitions, or that a number has changed under the state
// that was built from it.
type PartitionCountError struct {
	Counts map[string]int // by topic
	Before map[string]int // what the state was built with; nil where that is not the point
}

func (e *PartitionCountError) Error() string {
	if e.Before == nil {
		return "columnar: topics that are processed together have different partition counts: " + formatCounts(e.Counts)
	}
	return fmt.Sprintf("columnar: partition counts changed from %s to %s: keys have moved to other partitions than their state",
		formatCounts(e.Before), formatCounts(e.Counts))
}

func formatCounts(counts map[string]int) string {
	var parts []string
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", topic, counts[topic]))
	}
	return strings.Join(parts, ", ")
}

// IncompleteReadError says that a read of a topic stopped short of its end: a
// transaction is open, and what was committed behind its first record is out of
// sight until it ends. What lies below the stable offset has been read.
type IncompleteReadError struct {
	Partition    TopicPartition
	StableOffset int64 // up to which records may be read
	EndOffset    int64 // of the log, when the read began
}

func (e *IncompleteReadError) Error() string {
	return fmt.Sprintf("columnar: %s/%d can be read up to offset %d and ends at %d: an open transaction may hide committed records",
		e.Partition.Topic, e.Partition.Partition, e.StableOffset, e.EndOffset)
}

// Retriable is true: transactions end, at the latest by their timeout.
func (e *IncompleteReadError) Retriable() bool { return true }

// MissingCutError says that a barrier group has no complete cut to restore to.
type MissingCutError struct {
	Group     string
	Epoch     int64   // NoEpoch when any would have done
	Available []int64 // epochs with a complete cut, ascending
}

func (e *MissingCutError) Error() string {
	if e.Epoch == NoEpoch {
		return fmt.Sprintf("columnar: barrier group %q has no complete cut", e.Group)
	}
	return fmt.Sprintf("columnar: barrier group %q has no complete cut at epoch %d; complete are %v", e.Group, e.Epoch, e.Available)
}

// MissingSnapshotError says that an epoch cannot be restored because the store
// does not hold it for every partition. Nothing has changed.
type MissingSnapshotError struct {
	Epoch      int64   // NoEpoch when no epoch could be restored
	Partitions []int   // without a snapshot of the epoch, ascending
	Available  []int64 // epochs stored for all partitions, ascending; nil where the store cannot list
	Cause      error   // why a snapshot that exists cannot be used; may be nil
}

func (e *MissingSnapshotError) Error() string {
	var text strings.Builder
	if e.Epoch == NoEpoch {
		text.WriteString("columnar: no complete cut has a snapshot of every partition")
	} else {
		fmt.Fprintf(&text, "columnar: no snapshot of partitions %v at epoch %d", e.Partitions, e.Epoch)
	}
	if e.Available != nil {
		fmt.Fprintf(&text, "; stored for all partitions are epochs %v", e.Available)
	}
	if e.Cause != nil {
		fmt.Fprintf(&text, ": %s", textPrefix.Quote(e.Cause))
	}
	return text.String()
}

// Unwrap returns why a snapshot that exists cannot be used.
func (e *MissingSnapshotError) Unwrap() error { return e.Cause }

// RollbackError says that a failed round could not be taken back: the state of
// the runner is not known, and it runs no more rounds.
type RollbackError struct {
	Partitions []int
	Cause      error
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("columnar: cannot take the round back in partitions %v: %s", e.Partitions, textPrefix.Quote(e.Cause))
}

// Unwrap returns what went wrong.
func (e *RollbackError) Unwrap() error { return e.Cause }

// ReplayError says that the records between a snapshot and the committed offset
// cannot be processed as they were the first time.
type ReplayError struct {
	Partition int
	Cause     error
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("columnar: cannot repeat the history of partition %d: %s", e.Partition, textPrefix.Quote(e.Cause))
}

// Unwrap returns what stands in the way.
func (e *ReplayError) Unwrap() error { return e.Cause }
