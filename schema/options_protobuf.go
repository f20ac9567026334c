// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ProtobufResolver finds the Go types of messages and extensions by name. A
// [*protoregistry.Types] is one.
type ProtobufResolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// protobufOptions are the options of Protobuf serdes.
type protobufOptions struct {
	types            ProtobufResolver // nil: what is linked into the program
	messages         []proto.Message  // beside the prototype
	text             string           // "": as printed
	referenceSubject func(importPath string) string
	discardUnknown   bool
	partial          bool
	unchecked        bool
	recursionLimit   int // 0: proto's own
}

// WithMessages makes a serde of an interface type, such as proto.Message, write
// and read the messages of these types beside the prototype's: the types of a
// topic that carries several. Each has the subject that the strategy gives it,
// and the indexes of its own file; the values are not kept.
func WithMessages(prototypes ...proto.Message) SerdeOption {
	return optionOf(KindProtobuf, "WithMessages", func(o *protobufOptions, refuse optionRefusal) {
		for _, prototype := range prototypes {
			if isNilMessage(prototype) {
				refuse("WithMessages needs messages that are not nil")
				return
			}
		}
		o.messages = append(o.messages, prototypes...)
	})
}

// WithProtobufText registers text instead of what [PrintProtoFile] makes of the
// message's file: the author's own, or the one that the registry holds. It must
// declare the message, under imports of the same paths. Message indexes are
// those of the text.
func WithProtobufText(text string) SerdeOption {
	return optionOf(KindProtobuf, "WithProtobufText", func(o *protobufOptions, refuse optionRefusal) {
		if text == "" {
			refuse("Protobuf text must not be empty")
			return
		}
		o.text = text
	})
}

// WithReferenceSubjects names the subjects of imported files. The default is the
// import path itself, as in Confluent's clients. It must be a pure function and
// safe for concurrent use.
func WithReferenceSubjects(subject func(importPath string) string) SerdeOption {
	return optionOf(KindProtobuf, "WithReferenceSubjects", func(o *protobufOptions, refuse optionRefusal) {
		if subject == nil {
			refuse("reference subject strategy must not be nil")
			return
		}
		o.referenceSubject = subject
	})
}

// WithProtobufTypes finds extensions through types, and the Go types of messages
// in a serde without a prototype. It must be safe for concurrent use. The
// default is what is linked into the program, and for a [*dynamicpb.Message]
// what its file and the imports declare.
func WithProtobufTypes(types ProtobufResolver) SerdeOption {
	return optionOf(KindProtobuf, "WithProtobufTypes", func(o *protobufOptions, refuse optionRefusal) {
		if types == nil {
			refuse("Protobuf types must not be nil")
			return
		}
		o.types = types
	})
}

// WithDiscardUnknown drops fields that the message does not declare. By default
// they are kept and written again with it.
func WithDiscardUnknown() SerdeOption {
	return optionOf(KindProtobuf, "WithDiscardUnknown", func(o *protobufOptions, _ optionRefusal) {
		o.discardUnknown = true
	})
}

// WithPartialMessages writes and reads messages without all of their required
// fields. By default they are errors.
func WithPartialMessages() SerdeOption {
	return optionOf(KindProtobuf, "WithPartialMessages", func(o *protobufOptions, _ optionRefusal) {
		o.partial = true
	})
}

// WithRecursionLimit bounds how deeply messages that are read may nest. The
// default is 10000. It must be positive.
func WithRecursionLimit(levels int) SerdeOption {
	return optionOf(KindProtobuf, "WithRecursionLimit", func(o *protobufOptions, refuse optionRefusal) {
		setPositive(&o.recursionLimit, levels, "recursion limit", refuse)
	})
}

// WithoutMessageCheck reads every record as the serde's own message, whatever
// its message indexes say. Reading then needs no schema of the registry. By
// default the indexes are resolved against the writer's schema, and a record of
// another message is an error.
func WithoutMessageCheck() SerdeOption {
	return optionOf(KindProtobuf, "WithoutMessageCheck", func(o *protobufOptions, _ optionRefusal) {
		o.unchecked = true
	})
}

// isNilMessage reports whether a message has no descriptor.
func isNilMessage(message proto.Message) bool {
	if dynamic, ok := message.(*dynamicpb.Message); ok {
		return dynamic == nil
	}
	return message == nil
}
