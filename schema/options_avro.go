// SPDX-License-Identifier: Apache-2.0

package schema

// WithAvroType gives a record, enum or fixed of that full name a Go type: that
// of sample. Where the Avro type is read into an interface, as in a union of
// records or in generic values, the value is of the Go type, or a pointer to it
// if sample is a pointer; both forms are written as that branch of a union. The
// option can be given for several types.
func WithAvroType(name string, sample any) SerdeOption {
	return func(o *serdeOptions) {
		o.only(KindAvro, "WithAvroType")
		if err := o.avro.Register(name, sample); err != nil {
			o.refuse("WithAvroType %v", err)
		}
	}
}

// WithTaggedUnions reads the values of unions with several branches beside null
// into interfaces as maps of one entry, from the name of the branch to the
// value. By default they are bare, which does not tell branches apart that have
// the same Go type. Both forms can be written either way.
func WithTaggedUnions() SerdeOption {
	return func(o *serdeOptions) {
		o.only(KindAvro, "WithTaggedUnions")
		o.avro.Tagged = true
	}
}
