// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// CodecOption configures a codec of this package. An option of another format
// is an error.
type CodecOption func(*codecOptions)

type codecOptions struct {
	serde       []schema.SerdeOption
	role        schema.Role
	tombstones  TombstonePolicy
	onPoison    func(*columnar.RecordError)
	projection  []string // of WithColumns
	projected   bool
	headers     bool
	bare        bool // without metadata columns
	key         *part
	keyPrefix   string
	dictionary  bool // enums as dictionaries
	unknown     bool // Protobuf fields that are not declared have a column
	validate    bool // JSON documents are validated
	needsFormat []limitedOption
	problems    []error
}

// limitedOption is an option that one format alone knows.
type limitedOption struct {
	name string
	kind schema.Kind
}

func (o *codecOptions) refuse(format string, args ...any) {
	o.problems = append(o.problems, fmt.Errorf(format, args...))
}

// codecOptionsFor applies the options of a codec of one format.
func codecOptionsFor(kind schema.Kind, options []CodecOption) (*codecOptions, error) {
	o := &codecOptions{role: schema.RoleValue}
	for i, option := range options {
		if option == nil {
			o.refuse("codec option %d is nil", i)
			continue
		}
		option(o)
	}
	for _, limited := range o.needsFormat {
		if limited.kind != kind {
			o.refuse("%s is an option of %v codecs, not of %v ones", limited.name, limited.kind, kind)
		}
	}
	if o.role == schema.RoleKey && o.key != nil {
		o.refuse("WithKey belongs to the codec of the values")
	}
	if len(o.problems) > 0 {
		return nil, textPrefix.Wrap(errors.Join(o.problems...), "codec options")
	}
	return o, nil
}

// WithSerdeOptions gives options of the registry: [schema.WithStrategy],
// [schema.WithRecordStrategy] and [schema.WithReferences].
func WithSerdeOptions(options ...schema.SerdeOption) CodecOption {
	options = slices.Clone(options)
	return func(o *codecOptions) { o.serde = append(o.serde, options...) }
}

// TombstonePolicy says what a codec does with a record without a value.
type TombstonePolicy int

const (
	// TombstoneKeep makes it a row whose payload columns are null and that
	// [columnar.TombstoneColumn] marks. A sink produces a record without a value
	// for it.
	TombstoneKeep TombstonePolicy = iota
	// TombstoneReject makes it a [columnar.RecordError].
	TombstoneReject
	// TombstoneSkip leaves it out of the batch.
	TombstoneSkip
)

// WithTombstones sets what becomes of records without a value. The default is
// [TombstoneKeep].
func WithTombstones(policy TombstonePolicy) CodecOption {
	return func(o *codecOptions) {
		if policy < TombstoneKeep || policy > TombstoneSkip {
			o.refuse("unknown tombstone policy %d", policy)
			return
		}
		o.tombstones = policy
	}
}

// WithPoisonHandler leaves records that cannot be decoded out of the batch and
// hands each to handler, which may count it or send it to a topic of its own.
// handler runs on the goroutine of Decode and must be safe for concurrent use.
//
// Without the option such records are a [columnar.DecodeError] that names every
// one of them, and the runner's [columnar.ErrorPolicy] decides: it fails the
// round, skips exactly these records, or sends exactly these to a dead-letter
// topic within the round's transaction. A writer schema that is being fetched
// is never left to handler: its records are read again.
func WithPoisonHandler(handler func(*columnar.RecordError)) CodecOption {
	return func(o *codecOptions) {
		if handler == nil {
			o.refuse("poison handler must not be nil")
			return
		}
		o.onPoison = handler
	}
}

// WithColumns decodes only the payload columns of these names, in the order of
// the schema. The others are skipped on the wire, not built, but checked for
// their length. A codec with the option does not encode batches that lack
// columns of its schema.
func WithColumns(names ...string) CodecOption {
	names = slices.Clone(names)
	return func(o *codecOptions) { o.projection, o.projected = append(o.projection, names...), true }
}

// WithHeaderFraming writes bare bodies and puts the schema's id into a record
// header, as a GUID where the registry states one. Either form is read without
// the option.
func WithHeaderFraming() CodecOption {
	return func(o *codecOptions) { o.headers = true }
}

// WithoutMetadataColumns leaves the metadata columns, such as
// [columnar.KeyColumn], out of decoded batches. With tombstones, which need
// [columnar.TombstoneColumn], the codec then has to reject or skip them.
func WithoutMetadataColumns() CodecOption {
	return func(o *codecOptions) { o.bare = true }
}

// AsKey makes a codec one for record keys, to be given to [WithKey]. Its subject
// is that of the topic's keys.
func AsKey() CodecOption {
	return func(o *codecOptions) { o.role = schema.RoleKey }
}

// project returns the fields of a schema that [WithColumns] names, all without
// the option.
func (o *codecOptions) project(all *arrow.Schema) (*arrow.Schema, error) {
	if !o.projected {
		return all, nil
	}
	for _, name := range o.projection {
		if !all.HasField(name) {
			return nil, fmt.Errorf("columnarschema: WithColumns names %q, which is no column of the schema", name)
		}
	}
	var fields []arrow.Field
	for _, field := range all.Fields() {
		if slices.Contains(o.projection, field.Name) {
			fields = append(fields, field)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// KeyCodec is a codec of this package that was built with [AsKey].
type KeyCodec interface{ keyPart() (*part, error) }

// WithKey decodes the record's key with a codec of its own, into columns behind
// those of the value and in front of the metadata columns. The name of each is
// prefix and the name of the key's column. The columns of a record without a
// key are null. When a batch is encoded, the key is written from these columns
// in place of [columnar.KeyColumn], which keeps the key's bytes; a row in which
// all of them are null has no key.
func WithKey(key KeyCodec, prefix string) CodecOption {
	return func(o *codecOptions) {
		if key == nil {
			o.refuse("key codec must not be nil")
			return
		}
		p, err := key.keyPart()
		if err != nil {
			o.refuse("key codec: %w", err)
			return
		}
		o.key, o.keyPrefix = p, prefix
	}
}
