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
