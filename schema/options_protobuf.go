// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
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

func (o *serdeOptions) onlyProtobuf(name string) { o.only(KindProtobuf, name) }

// WithMessages makes a serde of an interface type, such as proto.Message, write
// and read the messages of these types beside the prototype's: the types of a
// topic that carries several. Each has the subject that the strategy gives it,
// and the indexes of its own file; the values are not kept.
func WithMessages(prototypes ...proto.Message) SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithMessages")
		for _, prototype := range prototypes {
			if isNilMessage(prototype) {
				o.refuse("WithMessages needs messages that are not nil")
				return
			}
		}
		o.protobuf.messages = append(o.protobuf.messages, prototypes...)
	}
}

// WithProtobufText registers text instead of what [PrintProtoFile] makes of the
// message's file: the author's own, or the one that the registry holds. It must
// declare the message, under imports of the same paths. Message indexes are
// those of the text.
func WithProtobufText(text string) SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithProtobufText")
		if text == "" {
			o.refuse("Protobuf text must not be empty")
			return
		}
		o.protobuf.text = text
	}
}

// WithReferenceSubjects names the subjects of imported files. The default is the
// import path itself, as in Confluent's clients. It must be a pure function and
// safe for concurrent use.
func WithReferenceSubjects(subject func(importPath string) string) SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithReferenceSubjects")
		if subject == nil {
			o.refuse("reference subject strategy must not be nil")
			return
		}
		o.protobuf.referenceSubject = subject
	}
}

// WithProtobufTypes finds extensions through types, and the Go types of messages
// in a serde without a prototype. It must be safe for concurrent use. The
// default is what is linked into the program, and for a [*dynamicpb.Message]
// what its file and the imports declare.
func WithProtobufTypes(types ProtobufResolver) SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithProtobufTypes")
		if types == nil {
			o.refuse("Protobuf types must not be nil")
			return
		}
		o.protobuf.types = types
	}
}

// WithDiscardUnknown drops fields that the message does not declare. By default
// they are kept and written again with it.
func WithDiscardUnknown() SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithDiscardUnknown")
		o.protobuf.discardUnknown = true
	}
}

// WithPartialMessages writes and reads messages without all of their required
// fields. By default they are errors.
func WithPartialMessages() SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithPartialMessages")
		o.protobuf.partial = true
	}
}

// WithRecursionLimit bounds how deeply messages that are read may nest. The
// default is 10000. It must be positive.
func WithRecursionLimit(levels int) SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithRecursionLimit")
		setPositive(&o.protobuf.recursionLimit, levels, "recursion limit", o.refuse)
	}
}

// WithoutMessageCheck reads every record as the serde's own message, whatever
// its message indexes say. Reading then needs no schema of the registry. By
// default the indexes are resolved against the writer's schema, and a record of
// another message is an error.
func WithoutMessageCheck() SerdeOption {
	return func(o *serdeOptions) {
		o.onlyProtobuf("WithoutMessageCheck")
		o.protobuf.unchecked = true
	}
}
