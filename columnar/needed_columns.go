// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"maps"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/grouping"
)

// ProjectingCodec is a [SchemaCodec] that can decode less than all columns.
// [Topology.Build] makes use of it: where no node behind a source reads a column,
// the source's codec passes over the column instead of building it. Faults inside
// of what is passed over are not found.
//
// Operators with expressions, [Select], [Explode] and [NewGroupBy] tell what they read. Every
// other node reads all columns: a sink, a processor, an operator with a Go function,
// a merge, whose parents have equal schemas, and a join, which keeps whole rows.
// Metadata columns are always there, and records that are passed through or sent to
// a dead-letter topic are as they came.
type ProjectingCodec interface {
	SchemaCodec
	// Project returns a codec that decodes the named columns of Schema, in the order
	// of Schema, and may leave all others out. It does not change this codec.
	Project(columns []string) (BatchCodec, error)
}

// columnNeeds is what is read of the columns of a batch: some by name, or all.
type columnNeeds struct {
	all   bool
	names map[string]bool
}

// readsColumns is a kernel that tells which columns of its input are read where the
// results are.
type readsColumns interface {
	reads(results columnNeeds) columnNeeds
}

// and returns what is read where others are read as well.
func (c columnNeeds) and(names ...string) columnNeeds {
	if c.all {
		return c
	}
	c.names = maps.Clone(c.names)
	if c.names == nil {
		c.names = map[string]bool{}
	}
	for _, name := range names {
		c.names[name] = true
	}
	return c
}

// without returns what is read but for some columns, where not all are.
func (c columnNeeds) without(names ...string) columnNeeds {
	if c.all {
		return c
	}
	c.names = maps.Clone(c.names)
	for _, name := range names {
		delete(c.names, name)
	}
	return c
}

func (c columnNeeds) union(other columnNeeds) columnNeeds {
	if c.all || other.all {
		return columnNeeds{all: true}
	}
	return c.and(slices.Collect(maps.Keys(other.names))...)
}

// neededColumns returns what is read of the results of each node.
func neededColumns(nodes []*node) []columnNeeds {
	needs := make([]columnNeeds, len(nodes))
	late := make([]columnNeeds, len(nodes)) // of operators with windows, of their late rows
	for i, n := range slices.Backward(nodes) {
		of := columnNeeds{all: true}
		switch n.kind {
		case passThroughNode:
			of = columnNeeds{}
		case lateRowsNode:
			parent := n.parents[0]
			late[parent] = late[parent].union(needs[i].without(WindowStartColumn, WindowEndColumn, StreamTimeColumn))
			of = columnNeeds{}
		case operatorNode:
			switch kernel := n.operator.kernel.(type) {
			case readsColumns:
				of = kernel.reads(needs[i])
			case *grouping.Operator:
				of = columnNeeds{}.and(kernel.Reads()...).union(late[i])
			}
		}
		for _, parent := range n.parents {
			needs[parent] = needs[parent].union(of)
		}
	}
	return needs
}

// projectSources returns the nodes with codecs of sources that decode what is needed
// alone.
func projectSources(nodes []*node) ([]*node, error) {
	needs := neededColumns(nodes)
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		codec, ok := n.codec.(ProjectingCodec)
		if !ok || n.kind != sourceNode || needs[i].all || codec.Schema() == nil {
			continue
		}
		payload := codec.Schema()
		shown := withMetadataSchema(payload, false)
		var names []string
		for j, field := range payload.Fields() {
			if needs[i].names[shown.Field(j).Name] {
				names = append(names, field.Name)
			}
		}
		if len(names) == payload.NumFields() {
			continue
		}
		projected, err := codec.Project(names)
		if err != nil {
			return nil, &NodeError{Node: n.name, Partition: noPartition, Cause: err}
		}
		changed := *n
		changed.codec = projected
		nodes[i] = &changed
	}
	return nodes, nil
}

func (f *whereFilter) reads(results columnNeeds) columnNeeds { return results.and(f.columns...) }

func (p *projection) reads(columnNeeds) columnNeeds { return columnNeeds{}.and(p.names...) }

func (d *derivation) reads(results columnNeeds) columnNeeds {
	if d.rowWise {
		return columnNeeds{all: true}
	}
	return results.without(d.names...).and(d.inputs...)
}
