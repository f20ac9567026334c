// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/binary"
	"slices"
)

// Framer is a serde without values: it knows subjects, frames and writer
// schemas, and leaves the bodies to a codec that reads and writes many records
// at a time in a form of its own, such as columns. What the codec compiles for a
// writer schema (a D) and for the schema to write under (an E) is kept beside
// the schema.
//
// A Framer does no I/O, and its errors are those of a [Serde]. It is safe for
// concurrent use by multiple goroutines.
type Framer[D, E any] struct {
	core serdeCore[*framed[D, E]]
}

// FramerSpec is the local schema of a [Framer].
type FramerSpec struct {
	Kind        Kind
	Schema      string      // as it is registered
	MessageType string      // of Protobuf
	RecordName  string      // for [WithRecordStrategy]; "" where the schema has none
	References  []Reference // unless [WithReferences] replaces them
	// WriterUnused says that bodies are read without the writer's schema, which is
	// then not fetched: CompileDecoder runs once, with no schema.
	WriterUnused bool
}

// FramerFormat compiles schemas for a [Framer]. Its methods may be called by
// several goroutines at a time. An error is kept with the schema and returned
// for every record.
type FramerFormat[D, E any] interface {
	// CompileDecoder prepares to read the bodies of a writer schema. It runs once
	// for each.
	CompileDecoder(writer ResolvedSchema) (D, error)
	// CompileEncoder prepares to write bodies under target: the local schema, or
	// the registry's latest where the cache is told to use that. indexes is the
	// path of the message in the target for Protobuf and empty otherwise. It runs
	// once for each resolution of a subject.
	CompileEncoder(target ResolvedSchema) (encoder E, indexes []int, err error)
}

// NewFramer returns a framer for the part of a record that role names.
func NewFramer[D, E any](spec FramerSpec, cache *SchemaCache, role Role, format FramerFormat[D, E], options ...SerdeOption) (*Framer[D, E], error) {
	var target any
	if spec.Kind == KindProtobuf {
		target = new(protobufOptions) // ProtobufFramerSpec has obeyed or refused them
	}
	o, err := serdeOptionsFor(spec.Kind, target, options)
	if err != nil {
		return nil, err
	}
	if spec.Kind == KindProtobuf {
		o.references = nil // they are among those of the spec
	}
	if _, err := dependencyOrder(spec.References); err != nil {
		return nil, err
	}
	f := new(Framer[D, E])
	local := serdeSpec{
		kind: spec.Kind, text: compacted(spec.Kind, spec.Schema), messageType: spec.MessageType,
		recordName: spec.RecordName, references: slices.Clone(spec.References),
	}
	return f, f.core.init(local, cache, role, o, &framedFormat[D, E]{format, spec.Kind == KindProtobuf, !spec.WriterUnused})
}

// ReferencesOf returns the references that [WithReferences] among the options
// gives, and what they refer to, dependencies first.
func ReferencesOf(options ...SerdeOption) ([]Reference, error) {
	var o serdeOptions
	for _, option := range options {
		option(&o)
	}
	return dependencyOrder(o.references)
}

// Role returns the part of the record that the framer is for.
func (f *Framer[D, E]) Role() Role { return f.core.role }

// Subject returns the subject of the local schema for topic.
func (f *Framer[D, E]) Subject(topic string) string { return f.core.Subject(topic) }

// RegisterSubject interns the local schema for topic, to be resolved by the next
// prewarm.
func (f *Framer[D, E]) RegisterSubject(topic string) { f.core.RegisterSubject(topic) }

// Writer returns what the records of topic are written with, or an
// [*UnresolvedSubjectError].
func (f *Framer[D, E]) Writer(topic string) (FrameWriter[E], error) {
	enc, err := f.core.encoder(topic)
	if err != nil {
		return FrameWriter[E]{}, err
	}
	var plan framed[D, E]
	if _, err := enc.appendBody(nil, &plan); err != nil {
		return FrameWriter[E]{}, enc.failure(err)
	}
	return FrameWriter[E]{Plan: plan.write, Prefix: enc.prefix, Header: enc.header, failure: enc.failure}, nil
}

// FrameWriter is what the records of one topic are written with.
type FrameWriter[E any] struct {
	// Plan is what the format compiled for the schema.
	Plan E
	// Prefix is what precedes each body in a payload. It must not be changed.
	Prefix []byte
	// Header is the value of the record header that carries the schema id where
	// payloads are bare bodies. It must not be changed.
	Header []byte

	failure func(error) error
}

// Failure returns the [*SerializeError] of a value that cannot be written.
func (w *FrameWriter[E]) Failure(cause error) error { return w.failure(cause) }

// Reader returns what splits the records of topic.
func (f *Framer[D, E]) Reader(topic string) *FrameReader[D, E] {
	return &FrameReader[D, E]{core: &f.core, topic: topic}
}

// FrameReader splits the records of one topic. It remembers the writer schema
// of the record before, and is for a few records at a time: a schema that is
// replaced in the cache meanwhile is not noticed. It is not safe for concurrent
// use.
type FrameReader[D, E any] struct {
	core  *serdeCore[*framed[D, E]]
	topic string
	id    writerID
	plan  *framed[D, E] // of id; nil before the first record
	short bool          // a frame is id and body alone
}

// Split takes the schema id off a payload and returns what the format compiled
// for it, the message-index list of Protobuf in wire form, as
// [ProtobufLocation.Check] takes it, and the body. Both are parts of payload.
func (r *FrameReader[D, E]) Split(payload []byte) (plan D, indexes, body []byte, err error) {
	if r.plan != nil && r.short && len(payload) >= idFrameBytes && payload[0] == Magic && binary.BigEndian.Uint32(payload[1:]) == r.id.id {
		return r.plan.read, nil, payload[idFrameBytes:len(payload):len(payload)], nil
	}
	id, indexes, body, err := r.core.splitFrame(r.topic, payload)
	if err != nil {
		return plan, nil, nil, err
	}
	plan, err = r.find(id)
	return plan, indexes, body, err
}

// SplitHeader reads the value of the record header that carries the schema id
// of a bare body; its key is [KeySchemaIDHeader] or [ValueSchemaIDHeader].
func (r *FrameReader[D, E]) SplitHeader(value []byte) (plan D, indexes []byte, err error) {
	id, indexes, err := r.core.splitHeader(r.topic, value)
	if err != nil {
		return plan, nil, err
	}
	plan, err = r.find(id)
	return plan, indexes, err
}

func (r *FrameReader[D, E]) find(id writerID) (D, error) {
	if r.plan == nil || id != r.id {
		plan, err := r.core.decode(r.topic, id, nil, nil)
		if err != nil {
			var none D
			return none, err
		}
		r.id, r.plan, r.short = id, plan, !id.byGUID && !r.core.format.indexed()
	}
	return r.plan.read, nil
}

// Failure returns the [*DeserializeError] of the record that was split last,
// whose body cannot be read.
func (r *FrameReader[D, E]) Failure(cause error) error {
	return &DeserializeError{
		Subject: r.core.Subject(r.topic), SchemaID: int(r.id.id), GUID: r.id.guidText(), Kind: r.core.local.kind, cause: cause,
	}
}

// framed is the value of a framer's serde core: what the format compiled.
type framed[D, E any] struct {
	read  D
	write E
}

// framedFormat plugs a FramerFormat into the serde core, as a format whose
// values are its plans and that reads and writes no bodies.
type framedFormat[D, E any] struct {
	format  FramerFormat[D, E]
	indexes bool
	writer  bool // bodies need the writer's schema
}

func (f *framedFormat[D, E]) indexed() bool { return f.indexes }

func (f *framedFormat[D, E]) needsWriter() bool { return f.writer }

func (f *framedFormat[D, E]) compileDecoder(writer *writerSchema) (decoder[*framed[D, E]], error) {
	plan, err := f.format.CompileDecoder(writer.sources())
	if err != nil {
		return nil, err
	}
	value := &framed[D, E]{read: plan}
	return func(_, _ []byte) (*framed[D, E], error) { return value, nil }, nil
}

func (f *framedFormat[D, E]) compileEncoder(target *writerSchema) (encoder[*framed[D, E]], error) {
	plan, path, err := f.format.CompileEncoder(target.sources())
	if err != nil {
		return encoder[*framed[D, E]]{}, err
	}
	var indexes []byte
	if f.indexes {
		if indexes, err = appendMessageIndexes(nil, path); err != nil {
			return encoder[*framed[D, E]]{}, err
		}
	}
	handOver := func(dst []byte, value *framed[D, E]) ([]byte, error) {
		value.write = plan
		return dst, nil
	}
	return encoder[*framed[D, E]]{indexes: indexes, appendBody: handOver}, nil
}
