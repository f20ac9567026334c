// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"time"
)

// write stores the copied state. That of a barrier, whose offsets are committed by
// now, is tried several times while ctx lasts, with pauses that double from backoff,
// and is confirmed.
func (s *saving) write(ctx context.Context, store SnapshotStore, backoff time.Duration) {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		s.saved, s.err = store.SaveSnapshot(ctx, s.info, s.state)
		if s.err == nil || s.barrier == nil || attempt == maxSaveAttempts || errors.As(s.err, new(*StaleOwnerError)) {
			break
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		if ctx.Err() != nil {
			break
		}
		backoff = min(2*backoff, maxSaveBackoff)
	}
	s.took = time.Since(started)
	if s.err != nil || s.barrier == nil {
		return
	}
	confirmed := s.saved
	confirmed.Generation = s.info.Generation
	if s.unconfirmed = store.ConfirmSnapshot(ctx, confirmed); s.unconfirmed == nil {
		s.saved.Confirmed = true
	}
}

// maxSaveAttempts is how often the state at a cut is tried to be stored.
const maxSaveAttempts = 10

// maxSaveBackoff is the longest pause between attempts to store the state at a cut.
const maxSaveBackoff = 10 * time.Second

// saveBeside has copied state written while rounds go on. One save of a partition
// is written at a time; of those that wait for it, the latest is kept.
func (o *ownership) saveBeside(s *saving) {
	p := s.partition
	p.dirty = false
	if p.saving != nil {
		if waiting := p.saveNext; waiting != nil {
			waiting.barrier.end(errSuperseded)
		}
		p.saveNext = s
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if o.settings.snapshotTimeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), o.settings.snapshotTimeout)
	}
	p.saving, s.cancel = s, cancel
	s.finished = o.settings.beside(func() { s.write(ctx, o.snapshots, o.settings.minBackoff) })
}

// errSuperseded says that the next barrier came before a snapshot could be written.
var errSuperseded = errors.New("columnar: the store is slower than the cuts: the state at a newer cut took the place of the one that waited to be written")

// takeFinished takes what has been written since the last call.
func (o *ownership) takeFinished() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range o.ordered() {
		for p.saving != nil && p.saving.finished(ended) {
			o.nextSaving(p)
		}
	}
}

// awaitSaved waits until nothing of a partition is being written.
func (o *ownership) awaitSaved(ctx context.Context, p *logicalPartition) error {
	for p.saving != nil {
		if !p.saving.finished(ctx) {
			return textPrefix.Wrap(ctx.Err(), "state of partition %d is still being written", p.number)
		}
		o.nextSaving(p)
	}
	return nil
}

// awaitAllSaved waits until nothing is being written.
func (o *ownership) awaitAllSaved(ctx context.Context) error {
	var errs []error
	for _, p := range o.ordered() {
		errs = append(errs, o.awaitSaved(ctx, p))
	}
	return errors.Join(errs...)
}

// nextSaving takes a save that has ended, and begins the one that waits for it.
func (o *ownership) nextSaving(p *logicalPartition) {
	ended, next := p.saving, p.saveNext
	p.saving, p.saveNext = nil, nil
	ended.cancel()
	if o.takeSaved(ended); ended.err != nil {
		o.reportError(textPrefix.Wrap(ended.err, "state of partition %d is not saved", p.number))
	}
	if next != nil {
		o.saveBeside(next)
	}
}

// cancelSaving gives up what is being written of a partition that leaves.
func (o *ownership) cancelSaving(p *logicalPartition) {
	for _, s := range []*saving{p.saving, p.saveNext} {
		if s == nil {
			continue
		}
		if s.cancel != nil {
			s.cancel()
			o.abandoned = append(o.abandoned, s)
		}
		s.barrier.end(errPartitionLeft)
	}
	p.saving, p.saveNext = nil, nil
}

var errPartitionLeft = errors.New("columnar: the partition has left the member")

// takeSaved makes a stored snapshot the one that recovery starts from, counts it and
// calls the hook.
func (o *ownership) takeSaved(s *saving) {
	p := s.partition
	p.lastSnapshot = time.Now()
	told := s.saved
	if s.err != nil {
		told = s.info
		p.dirty = true
		p.saveFailures++
		o.stats.add(func(stats *RuntimeStats) { stats.SnapshotFailures++ })
	} else {
		p.snapshot, p.saveFailures = s.saved, 0
		o.stats.add(func(stats *RuntimeStats) {
			stats.Snapshots++
			stats.SnapshotBytes += s.saved.Bytes
			stats.SnapshotTime += s.took
		})
	}
	if s.unconfirmed != nil {
		o.reportError(s.unconfirmed)
	}
	if o.settings.hooks.Snapshot != nil {
		o.settings.hooks.Snapshot(told, s.took, s.err)
	}
	s.barrier.end(s.err)
}

// end takes the end of one save; a save outside barriers has none to tell.
func (b *firedBarrier) end(err error) {
	if b != nil {
		b.waiting--
		b.failure = firstError(b.failure, err)
	}
}
