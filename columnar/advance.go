// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
)

// advanceAll is what a round that advances time does instead of polling.
func (r *GroupRunner) advanceAll(rd *round) error {
	rd.metadata = r.consumer.GroupMetadata()
	if err := r.takeStand(rd.ctx); err != nil {
		return err
	}
	for _, p := range r.ordered() {
		if p.live() && r.involved(p) && !p.waits() && (rd.only == nil || rd.only == p) {
			rd.work = append(rd.work, &partitionWork{logicalPartition: p})
		}
	}
	for _, work := range rd.work {
		outputs, err := r.topology.advancePartition(work.number, *rd.advance)
		if err != nil {
			return err
		}
		work.metrics.OutputRecords = int64(len(outputs))
		rd.outputs = append(rd.outputs, outputs...)
	}
	rd.offsets = map[TopicPartition]int64{}
	if rd.producer != nil && len(rd.outputs) > 0 {
		r.restate(rd)
	}
	return r.finish(rd)
}

// advanceIdle moves the stream time of partitions that the polls so far have
// found idle, each in a round of its own ahead of next.
func (r *GroupRunner) advanceIdle(next *round) error {
	if r.settings.idleTimeout == 0 || next.advance != nil || r.terminal != nil || r.signal.raised() {
		return nil
	}
	for _, p := range r.ordered() {
		to, ok := r.idleTime(p)
		if !ok {
			continue
		}
		p.idle.tried = r.polled
		if !r.readToTheEnd(next.ctx, p) {
			continue
		}
		rd := &round{poll: next.poll, ctx: next.ctx, producer: next.producer, started: time.Now(), attempt: r.advanceAll, advance: &to, only: p}
		err := r.execute(rd)
		r.report(rd, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// idleTime returns the stream time that a partition has got to by being idle, as
// of the latest poll.
func (r *GroupRunner) idleTime(p *logicalPartition) (to int64, ok bool) {
	clock, silent := &p.idle, time.Duration(0)
	if !p.live() || !r.involved(p) {
		return 0, false
	}
	stopped := p.waits()
	for _, progress := range p.topics {
		stopped = stopped || progress.misplaced || progress.paused
	}
	if stopped || clock.since.IsZero() {
		clock.since, clock.known = r.polled, false
	}
	if silent = r.polled.Sub(clock.since); silent < r.settings.idleTimeout || r.polled.Sub(clock.tried) < r.settings.idleTimeout {
		return 0, false
	}
	if !clock.known {
		clock.from, clock.known = r.topology.streamTime(p.number), true
		if clock.from == eventtime.None && clock.come {
			clock.from = clock.latest
		}
	}
	if clock.from == eventtime.None {
		return 0, false
	}
	to = eventtime.Plus(clock.from, silent.Milliseconds())
	return to, r.topology.awaitsTime(p.number, to)
}

// readToTheEnd reports whether the consumer has delivered what a partition
// holds: one that it has not is slow, not idle.
func (r *GroupRunner) readToTheEnd(ctx context.Context, p *logicalPartition) bool {
	if r.ranges == nil || r.positions == nil {
		return true
	}
	ends, err := r.ranges.EndOffsets(ctx, p.partitions())
	if err != nil {
		// Nobody can tell, so nothing is closed.
		r.reportError(textPrefix.Wrap(err, "end offsets"))
		return false
	}
	for _, progress := range p.topics {
		if end, ok := ends[progress.TopicPartition]; !ok || end > progress.delivered {
			return false
		}
	}
	return true
}

// streamTime returns the latest event time that the windows and joins of a
// logical partition have seen, or eventtime.None.
func (b *BuiltTopology) streamTime(partition int) int64 {
	latest := int64(eventtime.None)
	b.eachInstance(partition, func(instance *instance) {
		switch {
		case instance.join != nil:
			latest = max(latest, instance.join.StreamTime())
		case instance.operator != nil && instance.operator.dropsLateRows():
			g, _ := instance.operator.groupBy()
			latest = max(latest, g.StreamTime())
		}
	})
	return latest
}

// awaitsTime reports whether an advance to timestamp makes a logical partition
// emit windows, or is for a processor to judge.
func (b *BuiltTopology) awaitsTime(partition int, timestamp int64) bool {
	awaits := false
	b.eachInstance(partition, func(instance *instance) {
		if instance.operator != nil && instance.operator.dropsLateRows() {
			g, _ := instance.operator.groupBy()
			awaits = awaits || g.Awaits(timestamp)
		}
		_, ok := instance.processor.(TimeAdvancer)
		awaits = awaits || ok
	})
	return awaits
}

// eachInstance calls visit for the instances of a logical partition, if it
// exists.
func (b *BuiltTopology) eachInstance(partition int, visit func(*instance)) {
	p := b.lockPartition(partition, false)
	if p == nil {
		return
	}
	defer p.mu.Unlock()
	for i := range p.nodes {
		visit(&p.nodes[i])
	}
}
