// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// protobufScope is a file or a message.
type protobufScope interface {
	protoreflect.Descriptor
	Messages() protoreflect.MessageDescriptors
	Extensions() protoreflect.ExtensionDescriptors
}

// declaredMessages returns the messages that a text declares in a scope, in its
// order. Their positions are the message indexes. The entries of maps and the
// messages of groups are not among them: the text declares fields there.
func declaredMessages(scope protobufScope) []protoreflect.MessageDescriptor {
	groups := groupMessages(scope)
	var declared []protoreflect.MessageDescriptor
	for i := range scope.Messages().Len() {
		if m := scope.Messages().Get(i); !m.IsMapEntry() && !groups[m.FullName()] {
			declared = append(declared, m)
		}
	}
	return declared
}

// groupMessages returns the messages of the groups in a scope. Only proto2 has
// them: in later editions a delimited field refers to a message of its own.
func groupMessages(scope protobufScope) map[protoreflect.FullName]bool {
	if scope.ParentFile().Syntax() != protoreflect.Proto2 {
		return nil
	}
	groups := map[protoreflect.FullName]bool{}
	add := func(field protoreflect.FieldDescriptor) {
		if field.Kind() == protoreflect.GroupKind {
			groups[field.Message().FullName()] = true
		}
	}
	if message, ok := scope.(protoreflect.MessageDescriptor); ok {
		for i := range message.Fields().Len() {
			add(message.Fields().Get(i))
		}
	}
	for i := range scope.Extensions().Len() {
		add(scope.Extensions().Get(i))
	}
	return groups
}

// indexedMessages returns every message of a scope that has message indexes,
// with them. The path is valid until the next step.
func indexedMessages(scope protobufScope, path []int) iter.Seq2[[]int, protoreflect.MessageDescriptor] {
	return func(yield func([]int, protoreflect.MessageDescriptor) bool) {
		eachMessage(scope, path, yield)
	}
}

func eachMessage(scope protobufScope, path []int, yield func([]int, protoreflect.MessageDescriptor) bool) bool {
	if len(path) == maxMessageIndexes {
		return true
	}
	for i, m := range declaredMessages(scope) {
		at := append(path, i)
		if !yield(at, m) || !eachMessage(m, at, yield) {
			return false
		}
	}
	return true
}

// wireIndexes returns the message indexes of a message in wire form; false when
// the file does not declare it.
func wireIndexes(file protoreflect.FileDescriptor, name protoreflect.FullName) ([]byte, bool) {
	for path, m := range indexedMessages(file, nil) {
		if m.FullName() == name {
			list, err := appendMessageIndexes(nil, path)
			return list, err == nil
		}
	}
	return nil, false
}

// messageAt returns the message that indexes lead to.
func messageAt(file protoreflect.FileDescriptor, indexes []int) (protoreflect.MessageDescriptor, *ProtobufMessageError) {
	var (
		scope   protobufScope = file
		message protoreflect.MessageDescriptor
	)
	for i, index := range indexes {
		declared := declaredMessages(scope)
		if index >= len(declared) {
			where := "the schema"
			if message != nil {
				where = "message " + string(message.FullName())
			}
			return nil, &ProtobufMessageError{
				Indexes: indexes,
				reason: fmt.Sprintf("Protobuf message indexes %v lead nowhere, or are absent: %s declares %d messages, the index %d (%d of %d) is out of range",
					indexes, where, len(declared), index, i+1, len(indexes)),
			}
		}
		message = declared[index]
		scope = message
	}
	return message, nil
}
