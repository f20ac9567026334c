// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The files that random messages import.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// randomSchema makes files of random messages.
type randomSchema struct {
	*rand.Rand
	file   *descriptorpb.FileDescriptorProto
	proto2 bool
}

// newRandomFile returns a file whose first message refers to the others. With
// loosened, lists that are packed are not, and the other way around.
func newRandomFile(t *testing.T, r *rand.Rand) (file, loosened protoreflect.FileDescriptor) {
	t.Helper()
	s := &randomSchema{Rand: r}
	s.file = &descriptorpb.FileDescriptorProto{Name: proto.String("random.proto"), Package: proto.String("random"), Dependency: []string{
		"google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "google/protobuf/struct.proto",
		"google/protobuf/duration.proto", "google/protobuf/any.proto",
	}}
	switch r.IntN(3) {
	case 0:
		s.file.Syntax = proto.String("proto3")
	case 1:
		s.file.Syntax, s.proto2 = proto.String("proto2"), true
	default:
		s.file.Syntax = proto.String("editions")
		s.file.Edition = descriptorpb.Edition_EDITION_2023.Enum()
		if r.IntN(2) == 0 {
			s.file.Options = &descriptorpb.FileOptions{Features: &descriptorpb.FeatureSet{
				FieldPresence:   descriptorpb.FeatureSet_IMPLICIT.Enum(),
				MessageEncoding: descriptorpb.FeatureSet_DELIMITED.Enum(),
			}}
		}
	}
	s.file.EnumType = []*descriptorpb.EnumDescriptorProto{{Name: proto.String("Color"), Value: []*descriptorpb.EnumValueDescriptorProto{
		{Name: proto.String("RED"), Number: proto.Int32(0)}, {Name: proto.String("BLUE"), Number: proto.Int32(1)},
		{Name: proto.String("MINUS"), Number: proto.Int32(-5)}, {Name: proto.String("FAR"), Number: proto.Int32(r.Int32())},
	}}}
	for i := range 4 {
		s.file.MessageType = append(s.file.MessageType, s.message(i, 3+r.IntN(8)))
	}
	build := func() protoreflect.FileDescriptor {
		fd, err := protodesc.NewFile(s.file, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatalf("random file: %v", err)
		}
		return fd
	}
	file = build()
	flipPacked(s.file, file)
	return file, build()
}

func flipPacked(text *descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor) {
	for i, m := range text.MessageType {
		for j, f := range m.Field {
			field := file.Messages().Get(i).Fields().Get(j)
			if !field.IsList() || field.Message() != nil || field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind {
				continue
			}
			if text.GetSyntax() != "editions" {
				f.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(!field.IsPacked())}
				continue
			}
			encoding := descriptorpb.FeatureSet_EXPANDED
			if !field.IsPacked() {
				encoding = descriptorpb.FeatureSet_PACKED
			}
			f.Options = &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{RepeatedFieldEncoding: encoding.Enum()}}
		}
	}
}

// message makes message M<place>, whose fields refer to later ones, or to itself.
func (s *randomSchema) message(place, fields int) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprintf("M%d", place))}
	number := int32(0)
	oneof := s.IntN(2) == 0
	if oneof {
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("choice")}}
	}
	for i := range fields {
		number += 1 + int32(s.IntN(4))
		if s.IntN(12) == 0 {
			number += int32(s.IntN(3000))
		}
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprintf("f%d", i)), Number: proto.Int32(number),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		s.kind(f, place)
		switch n := s.IntN(10); {
		case n == 0:
			s.mapField(m, f)
		case n < 4:
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		case n < 6 && oneof:
			f.OneofIndex = proto.Int32(0)
		case n == 6 && s.proto2 && s.IntN(4) == 0:
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
		}
		m.Field = append(m.Field, f)
	}
	if !slices.ContainsFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool { return inOneof(f) == 1 }) {
		m.OneofDecl = nil
	}
	s.Shuffle(len(m.Field), func(i, j int) { m.Field[i], m.Field[j] = m.Field[j], m.Field[i] })
	// The members of a oneof stand together.
	slices.SortStableFunc(m.Field, func(a, b *descriptorpb.FieldDescriptorProto) int { return inOneof(a) - inOneof(b) })
	return m
}

// inOneof is 1 for members of a oneof.
func inOneof(f *descriptorpb.FieldDescriptorProto) int {
	if f.OneofIndex != nil {
		return 1
	}
	return 0
}

var wellKnown = []string{
	"Timestamp", "StringValue", "Int32Value", "UInt32Value", "UInt64Value", "BoolValue", "DoubleValue", "FloatValue", "BytesValue",
	"Int64Value", "Struct", "Value", "ListValue", "Duration", "Any",
}

func (s *randomSchema) kind(f *descriptorpb.FieldDescriptorProto, place int) {
	message := func(name string) {
		f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(name)
	}
	switch n := s.IntN(24); {
	case n < 3 && place < 3:
		message(fmt.Sprintf(".random.M%d", place+1+s.IntN(3-place)))
	case n == 3:
		message(fmt.Sprintf(".random.M%d", place)) // contains itself
	case n < 7:
		message(".google.protobuf." + wellKnown[s.IntN(len(wellKnown))])
	case n == 7:
		f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), proto.String(".random.Color")
	default:
		for {
			kind := descriptorpb.FieldDescriptorProto_Type(1 + s.IntN(18))
			switch kind {
			case descriptorpb.FieldDescriptorProto_TYPE_GROUP, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_ENUM:
				continue
			}
			f.Type = kind.Enum()
			return
		}
	}
}

// mapField makes a map of a field.
func (s *randomSchema) mapField(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) {
	keys := []descriptorpb.FieldDescriptorProto_Type{
		descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BOOL, descriptorpb.FieldDescriptorProto_TYPE_INT32,
		descriptorpb.FieldDescriptorProto_TYPE_UINT64, descriptorpb.FieldDescriptorProto_TYPE_SINT64, descriptorpb.FieldDescriptorProto_TYPE_FIXED32,
	}
	name := "F" + f.GetName()[1:] + "Entry"
	optional := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	value := &descriptorpb.FieldDescriptorProto{Name: proto.String("value"), Number: proto.Int32(2), Label: optional, Type: f.Type, TypeName: f.TypeName}
	m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{
		Name: proto.String(name), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("key"), Number: proto.Int32(1), Label: optional, Type: keys[s.IntN(len(keys))].Enum()}, value,
		},
	})
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	f.TypeName = proto.String(".random." + m.GetName() + "." + name)
}

// fill sets random fields of a message.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Any":
		return // its value would have to be of a known type
	case "google.protobuf.Value":
		fields := m.Descriptor().Fields()
		f := fields.Get(r.IntN(4))
		m.Set(f, randomScalar(r, f))
		return
	case "google.protobuf.Timestamp":
		m.Set(m.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(r.Int64N(1<<40)-1<<39))
		m.Set(m.Descriptor().Fields().ByName("nanos"), protoreflect.ValueOfInt32(r.Int32N(1e9)))
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Cardinality() != protoreflect.Required && r.IntN(3) == 0 || f.Message() != nil && !f.IsMap() && depth > 2 {
			continue
		}
		switch {
		case f.IsMap():
			for range r.IntN(4 - min(depth, 2)) {
				value := randomScalar
				key := randomScalar(r, f.MapKey()).MapKey()
				if f.MapValue().Message() != nil {
					fill(r, m.Mutable(f).Map().Mutable(key).Message(), depth+1)
					continue
				}
				m.Mutable(f).Map().Set(key, value(r, f.MapValue()))
			}
		case f.IsList():
			for range r.IntN(6 - 2*min(depth, 2)) {
				if f.Message() != nil {
					fill(r, m.Mutable(f).List().AppendMutable().Message(), depth+1)
					continue
				}
				m.Mutable(f).List().Append(randomScalar(r, f))
			}
		case f.Message() != nil:
			fill(r, m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, randomScalar(r, f))
		}
	}
}

func randomScalar(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	bits := r.Uint64() >> r.IntN(64)
	if r.IntN(4) == 0 {
		bits = 0
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(bits&1 != 0)
	case protoreflect.EnumKind:
		if bits&1 == 0 {
			return protoreflect.ValueOfEnum(f.Enum().Values().Get(r.IntN(f.Enum().Values().Len())).Number())
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(bits)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(bits))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(bits))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(bits)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(math.Float32frombits(uint32(bits &^ 0x7f800000)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.Float64frombits(bits &^ (0x7ff << 52)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"", "a", "long enough to need more", "\u00e9\u4e16"}[r.IntN(4)])
	default:
		return protoreflect.ValueOfBytes([]byte{byte(bits), byte(bits >> 8)}[:r.IntN(3)])
	}
}
