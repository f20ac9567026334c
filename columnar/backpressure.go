// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"slices"
)

// bound keeps what waits for a barrier or a replay within limits: partitions
// that wait are paused where the consumer can be, and what is too much is given
// back to it.
func (r *GroupRunner) bound() {
	var pause, resume []TopicPartition
	var queued []*topicProgress
	held, records := int64(0), 0
	for _, p := range r.ordered() {
		for _, progress := range p.inOrder() {
			if len(progress.queue) > 0 {
				queued = append(queued, progress)
				held += progress.queueBytes()
				records += len(progress.queue)
			}
			waits := r.waits(p, progress)
			if waits == progress.paused || r.pauser == nil || !p.owned {
				continue
			}
			progress.paused = waits
			if waits {
				pause = append(pause, progress.TopicPartition)
			} else {
				resume = append(resume, progress.TopicPartition)
			}
		}
	}
	if len(resume) > 0 {
		r.pauser.Resume(resume)
	}
	if len(pause) > 0 {
		r.pauser.Pause(pause)
	}
	slices.SortStableFunc(queued, func(a, b *topicProgress) int { return cmp.Compare(b.queueBytes(), a.queueBytes()) })
	for _, progress := range queued {
		if held <= r.settings.heldBytes {
			break
		}
		held -= progress.queueBytes()
		records -= len(progress.queue)
		r.giveBack(progress)
	}
	r.stats.add(func(s *RuntimeStats) { s.HeldBytes, s.HeldRecords = held, records })
}

// waits reports whether nothing that a topic could deliver would run.
func (r *GroupRunner) waits(p *logicalPartition, progress *topicProgress) bool {
	if p.replay == nil {
		return progress.known && progress.delivered >= r.alignment.limit(p, progress)
	}
	if len(progress.queue) == 0 {
		return false
	}
	if len(p.replay.rounds) > 0 {
		for _, one := range p.replay.rounds[0].ranges {
			if one.topic == progress.Topic {
				return progress.delivered >= one.end
			}
		}
	}
	return progress.reach(0) >= p.replay.endOfReplay(progress.TopicPartition)
}

// giveBack drops what is queued of a topic, for the consumer to deliver again.
func (r *GroupRunner) giveBack(progress *topicProgress) {
	first := progress.queue[0].Offset
	progress.clear()
	progress.delivered = first
	progress.sought = true
	progress.misplaced = r.consumer.Seek(progress.TopicPartition, first) != nil
}
