// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"cmp"
	"slices"
)

// bound keeps what waits for a barrier or a replay within limits. limit is the
// offset below which records of a topic may run. Records that wait are taken from
// the consumer up to half of the limit in bytes, so that they run at once when the
// barrier has fired; beyond it, topics whose records would wait are paused where
// the consumer can be, and what is too much is given back to it.
func (o *ownership) bound(limit func(*logicalPartition, *topicProgress) int64) {
	var waiting, queued []*topicProgress
	var resume []*topicProgress
	held, records := int64(0), 0
	for _, p := range o.ordered() {
		for _, progress := range p.inOrder() {
			if len(progress.queue) > 0 {
				queued = append(queued, progress)
				held += progress.queueBytes()
				records += len(progress.queue)
			}
			switch waits := p.owned && progress.waits(p, limit); {
			case waits && !progress.paused:
				waiting = append(waiting, progress)
			case !waits && progress.paused:
				resume = append(resume, progress)
			}
		}
	}
	o.unpause(resume...)
	if held > o.settings.heldBytes/2 {
		o.setPaused(waiting, true)
	}
	slices.SortStableFunc(queued, func(a, b *topicProgress) int { return cmp.Compare(b.queueBytes(), a.queueBytes()) })
	for _, progress := range queued {
		if held <= o.settings.heldBytes {
			break
		}
		held -= progress.queueBytes()
		records -= len(progress.queue)
		o.giveBack(progress)
	}
	o.stats.add(func(s *RuntimeStats) { s.HeldBytes, s.HeldRecords = held, records })
}

// waits reports whether nothing that the topic could deliver to its partition would
// run.
func (p *topicProgress) waits(partition *logicalPartition, limit func(*logicalPartition, *topicProgress) int64) bool {
	if partition.replay == nil {
		return p.known && p.delivered >= limit(partition, p)
	}
	if len(p.queue) == 0 {
		return false
	}
	if len(partition.replay.rounds) > 0 {
		for _, one := range partition.replay.rounds[0].Ranges {
			if one.Topic == p.Topic {
				return p.delivered >= one.End
			}
		}
	}
	return p.reach(0) >= partition.replay.endOfReplay(p.TopicPartition)
}
