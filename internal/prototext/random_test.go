// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// customOptions declares options of every kind for every declaration.
const customOptions = `syntax = "proto2";
package opt;
import "google/protobuf/descriptor.proto";
enum Level { LOW = -1; HIGH = 1; }
message Detail {
  optional bool flag = 1;
  repeated string names = 2;
  optional Detail inner = 3;
  map<string, sint32> counts = 4;
  map<int32, Detail> details = 5;
  optional group Extent = 6 { optional float from = 1; repeated double to = 2; }
  optional Level level = 7;
  optional bytes data = 8;
  extensions 100 to 200;
  extend Detail { optional uint64 extra = 100; repeated Detail more = 101; }
}
extend google.protobuf.FileOptions {
  optional string file_text = 50001; repeated int32 file_numbers = 50002; optional Detail file_detail = 50003; repeated Level file_levels = 50004;
}
extend google.protobuf.MessageOptions {
  optional bytes message_data = 50001; optional fixed64 message_number = 50002; repeated Detail message_details = 50003;
}
extend google.protobuf.FieldOptions {
  optional float field_float = 50001; optional double field_double = 50002; optional Detail field_detail = 50003; repeated string field_texts = 50004;
  optional group FieldGroup = 50005 { optional int64 number = 1; }
}
extend google.protobuf.OneofOptions { optional sfixed32 oneof_number = 50001; optional Detail oneof_detail = 50002; }
extend google.protobuf.EnumOptions { optional bool enum_flag = 50001; optional Level enum_level = 50002; }
extend google.protobuf.EnumValueOptions { optional sint64 value_number = 50001; repeated bytes value_data = 50002; }
extend google.protobuf.ExtensionRangeOptions { optional uint32 range_number = 50001; optional Detail range_detail = 50002; }
extend google.protobuf.ServiceOptions { optional int64 service_number = 50001; optional Detail service_detail = 50002; }
extend google.protobuf.MethodOptions { optional string method_text = 50001; repeated Detail method_details = 50002; }
`

// protoMaker draws a Protobuf file. It is valid as far as protodesc can tell.
type protoMaker struct {
	*rapid.T
	edition  descriptorpb.Edition
	options  map[protoreflect.FullName][]protoreflect.ExtensionType // by the options that they extend
	count    int                                                    // of the names drawn so far
	groups   int
	shadowed bool // the package has a part opt of its own
	messages []*descriptorpb.DescriptorProto
	names    map[proto.Message]string // full names
	enums    []*descriptorpb.EnumDescriptorProto
}

// protoCorpus is what random files import.
type protoCorpus struct {
	files   *protoregistry.Files
	options map[protoreflect.FullName][]protoreflect.ExtensionType
}

func newProtoCorpus(tb testing.TB) protoCorpus {
	tb.Helper()
	file := mustParseProto(tb, customOptions, nil)
	fd := protodesc.ToFileDescriptorProto(file)
	fd.Name = proto.String("opt.proto")
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		tb.Fatal(err)
	}
	c := protoCorpus{new(protoregistry.Files), make(map[protoreflect.FullName][]protoreflect.ExtensionType)}
	for _, file := range []protoreflect.FileDescriptor{
		Standard("google/protobuf/descriptor.proto"), Standard("google/protobuf/any.proto"), file,
	} {
		if err := c.files.RegisterFile(file); err != nil {
			tb.Fatal(err)
		}
	}
	for _, extensions := range []protoreflect.ExtensionDescriptors{file.Extensions(), file.Messages().ByName("Detail").Extensions()} {
		for i := range extensions.Len() {
			extended := extensions.Get(i).ContainingMessage().FullName()
			c.options[extended] = append(c.options[extended], dynamicpb.NewExtensionType(extensions.Get(i)))
		}
	}
	return c
}

// draw returns a random file and its proto.
func (c protoCorpus) draw(t *rapid.T, edition descriptorpb.Edition) (protoreflect.FileDescriptor, *protoMaker, *descriptorpb.FileDescriptorProto) {
	m := &protoMaker{T: t, edition: edition, options: c.options}
	fd := m.file()
	file, err := protodesc.NewFile(fd, c.files)
	if err != nil {
		t.Fatal(err)
	}
	return file, m, fd
}

// chance is true once in n draws.
func (m *protoMaker) chance(n int) bool { return rapid.IntRange(1, n).Draw(m.T, "chance") == 1 }

func (m *protoMaker) upTo(n int) int { return rapid.IntRange(0, n).Draw(m.T, "count") }

func (m *protoMaker) is(editions ...descriptorpb.Edition) bool {
	return slices.Contains(editions, m.edition)
}

const (
	proto2Edition = descriptorpb.Edition_EDITION_PROTO2
	proto3Edition = descriptorpb.Edition_EDITION_PROTO3
	edition2023   = descriptorpb.Edition_EDITION_2023
)

// name draws a name that no other element has.
func (m *protoMaker) name(prefix string) *string {
	m.count++
	return proto.String(fmt.Sprintf("%s%d%s", prefix, m.count, rapid.SampledFrom([]string{"", "_x", "_x_y", "X", "_1"}).Draw(m.T, "suffix")))
}

func (m *protoMaker) file() *descriptorpb.FileDescriptorProto {
	fd := &descriptorpb.FileDescriptorProto{Name: proto.String("random.proto"), Dependency: []string{"opt.proto", "google/protobuf/any.proto"}}
	switch m.edition {
	case proto3Edition:
		fd.Syntax = proto.String("proto3")
	case edition2023:
		fd.Syntax, fd.Edition = proto.String("editions"), edition2023.Enum()
	}
	if !m.chance(4) {
		fd.Package = proto.String(rapid.SampledFrom([]string{"p", "p.q", "opt", "x.opt"}).Draw(m.T, "package"))
		// In braces an extension has no form with a leading dot.
		m.shadowed = fd.GetPackage() == "x.opt"
	}
	if m.chance(3) {
		fd.PublicDependency = []int32{int32(m.upTo(1))}
	}
	m.names = make(map[proto.Message]string)
	prefix := "."
	if fd.Package != nil {
		prefix = "." + fd.GetPackage() + "."
	}
	fd.MessageType = m.skeletons(prefix, 0)
	fd.EnumType = m.enumsOf(prefix, 0)
	for _, message := range slices.Clone(m.messages) {
		m.fill(message)
	}
	for range m.upTo(2) {
		fd.Extension = append(fd.Extension, m.extension(prefix, &fd.MessageType)...)
	}
	for range m.upTo(2) {
		if service := m.service(); service != nil {
			fd.Service = append(fd.Service, service)
		}
	}
	fd.Options = new(descriptorpb.FileOptions)
	if m.chance(2) {
		fd.Options.JavaPackage = proto.String(m.text())
	}
	if m.chance(3) {
		fd.Options.OptimizeFor = descriptorpb.FileOptions_CODE_SIZE.Enum()
	}
	if m.edition == edition2023 && m.chance(3) {
		fd.Options.Features = &descriptorpb.FeatureSet{RepeatedFieldEncoding: descriptorpb.FeatureSet_EXPANDED.Enum()}
	}
	m.custom(fd.Options)
	return fd
}

func (m *protoMaker) text() string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\"b", "\\n", "\t\r\n\x00\x7f", "\u00e9\u2028", "'"})).Draw(m.T, "text")
}

// skeletons draws messages without fields, so that all of them are there to be
// referred to.
func (m *protoMaker) skeletons(prefix string, depth int) []*descriptorpb.DescriptorProto {
	var messages []*descriptorpb.DescriptorProto
	if depth == 3 {
		return nil
	}
	for range m.upTo(3 - depth) {
		message := &descriptorpb.DescriptorProto{Name: m.name("M")}
		m.names[message] = prefix + message.GetName()
		m.messages = append(m.messages, message)
		message.NestedType = m.skeletons(prefix+message.GetName()+".", depth+1)
		message.EnumType = m.enumsOf(prefix+message.GetName()+".", 1)
		if m.is(proto2Edition, edition2023) && m.chance(2) {
			message.ExtensionRange = m.extensionRanges(prefix + message.GetName())
		}
		messages = append(messages, message)
	}
	return messages
}

func (m *protoMaker) extensionRanges(name string) []*descriptorpb.DescriptorProto_ExtensionRange {
	first := &descriptorpb.DescriptorProto_ExtensionRange{Start: proto.Int32(200), End: proto.Int32(int32(201 + m.upTo(100)))}
	second := &descriptorpb.DescriptorProto_ExtensionRange{Start: proto.Int32(1000), End: proto.Int32(536870912), Options: new(descriptorpb.ExtensionRangeOptions)}
	m.custom(second.Options)
	if m.chance(2) {
		first.Options = &descriptorpb.ExtensionRangeOptions{
			Verification: descriptorpb.ExtensionRangeOptions_DECLARATION.Enum(),
			Declaration: []*descriptorpb.ExtensionRangeOptions_Declaration{
				{Number: first.Start, FullName: proto.String(name + "_declared"), Type: proto.String("int32"), Repeated: proto.Bool(m.chance(2))},
			},
		}
	}
	return []*descriptorpb.DescriptorProto_ExtensionRange{first, second}
}

func (m *protoMaker) enumsOf(prefix string, least int) []*descriptorpb.EnumDescriptorProto {
	var enums []*descriptorpb.EnumDescriptorProto
	for range max(least, m.upTo(2)) - least {
		enum := &descriptorpb.EnumDescriptorProto{Name: m.name("E"), Options: new(descriptorpb.EnumOptions)}
		m.names[enum] = prefix + enum.GetName()
		m.enums = append(m.enums, enum)
		first := int32(0)
		if m.edition == proto2Edition && m.chance(3) {
			first = -7
		}
		for i := range int32(1 + m.upTo(3)) {
			value := &descriptorpb.EnumValueDescriptorProto{Name: m.name("V"), Number: proto.Int32(first + 3*i), Options: new(descriptorpb.EnumValueOptions)}
			m.custom(value.Options)
			enum.Value = append(enum.Value, value)
		}
		if m.chance(3) {
			enum.Options.AllowAlias = proto.Bool(true)
			enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{Name: m.name("V"), Number: proto.Int32(first)})
		}
		if m.chance(3) {
			enum.ReservedRange = []*descriptorpb.EnumDescriptorProto_EnumReservedRange{
				{Start: proto.Int32(-100), End: proto.Int32(-100)}, {Start: proto.Int32(100), End: proto.Int32(math.MaxInt32)},
			}
			enum.ReservedName = []string{"R1", "R2"}
		}
		m.custom(enum.Options)
		enums = append(enums, enum)
	}
	return enums
}

// fill draws what is in a message.
func (m *protoMaker) fill(message *descriptorpb.DescriptorProto) {
	message.Options = new(descriptorpb.MessageOptions)
	m.custom(message.Options)
	if m.chance(4) {
		message.Options.Deprecated = proto.Bool(m.chance(2))
	}
	if m.chance(3) {
		message.ReservedRange = []*descriptorpb.DescriptorProto_ReservedRange{
			{Start: proto.Int32(100), End: proto.Int32(101)}, {Start: proto.Int32(110), End: proto.Int32(int32(111 + m.upTo(50)))},
		}
		message.ReservedName = []string{"r1", "r_2"}
	}
	numbers := rapid.SliceOfNDistinct(rapid.Int32Range(1, 99), 0, 8, rapid.ID[int32]).Draw(m.T, "numbers")
	for len(numbers) > 0 && m.chance(3) {
		members := min(len(numbers), 1+m.upTo(2))
		oneof := &descriptorpb.OneofDescriptorProto{Name: m.name("o"), Options: new(descriptorpb.OneofOptions)}
		m.custom(oneof.Options)
		for _, number := range numbers[:members] {
			field := m.field(message, number, true)
			field.OneofIndex = proto.Int32(int32(len(message.OneofDecl)))
			message.Field = append(message.Field, field)
		}
		message.OneofDecl = append(message.OneofDecl, oneof)
		numbers = numbers[members:]
	}
	for _, number := range numbers {
		field := m.field(message, number, false)
		if field.GetProto3Optional() {
			field.OneofIndex = proto.Int32(int32(len(message.OneofDecl)))
			message.OneofDecl = append(message.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + field.GetName())})
		}
		message.Field = append(message.Field, field)
	}
	if m.chance(4) {
		message.Extension = m.extension(m.names[message]+".", &message.NestedType)
	}
}

var scalarTypes = []descriptorpb.FieldDescriptorProto_Type{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18}

// field draws a field of a message. A member of a oneof is never a map or list.
func (m *protoMaker) field(message *descriptorpb.DescriptorProto, number int32, member bool) *descriptorpb.FieldDescriptorProto {
	field := &descriptorpb.FieldDescriptorProto{Name: m.name("f"), Number: proto.Int32(number), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	field.Options = new(descriptorpb.FieldOptions)
	m.custom(field.Options)
	if m.chance(4) {
		field.Options.Deprecated = proto.Bool(true)
	}
	if m.chance(5) {
		field.JsonName = proto.String(m.jsonName())
	}
	if !member && m.chance(6) {
		m.mapField(message, field)
		return field
	}
	if m.edition == proto2Edition && m.groups < 2 && m.chance(4) {
		m.group(m.names[message]+".", &message.NestedType, field)
		return field
	}
	m.valueType(field)
	if member {
		m.defaultValue(field)
		return field
	}
	switch {
	case m.chance(3):
		field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		if m.edition != edition2023 && protoreflect.Kind(field.GetType()) != protoreflect.StringKind &&
			protoreflect.Kind(field.GetType()) != protoreflect.BytesKind && field.GetType() != descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			field.Options.Packed = proto.Bool(m.chance(2))
		}
	case m.edition == proto2Edition && m.chance(3):
		field.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
		m.defaultValue(field)
	case m.edition == proto3Edition && m.chance(2):
		field.Proto3Optional = proto.Bool(true)
	case m.edition == edition2023 && m.chance(2):
		m.fieldFeatures(field)
	default:
		m.defaultValue(field)
	}
	return field
}

func (m *protoMaker) jsonName() string {
	m.count++
	return "j\u00fc\"" + strconv.Itoa(m.count)
}

func (m *protoMaker) fieldFeatures(field *descriptorpb.FieldDescriptorProto) {
	field.Options.Features = new(descriptorpb.FeatureSet)
	if field.GetType() == descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
		field.Options.Features.MessageEncoding = descriptorpb.FeatureSet_DELIMITED.Enum()
		return
	}
	field.Options.Features.FieldPresence = rapid.SampledFrom([]descriptorpb.FeatureSet_FieldPresence{
		descriptorpb.FeatureSet_EXPLICIT, descriptorpb.FeatureSet_IMPLICIT, descriptorpb.FeatureSet_LEGACY_REQUIRED,
	}).Draw(m.T, "presence").Enum()
}

func (m *protoMaker) valueType(field *descriptorpb.FieldDescriptorProto) {
	switch {
	case m.chance(6) && len(m.enums) > 0:
		field.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
		field.TypeName = proto.String(m.names[rapid.SampledFrom(m.enums).Draw(m.T, "enum")])
	case m.chance(4) && len(m.messages) > 0:
		field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		field.TypeName = proto.String(m.names[rapid.SampledFrom(m.messages).Draw(m.T, "message")])
	case m.chance(8):
		field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		field.TypeName = proto.String(".google.protobuf.Any")
	default:
		field.Type = rapid.SampledFrom(scalarTypes).Draw(m.T, "type").Enum()
		if field.GetType() == descriptorpb.FieldDescriptorProto_TYPE_ENUM {
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum()
		}
	}
}

// defaultValue gives a field with presence a default.
func (m *protoMaker) defaultValue(field *descriptorpb.FieldDescriptorProto) {
	if m.edition == proto3Edition || m.chance(2) {
		return
	}
	number := rapid.OneOf(rapid.Int32(), rapid.SampledFrom([]int32{0, math.MinInt32, math.MaxInt32})).Draw(m.T, "number")
	floats := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1), 1e300, 0.1, 5e-324}))
	value := ""
	switch field.GetType() {
	case descriptorpb.FieldDescriptorProto_TYPE_BOOL:
		value = strconv.FormatBool(number > 0)
	case descriptorpb.FieldDescriptorProto_TYPE_STRING:
		value = m.text()
	case descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		for _, b := range rapid.SliceOf(rapid.Byte()).Draw(m.T, "bytes") {
			value += fmt.Sprintf(`\%03o`, b)
		}
	case descriptorpb.FieldDescriptorProto_TYPE_DOUBLE:
		value = strconv.FormatFloat(floats.Draw(m.T, "double"), 'g', -1, 64)
	case descriptorpb.FieldDescriptorProto_TYPE_FLOAT:
		value = strconv.FormatFloat(float64(float32(floats.Draw(m.T, "float"))), 'g', -1, 32)
	case descriptorpb.FieldDescriptorProto_TYPE_UINT32, descriptorpb.FieldDescriptorProto_TYPE_FIXED32:
		value = strconv.FormatUint(uint64(uint32(number)), 10)
	case descriptorpb.FieldDescriptorProto_TYPE_UINT64, descriptorpb.FieldDescriptorProto_TYPE_FIXED64:
		value = strconv.FormatUint(uint64(int64(number))<<31, 10)
	case descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_SINT64, descriptorpb.FieldDescriptorProto_TYPE_SFIXED64:
		value = strconv.FormatInt(int64(number)<<32, 10)
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
		return
	case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
		for _, enum := range m.enums {
			if m.names[enum] == field.GetTypeName() {
				value = rapid.SampledFrom(enum.Value).Draw(m.T, "value").GetName()
			}
		}
	default:
		value = strconv.Itoa(int(number))
	}
	switch value {
	case "+Inf":
		value = "inf"
	case "-Inf":
		value = "-inf"
	case "NaN":
		value = "nan"
	}
	field.DefaultValue = proto.String(value)
}
