// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
)

// protoCompatibility holds what the options of a check say.
type protoCompatibility struct {
	strict bool
}

// violations lists why one schema cannot read what another one wrote.
func (c *protoCompatibility) violations(reader, writer *prototext.File) []string {
	return prototext.Violations(reader, writer, c.strict)
}

// ProtobufCompatibilityOption configures [CheckProtobufCompatibility].
type ProtobufCompatibilityOption func(*protoCompatibility)

// WithStrictValues counts every change of a field's type by which a value of the
// writer may be lost: int64 read as int32, any integer as bool or as a closed
// enum, bytes as string, many values as one. By default types that share an
// encoding are compatible, and so are many texts, bytes or messages and one, as
// for registries.
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
//     another message type, a map in place of messages, a list of numbers in
//     place of a single one;
//   - a field that is required by the reader and not by the writer;
//   - a field or enum value that is known under another number, unless the old
//     number is reserved;
//   - in the later schema, a number or name that the earlier one reserves;
//   - a oneof of fields that the writer can set together, and a oneof that lacks
//     a field of the writer's;
//   - a closed enum that lacks a value of the writer's.
func ProtobufCompatibility(previous, candidate protoreflect.FileDescriptor, mode CompatibilityMode) CompatibilityResult {
	var c protoCompatibility
	return checkHistory([]*prototext.File{prototext.NewFile(previous, 0)}, prototext.NewFile(candidate, 1), mode, c.violations)
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
	compiled := make([]*prototext.File, len(history))
	for i, previous := range history {
		file, err := prototext.Compile(context.Background(), previous.Schema, referenceTexts(previous.Dependencies))
		if err != nil {
			return CompatibilityResult{}, fmt.Errorf("invalid previous Protobuf schema: %w", err)
		}
		compiled[i] = prototext.NewFile(file, i)
	}
	file, err := prototext.Compile(context.Background(), candidate.Schema, referenceTexts(candidate.Dependencies))
	if err != nil {
		return CompatibilityResult{}, fmt.Errorf("invalid candidate Protobuf schema: %w", err)
	}
	return checkHistory(compiled, prototext.NewFile(file, len(history)), mode, c.violations), nil
}
