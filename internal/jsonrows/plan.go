// SPDX-License-Identifier: Apache-2.0

package jsonrows

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// kind tells how the values of a column are read from JSON.
type kind uint8

const (
	nullNode kind = iota
	boolNode
	signedNode
	unsignedNode
	floatNode
	decimalNode
	textNode
	rawNode // the text of any value
	binaryNode
	fixedBinaryNode
	dateNode
	clockNode
	timestampNode
	durationNode
	listNode
	fixedListNode
	structNode
	mapNode
	unionNode
	encodedNode // a dictionary or run-ends, of its only child
)

// Rules says which values a column takes beside those of its own JSON type.
type Rules struct {
	// Convert takes what is converted without loss: the text of integers, and any
	// value as text.
	Convert bool
	// Drift takes what producers write for each other: the text of numbers and of
	// true and false, 1 and 0 for true and false and the other way around, numbers
	// and true and false as text, and times without a zone, which are in UTC.
	Drift bool
	// Epoch is the unit of numbers in columns of dates and timestamps, which may have
	// a fraction; 0 stands for whole numbers in the unit of the column.
	Epoch time.Duration
}

// Node is the plan to read one column, or one part of a nested column.
type Node struct {
	Kind     kind
	Name     string
	nullable bool
	Type     arrow.DataType
	width    int    // bytes of a value, or of an offset
	limit    uint64 // largest magnitude of an integer, or largest offset
	unit     numtext.Unit
	zoned    bool // a timestamp has a zone
	size     int  // length of lists of a fixed size
	Children []Node
	Members  map[string]int // the child of each member of an object
	rules    Rules
}

// TextKey is the metadata key of a text field that holds JSON: "krabka.json".
const TextKey = "krabka.json"

// NewRoot plans documents that are objects with the fields as members.
func NewRoot(fields []arrow.Field, rules Rules) (*Node, error) {
	root := &Node{Kind: structNode, Type: arrow.StructOf(fields...), rules: rules}
	var err error
	root.Children, root.Members, err = newNodes(fields, rules)
	return root, err
}

// newNodes plans the fields of an object.
func newNodes(fields []arrow.Field, rules Rules) ([]Node, map[string]int, error) {
	nodes := make([]Node, len(fields))
	members := make(map[string]int, len(fields))
	for i, field := range fields {
		if _, twice := members[field.Name]; twice {
			return nil, nil, fmt.Errorf("two fields are named %q", field.Name)
		}
		members[field.Name] = i
		node, err := newNode(field, rules)
		if err != nil {
			return nil, nil, fmt.Errorf("field %q: %w", field.Name, err)
		}
		nodes[i] = node
	}
	return nodes, members, nil
}

func newNode(field arrow.Field, rules Rules) (Node, error) {
	n := Node{Name: field.Name, nullable: field.Nullable, Type: field.Type, rules: rules}
	if fixed, ok := field.Type.(arrow.FixedWidthDataType); ok {
		n.width = fixed.BitWidth() / 8
	}
	switch dt := field.Type.(type) {
	case *arrow.NullType:
		n.Kind = nullNode
	case *arrow.BooleanType:
		n.Kind = boolNode
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		n.Kind, n.limit = signedNode, math.MaxInt64>>(64-8*n.width)
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		n.Kind, n.limit = unsignedNode, math.MaxUint64>>(64-8*n.width)
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		n.Kind = floatNode
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		n.Kind = textNode
		if text, ok := field.Metadata.GetValue(TextKey); ok && text == "true" {
			n.Kind = rawNode
		}
		n.setOffsets(dt)
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		n.Kind = binaryNode
		n.setOffsets(dt)
	case *arrow.FixedSizeBinaryType:
		n.Kind = fixedBinaryNode
	case arrow.DecimalType:
		n.Kind = decimalNode
	case *arrow.Date32Type, *arrow.Date64Type:
		n.Kind, n.limit = dateNode, math.MaxInt64>>(64-8*n.width)
	case *arrow.Time32Type:
		n.Kind, n.unit, n.limit = clockNode, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt32
	case *arrow.Time64Type:
		n.Kind, n.unit, n.limit = clockNode, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt64
	case *arrow.TimestampType:
		n.Kind, n.unit, n.zoned, n.limit = timestampNode, numtext.UnitOf(dt.Unit.Multiplier()), dt.TimeZone != "", math.MaxInt64
	case *arrow.DurationType:
		n.Kind, n.unit, n.limit = durationNode, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt64
	case *arrow.ListType, *arrow.LargeListType, *arrow.ListViewType, *arrow.LargeListViewType, *arrow.FixedSizeListType:
		n.Kind = listNode
		if fixed, ok := dt.(*arrow.FixedSizeListType); ok {
			n.Kind, n.size = fixedListNode, int(fixed.Len())
		} else {
			n.setOffsets(dt)
		}
		child, err := newNode(dt.(arrow.ListLikeType).ElemField(), rules)
		if err != nil {
			return n, err
		}
		n.Children = []Node{child}
	case *arrow.StructType:
		n.Kind = structNode
		var err error
		if n.Children, n.Members, err = newNodes(dt.Fields(), rules); err != nil {
			return n, err
		}
	case *arrow.MapType:
		n.Kind = mapNode
		n.setOffsets(dt)
		entries := Node{Kind: structNode, Type: dt.Elem()}
		var err error
		if entries.Children, _, err = newNodes([]arrow.Field{dt.KeyField(), dt.ItemField()}, rules); err != nil {
			return n, err
		}
		switch entries.Children[0].Kind {
		case textNode, boolNode, signedNode, unsignedNode, floatNode, decimalNode:
		default:
			return n, fmt.Errorf("JSON cannot be read into Arrow type %s", dt)
		}
		n.Children = []Node{entries}
	case arrow.UnionType:
		n.Kind, n.limit = unionNode, math.MaxInt32
		for _, member := range dt.Fields() {
			child, err := newNode(member, rules)
			if err != nil {
				return n, fmt.Errorf("member %q: %w", member.Name, err)
			}
			n.Children = append(n.Children, child)
		}
	case arrow.EncodedType:
		return n, n.encode(dt.Encoded(), field, rules)
	case *arrow.DictionaryType:
		return n, n.encode(dt.ValueType, field, rules)
	default:
		return n, fmt.Errorf("JSON cannot be read into Arrow type %s", dt)
	}
	return n, nil
}

// encode makes a node whose values are read as those of another type.
func (n *Node) encode(values arrow.DataType, field arrow.Field, rules Rules) error {
	n.Kind, n.limit = encodedNode, math.MaxInt64
	if runs, ok := n.Type.(*arrow.RunEndEncodedType); ok {
		n.limit = math.MaxInt64 >> (64 - runs.RunEnds().(arrow.FixedWidthDataType).BitWidth())
	}
	field.Type = values
	child, err := newNode(field, rules)
	n.Children = []Node{child}
	return err
}

// setOffsets sets the width of the offsets of a type. Views of text and of lists are
// read as what they are views of.
func (n *Node) setOffsets(dt arrow.DataType) {
	n.width, n.limit = 4, math.MaxInt32
	switch dt.ID() {
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST, arrow.LARGE_LIST_VIEW:
		n.width, n.limit = 8, math.MaxInt64
	}
}

func (n *Node) isSparse() bool {
	_, sparse := n.Type.(*arrow.SparseUnionType)
	return sparse
}
