// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"slices"
)

// ownership is what a member of the group has: its partitions with their phases,
// positions and state. It does not know rounds.
type ownership struct {
	*environment

	partitions map[int]*logicalPartition
	assigned   bool // some partition has ever been assigned
	restored   map[int]restoredPartition
	rewinds    []*topicProgress // whose restored offsets are still to be committed
	counts     map[string]int   // partitions of the topics with state, where known
	recount    bool             // they may have changed
	abandoned  []*saving        // that were cancelled and may not have ended
}

func newOwnership(e *environment) *ownership {
	return &ownership{environment: e, partitions: map[int]*logicalPartition{}, restored: map[int]restoredPartition{}}
}

// restoredPartition is a restore that waits for the partition to be assigned: by
// the assignment that follows it, and while nobody has committed since.
type restoredPartition struct {
	epoch     int64
	info      SnapshotInfo // where the store knows positions
	offsets   map[TopicPartition]int64
	committed map[TopicPartition]int64 // at the restore; nil where the consumer cannot tell
}

// ordered returns the logical partitions by ascending number.
func (o *ownership) ordered() []*logicalPartition {
	ordered := make([]*logicalPartition, 0, len(o.partitions))
	for _, number := range slices.Sorted(maps.Keys(o.partitions)) {
		ordered = append(ordered, o.partitions[number])
	}
	return ordered
}

// partition returns what is known of a partition number, which may be nothing
// yet.
func (o *ownership) partition(number int) *logicalPartition {
	p := o.partitions[number]
	if p == nil {
		p = newLogicalPartition(number)
		o.partitions[number] = p
	}
	return p
}

// progress returns the progress of a topic partition that the runner has, or nil.
func (o *ownership) progress(tp TopicPartition) *topicProgress {
	if p := o.partitions[tp.Partition]; p != nil {
		return p.topics[tp.Topic]
	}
	return nil
}

func (o *ownership) ownsAny() bool {
	for _, p := range o.partitions {
		if p.owned {
			return true
		}
	}
	return false
}

// involved reports whether a partition counts for barriers: an owned one, or
// before the first assignment any.
func (o *ownership) involved(p *logicalPartition) bool { return p.owned || !o.assigned }

// step is a change of the phase of a partition.
type step struct {
	to       phase
	recovery *recovery // of a partition that is arriving
	replay   *replay   // of one that is replaying
	places   []place
}

// place is where a topic of a partition stands from a step on.
type place struct {
	*topicProgress
	offset int64
	empty  bool // the state has no record of the topic
	there  bool // the consumer delivers from the offset by itself
}

// enter takes a step: it is the one way from phase to phase. What was delivered
// and not processed of a placed topic is forgotten and the consumer sought; a
// partition that arrives or leaves is not paused.
func (o *ownership) enter(p *logicalPartition, s step) error {
	if err := p.checkPhase(s.to); err != nil {
		return err
	}
	p.phase = s.to
	switch s.to {
	case arriving:
		p.recovery, p.replay = s.recovery, nil
	case replaying:
		p.recovery, p.replay = nil, s.replay
	case live, leaving:
		p.recovery, p.replay = nil, nil
	}
	for _, place := range s.places {
		if place.empty {
			place.begin(place.offset)
		} else {
			place.stand(place.offset)
		}
		place.clear()
		if !place.there {
			o.seek(place.topicProgress, place.offset)
		}
	}
	if s.to == arriving || s.to == leaving {
		o.unpause(p.inOrder()...)
	}
	return nil
}

// seek moves the consumer to an offset of a topic partition, the next to be
// delivered. Where that fails, it is tried again before the next poll, and nothing
// of the partition counts until it has worked.
func (o *ownership) seek(progress *topicProgress, offset int64) {
	progress.delivered = offset
	progress.sought = true
	progress.misplaced = o.consumer.Seek(progress.TopicPartition, offset) != nil
}

// rewind forgets what was delivered of a topic and not processed, and seeks the
// consumer back to it. With force, a consumer is sought that seems to be there
// already.
func (o *ownership) rewind(progress *topicProgress, force bool) {
	if !progress.known || progress.misplaced {
		return
	}
	if !force && len(progress.queue) == 0 && progress.idle() {
		return
	}
	progress.clear()
	o.seek(progress, progress.processed)
}

// giveBack drops what is queued of a topic, for the consumer to deliver again.
func (o *ownership) giveBack(progress *topicProgress) {
	first := progress.queue[0].Offset
	progress.clear()
	o.seek(progress, first)
}

// seekMisplaced seeks what could not be sought before.
func (o *ownership) seekMisplaced() error {
	var errs []error
	for _, p := range o.ordered() {
		for _, progress := range p.inOrder() {
			if !progress.misplaced {
				continue
			}
			progress.clear()
			progress.delivered = progress.processed
			if err := o.consumer.Seek(progress.TopicPartition, progress.processed); err != nil {
				errs = append(errs, textPrefix.Wrap(err, "seeking %s/%d to %d", progress.Topic, progress.Partition, progress.processed))
				continue
			}
			progress.misplaced = false
		}
	}
	return errors.Join(errs...)
}

// setPaused makes the consumer pause or continue topics, where it can.
func (o *ownership) setPaused(topics []*topicProgress, paused bool) {
	if o.pauser == nil || len(topics) == 0 {
		return
	}
	partitions := make([]TopicPartition, len(topics))
	for i, progress := range topics {
		partitions[i], progress.paused = progress.TopicPartition, paused
	}
	if paused {
		o.pauser.Pause(partitions)
	} else {
		o.pauser.Resume(partitions)
	}
}

// unpause continues those of topics that are paused. A consumer keeps a pause
// beyond the assignment, so it ends with the phase that asked for it.
func (o *ownership) unpause(topics ...*topicProgress) {
	o.setPaused(slices.DeleteFunc(topics, func(progress *topicProgress) bool { return !progress.paused }), false)
}
