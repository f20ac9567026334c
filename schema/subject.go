// SPDX-License-Identifier: Apache-2.0

package schema

import "strings"

// Role is the part of a Kafka record that a schema describes. The zero value
// is the key.
type Role int

// The parts of a record.
const (
	RoleKey Role = iota
	RoleValue
)

// String returns "KEY" for RoleKey and "VALUE" for anything else.
func (r Role) String() string {
	if r == RoleKey {
		return "KEY"
	}
	return "VALUE"
}

// header returns the name of the record header that carries the schema id of
// this part.
func (r Role) header() string {
	if r == RoleKey {
		return KeySchemaIDHeader
	}
	return ValueSchemaIDHeader
}

// SubjectNameStrategy names the subject of a topic's key or value. It must be
// a pure function and safe for concurrent use.
type SubjectNameStrategy func(topic string, role Role) string

// TopicNameStrategy appends "-key" or "-value" to the topic: one schema
// lineage for each part of a topic's records.
func TopicNameStrategy(topic string, role Role) string {
	if role == RoleKey {
		return topic + "-key"
	}
	return topic + "-value"
}

// RecordSubjectStrategy names a subject from the record name as well: the full
// name of an Avro type or a Protobuf message, or the title of a JSON Schema.
// It must be a pure function and safe for concurrent use.
type RecordSubjectStrategy func(topic string, role Role, recordName string) string

// RecordNameStrategy uses the record name alone, so a type has one lineage in
// all topics.
func RecordNameStrategy(_ string, _ Role, recordName string) string {
	return recordName
}

// TopicRecordNameStrategy joins topic and record name with a hyphen, so a
// topic can carry several types, each with its own lineage.
func TopicRecordNameStrategy(topic string, _ Role, recordName string) string {
	return topic + "-" + recordName
}

// contextOf returns the registry context that a subject is in: ".name" for a
// subject ":.name:subject", and "" for the default one.
func contextOf(subject string) string {
	rest, qualified := strings.CutPrefix(subject, ":.")
	name, _, closed := strings.Cut(rest, ":")
	if !qualified || !closed || name == "" {
		return ""
	}
	return "." + name
}

// inContextOf returns the subject that a schema in a context means by a name,
// which may name another context.
func inContextOf(context, subject string) string {
	if context == "" || strings.HasPrefix(subject, ":.") {
		return subject
	}
	return ":" + context + ":" + subject
}
