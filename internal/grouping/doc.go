// SPDX-License-Identifier: Apache-2.0

// Package grouping is group-by in one logical partition: the groups that are held,
// their aggregates, and the windows that they belong to.
//
// [New] makes the [Operator] of a [Spec]. [Operator.Process] adds the rows of a batch
// to their groups and returns the groups that are emitted; [Operator.Advance] moves
// stream time without rows. Changes stay pending until [Operator.Commit] or
// [Operator.Rollback], and [Operator.Snapshot] and [Operator.Restore] carry the
// groups across processes.
//
// It knows batches and columns, and neither topologies nor records: which branch is
// grouped, and where results and late rows go, is the business of package columnar.
// What a grouping means to its user is documented there.
package grouping
