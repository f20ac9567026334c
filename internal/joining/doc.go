// SPDX-License-Identifier: Apache-2.0

// Package joining is the state of a join of two branches in one logical
// partition: the rows that are kept of both sides, found by their keys, and the
// pairs that they make.
//
// [New] makes the state of a [Spec]. [State.Process] takes the batches of a run
// in and returns the pairs that they complete; [State.Advance] moves time without
// rows. Changes stay pending until [State.Commit] or [State.Rollback], and
// [State.Snapshot] and [State.Restore] carry the state across processes.
//
// It knows batches and columns, and neither topologies nor records: which
// branches are joined, and where results go, is the business of package columnar.
// What a join means to its user is documented there.
package joining
