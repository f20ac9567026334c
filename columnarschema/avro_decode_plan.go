// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// maxConstantBytes is the largest default that is appended without being read
// again for each record.
const maxConstantBytes = 256

// avroDecodeCompiler compiles plans to ops for the columns of a schema.
type avroDecodeCompiler struct{ spec *columnset.Spec }

// compileAvro returns the plan that reads records of writer into the columns of
// spec, which are those of reader, a record.
func compileAvro(writer, reader *avroplan.Schema, spec *columnset.Spec) (*avroDecodePlan, error) {
	node, err := avroplan.Resolve(writer, reader)
	if err != nil {
		return nil, err
	}
	k := avroDecodeCompiler{spec}
	if node.Choose != nil { // of a writer's union
		return &avroDecodePlan{fields: []avroOp{k.topUnion(node)}}, nil
	}
	return &avroDecodePlan{fields: k.fields(node, spec.Columns()), empty: node.Empty}, nil
}

// topUnion compiles a writer's union whose branches are read as the record.
func (k *avroDecodeCompiler) topUnion(n *avroplan.Node) avroOp {
	o := avroOp{code: avroChoose}
	for _, b := range n.Choose.Branches {
		if b.Node.Err != "" {
			o.kids = append(o.kids, avroOp{code: avroFail, avroOpMore: &avroOpMore{node: b.Node}})
			continue
		}
		o.kids = append(o.kids, avroOp{code: avroRecord, kids: k.fields(b.Node, k.spec.Columns()), size: int32(b.Node.Empty)})
	}
	return o
}

// fields compiles the fields of a record to columns, one a field of the reader.
func (k *avroDecodeCompiler) fields(n *avroplan.Node, columns []*columnset.ColumnSpec) []avroOp {
	ops := make([]avroOp, 0, len(n.Steps)+len(n.Defaults))
	for _, step := range n.Steps {
		if step.Node == nil {
			o := skipAvro(step.Writer.Type)
			o.name = step.Writer.Name
			ops = append(ops, o)
			continue
		}
		o := k.value(step.Node, columns[step.Field])
		o.name = step.Writer.Name
		ops = append(ops, o)
	}
	for _, d := range n.Defaults {
		o := k.missing(d, columns[d.Field])
		o.name = n.Schema.Fields[d.Field].Name
		ops = append(ops, o)
	}
	return ops
}

// skipAvro compiles what passes over data of a writer's schema.
func skipAvro(s *avroplan.Schema) avroOp {
	o := avroOp{code: avroSkip, col: -1, avroOpMore: &avroOpMore{writer: s}}
	switch s.Kind {
	case avroplan.Long:
		o.code = avroSkipLong
	case avroplan.Bytes, avroplan.String:
		o.code = avroSkipBytes
	case avroplan.Union:
		null := slices.IndexFunc(s.Branches, func(b *avroplan.Schema) bool { return b.Kind == avroplan.Null })
		if len(s.Branches) == 2 && null >= 0 {
			o.code, o.null, o.kids = avroNullable, uint8(null), []avroOp{skipAvro(s.Branches[1-null])}
		}
	}
	return o
}

// missing compiles the default of a field that the writer does not have.
func (k *avroDecodeCompiler) missing(d avroplan.Default, column *columnset.ColumnSpec) avroOp {
	read := k.value(d.Node, column)
	o := avroOp{code: avroDefault, col: int32(column.ID), kids: []avroOp{read}, avroOpMore: &avroOpMore{data: d.Data}}
	set := columnset.New(k.spec, memory.DefaultAllocator)
	defer set.Discard()
	set.Begin(memory.DefaultAllocator, 1, len(d.Data))
	r := avroReader{columns: set.All()}
	r.cursor.Reset(d.Data)
	if _, err := r.run(o.kids, 0); err != nil {
		return o // it fails for every record
	}
	switch value := r.columns[column.ID]; {
	case value.NullN() > 0:
		return avroOp{code: avroNull, col: int32(column.ID)}
	case len(column.Children) == 0 && len(d.Data) <= maxConstantBytes:
		return avroOp{code: avroConstant, col: int32(column.ID), avroOpMore: &avroOpMore{data: value.Constant()}}
	}
	return o
}

// value compiles a node to a column.
func (k *avroDecodeCompiler) value(n *avroplan.Node, column *columnset.ColumnSpec) avroOp {
	o := avroOp{col: int32(column.ID), size: int32(n.Schema.Size), avroOpMore: &avroOpMore{node: n}}
	if n.Err != "" {
		o.code = avroFail
		return o
	}
	if n.Choose != nil {
		return k.union(n, column)
	}
	if metadataValue(column.Field, MetadataJSON) != "" {
		o.code = avroText
		return o
	}
	s := n.Schema
	switch s.Kind {
	case avroplan.Null:
		o.code = avroNull
	case avroplan.Boolean:
		o.code = avroBool
	case avroplan.Int:
		o.code = avroInt
	case avroplan.Long:
		o.code = plainOr(n, avroLong, avroLongNode)
		if n.Wire == avroplan.Int && n.Factor == 0 {
			o.code = avroIntLong
		}
	case avroplan.Float:
		o.code = plainOr(n, avroFloat, avroFloatNode)
	case avroplan.Double:
		o.code = plainOr(n, avroDouble, avroDoubleNode)
	case avroplan.String:
		o.code = avroString
	case avroplan.Bytes, avroplan.Fixed:
		o.code = avroBytes
		if s.Kind == avroplan.Fixed {
			o.code = avroFixed
		}
		if s.Logical == avroplan.Decimal {
			o.code += avroDecimalBytes - avroBytes
			o.limit, o.width = powerOfTen(s.Precision), column.Field.Type.(arrow.FixedWidthDataType).Bytes()
		}
	case avroplan.Enum:
		o.code = avroSymbolIndex
		if column.Field.Type.ID() != arrow.DICTIONARY {
			o.code = avroSymbol
			for _, symbol := range n.Symbols {
				var text []byte
				if symbol >= 0 {
					text = []byte(s.Symbols[symbol])
				}
				o.symbols = append(o.symbols, text)
			}
		}
	case avroplan.Array:
		o.code, o.size = avroList, int32(n.ItemSize)
		o.kids = []avroOp{k.value(n.Items, column.Children[0])}
	case avroplan.Map:
		o.code, o.size = avroMap, int32(n.ItemSize)
		o.kids = []avroOp{{code: avroString, col: int32(column.Children[0].ID)}, k.value(n.Items, column.Children[1])}
	case avroplan.Record:
		o.code, o.size = avroStruct, int32(n.Empty)
		o.kids = k.fields(n, column.Children)
	}
	return o
}

func plainOr(n *avroplan.Node, plain, other avroCode) avroCode {
	if n.Plain() {
		return plain
	}
	return other
}

// union compiles a union on either side.
func (k *avroDecodeCompiler) union(n *avroplan.Node, column *columnset.ColumnSpec) avroOp {
	branches := make([]avroOp, len(n.Choose.Branches))
	null := -1
	for i, b := range n.Choose.Branches {
		branches[i] = k.branch(n.Schema, b, column)
		if branches[i].code == avroNull {
			null = i
		}
	}
	if !n.Choose.Indexed {
		return branches[0]
	}
	if len(branches) == 2 && null >= 0 {
		return avroOp{code: avroNullable, col: int32(column.ID), null: uint8(null), kids: []avroOp{branches[1-null]}}
	}
	return avroOp{code: avroChoose, col: int32(column.ID), kids: branches}
}

// branch compiles what belongs to one branch of the reader's schema.
func (k *avroDecodeCompiler) branch(reader *avroplan.Schema, b avroplan.Branch, column *columnset.ColumnSpec) avroOp {
	if b.Node.Err == "" && b.Node.Schema.Kind == avroplan.Null {
		return avroOp{code: avroNull, col: int32(column.ID)}
	}
	if b.Node.Err != "" || reader.Kind != avroplan.Union || reader.Values() < 2 {
		return k.value(b.Node, column)
	}
	own := -1
	o := avroOp{code: avroBranch, col: int32(column.ID), avroOpMore: new(avroOpMore)}
	for i, ordinal := 0, 0; i < len(reader.Branches); i++ {
		if reader.Branches[i].Kind == avroplan.Null {
			continue
		}
		if i == b.Reader {
			own = ordinal
		} else {
			o.others = append(o.others, column.Children[ordinal].ID)
		}
		ordinal++
	}
	o.kids = []avroOp{k.value(b.Node, column.Children[own])}
	return o
}
