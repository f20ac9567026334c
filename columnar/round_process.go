// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
)

// process runs the work of a round, partitions in parallel, and joins the
// outputs in ascending order.
func (r *GroupRunner) process(rd *round) error {
	failures := make([]error, len(rd.work))
	begun := make([]bool, len(rd.work))
	run := func(i int) {
		// The first partition runs in any case, so that each round gets on.
		if begun[i] = i == 0 || !r.signal.raised(); begun[i] {
			failures[i] = r.processPartition(rd.work[i])
		}
	}
	if len(rd.work) == 1 || r.settings.parallelism == 1 {
		for i := range rd.work {
			if run(i); failures[i] != nil {
				break
			}
		}
	} else {
		r.processInParallel(rd, run)
	}
	for _, err := range failures {
		if err != nil {
			r.stats.add(func(s *RuntimeStats) { s.FailedBatches++ })
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	r.postpone(rd, begun)
	for _, work := range rd.work {
		rd.outputs = append(rd.outputs, work.outputs...)
		rd.outputs = append(rd.outputs, r.deadLetters(work.excluded)...)
	}
	return nil
}

// postpone leaves what a round has not begun to process to the next one.
func (r *GroupRunner) postpone(rd *round, begun []bool) {
	work := rd.work[:0]
	for i, one := range rd.work {
		if begun[i] {
			work = append(work, one)
		}
	}
	if len(work) < len(rd.work) {
		r.stats.add(func(s *RuntimeStats) { s.RoundsCutShort++ })
	}
	rd.work = work
}

// processInParallel runs partitions at once. A panic of user code goes on in the
// round's own goroutine.
func (r *GroupRunner) processInParallel(rd *round, run func(i int)) {
	var group errgroup.Group
	group.SetLimit(r.settings.parallelism)
	panics := make(chan any, len(rd.work))
	for i := range rd.work {
		group.Go(func() error {
			finished := false
			defer func() {
				if !finished {
					panics <- recover()
				}
			}()
			run(i)
			finished = true
			return nil
		})
	}
	_ = group.Wait()
	select {
	case value := <-panics:
		panic(value)
	default:
	}
}

func (r *GroupRunner) processPartition(work *partitionWork) error {
	started := time.Now()
	result, err := r.runTolerant(work.number, work.input)
	if err != nil {
		return err
	}
	work.outcome = result
	work.metrics = MetricsSnapshot{Batches: 1, OutputRecords: int64(len(result.outputs)), ProcessingNanos: time.Since(started).Nanoseconds()}
	for _, records := range work.input {
		work.metrics.InputRecords += int64(len(records))
	}
	if len(result.excluded) > 0 {
		work.metrics.Failures = 1
	}
	if r.settings.policy.Action == ActionDeadLetter {
		work.metrics.DeadLetterRecords = int64(len(result.excluded))
	}
	return nil
}

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
	if ended {
		err = nil
	}
	if ended && !rd.asked {
		r.pulse.cutShort()
	} else {
		r.pulse.end(err)
	}
	if err != nil {
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
