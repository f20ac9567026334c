// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"log"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/krabka-io/krabka-streams-go/schema"
)

// The text of a generated message's file is what a serde registers.
func ExamplePrintProtoFile() {
	file := new(durationpb.Duration).ProtoReflect().Descriptor().ParentFile()
	fmt.Print(schema.PrintProtoFile(file))
	// Output:
	// syntax = "proto3";
	// package google.protobuf;
	// option java_package = "com.google.protobuf";
	// option java_outer_classname = "DurationProto";
	// option java_multiple_files = true;
	// option go_package = "google.golang.org/protobuf/types/known/durationpb";
	// option cc_enable_arenas = true;
	// option objc_class_prefix = "GPB";
	// option csharp_namespace = "Google.Protobuf.WellKnownTypes";
	//
	// message Duration {
	//   int64 seconds = 1;
	//   int32 nanos = 2;
	// }
}

// A field may change its name, but not the encoding of its numbers.
func ExampleProtobufCompatibility() {
	previous := new(durationpb.Duration).ProtoReflect().Descriptor().ParentFile()
	changed := protodesc.ToFileDescriptorProto(previous)
	changed.MessageType[0].Field[0].Name = proto.String("whole_seconds")
	changed.MessageType[0].Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_SINT32.Enum()
	candidate, err := protodesc.NewFile(changed, nil)
	if err != nil {
		log.Fatal(err)
	}
	result := schema.ProtobufCompatibility(previous, candidate, schema.Full)
	for _, violation := range result.Incompatibilities {
		fmt.Println(violation)
	}
	// Output:
	// BACKWARD: google.protobuf.Duration field 2: reader sint32 cannot read writer int32
	// FORWARD: google.protobuf.Duration field 2: reader int32 cannot read writer sint32
}

// A candidate is compared with the texts that a registry holds.
func ExampleCheckProtobufCompatibility() {
	history := []schema.ResolvedSchema{
		{Schema: `syntax = "proto3"; message Order { int64 total = 1; }`},
		{Schema: `syntax = "proto3"; message Order { int64 total = 1; string note = 2; }`},
	}
	candidate := schema.ResolvedSchema{Schema: `syntax = "proto3"; message Order { int32 total = 1; reserved 2; }`}

	result, err := schema.CheckProtobufCompatibility(history, candidate, schema.BackwardTransitive)
	fmt.Println(result.Compatible, err)

	result, err = schema.CheckProtobufCompatibility(history, candidate, schema.Backward, schema.WithStrictValues())
	fmt.Println(result.Incompatibilities, err)
	// Output:
	// true <nil>
	// [BACKWARD: Order field 1: reader int32 cannot hold every int64 of the writer] <nil>
}
