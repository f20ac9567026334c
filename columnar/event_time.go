// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
)

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
	return r.takeTurn(&round{poll: ctx, ctx: ctx, producer: producer, advance: &timestamp})
}

// advanceAll is what a round that advances time does instead of polling.
func (r *GroupRunner) advanceAll(rd *round) error {
	rd.metadata = r.consumer.GroupMetadata()
	if err := r.takeStand(rd.ctx); err != nil {
		return err
	}
	for _, p := range r.ordered() {
		if p.live() && r.involved(p) && !p.waits() && (rd.only == nil || rd.only == p) {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p})
		}
	}
	for _, work := range rd.work {
		outputs, err := r.topology.advancePartition(work.number, *rd.advance)
		if err != nil {
			return err
		}
		work.metrics.OutputRecords = int64(len(outputs))
		rd.outputs = append(rd.outputs, outputs...)
	}
	rd.offsets = map[TopicPartition]int64{}
	if rd.producer != nil && len(rd.outputs) > 0 {
		r.restate(rd)
	}
	return r.finish(rd)
}

// waits reports whether records of the partition were delivered and not processed.
func (p *logicalPartition) waits() bool {
	for _, progress := range p.topics {
		if len(progress.queue) > 0 {
			return true
		}
	}
	return false
}

// restate makes a transaction that moves no offset commit those that stand. It is
// refused then where the partitions have a new owner, and the notes beside the
// offsets tell whether it took effect. State without a committed offset is none, so
// none is committed for it.
func (r *GroupRunner) restate(rd *round) {
	for _, work := range rd.work {
		for _, progress := range work.topics {
			switch {
			case progress.hasCommitted:
				rd.offsets[progress.TopicPartition] = progress.committed
			case progress.known && !r.shape.stateful:
				rd.offsets[progress.TopicPartition] = progress.processed
			}
		}
	}
}

// note makes the notes for the offsets of a round: how many journaled rounds of
// the partition are committed with them, and for a round that moves no offset
// something that tells it from all others.
func (r *GroupRunner) note(rd *round) {
	if r.noter == nil || rd.advance == nil && (r.journal == nil || !r.shape.stateful) {
		return
	}
	journaled := map[int]bool{}
	for _, work := range rd.work {
		journaled[work.number] = work.journaled
	}
	unique := ""
	if rd.advance != nil {
		unique = " " + rand.Text()
	}
	rd.notes = make(map[TopicPartition]string, len(rd.offsets))
	for tp := range rd.offsets {
		round := r.partitions[tp.Partition].round
		if journaled[tp.Partition] {
			round++
		}
		rd.notes[tp] = strconv.FormatInt(round, 10) + unique
	}
}

// notedRounds returns how many journaled rounds of a partition are committed by
// the notes beside its offsets, or -1 where none of them says it.
func notedRounds(notes map[TopicPartition]string, p *logicalPartition) int64 {
	rounds := int64(-1)
	for _, tp := range p.partitions() {
		text, _, _ := strings.Cut(notes[tp], " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			rounds = max(rounds, n)
		}
	}
	return rounds
}

// recordAdvance makes recovery repeat an advance that the journal does not have:
// in the journal, or failing that by a snapshot. It comes behind the commit, since
// nothing tells whether the advance took place.
func (r *GroupRunner) recordAdvance(rd *round, p *logicalPartition) {
	if r.snapshots == nil || !r.shape.stateful || p.snapshot.Sequence == 0 {
		return
	}
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	if r.journal != nil {
		entry := &journalRound{number: p.round, advance: rd.advance, ranges: p.standing()}
		p.journalStale = true
		if err := r.journal.AppendRound(ctx, p.number, p.generation, entry.encode()); err == nil {
			p.round, p.journalStale = p.round+1, false
			return
		}
	}
	if err := r.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: p.positions(), Confirmed: true}); err != nil {
		r.reportError(err)
	}
}

// standing returns empty ranges at which the topics of a partition stand.
func (p *logicalPartition) standing() []offsetRange {
	var ranges []offsetRange
	for _, progress := range p.inOrder() {
		if progress.known {
			ranges = append(ranges, offsetRange{progress.Topic, progress.processed, progress.processed})
		}
	}
	return ranges
}
