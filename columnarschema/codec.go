// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// recordCodec is the part that the codecs of all formats share: a
// [columnar.BatchCodec] for records that hold one row each in the registry's
// frames.
type recordCodec struct {
	mem     memory.Allocator
	options *codecOptions
	value   *part
	payload *arrow.Schema // of values and keys, without metadata columns
	// full are the schemas of decoded batches: without and with tombstones. Each is
	// that of the first such batch.
	full   [2]atomic.Pointer[arrow.Schema]
	perRow atomic.Int64                              // bytes that encode wrote for a row in the call before
	remake func(*codecOptions) (*recordCodec, error) // makes the same codec with other options
	broken error                                     // returned by every call
}

var _ columnar.ProjectingCodec = (*recordCodec)(nil)

// newRecordCodec returns a codec for the values, or keys under [AsKey], that f
// reads and writes.
func newRecordCodec(f format, spec schema.FramerSpec, cache *schema.SchemaCache, mem memory.Allocator, options *codecOptions) (*recordCodec, error) {
	c := &recordCodec{mem: mem, options: options}
	if mem == nil {
		return nil, errNoAllocator
	}
	if options.bare && options.tombstones == TombstoneKeep {
		return nil, errBareTombstones
	}
	var err error
	if c.value, err = newPart(f, spec, cache, options.role, options.serde); err != nil {
		return nil, textPrefix.Wrap(err, "%v codec", spec.Kind)
	}
	c.payload, err = payloadSchema(f.columns().Schema(), options)
	return c, err
}

// payloadSchema returns the fields of values and keys.
func payloadSchema(value *arrow.Schema, options *codecOptions) (*arrow.Schema, error) {
	if options.key == nil {
		return value, nil
	}
	fields := slices.Clone(value.Fields())
	for _, field := range options.key.format.columns().Schema().Fields() {
		field.Name = options.keyPrefix + field.Name
		field.Nullable = true
		if value.HasField(field.Name) {
			return nil, fmt.Errorf("columnarschema: column %q is one of the value and one of the key; give WithKey another prefix", field.Name)
		}
		fields = append(fields, field)
	}
	return arrow.NewSchema(fields, nil), nil
}

// keyPart implements [KeyCodec].
func (c *recordCodec) keyPart() (*part, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	if c.options.role != schema.RoleKey {
		return nil, errors.New("it was built without AsKey")
	}
	return c.value, nil
}

// Project implements [columnar.ProjectingCodec] as [WithColumns] does. The columns of
// [WithKey] are decoded where one of them is named.
func (c *recordCodec) Project(columns []string) (columnar.BatchCodec, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	o := *c.options
	values := c.value.format.columns().Schema()
	o.projection, o.projected, o.key = nil, true, nil
	for _, name := range columns {
		if values.HasField(name) {
			o.projection = append(o.projection, name)
		} else {
			o.key = c.options.key
		}
	}
	return c.remake(&o)
}

// check returns why the codec cannot read or write records at all.
func (c *recordCodec) check() error {
	if c.broken == nil && c.options.role == schema.RoleKey {
		return errKeyCodec
	}
	return c.broken
}

// RegisterSubject interns the codec's schema for topic, and that of its key
// codec, to be resolved by the next [schema.SchemaCache.Prewarm].
func (c *recordCodec) RegisterSubject(topic string) {
	if c.broken != nil {
		return // every call of the codec says so
	}
	c.value.framer.RegisterSubject(topic)
	if c.options.key != nil {
		c.options.key.framer.RegisterSubject(topic)
	}
}

// Subject returns the subject of the codec's schema for topic.
func (c *recordCodec) Subject(topic string) string {
	if c.broken != nil {
		return ""
	}
	return c.value.framer.Subject(topic)
}

// ArrowSchema returns the schema of the payload columns, those of [WithKey]
// included and the metadata columns excluded. It is the same object in every
// call.
func (c *recordCodec) ArrowSchema() *arrow.Schema { return c.payload }
