// SPDX-License-Identifier: Apache-2.0

package schema

import "github.com/krabka-io/krabka-streams-go/internal/avrovalue"

// WithAvroType gives a record, enum or fixed of that full name a Go type: that
// of sample. Where the Avro type is read into an interface, as in a union of
// records or in generic values, the value is of the Go type, or a pointer to it
// if sample is a pointer; both forms are written as that branch of a union. The
// option can be given for several types.
func WithAvroType(name string, sample any) SerdeOption {
	return optionOf(KindAvro, "WithAvroType", func(o *avrovalue.Options, refuse optionRefusal) {
		if err := o.Register(name, sample); err != nil {
			refuse("WithAvroType %v", err)
		}
	})
}

// WithTaggedUnions reads the values of unions with several branches beside null
// into interfaces as maps of one entry, from the name of the branch to the
// value. By default they are bare, which does not tell branches apart that have
// the same Go type. Both forms can be written either way.
func WithTaggedUnions() SerdeOption {
	return optionOf(KindAvro, "WithTaggedUnions", func(o *avrovalue.Options, _ optionRefusal) {
		o.Tagged = true
	})
}
