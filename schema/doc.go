// SPDX-License-Identifier: Apache-2.0

// Package schema is a client for Confluent-compatible schema registries, a
// cache that keeps lookups off the poll loop, and serdes for Avro, Protobuf
// and JSON Schema in the registry's wire format.
//
// # From value to payload
//
// A serde ([AvroSerde], [ProtobufSerde], [JSONSchemaSerde]) writes a value
// under the id of its schema and reads payloads under the schema that they were
// written with. It does no I/O. Ids and schemas come from a [SchemaCache],
// which a [RegistryClient] fills:
//
//  1. RegisterSubject tells the cache which schema a serde has for a topic.
//  2. [SchemaCache.Prewarm] registers or looks up all of them, before the
//     service starts. A failure is a failure to start.
//  3. Serialize uses the ids found. Deserialize reads an id from the payload. A
//     writer schema that is not cached is fetched in the background, once,
//     while its records get a [*FetchPendingError]: they are to be read again.
//
// # Wire format
//
//	bytes  content
//	1      0x00
//	4      schema id, unsigned, big-endian
//	any    message indexes, Protobuf alone: zig-zag varints, the count and then
//	       each index, outermost message first; the list [0] is the byte 0x00
//	rest   body
//
// Serdes also read 0x01 and a 16-byte GUID in the place of the first five
// bytes, and ids in record headers: __key_schema_id and __value_schema_id hold
// either form, followed by the message indexes, and the payload is the bare
// body. [Encode], [Decode] and their relatives are the frame alone.
//
// Nothing is allocated for a length before the bytes that it counts have been
// seen, and a path of message indexes has 64 elements at most.
//
// # Tombstones
//
// A nil pointer or nil interface becomes a nil payload, and a nil payload the
// zero value. An empty payload counts as nil, except where a header carries the
// id: there it is a body of no bytes. Nil slices and maps are values.
//
// # Avro values
//
// Generic values are those of [NewGenericAvroSerde], and of interfaces anywhere:
//
//	Avro                                   Go
//	null                                   nil
//	boolean, float, double, string         bool, float32, float64, string
//	int, long                              int, int64
//	bytes, fixed(n)                        []byte, [n]byte
//	enum, uuid                             string
//	array, map, record                     []any, map[string]any
//	decimal                                *big.Rat
//	date, timestamp, local-timestamp       time.Time, in UTC
//	time-millis, time-micros               time.Duration
//	duration                               AvroDuration
//	union                                  the value of its branch
//
// Structs have avro tags with the names of the fields. Their fields may be of
// other integer types, named types, types that read and write themselves as
// text, and pointers, slices or maps where null is possible. See
// [WithAvroType] and [WithTaggedUnions] for unions of records.
//
// # Protobuf messages
//
// [NewProtobufSerde] takes the schema of a message from its file. Records name
// their message by message indexes, which are resolved against the schema that
// they were written with. A serde without a prototype reads whatever message a
// record holds, and [NewDynamicProtobufSerde] writes and reads messages without
// generated code.
//
// # Errors
//
//	error                    when                                 what to do
//	FrameError               a payload is not a frame             skip the record
//	DeserializeError         a body cannot be read; wraps why     skip the record
//	SerializeError           a value cannot be written; wraps why fix the value or the schema
//	FetchPendingError        a writer schema is on its way        read the record again
//	SchemaUnavailableError   the registry refused the schema      skip the record, or fix the registry
//	UnresolvedSubjectError   no id for the serde's schema         RegisterSubject and Prewarm
//	AvroDataError            a body is no datum of its schema     skip the record
//	AvroResolutionError      no datum of a writer can be read     fix the schema, or skip the record
//	AvroValueError           a schema cannot express a value      fix the value
//	AvroSchemaError          a text is no Avro schema             fix the text
//	ProtobufDataError        a body is not the message it is for  skip the record
//	ProtobufValueError       a message cannot be written          fix the value
//	ProtobufMessageError     a record holds another message       skip the record, or WithMessages
//	ProtobufSchemaError      a text is no Protobuf schema         fix the text, or add the missing reference
//	ValidationError          a document breaks its JSON Schema    skip the record, or fix the value
//	RegistryError            a request failed                     see Retriable and the sentinels
//	ErrReferenceConflict     two schemas carry one name           rename a reference
//	ErrCacheClosed           a miss after Close                   close the cache last
//	ErrInvalidOption         an option cannot be obeyed           fix the call
//
// FetchPendingError, SchemaUnavailableError and RegistryError have a method
// Retriable, for callers that decide on errors without knowing this package. A
// RegistryError matches sentinels such as [ErrSubjectNotFound] and
// [ErrIncompatible] with errors.Is.
//
// # Concurrency
//
//	type             concurrent use   goroutines
//	RegistryClient   safe             none
//	SchemaCache      safe             fetches and the refresh; they end with Close
//	serdes           safe             none
//
// After the first record of a schema id a serde takes no lock.
package schema
