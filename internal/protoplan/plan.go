// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"cmp"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Keys of the metadata of fields.
const (
	KeyJSON    = "krabka.json"
	KeyEnum    = "krabka.proto.enum"
	KeyOneof   = "krabka.proto.oneof"
	KeyWrapper = "krabka.proto.wrapper"
	KeyMessage = "krabka.proto.message"
)

// Plan is how a message stands in columns and on the wire. It is immutable and
// safe for concurrent use.
type Plan struct {
	root   *messagePlan
	fields []arrow.Field
}

// shape is the form that a value has in a column.
type shape uint8

const (
	scalarShape shape = iota
	structShape
	wrapperShape   // a scalar inside a message
	timestampShape // google.protobuf.Timestamp
	jsonShape      // a message as JSON text
)

// storage is how the wire's number or bytes are kept in a column.
type storage uint8

const (
	store64     storage = iota // as they are
	store32                    // the low half
	storeUint32                // the low half, in 64 bits
	storeZigZag64
	storeZigZag32
	storeBool
	storeBytes
	storeEnum // as the text of a name
)

// messagePlan is a message whose fields are columns.
type messagePlan struct {
	descriptor protoreflect.MessageDescriptor
	fields     []*fieldPlan // in the order of columns
	byNumber   []*fieldPlan // ascending, as fields are written
	oneofs     int
	// byTag gives the field of a tag of one byte: its position and 1, or 0.
	byTag [128]uint16
	// dense gives the field of a small number, and sparse that of others.
	dense  []uint16
	sparse map[protowire.Number]uint16
}

// cardinality says how many values a field has.
type cardinality uint8

const (
	singular cardinality = iota
	repeated
	mapped
)

// fieldPlan is a field of a message.
type fieldPlan struct {
	index       int // in its message
	number      protowire.Number
	name        string
	column      arrow.Field
	cardinality cardinality
	value       valuePlan    // of a map: its entries
	entry       *messagePlan // of a map: key and value
	nullable    bool         // absent is null
	required    bool
	packed      bool   // how it is written
	tag, end    []byte // in front of each value or of the packed list, and behind a group
	oneof       int    // among those of the message, -1 without
	// present is set for values of maps, which count as there when they are not
	// on the wire.
	present bool
}

// valuePlan is a value of a field.
type valuePlan struct {
	shape   shape
	storage storage
	wire    protowire.Type
	utf8    bool         // the text is checked
	float   bool         // the number is a floating-point one
	zero    uint64       // the number that stands for none
	enum    *enumNames   // of storeEnum
	message *messagePlan // of structs, wrappers and timestamps
	json    *jsonType    // of jsonShape
	column  arrow.DataType
}

// Descriptor returns the message of the plan.
func (p *Plan) Descriptor() protoreflect.MessageDescriptor { return p.root.descriptor }

// Fields returns the Arrow fields of the message, in the order in which its text
// declares them. They must not be changed.
func (p *Plan) Fields() []arrow.Field { return p.fields }

// index makes the tables that find fields.
func (m *messagePlan) index() {
	m.byNumber = make([]*fieldPlan, len(m.fields))
	copy(m.byNumber, m.fields)
	slices.SortFunc(m.byNumber, func(a, b *fieldPlan) int { return cmp.Compare(a.number, b.number) })
	for i, f := range m.fields {
		f.setTag()
		if f.number < denseNumbers {
			if grow := int(f.number) + 1 - len(m.dense); grow > 0 {
				m.dense = append(m.dense, make([]uint16, grow)...)
			}
			m.dense[f.number] = uint16(i + 1)
		} else {
			if m.sparse == nil {
				m.sparse = map[protowire.Number]uint16{}
			}
			m.sparse[f.number] = uint16(i + 1)
		}
		for wire := range protowire.Type(6) {
			if tag := protowire.EncodeTag(f.number, wire); tag < 128 && f.accepts(wire) {
				m.byTag[tag] = uint16(i + 1)
			}
		}
	}
}

// appendTag appends the tag, which is one byte for most fields.
func (f *fieldPlan) appendTag(dst []byte) []byte {
	if len(f.tag) == 1 {
		return append(dst, f.tag[0])
	}
	return append(dst, f.tag...)
}

// setTag sets what stands around the values that are written.
func (f *fieldPlan) setTag() {
	f.packed = f.packed && f.cardinality == repeated && f.packable()
	wire := f.value.wire
	if f.packed {
		wire = protowire.BytesType
	}
	f.tag = protowire.AppendTag(nil, f.number, wire)
	if wire == protowire.StartGroupType {
		f.end = protowire.AppendTag(nil, f.number, protowire.EndGroupType)
	}
}

// denseNumbers bounds the table of small field numbers.
const denseNumbers = 1024

// accepts reports whether values of the field may stand on the wire in a form.
// In any other form they count as unknown.
func (f *fieldPlan) accepts(wire protowire.Type) bool {
	if wire == f.value.wire {
		return true
	}
	return wire == protowire.BytesType && f.cardinality == repeated && f.packable()
}

// packable reports whether values of the field can be packed.
func (f *fieldPlan) packable() bool {
	return f.value.shape == scalarShape && f.value.storage != storeBytes
}

// find returns the position of the field of a number, and 1; 0 without one.
func (m *messagePlan) find(number protowire.Number) uint16 {
	if number < denseNumbers {
		if int(number) < len(m.dense) {
			return m.dense[number]
		}
		return 0
	}
	return m.sparse[number]
}
