// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// about says in a few words, for people, what a node does.
func (n *node) about() string {
	switch n.kind {
	case sourceNode:
		return "read " + strings.Join(n.topics, ", ")
	case operatorNode:
		return n.operator.about
	case processorNode:
		return "process by Go code"
	case mergeNode:
		return "merge"
	case joinNode:
		return fmt.Sprintf("join %s = %s within %v", n.join.LeftKey, n.join.RightKey, n.join.Window)
	case lateRowsNode:
		return "late rows"
	case passThroughNode:
		return "forward to " + n.topic
	default:
		return "write " + n.topic
	}
}

// keepsState reports whether a node has state, as far as that is known without
// calling a factory of the user's.
func (n *node) keepsState() bool {
	return n.kind == joinNode || n.kind == operatorNode && n.operator.keeper() != nil
}

// payloadText lists the payload columns of a schema with their types.
func payloadText(schema *arrow.Schema) string {
	var columns []string
	for _, field := range schema.Fields() {
		if !metacols.IsReserved(field.Name) {
			columns = append(columns, fmt.Sprintf("%s %s", field.Name, field.Type))
		}
	}
	return strings.Join(columns, ", ")
}

// String describes the topology, a node a line in the order in which the nodes
// were added: its name, its parents, what it does, and whether it keeps state.
// Below it stand the payload columns that it puts out, where they are known before
// there is a record.
func (t *Topology) String() string {
	schemas, _ := checkColumns(t.nodes)
	var text strings.Builder
	for i, n := range t.nodes {
		text.WriteString(n.name)
		for j, parent := range n.parents {
			text.WriteString([...]string{" <- ", ", "}[min(j, 1)] + t.nodes[parent].name)
		}
		text.WriteString(": " + n.about())
		if n.keepsState() {
			text.WriteString(" [state]")
		}
		text.WriteByte('\n')
		if schemas[i] != nil {
			fmt.Fprintf(&text, "    %s\n", payloadText(schemas[i]))
		}
	}
	return text.String()
}

// Mermaid describes the topology as a flowchart in the language of Mermaid, for
// documents: topics are rounded, nodes with state are cylinders.
func (t *Topology) Mermaid() string {
	var text strings.Builder
	text.WriteString("flowchart TD\n")
	topics := map[string]string{} // identifiers, by topic
	topic := func(name string) string {
		id, ok := topics[name]
		if !ok {
			id = fmt.Sprintf("t%d", len(topics))
			topics[name] = id
			fmt.Fprintf(&text, "    %s([%s])\n", id, mermaidText(name))
		}
		return id
	}
	for i, n := range t.nodes {
		shape := [2]string{"[", "]"}
		if n.keepsState() {
			shape = [2]string{"[(", ")]"}
		}
		fmt.Fprintf(&text, "    n%d%s%s%s\n", i, shape[0], mermaidText(n.name+": "+n.about()), shape[1])
		for _, name := range n.topics {
			fmt.Fprintf(&text, "    %s --> n%d\n", topic(name), i)
		}
		for _, parent := range n.parents {
			fmt.Fprintf(&text, "    n%d --> n%d\n", parent, i)
		}
		if n.kind == sinkNode || n.kind == passThroughNode {
			fmt.Fprintf(&text, "    n%d --> %s\n", i, topic(n.topic))
		}
	}
	return text.String()
}

// mermaidText quotes text for a flowchart, which has entities for the characters
// that end a quotation or begin a tag.
func mermaidText(text string) string {
	return `"` + strings.NewReplacer("&", "&amp;", `"`, "#quot;", "<", "&lt;", ">", "&gt;", "\n", " ").Replace(text) + `"`
}
