// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// ProtobufCompatibilityOption configures [CheckProtobufCompatibility].
type ProtobufCompatibilityOption func(*protoCompatibility)

// WithStrictValues counts every change of a field's type by which a value of the
// writer may be lost: int64 read as int32, any integer as bool or as a closed
// enum, bytes as string. By default types that share an encoding are compatible,
// as for registries.
func WithStrictValues() ProtobufCompatibilityOption {
	return func(c *protoCompatibility) { c.strict = true }
}

// ProtobufCompatibility compares two Protobuf files as mode demands. Every
// violation is listed with the full name of the message and the number or name
// of the field; messages are sorted by name. Imported files are followed as far
// as fields refer to them. Services are ignored.
//
// Messages are the same if their full names are, fields if their numbers are. A
// field may be added, removed or renamed. Violations are:
//
//   - a message that the reader lacks, also because its package changed;
//   - another wire type, another encoding of numbers (as int32 and sint32),
//     another message type, a map in place of messages, a list in place of a
//     single value;
//   - a field that is required by the reader and not by the writer;
//   - a field or enum value that is known under another number, unless the old
//     number is reserved;
//   - in the later schema, a number or name that the earlier one reserves;
//   - a oneof of fields that the writer can set together, and a oneof that lacks
//     a field of the writer's;
//   - a closed enum that lacks a value of the writer's.
func ProtobufCompatibility(previous, candidate protoreflect.FileDescriptor, mode CompatibilityMode) CompatibilityResult {
	var c protoCompatibility
	return checkHistory([]*protoSchema{newProtoSchema(previous, 0)}, newProtoSchema(candidate, 1), mode, c.violations)
}

// CheckProtobufCompatibility is [ProtobufCompatibility] for a candidate and the
// schemas before it, oldest first, as a registry holds them: source text or the
// base64 form of a descriptor, with the schemas that they import. Modes that are
// not transitive look at the last one alone.
//
// A text that is no Protobuf schema is an error that wraps a
// [*ProtobufSchemaError].
func CheckProtobufCompatibility(history []ResolvedSchema, candidate ResolvedSchema, mode CompatibilityMode, options ...ProtobufCompatibilityOption) (CompatibilityResult, error) {
	var c protoCompatibility
	for _, option := range options {
		option(&c)
	}
	compiled := make([]*protoSchema, len(history))
	for i, previous := range history {
		file, err := parseProtoFile(context.Background(), previous.Schema, referenceTexts(previous.Dependencies))
		if err != nil {
			return CompatibilityResult{}, fmt.Errorf("invalid previous Protobuf schema: %w", err)
		}
		compiled[i] = newProtoSchema(file, i)
	}
	file, err := parseProtoFile(context.Background(), candidate.Schema, referenceTexts(candidate.Dependencies))
	if err != nil {
		return CompatibilityResult{}, fmt.Errorf("invalid candidate Protobuf schema: %w", err)
	}
	return checkHistory(compiled, newProtoSchema(file, len(history)), mode, c.violations), nil
}

// protoSchema is a file with what it imports.
type protoSchema struct {
	file       protoreflect.FileDescriptor
	age        int // place in the history
	files      map[string]protoreflect.FileDescriptor
	extensions map[protoreflect.FullName][]protoreflect.FieldDescriptor // by what they extend
}

func newProtoSchema(file protoreflect.FileDescriptor, age int) *protoSchema {
	s := &protoSchema{
		file:       file,
		age:        age,
		files:      make(map[string]protoreflect.FileDescriptor),
		extensions: make(map[protoreflect.FullName][]protoreflect.FieldDescriptor),
	}
	s.add(file)
	return s
}

func (s *protoSchema) add(file protoreflect.FileDescriptor) {
	if s.files[file.Path()] != nil {
		return
	}
	s.files[file.Path()] = file
	s.addExtensions(file)
	for i := range file.Imports().Len() {
		s.add(file.Imports().Get(i).FileDescriptor)
	}
}

func (s *protoSchema) addExtensions(scope protoDeclarations) {
	for i := range scope.Extensions().Len() {
		extension := scope.Extensions().Get(i)
		extended := extension.ContainingMessage().FullName()
		s.extensions[extended] = append(s.extensions[extended], extension)
	}
	for i := range scope.Messages().Len() {
		s.addExtensions(scope.Messages().Get(i))
	}
}

// message returns the message of a full name, or nil.
func (s *protoSchema) message(name protoreflect.FullName) protoreflect.MessageDescriptor {
	// The names of the messages around it, innermost first.
	var path []protoreflect.Name
	for ; name != ""; name = name.Parent() {
		path = append(path, name.Name())
		for _, file := range s.files {
			if file.Package() != name.Parent() {
				continue
			}
			message := file.Messages().ByName(path[len(path)-1])
			for i := len(path) - 2; i >= 0 && message != nil; i-- {
				message = message.Messages().ByName(path[i])
			}
			if message != nil {
				return message
			}
		}
	}
	return nil
}

// fields returns the fields of a message in the order of declaration, extensions
// after them.
func (s *protoSchema) fields(message protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	fields := make([]protoreflect.FieldDescriptor, 0, message.Fields().Len())
	for i := range message.Fields().Len() {
		fields = append(fields, message.Fields().Get(i))
	}
	return append(fields, s.extensions[message.FullName()]...)
}

// declared returns the messages that a file declares for themselves: not those
// that a map field or a group brings along.
func (s *protoSchema) declared() []protoreflect.MessageDescriptor {
	var messages []protoreflect.MessageDescriptor
	var visit func(scope protoDeclarations)
	visit = func(scope protoDeclarations) {
		groups := groupTypes(scope)
		for i := range scope.Messages().Len() {
			message := scope.Messages().Get(i)
			if message.IsMapEntry() {
				continue
			}
			if !groups[message.FullName()] {
				messages = append(messages, message)
			}
			visit(message)
		}
	}
	visit(s.file)
	return messages
}
