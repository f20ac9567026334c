// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// ProtobufFramerSpec returns the local schema of a framer for a message: the
// message's file, printed by [PrintProtoFile], and its imports as references, as
// [NewProtobufSerde] registers them. Of the options of Protobuf serdes it takes
// [WithProtobufText] and [WithReferenceSubjects]; those about values are errors.
func ProtobufFramerSpec(message protoreflect.MessageDescriptor, options ...SerdeOption) (FramerSpec, error) {
	var own protobufOptions
	o, err := serdeOptionsFor(KindProtobuf, &own, options)
	if own.types != nil || own.messages != nil || own.discardUnknown || own.partial || own.unchecked || own.recursionLimit != 0 {
		err = errors.Join(err, badOption("of the options of Protobuf serdes, framers take WithProtobufText and WithReferenceSubjects alone"))
	}
	if err != nil {
		return FramerSpec{}, err
	}
	local, err := newProtobufLocal(message, o.references, &own)
	if err != nil {
		return FramerSpec{}, err
	}
	spec := local.spec()
	return FramerSpec{
		Kind: KindProtobuf, Schema: spec.text, MessageType: spec.messageType, RecordName: spec.recordName, References: spec.references,
	}, nil
}

// ProtobufLocation is where a schema of the registry declares a message. It is
// immutable and safe for concurrent use.
type ProtobufLocation struct {
	message protoreflect.FullName
	file    protoreflect.FileDescriptor // nil where stated stands in for it
	stated  protoreflect.FullName
	indexes []byte // of the message in wire form; nil where the file does not declare it
}

// LocateProtobuf finds a message in a schema. Where the text declares no message,
// the message type that the registry states stands in; a message that the schema
// does not declare is no error before [ProtobufLocation.Check] or
// [ProtobufLocation.Indexes].
func LocateProtobuf(resolved ResolvedSchema, message protoreflect.FullName) (*ProtobufLocation, error) {
	l := &ProtobufLocation{message: message, stated: protoreflect.FullName(resolved.MessageType)}
	file, err := parseProtobuf(resolved.Schema, resolved.Dependencies)
	switch {
	case err != nil && l.stated == "":
		return nil, fmt.Errorf("invalid schema: %w", err)
	case err != nil || file.Messages().Len() == 0 && l.stated != "":
		return l, nil
	}
	l.file = file
	l.indexes, _ = wireIndexes(file, message)
	if l.stated != "" && l.stated != message {
		if _, declared := wireIndexes(file, l.stated); !declared {
			l.file = nil // the registry contradicts its own text
		}
	}
	return l, nil
}

// Check returns a [*ProtobufMessageError] unless a record with these message
// indexes, in wire form, holds the message.
func (l *ProtobufLocation) Check(indexes []byte) error {
	if l.file == nil {
		if l.stated == l.message {
			return nil
		}
		return mismatch(messageIndexes(indexes), string(l.stated), string(l.message))
	}
	if l.indexes != nil && bytes.Equal(indexes, l.indexes) {
		return nil
	}
	path := messageIndexes(indexes) // they may be spelt in another way
	descriptor, wrong := messageAt(l.file, path)
	switch {
	case wrong != nil:
		wrong.Local = string(l.message)
		return wrong
	case descriptor.FullName() != l.message:
		return mismatch(path, string(descriptor.FullName()), string(l.message))
	}
	return nil
}

// Indexes returns the message indexes of the message in the schema. The caller
// owns them.
func (l *ProtobufLocation) Indexes() ([]int, error) {
	if l.indexes == nil {
		return nil, &ProtobufMessageError{
			Local: string(l.message), reason: fmt.Sprintf("the schema declares no message %s with message indexes", l.message),
		}
	}
	return messageIndexes(l.indexes), nil
}
