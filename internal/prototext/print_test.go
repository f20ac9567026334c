// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"cmp"
	"context"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// meaning returns what a file says, without what has no meaning: the names of
// synthetic oneofs, JSON names that are the default, the order of fields inside
// and outside of oneofs, the place of types that a field declares. Options are
// read with the extensions of types; what no source says is left out.
func meaning(tb rapid.TB, file protoreflect.FileDescriptor, types *protoregistry.Types) *descriptorpb.FileDescriptorProto {
	tb.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(protodesc.ToFileDescriptorProto(file))
	if err != nil {
		tb.Fatal(err)
	}
	fd := new(descriptorpb.FileDescriptorProto)
	if err := (proto.UnmarshalOptions{Resolver: types, DiscardUnknown: true}).Unmarshal(raw, fd); err != nil {
		tb.Fatal(err)
	}
	fd.Name = nil
	fd.SourceCodeInfo = nil
	groups := declaredTypes(fd.GetExtension())
	sortLast(fd.MessageType, groups)
	for _, message := range fd.MessageType {
		normaliseMessage(message)
	}
	normaliseFields(fd.Extension)
	dropEmptyOptions(fd.ProtoReflect())
	return fd
}

// declaredTypes names the types that fields declare by being groups.
func declaredTypes(fields []*descriptorpb.FieldDescriptorProto) map[string]bool {
	names := make(map[string]bool)
	for _, field := range fields {
		if field.GetType() == descriptorpb.FieldDescriptorProto_TYPE_GROUP {
			names[string(protoreflect.FullName(field.GetTypeName()[1:]).Name())] = true
		}
	}
	return names
}

func sortLast(messages []*descriptorpb.DescriptorProto, last map[string]bool) {
	rank := func(m *descriptorpb.DescriptorProto) string {
		if m.GetOptions().GetMapEntry() || last[m.GetName()] {
			return m.GetName()
		}
		return ""
	}
	slices.SortStableFunc(messages, func(a, b *descriptorpb.DescriptorProto) int { return cmp.Compare(rank(a), rank(b)) })
}

func normaliseMessage(message *descriptorpb.DescriptorProto) {
	sortLast(message.NestedType, declaredTypes(append(slices.Clone(message.Field), message.Extension...)))
	if !message.GetOptions().GetMapEntry() && message.Options != nil {
		message.Options.MapEntry = nil
	}
	synthetic := make(map[int32]bool)
	for _, field := range message.Field {
		if field.GetProto3Optional() && field.OneofIndex != nil {
			synthetic[field.GetOneofIndex()] = true
			field.OneofIndex = nil
		}
	}
	message.OneofDecl = message.OneofDecl[:len(message.OneofDecl)-len(synthetic)]
	oneof := func(f *descriptorpb.FieldDescriptorProto) int32 {
		if f.OneofIndex == nil {
			return -1
		}
		return f.GetOneofIndex()
	}
	slices.SortStableFunc(message.Field, func(a, b *descriptorpb.FieldDescriptorProto) int { return cmp.Compare(oneof(a), oneof(b)) })
	normaliseFields(message.Field)
	normaliseFields(message.Extension)
	for _, nested := range message.NestedType {
		normaliseMessage(nested)
	}
}

func normaliseFields(fields []*descriptorpb.FieldDescriptorProto) {
	for _, field := range fields {
		if field.Extendee != nil || field.GetJsonName() == defaultJSONName(field.GetName()) {
			field.JsonName = nil
		}
	}
}

func dropEmptyOptions(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() == nil {
			return true
		}
		if field.IsList() {
			for i := range value.List().Len() {
				dropEmptyOptions(value.List().Get(i).Message())
			}
			return true
		}
		if field.Name() == "options" {
			options := value.Message()
			options.Clear(options.Descriptor().Fields().ByName("uninterpreted_option"))
		}
		if field.Name() == "options" && proto.Size(value.Message().Interface()) == 0 {
			message.Clear(field)
		}
		return true
	})
}

// extensionsOf collects the extensions that a file and its imports declare.
func extensionsOf(file protoreflect.FileDescriptor) *protoregistry.Types {
	types, seen := new(protoregistry.Types), make(map[string]bool)
	var declared func(extensions protoreflect.ExtensionDescriptors, messages protoreflect.MessageDescriptors)
	declared = func(extensions protoreflect.ExtensionDescriptors, messages protoreflect.MessageDescriptors) {
		for i := range extensions.Len() {
			_ = types.RegisterExtension(dynamicpb.NewExtensionType(extensions.Get(i)))
		}
		for i := range messages.Len() {
			declared(messages.Get(i).Extensions(), messages.Get(i).Messages())
		}
	}
	var visit func(file protoreflect.FileDescriptor)
	visit = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		declared(file.Extensions(), file.Messages())
		for i := range file.Imports().Len() {
			visit(file.Imports().Get(i))
		}
	}
	visit(file)
	return types
}

// importsOf returns what a file imports, in the form that the parser takes.
func importsOf(tb rapid.TB, file protoreflect.FileDescriptor, into map[string]string) map[string]string {
	tb.Helper()
	for i := range file.Imports().Len() {
		imported := file.Imports().Get(i)
		if _, ok := into[imported.Path()]; !ok && Standard(imported.Path()) == nil {
			into[imported.Path()] = serialized(tb, imported)
			importsOf(tb, imported, into)
		}
	}
	return into
}

// checkPrint prints a file, compiles the text, and compares.
func checkPrint(tb rapid.TB, file protoreflect.FileDescriptor) string {
	tb.Helper()
	text := Print(file)
	again, err := Compile(context.Background(), text, importsOf(tb, file, make(map[string]string)))
	if err != nil {
		tb.Fatalf("%v in:\n%s", err, text)
	}
	comparePrinted(tb, file, again, text)
	return text
}

// comparePrinted compares a file with what its text compiles to.
func comparePrinted(tb rapid.TB, file, again protoreflect.FileDescriptor, text string) {
	tb.Helper()
	types := extensionsOf(file)
	if diff := gocmp.Diff(meaning(tb, file, types), meaning(tb, again, types), protocmp.Transform(), cmpopts.EquateNaNs()); diff != "" {
		tb.Fatalf("compiled text mismatch (-file +text):\n%s\n%s", diff, text)
	}
	if diff := gocmp.Diff(text, Print(again)); diff != "" {
		tb.Fatalf("second text mismatch (-first +second):\n%s", diff)
	}
}

func TestPrintedWellKnownFilesCompileToThemselves(t *testing.T) {
	for _, path := range []string{
		"any", "api", "compiler/plugin", "cpp_features", "descriptor", "duration", "empty", "field_mask", "go_features",
		"java_features", "source_context", "struct", "timestamp", "type", "wrappers",
	} {
		t.Run(path, func(t *testing.T) {
			checkPrint(t, Standard("google/protobuf/"+path+".proto"))
		})
	}
}

func TestPrintedRandomFilesCompileToThemselves(t *testing.T) {
	corpus := newProtoCorpus(t)
	for _, edition := range []descriptorpb.Edition{proto2Edition, proto3Edition, edition2023} {
		t.Run(edition.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				file, _, _ := corpus.draw(rt, edition)
				checkPrint(rt, file)
			})
		})
	}
}
