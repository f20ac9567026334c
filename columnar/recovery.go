// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// recovery is what is left to do before an assigned partition can run.
type recovery struct {
	started  time.Time
	resolved bool // the committed offsets are read and a snapshot is chosen
	again    bool // the partition has run before, and the consumer stands anywhere

	committed map[TopicPartition]int64 // nil where the consumer cannot tell
	noted     int64                    // journaled rounds that are committed; -1 where nothing tells
	stored    []SnapshotInfo           // everything in the store, the newest first
	usable    []SnapshotInfo           // what is left to try of it
	chosen    *SnapshotInfo            // nil to start with empty state
	cause     error                    // why a snapshot could not be used
}

// replay is history of a partition that is processed again.
type replay struct {
	started  time.Time
	snapshot *SnapshotInfo
	// until is where the topics go live; topics that are there already are left
	// out.
	until map[TopicPartition]int64
	// rounds are the journaled rounds that are left, in order.
	rounds  []*journalRound
	records int64 // processed so far
	// transactional says that the last journaled round was: then no record is
	// left behind it.
	transactional bool
}

// resolve reads the committed offsets of the partitions that are to be
// recovered, chooses a snapshot for each, and seeks the consumer to where it
// stands. It reads no state.
func (r *GroupRunner) resolve(ctx context.Context) error {
	var waiting []*logicalPartition
	var partitions []TopicPartition
	for _, p := range r.ordered() {
		if p.recovery != nil && !p.recovery.resolved {
			waiting = append(waiting, p)
			partitions = append(partitions, p.partitions()...)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	var committed map[TopicPartition]int64
	if r.committed != nil {
		var err error
		if committed, err = r.committed.Committed(ctx, partitions); err != nil {
			return textPrefix.Wrap(err, "committed offsets")
		}
		if committed == nil {
			committed = map[TopicPartition]int64{}
		}
	}
	var notes map[TopicPartition]string
	if r.noter != nil && r.journal != nil && r.shape.stateful {
		var err error
		if notes, err = r.noter.CommittedNotes(ctx, partitions); err != nil {
			return textPrefix.Wrap(err, "notes of committed offsets")
		}
	}
	var errs []error
	for _, p := range waiting {
		p.recovery.noted = notedRounds(notes, p)
		errs = append(errs, r.resolvePartition(ctx, p, committed))
	}
	return errors.Join(errs...)
}

func (r *GroupRunner) resolvePartition(ctx context.Context, p *logicalPartition, committed map[TopicPartition]int64) error {
	recovery := p.recovery
	if committed != nil {
		recovery.committed = map[TopicPartition]int64{}
	}
	for _, progress := range p.topics {
		offset, ok := committed[progress.TopicPartition]
		if !ok {
			continue
		}
		recovery.committed[progress.TopicPartition] = offset
		progress.commit(offset)
		if !progress.known || recovery.again {
			progress.place(offset)
		}
		if recovery.again {
			r.seek(progress)
		}
	}
	if restored, ok := r.restored[p.number]; ok {
		return r.takeRestored(ctx, p, restored)
	}
	if !r.shape.stateful || r.snapshots == nil {
		recovery.resolved = true
		return nil
	}
	if err := r.claim(ctx, p); err != nil {
		return err
	}
	stored, err := r.snapshots.Snapshots(ctx, p.number)
	if err != nil {
		return err
	}
	recovery.stored = stored
	if err := r.sift(ctx, p); err != nil {
		return err
	}
	if err := r.choose(ctx, p); err != nil {
		return err
	}
	recovery.resolved = true
	return nil
}

// sift keeps the snapshots that are not ahead of the group.
func (r *GroupRunner) sift(ctx context.Context, p *logicalPartition) error {
	recovery := p.recovery
	recovery.usable = nil
	for _, info := range recovery.stored {
		if info.Damage != nil {
			if err := r.passOver(info.Damage); err != nil {
				return err
			}
			recovery.cause = firstError(recovery.cause, info.Damage)
			continue
		}
		if len(info.Positions) == 0 || info.Abandoned {
			continue
		}
		if recovery.committed == nil {
			if info.Confirmed {
				recovery.usable = append(recovery.usable, info)
			}
			continue
		}
		if r.reachable(info, recovery.committed) {
			recovery.usable = append(recovery.usable, info)
		}
	}
	if len(recovery.usable) == 0 || r.ranges == nil {
		return nil
	}
	starts, err := r.ranges.StartOffsets(ctx, p.partitions())
	if err != nil {
		return textPrefix.Wrap(err, "start offsets")
	}
	recovery.usable = slices.DeleteFunc(recovery.usable, func(info SnapshotInfo) bool {
		for tp, position := range info.Positions {
			if start := starts[tp]; position < start && position < recovery.committed[tp] {
				recovery.cause = firstError(recovery.cause, fmt.Errorf(
					"records of %s/%d from offset %d were deleted: the log starts at %d", tp.Topic, tp.Partition, position, start))
				return true
			}
		}
		return false
	})
	return nil
}

// reachable reports whether the group has committed everything that a snapshot
// contains. A topic without a commit has had no record in a committed round, if
// another topic of the partition has a commit.
func (r *GroupRunner) reachable(info SnapshotInfo, committed map[TopicPartition]int64) bool {
	committedAny := false
	for tp, position := range info.Positions {
		offset, ok := committed[tp]
		if ok && position > offset {
			return false
		}
		committedAny = committedAny || ok
	}
	return committedAny
}

// passOver reports a damaged snapshot, which is an error in strict mode.
func (r *GroupRunner) passOver(damage error) error {
	if r.settings.strictSnapshots {
		return damage
	}
	r.stats.add(func(s *RuntimeStats) { s.DamagedSnapshots++ })
	r.settings.logger.Error("damaged snapshot passed over", "error", damage)
	if r.settings.hooks.Damage != nil {
		r.settings.hooks.Damage(damage)
	}
	return nil
}

// choose takes the newest snapshot that is left, or what is allowed where there
// is none, and seeks the consumer to it.
func (r *GroupRunner) choose(ctx context.Context, p *logicalPartition) error {
	recovery := p.recovery
	if len(recovery.usable) > 0 {
		chosen := recovery.usable[0]
		recovery.usable, recovery.chosen = recovery.usable[1:], &chosen
		return r.seekTo(ctx, p, chosen.Positions)
	}
	recovery.chosen = nil
	fresh := len(recovery.committed) == 0
	if fresh && !slices.ContainsFunc(recovery.stored, func(info SnapshotInfo) bool { return info.Confirmed && !info.Abandoned }) {
		return nil
	}
	switch r.settings.missingState {
	case MissingStateEmpty:
		return nil
	case MissingStateRebuild, MissingStateRebuildAvailable:
		return r.seekToStart(ctx, p)
	}
	return r.missingState(p, recovery.cause)
}

func (r *GroupRunner) missingState(p *logicalPartition, cause error) error {
	return &MissingStateError{
		Partition: p.number, Committed: p.recovery.committed, Available: p.recovery.stored, Cause: cause,
	}
}

// seekTo places the topics of a partition at positions. A committed topic that
// they do not name has had no record by then, so its history begins with its
// log.
func (r *GroupRunner) seekTo(ctx context.Context, p *logicalPartition, positions map[TopicPartition]int64) error {
	for _, progress := range p.inOrder() {
		position, ok := positions[progress.TopicPartition]
		if !ok {
			if !progress.hasCommitted {
				continue
			}
			starts, err := r.startOffsets(ctx, []TopicPartition{progress.TopicPartition})
			if err != nil {
				return err
			}
			position = min(starts[progress.TopicPartition], progress.committed)
		}
		progress.place(position)
		if ok {
			// The position of a snapshot lies behind a record, or at a cut.
			progress.last = position - 1
		}
		r.seek(progress)
	}
	return nil
}

// seekToStart places a partition at the start of its logs.
func (r *GroupRunner) seekToStart(ctx context.Context, p *logicalPartition) error {
	if r.ranges == nil {
		return r.missingState(p, errors.New("the consumer cannot tell where the log starts, to rebuild the state from there"))
	}
	starts, err := r.startOffsets(ctx, p.partitions())
	if err != nil {
		return err
	}
	for _, progress := range p.inOrder() {
		start := starts[progress.TopicPartition]
		if start > 0 && r.settings.missingState == MissingStateRebuild {
			return r.missingState(p, fmt.Errorf("the log of %s/%d starts at offset %d: the records before it cannot be processed again",
				progress.Topic, progress.Partition, start))
		}
		if progress.hasCommitted {
			progress.place(min(start, progress.committed))
			r.seek(progress)
		}
	}
	return nil
}

// startOffsets asks for the first offsets, and takes 0 where the consumer cannot
// tell.
func (r *GroupRunner) startOffsets(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	if r.ranges == nil {
		return nil, nil
	}
	starts, err := r.ranges.StartOffsets(ctx, partitions)
	if err != nil {
		return nil, textPrefix.Wrap(err, "start offsets")
	}
	return starts, nil
}

// seek moves the consumer to where a topic partition stands. Where that fails,
// it is tried again before the next poll, and nothing of the partition counts
// until it has worked.
func (r *GroupRunner) seek(progress *topicProgress) {
	progress.sought = true
	progress.misplaced = r.consumer.Seek(progress.TopicPartition, progress.processed) != nil
}

// seekMisplaced seeks what could not be sought before.
func (r *GroupRunner) seekMisplaced() error {
	var errs []error
	for _, p := range r.ordered() {
		for _, progress := range p.inOrder() {
			if !progress.misplaced {
				continue
			}
			progress.clear()
			progress.delivered = progress.processed
			if err := r.consumer.Seek(progress.TopicPartition, progress.processed); err != nil {
				errs = append(errs, textPrefix.Wrap(err, "seeking %s/%d to %d", progress.Topic, progress.Partition, progress.processed))
				continue
			}
			progress.misplaced = false
		}
	}
	return errors.Join(errs...)
}

// recoverPartitions loads the state of all partitions that wait for it. Those
// that fail keep waiting.
func (r *GroupRunner) recoverPartitions(ctx context.Context) error {
	if err := r.resolve(ctx); err != nil {
		return err
	}
	for {
		var waiting []*logicalPartition
		for _, p := range r.ordered() {
			if p.recovery != nil {
				waiting = append(waiting, p)
			}
		}
		again, err := r.loadAll(ctx, waiting)
		if err != nil || !again {
			return err
		}
	}
}

// loadAll loads partitions, in parallel where the store is made for it. It
// reports whether some of them have another snapshot to try.
func (r *GroupRunner) loadAll(ctx context.Context, waiting []*logicalPartition) (again bool, err error) {
	failures := make([]error, len(waiting))
	loaded := make([]*replay, len(waiting))
	if r.snapshots == nil || !r.shape.stateful {
		for i, p := range waiting {
			failures[i] = r.loadPlain(ctx, p)
		}
	} else {
		var loads errgroup.Group
		loads.SetLimit(r.settings.parallelism)
		for i, p := range waiting {
			loads.Go(func() error {
				loaded[i], failures[i] = r.load(ctx, p)
				return nil
			})
		}
		_ = loads.Wait()
	}
	var errs []error
	for i, p := range waiting {
		var unusable *unusableSnapshotError
		switch {
		case loaded[i] != nil:
			r.begin(p, loaded[i])
		case errors.As(failures[i], &unusable):
			p.recovery.cause = firstError(p.recovery.cause, unusable.cause)
			if err := firstError(r.passOver(unusable.cause), r.choose(ctx, p)); err != nil {
				p.recovery.resolved = false
				errs = append(errs, err)
			} else {
				again = true
			}
		default:
			errs = append(errs, failures[i])
		}
	}
	return again, errors.Join(errs...)
}

// begin makes a loaded partition repeat its history, if there is any.
func (r *GroupRunner) begin(p *logicalPartition, replay *replay) {
	committed := p.recovery.committed
	p.recovery, p.replay = nil, replay
	// A topic without a record by the time of the snapshot begins where the
	// journal saw it first.
	seen := map[string]bool{}
	for _, round := range replay.rounds {
		for _, one := range round.ranges {
			_, placed := replay.snapshot.Positions[TopicPartition{one.topic, p.number}]
			if progress := p.topics[one.topic]; progress != nil && !placed && !seen[one.topic] {
				progress.place(one.start)
				r.seek(progress)
			}
			seen[one.topic] = true
		}
	}
	if len(replay.until) == 0 && len(replay.rounds) == 0 {
		r.goLive(p, committed)
	}
}

// unusableSnapshotError says that a snapshot cannot be used and an older one may
// be.
type unusableSnapshotError struct{ cause error }

func (e *unusableSnapshotError) Error() string { return e.cause.Error() }

// load restores the chosen state of a partition, and returns what was committed
// behind it.
func (r *GroupRunner) load(ctx context.Context, p *logicalPartition) (*replay, error) {
	recovery := p.recovery
	chosen := SnapshotInfo{Partition: p.number, Epoch: NoEpoch}
	var state map[string][]byte
	if recovery.chosen != nil {
		chosen = *recovery.chosen
		var err error
		if state, err = r.snapshots.LoadSnapshot(ctx, chosen); err != nil {
			return nil, asUnusable(err)
		}
		if err := r.checkSnapshot(p.number, state, chosen); err != nil {
			return nil, err
		}
	}
	until := r.uncovered(p)
	rounds, stale, err := r.history(ctx, p, chosen, len(until) > 0)
	if err != nil {
		return nil, err
	}
	if err := r.restoreState(p.number, state); err != nil {
		return nil, err
	}
	if err := r.snapshots.Abandon(ctx, p.number, p.generation, chosen.Sequence); err != nil {
		return nil, err
	}
	p.snapshot, p.lastSnapshot, p.dirty = chosen, time.Now(), false
	p.round, p.journalStale = chosen.Round, stale
	p.lastClosed = r.lastClosedEpoch(recovery)
	return &replay{started: recovery.started, until: until, rounds: rounds, snapshot: recovery.chosen}, nil
}

// uncovered returns the committed offsets that the placed topics have not
// reached.
func (r *GroupRunner) uncovered(p *logicalPartition) map[TopicPartition]int64 {
	until := map[TopicPartition]int64{}
	for tp, offset := range p.recovery.committed {
		if p.topics[tp.Topic].processed < offset {
			until[tp] = offset
		}
	}
	return until
}

// restoreState replaces the state of a partition. Empty state is a partition
// that has not begun.
func (r *GroupRunner) restoreState(partition int, state map[string][]byte) error {
	r.topology.ReleasePartition(partition)
	if len(state) == 0 {
		return nil
	}
	if err := r.topology.RestorePartition(partition, state); err != nil {
		return textPrefix.Wrap(err, "restoring partition %d", partition)
	}
	return nil
}

// loadPlain restores what a store without positions holds. Without anything
// there, and with commits that state was built for, the log may be processed
// again.
func (r *GroupRunner) loadPlain(ctx context.Context, p *logicalPartition) error {
	if r.snapshots != nil {
		p.recovery = nil
		return nil
	}
	stored, err := r.settings.store.Load(p.number, NoEpoch)
	if err != nil {
		return err
	}
	state, positions, cause := splitPlainState(stored)
	missing := len(state) == 0 && r.shape.stateful && len(p.recovery.committed) > 0
	if positions != nil && p.recovery.committed != nil {
		cause = stray(positions, p.recovery.committed, p)
		missing = false
	}
	if cause != nil {
		state, missing = nil, true
	}
	rebuild := missing && r.settings.missingState != MissingStateEmpty
	switch {
	case missing && r.settings.missingState == MissingStateFail:
		return r.missingState(p, cause)
	case rebuild:
		if err := r.seekToStart(ctx, p); err != nil {
			return err
		}
	}
	if err := r.restoreState(p.number, state); err != nil {
		return err
	}
	if rebuild {
		r.begin(p, &replay{started: p.recovery.started, until: r.uncovered(p)})
	}
	p.recovery, p.dirty = nil, false
	return nil
}

func asUnusable(err error) error {
	var damaged *DamagedSnapshotError
	if errors.As(err, &damaged) {
		return &unusableSnapshotError{err}
	}
	return err
}

// checkSnapshot fails when a snapshot and the topology do not have the same
// nodes with the same configuration, beyond what the options allow.
func (r *GroupRunner) checkSnapshot(partition int, state map[string][]byte, info SnapshotInfo) error {
	for topic, count := range r.counts {
		if before, ok := info.PartitionCounts[topic]; ok && before != count && !r.settings.allowGrowth {
			return &PartitionCountError{Counts: r.counts, Before: info.PartitionCounts}
		}
	}
	if len(state) == 0 {
		return nil
	}
	err := r.topology.checkSnapshot(partition, state, info.Layout)
	var mismatch *SnapshotMismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	if r.settings.allowUnmapped {
		mismatch.Unmapped = nil
	}
	if r.settings.allowUncovered {
		mismatch.Uncovered = nil
	}
	if mismatch.empty() {
		return nil
	}
	return mismatch
}

// lastClosedEpoch returns the newest barrier whose snapshot is stored and not
// ahead of the group.
func (r *GroupRunner) lastClosedEpoch(recovery *recovery) int64 {
	epoch := NoEpoch
	for _, info := range recovery.stored {
		if info.Group != r.settings.barrier || info.Damage != nil || info.Abandoned || info.Epoch == NoEpoch {
			continue
		}
		if (recovery.committed == nil && info.Confirmed) || r.reachable(info, recovery.committed) {
			epoch = max(epoch, info.Epoch)
		}
	}
	return epoch
}

// goLive ends a replay.
func (r *GroupRunner) goLive(p *logicalPartition, committed map[TopicPartition]int64) {
	replay := p.replay
	p.replay = nil
	elapsed := time.Since(replay.started)
	if replay.snapshot != nil {
		r.stats.add(func(s *RuntimeStats) { s.Recoveries++ })
	}
	r.settings.logger.Info("partition recovered", "partition", p.number, "replayed", replay.records, "duration", elapsed)
	if r.settings.hooks.Recovery != nil {
		r.settings.hooks.Recovery(RecoveryInfo{
			Partition: p.number, Snapshot: replay.snapshot, Committed: maps.Clone(committed),
			Replayed: replay.records, Duration: elapsed,
		})
	}
}
