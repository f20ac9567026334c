// SPDX-License-Identifier: Apache-2.0

// Package ipcstream reads and writes record batches as Arrow IPC streams.
//
// Reading trusts no byte: positions, lengths, offsets, indexes, text and declared
// sizes are checked before they are used, and the columns of an accepted stream read
// without a panic. Columns are not copied. Writing knows the size of the stream of
// any range of rows before it writes one, so that rows can be packed into records of
// a bounded size.
//
// The codecs of package columnar use it, and the snapshots of operators for the types
// of their columns. It knows no records, keys or topics.
package ipcstream
