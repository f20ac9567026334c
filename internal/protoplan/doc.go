// SPDX-License-Identifier: Apache-2.0

// Package protoplan moves Protobuf messages between their wire format and Arrow
// columns, without a message in between.
//
// [Compile] turns a message descriptor into a [Plan]: the Arrow fields of the
// message and, for every field, how its value stands on the wire and in a column.
// A [Decoder] parses wire bytes and appends one row a message to a
// [columnset.Set]. An [Encoder] appends the wire bytes of one row of a batch.
//
// # Decoding
//
// Singular values wait in slots until their message ends, because the last
// occurrence wins, parts of a message merge, and a member of a oneof clears the
// others. Elements of lists go into their columns at once. A type that contains
// itself has a column of JSON text, so a plan is a finite tree, and at any moment
// each of its messages is being read at most once: the slots of a message belong
// to the decoder.
//
// # Bounds
//
// Lengths are checked against the bytes that remain before anything is read. The
// depth of messages is that of the plan, and at most 10000 inside JSON columns and
// unknown groups.
package protoplan
