// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/barrierlog"
)

// alignment is what the runner knows about cuts.
type alignment struct {
	pending  *BarrierCut // that is being aligned on; nil for none
	adopted  time.Time
	cuts     []publishedCut           // above the last closed epochs, ascending
	readOnce bool                     // the cut reader has been read to its end
	hidden   map[TopicPartition]int64 // stable offsets that were reported

	announced announcedCut
	unwatch   func() // ends following the barrier topic; nil where it is not followed

	// After a cut was abandoned, none is taken up before resume, and the newest one
	// that can be reached then. rest is the pause after the next one in a row.
	resume time.Time
	rest   time.Duration
}

// maxRests bounds the pause after abandoned cuts, in alignment deadlines.
const maxRests = 8

// abandon begins the pause after a cut that not every partition reached in time,
// so that the others get on.
func (a *alignment) abandon(now time.Time, deadline time.Duration) {
	a.rest = min(max(2*a.rest, deadline), maxRests*deadline)
	a.resume = now.Add(a.rest)
}

// rests reports whether no cut is taken up at this moment.
func (a *alignment) rests(now time.Time) bool { return a.rest > 0 && now.Before(a.resume) }

// limit returns the offset below which records of a topic may run.
func (a *alignment) limit(p *logicalPartition, progress *topicProgress) int64 {
	limit := a.announced.limit(progress.TopicPartition)
	if a.pending == nil || p.lastClosed >= a.pending.Epoch {
		return limit
	}
	if cut, ok := a.pending.Offsets[progress.TopicPartition]; ok {
		return min(limit, cut)
	}
	return limit
}

// refreshCuts takes what the barrier state topic has brought. Where the topic is not
// followed, a pending cut keeps it from being read. Once it has been read, an error
// of the reader does not keep the records waiting.
func (r *GroupRunner) refreshCuts(ctx context.Context) error {
	if r.settings.cuts == nil {
		return nil
	}
	if r.alignment.unwatch == nil && r.settings.cuts.follows() {
		r.alignment.unwatch = r.settings.cuts.follower.watch(r.wakePoll)
	}
	if r.alignment.pending != nil && r.alignment.unwatch == nil {
		r.noteHold(r.alignment.announced.expire(time.Now(), r.settings.announcementHold))
		return nil
	}
	var news cutNews
	var err error
	if r.alignment.unwatch != nil && r.alignment.readOnce {
		news, err = r.settings.cuts.news(r.settings.barrier, r.closedEpoch())
	} else {
		news, err = r.settings.cuts.refresh(ctx, r.settings.barrier, r.closedEpoch())
	}
	return r.takeNews(ctx, news, err, r.certainOffsets())
}

// hearNews takes what the follower of the barrier state topic has read during a
// poll. certain was certain before the poll.
func (r *GroupRunner) hearNews(ctx context.Context, certain map[TopicPartition]int64) error {
	if r.alignment.unwatch == nil {
		return nil
	}
	news, err := r.settings.cuts.news(r.settings.barrier, r.closedEpoch())
	return r.takeNews(ctx, news, err, certain)
}

// closedEpoch returns the epoch up to which every partition has closed.
func (r *GroupRunner) closedEpoch() int64 {
	closed := int64(math.MaxInt64)
	for _, p := range r.partitions {
		if r.involved(p) && p.ready() {
			closed = min(closed, p.lastClosed)
		}
	}
	if closed == math.MaxInt64 {
		return NoEpoch
	}
	return closed
}

// certainOffsets returns the offsets below which a cut that is announced from now
// on cannot lie.
func (r *GroupRunner) certainOffsets() map[TopicPartition]int64 {
	certain := map[TopicPartition]int64{}
	if r.settings.cuts == nil {
		return certain
	}
	var partitions []TopicPartition
	for _, p := range r.partitions {
		for _, progress := range p.topics {
			if progress.known {
				certain[progress.TopicPartition] = progress.delivered
				partitions = append(partitions, progress.TopicPartition)
			}
		}
	}
	if ends, ok := r.consumer.(StableEndReader); ok {
		for tp, end := range ends.StableEnds(partitions) {
			certain[tp] = max(certain[tp], end)
		}
	}
	return certain
}

// wakePoll ends the poll of a round because there is news.
func (r *GroupRunner) wakePoll() {
	if waker, ok := r.consumer.(PollWaker); ok {
		waker.WakePoll()
	}
}

// takeNews takes what is known of the group.
func (r *GroupRunner) takeNews(ctx context.Context, news cutNews, err error, certain map[TopicPartition]int64) error {
	if news.bad != nil {
		r.stats.add(func(s *RuntimeStats) { s.BadBarrierRecords++ })
		r.reportError(news.bad)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !r.alignment.readOnce {
			return err
		}
		r.reportError(err)
		r.noteHold(r.alignment.announced.expire(time.Now(), r.settings.announcementHold))
		return nil
	}
	r.reportHidden(news.hidden)
	r.alignment.readOnce = true
	for _, p := range r.partitions {
		if news.newest != barrierlog.NoEpoch && p.lastClosed > news.newest {
			// The group was deleted and made anew: its epochs have started over.
			p.lastClosed = NoEpoch
			news.cuts = nil
		}
	}
	if r.alignment.pending == nil {
		r.alignment.cuts = news.cuts
	}
	started := news.started
	if r.alignment.rests(time.Now()) {
		started = barrierlog.NoEpoch // no cut is going to be taken up
	}
	r.noteHold(r.alignment.announced.hear(started, news.newest, certain, time.Now(), r.settings.announcementHold))
	return nil
}

// noteHold reports a wait for an announced cut that has ended; nil is none.
func (r *GroupRunner) noteHold(ended *holdEnd) {
	if ended == nil {
		return
	}
	r.stats.add(func(s *RuntimeStats) {
		s.CutsAnnounced++
		s.LongestHold = max(s.LongestHold, ended.held)
		if ended.expired {
			s.AnnouncementsExpired++
		}
	})
	if ended.expired {
		r.settings.logger.Warn("an announced cut has not come", "group", r.settings.barrier, "epoch", ended.epoch, "waited", ended.held)
	}
	if r.settings.hooks.Announcement != nil {
		r.settings.hooks.Announcement(AnnouncementInfo{Epoch: ended.epoch, Held: ended.held, Expired: ended.expired})
	}
}

// reportHidden reports cuts that an open transaction may hide, once for each.
func (r *GroupRunner) reportHidden(hidden []*IncompleteReadError) {
	offsets := int64(0)
	reported := map[TopicPartition]int64{}
	for _, one := range hidden {
		offsets += one.EndOffset - one.StableOffset
		reported[one.Partition] = one.StableOffset
		if at, ok := r.alignment.hidden[one.Partition]; !ok || at != one.StableOffset {
			r.reportError(one)
		}
	}
	r.alignment.hidden = reported
	r.stats.add(func(s *RuntimeStats) { s.BarrierOffsetsHidden = offsets })
}

// align drops a pending cut that has no partition left or has waited too long,
// and takes up the next one.
func (r *GroupRunner) align() {
	if r.settings.cuts == nil {
		return
	}
	if pending := r.alignment.pending; pending != nil {
		reason := r.excuse(pending)
		switch waited := time.Since(r.alignment.adopted); {
		case len(r.participants(pending)) == 0:
			if reason != nil {
				r.skipCut(*pending, reason)
			}
			r.setPending(nil)
		case r.settings.alignment > 0 && waited >= r.settings.alignment:
			r.stats.add(func(s *RuntimeStats) { s.CutsAbandoned++ })
			r.alignment.abandon(time.Now(), r.settings.alignment)
			r.skipCut(*pending, fmt.Errorf("not every partition reached it within %v: %s", r.settings.alignment, r.laggards(pending)))
			r.setPending(nil)
		default:
			return
		}
	}
	for _, p := range r.partitions {
		if p.owned && !p.ready() {
			return
		}
	}
	if r.alignment.rests(time.Now()) {
		return
	}
	cuts := r.alignment.cuts
	r.alignment.cuts = nil
	var adopted *BarrierCut
	for i := range cuts {
		cut := &cuts[i]
		participants := r.participants(&cut.BarrierCut)
		if cut.unusable == nil && len(participants) == 0 && !r.unnamed(&cut.BarrierCut) {
			continue
		}
		if err := r.alignable(cut, participants); err != nil {
			r.skipCut(cut.BarrierCut, err)
			continue
		}
		if adopted != nil {
			r.skipCut(*adopted, fmt.Errorf("epoch %d is newer", cut.Epoch))
		}
		adopted = &cut.BarrierCut
		if !r.settings.newestCut && r.alignment.rest == 0 {
			break
		}
	}
	r.setPending(adopted)
}

func (r *GroupRunner) setPending(cut *BarrierCut) {
	r.alignment.pending = cut
	r.alignment.adopted = time.Now()
	r.notePending()
}

func (r *GroupRunner) notePending() {
	r.stats.mu.Lock()
	defer r.stats.mu.Unlock()
	r.stats.stats.PendingEpoch = NoEpoch
	if r.alignment.pending != nil {
		r.stats.stats.PendingEpoch = r.alignment.pending.Epoch
		r.stats.pendingSince = r.alignment.adopted
	}
}

// participants returns the partitions that have yet to take a cut, ascending.
// Before the first assignment of all, it is every partition that the cut names.
func (r *GroupRunner) participants(cut *BarrierCut) []*logicalPartition {
	if !r.assigned {
		for tp := range cut.Offsets {
			if slices.Contains(r.shape.topics, tp.Topic) {
				r.partition(tp.Partition).topic(tp.Topic)
			}
		}
	}
	var participants []*logicalPartition
	for _, p := range r.ordered() {
		if r.involved(p) && p.lastClosed < cut.Epoch && namesAny(cut, p) {
			participants = append(participants, p)
		}
	}
	return participants
}

func namesAny(cut *BarrierCut, p *logicalPartition) bool {
	for _, progress := range p.topics {
		if _, ok := cut.Offset(progress.TopicPartition); ok {
			return true
		}
	}
	return false
}

// unnamed reports whether a partition that has yet to take a cut is not named by
// it.
func (r *GroupRunner) unnamed(cut *BarrierCut) bool {
	for _, p := range r.partitions {
		if p.owned && p.lastClosed < cut.Epoch && !namesAny(cut, p) {
			return true
		}
	}
	return false
}

// alignable returns why a cut cannot be aligned on, or nil.
func (r *GroupRunner) alignable(cut *publishedCut, participants []*logicalPartition) error {
	if cut.unusable != nil {
		return cut.unusable
	}
	for _, p := range r.ordered() {
		if !p.owned || p.lastClosed >= cut.Epoch {
			continue
		}
		for _, progress := range p.inOrder() {
			if _, ok := cut.Offset(progress.TopicPartition); !ok {
				return fmt.Errorf("it does not name %s/%d", progress.Topic, progress.Partition)
			}
		}
	}
	for _, p := range participants {
		for _, progress := range p.inOrder() {
			offset, ok := cut.Offset(progress.TopicPartition)
			// The marker takes the offset of the cut, so the state right behind it is
			// the state at the cut.
			at := standing(p, progress)
			switch {
			case !ok || !progress.known || at <= offset:
			case at > offset+1:
				return fmt.Errorf("%s/%d stands at offset %d, behind the cut at %d", progress.Topic, progress.Partition, at, offset)
			}
		}
	}
	return r.overrun(&cut.BarrierCut)
}

// overrun returns why a cut comes too late, or nil: a record at its offset, where
// it has no marker, or behind it has changed the state.
func (r *GroupRunner) overrun(cut *BarrierCut) error {
	for _, p := range r.participants(cut) {
		for _, progress := range p.inOrder() {
			if offset, ok := cut.Offset(progress.TopicPartition); ok && progress.contains(offset) {
				return fmt.Errorf("%s/%d has processed offset %d, behind the cut at %d", progress.Topic, progress.Partition, progress.ceiling-1, offset)
			}
		}
	}
	return nil
}

// excuse passes the pending cut over for the partitions that cannot take it any
// more: one that has arrived since, or of which a position became known. Their state
// at the cut is their former owner's to have saved. It returns the last reason.
func (r *GroupRunner) excuse(cut *BarrierCut) error {
	var last error
	for _, p := range r.participants(cut) {
		for _, progress := range p.inOrder() {
			offset, named := cut.Offset(progress.TopicPartition)
			var reason error
			switch at := standing(p, progress); {
			case !named:
				reason = fmt.Errorf("it does not name %s/%d", progress.Topic, progress.Partition)
			case progress.contains(offset):
				reason = fmt.Errorf("%s/%d has processed offset %d, behind the cut at %d", progress.Topic, progress.Partition, progress.ceiling-1, offset)
			case progress.known && at > offset+1:
				reason = fmt.Errorf("%s/%d stands at offset %d, behind the cut at %d", progress.Topic, progress.Partition, at, offset)
			default:
				continue
			}
			r.settings.logger.Warn("partition takes no part in a cut", "group", cut.Group, "epoch", cut.Epoch, "partition", p.number, "reason", reason)
			p.lastClosed, last = cut.Epoch, reason
			break
		}
	}
	return last
}

// standing is where a topic partition stands, or where a replay takes it.
func standing(p *logicalPartition, progress *topicProgress) int64 {
	if p.replay != nil {
		return max(progress.processed, p.replay.endOfReplay(progress.TopicPartition))
	}
	return progress.processed
}

// laggards names the partitions that hold a cut open.
func (r *GroupRunner) laggards(cut *BarrierCut) string {
	late := map[TopicPartition]int64{}
	for _, p := range r.participants(cut) {
		for _, progress := range p.topics {
			if offset, ok := cut.Offset(progress.TopicPartition); ok && progress.reach(0) < offset {
				late[progress.TopicPartition] = progress.reach(0)
			}
		}
	}
	return formatOffsets(late)
}

// skipCut passes a cut over: no partition takes it.
func (r *GroupRunner) skipCut(cut BarrierCut, reason error) {
	for _, p := range r.partitions {
		if r.involved(p) {
			p.lastClosed = max(p.lastClosed, cut.Epoch)
		}
	}
	r.stats.add(func(s *RuntimeStats) { s.CutsSkipped++ })
	r.settings.logger.Warn("cut skipped", "group", cut.Group, "epoch", cut.Epoch, "reason", reason)
	if r.settings.hooks.CutSkipped != nil {
		r.settings.hooks.CutSkipped(cut.clone(), reason)
	}
}

// fire returns the pending barrier if every partition has reached its cut when
// taken records of each topic have been processed.
func (r *GroupRunner) fire(taken map[TopicPartition]int) *firing {
	cut := r.alignment.pending
	if cut == nil {
		return nil
	}
	fires := &firing{cut: cut.clone(), partitions: r.participants(cut)}
	for _, p := range fires.partitions {
		for _, progress := range p.inOrder() {
			offset, ok := cut.Offset(progress.TopicPartition)
			if !ok {
				continue
			}
			if !p.live() || !progress.known || progress.reach(taken[progress.TopicPartition]) < offset {
				return nil
			}
			fires.aligned = append(fires.aligned, progress)
		}
	}
	if len(fires.aligned) == 0 {
		return nil
	}
	return fires
}
