// SPDX-License-Identifier: Apache-2.0

package schema

import "reflect"

// avroOptions are the options of Avro serdes.
type avroOptions struct {
	types  map[string]reflect.Type // by full name of an Avro type
	names  map[reflect.Type]string
	tagged bool
}

// WithAvroType gives a record, enum or fixed of that full name a Go type: that
// of sample. Where the Avro type is read into an interface, as in a union of
// records or in generic values, the value is of the Go type, or a pointer to it
// if sample is a pointer; both forms are written as that branch of a union. The
// option can be given for several types.
func WithAvroType(name string, sample any) SerdeOption {
	return func(o *serdeOptions) {
		o.only(KindAvro, "WithAvroType")
		t := reflect.TypeOf(sample)
		if name == "" || t == nil {
			o.refuse("WithAvroType needs a name and a value")
			return
		}
		if o.avro.types == nil {
			o.avro.types, o.avro.names = make(map[string]reflect.Type), make(map[reflect.Type]string)
		}
		element := t
		if t.Kind() == reflect.Pointer {
			element = t.Elem()
		}
		if old, ok := o.avro.names[element]; ok && old != name {
			o.refuse("WithAvroType gives %v to both %s and %s", element, old, name)
			return
		}
		o.avro.types[name] = t
		o.avro.names[element], o.avro.names[reflect.PointerTo(element)] = name, name
	}
}

// WithTaggedUnions reads the values of unions with several branches beside null
// into interfaces as maps of one entry, from the name of the branch to the
// value. By default they are bare, which does not tell branches apart that have
// the same Go type. Both forms can be written either way.
func WithTaggedUnions() SerdeOption {
	return func(o *serdeOptions) {
		o.only(KindAvro, "WithTaggedUnions")
		o.avro.tagged = true
	}
}
