// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"fmt"
	"slices"
	"strings"
)

// MaxNodes bounds the nodes of one plan. It is reached only by a pair of
// schemas that puts very many types side by side in unions.
const MaxNodes = 1 << 16

var tooLarge = fmt.Sprintf("the plan exceeds %d nodes", MaxNodes)

// Resolve compiles the plan that reads data of the schema writer as values of
// the schema reader.
//
// What depends on the datum is decided by the datum: a union branch or an enum
// symbol that the reader cannot take fails when it comes. If no datum at all
// can be read, the error is a *[ResolveError].
func Resolve(writer, reader *Schema) (*Node, error) {
	r := newResolver()
	root := r.node(writer, reader, nil)
	if r.nodes > MaxNodes {
		return nil, &ResolveError{Mismatches: []Mismatch{{Reason: tooLarge}}}
	}
	if root.Err != "" {
		return nil, &ResolveError{Mismatches: r.mismatches}
	}
	return root, nil
}

// Check lists every place where data of the schema writer could not be read as
// values of the schema reader, including those that only some data reach. The
// result is nil if all data can be read. Schemas that are too large to compare
// count as a place where they cannot.
func Check(writer, reader *Schema) []Mismatch {
	r := newResolver()
	r.node(writer, reader, nil)
	return r.mismatches
}

type pair struct{ writer, reader *Schema }

type resolver struct {
	memo       map[pair]*Node
	mismatches []Mismatch
	nodes      int
}

func newResolver() *resolver { return &resolver{memo: make(map[pair]*Node)} }

// trail is the path to the pair that is resolved, from the innermost segment
// outwards.
type trail struct {
	segment string
	outer   *trail
}

func (t *trail) in(segment string) *trail { return &trail{segment, t} }

func (t *trail) String() string {
	var segments []string
	for ; t != nil; t = t.outer {
		segments = append(segments, t.segment)
	}
	return joinPath(segments)
}

// mismatch records that the pair at t does not match and makes n fail.
func (r *resolver) mismatch(n *Node, t *trail, format string, args ...any) *Node {
	reason := fmt.Sprintf(format, args...)
	r.mismatches = append(r.mismatches, Mismatch{Path: t.String(), Reason: reason})
	return n.fail(reason)
}

// fail makes n a node that reads nothing.
func (n *Node) fail(reason string) *Node {
	*n = Node{Schema: n.Schema, Wire: n.Wire, Err: reason}
	return n
}

// node resolves one pair.
func (r *resolver) node(w, rd *Schema, t *trail) *Node {
	n := &Node{Schema: rd, Wire: w.Kind}
	if r.nodes++; r.nodes > MaxNodes {
		if r.nodes == MaxNodes+1 {
			r.mismatches = append(r.mismatches, Mismatch{t.String(), tooLarge})
		}
		return n.fail(tooLarge)
	}
	if w.Kind == Union {
		return r.writerUnion(n, w, t)
	}
	if rd.Kind == Union {
		i := matchBranch(w, rd)
		if i < 0 {
			return r.mismatch(n, t, "reader %s has no branch for writer %s", rd.describe(), w.describe())
		}
		child := r.node(w, rd.Branches[i], t)
		if child.Err != "" {
			return n.fail(child.Err)
		}
		n.Choose = &Choose{Branches: []Branch{{i, child}}}
		return n
	}
	if !matches(w, rd) {
		return r.mismatch(n, t, "reader %s cannot read writer %s", rd.describe(), w.describe())
	}
	if reason := n.convert(w, rd); reason != "" {
		return r.mismatch(n, t, "%s", reason)
	}
	switch rd.Kind {
	case Enum:
		r.symbols(n, w, t)
	case Array, Map:
		return r.items(n, w, t)
	case Record:
		return r.record(n, w, t)
	}
	return n
}

// writerUnion resolves each branch of a writer's union against the reader. The
// node fails only if every branch does.
func (r *resolver) writerUnion(n *Node, w *Schema, t *trail) *Node {
	choose := &Choose{Indexed: true, Branches: make([]Branch, len(w.Branches))}
	readable := len(w.Branches) == 0 // there is no datum that could fail
	for i, wb := range w.Branches {
		child, index := r.node(wb, n.Schema, t), -1
		if child.Choose != nil {
			index, child = child.Choose.Branches[0].Reader, child.Choose.Branches[0].Node
		}
		choose.Branches[i] = Branch{index, child}
		readable = readable || child.Err == ""
	}
	if !readable {
		return n.fail(choose.Branches[0].Node.Err)
	}
	n.Choose = choose
	return n
}

func (r *resolver) symbols(n *Node, w *Schema, t *trail) {
	var unknown []string
	n.Symbols = make([]int, len(w.Symbols))
	known := make(map[string]int, len(n.Schema.Symbols))
	for i, symbol := range n.Schema.Symbols {
		known[symbol] = i
	}
	for i, symbol := range w.Symbols {
		index, ok := known[symbol]
		if !ok {
			if index = n.Schema.EnumDefault; index < 0 {
				unknown = append(unknown, symbol)
			}
		}
		n.Symbols[i] = index
	}
	if unknown != nil {
		r.mismatches = append(r.mismatches, Mismatch{t.String(), fmt.Sprintf(
			"reader %s lacks the writer's symbols %s and has no default", n.Schema.describe(), strings.Join(unknown, ", "))})
	}
}

func (r *resolver) items(n *Node, w *Schema, t *trail) *Node {
	n.ItemSize = w.Items.minSize
	if w.Kind == Map {
		n.ItemSize++
	}
	n.Items = r.node(w.Items, n.Schema.Items, t.in(elementMark(w.Kind)))
	if n.Items.Err != "" {
		return n.fail(n.Items.Err)
	}
	return n
}

// record resolves the fields of two records. The node is entered into the memo
// before its fields, which can contain the same pair.
func (r *resolver) record(n *Node, w *Schema, t *trail) *Node {
	key := pair{w, n.Schema}
	if known, ok := r.memo[key]; ok {
		return known
	}
	r.memo[key] = n
	sources := fieldSources(w, n.Schema)
	targets := make([]int, len(w.Fields))
	for i := range targets {
		targets[i] = -1
	}
	var failure string
	note := func(reason string) {
		if failure == "" {
			failure = reason
		}
	}
	for i, f := range n.Schema.Fields {
		switch at := t.in(f.Name); {
		case sources[i] >= 0:
			targets[sources[i]] = i
		case f.HasDefault:
			n.Defaults = append(n.Defaults, Default{Field: i, Node: r.node(f.Type, f.Type, at), Data: f.Default})
		default:
			reason := "writer " + w.describe() + " does not have the field, and it has no default"
			r.mismatches = append(r.mismatches, Mismatch{at.String(), reason})
			note(f.Name + ": " + reason)
		}
	}
	n.Steps = make([]Step, len(w.Fields))
	for i, f := range w.Fields {
		n.Steps[i] = Step{Field: targets[i], Writer: f}
		if targets[i] < 0 {
			continue
		}
		rf := n.Schema.Fields[targets[i]]
		child := r.node(f.Type, rf.Type, t.in(rf.Name))
		n.Steps[i].Node = child
		if f.Type.fixedSize == 0 {
			n.Empty++
		}
		if child.Err != "" {
			note(rf.Name + ": " + child.Err)
		}
	}
	if failure != "" {
		return n.fail(failure)
	}
	return n
}

// fieldSources returns, for each field of the reader, the index of the writer's
// field that it takes its value from: the one of the same name, otherwise one
// that an alias names and no other field takes. It is -1 if there is none.
func fieldSources(w, rd *Schema) []int {
	index := make(map[string]int, len(w.Fields))
	for i, f := range w.Fields {
		index[f.Name] = i
	}
	sources := make([]int, len(rd.Fields))
	taken := make(map[int]bool, len(w.Fields))
	for i, f := range rd.Fields {
		sources[i] = -1
		if j, ok := index[f.Name]; ok {
			sources[i], taken[j] = j, true
		}
	}
	for i, f := range rd.Fields {
		for _, alias := range f.Aliases {
			if j, ok := index[alias]; ok && sources[i] < 0 && !taken[j] {
				sources[i], taken[j] = j, true
			}
		}
	}
	return sources
}

// matches reports whether reader and writer, neither of which is a union, match
// by kind, and by name where they have one.
func matches(w, rd *Schema) bool {
	if w.Kind != rd.Kind {
		return promotes(w.Kind, rd.Kind)
	}
	if !w.Kind.Named() {
		return true
	}
	return nameMatch(w, rd) > noMatch && (w.Kind != Fixed || w.Size == rd.Size)
}

// promotes reports whether a datum of kind w can be read as one of kind rd.
func promotes(w, rd Kind) bool {
	switch rd {
	case Long:
		return w == Int
	case Float:
		return w == Int || w == Long
	case Double:
		return w == Int || w == Long || w == Float
	case Bytes:
		return w == String
	case String:
		return w == Bytes
	}
	return false
}

// How well the names of two named types match.
const (
	noMatch = iota
	simpleMatch
	aliasMatch
	fullMatch
)

// nameMatch compares the names of two named types of one kind. Namespaces may
// differ, as they may in Avro's own rule.
func nameMatch(w, rd *Schema) int {
	switch {
	case w.Name == rd.Name:
		return fullMatch
	case slices.Contains(rd.Aliases, w.Name):
		return aliasMatch
	case simpleName(w.Name) == simpleName(rd.Name):
		return simpleMatch
	}
	return noMatch
}

// matchBranch returns the index of the branch of the reader's union that reads
// data of w, or -1. A branch of the same kind goes before one that w is
// promoted to, and the better match of the names before the worse; among equals
// the first one is taken.
func matchBranch(w, union *Schema) int {
	best, found := noMatch, -1
	for i, b := range union.Branches {
		if w.Kind != b.Kind || !matches(w, b) {
			continue
		}
		if !w.Kind.Named() {
			return i
		}
		if m := nameMatch(w, b); m > best {
			best, found = m, i
		}
	}
	if found >= 0 {
		return found
	}
	for i, b := range union.Branches {
		if promotes(w.Kind, b.Kind) {
			return i
		}
	}
	return -1
}
