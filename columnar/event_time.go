// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AdvanceTime moves the stream time of every owned partition to at least
// timestamp, in milliseconds since the Unix epoch, and sends what that closes, in
// a transaction of its own where the producer is a [TransactionalProducer]. It is
// for input that has become silent: no record will push the last windows out.
//
// A crash right behind the send can make a later advance send the same again,
// since no offset moves with it. After an error nothing has changed.
func (r *GroupRunner) AdvanceTime(ctx context.Context, timestamp int64) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	rd := &round{poll: ctx, ctx: ctx, started: time.Now(), advance: &timestamp}
	rd.producer, _ = r.producer.(TransactionalProducer)
	err := r.execute(rd)
	r.report(rd, err)
	return err
}

// advanceAll is what a round that advances time does instead of polling.
func (r *GroupRunner) advanceAll(rd *round) error {
	for _, p := range r.ordered() {
		if p.live() && r.involved(p) {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p})
		}
	}
	for _, work := range rd.work {
		outputs, err := r.topology.advancePartition(work.number, *rd.advance)
		if err != nil {
			return err
		}
		rd.outputs = append(rd.outputs, outputs...)
	}
	if len(rd.outputs) > 0 {
		if err := sendAll(rd.ctx, rd.outputs, r.producer, r.settings.maxInFlight); err != nil {
			return fmt.Errorf("columnar: sending outputs: %w", err)
		}
		if err := r.commit(rd); err != nil {
			return err
		}
	}
	var errs []error
	for _, work := range rd.work {
		r.topology.commitPartition(work.number)
		work.dirty = true
		errs = append(errs, r.recordAdvance(rd, work.logicalPartition))
	}
	if err := errors.Join(errs...); err != nil {
		r.reportError(err)
	}
	return nil
}

// recordAdvance makes recovery repeat an advance: in the journal, or failing that
// by a snapshot. It comes behind the commit, since no offset tells whether the
// advance took place.
func (r *GroupRunner) recordAdvance(rd *round, p *logicalPartition) error {
	if r.snapshots == nil || !r.shape.stateful || p.snapshot.Sequence == 0 {
		return nil
	}
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	if r.journal != nil {
		entry := &journalRound{number: p.round, advance: rd.advance, ranges: p.standing()}
		p.journalStale = true
		if err := r.journal.AppendRound(ctx, p.number, p.generation, entry.encode()); err == nil {
			p.round, p.journalStale = p.round+1, false
			return nil
		}
	}
	return r.saveSnapshot(ctx, p, SnapshotInfo{Epoch: NoEpoch, Positions: p.positions(), Confirmed: true})
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
