// SPDX-License-Identifier: Apache-2.0

// Package avroplan parses Avro schemas and compiles, once for each pair of
// writer and reader schema, the plan by which data of the writer is read as
// values of the reader.
//
// [Parse] builds a graph of [Schema] values with a name table of its own:
// nothing that another text declares is visible. [Resolve] walks a pair of
// schemas and returns a graph of [Node] values. A node says what stands on the
// wire and which value of the reader it becomes: promotions, renamed and
// reordered fields, defaults, enum symbols and union branches are all decided
// there, so that nothing is looked up by name while data is read.
//
// The node graph is the seam between the format and its sinks. A sink compiles
// the graph to operations of its own (Go values, column builders) and runs them
// over a [Cursor], which holds every bound: each length, block count, branch
// and symbol is checked against the bytes that remain before anything is
// allocated, and nesting and items without a width are limited. The defaults of
// fields that the writer does not know are Avro binary of the reader's type,
// read with the same operations as wire data.
//
// The graph can be cyclic, because Avro types may contain themselves. Sinks
// keep a table of the nodes they have compiled.
package avroplan
