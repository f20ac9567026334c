// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// checkColumns finds names and types of columns that do not fit, before there is
// a record: it passes a batch without rows through the nodes, from each source
// whose codec knows its columns to the sinks whose codecs can tell what they
// encode. Nodes behind a processor of the user's, behind late rows and behind a
// codec that learns its columns from the records are not looked at.
//
// It returns the schemas of what the nodes put out, nil where that is not known.
func checkColumns(nodes []*node) ([]*arrow.Schema, error) {
	// What passes is empty, so nothing is allocated from the topology's allocator.
	mem := memory.DefaultAllocator
	b := newBuiltTopology(mem, nodes)
	r := &run{
		topology: b, partition: noPartition, outputs: make([][]flow, len(nodes)),
		state: &partitionState{nodes: make([]instance, len(nodes))},
	}
	defer r.release()
	schemas := make([]*arrow.Schema, len(nodes))
	var problems []error
	for i, n := range nodes {
		if err := r.checkNode(i, n, mem); err != nil {
			problems = append(problems, err)
		}
		if out := r.outputs[i]; len(out) > 0 {
			schemas[i] = out[0].batch.Schema()
		}
	}
	return schemas, errors.Join(problems...)
}

// checkNode passes what has come to a node on. A node with a parent that gave
// nothing gives nothing either.
func (r *run) checkNode(i int, n *node, mem memory.Allocator) error {
	for _, parent := range n.parents {
		if len(r.outputs[parent]) == 0 {
			return nil
		}
	}
	switch n.kind {
	case sourceNode:
		if codec, ok := n.codec.(SchemaCodec); ok {
			if payload := codec.Schema(); payload != nil {
				r.emit(i, emptyBatch(mem, withMetadataSchema(payload, false)), "")
			}
		}
		return nil
	case operatorNode:
		r.state.nodes[i] = newInstance(n, mem)
		return r.step(i, n)
	case joinNode:
		r.state.nodes[i] = newInstance(n, mem)
		if err := r.step(i, n); err != nil {
			return err
		}
		// A join without pairs gives no batch.
		pairs, err := r.state.nodes[i].join.Schema()
		if err != nil {
			return r.failure(n, "", err)
		}
		r.emit(i, emptyBatch(mem, pairs), "")
		return nil
	case mergeNode:
		return r.step(i, n)
	case sinkNode:
		if codec, ok := n.codec.(SchemaCodec); ok {
			if err := codec.CheckSchema(r.outputs[n.parents[0]][0].batch.Schema()); err != nil {
				return r.failure(n, n.topic, err)
			}
		}
	}
	return nil
}

func emptyBatch(mem memory.Allocator, schema *arrow.Schema) arrow.RecordBatch {
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	return builder.NewRecordBatch()
}
