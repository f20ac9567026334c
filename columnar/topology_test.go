// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

func pass(ctx *Context, batch arrow.RecordBatch) error {
	ctx.Forward(batch)
	return nil
}

func newPass() Processor { return ProcessorFunc(pass) }

func keepAll(arrow.RecordBatch, int) bool { return true }

func TestTopologyRefusesInvalidNodes(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
	middle := must[Node](t)(topology.AddOperator("middle", Filter(mem, keepAll), source))
	sink := must[Node](t)(topology.AddSink("sink", "out", codec, middle))
	foreign := must[Node](t)(NewTopology(mem).AddSource("source", []string{"in"}, codec))
	const (
		noParent = "parent is not a node in this topology"
		noTopic  = "the name of a topic must not be empty"
	)

	for name, test := range map[string]struct {
		add  func() (Node, error)
		want string
	}{
		"source without topics": {func() (Node, error) { return topology.AddSource("x", nil, codec) }, "a source needs at least one topic"},
		"source without codec":  {func() (Node, error) { return topology.AddSource("x", []string{"in"}, nil) }, "codec must not be nil"},
		"foreign parent of sink": {
			func() (Node, error) { return topology.AddSink("x", "out", nil, foreign) }, noParent,
		},
		"zero parent of processor": {
			func() (Node, error) { return topology.AddProcessor("x", nil, Node{}) }, noParent,
		},
		"nil operator before its parent": {
			func() (Node, error) { return topology.AddOperator("x", nil, foreign) }, "operator must not be nil",
		},
		"operator without constructor": {
			func() (Node, error) { return topology.AddOperator("x", &BuiltinOp{}, source) }, "operator was not made by a constructor",
		},
		"operator with invalid arguments": {
			func() (Node, error) { return topology.AddOperator("x", Filter(mem, nil), source) }, "predicate must not be nil",
		},
		"nil processor": {
			func() (Node, error) { return topology.AddProcessor("x", nil, source) }, "processor must not be nil",
		},
		"source of a topic without name": {func() (Node, error) { return topology.AddSource("x", []string{"in", ""}, codec) }, noTopic},
		"sink without topic":             {func() (Node, error) { return topology.AddSink("x", "", codec, source) }, noTopic},
		"pass-through without topic":     {func() (Node, error) { return topology.AddPassThroughSink("x", "", source) }, noTopic},
		"nil codec of sink": {
			func() (Node, error) { return topology.AddSink("x", "out", nil, source) }, "codec must not be nil",
		},
		"merge of one": {
			func() (Node, error) { return topology.AddMerge("x", []Node{foreign}) }, "a merge needs at least two parents",
		},
		"merge with a foreign parent": {
			func() (Node, error) { return topology.AddMerge("x", []Node{source, foreign}) }, noParent,
		},
		"sink as parent": {
			func() (Node, error) { return topology.AddOperator("x", Filter(mem, keepAll), sink) }, "parent `sink` is a sink, which has no output",
		},
		"pass-through below an operator": {
			func() (Node, error) { return topology.AddPassThroughSink("x", "out", middle) }, "a pass-through sink must be attached directly to a source",
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := test.add()
			var failure *NodeError
			if !errors.As(err, &failure) || failure.Node != "x" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want a NodeError of x with %q", err, test.want)
			}
			if node != (Node{}) {
				t.Errorf("node = %v, want the zero Node", node)
			}
		})
	}
	if got := len(topology.nodes); got != 3 {
		t.Errorf("topology has %d nodes, want the 3 valid ones", got)
	}
}

func TestTopologyValidate(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	for name, test := range map[string]struct {
		build func(*Topology)
		want  string
	}{
		"empty": {func(*Topology) {}, "topology has no source"},
		"no sink": {func(topology *Topology) {
			must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
		}, "topology has no sink"},
		"operator that leads nowhere": {func(topology *Topology) {
			source := must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
			must[Node](t)(topology.AddSink("sink", "out", codec, source))
			must[Node](t)(topology.AddOperator("lost", Filter(mem, keepAll), source))
		}, "node `lost`: no node reads the rows of this node: add a sink behind it, or leave it out"},
		"duplicate name": {func(topology *Topology) {
			source := must[Node](t)(topology.AddSource("same", []string{"in"}, codec))
			must[Node](t)(topology.AddSink("same", "out", codec, source))
		}, "duplicate node name `same`"},
	} {
		t.Run(name, func(t *testing.T) {
			topology := NewTopology(mem)
			test.build(topology)
			built, err := topology.Build()
			if built != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Build() = %v, %v, want %q", built, err, test.want)
			}
		})
	}
}

func TestSourceTopicsKeepOrderAndDuplicates(t *testing.T) {
	mem := newAllocator(t)
	topology := NewTopology(mem)
	topics := []string{"b", "a"}
	must[Node](t)(topology.AddSource("first", topics, amountCodec{mem}))
	must[Node](t)(topology.AddSource("second", []string{"a"}, amountCodec{mem}))
	topics[0] = "changed"
	if diff := cmp.Diff([]string{"b", "a", "a"}, topology.SourceTopics()); diff != "" {
		t.Errorf("SourceTopics() mismatch (-want +got):\n%s", diff)
	}
}

func TestBuiltTopologyDoesNotSeeLaterNodes(t *testing.T) {
	mem := newAllocator(t)
	codec := amountCodec{mem}
	topology := NewTopology(mem)
	source := must[Node](t)(topology.AddSource("source", []string{"in"}, codec))
	must[Node](t)(topology.AddSink("first", "out-1", codec, source))
	built := must[*BuiltTopology](t)(topology.Build())
	must[Node](t)(topology.AddSink("second", "out-2", codec, source))
	outputs := must[[]ProducedToTopic](t)(built.RunBatch("in", amounts(0, "ada 5")))
	if diff := cmp.Diff([]string{"out-1:ada 5"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

// noBatchCodec returns nothing, and no error either.
type noBatchCodec struct{ amountCodec }

func (noBatchCodec) Decode(string, []ConsumedRecord) (arrow.RecordBatch, error) { return nil, nil }

func TestRunRefusesWhatUserCodeLeavesOut(t *testing.T) {
	mem := newAllocator(t)
	for name, test := range map[string]struct {
		codec     BatchCodec
		processor func() Processor
		want      string
	}{
		"processor": {amountCodec{mem}, func() Processor { return nil }, "columnar: node `processor`, topic \"in\", partition 0: processor must not be nil"},
		"batch": {noBatchCodec{}, func() Processor { return ProcessorFunc(forwardAll) },
			"columnar: node `source`, topic \"in\", partition 0: the codec returned neither a batch nor an error"},
	} {
		t.Run(name, func(t *testing.T) {
			topology := NewTopology(mem)
			source := must[Node](t)(topology.AddSource("source", []string{"in"}, test.codec))
			parent := must[Node](t)(topology.AddProcessor("processor", test.processor, source))
			must[Node](t)(topology.AddSink("sink", "out", test.codec, parent))
			built := must[*BuiltTopology](t)(topology.Build())
			if _, err := built.RunBatch("in", amounts(0, "ada 5")); err == nil || err.Error() != test.want {
				t.Errorf("RunBatch = %v, want %s", err, test.want)
			}
		})
	}
}
