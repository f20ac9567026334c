// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ProtobufSerde is a [Serde] for Protobuf messages. Bodies are written
// deterministically; fields that a message does not declare are kept.
//
// A record says by message indexes which message of the writer's schema it
// holds. They are resolved against that schema, and a record of another message
// is a [*ProtobufMessageError]. Where the writer's schema declares no message,
// the message type that the registry states stands in.
//
// A ProtobufSerde is safe for concurrent use by multiple goroutines. The zero
// value is not usable.
type ProtobufSerde[T proto.Message] struct {
	serdeCore[T]
	local    *protobufLocal  // nil without a schema of its own
	variants []*serdeCore[T] // for the messages beside the local one
}

// NewProtobufSerde returns a serde for messages of the prototype's type, which
// may be a nil pointer of a generated type. The schema is the file of the
// message, printed by [PrintProtoFile]; its imports are registered as
// references, except for the well-known ones.
//
// A nil interface, or a nil [*dynamicpb.Message], makes a serde that only reads,
// whatever message a record holds: into the Go type that is linked into the
// program or that [WithProtobufTypes] finds, and else into a dynamic message
// that the writer's schema describes. A *dynamicpb.Message is always of the
// writer's schema. With [WithMessages] it writes those messages.
//
// What is wrong with the parameters is returned by Err, by every call, and by
// the next prewarm after RegisterSubject.
func NewProtobufSerde[T proto.Message](prototype T, cache *SchemaCache, role Role, options ...SerdeOption) *ProtobufSerde[T] {
	s := new(ProtobufSerde[T])
	s.broken = s.setUp(prototype, cache, role, options)
	return s
}

// NewDynamicProtobufSerde returns a serde for dynamic messages under schemaText,
// which is registered as given. The name of the message is its full name, and ""
// is the first one of the schema. [WithReferences] gives what the schema
// imports.
func NewDynamicProtobufSerde(schemaText, messageName string, cache *SchemaCache, role Role, options ...SerdeOption) (*ProtobufSerde[*dynamicpb.Message], error) {
	o, own, err := protobufOptionsFor[*dynamicpb.Message](options)
	if err != nil {
		return nil, err
	}
	if own.text != "" {
		return nil, badOption("WithProtobufText is for serdes whose schema is not a parameter")
	}
	local, err := parseProtobufLocal(schemaText, messageName, o.references)
	if err != nil {
		return nil, err
	}
	s := new(ProtobufSerde[*dynamicpb.Message])
	if err := s.use(local, dynamicpb.NewMessage(local.message), cache, role, o, own); err != nil {
		return nil, err
	}
	return s, nil
}

// Err returns why the serde cannot work, or nil.
func (s *ProtobufSerde[T]) Err() error { return s.broken }

// Descriptor returns the message that the serde writes and reads, for making
// dynamic messages. It is nil without a prototype, and where Err is not.
func (s *ProtobufSerde[T]) Descriptor() protoreflect.MessageDescriptor {
	if s.local == nil {
		return nil
	}
	return s.local.message
}

// protobufOptionsFor applies options for a serde of type T.
func protobufOptionsFor[T proto.Message](options []SerdeOption) (serdeOptions, protobufOptions, error) {
	var own protobufOptions
	o, err := serdeOptionsFor(KindProtobuf, &own, options)
	if o.nilValues {
		err = errors.Join(err, badOption("WithNilValues is not for Protobuf, which has no null"))
	}
	for _, message := range own.messages {
		if _, ok := newMessageOf(message).(T); !ok {
			err = errors.Join(err, badOption("WithMessages: %T is not a %v", message, reflect.TypeFor[T]()))
		}
	}
	if own.unchecked && len(own.messages) > 0 {
		err = errors.Join(err, badOption("WithoutMessageCheck excludes WithMessages"))
	}
	return o, own, err
}

// newMessageOf returns a new message of a prototype's type.
func newMessageOf(prototype proto.Message) proto.Message {
	return prototype.ProtoReflect().Type().New().Interface()
}

func (s *ProtobufSerde[T]) setUp(prototype T, cache *SchemaCache, role Role, options []SerdeOption) error {
	s.cache, s.role, s.isTombstone = cache, role, tombstoneCheck[T](false)
	// A prewarm tells them of a serde that is broken, too.
	s.serdeCore.local.kind = KindProtobuf
	if !isNilMessage(prototype) {
		s.recordName = string(prototype.ProtoReflect().Descriptor().FullName())
		s.serdeCore.local.messageType = s.recordName
	}
	o, own, err := protobufOptionsFor[T](options)
	s.options = o
	if err != nil {
		return err
	}
	if isNilMessage(prototype) {
		if own.unchecked || own.text != "" {
			return badOption("WithoutMessageCheck and WithProtobufText need a prototype")
		}
		return s.use(nil, nil, cache, role, o, own)
	}
	made := newMessageOf(prototype)
	if _, ok := made.(T); !ok {
		return fmt.Errorf("new messages of a %T are of type %T", prototype, made)
	}
	local, err := newProtobufLocal(made.ProtoReflect().Descriptor(), o.references, &own)
	if err != nil {
		return err
	}
	return s.use(local, made, cache, role, o, own)
}

// use finishes a serde whose schema is known; local is nil without one.
func (s *ProtobufSerde[T]) use(local *protobufLocal, prototype proto.Message, cache *SchemaCache, role Role, o serdeOptions, own protobufOptions) error {
	f := &protobufFormat[T]{options: own, local: local, readers: map[protoreflect.FullName]protoreflect.MessageType{}}
	spec := serdeSpec{kind: KindProtobuf}
	if local != nil {
		spec = local.spec()
		f.readers[local.message.FullName()] = prototype.ProtoReflect().Type()
	}
	var variants []*protobufLocal
	for _, message := range own.messages {
		descriptor := message.ProtoReflect().Descriptor()
		if f.readers[descriptor.FullName()] != nil {
			return badOption("WithMessages: message %s is given twice", descriptor.FullName())
		}
		f.readers[descriptor.FullName()] = message.ProtoReflect().Type()
		of := own
		if local == nil || local.message.ParentFile().Path() != descriptor.ParentFile().Path() {
			of.text = ""
		}
		variant, err := newProtobufLocal(descriptor, o.references, &of)
		if err != nil {
			return fmt.Errorf("WithMessages: %w", err)
		}
		variants = append(variants, variant)
	}
	o.references = nil // they are among those of the schema
	main := o
	if local == nil {
		main.recordStrategy = nil // it names what is written
	}
	if err := s.init(spec, cache, role, main, f); err != nil {
		return err
	}
	s.local = local
	for _, variant := range variants {
		core := new(serdeCore[T])
		if err := core.init(variant.spec(), cache, role, o, &protobufFormat[T]{options: own, local: variant}); err != nil {
			return err
		}
		s.variants = append(s.variants, core)
	}
	return nil
}

func (l *protobufLocal) spec() serdeSpec {
	name := string(l.message.FullName())
	return serdeSpec{kind: KindProtobuf, text: l.text, messageType: name, recordName: name, references: l.references}
}

// RegisterSubject interns the schemas of the serde's messages for topic, to be
// resolved by the next prewarm.
func (s *ProtobufSerde[T]) RegisterSubject(topic string) {
	if s.local != nil || s.broken != nil {
		s.serdeCore.RegisterSubject(topic)
	}
	for _, variant := range s.variants {
		variant.RegisterSubject(topic)
	}
}

// writer returns what writes a value.
func (s *ProtobufSerde[T]) writer(topic string, value T) (*serdeCore[T], error) {
	if s.local != nil && len(s.variants) == 0 || s.broken != nil || s.isTombstone(value) {
		return &s.serdeCore, nil
	}
	name := value.ProtoReflect().Descriptor().FullName()
	if s.local != nil && s.local.message.FullName() == name {
		return &s.serdeCore, nil
	}
	for _, variant := range s.variants {
		if variant.recordName == string(name) {
			return variant, nil
		}
	}
	local := ""
	if s.local != nil {
		local = string(s.local.message.FullName())
	}
	return nil, &SerializeError{
		Subject: s.Subject(topic), Kind: KindProtobuf, cause: foreignMessage(string(name), local),
	}
}

func foreignMessage(name, local string) *ProtobufMessageError {
	return &ProtobufMessageError{Local: local, reason: fmt.Sprintf("message %s is none that the serde writes", name)}
}

// Serialize returns the framed payload of value, or nil for a tombstone. The
// caller owns it.
func (s *ProtobufSerde[T]) Serialize(topic string, value T) ([]byte, error) {
	w, err := s.writer(topic, value)
	if err != nil {
		return nil, err
	}
	return w.Serialize(topic, value)
}

// AppendSerialize appends the framed payload of value to dst and returns the
// extended slice, or nil for a tombstone. With an error it returns dst as it
// was.
func (s *ProtobufSerde[T]) AppendSerialize(dst []byte, topic string, value T) ([]byte, error) {
	w, err := s.writer(topic, value)
	if err != nil {
		return dst, err
	}
	return w.AppendSerialize(dst, topic, value)
}

// SerializeWithHeaders returns the bare payload of value and headers with the
// schema id and the message indexes appended: the GUID where the registry states
// one, the numeric id otherwise. A tombstone is nil and appends no header. The
// caller owns the payload; the header's value is shared and must not be changed.
func (s *ProtobufSerde[T]) SerializeWithHeaders(topic string, value T, headers []Header) ([]byte, []Header, error) {
	w, err := s.writer(topic, value)
	if err != nil {
		return nil, headers, err
	}
	return w.SerializeWithHeaders(topic, value, headers)
}

// protobufFormat plugs Protobuf into the serde core.
type protobufFormat[T proto.Message] struct {
	options protobufOptions
	local   *protobufLocal // nil without a schema of its own
	// readers are the types that are read. Without a schema of its own the serde
	// reads all others too.
	readers map[protoreflect.FullName]protoreflect.MessageType
}

func (f *protobufFormat[T]) indexed() bool { return true }

func (f *protobufFormat[T]) needsWriter() bool { return !f.options.unchecked }

func (f *protobufFormat[T]) compileEncoder(target *writerSchema) (encoder[T], error) {
	indexes := f.local.indexes
	name := f.local.message.FullName()
	if target.text != f.local.text {
		file, err := parseProtobuf(target.text, target.references)
		if err != nil {
			return encoder[T]{}, fmt.Errorf("invalid writer schema %v: %w", target.id, err)
		}
		var ok bool
		if indexes, ok = wireIndexes(file, name); !ok {
			return encoder[T]{}, &ProtobufMessageError{
				Local:  string(name),
				reason: fmt.Sprintf("schema %v declares no message %s with message indexes", target.id, name),
			}
		}
	}
	options := proto.MarshalOptions{Deterministic: true, AllowPartial: f.options.partial}
	return encoder[T]{indexes: indexes, appendBody: func(dst []byte, value T) ([]byte, error) {
		if m := value.ProtoReflect().Descriptor(); m != f.local.message && m.FullName() != name {
			return dst, foreignMessage(string(m.FullName()), string(name))
		}
		out, err := options.MarshalAppend(dst, value)
		if err != nil {
			return dst, valueError(value.ProtoReflect(), options.AllowPartial, err)
		}
		return out, nil
	}}, nil
}

// protobufReader reads one message.
type protobufReader[T proto.Message] struct {
	message protoreflect.MessageType
	guard   bool // the library may panic
	options proto.UnmarshalOptions
}

func (r *protobufReader[T]) read(body []byte) (T, error) {
	m := r.message.New().Interface()
	unmarshal := r.options.Unmarshal
	if r.guard {
		unmarshal = r.guarded
	}
	if err := unmarshal(body, m); err != nil {
		var zero T
		return zero, dataError(r.message.Descriptor(), body, r.options.RecursionLimit, err)
	}
	return m.(T), nil
}

// guarded turns a panic into an error.
func (r *protobufReader[T]) guarded(body []byte, m proto.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the Protobuf library fails: %v", p)
		}
	}()
	return r.options.Unmarshal(body, m)
}

func (f *protobufFormat[T]) compileDecoder(writer *writerSchema) (decoder[T], error) {
	if !f.needsWriter() {
		reader, err := f.reader(f.readers[f.local.message.FullName()], nil)
		if err != nil {
			return nil, err
		}
		return func(_, body []byte) (T, error) { return reader.read(body) }, nil
	}
	file, err := f.writerFile(writer)
	stated := protoreflect.FullName(writer.messageType)
	switch {
	case stated == "":
		if err != nil {
			return nil, fmt.Errorf("invalid writer schema %v: %w", writer.id, err)
		}
	case err != nil || file.Messages().Len() == 0:
		return f.statedDecoder(stated)
	case f.local != nil && f.readers[stated] == nil:
		if _, declared := wireIndexes(file, stated); !declared {
			// The registry contradicts its own text.
			return f.refusal(stated), nil
		}
	}
	return f.fileDecoder(file)
}

// writerFile compiles a writer schema, unless it is the serde's own.
func (f *protobufFormat[T]) writerFile(writer *writerSchema) (protoreflect.FileDescriptor, error) {
	if f.local != nil && writer.text == f.local.text {
		return f.local.file, nil
	}
	return parseProtobuf(writer.text, writer.references)
}

// statedDecoder reads the message that the registry states, where the writer
// schema declares none.
func (f *protobufFormat[T]) statedDecoder(stated protoreflect.FullName) (decoder[T], error) {
	message := f.readers[stated]
	if message == nil && f.local == nil {
		message = f.linked(stated)
	}
	if message == nil {
		return f.refusal(stated), nil
	}
	reader, err := f.reader(message, nil)
	if err != nil {
		return nil, err
	}
	return func(_, body []byte) (T, error) { return reader.read(body) }, nil
}

// refusal is for records of a message that the serde does not read.
func (f *protobufFormat[T]) refusal(writer protoreflect.FullName) decoder[T] {
	return func(indexes, _ []byte) (T, error) {
		var zero T
		wrong := mismatch(messageIndexes(indexes), string(writer), f.names())
		if f.local == nil {
			wrong.reason = fmt.Sprintf("Protobuf message %s (message indexes %v) has no Go type that is a %v", writer, wrong.Indexes, reflect.TypeFor[T]())
		}
		return zero, wrong
	}
}

// names returns the full names of the messages that the serde reads.
func (f *protobufFormat[T]) names() string {
	var names []string
	for name := range f.readers {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// fileDecoder reads the messages of one file.
func (f *protobufFormat[T]) fileDecoder(file protoreflect.FileDescriptor) (decoder[T], error) {
	_, fits := proto.Message((*dynamicpb.Message)(nil)).(T)
	readers := map[string]*protobufReader[T]{} // by indexes in wire form
	var declared *dynamicpb.Types              // by file
	for path, descriptor := range indexedMessages(file, nil) {
		message := f.readers[descriptor.FullName()]
		if message == nil && f.local == nil {
			if message = f.linked(descriptor.FullName()); message == nil && fits {
				message = dynamicpb.NewMessageType(descriptor)
			}
		}
		if message == nil {
			continue
		}
		if declared == nil {
			var err error
			if declared, err = fileTypes(file); err != nil {
				return nil, err
			}
		}
		reader, err := f.reader(message, declared)
		if err != nil {
			return nil, err
		}
		list, err := appendMessageIndexes(nil, path)
		if err != nil {
			return nil, err
		}
		readers[string(list)] = reader
	}
	return func(indexes, body []byte) (T, error) {
		reader := readers[string(indexes)]
		if reader == nil {
			// They may be spelt in another way.
			path := messageIndexes(indexes)
			canonical, _ := appendMessageIndexes(nil, path)
			if reader = readers[string(canonical)]; reader == nil {
				descriptor, err := messageAt(file, path)
				if err != nil {
					var zero T
					err.Local = f.names()
					return zero, err
				}
				return f.refusal(descriptor.FullName())(indexes, nil)
			}
		}
		return reader.read(body)
	}, nil
}

// linked returns the Go type of a message for a serde without a schema of its
// own, or nil.
func (f *protobufFormat[T]) linked(name protoreflect.FullName) protoreflect.MessageType {
	var types ProtobufResolver = protoregistry.GlobalTypes
	if f.options.types != nil {
		types = f.options.types
	}
	message, err := types.FindMessageByName(name)
	if err != nil {
		return nil
	}
	if _, ok := message.Zero().Interface().(T); !ok {
		return nil
	}
	return message
}

// reader prepares to read a message, which must be a T. Dynamic messages find
// extensions through declared, or through their own file where it is nil.
func (f *protobufFormat[T]) reader(message protoreflect.MessageType, declared *dynamicpb.Types) (*protobufReader[T], error) {
	var extensions protoregistry.ExtensionTypeResolver = protoregistry.GlobalTypes
	if _, dynamic := message.Zero().Interface().(*dynamicpb.Message); dynamic {
		if declared == nil {
			var err error
			if declared, err = fileTypes(message.Descriptor().ParentFile()); err != nil {
				return nil, err
			}
		}
		extensions = declared
	}
	if f.options.types != nil {
		extensions = f.options.types
	}
	return &protobufReader[T]{message: message, guard: mayPanic(message), options: proto.UnmarshalOptions{
		Merge:          true, // into a new message
		AllowPartial:   f.options.partial,
		DiscardUnknown: f.options.discardUnknown,
		RecursionLimit: f.options.recursionLimit,
		Resolver:       extensions,
	}}, nil
}

// mayPanic reports whether the Protobuf library reads messages of a type by
// reflection, which panics for a second key of another wire type in a map entry.
// It does so for dynamic messages, which extensions may be.
func mayPanic(message protoreflect.MessageType) bool {
	methods := message.New().ProtoMethods()
	return methods == nil || methods.Unmarshal == nil || extensible(message.Descriptor(), map[protoreflect.FullName]bool{})
}

// extensible reports whether there may be extensions anywhere in a message.
func extensible(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[m.FullName()] {
		return false
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		if nested := m.Fields().Get(i).Message(); nested != nil && extensible(nested, seen) {
			return true
		}
	}
	return m.ExtensionRanges().Len() > 0
}
