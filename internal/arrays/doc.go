// SPDX-License-Identifier: Apache-2.0

// Package arrays reads, builds, joins and takes rows of Arrow arrays, for every
// Arrow type.
//
//   - [Gather], [GatherBatch] and [Selection] take rows; [Concat] and [ConcatBatches]
//     join; [Nulls] and [EmptyData] make trivial ones.
//   - [Kind], [ReadWords], [ReadBytes] and [Validity] read columns in the form in
//     which operators compute: one form for all types of a kind.
//   - [Words], [Build] and [BuildBytes] make columns from that form.
//   - [Value], [AppendValue] and [Coerce] convert single values from and to Go.
//
// Everything that computes over columns may use it: codecs, expressions, and the
// state of operators. It knows no batch of records: metadata columns, tombstones
// and errors that name a column are the business of its callers.
//
// Arrays and data that a function returns belong to the caller, who releases
// them. Arguments are borrowed, unless a comment says otherwise.
package arrays
