// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"slices"
)

// environment is what the parts of a runner share: settings, topology, the seams
// to Kafka and to the store, and the counters.
type environment struct {
	settings runnerSettings
	topology *BuiltTopology
	shape    topologyShape
	consumer Consumer
	producer Producer

	// Optional seams; nil where the consumer, producer or store lacks them.
	positions PositionReader
	committed CommittedReader
	ranges    OffsetRangeReader
	counter   PartitionCounter
	pauser    Pauser
	noter     OffsetNoter
	snapshots SnapshotStore
	journal   JournalStore

	stats statsRecorder
}

// findSeams looks up what consumer, producer and store can do beyond their
// interfaces.
func (e *environment) findSeams() {
	e.positions, _ = e.consumer.(PositionReader)
	e.committed, _ = e.consumer.(CommittedReader)
	e.ranges, _ = e.consumer.(OffsetRangeReader)
	e.counter, _ = e.consumer.(PartitionCounter)
	e.pauser, _ = e.consumer.(Pauser)
	e.noter, _ = e.producer.(OffsetNoter)
	e.snapshots, _ = e.settings.store.(SnapshotStore)
	e.journal, _ = e.settings.store.(JournalStore)
}

// reportError reports an error that ends no round.
func (e *environment) reportError(err error) {
	e.settings.logger.Error("group runner", "error", err)
	if e.settings.hooks.Error != nil {
		e.settings.hooks.Error(err)
	}
}

// keepsState reports whether state and positions are stored together.
func (e *environment) keepsState() bool { return e.snapshots != nil && e.shape.stateful }

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
