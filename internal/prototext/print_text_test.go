// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// These sources are as they are printed.
const proto2Source = `syntax = "proto2";
package shop;
import public "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "com.example.\"shop\"";
option optimize_for = CODE_SIZE;
option (shop.tag) = "a";
option (shop.tag) = "b";

enum Level {
  option allow_alias = true;
  reserved -5 to -5;
  reserved 10 to 2147483647;
  reserved "OLD", "OLDER";
  HIGH = -1;
  LOW = 0 [deprecated = true];
  LEAST = 0;
}

message Order {
  option deprecated = true;

  enum Kind {
    RETAIL = 0;
  }

  message Line {
    required string id = 1;
  }
  reserved 100 to 100;
  reserved 110 to 119;
  reserved "gone", "away";
  extensions 1000 to 1999 [declaration = { number: 1000, full_name: ".shop.note", type: "string" }, verification = DECLARATION];
  extensions 2000 to 536870911;
  required int32 a = 1 [default = -5];
  optional string b = 2 [default = "\\ \" \n \r \t \001", json_name = "B"];
  optional bytes c = 3 [default = "\377\000a"];
  optional double d = 4 [default = -inf];
  optional float e = 5 [default = nan];
  optional float f = 6 [default = 1.1];
  optional .shop.Level g = 7 [default = LOW];
  repeated int32 h = 8 [packed = true];
  map<string, .shop.Order.Line> i = 9;
  repeated group Item = 10 [deprecated = true] {

    enum State {
      NEW = 0;
    }

    message Part {
    }
    optional .shop.Order.Item.Part part = 1;
    oneof which {
      option (shop.marked) = true;
      int32 left = 2 [default = 5];
      group Right = 3 {
      }
    }
  }
  oneof choice {
    .google.protobuf.Timestamp at = 11;
    string when = 12;
  }
  extend .shop.Order {
    optional int32 inner = 2000;
    optional group Extra = 2001 {
      optional int32 x = 1;
    }
  }
}
extend .shop.Order {
  optional string note = 1000;
}
extend .google.protobuf.FileOptions {
  repeated string tag = 50001;
}
extend .google.protobuf.OneofOptions {
  optional bool marked = 50001;
}

service Orders {
  option deprecated = true;
  rpc Get (.shop.Order) returns (stream .shop.Order);
  rpc Put (stream .shop.Order.Line) returns (.shop.Order) {
    option idempotency_level = IDEMPOTENT;
  }
}
`

const proto3Source = `syntax = "proto3";
package demo;
option java_package = "demo.generated";

enum Status {
  UNKNOWN = 0;
}

message Outer {

  message Nested {
    string a_b = 1;
  }
  .demo.Outer.Nested nested = 1;
  optional int32 maybe = 2;
  repeated .demo.Status states = 3;
  repeated int64 unpacked = 4 [packed = false];
  map<int32, .demo.Status> by_number = 5;
  oneof choice {
    string text = 6;
    bytes data = 7;
  }
}

service Demo {
  rpc Call (.demo.Outer) returns (.demo.Outer.Nested);
}
`

const editionsSource = `edition = "2023";
package e;
import "google/protobuf/go_features.proto";
option features = { field_presence: IMPLICIT, [pb.go]: { legacy_unmarshal_json_enum: true } };

enum Closed {
  option features = { enum_type: CLOSED };
  reserved OLD;
  FIRST = 1;
}

message M {
  reserved gone, away;
  extensions 100 to 200;
  int32 a = 1 [features = { field_presence: LEGACY_REQUIRED }];
  .e.Closed b = 2 [default = FIRST, features = { field_presence: EXPLICIT }];
  .e.M c = 3 [features = { message_encoding: DELIMITED }];
  repeated int32 d = 4 [features = { repeated_field_encoding: EXPANDED }];
}
extend .e.M {
  repeated string x = 100;
}
`

func TestPrintedTextIsPinned(t *testing.T) {
	for name, source := range map[string]string{"proto2": proto2Source, "proto3": proto3Source, "editions": editionsSource} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(source, checkPrint(t, mustParseProto(t, source, nil))); diff != "" {
				t.Errorf("text mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// Declarations of any order are printed in one: enums, messages, what is
// reserved, fields, oneofs, extensions.
func TestPrintedOrderIsThatOfKindsThenOfDeclaration(t *testing.T) {
	const source = `syntax = "proto3"; package p;
		message Last { oneof o { int32 two = 2; } int32 one = 1; map<string, int32> m = 5; message Inner {} reserved "z"; enum E { A = 0; } reserved 9, 7; }
		message First {} enum Top { T = 0; }`
	const want = `syntax = "proto3";
package p;

enum Top {
  T = 0;
}

message Last {

  enum E {
    A = 0;
  }

  message Inner {
  }
  reserved 9 to 9;
  reserved 7 to 7;
  reserved "z";
  int32 one = 1;
  map<string, int32> m = 5;
  oneof o {
    int32 two = 2;
  }
}

message First {
}
`
	if diff := cmp.Diff(want, checkPrint(t, mustParseProto(t, source, nil))); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
	}
}

// Options have one order, whatever their order and form in the descriptor: known
// extensions, bytes, and extensions of other types.
func TestPrintedTextIsTheSameEveryTime(t *testing.T) {
	const source = `syntax = "proto3"; import "opt.proto"; message M {
		option (opt.message_details) = { counts: { key: "b", value: 1 }, counts: { key: "a", value: 2 }, [opt.Detail.extra]: 3, flag: true };
		option (opt.message_number) = 4;
		option (opt.message_data) = "x";
		string a = 1 [(opt.field_texts) = "q", (opt.field_detail) = { flag: true }, (opt.field_float) = 1.5, deprecated = true];
	}`
	const want = `syntax = "proto3";
import "opt.proto";

message M {
  option (opt.message_data) = "x";
  option (opt.message_number) = 4;
  option (opt.message_details) = { flag: true, counts: { key: "a", value: 2 }, counts: { key: "b", value: 1 }, [opt.Detail.extra]: 3 };
  string a = 1 [deprecated = true, (opt.field_float) = 1.5, (opt.field_detail) = { flag: true }, (opt.field_texts) = "q"];
}
`
	file := mustParseProto(t, source, map[string]string{"opt.proto": customOptions})
	raw, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
	if err != nil {
		t.Fatal(err)
	}
	forms := []protoreflect.FileDescriptor{file}
	for _, resolver := range []interface {
		FindExtensionByName(protoreflect.FullName) (protoreflect.ExtensionType, error)
		FindExtensionByNumber(protoreflect.FullName, protoreflect.FieldNumber) (protoreflect.ExtensionType, error)
	}{new(protoregistry.Types), extensionsOf(file)} {
		fd := protodesc.ToFileDescriptorProto(file)
		proto.Reset(fd)
		if err := (proto.UnmarshalOptions{Resolver: resolver}).Unmarshal(raw, fd); err != nil {
			t.Fatal(err)
		}
		files := new(protoregistry.Files)
		for _, imported := range []protoreflect.FileDescriptor{Standard("google/protobuf/descriptor.proto"), file.Imports().Get(0).FileDescriptor} {
			if err := files.RegisterFile(imported); err != nil {
				t.Fatal(err)
			}
		}
		form, err := protodesc.NewFile(fd, files)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, form)
	}
	for i, form := range forms {
		for range 1000 {
			if got := Print(form); got != want {
				t.Fatalf("form %d mismatch (-want +got):\n%s", i, cmp.Diff(want, got))
			}
		}
	}
}

// A custom option's name is looked up from where it stands.
func TestPrintedOptionNamesBeginWithADotWhereTheyMustNotBeRelative(t *testing.T) {
	const options = `syntax = "proto3"; package opt; import "google/protobuf/descriptor.proto"; extend google.protobuf.MessageOptions { int32 n = 50001; }`
	for source, want := range map[string]string{
		`package a.b; import "opt.proto"; message M { option (opt.n) = 1; }`:                        "option (opt.n) = 1;",
		`package a.opt; import "opt.proto"; message M { option (.opt.n) = 1; }`:                     "option (.opt.n) = 1;",
		`package a; import "opt.proto"; message opt { message M { option (.opt.n) = 1; } }`:         "option (.opt.n) = 1;",
		`import "opt.proto"; message M { option (opt.n) = 1; }`:                                     "option (opt.n) = 1;",
		`package a; import "opt.proto"; message M { option (.opt.n) = 1; message opt {} }`:          "option (.opt.n) = 1;",
		`package a; import "opt.proto"; message N { message opt {} } message M {option (opt.n)=1;}`: "option (opt.n) = 1;",
	} {
		text := checkPrint(t, mustParseProto(t, source, map[string]string{"opt.proto": options}))
		if !strings.Contains(text, "  "+want+"\n") {
			t.Errorf("%s is not in:\n%s", want, text)
		}
	}
}

// The index of a message does not depend on whether entry types of maps and
// types of groups count.
func TestPrintedNestedMessagesComeBeforeTypesThatFieldsDeclare(t *testing.T) {
	const source = `message Outer { map<string, string> m = 1; optional group G = 2 {} message Inner {} extensions 5; } extend Outer { optional group H = 5 {} } message Other {}`
	file := mustParseProto(t, Print(mustParseProto(t, source, nil)), nil)
	outer := file.Messages().ByName("Outer")
	if got := outer.Messages().ByName("Inner").Index(); got != 0 {
		t.Errorf("Outer.Inner has index %d", got)
	}
	if got := file.Messages().ByName("Other").Index(); got != 1 {
		t.Errorf("Other has index %d", got)
	}
}

func TestPrintedImportsKeepTheirModifiers(t *testing.T) {
	const source = `syntax = "proto2";
import weak "google/protobuf/any.proto";
import public "google/protobuf/empty.proto";
import "google/protobuf/duration.proto";
`
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"a.proto": source}),
	})}
	files, err := compiler.Compile(t.Context(), "a.proto")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(source, Print(files[0])); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
	}
}

// Newer editions than the compiler knows are printed all the same.
func TestPrintedEditionsKeepVisibilityAndOptionImports(t *testing.T) {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Syntax: proto.String("editions"), Edition: descriptorpb.Edition_EDITION_2024.Enum(),
		OptionDependency: []string{"google/protobuf/go_features.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("A"), Visibility: descriptorpb.SymbolVisibility_VISIBILITY_EXPORT.Enum()},
			{Name: proto.String("B")},
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{
			Name: proto.String("E"), Visibility: descriptorpb.SymbolVisibility_VISIBILITY_LOCAL.Enum(),
			Value: []*descriptorpb.EnumValueDescriptorProto{{Name: proto.String("Z"), Number: proto.Int32(0)}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	const want = `edition = "2024";
import option "google/protobuf/go_features.proto";

local enum E {
  Z = 0;
}

export message A {
}

message B {
}
`
	if diff := cmp.Diff(want, Print(file)); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
	}
}
