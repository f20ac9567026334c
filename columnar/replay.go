// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/journal"
)

// history returns the journaled rounds between a snapshot and the committed
// offsets. stale says that the journal holds rounds beyond them.
func (o *ownership) history(ctx context.Context, p *logicalPartition, chosen SnapshotInfo, behind bool) (rounds []*journal.Round, stale bool, err error) {
	if chosen.Sequence == 0 {
		return nil, false, nil
	}
	if o.journal == nil {
		if behind && o.shape.interleaved {
			return nil, false, &unusableSnapshotError{&ReplayError{p.number, errors.New("the store keeps no journal, which the order of several topics' records needs")}}
		}
		return nil, false, nil
	}
	encoded, err := o.journal.Rounds(ctx, p.number, chosen.Sequence)
	if err == nil {
		rounds, err = journal.Decode(encoded, chosen.Round)
	}
	if err != nil {
		return nil, false, &unusableSnapshotError{&ReplayError{p.number, err}}
	}
	happened := 0
	for happened < len(rounds) && p.hasCommitted(rounds[happened]) {
		happened++
	}
	return rounds[:happened], happened < len(rounds), nil
}

// hasCommitted reports whether the group has committed everything in a round.
// Without committed offsets nothing is known to be. An advance of time in a
// transaction moves no offset: a note beside the offsets tells, and where other
// commits have removed the notes, that they came later.
func (p *logicalPartition) hasCommitted(r *journal.Round) bool {
	moved := false
	for _, one := range r.Ranges {
		offset, ok := p.recovery.committed[TopicPartition{one.Topic, p.number}]
		if one.End > one.Start && (!ok || one.End > offset) {
			return false
		}
		moved = moved || ok && offset > one.End
	}
	switch {
	case r.Advance == nil || !r.Transactional:
		return true
	case p.recovery.noted >= 0:
		return r.Number < p.recovery.noted
	}
	return moved
}

// beginReplay makes a loaded partition repeat its history, if there is any.
func (o *ownership) beginReplay(p *logicalPartition, replay *replay) error {
	committed := p.recovery.committed
	// A topic without a record by the time of the snapshot begins where the
	// journal saw it first.
	var places []place
	seen := map[string]bool{}
	for _, round := range replay.rounds {
		for _, one := range round.Ranges {
			placed := false
			if replay.snapshot != nil {
				_, placed = replay.snapshot.Positions[TopicPartition{one.Topic, p.number}]
			}
			if progress := p.topics[one.Topic]; progress != nil && !placed && !seen[one.Topic] {
				places = append(places, place{topicProgress: progress, offset: one.Start, empty: true})
			}
			seen[one.Topic] = true
		}
	}
	if err := o.enter(p, step{to: replaying, replay: replay, places: places}); err != nil {
		return err
	}
	if len(replay.until) == 0 && len(replay.rounds) == 0 {
		return o.goLive(p, committed)
	}
	return nil
}

// repeat processes again what has been delivered of a partition's history, with
// outputs suppressed. What it processes is committed history, so it takes effect
// at once, whatever becomes of the round. It returns when the partition is live
// or has to wait for more records.
func (o *ownership) repeat(p *logicalPartition) error {
	replay := p.replay
	for len(replay.rounds) > 0 {
		round := replay.rounds[0]
		if !o.shape.interleaved {
			// Between journaled rounds of one topic, the order of the records is all
			// the history there is.
			if err := o.repeatBelow(p, startsOf(round, p.number)); err != nil {
				return err
			}
		}
		repeated, err := o.repeatRound(p, round)
		if err != nil || !repeated {
			return err
		}
		replay.rounds = replay.rounds[1:]
		replay.transactional = round.Transactional
		p.round++
	}
	if o.shape.interleaved && p.snapshot.Sequence > 0 && o.journal != nil {
		return o.endJournaled(p)
	}
	if err := o.repeatBelow(p, replay.until); err != nil {
		return err
	}
	for tp, end := range replay.until {
		if p.topics[tp.Topic].reach(0) < end {
			return nil
		}
	}
	return o.finishReplay(p)
}

// endJournaled goes live behind the last journaled round. In a transaction no
// record can have been committed behind it.
func (o *ownership) endJournaled(p *logicalPartition) error {
	replay := p.replay
	for _, progress := range p.inOrder() {
		left := progress.below(replay.endOfReplay(progress.TopicPartition))
		if replay.transactional && len(left) > 0 {
			return &ReplayError{p.number, fmt.Errorf("%s/%d is committed up to offset %d, and the journal ends at %d",
				progress.Topic, progress.Partition, replay.until[progress.TopicPartition], left[0].Offset)}
		}
	}
	return o.finishReplay(p)
}

func (o *ownership) finishReplay(p *logicalPartition) error {
	committed := map[TopicPartition]int64{}
	for _, progress := range p.topics {
		if progress.hasCommitted {
			committed[progress.TopicPartition] = progress.committed
		}
	}
	return o.goLive(p, committed)
}

// goLive ends a replay.
func (o *ownership) goLive(p *logicalPartition, committed map[TopicPartition]int64) error {
	replay := p.replay
	if err := o.enter(p, step{to: live}); err != nil {
		return err
	}
	elapsed := time.Since(replay.started)
	if replay.snapshot != nil {
		o.stats.add(func(s *RuntimeStats) { s.Recoveries++ })
	}
	o.settings.logger.Info("partition recovered", "partition", p.number, "replayed", replay.records, "duration", elapsed)
	if o.settings.hooks.Recovery != nil {
		o.settings.hooks.Recovery(RecoveryInfo{
			Partition: p.number, Snapshot: replay.snapshot, Committed: maps.Clone(committed),
			Replayed: replay.records, Duration: elapsed,
		})
	}
	return nil
}

// startsOf returns where the topics of a partition stood before a journaled round.
func startsOf(r *journal.Round, partition int) map[TopicPartition]int64 {
	starts := make(map[TopicPartition]int64, len(r.Ranges))
	for _, one := range r.Ranges {
		starts[TopicPartition{one.Topic, partition}] = one.Start
	}
	return starts
}

// repeatRound processes a journaled round again, and reports whether all of it
// has been delivered.
func (o *ownership) repeatRound(p *logicalPartition, round *journal.Round) (bool, error) {
	input := map[string][]ConsumedRecord{}
	for _, one := range round.Ranges {
		progress := p.topics[one.Topic]
		if progress == nil {
			return false, &ReplayError{p.number, fmt.Errorf("journaled round %d has records of topic %q, which is not assigned", round.Number, one.Topic)}
		}
		if progress.processed > one.Start {
			return false, &ReplayError{p.number, fmt.Errorf("%s/%d stands at offset %d, journaled round %d begins at %d",
				progress.Topic, progress.Partition, progress.processed, round.Number, one.Start)}
		}
		if progress.delivered < one.End {
			return false, nil
		}
	}
	for _, one := range round.Ranges {
		progress := p.topics[one.Topic]
		records := progress.below(one.End)
		if len(round.Excluded) > 0 {
			records = included(records, func(record *ConsumedRecord) bool { return !round.Excludes(one.Topic, record.Offset) })
		}
		if len(records) > 0 {
			input[one.Topic] = records
		}
	}
	if err := o.runHistory(p, input, round.Advance); err != nil {
		return false, err
	}
	for _, one := range round.Ranges {
		progress := p.topics[one.Topic]
		progress.advance(len(progress.below(one.End)), one.End)
	}
	return true, nil
}

// repeatBelow processes the delivered records below an offset of each topic.
func (o *ownership) repeatBelow(p *logicalPartition, limits map[TopicPartition]int64) error {
	input := map[string][]ConsumedRecord{}
	for tp, limit := range limits {
		if records := p.topics[tp.Topic].below(limit); len(records) > 0 {
			input[tp.Topic] = records
		}
	}
	if len(input) == 0 {
		return nil
	}
	if err := o.runHistory(p, input, nil); err != nil {
		return err
	}
	for topic, records := range input {
		progress := p.topics[topic]
		progress.advance(len(records), progress.behind(len(records)))
	}
	return nil
}

// runHistory runs records again and drops what they produce. Records that the
// error policy took the first time, without a journal that says so, fail again
// and are dropped again.
func (o *ownership) runHistory(p *logicalPartition, input map[string][]ConsumedRecord, advance *int64) error {
	records := 0
	for _, of := range input {
		records += len(of)
	}
	if records > 0 {
		if _, err := o.runTolerant(p.number, input); err != nil {
			return err
		}
	}
	if advance != nil {
		if _, err := o.topology.advancePartition(p.number, *advance); err != nil {
			return errors.Join(err, o.topology.rollbackPartition(p.number))
		}
	}
	o.topology.commitPartition(p.number)
	p.dirty = true
	p.replay.records += int64(records)
	o.stats.add(func(s *RuntimeStats) { s.RecordsReplayed += int64(records) })
	return nil
}
