// SPDX-License-Identifier: Apache-2.0

// Package jsonrows converts between JSON documents and the rows of Arrow columns.
//
//   - [Reader] scans one document, strictly and in one pass.
//   - [NewRoot] plans the columns of a schema, [Decoder] reads documents into them,
//     and a malformed document leaves no row.
//   - [Form] writes columns, a row an object.
//   - [Tree] is a parsed document that keeps the order of members.
//
// The JSON codec, bridge and schema reader of package columnar use it. It knows no
// records or metadata columns, and infers no schema.
package jsonrows
