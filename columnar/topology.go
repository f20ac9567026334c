// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Node is a step of a [Topology], to be named as the parent of others. Nodes
// are comparable; the zero Node belongs to no topology.
type Node struct {
	topology *Topology
	index    int
}

type nodeKind int

const (
	sourceNode nodeKind = iota
	operatorNode
	processorNode
	mergeNode
	joinNode
	sinkNode
	passThroughNode
	lateRowsNode
)

// node is one step as it was added. It is not changed afterwards.
type node struct {
	name    string
	kind    nodeKind
	parents []int

	topics   []string         // source: as given
	topic    string           // sinks
	codec    BatchCodec       // source, sink
	operator *BuiltinOp       // operator
	factory  func() Processor // processor
	join     Join             // join
}

// newProcessor makes the processor of one logical partition.
func (n *node) newProcessor() Processor {
	if processor := n.factory(); processor != nil {
		return processor
	}
	return ProcessorFunc(func(*Context, arrow.RecordBatch) error { return errProcessorNil })
}

// Topology is a graph of nodes under construction. A node is added below nodes
// that exist, so there are no cycles. The zero value is not usable; call
// [NewTopology]. A Topology is not safe for concurrent use.
type Topology struct {
	mem   memory.Allocator
	nodes []*node
}

// NewTopology returns an empty topology whose batches are allocated from mem.
func NewTopology(mem memory.Allocator) *Topology {
	return &Topology{mem: mem}
}

// AddSource adds a node that decodes the records of topics with codec, one
// batch per topic and run.
func (t *Topology) AddSource(name string, topics []string, codec BatchCodec) (Node, error) {
	if len(topics) == 0 {
		return invalidNode(name, errors.New("a source needs at least one topic"))
	}
	if slices.Contains(topics, "") {
		return invalidNode(name, errNoTopic)
	}
	if codec == nil {
		return invalidNode(name, errCodecNil)
	}
	return t.add(&node{name: name, kind: sourceNode, topics: slices.Clone(topics), codec: codec}), nil
}

// AddOperator adds a node that runs operator on each batch of parent. Each
// logical partition gets its own copy of operator, with no state.
func (t *Topology) AddOperator(name string, operator *BuiltinOp, parent Node) (Node, error) {
	if operator == nil {
		return invalidNode(name, errors.New("operator must not be nil"))
	}
	if err := t.checkParents(parent); err != nil {
		return invalidNode(name, err)
	}
	if err := operator.check(); err != nil {
		return invalidNode(name, err)
	}
	return t.add(&node{name: name, kind: operatorNode, parents: []int{parent.index}, operator: operator}), nil
}

// AddProcessor adds a node that runs a processor on each batch of parent.
// processor is called once per logical partition. A result that is a
// [StatefulProcessor] is saved and restored with the partition.
func (t *Topology) AddProcessor(name string, processor func() Processor, parent Node) (Node, error) {
	if err := t.checkParents(parent); err != nil {
		return invalidNode(name, err)
	}
	if processor == nil {
		return invalidNode(name, errProcessorNil)
	}
	return t.add(&node{name: name, kind: processorNode, parents: []int{parent.index}, factory: processor}), nil
}

// AddMerge adds a node that concatenates the batches of at least two parents
// into one batch per run, in the order of parents. The batches must have equal
// schemas.
func (t *Topology) AddMerge(name string, parents []Node) (Node, error) {
	if len(parents) < 2 {
		return invalidNode(name, errors.New("a merge needs at least two parents"))
	}
	if err := t.checkParents(parents...); err != nil {
		return invalidNode(name, err)
	}
	merge := &node{name: name, kind: mergeNode}
	for _, parent := range parents {
		merge.parents = append(merge.parents, parent.index)
	}
	return t.add(merge), nil
}

// AddJoin adds a node that pairs the rows of left and right as join says. The
// topics behind both must have equal partition counts and equal keys in equal
// partitions.
func (t *Topology) AddJoin(name string, join Join, left, right Node) (Node, error) {
	if err := t.checkParents(left, right); err != nil {
		return invalidNode(name, err)
	}
	if left == right {
		return invalidNode(name, errors.New("a join needs two different parents"))
	}
	if join.Window < 0 {
		return invalidNode(name, errors.New("window must not be negative"))
	}
	if join.Window > 0 && join.Window < time.Millisecond {
		return invalidNode(name, errors.New("window must use millisecond precision"))
	}
	if join.MaxRows < 0 {
		return invalidNode(name, errors.New("maximum number of rows must not be negative"))
	}
	if join.LeftKey == "" || join.RightKey == "" {
		return invalidNode(name, errors.New("a join needs LeftKey and RightKey, the columns that are compared"))
	}
	return t.add(&node{name: name, kind: joinNode, parents: []int{left.index, right.index}, join: join}), nil
}

// AddLateRows adds a node that receives the rows which windowed, an operator
// with windows, drops as late. They have the columns of its input, and behind
// the payload the bounds of the window that was closed, the latest of the row where
// windows overlap, and the stream time
// that closed it: [WindowStartColumn], [WindowEndColumn] and
// [StreamTimeColumn].
func (t *Topology) AddLateRows(name string, windowed Node) (Node, error) {
	if err := t.checkParents(windowed); err != nil {
		return invalidNode(name, err)
	}
	operator := t.nodes[windowed.index].operator
	if operator == nil || !operator.dropsLateRows() {
		return invalidNode(name, errors.New("late rows come from an operator with windows"))
	}
	return t.add(&node{name: name, kind: lateRowsNode, parents: []int{windowed.index}}), nil
}

// AddSink adds a node that encodes each batch of parent with codec and
// produces the records to topic.
func (t *Topology) AddSink(name, topic string, codec BatchCodec, parent Node) (Node, error) {
	if err := t.checkParents(parent); err != nil {
		return invalidNode(name, err)
	}
	if codec == nil {
		return invalidNode(name, errCodecNil)
	}
	if topic == "" {
		return invalidNode(name, errNoTopic)
	}
	return t.add(&node{name: name, kind: sinkNode, parents: []int{parent.index}, topic: topic, codec: codec}), nil
}

// AddPassThroughSink adds a node that produces the records of source to topic
// as they are, without decoding them: key, value, timestamp and headers, nulls
// among them.
func (t *Topology) AddPassThroughSink(name, topic string, source Node) (Node, error) {
	if err := t.checkParents(source); err != nil {
		return invalidNode(name, err)
	}
	if t.nodes[source.index].kind != sourceNode {
		return invalidNode(name, errors.New("a pass-through sink must be attached directly to a source"))
	}
	if topic == "" {
		return invalidNode(name, errNoTopic)
	}
	return t.add(&node{name: name, kind: passThroughNode, parents: []int{source.index}, topic: topic}), nil
}

// SourceTopics returns the topics of all sources, in the order in which they
// were given. A topic of two sources appears twice.
func (t *Topology) SourceTopics() []string {
	var topics []string
	for _, n := range t.nodes {
		topics = append(topics, n.topics...)
	}
	return topics
}

// Validate reports whether the topology can be built: node names are unique,
// there is a source and a sink, and the rows of each operator, merge and join, and
// late rows, are read by another node. A source may have no reader, and a processor
// neither, since it may write elsewhere.
func (t *Topology) Validate() error {
	names := make(map[string]bool, len(t.nodes))
	read := make([]bool, len(t.nodes))
	var source, sink bool
	for _, n := range t.nodes {
		for _, parent := range n.parents {
			read[parent] = true
		}
		if names[n.name] {
			return fmt.Errorf("columnar: duplicate node name `%s`", n.name)
		}
		names[n.name] = true
		switch n.kind {
		case sourceNode:
			source = true
		case sinkNode, passThroughNode:
			sink = true
		}
	}
	if !source {
		return errors.New("columnar: topology has no source")
	}
	if !sink {
		return errors.New("columnar: topology has no sink")
	}
	for i, n := range t.nodes {
		if !read[i] && n.needsReader() {
			return &NodeError{Node: n.name, Partition: noPartition, Cause: errors.New("no node reads the rows of this node: add a sink behind it, or leave it out")}
		}
	}
	return nil
}

// needsReader reports whether the node has no effect unless another reads its rows.
func (n *node) needsReader() bool {
	switch n.kind {
	case operatorNode, mergeNode, joinNode, lateRowsNode:
		return true
	}
	return false
}

// Build validates the topology and returns it ready to run, with no state. It
// may be called many times; the results share no state, and nodes that are
// added later do not appear in them.
//
// Where the codec of a source is a [SchemaCodec], the names and types of columns
// are checked through all nodes behind the source, as far as the next processor,
// and those of the sinks. The error names each node that does not fit. Where it is a
// [ProjectingCodec], columns that no node reads are not decoded.
func (t *Topology) Build() (*BuiltTopology, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if _, err := checkColumns(t.nodes); err != nil {
		return nil, err
	}
	nodes, err := projectSources(t.nodes)
	if err != nil {
		return nil, err
	}
	return newBuiltTopology(t.mem, nodes), nil
}

var (
	errCodecNil     = errors.New("codec must not be nil")
	errNoTopic      = errors.New("the name of a topic must not be empty")
	errProcessorNil = errors.New("processor must not be nil")
)

func (t *Topology) add(n *node) Node {
	t.nodes = append(t.nodes, n)
	return Node{topology: t, index: len(t.nodes) - 1}
}

func (t *Topology) checkParents(parents ...Node) error {
	for _, parent := range parents {
		if parent.topology != t || parent.index < 0 || parent.index >= len(t.nodes) {
			return errors.New("parent is not a node in this topology")
		}
		if kind := t.nodes[parent.index].kind; kind == sinkNode || kind == passThroughNode {
			return fmt.Errorf("parent `%s` is a sink, which has no output", t.nodes[parent.index].name)
		}
	}
	return nil
}

func invalidNode(name string, cause error) (Node, error) {
	return Node{}, &NodeError{Node: name, Partition: noPartition, Cause: cause}
}
