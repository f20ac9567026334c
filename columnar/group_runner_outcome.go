// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

var errForeignCommit = errors.New("columnar: the group's offsets were moved by somebody else")

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

// commitTransaction ends the transaction of a round. When it is not known how it
// ended, the committed offsets tell.
func (r *GroupRunner) commitTransaction(rd *round) error {
	if len(rd.offsets) > 0 {
		if err := r.sendOffsets(rd); err != nil {
			return textPrefix.Wrap(err, "sending offsets")
		}
	}
	err := commitTransaction(rd.ctx, rd.producer)
	if err == nil {
		r.open = false
		return nil
	}
	err = textPrefix.Wrap(err, "committing")
	if hasNoEffect(err) {
		return err
	}
	rd.unknown = err
	if !r.leavesTrace(rd) {
		if errors.As(err, new(*CommitUnknownError)) {
			r.open, rd.aborted = false, true
			ctx, cancel := settling(rd.ctx)
			defer cancel()
			return r.giveUp(errors.Join(err, abortTransaction(ctx, rd.producer)))
		}
		return err
	}
	return r.lookUp(rd)
}

// leavesTrace reports whether what the group has committed tells later whether a
// round's transaction took effect.
func (r *GroupRunner) leavesTrace(rd *round) bool {
	if rd.advance != nil {
		return len(rd.notes) > 0
	}
	return r.committed != nil
}

// hasNoEffect reports whether an error of a commit says that nothing of the
// transaction became visible.
func hasNoEffect(err error) bool {
	return errors.As(err, new(*TransactionAbortedError)) || errors.As(err, new(*FencedError)) || errors.As(err, new(*RebalancedError))
}

// lookUp finds out whether the commit of a round took effect. The round fails
// when it did not, and also when nobody can tell yet: then the next round asks
// again.
func (r *GroupRunner) lookUp(rd *round) error {
	r.stats.add(func(s *RuntimeStats) { s.CommitsUnknown++ })
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	r.open, rd.aborted = false, true
	u := &unsettled{open: true, unknown: rd.unknown, offsets: map[TopicPartition]int64{}}
	if rd.advance != nil {
		u.offsets, u.notes = rd.offsets, rd.notes
	}
	for tp, offset := range rd.offsets {
		if progress := r.partitions[tp.Partition].topics[tp.Topic]; !progress.hasCommitted || offset != progress.committed {
			u.offsets[tp] = offset
		}
	}
	happened, err := r.findOut(ctx, rd.producer, u)
	switch {
	case err != nil && !errors.Is(err, errForeignCommit):
		r.unsettled = u
	case err != nil:
		return r.rebuild(u, errors.Join(u.unknown, err))
	case happened:
		return nil
	}
	return errors.Join(u.unknown, err)
}

// findOut ends a transaction for good, and learns from the committed offsets
// whether its commit took effect. The abort comes first, so that the offsets
// cannot change afterwards.
func (r *GroupRunner) findOut(ctx context.Context, producer TransactionalProducer, u *unsettled) (happened bool, err error) {
	if u.open {
		if err := abortTransaction(ctx, producer); err != nil {
			return false, textPrefix.Wrap(err, "aborting")
		}
		u.open = false
	}
	if len(u.offsets) == 0 {
		return false, nil
	}
	if u.notes != nil {
		return r.findNotes(ctx, u)
	}
	committed, err := r.committed.Committed(ctx, slices.SortedFunc(maps.Keys(u.offsets), compareTopicPartitions))
	if err != nil {
		return false, textPrefix.Wrap(err, "committed offsets")
	}
	moved := 0
	for tp, offset := range u.offsets {
		if at, ok := committed[tp]; ok && at == offset {
			moved++
		}
	}
	switch moved {
	case 0:
		return false, nil
	case len(u.offsets):
		return true, nil
	}
	return false, errForeignCommit
}

// findNotes is findOut by the notes beside the committed offsets.
func (r *GroupRunner) findNotes(ctx context.Context, u *unsettled) (happened bool, err error) {
	notes, err := r.noter.CommittedNotes(ctx, slices.SortedFunc(maps.Keys(u.notes), compareTopicPartitions))
	if err != nil {
		return false, textPrefix.Wrap(err, "notes of committed offsets")
	}
	for tp, note := range u.notes {
		happened = happened || notes[tp] == note
	}
	return happened, nil
}

// settleTransaction settles what an earlier round has left. A commit that took
// effect after all makes its partitions recover.
func (r *GroupRunner) settleTransaction(ctx context.Context) error {
	u := r.unsettled
	if u == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	happened, err := r.findOut(ctx, r.producer.(TransactionalProducer), u)
	if err != nil && !errors.Is(err, errForeignCommit) {
		return errors.Join(u.unknown, err)
	}
	r.unsettled = nil
	for _, p := range r.ordered() {
		for _, progress := range p.inOrder() {
			r.returnToCommitted(progress, true)
		}
	}
	if happened || err != nil {
		return r.rebuild(u, nil)
	}
	return nil
}

// leaveOpen keeps a failed round's transaction, whose abort did not get through,
// for the next round to abort. With a commit in it that nobody can look up, no
// round may follow.
func (r *GroupRunner) leaveOpen(rd *round, err error) error {
	if rd.unknown != nil {
		return r.giveUp(err)
	}
	r.unsettled = &unsettled{open: true}
	return err
}

// rebuild makes the partitions of a commit recover from the committed offsets
// before anything else runs, and returns err. State that nothing can be rebuilt
// from ends the runner.
func (r *GroupRunner) rebuild(u *unsettled, err error) error {
	if r.shape.stateful && r.snapshots == nil {
		return r.giveUp(textPrefix.Wrap(u.unknown, "the store cannot tell where its state stands"))
	}
	for tp := range u.offsets {
		p := r.partitions[tp.Partition]
		if p == nil {
			continue
		}
		for _, progress := range p.topics {
			progress.hasCommitted = false
		}
		p.recovery, p.replay = &recovery{started: time.Now(), again: true}, nil
	}
	return err
}

// giveUp ends the runner without saving state of which nobody knows whether it
// was committed.
func (r *GroupRunner) giveUp(err error) error {
	r.terminal = err
	r.dropState()
	return err
}

// mayStand reports whether the state of a partition, without the position it
// stands for, can be what the group has committed.
func (r *GroupRunner) mayStand(p *logicalPartition) bool {
	if r.unsettled == nil {
		return true
	}
	for tp := range r.unsettled.offsets {
		if tp.Partition == p.number {
			return false
		}
	}
	return true
}
