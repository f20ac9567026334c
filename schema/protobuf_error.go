// SPDX-License-Identifier: Apache-2.0

package schema

import "fmt"

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
	// Path names the field, with numbers for fields that the message does not
	// declare; "" is the message itself. Of a very long path the middle is left
	// out.
	Path string
	// Offset is where the fault is, in bytes from the start of the body.
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
