// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

var allEditions = []descriptorpb.Edition{proto2Edition, proto3Edition, edition2023}

// allMessages returns the messages of a file that can be changed: no entries of
// maps.
func allMessages(messages []*descriptorpb.DescriptorProto) []*descriptorpb.DescriptorProto {
	var all []*descriptorpb.DescriptorProto
	for _, message := range messages {
		if !message.GetOptions().GetMapEntry() {
			all = append(append(all, message), allMessages(message.NestedType)...)
		}
	}
	return all
}

func TestProtobufFilesAreCompatibleWithThemselvesAndWithMoreFields(t *testing.T) {
	corpus := newProtoCorpus(t)
	rapid.Check(t, func(rt *rapid.T) {
		edition := rapid.SampledFrom(allEditions).Draw(rt, "edition")
		file, _, fd := corpus.draw(rt, edition)
		if got := strictBothWays(file, file); got != nil {
			rt.Fatalf("%s\ndoes not read itself: %q", Print(file), got)
		}
		for i, message := range allMessages(fd.MessageType) {
			added := &descriptorpb.FieldDescriptorProto{
				Name: proto.String(fmt.Sprintf("added%d", i)), Number: proto.Int32(180),
				Label: rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Label{1, 3}).Draw(rt, "label").Enum(),
				Type:  rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Type{1, 5, 9, 12}).Draw(rt, "type").Enum(),
			}
			message.Field = append(message.Field, added)
		}
		grown, err := protodesc.NewFile(fd, corpus.files)
		if err != nil {
			rt.Fatal(err)
		}
		if got := strictBothWays(file, grown); got != nil {
			rt.Fatalf("%s\nis not compatible with one field less: %q", Print(grown), got)
		}
	})
}

// strictProtobuf lists why reader cannot read what writer wrote, where reader is
// the later of the two with later.
func strictProtobuf(reader, writer protoreflect.FileDescriptor, later bool) []string {
	readerAge := 0
	if later {
		readerAge = 1
	}
	return Violations(NewFile(reader, readerAge), NewFile(writer, 1-readerAge), true)
}

// strictBothWays lists why two files, the second of which is the later one,
// cannot read each other's messages.
func strictBothWays(previous, candidate protoreflect.FileDescriptor) []string {
	return append(strictProtobuf(candidate, previous, true), strictProtobuf(previous, candidate, false)...)
}

// drawChange changes a few fields. The result may be invalid.
func drawChange(t *rapid.T, fd *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	changed := proto.CloneOf(fd)
	messages := allMessages(changed.MessageType)
	if len(messages) == 0 {
		return changed
	}
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		message := rapid.SampledFrom(messages).Draw(t, "message")
		if len(message.Field) == 0 {
			continue
		}
		i := rapid.IntRange(0, len(message.Field)-1).Draw(t, "field")
		field := message.Field[i]
		field.DefaultValue = nil
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			message.Field = slices.Delete(message.Field, i, i+1)
		case 1:
			field.Number = proto.Int32(rapid.Int32Range(1, 99).Draw(t, "number"))
		case 2:
			field.Name = proto.String(field.GetName() + "_renamed")
		case 3:
			field.OneofIndex, field.Proto3Optional = nil, nil
		case 4:
			field.OneofIndex, field.Proto3Optional = nil, nil
			field.Label = rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Label{1, 3}).Draw(t, "label").Enum()
		default:
			if field.TypeName == nil {
				field.Type = rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Type{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18}).Draw(t, "type").Enum()
			}
		}
	}
	return changed
}

// What the reader reads of the writer's messages is what the writer wrote,
// wherever the strict check finds nothing.
func TestCompatibleProtobufReadersReadWhatWasWritten(t *testing.T) {
	corpus := newProtoCorpus(t)
	compatible, incompatible := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		first, m, fd := corpus.draw(rt, rapid.SampledFrom(allEditions).Draw(rt, "edition"))
		second, err := protodesc.NewFile(drawChange(rt, fd), corpus.files)
		if err != nil {
			return // the change is not a file
		}
		backward := strictProtobuf(second, first, true)
		forward := strictProtobuf(second, first, false)
		if diff := cmp.Diff(backward, forward); diff != "" {
			rt.Fatalf("the directions differ (-backward +forward):\n%s", diff)
		}
		if len(backward) > 0 {
			incompatible++
			return
		}
		compatible++
		for _, message := range NewFile(first, 0).declared() {
			written := dynamicpb.NewMessage(message)
			m.setFields(written, 3)
			data, err := proto.MarshalOptions{AllowPartial: true}.Marshal(written)
			if err != nil {
				continue // text that is not UTF-8
			}
			read := dynamicpb.NewMessage(NewFile(second, 1).messages[message.FullName()])
			if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(data, read); err != nil {
				rt.Fatalf("%x of %s: %v", data, message.FullName(), err)
			}
			if lost := lostValue(written, read); lost != "" {
				rt.Fatalf("%s of\n%s\nis not read by\n%s", lost, Print(first), Print(second))
			}
		}
	})
	t.Logf("%d pairs compatible, %d not", compatible, incompatible)
	if compatible == 0 || incompatible == 0 {
		t.Error("the pairs are all alike")
	}
}

// lostValue names a field that both messages have and that does not say the
// same in the reader's.
func lostValue(written, read protoreflect.Message) string {
	lost := ""
	written.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		own := read.Descriptor().Fields().ByNumber(field.Number())
		if own == nil {
			return true
		}
		got := read.Get(own)
		switch {
		case field.IsMap():
			entries := make(map[string]protoreflect.Value)
			got.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				entries[plainScalar(key.Value())] = value
				return true
			})
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				entry, ok := entries[plainScalar(key.Value())]
				if !ok {
					lost = string(field.FullName()) + " misses a key"
				} else {
					lost = lostSingle(field, value, entry)
				}
				return lost == ""
			})
		case field.IsList():
			if value.List().Len() != got.List().Len() {
				lost = string(field.FullName()) + " has another length"
			}
			for i := 0; lost == "" && i < value.List().Len(); i++ {
				lost = lostSingle(field, value.List().Get(i), got.List().Get(i))
			}
		case own.IsList():
			if got.List().Len() != 1 {
				lost = string(field.FullName()) + " is not the only value"
			} else {
				lost = lostSingle(field, value, got.List().Get(0))
			}
		default:
			lost = lostSingle(field, value, got)
		}
		return lost == ""
	})
	return lost
}

func lostSingle(field protoreflect.FieldDescriptor, written, read protoreflect.Value) string {
	if message, ok := written.Interface().(protoreflect.Message); ok {
		return lostValue(message, read.Message())
	}
	if got, want := plainScalar(read), plainScalar(written); got != want {
		return fmt.Sprintf("%s = %q, read as %q,", field.FullName(), want, got)
	}
	return ""
}

// plainScalar writes values of one encoding alike.
func plainScalar(value protoreflect.Value) string {
	switch v := value.Interface().(type) {
	case bool:
		if v {
			return "1"
		}
		return "0"
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}
