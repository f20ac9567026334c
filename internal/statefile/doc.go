// SPDX-License-Identifier: Apache-2.0

// Package statefile keeps the state of logical partitions in files: snapshots
// with a sidecar each, a journal of rounds, the owner's generation, and the locks
// that keep processes apart.
//
// It is the room below columnar.FileStateStore, which alone uses it. It knows
// bytes by the names of nodes, and neither topics' records nor Arrow: what a
// snapshot stands for is described by [Snapshot], and what uses a snapshot is the
// caller's to decide. Its errors name a file; the caller adds the partition.
package statefile
