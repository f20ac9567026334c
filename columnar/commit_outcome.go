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

// commit commits the offsets of a round. An advance of time that produces nothing
// has nothing to commit.
func (c *committer) commit(rd *round) error {
	if rd.advance != nil && len(rd.outputs) == 0 {
		return nil
	}
	if rd.producer == nil {
		if len(rd.offsets) == 0 {
			return nil
		}
		if err := c.consumer.CommitOffsets(rd.ctx, maps.Clone(rd.offsets)); err != nil {
			return textPrefix.Wrap(err, "committing offsets")
		}
		return nil
	}
	return c.commitTransaction(rd)
}

// commitTransaction ends the transaction of a round. When it is not known how it
// ended, the committed offsets tell.
func (c *committer) commitTransaction(rd *round) error {
	if len(rd.offsets) > 0 {
		if err := c.sendOffsets(rd); err != nil {
			return textPrefix.Wrap(err, "sending offsets")
		}
	}
	err := commitTransaction(rd.ctx, rd.producer)
	if err == nil {
		c.open = false
		return nil
	}
	err = textPrefix.Wrap(err, "committing")
	if hasNoEffect(err) {
		return err
	}
	rd.unknown = err
	if !c.leavesTrace(rd) {
		if errors.As(err, new(*CommitUnknownError)) {
			c.open, rd.aborted = false, true
			ctx, cancel := settling(rd.ctx)
			defer cancel()
			return c.giveUp(errors.Join(err, abortTransaction(ctx, rd.producer)))
		}
		return err
	}
	return c.lookUp(rd)
}

// leavesTrace reports whether what the group has committed tells later whether a
// round's transaction took effect.
func (c *committer) leavesTrace(rd *round) bool {
	if rd.advance != nil {
		return len(rd.notes) > 0
	}
	return c.committed != nil
}

// hasNoEffect reports whether an error of a commit says that nothing of the
// transaction became visible.
func hasNoEffect(err error) bool {
	return errors.As(err, new(*TransactionAbortedError)) || errors.As(err, new(*FencedError)) || errors.As(err, new(*RebalancedError))
}

// lookUp finds out whether the commit of a round took effect. The round fails
// when it did not, and also when nobody can tell yet: then the next round asks
// again.
func (c *committer) lookUp(rd *round) error {
	c.stats.add(func(s *RuntimeStats) { s.CommitsUnknown++ })
	ctx, cancel := settling(rd.ctx)
	defer cancel()
	c.open, rd.aborted = false, true
	u := &unsettled{open: true, unknown: rd.unknown, offsets: map[TopicPartition]int64{}}
	if rd.advance != nil {
		u.offsets, u.notes = rd.offsets, rd.notes
	}
	for tp, offset := range rd.offsets {
		if progress := c.progress(tp); !progress.hasCommitted || offset != progress.committed {
			u.offsets[tp] = offset
		}
	}
	happened, err := c.findOut(ctx, rd.producer, u)
	switch {
	case err != nil && !errors.Is(err, errForeignCommit):
		c.keepUnsettled(u)
	case err != nil:
		return c.rebuild(u, errors.Join(u.unknown, err))
	case happened:
		return nil
	}
	return errors.Join(u.unknown, err)
}

// findOut ends a transaction for good, and learns from the committed offsets
// whether its commit took effect. The abort comes first, so that the offsets
// cannot change afterwards.
func (c *committer) findOut(ctx context.Context, producer TransactionalProducer, u *unsettled) (happened bool, err error) {
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
		return c.findNotes(ctx, u)
	}
	committed, err := c.committed.Committed(ctx, slices.SortedFunc(maps.Keys(u.offsets), compareTopicPartitions))
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
func (c *committer) findNotes(ctx context.Context, u *unsettled) (happened bool, err error) {
	notes, err := c.noter.CommittedNotes(ctx, slices.SortedFunc(maps.Keys(u.notes), compareTopicPartitions))
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
func (c *committer) settleTransaction(ctx context.Context) error {
	u := c.unsettled
	if u == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	happened, err := c.findOut(ctx, c.producer.(TransactionalProducer), u)
	if err != nil && !errors.Is(err, errForeignCommit) {
		return errors.Join(u.unknown, err)
	}
	c.keepUnsettled(nil)
	c.rewindAll(true)
	if happened || err != nil {
		return c.rebuild(u, nil)
	}
	return nil
}

// leaveOpen keeps a failed round's transaction, whose abort did not get through,
// for the next round to abort. With a commit in it that nobody can look up, no
// round may follow.
func (c *committer) leaveOpen(rd *round, err error) error {
	if rd.unknown != nil {
		return c.giveUp(err)
	}
	c.keepUnsettled(&unsettled{open: true})
	return err
}

// rebuild makes the partitions of a commit recover from the committed offsets
// before anything else runs, and returns err. State that nothing can be rebuilt
// from ends the runner.
func (c *committer) rebuild(u *unsettled, err error) error {
	if c.shape.stateful && c.snapshots == nil {
		return c.giveUp(textPrefix.Wrap(u.unknown, "the store cannot tell where its state stands"))
	}
	for tp := range u.offsets {
		p := c.partitions[tp.Partition]
		if p == nil {
			continue
		}
		for _, progress := range p.topics {
			progress.hasCommitted = false
		}
		if p.phase == arriving {
			p.recovery.again = true
			continue
		}
		if failed := c.enter(p, step{to: arriving, recovery: &recovery{started: time.Now(), again: true}}); failed != nil {
			return &terminalError{errors.Join(err, failed)}
		}
	}
	return err
}

// keepUnsettled keeps what a round has left of its transaction; nil for nothing. The state
// of the partitions that the commit moves is in doubt meanwhile.
func (c *committer) keepUnsettled(u *unsettled) {
	c.unsettled = u
	for _, p := range c.partitions {
		p.doubt = nil
	}
	if u == nil {
		return
	}
	for tp := range u.offsets {
		if p := c.partitions[tp.Partition]; p != nil {
			p.doubt = u.unknown
		}
	}
}

// giveUp makes an error terminal, after a commit of which nobody can learn whether
// it took effect: state is not saved.
func (c *committer) giveUp(err error) error { return &terminalError{err} }
