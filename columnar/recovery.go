// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// resolve reads the committed offsets of the partitions that are arriving, chooses
// a snapshot for each, and places the partition there. It reads no state.
func (o *ownership) resolve(ctx context.Context) error {
	var waiting []*logicalPartition
	var partitions []TopicPartition
	for _, p := range o.ordered() {
		if p.phase == arriving {
			waiting = append(waiting, p)
			partitions = append(partitions, p.partitions()...)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	var committed map[TopicPartition]int64
	if o.committed != nil {
		var err error
		if committed, err = o.committed.Committed(ctx, partitions); err != nil {
			return textPrefix.Wrap(err, "committed offsets")
		}
		if committed == nil {
			committed = map[TopicPartition]int64{}
		}
	}
	var notes map[TopicPartition]string
	if o.noter != nil && o.journal != nil && o.shape.stateful {
		var err error
		if notes, err = o.noter.CommittedNotes(ctx, partitions); err != nil {
			return textPrefix.Wrap(err, "notes of committed offsets")
		}
	}
	var errs []error
	for _, p := range waiting {
		p.recovery.noted = notedRounds(notes, p)
		errs = append(errs, o.resolvePartition(ctx, p, committed))
	}
	return errors.Join(errs...)
}

func (o *ownership) resolvePartition(ctx context.Context, p *logicalPartition, committed map[TopicPartition]int64) error {
	recovery := p.recovery
	if committed != nil {
		recovery.committed = map[TopicPartition]int64{}
	}
	var places []place
	for _, progress := range p.inOrder() {
		offset, ok := committed[progress.TopicPartition]
		if !ok {
			continue
		}
		recovery.committed[progress.TopicPartition] = offset
		progress.commit(offset)
		if !progress.known || recovery.again {
			places = append(places, place{topicProgress: progress, offset: offset, empty: !o.shape.stateful, there: !recovery.again})
		}
	}
	if restored, ok := o.restored[p.number]; ok {
		taken, err := o.takeRestored(ctx, p, restored)
		if taken || err != nil {
			return err
		}
	}
	if !o.keepsState() {
		return o.enter(p, step{to: recovering, places: places})
	}
	if err := o.awaitSaved(ctx, p); err != nil {
		return err
	}
	if err := o.claim(ctx, p); err != nil {
		return err
	}
	stored, err := o.snapshots.Snapshots(ctx, p.number)
	if err != nil {
		return err
	}
	recovery.stored = stored
	if err := o.sift(ctx, p); err != nil {
		return err
	}
	chosen, err := o.choose(ctx, p)
	if err != nil {
		return err
	}
	places = slices.DeleteFunc(places, func(at place) bool {
		return slices.ContainsFunc(chosen, func(better place) bool { return better.topicProgress == at.topicProgress })
	})
	return o.enter(p, step{to: recovering, places: append(places, chosen...)})
}

// sift keeps the snapshots that are not ahead of the group.
func (o *ownership) sift(ctx context.Context, p *logicalPartition) error {
	recovery := p.recovery
	recovery.usable = nil
	for _, info := range recovery.stored {
		if info.Damage != nil {
			if err := o.passOver(info.Damage); err != nil {
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
		if o.reachable(info, recovery.committed) {
			recovery.usable = append(recovery.usable, info)
		}
	}
	if len(recovery.usable) == 0 || o.ranges == nil {
		return nil
	}
	starts, err := o.ranges.StartOffsets(ctx, p.partitions())
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
func (o *ownership) reachable(info SnapshotInfo, committed map[TopicPartition]int64) bool {
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
func (o *ownership) passOver(damage error) error {
	if o.settings.strictSnapshots {
		return damage
	}
	o.stats.add(func(s *RuntimeStats) { s.DamagedSnapshots++ })
	o.settings.logger.Error("damaged snapshot passed over", "error", damage)
	if o.settings.hooks.Damage != nil {
		o.settings.hooks.Damage(damage)
	}
	return nil
}

// choose selects the newest usable snapshot, or applies the missing-state policy
// where there is none, and returns where the topics then stand.
func (o *ownership) choose(ctx context.Context, p *logicalPartition) ([]place, error) {
	recovery := p.recovery
	if len(recovery.usable) > 0 {
		chosen := recovery.usable[0]
		recovery.usable, recovery.chosen = recovery.usable[1:], &chosen
		return o.placesAt(ctx, p, chosen.Positions)
	}
	recovery.chosen = nil
	fresh := len(recovery.committed) == 0
	if fresh && !slices.ContainsFunc(recovery.stored, func(info SnapshotInfo) bool { return info.Confirmed && !info.Abandoned }) {
		return nil, nil
	}
	switch o.settings.missingState {
	case MissingStateEmpty:
		return nil, nil
	case MissingStateRebuild, MissingStateRebuildAvailable:
		return o.placesAtStart(ctx, p)
	}
	return nil, o.missingState(p, recovery.cause)
}

func (o *ownership) missingState(p *logicalPartition, cause error) error {
	return &MissingStateError{
		Partition: p.number, Committed: p.recovery.committed, Available: p.recovery.stored, Cause: cause,
	}
}

// placesAt returns the places of a partition whose state stands at positions. A
// committed topic that they do not name has had no record by then, so its history
// begins with its log.
func (o *ownership) placesAt(ctx context.Context, p *logicalPartition, positions map[TopicPartition]int64) ([]place, error) {
	var places []place
	for _, progress := range p.inOrder() {
		if position, ok := positions[progress.TopicPartition]; ok {
			places = append(places, place{topicProgress: progress, offset: position})
			continue
		}
		if !progress.hasCommitted {
			continue
		}
		starts, err := o.startOffsets(ctx, []TopicPartition{progress.TopicPartition})
		if err != nil {
			return nil, err
		}
		start := min(starts[progress.TopicPartition], progress.committed)
		places = append(places, place{topicProgress: progress, offset: start, empty: true})
	}
	return places, nil
}

// placesAtStart returns the places of a partition that processes its logs from
// their start.
func (o *ownership) placesAtStart(ctx context.Context, p *logicalPartition) ([]place, error) {
	if o.ranges == nil {
		return nil, o.missingState(p, errors.New("the consumer cannot tell where the log starts, to rebuild the state from there"))
	}
	starts, err := o.startOffsets(ctx, p.partitions())
	if err != nil {
		return nil, err
	}
	var places []place
	for _, progress := range p.inOrder() {
		start := starts[progress.TopicPartition]
		if start > 0 && o.settings.missingState == MissingStateRebuild {
			return nil, o.missingState(p, fmt.Errorf("the log of %s/%d starts at offset %d: the records before it cannot be processed again",
				progress.Topic, progress.Partition, start))
		}
		if progress.hasCommitted {
			places = append(places, place{topicProgress: progress, offset: min(start, progress.committed), empty: true})
		}
	}
	return places, nil
}

// startOffsets asks for the first offsets, and takes 0 where the consumer cannot
// tell.
func (o *ownership) startOffsets(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	if o.ranges == nil {
		return nil, nil
	}
	starts, err := o.ranges.StartOffsets(ctx, partitions)
	if err != nil {
		return nil, textPrefix.Wrap(err, "start offsets")
	}
	return starts, nil
}

// recoverPartitions loads the state of all partitions that wait for it. Those
// that fail keep waiting.
func (o *ownership) recoverPartitions(ctx context.Context) error {
	if err := o.resolve(ctx); err != nil {
		return err
	}
	for {
		var waiting []*logicalPartition
		for _, p := range o.ordered() {
			if p.phase == recovering {
				waiting = append(waiting, p)
			}
		}
		again, err := o.loadAll(ctx, waiting)
		if err != nil || !again {
			return err
		}
	}
}

// loadAll loads partitions, in parallel where the store is made for it. It
// reports whether some of them have another snapshot to try.
func (o *ownership) loadAll(ctx context.Context, waiting []*logicalPartition) (again bool, err error) {
	failures := make([]error, len(waiting))
	loaded := make([]*replay, len(waiting))
	if !o.keepsState() {
		for i, p := range waiting {
			failures[i] = o.loadPlain(ctx, p)
		}
	} else {
		var loads errgroup.Group
		loads.SetLimit(o.settings.parallelism)
		for i, p := range waiting {
			loads.Go(func() error {
				loaded[i], failures[i] = o.load(ctx, p)
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
			errs = append(errs, o.beginReplay(p, loaded[i]))
		case errors.As(failures[i], &unusable):
			err := o.chooseOlder(ctx, p, unusable.cause)
			again = again || err == nil
			errs = append(errs, err)
		default:
			errs = append(errs, failures[i])
		}
	}
	return again, errors.Join(errs...)
}

// chooseOlder places a partition whose snapshot cannot be used at the next older
// one. Where there is none, the partition arrives anew.
func (o *ownership) chooseOlder(ctx context.Context, p *logicalPartition, cause error) error {
	p.recovery.cause = firstError(p.recovery.cause, cause)
	places, err := []place(nil), o.passOver(cause)
	if err == nil {
		places, err = o.choose(ctx, p)
	}
	if err != nil {
		return firstError(err, o.enter(p, step{to: arriving, recovery: p.recovery}))
	}
	return o.enter(p, step{to: recovering, places: places})
}

// load restores the chosen state of a partition, and returns what was committed
// behind it.
func (o *ownership) load(ctx context.Context, p *logicalPartition) (*replay, error) {
	recovery := p.recovery
	chosen := SnapshotInfo{Partition: p.number, Epoch: NoEpoch}
	var state *partitionState
	if recovery.chosen != nil {
		chosen = *recovery.chosen
		var err error
		if state, err = o.loadState(ctx, chosen); err != nil {
			return nil, asUnusable(err)
		}
	}
	until := o.uncovered(p)
	rounds, stale, err := o.history(ctx, p, chosen, len(until) > 0)
	if err != nil {
		return nil, err
	}
	if err := o.snapshots.Abandon(ctx, p.number, p.generation, chosen.Sequence); err != nil {
		return nil, err
	}
	o.topology.installPartition(p.number, state)
	p.snapshot, p.lastSnapshot, p.dirty = chosen, time.Now(), false
	p.round, p.journalStale = chosen.Round, stale
	p.lastClosed = o.lastClosedEpoch(recovery)
	return &replay{started: recovery.started, until: until, rounds: rounds, snapshot: recovery.chosen}, nil
}

// uncovered returns the committed offsets that the placed topics have not
// reached.
func (o *ownership) uncovered(p *logicalPartition) map[TopicPartition]int64 {
	until := map[TopicPartition]int64{}
	for tp, offset := range p.recovery.committed {
		if p.topics[tp.Topic].processed < offset {
			until[tp] = offset
		}
	}
	return until
}

// loadPlain restores what a store without positions holds. Without anything
// there, and with commits that state was built for, the log may be processed
// again.
func (o *ownership) loadPlain(ctx context.Context, p *logicalPartition) error {
	if o.snapshots != nil {
		return o.enter(p, step{to: live})
	}
	stored, err := o.settings.store.Load(p.number, NoEpoch)
	if err != nil {
		return err
	}
	state, positions, cause := splitPlainState(stored)
	missing := len(state) == 0 && o.shape.stateful && len(p.recovery.committed) > 0
	if positions != nil && p.recovery.committed != nil {
		cause = stray(positions, p.recovery.committed, p)
		missing = false
	}
	if cause != nil {
		state, missing = nil, true
	}
	if missing && o.settings.missingState == MissingStateFail {
		return o.missingState(p, cause)
	}
	prepared, err := o.topology.preparePartition(p.number, state)
	if err != nil {
		return textPrefix.Wrap(err, "restoring partition %d", p.number)
	}
	rebuild := missing && o.settings.missingState != MissingStateEmpty
	var places []place
	if rebuild {
		if places, err = o.placesAtStart(ctx, p); err != nil {
			return err
		}
	}
	o.topology.installPartition(p.number, prepared)
	for _, progress := range p.topics {
		progress.inherited = prepared != nil
	}
	p.dirty = false
	if !rebuild {
		return o.enter(p, step{to: live})
	}
	if err := o.enter(p, step{to: recovering, places: places}); err != nil {
		return err
	}
	return o.beginReplay(p, &replay{started: p.recovery.started, until: o.uncovered(p)})
}

// lastClosedEpoch returns the newest barrier whose snapshot is stored and not
// ahead of the group.
func (o *ownership) lastClosedEpoch(recovery *recovery) int64 {
	epoch := NoEpoch
	for _, info := range recovery.stored {
		if info.Group != o.settings.barrier || info.Damage != nil || info.Abandoned || info.Epoch == NoEpoch {
			continue
		}
		if (recovery.committed == nil && info.Confirmed) || o.reachable(info, recovery.committed) {
			epoch = max(epoch, info.Epoch)
		}
	}
	return epoch
}
