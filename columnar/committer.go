// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"crypto/rand"
	"maps"
	"strconv"
	"strings"

	"github.com/krabka-io/krabka-streams-go/internal/journal"
)

// committer sends what a round has produced and commits it. It learns what became
// of a commit whose answer did not come.
type committer struct {
	*ownership

	open      bool // a transaction has begun and holds nothing
	unsettled *unsettled
}

// unsettled is what a round has left of its transaction. The round itself has
// been taken back, and no other runs before this is settled.
type unsettled struct {
	open    bool  // an abort has not got through
	unknown error // the commit that may have taken effect; nil when none was tried
	// offsets tell what became of the commit: those that it moves.
	offsets map[TopicPartition]int64
	// notes tell it instead, of a commit that moves no offset.
	notes map[TopicPartition]string
}

// appendJournal writes the rounds that recovery could not repeat from the records
// alone.
func (c *committer) appendJournal(rd *round) error {
	if c.journal == nil || !c.shape.stateful {
		return nil
	}
	for _, work := range rd.work {
		if !c.journals(rd, work) {
			continue
		}
		if err := c.claim(rd.ctx, work.logicalPartition); err != nil {
			return err
		}
		entry := &journal.Round{Number: work.round, Transactional: rd.producer != nil, Excluded: offsetRanges(work.excluded), Advance: rd.advance}
		for _, progress := range work.inOrder() {
			if progress.known {
				end := progress.behind(len(work.input[progress.Topic]))
				entry.Ranges = append(entry.Ranges, journal.Range{Topic: progress.Topic, Start: progress.processed, End: end})
			}
		}
		// What the journal gets during a save would count as what lies before it.
		if err := c.awaitSaved(rd.ctx, work.logicalPartition); err != nil {
			return err
		}
		work.journalStale = true
		if err := c.journal.AppendRound(rd.ctx, work.number, work.generation, entry.Encode()); err != nil {
			return err
		}
		work.journaled = true
	}
	return nil
}

// journals reports whether a round of a partition goes into the journal before it
// is committed. An advance of time does where a note beside the committed offsets
// will tell whether it was.
func (c *committer) journals(rd *round, work *partitionWork) bool {
	if rd.advance == nil {
		return c.shape.interleaved || len(work.excluded) > 0 || work.journalStale
	}
	if c.noter == nil || work.snapshot.Sequence == 0 {
		return false
	}
	for tp := range rd.offsets {
		if tp.Partition == work.number {
			return true
		}
	}
	return false
}

// restate makes a transaction that moves no offset commit those that stand. It is
// refused then where the partitions have a new owner, and the notes beside the
// offsets tell whether it took effect. State without a committed offset is none, so
// none is committed for it.
func (c *committer) restate(rd *round) {
	for _, work := range rd.work {
		for _, progress := range work.topics {
			switch {
			case progress.hasCommitted:
				rd.offsets[progress.TopicPartition] = progress.committed
			case progress.known && !c.shape.stateful:
				rd.offsets[progress.TopicPartition] = progress.processed
			}
		}
	}
}

// note makes the notes for the offsets of a round: how many journaled rounds of
// the partition are committed with them, and for a round that moves no offset
// something that tells it from all others.
func (c *committer) note(rd *round) {
	if c.noter == nil || rd.advance == nil && (c.journal == nil || !c.shape.stateful) {
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
		round := c.partitions[tp.Partition].round
		if journaled[tp.Partition] {
			round++
		}
		rd.notes[tp] = strconv.FormatInt(round, 10) + unique
	}
}

func (c *committer) sendOffsets(rd *round) error {
	offsets := maps.Clone(rd.offsets)
	if c.note(rd); rd.notes != nil {
		return c.noter.SendOffsetsNoted(rd.ctx, offsets, maps.Clone(rd.notes), rd.metadata)
	}
	if contextual, ok := rd.producer.(ContextTransactionalProducer); ok {
		return contextual.SendOffsetsContext(rd.ctx, offsets, rd.metadata)
	}
	return rd.producer.SendOffsets(offsets, rd.metadata)
}

// recordAdvance makes recovery repeat an advance that the journal does not have:
// in the journal, or failing that by a snapshot. It comes behind the commit, since
// nothing tells whether the advance took place.
func (c *committer) recordAdvance(rd *round, p *logicalPartition) {
	if !c.keepsState() || p.snapshot.Sequence == 0 {
		return
	}
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	if c.journal != nil && c.awaitSaved(ctx, p) == nil {
		entry := &journal.Round{Number: p.round, Advance: rd.advance, Ranges: p.standing()}
		p.journalStale = true
		if err := c.journal.AppendRound(ctx, p.number, p.generation, entry.Encode()); err == nil {
			p.round, p.journalStale = p.round+1, false
			return
		}
	}
	if err := c.saveSnapshot(ctx, p, c.betweenBarriers(p)); err != nil {
		c.reportError(err)
	}
}

// rewindAll returns every partition to its first uncommitted record. With force,
// consumers are sought that seem to be there already: an aborted transaction may
// have moved them by itself.
func (c *committer) rewindAll(force bool) {
	for _, p := range c.ordered() {
		for _, progress := range p.inOrder() {
			c.rewind(progress, force)
			if _, waits := c.restored[p.number]; waits && !p.owned {
				progress.misplaced = false // the assignment that the restore waits for seeks it
			}
		}
	}
}

func commitTransaction(ctx context.Context, producer TransactionalProducer) error {
	if contextual, ok := producer.(ContextTransactionalProducer); ok {
		return contextual.CommitTransactionContext(ctx)
	}
	return producer.CommitTransaction()
}

func abortTransaction(ctx context.Context, producer TransactionalProducer) error {
	if contextual, ok := producer.(ContextTransactionalProducer); ok {
		return contextual.AbortTransactionContext(ctx)
	}
	return producer.AbortTransaction()
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
