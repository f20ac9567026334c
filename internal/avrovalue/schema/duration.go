// SPDX-License-Identifier: Apache-2.0

// Package schema holds the types of Avro values that package schema has for its
// users under the same names. Error texts show a type with the name of its
// package, so that they show these types as users know them.
package schema

// AvroDuration is the value of Avro's duration: months, days and milliseconds
// that are counted apart, because neither months nor days have a fixed length.
type AvroDuration struct {
	Months       uint32
	Days         uint32
	Milliseconds uint32
}
