// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/avrovalue"
)

// SerdeOption configures a serde. An option of another format is an error.
type SerdeOption func(*serdeOptions)

// serdeOptions collects the options of one serde. Each format keeps what is its
// own in a field of its own, and marks the options that set it with only.
type serdeOptions struct {
	strategy       SubjectNameStrategy   // nil: the cache's
	recordStrategy RecordSubjectStrategy // nil: strategy
	references     []Reference
	nilValues      bool // encode nil by the schema instead of as a tombstone
	limited        []limitedOption
	problems       []error

	json     jsonOptions
	avro     avrovalue.Options
	protobuf protobufOptions
}

type limitedOption struct {
	name string
	kind Kind
}

// only marks an option that one format alone knows.
func (o *serdeOptions) only(kind Kind, name string) {
	o.limited = append(o.limited, limitedOption{name, kind})
}

func (o *serdeOptions) refuse(format string, args ...any) {
	o.problems = append(o.problems, badOption(format, args...))
}

// serdeOptionsFor applies options for a serde of one format.
func serdeOptionsFor(kind Kind, options []SerdeOption) (serdeOptions, error) {
	var o serdeOptions
	for _, option := range options {
		option(&o)
	}
	for _, limited := range o.limited {
		if limited.kind != kind {
			o.refuse("%s is an option of %v serdes, not of %v ones", limited.name, limited.kind, kind)
		}
	}
	if o.strategy != nil && o.recordStrategy != nil {
		o.refuse("WithStrategy excludes WithRecordStrategy")
	}
	if _, err := dependencyOrder(o.references); err != nil {
		o.problems = append(o.problems, err)
	}
	return o, errors.Join(o.problems...)
}

// WithStrategy names subjects by strategy instead of the cache's.
func WithStrategy(strategy SubjectNameStrategy) SerdeOption {
	return func(o *serdeOptions) {
		if strategy == nil {
			o.refuse("subject name strategy must not be nil")
			return
		}
		o.strategy = strategy
	}
}

// WithRecordStrategy names subjects by a strategy that knows the record name:
// [RecordNameStrategy], [TopicRecordNameStrategy] or the caller's own.
func WithRecordStrategy(strategy RecordSubjectStrategy) SerdeOption {
	return func(o *serdeOptions) {
		if strategy == nil {
			o.refuse("record subject strategy must not be nil")
			return
		}
		o.recordStrategy = strategy
	}
}

// WithReferences gives the schemas that the serde's own schema refers to, each
// with its own references. Prewarm registers or looks up the ones without a
// version first. Protobuf serdes derive theirs from the message and need this
// only to name other subjects or fixed versions.
func WithReferences(references ...Reference) SerdeOption {
	return func(o *serdeOptions) { o.references = slices.Clone(references) }
}

// WithNilValues encodes a nil value by the schema, as an Avro null or a JSON
// null, instead of as a tombstone. Reading still takes an absent payload as the
// zero value.
func WithNilValues() SerdeOption {
	return func(o *serdeOptions) { o.nilValues = true }
}
