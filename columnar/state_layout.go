// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"slices"
)

// processorLayout is the form of the state of a processor that the user
// wrote, of which nothing is known.
const processorLayout = "processor"

// stateNode is a node that keeps state.
type stateNode struct {
	name   string
	layout string // identifies the form of the state
	join   bool
	topics []string // that reach the node, ascending
}

// stateNodes returns the nodes that keep state, in the order in which they were
// added. Processors of the user are made where that is not known yet.
func (b *BuiltTopology) stateNodes() []stateNode {
	var nodes []stateNode
	reach := b.topicsByNode()
	for i, n := range b.nodes {
		layout := ""
		switch n.kind {
		case operatorNode:
			layout = n.operator.layout
		case joinNode:
			layout = n.join.spec().Layout()
		case processorNode:
			layout = b.processorLayout(i)
		}
		if layout != "" {
			nodes = append(nodes, stateNode{name: n.name, layout: layout, join: n.kind == joinNode, topics: reach[i]})
		}
	}
	return nodes
}

// topicsByNode returns, for each node, the topics whose records reach it.
func (b *BuiltTopology) topicsByNode() [][]string {
	reach := make([][]string, len(b.nodes))
	for i, n := range b.nodes {
		topics := slices.Clone(n.topics)
		for _, parent := range n.parents {
			topics = append(topics, reach[parent]...)
		}
		slices.Sort(topics)
		reach[i] = slices.Compact(topics)
	}
	return reach
}

// processorLayout returns the layout of a processor node, and the empty string
// if the processor keeps no state.
func (b *BuiltTopology) processorLayout(i int) string {
	b.mu.Lock()
	layout, known := b.processorLayouts[i]
	b.mu.Unlock()
	if known {
		return layout
	}
	processor := b.nodes[i].newProcessor()
	layout = layoutOf(processor)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.learn(i, layout)
	if b.spares == nil {
		b.spares = make(map[int]Processor)
	}
	b.spares[i] = processor
	return layout
}

// learn records the layout of a processor node. b.mu is held.
func (b *BuiltTopology) learn(i int, layout string) {
	if b.processorLayouts == nil {
		b.processorLayouts = make(map[int]string)
	}
	b.processorLayouts[i] = layout
}

func layoutOf(processor Processor) string {
	switch processor := processor.(type) {
	case *BuiltinOp:
		return processor.layout
	case StatefulProcessor:
		return processorLayout
	default:
		return ""
	}
}

// stateful reports whether any node keeps state.
func (b *BuiltTopology) stateful() bool { return len(b.stateNodes()) > 0 }

// logicalTopics returns, for each source topic, the nodes with state that its
// records reach, in the order in which the nodes were added. Topics that reach
// a common node form one history, and need equal partition counts.
func (b *BuiltTopology) logicalTopics() map[string][]string {
	readers := make(map[string][]string)
	for _, n := range b.nodes {
		for _, topic := range n.topics {
			readers[topic] = nil
		}
	}
	for _, n := range b.stateNodes() {
		for _, topic := range n.topics {
			readers[topic] = append(readers[topic], n.name)
		}
	}
	return readers
}

// layout returns the form of the state of each node that keeps any. State is
// restored only into a node with the layout that it was saved with.
func (b *BuiltTopology) layout() map[string]string {
	layouts := make(map[string]string)
	for _, n := range b.stateNodes() {
		layouts[n.name] = n.layout
	}
	return layouts
}

// checkSnapshot reports, as a [SnapshotMismatchError], how a snapshot and the
// topology differ in their nodes. saved is the layout at the time of the
// snapshot; nodes that it does not name are not compared.
func (b *BuiltTopology) checkSnapshot(partition int, snapshot map[string][]byte, saved map[string]string) error {
	mismatch := &SnapshotMismatchError{Partition: partition}
	layouts := b.layout()
	for name, bytes := range snapshot {
		if _, ok := layouts[name]; !ok && len(bytes) > 0 {
			mismatch.Unmapped = append(mismatch.Unmapped, name)
		}
	}
	for name, layout := range layouts {
		if _, ok := snapshot[name]; !ok {
			mismatch.Uncovered = append(mismatch.Uncovered, name)
			continue
		}
		if savedLayout, ok := saved[name]; ok && savedLayout != layout {
			mismatch.Incompatible = append(mismatch.Incompatible, name)
		}
	}
	if mismatch.empty() {
		return nil
	}
	mismatch.sort()
	return mismatch
}
