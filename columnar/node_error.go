// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"slices"
	"strings"
)

// noPartition stands for the partition of an error that concerns none.
const noPartition = -1

// NodeError says which node of a topology failed, and on what.
type NodeError struct {
	Node      string
	Topic     string // the topic whose records were processed; empty where several were, or none
	Partition int    // the logical partition, or -1
	Cause     error
}

func (e *NodeError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "columnar: node `%s`", e.Node)
	if e.Topic != "" {
		fmt.Fprintf(&text, ", topic %q", e.Topic)
	}
	if e.Partition != noPartition {
		fmt.Fprintf(&text, ", partition %d", e.Partition)
	}
	text.WriteString(": ")
	text.WriteString(textPrefix.Quote(e.Cause))
	return text.String()
}

// Unwrap returns what went wrong in the node.
func (e *NodeError) Unwrap() error { return e.Cause }

// SnapshotMismatchError says that a snapshot does not fit the topology that is
// to be restored from it. The lists hold node names in ascending order.
type SnapshotMismatchError struct {
	Partition int
	// Unmapped are nodes that have state in the snapshot and none in the
	// topology.
	Unmapped []string
	// Uncovered are stateful nodes that the snapshot does not name.
	Uncovered []string
	// Incompatible are nodes whose state in the snapshot has another form: other
	// keys, aggregations or windows.
	Incompatible []string
}

func (e *SnapshotMismatchError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "columnar: snapshot of partition %d does not fit the topology", e.Partition)
	for _, part := range []struct {
		problem string
		nodes   []string
	}{
		{"state of unknown nodes", e.Unmapped},
		{"no state for nodes", e.Uncovered},
		{"state of another form for nodes", e.Incompatible},
	} {
		if len(part.nodes) > 0 {
			fmt.Fprintf(&text, "; %s %q", part.problem, part.nodes)
		}
	}
	return text.String()
}

func (e *SnapshotMismatchError) empty() bool {
	return len(e.Unmapped) == 0 && len(e.Uncovered) == 0 && len(e.Incompatible) == 0
}

func (e *SnapshotMismatchError) sort() {
	slices.Sort(e.Unmapped)
	slices.Sort(e.Uncovered)
	slices.Sort(e.Incompatible)
}
