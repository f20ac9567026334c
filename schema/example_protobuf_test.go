// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/krabka-io/krabka-streams-go/schema"
)

// The schema of a generated message is the file that it comes from. A record
// names its message by message indexes: StringValue is the eighth of its file.
func ExampleNewProtobufSerde() {
	cache := schema.NewSchemaCache(nil) // a client comes here; this example does without a registry
	defer cache.Close()
	names := schema.NewProtobufSerde(&wrapperspb.StringValue{}, cache, schema.RoleValue)
	if err := names.Err(); err != nil {
		fmt.Println(err)
		return
	}
	cache.SeedSubjectID("names-value", 7)
	cache.SeedWriterSchema(7, schema.PrintProtoFile(names.Descriptor().ParentFile()))

	payload, err := names.Serialize("names", wrapperspb.String("Ada"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("% x\n", payload)
	name, err := names.Deserialize("names", payload)
	fmt.Println(name.GetValue(), err)

	// A record of another message of the file is told apart.
	_, err = names.Deserialize("names", []byte("\x00\x00\x00\x00\x07\x02\x0c\x08\x01"))
	var other *schema.ProtobufMessageError
	fmt.Println(errors.As(err, &other), other.Writer)

	// Output:
	// 00 00 00 00 07 02 0e 0a 03 41 64 61
	// Ada <nil>
	// true google.protobuf.BoolValue
}

// One topic can carry several messages: the serde writes and reads each of them.
func ExampleWithMessages() {
	cache := schema.NewSchemaCache(nil)
	defer cache.Close()
	events := schema.NewProtobufSerde[proto.Message](&wrapperspb.StringValue{}, cache, schema.RoleValue,
		schema.WithMessages(&durationpb.Duration{}),
		schema.WithRecordStrategy(schema.TopicRecordNameStrategy))
	for id, m := range []proto.Message{&wrapperspb.StringValue{}, &durationpb.Duration{}} {
		descriptor := m.ProtoReflect().Descriptor()
		cache.SeedSubjectID("events-"+string(descriptor.FullName()), id+1)
		cache.SeedWriterSchema(id+1, schema.PrintProtoFile(descriptor.ParentFile()))
	}
	for _, event := range []proto.Message{wrapperspb.String("begin"), &durationpb.Duration{Seconds: 5}} {
		payload, err := events.Serialize("events", event)
		if err != nil {
			fmt.Println(err)
			return
		}
		read, err := events.Deserialize("events", payload)
		switch e := read.(type) {
		case *wrapperspb.StringValue:
			fmt.Println("text", e.GetValue(), err)
		case *durationpb.Duration:
			fmt.Println("time", e.AsDuration(), err)
		}
	}

	// Output:
	// text begin <nil>
	// time 5s <nil>
}

// Dynamic messages need no generated code: neither for writing under a text, nor
// for reading what others have written.
func ExampleNewDynamicProtobufSerde() {
	cache := schema.NewSchemaCache(nil)
	defer cache.Close()
	const order = `syntax = "proto3"; package shop; message Order { string id = 1; int32 count = 2; }`
	orders, err := schema.NewDynamicProtobufSerde(order, "shop.Order", cache, schema.RoleValue)
	if err != nil {
		fmt.Println(err)
		return
	}
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, order)
	message := dynamicpb.NewMessage(orders.Descriptor())
	message.Set(orders.Descriptor().Fields().ByName("id"), protoreflect.ValueOfString("o-1"))
	payload, err := orders.Serialize("orders", message)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Without a prototype the writer's schema describes the message.
	reader := schema.NewProtobufSerde[*dynamicpb.Message](nil, cache, schema.RoleValue)
	read, err := reader.Deserialize("orders", payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	read.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fmt.Println(field.FullName(), value)
		return true
	})

	_, err = reader.Deserialize("orders", payload[:len(payload)-1])
	var broken *schema.ProtobufDataError
	fmt.Println(errors.As(err, &broken), broken)

	// Output:
	// shop.Order.id o-1
	// true message shop.Order field id at byte 1: unexpected EOF
}
