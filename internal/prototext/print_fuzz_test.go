// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"
)

// FuzzProtobufSource compiles random texts. What compiles is printed as a text
// that compiles to the same.
func FuzzProtobufSource(f *testing.F) {
	for _, text := range []string{
		proto2Source, proto3Source, editionsSource, customOptions,
		`syntax = "proto3"; import "import.proto"; message A { import.B b = 1; }`,
		"message A{", "AAAA", `option (a).b.c = { [x.y/z.w]: <a: 1> };`, "enum E { A = 0x7fffffff; B = -1; }", "/* \xff", "\"\\u00e9\\xff\\777",
	} {
		f.Add(text, `package import; message B {}`)
	}
	f.Add(serialized(f, mustParseProto(f, proto2Source, nil)), "")
	f.Fuzz(func(t *testing.T, text, imported string) {
		file, err := Compile(t.Context(), text, map[string]string{"import.proto": imported})
		if err != nil {
			if _, ok := errors.AsType[*SchemaError](err); !ok {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if own := NewFile(file, 0); Violations(own, own, false) != nil {
			t.Fatalf("%s\ndoes not read itself: %q", text, Violations(own, own, false))
		}
		checkFuzzedPrint(t, file, imported)
	})
}

// FuzzPrintedProtobufDescriptor prints random descriptors.
func FuzzPrintedProtobufDescriptor(f *testing.F) {
	add := func(file protoreflect.FileDescriptor) {
		data, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\x42\x02\x20\x30")) // options that nobody declares
	injected, err := proto.Marshal(&descriptorpb.FileDescriptorProto{
		Syntax: proto.String("editions"), Edition: edition2023.Enum(),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), ReservedName: []string{"a; message N {} reserved b"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(injected)
	for _, text := range []string{proto2Source, proto3Source, editionsSource, customOptions} {
		add(mustParseProto(f, text, nil))
	}
	for _, path := range []string{"any", "descriptor", "struct", "go_features"} {
		add(Standard("google/protobuf/" + path + ".proto"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fd := new(descriptorpb.FileDescriptorProto)
		if err := (proto.UnmarshalOptions{RecursionLimit: 2 * maxProtoDepth}).Unmarshal(data, fd); err != nil {
			return
		}
		if strayVisibility(fd.MessageType, fd.EnumType) {
			return
		}
		file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
		if err != nil {
			return
		}
		if !strayEntries(file) {
			checkFuzzedPrint(t, file, "")
		}
	})
}

// strayVisibility reports whether a declaration states a visibility that no keyword
// stands for, which no source says.
func strayVisibility(messages []*descriptorpb.DescriptorProto, enums []*descriptorpb.EnumDescriptorProto) bool {
	stray := func(v *descriptorpb.SymbolVisibility) bool {
		return v != nil && *v != descriptorpb.SymbolVisibility_VISIBILITY_EXPORT && *v != descriptorpb.SymbolVisibility_VISIBILITY_LOCAL
	}
	return slices.ContainsFunc(enums, func(e *descriptorpb.EnumDescriptorProto) bool { return stray(e.Visibility) }) ||
		slices.ContainsFunc(messages, func(m *descriptorpb.DescriptorProto) bool {
			return stray(m.Visibility) || strayVisibility(m.NestedType, m.EnumType)
		})
}

// strayEntries reports whether a file has entry types that no map uses, which no
// source says.
func strayEntries(scope declarations) bool {
	entries := 0
	if message, ok := scope.(protoreflect.MessageDescriptor); ok {
		for i := range message.Fields().Len() {
			if message.Fields().Get(i).IsMap() {
				entries--
			}
		}
	}
	for i := range scope.Messages().Len() {
		if message := scope.Messages().Get(i); message.IsMapEntry() {
			entries++
		} else if strayEntries(message) {
			return true
		}
	}
	return entries != 0
}

// checkFuzzedPrint is checkPrint for a file that no source may be able to say:
// printing it must end, and what compiles must be the same.
func checkFuzzedPrint(tb rapid.TB, file protoreflect.FileDescriptor, imported string) {
	tb.Helper()
	text := Print(file)
	if second := Print(file); second != text {
		tb.Fatalf("printed twice, the text differs:\n%s\n%s", text, second)
	}
	imports := importsOf(tb, file, map[string]string{"import.proto": imported})
	again, err := Compile(context.Background(), text, imports)
	if err != nil {
		return
	}
	comparePrinted(tb, file, again, text)
}
