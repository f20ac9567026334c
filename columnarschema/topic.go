// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// TopicFormat is the format of a topic whose schemas are in a registry. Its
// method Codec makes the codec, so that a TopicFormat stands for a format in a
// chain of package stream and for a codec in one line of a topology. The other
// methods return a changed copy.
type TopicFormat struct {
	ctx     context.Context
	client  *schema.RegistryClient
	cache   *schema.SchemaCache
	topic   string
	subject string // "" for the cache's name
	local   *schema.ResolvedSchema
	writes  bool
	key     *string // prefix of the key's columns
	options []CodecOption
}

// FromRegistry is the format of topic whose columns are those of the latest
// schema of the topic's subject. The schema is fetched when the codec is made,
// within ctx; a record whose schema is another one is read as the latest says.
//
// The schema is interned for the topic, so that [schema.SchemaCache.Prewarm]
// finds the id that a sink writes under.
func FromRegistry(ctx context.Context, client *schema.RegistryClient, cache *schema.SchemaCache, topic string) TopicFormat {
	return TopicFormat{ctx: ctx, client: client, cache: cache, topic: topic, writes: true}
}

// Subject takes the latest schema of that subject.
func (f TopicFormat) Subject(name string) TopicFormat {
	f.subject = name
	return f
}

// ReadAs takes the columns from a schema of the caller in place of the latest
// one. Nothing is fetched, and the schema is not interned: it is for sources.
func (f TopicFormat) ReadAs(kind schema.Kind, text string) TopicFormat {
	f.local, f.writes = &schema.ResolvedSchema{Schema: text, SchemaType: kind.String()}, false
	return f
}

// WriteAs is ReadAs for sinks: the schema is interned for the topic, to be
// registered or looked up by the next [schema.SchemaCache.Prewarm].
func (f TopicFormat) WriteAs(kind schema.Kind, text string) TopicFormat {
	f = f.ReadAs(kind, text)
	f.writes = true
	return f
}

// Key makes columns of the record's key as well, by the latest schema of the
// subject of the topic's keys; see [WithKey].
func (f TopicFormat) Key(prefix string) TopicFormat {
	f.key = &prefix
	return f
}

// With adds options of the codec.
func (f TopicFormat) With(options ...CodecOption) TopicFormat {
	f.options = slices.Concat(f.options, options)
	return f
}

// Codec returns the codec of the topic. An error of the registry is wrapped.
func (f TopicFormat) Codec(mem memory.Allocator) (columnar.BatchCodec, error) {
	codec, err := f.codec(mem)
	if err != nil {
		return nil, textPrefix.Wrap(err, "topic %q", f.topic)
	}
	return codec, nil
}

func (f TopicFormat) codec(mem memory.Allocator) (topicCodec, error) {
	options := slices.Clone(f.options)
	if f.key != nil {
		key := f
		key.key, key.local, key.subject, key.options = nil, nil, "", []CodecOption{AsKey()}
		codec, err := key.make(mem, schema.RoleKey, key.options)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		options = append(options, WithKey(codec, *f.key))
	}
	codec, err := f.make(mem, schema.RoleValue, options)
	if err == nil && f.writes {
		codec.RegisterSubject(f.topic)
	}
	return codec, err
}

// topicCodec is a codec of this package.
type topicCodec interface {
	columnar.BatchCodec
	KeyCodec
	RegisterSubject(topic string)
}

// make builds the codec of one part of the records.
func (f TopicFormat) make(mem memory.Allocator, role schema.Role, options []CodecOption) (topicCodec, error) {
	local := f.local
	if local == nil {
		latest, err := f.latest(role)
		if err != nil {
			return nil, err
		}
		local = &latest
	}
	if len(local.Dependencies) > 0 {
		options = append(options, WithSerdeOptions(schema.WithReferences(local.Dependencies...)))
	}
	if f.subject != "" {
		name := f.subject
		options = append(options, WithSerdeOptions(schema.WithStrategy(func(string, schema.Role) string { return name })))
	}
	switch local.SchemaType {
	case "", schema.KindAvro.String():
		return NewAvroBatchCodec(local.Schema, f.cache, mem, options...)
	case schema.KindProtobuf.String():
		return f.protobuf(local, mem, role, options)
	case schema.KindJSON.String():
		return NewJSONSchemaBatchCodec(local.Schema, f.cache, mem, options...)
	}
	return nil, fmt.Errorf("its schema is %s, of which no codec is made from text", local.SchemaType)
}

// protobuf builds a codec of the message that a text is about.
func (f TopicFormat) protobuf(local *schema.ResolvedSchema, mem memory.Allocator, role schema.Role, options []CodecOption) (topicCodec, error) {
	serde, err := schema.NewDynamicProtobufSerde(local.Schema, local.MessageType, f.cache, role, schema.WithReferences(local.Dependencies...))
	if err != nil {
		return nil, err
	}
	// What is interned is the registry's own text, which may have comments.
	options = append(options, WithSerdeOptions(schema.WithProtobufText(local.Schema)))
	codec := NewProtobufBatchCodec(dynamicpb.NewMessage(serde.Descriptor()), f.cache, mem, options...)
	return codec, codec.Err()
}

// latest fetches the latest schema of the subject.
func (f TopicFormat) latest(role schema.Role) (schema.ResolvedSchema, error) {
	subject := f.subject
	if subject == "" {
		subject = f.cache.Subject(f.topic, role)
	}
	registered, err := f.client.Latest(f.ctx, subject)
	if err != nil {
		return schema.ResolvedSchema{}, fmt.Errorf("latest schema of subject %q: %w", subject, err)
	}
	return f.client.ResolveReferences(f.ctx, schema.FetchedSchema{
		Schema: registered.Schema, MessageType: registered.MessageType, SchemaType: registered.SchemaType,
		References: registered.References, GUID: registered.GUID,
	})
}
