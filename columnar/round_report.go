// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"time"
)

// report counts a round and calls the hook.
func (r *GroupRunner) report(rd *round, err error) {
	elapsed := time.Since(rd.started)
	info := RoundInfo{Outputs: len(rd.outputs), Duration: elapsed, Barrier: NoEpoch, Err: err}
	for _, work := range rd.work {
		for _, records := range work.input {
			info.Records += len(records)
		}
	}
	if rd.firing != nil {
		info.Barrier = rd.firing.cut.Epoch
	}
	// The end of its context while a round waits for records is no failure.
	ended := len(rd.work) == 0 && rd.poll.Err() != nil && errors.Is(err, rd.poll.Err())
	idle := ended || (err == nil && len(rd.work) == 0 && len(rd.offsets) == 0)
	r.stats.add(func(s *RuntimeStats) {
		s.LongestRound = max(s.LongestRound, elapsed)
		switch {
		case idle:
			s.EmptyRounds++
		case err != nil:
			s.RoundsFailed++
		default:
			s.Rounds++
		}
	})
	if err != nil && !idle {
		r.settings.logger.Warn("round failed", "error", err)
	}
	if r.settings.hooks.Round != nil && !idle {
		info.Offsets = maps.Clone(rd.offsets)
		r.settings.hooks.Round(info)
	}
}

// reportSetAside counts, logs and tells the hook about records that the error
// policy has taken.
func (e *environment) reportSetAside(excluded []poisoned) {
	if len(excluded) == 0 {
		return
	}
	e.stats.add(func(s *RuntimeStats) { s.RecordsSkipped += int64(len(excluded)) })
	for _, info := range setAside(excluded, e.settings.policy.Action) {
		text := "records skipped"
		if info.Action == ActionDeadLetter {
			text = "records sent to the dead-letter topic"
		}
		e.settings.logger.Warn(text, "topic", info.Partition.Topic, "partition", info.Partition.Partition,
			"records", info.Records, "first", info.First, "last", info.Last, "error", info.Err)
		if e.settings.hooks.SetAside != nil {
			e.settings.hooks.SetAside(info)
		}
	}
}
