// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// Serde turns values into registry-framed payloads and back.
//
// Serialize returns a payload that the caller owns; a nil pointer or nil
// interface becomes nil, a tombstone. Deserialize does not keep data; an empty
// payload becomes the zero value. RegisterSubject interns the serde's schema
// for a topic, to be resolved by the next prewarm.
//
// None of them does I/O. A subject without an id is an
// [*UnresolvedSubjectError], a value that cannot be written a
// [*SerializeError], a payload that is not a frame a [*FrameError]. A
// writer schema that is not cached yet is a [*FetchPendingError], one that the
// registry refused a [*SchemaUnavailableError], and a body that cannot be read a
// [*DeserializeError].
//
// The serdes of this package are safe for concurrent use by multiple
// goroutines. They also have:
//
//   - AppendSerialize(dst []byte, topic string, value T) ([]byte, error), which
//     appends the payload to dst and returns the extended slice, or nil for a
//     tombstone;
//   - SerializeWithHeaders(topic string, value T, headers []Header) ([]byte,
//     []Header, error), which returns a bare payload and appends the header that
//     carries the schema id;
//   - DeserializeWithHeaders(topic string, data []byte, headers []Header) (T,
//     error), which takes the schema id from the last such header, and from the
//     payload when there is none;
//   - DeserializeContext(ctx context.Context, topic string, data []byte, headers
//     ...Header) (T, error), which waits for a writer schema that is not cached;
//   - Subject(topic string) string and Role() Role.
type Serde[T any] interface {
	// Serialize returns the framed payload of value, or nil for a tombstone.
	Serialize(topic string, value T) ([]byte, error)
	// Deserialize reads a framed payload.
	Deserialize(topic string, data []byte) (T, error)
	// RegisterSubject interns the serde's schema for topic.
	RegisterSubject(topic string)
}

// format is one schema language, as the serde core sees it. A format compiles
// schemas; the core finds out which schema applies, frames, caches what was
// compiled, and handles tombstones. Implementations are immutable and safe for
// concurrent use.
type format[T any] interface {
	// compileEncoder prepares to write values under target, whose id the frames
	// will carry: the local schema, or the registry's latest under UseLatest. It
	// runs once for each resolution of a subject; an error is kept and returned
	// for every value.
	compileEncoder(target *writerSchema) (encoder[T], error)

	// compileDecoder prepares to read bodies that were written under writer. It
	// runs once for each writer schema; an error is kept and returned for every
	// record. Where needsWriter is false it runs once for all, with a writer that
	// has neither id nor text.
	compileDecoder(writer *writerSchema) (decoder[T], error)

	// needsWriter says whether bodies can only be read with the writer's text.
	needsWriter() bool

	// indexed says whether a message-index list precedes the body, as in
	// Protobuf.
	indexed() bool
}

// encoder writes values of one subject.
type encoder[T any] struct {
	// indexes is the message-index list in wire form; nil for formats without.
	indexes []byte
	// appendBody appends the body of value to dst and returns the extended
	// slice. It does not keep dst.
	appendBody func(dst []byte, value T) ([]byte, error)
}

// decoder reads the bodies of one writer schema. It does not keep its
// arguments. The list of indexes is checked and in wire form (messageIndexes
// expands it); it is nil for formats without.
type decoder[T any] func(indexes, body []byte) (T, error)

// serdeSpec is what a format's constructor has found out about its local schema.
type serdeSpec struct {
	kind        Kind
	text        string // as it is registered
	messageType string
	// recordName is the name for record strategies; "" when there is none.
	recordName string
	// references are those of the local schema; an option replaces them.
	references []Reference
	dialect    *jsoncheck.Dialect // of a JSON Schema; nil: the default
}

// serdeCore is the part that the serdes of all formats share. They embed it.
type serdeCore[T any] struct {
	cache       *SchemaCache
	role        Role
	local       localSchema // without subject
	recordName  string
	options     serdeOptions
	format      format[T]
	isTombstone func(T) bool
	broken      error // returned by every call

	targets  atomic.Pointer[map[string]*subjectTarget[T]]
	contexts atomic.Pointer[map[string]string] // of the registry, by topic
	decoders atomic.Pointer[decoderTable[T]]
	mu       sync.Mutex // guards replacing targets, contexts and decoders
	// writerless reads all bodies where the format does not need the writer.
	writerless compiledDecoder[T]
	scratch    sync.Pool // of *[]byte
}

// init prepares a core. Options come from serdeOptionsFor.
func (s *serdeCore[T]) init(spec serdeSpec, cache *SchemaCache, role Role, options serdeOptions, format format[T]) error {
	s.cache, s.role, s.options, s.format = cache, role, options, format
	s.recordName = spec.recordName
	s.local = localSchema{
		kind: spec.kind, text: spec.text, messageType: spec.messageType, references: spec.references, dialect: spec.dialect,
	}
	if options.references != nil {
		s.local.references = options.references
	}
	s.local.schemaID, s.local.metadata = options.schemaID, options.metadata
	s.isTombstone = tombstoneCheck[T](options.nilValues)
	s.targets.Store(&map[string]*subjectTarget[T]{})
	s.contexts.Store(&map[string]string{})
	s.decoders.Store(newDecoderTable[T](0))
	s.writerless.writer = &writerSchema{}
	switch {
	case cache == nil:
		return errors.New("schema cache must not be nil")
	case role != RoleKey && role != RoleValue:
		return fmt.Errorf("unknown role %d", role)
	case options.recordStrategy != nil && spec.recordName == "":
		return badOption("WithRecordStrategy needs a schema with a record name")
	}
	return nil
}

// tombstoneCheck tells nil pointers and nil interfaces from values. Nil slices
// and maps are values.
func tombstoneCheck[T any](nilValues bool) func(T) bool {
	never := func(T) bool { return false }
	if nilValues {
		return never
	}
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer:
		return func(value T) bool { return reflect.ValueOf(value).IsNil() }
	case reflect.Interface:
		return func(value T) bool {
			v := reflect.ValueOf(value)
			return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
		}
	default:
		return never
	}
}

// Role returns the part of the record that the serde is for.
func (s *serdeCore[T]) Role() Role { return s.role }

// Subject returns the subject of the serde's schema for topic.
func (s *serdeCore[T]) Subject(topic string) string {
	switch {
	case s.options.recordStrategy != nil:
		return s.options.recordStrategy(topic, s.role, s.recordName)
	case s.options.strategy != nil:
		return s.options.strategy(topic, s.role)
	case s.cache == nil:
		return TopicNameStrategy(topic, s.role)
	default:
		return s.cache.Subject(topic, s.role)
	}
}

// contextFor returns the registry context of the records of topic.
func (s *serdeCore[T]) contextFor(topic string) string {
	known := s.contexts.Load()
	if context, ok := (*known)[topic]; ok {
		return context
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	contexts := maps.Clone(*s.contexts.Load())
	contexts[topic] = contextOf(s.Subject(topic))
	s.contexts.Store(&contexts)
	return contexts[topic]
}

func (s *serdeCore[T]) localFor(topic string) localSchema {
	local := s.local
	local.subject = s.Subject(topic)
	return local
}

// RegisterSubject interns the serde's schema for topic, to be resolved by the
// next prewarm.
func (s *serdeCore[T]) RegisterSubject(topic string) {
	if s.cache == nil {
		return // every call of the serde says so
	}
	local := s.localFor(topic)
	local.broken = s.broken
	s.cache.intern(local)
}

// subjectTarget is where one topic's values go.
type subjectTarget[T any] struct {
	entry    *subjectEntry
	compiled atomic.Pointer[compiledEncoder[T]]
	mu       sync.Mutex // held while compiling
}

// compiledEncoder is an encoder with the bytes that precede each body.
type compiledEncoder[T any] struct {
	encoder[T]
	resolution *resolution
	prefix     []byte
	header     []byte // value of the header that carries the id instead
	subject    string
	kind       Kind
	err        error
}

// Serialize returns the framed payload of value, or nil for a tombstone. The
// caller owns it.
func (s *serdeCore[T]) Serialize(topic string, value T) ([]byte, error) {
	return s.own(func(dst []byte) ([]byte, error) { return s.AppendSerialize(dst, topic, value) })
}

// own runs write on reused memory and returns a copy of the right size.
func (s *serdeCore[T]) own(write func(dst []byte) ([]byte, error)) ([]byte, error) {
	scratch, _ := s.scratch.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	defer s.scratch.Put(scratch)
	out, err := write((*scratch)[:0])
	if err != nil || out == nil {
		return nil, err
	}
	*scratch = out
	return append(make([]byte, 0, len(out)), out...), nil
}

// AppendSerialize appends the framed payload of value to dst and returns the
// extended slice, or nil for a tombstone. With an error it returns dst as it
// was.
func (s *serdeCore[T]) AppendSerialize(dst []byte, topic string, value T) ([]byte, error) {
	if s.isTombstone(value) {
		if s.broken != nil {
			return dst, s.broken
		}
		return nil, nil
	}
	enc, err := s.encoder(topic)
	if err != nil {
		return dst, err
	}
	return enc.append(dst, enc.prefix, value)
}

// SerializeWithHeaders returns the bare payload of value and headers with the
// schema id appended: the GUID where the registry states one, the numeric id
// otherwise. A tombstone is nil and appends no header. The caller owns the
// payload; the header's value is shared and must not be changed.
func (s *serdeCore[T]) SerializeWithHeaders(topic string, value T, headers []Header) ([]byte, []Header, error) {
	if s.isTombstone(value) {
		return nil, headers, s.broken
	}
	enc, err := s.encoder(topic)
	if err != nil {
		return nil, headers, err
	}
	payload, err := s.own(func(dst []byte) ([]byte, error) {
		out, err := enc.append(dst, nil, value)
		if out == nil {
			out = []byte{} // an empty body is a value, nil would be a tombstone
		}
		return out, err
	})
	if err != nil {
		return nil, headers, err
	}
	return payload, append(headers, Header{Key: s.role.header(), Value: enc.header}), nil
}

func (e *compiledEncoder[T]) append(dst, prefix []byte, value T) ([]byte, error) {
	out, err := e.appendBody(append(dst, prefix...), value)
	if err != nil {
		return dst, e.failure(err)
	}
	return out, nil
}

func (e *compiledEncoder[T]) failure(cause error) error {
	return &SerializeError{Subject: e.subject, SchemaID: int(e.resolution.id), Kind: e.kind, cause: cause}
}

func (s *serdeCore[T]) encoder(topic string) (*compiledEncoder[T], error) {
	if s.broken != nil {
		return nil, s.broken
	}
	target := (*s.targets.Load())[topic]
	if target == nil {
		target = s.addTarget(topic)
	}
	resolved := target.entry.resolved.Load()
	if resolved == nil {
		return nil, &UnresolvedSubjectError{
			Subject: target.entry.local.subject, Kind: s.local.kind, cause: s.cache.failureOf(target.entry),
		}
	}
	compiled := target.compiled.Load()
	if compiled == nil || compiled.resolution != resolved {
		compiled = s.compile(target, resolved)
	}
	return compiled, compiled.err
}

func (s *serdeCore[T]) addTarget(topic string) *subjectTarget[T] {
	entry := s.cache.entry(s.localFor(topic))
	s.mu.Lock()
	defer s.mu.Unlock()
	targets := *s.targets.Load()
	if target := targets[topic]; target != nil {
		return target
	}
	targets = maps.Clone(targets)
	targets[topic] = &subjectTarget[T]{entry: entry}
	s.targets.Store(&targets)
	return targets[topic]
}

func (s *serdeCore[T]) compile(target *subjectTarget[T], resolved *resolution) *compiledEncoder[T] {
	target.mu.Lock()
	defer target.mu.Unlock()
	if compiled := target.compiled.Load(); compiled != nil && compiled.resolution == resolved {
		return compiled
	}
	compiled := &compiledEncoder[T]{resolution: resolved, subject: target.entry.local.subject, kind: s.local.kind}
	err := s.checkRules(resolved.target, false)
	if err == nil {
		compiled.encoder, err = s.format.compileEncoder(resolved.target)
	}
	if err != nil {
		compiled.err = compiled.failure(err)
	}
	id := writerID{id: resolved.id}
	compiled.prefix = append(id.appendPrefix(nil), compiled.indexes...)
	if resolved.hasGUID {
		id = writerID{guid: resolved.guid, byGUID: true}
	}
	compiled.header = append(id.appendPrefix(nil), compiled.indexes...)
	target.compiled.Store(compiled)
	return compiled
}

// Deserialize reads a framed payload, with a numeric id or a GUID in front. An
// empty payload becomes the zero value. It does not keep data.
func (s *serdeCore[T]) Deserialize(topic string, data []byte) (T, error) {
	var zero T
	if len(data) == 0 || s.broken != nil {
		return zero, s.broken
	}
	id, indexes, body, err := s.splitFrame(topic, data)
	if err != nil {
		return zero, err
	}
	return s.decode(topic, id, indexes, body)
}

// splitFrame reads what comes before a body, in a payload or a header.
func (s *serdeCore[T]) splitFrame(topic string, data []byte) (id writerID, indexes, rest []byte, err error) {
	if id, rest, err = splitWriterID(data); err != nil {
		return id, nil, nil, s.frameError(topic, id, 0, err, "")
	}
	if !id.byGUID {
		id.context = s.contextFor(topic)
	}
	if !s.format.indexed() {
		return id, nil, rest, nil
	}
	at := len(data) - len(rest)
	if indexes, rest, err = splitMessageIndexes(rest); err != nil {
		return id, nil, nil, s.frameError(topic, id, at, err, "; the message indexes are malformed or absent")
	}
	return id, indexes, rest, nil
}

// frameError tells which record an error of a frame is about. The place that it
// tells counts from the place at in the payload or header, which is 0 where the
// id could not be read.
func (s *serdeCore[T]) frameError(topic string, id writerID, at int, err error, hint string) error {
	frame, ok := errors.AsType[*FrameError](err)
	if !ok {
		return err
	}
	located := *frame
	located.Offset += at
	located.reason += hint
	located.Subject, located.Kind = s.Subject(topic), s.local.kind
	located.SchemaID, located.GUID, located.identified = int(id.id), id.guidText(), at > 0
	return &located
}

// DeserializeWithHeaders reads a bare payload whose schema id is in headers, in
// the last one of the serde's role. Without such a header it is Deserialize. A
// nil payload becomes the zero value; an empty one is a body of no bytes. It
// does not keep data or headers.
func (s *serdeCore[T]) DeserializeWithHeaders(topic string, data []byte, headers []Header) (T, error) {
	var zero T
	if data == nil || s.broken != nil {
		return zero, s.broken
	}
	name := s.role.header()
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key != name {
			continue
		}
		id, indexes, err := s.splitHeader(topic, headers[i].Value)
		if err != nil {
			return zero, fmt.Errorf("header %s: %w", name, err)
		}
		return s.decode(topic, id, indexes, data)
	}
	return s.Deserialize(topic, data)
}

// DeserializeContext is [Serde.Deserialize] that waits for a writer schema which
// is not cached, across failed fetches until ctx ends. It is for programs that
// have no poll loop to keep running: it does I/O and can take as long as ctx
// lasts. With headers it is DeserializeWithHeaders. A refusal of the registry is
// a [*SchemaUnavailableError]; when ctx ends, the error matches the context's and
// tells the last failure.
func (s *serdeCore[T]) DeserializeContext(ctx context.Context, topic string, data []byte, headers ...Header) (T, error) {
	return awaiting(ctx, s.cache, func() (T, error) {
		if len(headers) > 0 {
			return s.DeserializeWithHeaders(topic, data, headers)
		}
		return s.Deserialize(topic, data)
	})
}

func (s *serdeCore[T]) splitHeader(topic string, value []byte) (writerID, []byte, error) {
	id, indexes, rest, err := s.splitFrame(topic, value)
	if err == nil && len(rest) > 0 {
		err = s.frameError(topic, id, len(value)-len(rest),
			&FrameError{reason: fmt.Sprintf("%d bytes follow the schema id", len(rest))}, "")
	}
	return id, indexes, err
}

func (s *serdeCore[T]) decode(topic string, id writerID, indexes, body []byte) (T, error) {
	compiled, err := s.decoder(topic, id)
	if err != nil {
		if unavailable, ok := errors.AsType[*SchemaUnavailableError](err); ok {
			unavailable.Subject, unavailable.Kind = s.Subject(topic), s.local.kind
		}
		var zero T
		return zero, err
	}
	if err = compiled.err; err == nil {
		var value T
		if value, err = compiled.decode(indexes, body); err == nil {
			return value, nil
		}
	}
	var zero T
	return zero, &DeserializeError{
		Subject: s.Subject(topic), SchemaID: int(id.id), GUID: id.guidText(), Kind: s.local.kind, cause: err,
	}
}

// decoderTable holds what a serde has compiled. It is copied to be changed.
type decoderTable[T any] struct {
	generation uint64 // of the cache, when the table was made
	idTable[*compiledDecoder[T]]
}

func newDecoderTable[T any](generation uint64) *decoderTable[T] {
	return &decoderTable[T]{generation, newIDTable[*compiledDecoder[T]]()}
}

type compiledDecoder[T any] struct {
	writer *writerSchema
	once   sync.Once
	decode decoder[T]
	err    error
}

// decoder returns what reads the bodies of a writer schema. After the first
// record of an id it takes no lock.
func (s *serdeCore[T]) decoder(topic string, id writerID) (*compiledDecoder[T], error) {
	var compiled *compiledDecoder[T]
	if s.format.needsWriter() {
		table := s.decoders.Load()
		if compiled = table.get(id); compiled == nil || table.generation != s.cache.generation.Load() {
			var err error
			if compiled, err = s.addDecoder(topic, id); err != nil {
				return nil, err
			}
		}
	} else {
		compiled = &s.writerless
	}
	compiled.once.Do(func() { compiled.decode, compiled.err = s.prepare(compiled.writer) })
	return compiled, nil
}

// addDecoder returns the entry for id, new if need be, and drops entries whose
// schema has been replaced in the cache.
func (s *serdeCore[T]) addDecoder(topic string, id writerID) (*compiledDecoder[T], error) {
	// Read before the schemas: a change in between makes the table outdated.
	generation := s.cache.generation.Load()
	writer, err := s.cache.writer(id, s.Subject(topic))
	if err != nil {
		return nil, err
	}
	writers := s.cache.writers.Load()

	s.mu.Lock()
	defer s.mu.Unlock()
	table := newDecoderTable[T](generation)
	for known := range s.decoders.Load().all {
		if writers.get(known.writer.id) == known.writer {
			table.put(known.writer.id, known)
		}
	}
	compiled := table.get(id)
	if compiled == nil {
		compiled = &compiledDecoder[T]{writer: writer}
		table.put(id, compiled)
	}
	s.decoders.Store(table)
	return compiled, nil
}

// prepare compiles the decoder for a writer schema.
func (s *serdeCore[T]) prepare(writer *writerSchema) (decoder[T], error) {
	if writer.kindKnown && writer.kind != s.local.kind {
		return nil, fmt.Errorf("writer schema %v is %v, the serde is for %v", writer.id, writer.kind, s.local.kind)
	}
	if err := s.checkRules(writer, true); err != nil {
		return nil, err
	}
	return s.format.compileDecoder(writer)
}

// checkRules reports a rule of a schema that has to run, unless the caller runs
// the rules.
func (s *serdeCore[T]) checkRules(schema *writerSchema, reading bool) error {
	if s.options.withoutRules {
		return nil
	}
	return requiredRule(schema.ruleSet, reading)
}
