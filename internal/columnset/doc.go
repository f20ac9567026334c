// SPDX-License-Identifier: Apache-2.0

// Package columnset builds the columns of a batch row by row, in memory of an
// Arrow allocator.
//
// A [Spec] describes the columns of a schema, and a [Set] collects the rows of one
// batch after the other. A reader appends one value to each column of the top
// level and calls Commit; a row that fails half-way is taken back with Rollback,
// from every column at every depth. Where the values before a row end follows from
// the offsets of lists and texts, so that a row needs no marks.
//
// In a list or map, the items of a row are appended to the children first, and
// EndList then makes them a row. In a struct, each child gets one value, and
// EndStruct then makes them a row.
//
// A Set belongs to one goroutine at a time.
package columnset
