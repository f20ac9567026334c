// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/columnset"
)

// Reader is how messages of a plan are read into columns. It is immutable and safe
// for concurrent use.
type Reader struct {
	plan    *Plan
	options ReaderOptions
	spec    *columnset.Spec
}

// ReaderOptions are what a [Reader] does beyond its plan.
type ReaderOptions struct {
	// Needed says for each field of the plan whether its column is built; nil
	// builds all. A field that is not needed is skipped on the wire, so faults
	// inside it are not found.
	Needed []bool
	// Unknown adds the column of [UnknownField] behind the others.
	Unknown bool
}

// UnknownField is a column of the fields that a message does not declare, as they
// stand on the wire. It is null where there are none.
var UnknownField = arrow.Field{Name: "__unknown", Type: arrow.BinaryTypes.Binary, Nullable: true}

// NewReader returns a reader of the plan.
func (p *Plan) NewReader(options ReaderOptions) *Reader {
	var fields []arrow.Field
	for i, f := range p.fields {
		if options.Needed == nil || options.Needed[i] {
			fields = append(fields, f)
		}
	}
	if options.Unknown {
		fields = append(fields, UnknownField)
	}
	return &Reader{plan: p, options: options, spec: columnset.NewSpec(arrow.NewSchema(fields, nil), nil)}
}

// Spec returns the columns that the reader fills.
func (r *Reader) Spec() *columnset.Spec { return r.spec }

// Decoder reads messages into the columns of one set. It belongs to whom the set
// belongs to.
type Decoder struct {
	root *message
	set  *columnset.Set
}

// NewDecoder returns a decoder for a set of the reader's columns.
func (r *Reader) NewDecoder(set *columnset.Set) *Decoder {
	d := &Decoder{root: newMessage(r.plan.root), set: set}
	next := 0
	for i := range d.root.fields {
		if r.options.Needed != nil && !r.options.Needed[i] {
			d.root.fields[i].action = pass
			continue
		}
		d.root.bind(i, set.Top()[next])
		next++
	}
	if r.options.Unknown {
		d.root.unknown = set.Top()[next]
	}
	d.root.finish()
	return d
}

// Append appends the values of a message to the columns. It does not keep body.
// After an error, a [*DataError], the columns hold parts of the message, which the
// caller takes back. A message without room in the columns is no error: the set
// tells.
func (d *Decoder) Append(body []byte) error {
	_, err := d.root.parse(body, 0, 0)
	if err == nil {
		err = d.root.commit(body)
	}
	if d.set.Overflow() != nil {
		d.root.discard()
		return nil
	}
	if err != nil {
		d.root.discard()
		return located(err)
	}
	return nil
}
