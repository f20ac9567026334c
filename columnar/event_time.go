// SPDX-License-Identifier: Apache-2.0

package columnar

import "context"

// AdvanceTime moves the stream time of every owned partition to at least
// timestamp, in milliseconds since the Unix epoch, and sends what that closes, in
// a transaction of its own where the producer is a [TransactionalProducer]. It is
// for input that has become silent: no record will push the last windows out. A
// partition is left out while records of it wait for a barrier, since time would
// pass them, and until it has recovered.
//
// It is a round without records: after an error it has not happened, and errors
// are those of [GroupRunner.RunOnce]. With a [TransactionalProducer] that is an
// [OffsetNoter], and a [JournalStore] where the topology has state, what an advance
// sends is committed once, also through crashes and commits of unknown outcome;
// otherwise a crash right behind the send can make a later advance send it again.
func (r *GroupRunner) AdvanceTime(ctx context.Context, timestamp int64) error {
	producer, _ := r.producer.(TransactionalProducer)
	return r.takeTurn(&round{poll: ctx, ctx: ctx, producer: producer, attempt: r.advanceAll, advance: &timestamp})
}
