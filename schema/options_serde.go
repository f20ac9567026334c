// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"maps"
	"slices"
)

// SerdeOption configures a serde. An option of another format is an error.
type SerdeOption func(*serdeOptions)

// serdeOptions collects the options that all serdes share. What one format alone
// knows is kept as it was given, for that format's serde to apply.
type serdeOptions struct {
	strategy       SubjectNameStrategy   // nil: the cache's
	recordStrategy RecordSubjectStrategy // nil: strategy
	references     []Reference
	nilValues      bool // encode nil by the schema instead of as a tombstone
	withoutRules   bool
	schemaID       int               // to write under; 0: as the cache's mode says
	metadata       map[string]string // of the latest version to write under; nil: as the mode says
	special        []formatOption
	problems       []error
}

// formatOption is an option of one format.
type formatOption struct {
	name  string
	kind  Kind
	apply func(target any, refuse optionRefusal) // to the *O that it was made for
}

// optionRefusal reports an option that cannot be obeyed.
type optionRefusal func(format string, args ...any)

// optionOf makes an option that sets an O, the options of one format.
func optionOf[O any](kind Kind, name string, apply func(o *O, refuse optionRefusal)) SerdeOption {
	return func(o *serdeOptions) {
		o.special = append(o.special, formatOption{name, kind, func(target any, refuse optionRefusal) {
			apply(target.(*O), refuse)
		}})
	}
}

func (o *serdeOptions) refuse(format string, args ...any) {
	o.problems = append(o.problems, badOption(format, args...))
}

// serdeOptionsFor applies options for a serde of one format, whose own options
// go to target. A framer, which has no values, has no target.
func serdeOptionsFor(kind Kind, target any, options []SerdeOption) (serdeOptions, error) {
	var o serdeOptions
	for _, option := range options {
		option(&o)
	}
	for _, special := range o.special {
		switch {
		case special.kind != kind:
			o.refuse("%s is an option of %v serdes, not of %v ones", special.name, special.kind, kind)
		case target == nil:
			o.refuse("%s is an option of %v serdes, not of framers", special.name, kind)
		default:
			special.apply(target, o.refuse)
		}
	}
	if o.strategy != nil && o.recordStrategy != nil {
		o.refuse("WithStrategy excludes WithRecordStrategy")
	}
	if o.schemaID != 0 && o.metadata != nil {
		o.refuse("WithSchemaID excludes WithLatestMetadata")
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

// WithSchemaID writes under the registry's schema of that id, whatever the
// cache's mode. A prewarm fetches the schema and checks it as under [UseLatest].
func WithSchemaID(schemaID int) SerdeOption {
	return func(o *serdeOptions) {
		if _, err := wireID(schemaID); err != nil || schemaID == 0 {
			o.refuse("schema id %d is not usable", schemaID)
			return
		}
		o.schemaID = schemaID
	}
}

// WithLatestMetadata writes under the subject's latest version whose metadata has
// all of the properties, whatever the cache's mode. A prewarm finds the version
// and checks it as under [UseLatest].
func WithLatestMetadata(properties map[string]string) SerdeOption {
	return func(o *serdeOptions) {
		if len(properties) == 0 {
			o.refuse("WithLatestMetadata needs a property")
			return
		}
		o.metadata = maps.Clone(properties)
	}
}

// WithoutRules reads and writes bodies although the schema's data contract has
// rules that change or check values, such as encryption of fields: the caller
// runs them. By default such a schema is a [*SchemaRuleError].
func WithoutRules() SerdeOption {
	return func(o *serdeOptions) { o.withoutRules = true }
}
