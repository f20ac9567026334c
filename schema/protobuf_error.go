// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
)

// ProtobufSchemaError reports a text that is not a Protobuf schema, and where it
// is not.
//
// File is the import path of the file, "" for the schema itself. Line and Column
// count from 1; they are 0 where the place is not known. MissingImport is the
// path of an import that is neither a well-known file nor among the schema's
// references; "" when something else is wrong. Unwrap() returns the underlying
// cause, or nil.
type ProtobufSchemaError = prototext.SchemaError

// PrintProtoFile returns the source text of a Protobuf file: the text that a
// serde registers. The same descriptor has the same text in every process, and
// the text compiles to an equal descriptor, but for what has no meaning:
// comments, and the order of declarations of different kinds.
//
// Within a scope the text has enums before messages, and a message has its
// nested messages before its fields. So the index of a message is the same
// whether a reader counts the entry types of maps and the types of groups or
// not.
//
// Left out is what no source can say: values of extensions that the file does
// not import, options that are not interpreted yet.
func PrintProtoFile(file protoreflect.FileDescriptor) string { return prototext.Print(file) }

// ProtobufMessageError says that a record, or the schema to write under, does
// not have the message that a serde is for.
type ProtobufMessageError struct {
	// Indexes are the message indexes of the record; nil when writing.
	Indexes []int
	// Writer is the full name of the message in the writer's schema; "" when the
	// indexes lead to none.
	Writer string
	// Local is the full name of the serde's own message; "" when it has none.
	Local string

	reason string
}

// Error names both messages, or tells why the record has none.
func (e *ProtobufMessageError) Error() string { return e.reason }

func mismatch(indexes []int, writer, local string) *ProtobufMessageError {
	return &ProtobufMessageError{
		Indexes: indexes, Writer: writer, Local: local,
		reason: fmt.Sprintf("Protobuf messageType mismatch: writer %s, local %s (message indexes %v)", writer, local, indexes),
	}
}

// ProtobufValueError reports a message that cannot be written, such as one with a
// required field that is not set.
type ProtobufValueError struct {
	// Message is the full name of the message that was to be written.
	Message string
	// Path names the field; "" is the message itself. Of a very long path the
	// middle is left out.
	Path string

	reason string
	cause  error
}

// Error tells the field and the fault.
func (e *ProtobufValueError) Error() string {
	return protobufPlace(e.Message, e.Path) + ": " + e.reason
}

// Unwrap returns the error of the Protobuf library.
func (e *ProtobufValueError) Unwrap() error { return e.cause }

func protobufPlace(message, path string) string {
	if path == "" {
		return "message " + message
	}
	return "message " + message + " field " + path
}

// ProtobufDataError reports a Protobuf body that cannot be read as the message
// that it is for.
type ProtobufDataError struct {
	// Message is the full name of the message that was read.
	Message string
	// Path names the field that is cut off or not text, with a number for a field
	// that the message does not declare; elements of lists and entries of maps
	// are counted as they stand in the body. It is "" where the message as a whole
	// is refused. Of a very long path the middle is left out.
	Path string
	// Offset is where the field is, in bytes from the start of the body; the length
	// of the body where the message as a whole is refused.
	Offset int

	reason string
	cause  error
}

// Error tells the field, the offset and the fault.
func (e *ProtobufDataError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s", protobufPlace(e.Message, e.Path), e.Offset, e.reason)
}

// Unwrap returns the error of the Protobuf library.
func (e *ProtobufDataError) Unwrap() error { return e.cause }
