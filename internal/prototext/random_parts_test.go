// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"
)

func (m *protoMaker) mapField(message *descriptorpb.DescriptorProto, field *descriptorpb.FieldDescriptorProto) {
	name := ""
	for part := range strings.SplitSeq(field.GetName(), "_") {
		if part != "" {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	key := &descriptorpb.FieldDescriptorProto{Name: proto.String("key"), Number: proto.Int32(1), Label: label, JsonName: proto.String("key")}
	key.Type = rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Type{3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18}).Draw(m.T, "key").Enum()
	value := &descriptorpb.FieldDescriptorProto{Name: proto.String("value"), Number: proto.Int32(2), Label: label, JsonName: proto.String("value")}
	m.valueType(value)
	for _, enum := range m.enums {
		if m.names[enum] == value.GetTypeName() && enum.Value[0].GetNumber() != 0 {
			value.Type, value.TypeName = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), nil
		}
	}
	message.NestedType = append(message.NestedType, &descriptorpb.DescriptorProto{
		Name: proto.String(name + "Entry"), Field: []*descriptorpb.FieldDescriptorProto{key, value},
		Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
	})
	field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	field.TypeName = proto.String(m.names[message] + "." + name + "Entry")
}

// group makes a field a group, whose type is among the siblings at a random
// place.
func (m *protoMaker) group(prefix string, siblings *[]*descriptorpb.DescriptorProto, field *descriptorpb.FieldDescriptorProto) {
	message := &descriptorpb.DescriptorProto{Name: m.name("G")}
	m.names[message] = prefix + message.GetName()
	m.groups++
	message.NestedType = m.skeletons(prefix+message.GetName()+".", 2)
	for _, nested := range message.NestedType {
		m.fill(nested)
	}
	m.fill(message)
	*siblings = slices.Insert(*siblings, m.upTo(len(*siblings)), message)
	field.Name = proto.String(strings.ToLower(message.GetName()))
	field.JsonName = nil
	field.Type = descriptorpb.FieldDescriptorProto_TYPE_GROUP.Enum()
	field.TypeName = proto.String(m.names[message])
}

// extension draws a run of extensions of one message.
func (m *protoMaker) extension(prefix string, siblings *[]*descriptorpb.DescriptorProto) []*descriptorpb.FieldDescriptorProto {
	var candidates []string
	for _, message := range m.messages {
		if len(message.ExtensionRange) > 0 {
			candidates = append(candidates, m.names[message])
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	extended := rapid.SampledFrom(candidates).Draw(m.T, "extended")
	var extensions []*descriptorpb.FieldDescriptorProto
	for range 1 + m.upTo(2) {
		field := &descriptorpb.FieldDescriptorProto{Name: m.name("x"), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: new(descriptorpb.FieldOptions)}
		field.Number = proto.Int32(int32(2000 + m.count))
		field.Extendee = proto.String(extended)
		m.custom(field.Options)
		switch {
		case m.edition == proto2Edition && m.groups < 2 && m.chance(4):
			m.group(prefix, siblings, field)
		case m.chance(4):
			m.valueType(field)
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		default:
			m.valueType(field)
			m.defaultValue(field)
		}
		extensions = append(extensions, field)
	}
	return extensions
}

func (m *protoMaker) service() *descriptorpb.ServiceDescriptorProto {
	service := &descriptorpb.ServiceDescriptorProto{Name: m.name("S"), Options: new(descriptorpb.ServiceOptions)}
	m.custom(service.Options)
	for range m.upTo(2) {
		method := &descriptorpb.MethodDescriptorProto{Name: m.name("R"), Options: new(descriptorpb.MethodOptions)}
		m.custom(method.Options)
		if m.chance(3) {
			method.Options.IdempotencyLevel = descriptorpb.MethodOptions_IDEMPOTENT.Enum()
		}
		types := []string{".google.protobuf.Any"}
		for _, message := range m.messages {
			types = append(types, m.names[message])
		}
		method.InputType = proto.String(rapid.SampledFrom(types).Draw(m.T, "input"))
		method.OutputType = proto.String(rapid.SampledFrom(types).Draw(m.T, "output"))
		if m.chance(3) {
			method.ClientStreaming = proto.Bool(true)
		}
		if m.chance(3) {
			method.ServerStreaming = proto.Bool(true)
		}
		service.Method = append(service.Method, method)
	}
	return service
}

// custom sets some custom options, or none.
func (m *protoMaker) custom(options proto.Message) {
	if !m.chance(3) {
		return
	}
	for _, option := range m.options[options.ProtoReflect().Descriptor().FullName()] {
		if m.chance(2) {
			options.ProtoReflect().Set(option.TypeDescriptor(), m.optionValue(option.TypeDescriptor(), options.ProtoReflect().NewField(option.TypeDescriptor()), 3))
		}
	}
}

// optionValue draws the value of a field, whose empty form is given.
func (m *protoMaker) optionValue(field protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	switch {
	case field.IsMap():
		for range m.upTo(3) {
			key := m.scalar(field.MapKey()).MapKey()
			value := empty.Map().NewValue()
			empty.Map().Set(key, m.single(field.MapValue(), value, depth))
		}
		return empty
	case field.IsList():
		for range m.upTo(3) {
			var element protoreflect.Value
			if field.Message() != nil {
				element = empty.List().NewElement()
			}
			empty.List().Append(m.single(field, element, depth))
		}
		return empty
	}
	return m.single(field, empty, depth)
}

func (m *protoMaker) single(field protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	if field.Message() == nil {
		return m.scalar(field)
	}
	m.setFields(empty.Message(), depth)
	return empty
}

// setFields sets some fields of a message.
func (m *protoMaker) setFields(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		if member := fields.Get(i); depth > 0 && m.chance(3) {
			message.Set(member, m.optionValue(member, message.NewField(member), depth-1))
		}
	}
	for _, extension := range m.options[message.Descriptor().FullName()] {
		if depth > 0 && !m.shadowed && m.chance(5) {
			member := extension.TypeDescriptor()
			message.Set(member, m.optionValue(member, message.NewField(member), depth-1))
		}
	}
}

func (m *protoMaker) scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	floats := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), 1e40}))
	integers := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64, math.MinInt32, -1}))
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(m.chance(2))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(m.upTo(field.Enum().Values().Len() - 1)).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(m.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(m.T, "bytes"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(floats.Draw(m.T, "float")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(floats.Draw(m.T, "double"))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(integers.Draw(m.T, "int32")))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(integers.Draw(m.T, "uint32")))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(integers.Draw(m.T, "uint64")))
	default:
		return protoreflect.ValueOfInt64(integers.Draw(m.T, "int64"))
	}
}
