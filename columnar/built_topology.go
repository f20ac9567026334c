// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BuiltTopology runs a topology over fetched records and holds its state, one
// logical partition apart from the other. A logical partition is the partition
// number that all source topics share.
//
// A run that returns an error has not happened: it produces nothing and
// changes no state. No Arrow memory outlives a run.
//
// A BuiltTopology is safe for concurrent use by multiple goroutines. Calls for
// different logical partitions run in parallel, calls for the same one after
// another.
type BuiltTopology struct {
	mem   memory.Allocator
	nodes []*node
	// lastReader is, by node, the index of the last node that reads its output,
	// or the node itself.
	lastReader []int
	// decoded says, by node, whether the output of a source is read.
	decoded []bool
	// lateReader says, by node, whether its late rows are read.
	lateReader []bool
	// kept says whether a partition has instances of nodes at all.
	kept bool
	// signal is that of the runner that drives the topology; nil for none.
	signal *rebalanceSignal

	mu         sync.Mutex // guards the fields below, and is held for O(1) only
	partitions map[int]*partitionState
	// processorLayouts are the layouts of processor nodes, where known.
	processorLayouts map[int]string
	// spares are processors that were made to learn about them and wait for
	// the first partition.
	spares map[int]Processor
}

func newBuiltTopology(mem memory.Allocator, nodes []*node) *BuiltTopology {
	b := &BuiltTopology{
		mem: mem, nodes: nodes,
		lastReader: make([]int, len(nodes)), decoded: make([]bool, len(nodes)),
		lateReader: make([]bool, len(nodes)),
		partitions: make(map[int]*partitionState),
	}
	for i, n := range nodes {
		b.lastReader[i] = i
		for _, parent := range n.parents {
			b.lastReader[parent] = i
			b.decoded[parent] = b.decoded[parent] || n.kind != passThroughNode
		}
		switch n.kind {
		case lateRowsNode:
			b.lateReader[n.parents[0]] = true
		case operatorNode, processorNode, joinNode:
			b.kept = true
		}
	}
	return b
}

// RunBatch processes records of one topic. It is [BuiltTopology.RunBatches]
// for a single topic.
func (b *BuiltTopology) RunBatch(topic string, records []ConsumedRecord) ([]ProducedToTopic, error) {
	return b.RunBatches(map[string][]ConsumedRecord{topic: records})
}

// RunBatches processes records by topic, each record in its logical partition.
// Partitions run in ascending order and their outputs follow each other. Within
// a partition, outputs are in the order in which the sinks were added, then in
// the order of batches and records. Records of topics that no source names are
// ignored.
//
// When any partition fails, nothing is produced and no partition has changed.
// Errors of a node are a [NodeError].
func (b *BuiltTopology) RunBatches(input map[string][]ConsumedRecord) ([]ProducedToTopic, error) {
	byPartition := make(map[int]map[string][]ConsumedRecord)
	for topic, records := range input {
		for start := 0; start < len(records); {
			partition := records[start].Partition
			end := start + 1
			for end < len(records) && records[end].Partition == partition {
				end++
			}
			topics := byPartition[partition]
			if topics == nil {
				topics = make(map[string][]ConsumedRecord)
				byPartition[partition] = topics
			}
			if topics[topic] == nil {
				topics[topic] = records[start:end:end]
			} else {
				topics[topic] = append(topics[topic], records[start:end]...)
			}
			start = end
		}
	}
	return b.runAtomically(byPartition)
}

// RunPartitionBatches processes records by topic that all belong to one
// logical partition, with or without records in it. The rules of
// [BuiltTopology.RunBatches] hold.
func (b *BuiltTopology) RunPartitionBatches(partition int, input map[string][]ConsumedRecord) ([]ProducedToTopic, error) {
	for topic, records := range input {
		for i, record := range records {
			if record.Partition != partition {
				return nil, fmt.Errorf("columnar: topic %q, record %d, partition %d: record does not belong to partition %d",
					topic, i, record.Partition, partition)
			}
		}
	}
	return b.runAtomically(map[int]map[string][]ConsumedRecord{partition: input})
}

// AdvanceTime moves the stream time of a logical partition to at least
// timestamp, in milliseconds, as a record with that timestamp would, but in
// all windows and joins. Windows that this closes are emitted where closed
// windows are. It is for partitions whose input has become silent. The rules
// of [BuiltTopology.RunBatches] hold for outputs and errors.
func (b *BuiltTopology) AdvanceTime(partition int, timestamp int64) ([]ProducedToTopic, error) {
	outputs, err := b.advancePartition(partition, timestamp)
	if err != nil {
		return nil, errors.Join(err, b.rollbackPartition(partition))
	}
	b.commitPartition(partition)
	return outputs, nil
}

// runAtomically runs partitions in ascending order and commits all or none.
func (b *BuiltTopology) runAtomically(input map[int]map[string][]ConsumedRecord) (outputs []ProducedToTopic, err error) {
	finished := false
	// All partitions stay locked until the fate of the last one is known. Taking
	// the locks in ascending order keeps concurrent calls from waiting for each
	// other.
	for _, partition := range slices.Sorted(maps.Keys(input)) {
		p := b.lockPartition(partition, b.kept)
		if p != nil {
			defer func() {
				defer p.mu.Unlock()
				if finished {
					p.commit()
					return
				}
				p.broken = errRunFailed
				err = errors.Join(err, b.settleRollback(partition, p))
			}()
		}
		produced, err := b.run(p, partition, input[partition], nil)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, produced...)
	}
	finished = true
	return outputs, nil
}

// runPartition processes records of one logical partition and leaves the
// changes of state pending until commitPartition or rollbackPartition. Several
// runs may be pending. After an error the partition runs again only when it
// has been rolled back.
func (b *BuiltTopology) runPartition(partition int, input map[string][]ConsumedRecord) ([]ProducedToTopic, error) {
	return b.runPending(partition, input, nil)
}

// advancePartition is AdvanceTime with the changes left pending.
func (b *BuiltTopology) advancePartition(partition int, timestamp int64) ([]ProducedToTopic, error) {
	return b.runPending(partition, nil, &timestamp)
}

func (b *BuiltTopology) runPending(partition int, input map[string][]ConsumedRecord, advance *int64) (outputs []ProducedToTopic, err error) {
	p := b.lockPartition(partition, b.kept)
	if p == nil {
		return b.run(nil, partition, input, advance)
	}
	finished := false
	defer func() {
		if !finished {
			p.broken = errRunFailed
		}
		p.mu.Unlock()
	}()
	outputs, err = b.run(p, partition, input, advance)
	finished = err == nil
	return outputs, err
}

var errRunFailed = errors.New("a failed run was not rolled back")

// commitPartition makes the pending changes of a logical partition permanent.
// It costs what changed. A failed run stays to be rolled back.
func (b *BuiltTopology) commitPartition(partition int) {
	p := b.lockPartition(partition, false)
	if p == nil {
		return
	}
	defer p.mu.Unlock()
	if p.broken == nil {
		p.commit()
	}
}

// rollbackPartition takes the pending changes of a logical partition back. It
// costs what changed; a partition that did not exist at the latest commit does
// not exist afterwards. After an error the state is unknown, and the partition
// runs again only when it has been restored or released.
func (b *BuiltTopology) rollbackPartition(partition int) error {
	p := b.lockPartition(partition, false)
	if p == nil {
		return nil
	}
	defer p.mu.Unlock()
	return b.settleRollback(partition, p)
}

// settleRollback rolls a locked partition back.
func (b *BuiltTopology) settleRollback(partition int, p *partitionState) error {
	if !p.committed {
		b.forget(partition, p)
		return nil
	}
	if err := p.rollback(); err != nil {
		return textPrefix.Wrap(err, "cannot roll back partition %d", partition)
	}
	return nil
}

// SnapshotPartition returns the state of a logical partition: node names and
// their bytes, which the caller owns. Built-in operators without state have a
// nil value. A partition that holds nothing yields an empty map.
func (b *BuiltTopology) SnapshotPartition(partition int) (map[string][]byte, error) {
	snapshots := make(map[string][]byte)
	p := b.lockPartition(partition, false)
	if p == nil {
		return snapshots, nil
	}
	defer p.mu.Unlock()
	if p.broken != nil {
		return nil, textPrefix.Wrap(p.broken, "cannot snapshot partition %d", partition)
	}
	for i, instance := range p.nodes {
		switch {
		case instance.state != nil:
			snapshot, err := instance.state.Snapshot()
			if err != nil {
				return nil, &NodeError{Node: b.nodes[i].name, Partition: partition, Cause: err}
			}
			snapshots[b.nodes[i].name] = snapshot
		case instance.operator != nil:
			snapshots[b.nodes[i].name] = nil
		}
	}
	return snapshots, nil
}

// RestorePartition replaces the state of the nodes that snapshots names, and
// creates the partition if need be. Names that no stateful node has are
// ignored; nodes that are not named keep their state. When a node cannot be
// restored, no node has changed. The bytes are not kept.
func (b *BuiltTopology) RestorePartition(partition int, snapshots map[string][]byte) (err error) {
	p := b.lockPartition(partition, b.kept)
	if p == nil {
		return nil
	}
	finished := false
	defer func() {
		if !finished {
			err = errors.Join(err, b.settleRollback(partition, p))
		}
		p.mu.Unlock()
	}()
	if err := b.restoreNodes(partition, p, snapshots); err != nil {
		return err
	}
	finished = true
	p.broken = nil
	p.commit()
	return nil
}

// restoreNodes restores the nodes that snapshots names, as a pending change of a
// locked partition.
func (b *BuiltTopology) restoreNodes(partition int, p *partitionState, snapshots map[string][]byte) error {
	byName := make(map[string]int, len(b.nodes))
	for i, n := range b.nodes {
		byName[n.name] = i
	}
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		i, ok := byName[name]
		if !ok {
			continue
		}
		if err := p.nodes[i].restore(snapshots[name]); err != nil {
			return &NodeError{Node: name, Partition: partition, Cause: err}
		}
	}
	return nil
}

// preparePartition returns a logical partition with the state in snapshots that is
// not in place yet: installPartition puts it there. Empty state is a partition that
// has not begun, which is nil.
func (b *BuiltTopology) preparePartition(partition int, snapshots map[string][]byte) (*partitionState, error) {
	if len(snapshots) == 0 || !b.kept {
		return nil, nil
	}
	p := &partitionState{}
	p.mu.Lock()
	b.populate(partition, p)
	defer p.mu.Unlock()
	if err := b.restoreNodes(partition, p, snapshots); err != nil {
		return nil, err
	}
	p.commit()
	return p, nil
}

// installPartition makes a prepared partition the state of a logical partition,
// in place of what it held.
func (b *BuiltTopology) installPartition(partition int, p *partitionState) {
	b.ReleasePartition(partition)
	if p == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partitions[partition] = p
}

// LateDropped returns how many rows each operator with windows has dropped as
// late, by node name, over the history of the logical partition's state. It
// waits for a run of the partition to end.
func (b *BuiltTopology) LateDropped(partition int) map[string]int64 {
	dropped := make(map[string]int64)
	p := b.lockPartition(partition, false)
	if p == nil {
		return dropped
	}
	defer p.mu.Unlock()
	for i, instance := range p.nodes {
		if instance.operator != nil && instance.operator.dropsLateRows() {
			g, _ := instance.operator.groupBy()
			dropped[b.nodes[i].name] = g.Late()
		}
	}
	return dropped
}

// ReleasePartition drops the state of a logical partition. It waits for a run
// of the partition to end.
func (b *BuiltTopology) ReleasePartition(partition int) {
	if p := b.lockPartition(partition, false); p != nil {
		b.forget(partition, p)
		p.mu.Unlock()
	}
}

// HasPartition reports whether the topology holds processors or state for a
// logical partition. It does not wait for a run.
func (b *BuiltTopology) HasPartition(partition int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.partitions[partition] != nil
}

// Close drops the state of all partitions, waiting for their runs to end. The
// topology stays usable. The error is always nil.
func (b *BuiltTopology) Close() error {
	b.mu.Lock()
	partitions := slices.Sorted(maps.Keys(b.partitions))
	b.mu.Unlock()
	for _, partition := range partitions {
		b.ReleasePartition(partition)
	}
	return nil
}

// lockPartition returns the partition with its lock held, or nil if it does
// not exist and create is false.
func (b *BuiltTopology) lockPartition(partition int, create bool) *partitionState {
	for {
		b.mu.Lock()
		p := b.partitions[partition]
		if p == nil {
			if !create {
				b.mu.Unlock()
				return nil
			}
			p = &partitionState{}
			b.partitions[partition] = p
		}
		b.mu.Unlock()
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			continue
		}
		if p.nodes == nil {
			b.populate(partition, p)
		}
		return p
	}
}

// populate makes the instances of a locked partition.
func (b *BuiltTopology) populate(partition int, p *partitionState) {
	b.mu.Lock()
	spares := b.spares
	b.spares = nil
	b.mu.Unlock()
	finished := false
	defer func() {
		if !finished { // a factory of the user panicked
			b.forget(partition, p)
			p.mu.Unlock()
		}
	}()
	nodes := newInstances(b.nodes, spares, b.mem)
	for i, made := range nodes {
		if b.lateReader[i] {
			g, _ := made.operator.groupBy()
			g.CollectLateRows()
		}
	}
	b.mu.Lock()
	for i, made := range nodes {
		if made.processor != nil {
			b.learn(i, layoutOf(made.processor))
		}
	}
	b.mu.Unlock()
	p.nodes = nodes
	finished = true
}

// forget removes a locked partition.
func (b *BuiltTopology) forget(partition int, p *partitionState) {
	b.mu.Lock()
	if b.partitions[partition] == p {
		delete(b.partitions, partition)
	}
	b.mu.Unlock()
	p.gone = true
}
