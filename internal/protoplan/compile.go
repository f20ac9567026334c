// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxDepth bounds how deep messages are expanded into columns.
	maxDepth = 64
	// maxLeaves bounds how many fields a plan has. Types that many fields share
	// are expanded at each of them, which may double a plan with every level.
	maxLeaves = 10_000
)

// Compile returns the plan of a message. Messages that contain themselves, and
// those that are too deep or too many to be columns, are JSON text.
func Compile(descriptor protoreflect.MessageDescriptor) *Plan {
	c := compiler{}
	root := c.message(descriptor)
	p := &Plan{root: root, fields: make([]arrow.Field, len(root.fields))}
	for i, f := range root.fields {
		p.fields[i] = f.column
	}
	return p
}

// CompileField returns the Arrow field of one field of a message.
func CompileField(field protoreflect.FieldDescriptor) arrow.Field {
	c := compiler{path: []protoreflect.FullName{field.ContainingMessage().FullName()}}
	return c.field(field, -1).column
}

// compiler makes the plan of one message.
type compiler struct {
	path   []protoreflect.FullName // messages that are being compiled
	leaves int
}

// message compiles a message that is to be columns.
func (c *compiler) message(descriptor protoreflect.MessageDescriptor) *messagePlan {
	c.path = append(c.path, descriptor.FullName())
	defer func() { c.path = c.path[:len(c.path)-1] }()
	m := &messagePlan{descriptor: descriptor}
	fields := descriptor.Fields()
	c.leaves += fields.Len()
	oneofs := map[protoreflect.FullName]int{}
	for i := range fields.Len() {
		oneof := -1
		if of := realOneof(fields.Get(i)); of != nil {
			known, ok := oneofs[of.FullName()]
			if !ok {
				known = len(oneofs)
				oneofs[of.FullName()] = known
			}
			oneof = known
		}
		f := c.field(fields.Get(i), oneof)
		f.index = i
		m.fields = append(m.fields, f)
	}
	m.oneofs = len(oneofs)
	m.index()
	return m
}

// realOneof returns the oneof that the text declares around a field, or nil.
func realOneof(field protoreflect.FieldDescriptor) protoreflect.OneofDescriptor {
	if of := field.ContainingOneof(); of != nil && !of.IsSynthetic() {
		return of
	}
	return nil
}

// field compiles a field; oneof is its oneof's place in the message, or -1.
func (c *compiler) field(descriptor protoreflect.FieldDescriptor, oneof int) *fieldPlan {
	f := &fieldPlan{
		number:   descriptor.Number(),
		name:     string(descriptor.Name()),
		nullable: descriptor.HasPresence(),
		required: descriptor.Cardinality() == protoreflect.Required,
		packed:   descriptor.IsPacked(),
		oneof:    oneof,
	}
	var metadata map[string]string
	switch {
	case descriptor.IsMap():
		f.cardinality = mapped
		f.entry = c.entry(descriptor)
		key, value := f.entry.fields[0], f.entry.fields[1]
		f.value = valuePlan{shape: structShape, wire: protowire.BytesType, message: f.entry}
		f.value.column = arrow.MapOfFields(key.column, value.column)
	case descriptor.IsList():
		f.cardinality = repeated
		f.value, metadata = c.value(descriptor)
		f.column.Type = arrow.ListOfField(arrow.Field{Name: "item", Type: f.value.column, Metadata: metadataOf(metadata)})
		metadata = nil
	default:
		f.value, metadata = c.value(descriptor)
		f.column.Type = f.value.column
	}
	if f.cardinality == mapped {
		f.column.Type = f.value.column
	}
	if of := realOneof(descriptor); of != nil {
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[KeyOneof] = string(of.Name())
	}
	f.column.Name, f.column.Nullable, f.column.Metadata = f.name, f.nullable, metadataOf(metadata)
	return f
}

// metadataOf returns field metadata with its keys in ascending order.
func metadataOf(pairs map[string]string) arrow.Metadata {
	if len(pairs) == 0 {
		return arrow.Metadata{}
	}
	return arrow.MetadataFrom(pairs)
}

// entry compiles the entries of a map. Both columns of an entry are never null.
func (c *compiler) entry(descriptor protoreflect.FieldDescriptor) *messagePlan {
	m := &messagePlan{descriptor: descriptor.Message()}
	for i, of := range []protoreflect.FieldDescriptor{descriptor.MapKey(), descriptor.MapValue()} {
		value, metadata := c.value(of)
		f := &fieldPlan{index: i, number: of.Number(), name: string(of.Name()), value: value, oneof: -1, present: true}
		f.column = arrow.Field{Name: f.name, Type: value.column, Metadata: metadataOf(metadata)}
		m.fields = append(m.fields, f)
	}
	m.index()
	return m
}

// value compiles the values of a field, and returns their metadata.
func (c *compiler) value(field protoreflect.FieldDescriptor) (valuePlan, map[string]string) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return c.messageValue(field.Message(), protowire.BytesType)
	case protoreflect.GroupKind:
		return c.messageValue(field.Message(), protowire.StartGroupType)
	}
	v := scalarValue(field)
	if v.storage == storeEnum {
		return v, map[string]string{KeyEnum: string(field.Enum().FullName())}
	}
	return v, nil
}

// scalarValue compiles the values of a field that is no message.
func scalarValue(field protoreflect.FieldDescriptor) valuePlan {
	switch field.Kind() {
	case protoreflect.DoubleKind:
		return valuePlan{storage: store64, wire: protowire.Fixed64Type, float: true, column: arrow.PrimitiveTypes.Float64}
	case protoreflect.FloatKind:
		return valuePlan{storage: store32, wire: protowire.Fixed32Type, float: true, column: arrow.PrimitiveTypes.Float32}
	case protoreflect.Int32Kind:
		return valuePlan{storage: store32, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Int32}
	case protoreflect.Sint32Kind:
		return valuePlan{storage: storeZigZag32, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Int32}
	case protoreflect.Sfixed32Kind:
		return valuePlan{storage: store32, wire: protowire.Fixed32Type, column: arrow.PrimitiveTypes.Int32}
	case protoreflect.Int64Kind:
		return valuePlan{storage: store64, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Int64}
	case protoreflect.Sint64Kind:
		return valuePlan{storage: storeZigZag64, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Int64}
	case protoreflect.Sfixed64Kind:
		return valuePlan{storage: store64, wire: protowire.Fixed64Type, column: arrow.PrimitiveTypes.Int64}
	case protoreflect.Uint32Kind:
		return valuePlan{storage: storeUint32, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Int64}
	case protoreflect.Fixed32Kind:
		return valuePlan{storage: storeUint32, wire: protowire.Fixed32Type, column: arrow.PrimitiveTypes.Int64}
	case protoreflect.Uint64Kind:
		return valuePlan{storage: store64, wire: protowire.VarintType, column: arrow.PrimitiveTypes.Uint64}
	case protoreflect.Fixed64Kind:
		return valuePlan{storage: store64, wire: protowire.Fixed64Type, column: arrow.PrimitiveTypes.Uint64}
	case protoreflect.BoolKind:
		return valuePlan{storage: storeBool, wire: protowire.VarintType, column: arrow.FixedWidthTypes.Boolean}
	case protoreflect.EnumKind:
		v := valuePlan{storage: storeEnum, wire: protowire.VarintType, enum: newEnumNames(field.Enum()), column: arrow.BinaryTypes.String}
		if zero := field.Default(); zero.IsValid() { // lists have none
			v.zero = uint64(int64(zero.Enum()))
		}
		return v
	case protoreflect.StringKind:
		return valuePlan{storage: storeBytes, wire: protowire.BytesType, utf8: checksText(field), column: arrow.BinaryTypes.String}
	default: // bytes
		return valuePlan{storage: storeBytes, wire: protowire.BytesType, column: arrow.BinaryTypes.Binary}
	}
}

// checksText reports whether texts of a field must be valid UTF-8.
func checksText(field protoreflect.FieldDescriptor) bool {
	if explicit, ok := field.(interface{ EnforceUTF8() bool }); ok {
		return explicit.EnforceUTF8()
	}
	return field.Syntax() == protoreflect.Proto3
}

// messageValue compiles the values of a field that is a message.
func (c *compiler) messageValue(m protoreflect.MessageDescriptor, wire protowire.Type) (valuePlan, map[string]string) {
	switch {
	case m.FullName() == "google.protobuf.Timestamp" && hasKinds(m, protoreflect.Int64Kind, protoreflect.Int32Kind):
		return valuePlan{
			shape: timestampShape, wire: wire, message: scalarMessage(m),
			column: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		}, nil
	case isWrapper(m):
		inner := scalarMessage(m)
		return valuePlan{shape: wrapperShape, wire: wire, message: inner, column: inner.fields[0].value.column},
			map[string]string{KeyWrapper: string(m.FullName())}
	case isJSON(m) || slices.Contains(c.path, m.FullName()) || len(c.path) >= maxDepth || c.leaves+m.Fields().Len() > maxLeaves:
		return valuePlan{shape: jsonShape, wire: wire, json: newJSONType(m), column: arrow.BinaryTypes.String},
			map[string]string{KeyJSON: "true", KeyMessage: string(m.FullName())}
	}
	inner := c.message(m)
	fields := make([]arrow.Field, len(inner.fields))
	for i, f := range inner.fields {
		fields[i] = f.column
	}
	return valuePlan{shape: structShape, wire: wire, message: inner, column: arrow.StructOf(fields...)}, nil
}

// scalarMessage compiles a message of singular scalars that is not a struct
// itself.
func scalarMessage(descriptor protoreflect.MessageDescriptor) *messagePlan {
	c := compiler{}
	return c.message(descriptor)
}

// wrapperKinds are the messages that wrap one value.
var wrapperKinds = map[protoreflect.FullName]protoreflect.Kind{
	"google.protobuf.DoubleValue": protoreflect.DoubleKind,
	"google.protobuf.FloatValue":  protoreflect.FloatKind,
	"google.protobuf.Int64Value":  protoreflect.Int64Kind,
	"google.protobuf.UInt64Value": protoreflect.Uint64Kind,
	"google.protobuf.Int32Value":  protoreflect.Int32Kind,
	"google.protobuf.UInt32Value": protoreflect.Uint32Kind,
	"google.protobuf.BoolValue":   protoreflect.BoolKind,
	"google.protobuf.StringValue": protoreflect.StringKind,
	"google.protobuf.BytesValue":  protoreflect.BytesKind,
}

func isWrapper(m protoreflect.MessageDescriptor) bool {
	kind, ok := wrapperKinds[m.FullName()]
	return ok && hasKinds(m, kind)
}

// hasKinds reports whether a message has exactly the fields that its well-known
// name promises: singular ones of those kinds, numbered from 1.
func hasKinds(m protoreflect.MessageDescriptor, kinds ...protoreflect.Kind) bool {
	if m.Fields().Len() != len(kinds) {
		return false
	}
	for i, kind := range kinds {
		f := m.Fields().Get(i)
		if f.Kind() != kind || f.Cardinality() == protoreflect.Repeated || f.Number() != protowire.Number(i+1) || realOneof(f) != nil {
			return false
		}
	}
	return true
}

func isJSON(m protoreflect.MessageDescriptor) bool {
	switch m.FullName() {
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		return true
	}
	return false
}
