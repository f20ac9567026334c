// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/numtext"
)

// jsonKind tells how the values of a column are read from JSON.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonSigned
	jsonUnsigned
	jsonFloat
	jsonDecimal
	jsonText
	jsonRaw // the text of any value
	jsonBinary
	jsonFixedBinary
	jsonDate
	jsonClock
	jsonTimestamp
	jsonDuration
	jsonList
	jsonFixedList
	jsonStruct
	jsonMap
	jsonUnion
	jsonEncoded // a dictionary or run-ends, of its only child
)

// jsonNode is the plan to read one column, or one part of a nested column.
type jsonNode struct {
	kind     jsonKind
	name     string
	nullable bool
	dt       arrow.DataType
	width    int    // bytes of a value, or of an offset
	limit    uint64 // largest magnitude of an integer, or largest offset
	unit     numtext.Unit
	zoned    bool // a timestamp has a zone
	size     int  // length of lists of a fixed size
	children []jsonNode
	members  map[string]int // the child of each member of an object
	lenient  bool           // values are converted to the type of their column
}

// newJSONNodes plans the fields of an object.
func newJSONNodes(fields []arrow.Field, lenient bool) ([]jsonNode, map[string]int, error) {
	nodes := make([]jsonNode, len(fields))
	members := make(map[string]int, len(fields))
	for i, field := range fields {
		if _, twice := members[field.Name]; twice {
			return nil, nil, fmt.Errorf("two fields are named %q", field.Name)
		}
		members[field.Name] = i
		node, err := newJSONNode(field, lenient)
		if err != nil {
			return nil, nil, fmt.Errorf("field %q: %w", field.Name, err)
		}
		nodes[i] = node
	}
	return nodes, members, nil
}

func newJSONNode(field arrow.Field, lenient bool) (jsonNode, error) {
	n := jsonNode{name: field.Name, nullable: field.Nullable, dt: field.Type, lenient: lenient}
	if fixed, ok := field.Type.(arrow.FixedWidthDataType); ok {
		n.width = fixed.BitWidth() / 8
	}
	switch dt := field.Type.(type) {
	case *arrow.NullType:
		n.kind = jsonNull
	case *arrow.BooleanType:
		n.kind = jsonBool
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		n.kind, n.limit = jsonSigned, math.MaxInt64>>(64-8*n.width)
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		n.kind, n.limit = jsonUnsigned, math.MaxUint64>>(64-8*n.width)
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		n.kind = jsonFloat
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		n.kind = jsonText
		if text, ok := field.Metadata.GetValue(jsonFieldKey); ok && text == "true" {
			n.kind = jsonRaw
		}
		n.setOffsets(dt)
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		n.kind = jsonBinary
		n.setOffsets(dt)
	case *arrow.FixedSizeBinaryType:
		n.kind = jsonFixedBinary
	case arrow.DecimalType:
		n.kind = jsonDecimal
	case *arrow.Date32Type, *arrow.Date64Type:
		n.kind, n.limit = jsonDate, math.MaxInt64>>(64-8*n.width)
	case *arrow.Time32Type:
		n.kind, n.unit, n.limit = jsonClock, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt32
	case *arrow.Time64Type:
		n.kind, n.unit, n.limit = jsonClock, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt64
	case *arrow.TimestampType:
		n.kind, n.unit, n.zoned, n.limit = jsonTimestamp, numtext.UnitOf(dt.Unit.Multiplier()), dt.TimeZone != "", math.MaxInt64
	case *arrow.DurationType:
		n.kind, n.unit, n.limit = jsonDuration, numtext.UnitOf(dt.Unit.Multiplier()), math.MaxInt64
	case *arrow.ListType, *arrow.LargeListType, *arrow.ListViewType, *arrow.LargeListViewType, *arrow.FixedSizeListType:
		n.kind = jsonList
		if fixed, ok := dt.(*arrow.FixedSizeListType); ok {
			n.kind, n.size = jsonFixedList, int(fixed.Len())
		} else {
			n.setOffsets(dt)
		}
		child, err := newJSONNode(dt.(arrow.ListLikeType).ElemField(), lenient)
		if err != nil {
			return n, err
		}
		n.children = []jsonNode{child}
	case *arrow.StructType:
		n.kind = jsonStruct
		var err error
		if n.children, n.members, err = newJSONNodes(dt.Fields(), lenient); err != nil {
			return n, err
		}
	case *arrow.MapType:
		n.kind = jsonMap
		n.setOffsets(dt)
		entries := jsonNode{kind: jsonStruct, dt: dt.Elem()}
		var err error
		if entries.children, _, err = newJSONNodes([]arrow.Field{dt.KeyField(), dt.ItemField()}, lenient); err != nil {
			return n, err
		}
		switch entries.children[0].kind {
		case jsonText, jsonBool, jsonSigned, jsonUnsigned, jsonFloat, jsonDecimal:
		default:
			return n, fmt.Errorf("JSON cannot be read into Arrow type %s", dt)
		}
		n.children = []jsonNode{entries}
	case arrow.UnionType:
		n.kind, n.limit = jsonUnion, math.MaxInt32
		for _, member := range dt.Fields() {
			child, err := newJSONNode(member, lenient)
			if err != nil {
				return n, fmt.Errorf("member %q: %w", member.Name, err)
			}
			n.children = append(n.children, child)
		}
	case arrow.EncodedType:
		return n, n.encode(dt.Encoded(), field, lenient)
	case *arrow.DictionaryType:
		return n, n.encode(dt.ValueType, field, lenient)
	default:
		return n, fmt.Errorf("JSON cannot be read into Arrow type %s", dt)
	}
	return n, nil
}

// encode makes a node whose values are read as those of another type.
func (n *jsonNode) encode(values arrow.DataType, field arrow.Field, lenient bool) error {
	n.kind, n.limit = jsonEncoded, math.MaxInt64
	if runs, ok := n.dt.(*arrow.RunEndEncodedType); ok {
		n.limit = math.MaxInt64 >> (64 - runs.RunEnds().(arrow.FixedWidthDataType).BitWidth())
	}
	field.Type = values
	child, err := newJSONNode(field, lenient)
	n.children = []jsonNode{child}
	return err
}

// setOffsets sets the width of the offsets of a type. Views of text and of lists are
// read as what they are views of.
func (n *jsonNode) setOffsets(dt arrow.DataType) {
	n.width, n.limit = 4, math.MaxInt32
	switch dt.ID() {
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST, arrow.LARGE_LIST_VIEW:
		n.width, n.limit = 8, math.MaxInt64
	}
}

func (n *jsonNode) isSparse() bool {
	_, sparse := n.dt.(*arrow.SparseUnionType)
	return sparse
}
