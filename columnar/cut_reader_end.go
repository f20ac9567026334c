// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"errors"
	"time"
)

const (
	// stablePoll is how long a read waits between two looks at a transaction that
	// is open.
	stablePoll = 100 * time.Millisecond
	// lookInterval is how often a runner's reads look for open transactions, and
	// lookTimeout how long that may take.
	lookInterval = 5 * time.Second
	lookTimeout  = 250 * time.Millisecond
)

// cutBounds are offsets at which a read of the topic may end.
type cutBounds struct {
	stable map[TopicPartition]int64 // what the consumer may read ends here
	log    map[TopicPartition]int64 // the logs end here; nil where the consumer cannot tell
}

// hidden says what lies between the bounds, in the order of the partitions.
func (b cutBounds) hidden(partitions []TopicPartition) []*IncompleteReadError {
	var hidden []*IncompleteReadError
	for _, tp := range partitions {
		if stable, end := b.stable[tp], b.log[tp]; stable < end {
			hidden = append(hidden, &IncompleteReadError{Partition: tp, StableOffset: stable, EndOffset: end})
		}
	}
	return hidden
}

// bounds asks for the bounds of this moment.
func (r *CutReader) bounds(ctx context.Context, ranges OffsetRangeReader) (cutBounds, error) {
	var bounds cutBounds
	var err error
	// The end of the log comes first: a stable offset below it is then one that a
	// transaction holds back, and not one that is older.
	if logs, ok := ranges.(LogEndReader); ok {
		if bounds.log, err = logs.LogEndOffsets(ctx, r.partitions); err != nil {
			return cutBounds{}, textPrefix.Wrap(err, "log end offsets of %q", r.topic)
		}
	}
	if bounds.stable, err = ranges.EndOffsets(ctx, r.partitions); err != nil {
		return cutBounds{}, textPrefix.Wrap(err, "end offsets of %q", r.topic)
	}
	return bounds, nil
}

// readToEnd reads up to the end offsets of this moment, or until the topic is
// quiet where the consumer does not know them. It waits so long for open
// transactions to end, and fails with [IncompleteReadError] values then.
func (r *CutReader) readToEnd(ctx context.Context, wait time.Duration) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	ranges, ranged := r.consumer.(OffsetRangeReader)
	positions, positioned := r.consumer.(PositionReader)
	if !ranged || !positioned {
		return r.readUntilIdle(ctx)
	}
	bounds, err := r.bounds(ctx, ranges)
	if err != nil {
		return err
	}
	for waiting := (time.Time{}); ; {
		at, err := positions.Positions(ctx, r.partitions)
		if err != nil {
			return textPrefix.Wrap(err, "positions in %q", r.topic)
		}
		if behind := r.cutShort(bounds.log, at); behind != nil {
			r.mu.Lock()
			r.startOver(behind)
			r.mu.Unlock()
			return r.readToEnd(ctx, wait)
		}
		if !r.reached(bounds.stable, at) {
			if _, err := r.pollOnce(ctx, r.pollTimeout); err != nil {
				return err
			}
			continue
		}
		r.noteLoaded()
		hidden := bounds.hidden(r.partitions)
		if len(hidden) == 0 {
			return nil
		}
		if waiting.IsZero() {
			waiting = time.Now()
		}
		pause := min(stablePoll, wait-time.Since(waiting))
		if pause <= 0 {
			return joinIncomplete(hidden)
		}
		if _, err := r.pollOnce(ctx, pause); err != nil {
			return err
		}
		again, err := r.bounds(ctx, ranges)
		if err != nil {
			return err
		}
		// What was appended since the read began is not waited for; a log that has
		// become shorter ends where it ends.
		for tp, end := range again.log {
			again.log[tp] = min(end, bounds.log[tp])
		}
		bounds = again
	}
}

// readUntilIdle reads until a number of polls in a row have brought nothing.
func (r *CutReader) readUntilIdle(ctx context.Context) error {
	for idle := 0; idle < r.idlePolls; idle++ {
		records, err := r.pollOnce(ctx, r.pollTimeout)
		if err != nil {
			return err
		}
		if records > 0 {
			idle = -1
		}
	}
	r.noteLoaded()
	return nil
}

// pollOnce is poll, and fails when ctx has ended meanwhile.
func (r *CutReader) pollOnce(ctx context.Context, timeout time.Duration) (int, error) {
	records, err := r.poll(ctx, timeout)
	if err == nil {
		err = ctx.Err()
	}
	return records, err
}

// cutShort returns the first partition whose log ends before what has been read of
// it, which is then not the log that was read; nil for none.
func (r *CutReader) cutShort(ends, positions map[TopicPartition]int64) error {
	for _, tp := range r.partitions {
		if end, ok := ends[tp]; ok && r.next[tp] > end {
			return &OffsetOutOfRangeError{Partition: tp, Offset: positions[tp], Start: -1, End: end, Cause: errors.New("the log ends before what was read of it")}
		}
	}
	return nil
}

// reached reports whether every partition has been read up to its end.
func (r *CutReader) reached(ends, positions map[TopicPartition]int64) bool {
	for _, tp := range r.partitions {
		if max(positions[tp], r.next[tp]) < ends[tp] {
			return false
		}
	}
	return true
}

// look finds out from time to time what open transactions hide. A publisher's own
// transaction is open for a moment, so one counts only that the look before found
// at the same offset. A look that fails says nothing.
func (r *CutReader) look(ctx context.Context) {
	logs, ok := r.consumer.(LogEndReader)
	if !ok || time.Since(r.looked) < lookInterval {
		return
	}
	ranges, ok := logs.(OffsetRangeReader)
	if !ok {
		return
	}
	r.looked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	bounds, err := r.bounds(ctx, ranges)
	if err != nil {
		return
	}
	pins := map[TopicPartition]int64{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = nil
	for _, one := range bounds.hidden(r.partitions) {
		pins[one.Partition] = one.StableOffset
		if before, ok := r.pins[one.Partition]; ok && before == one.StableOffset {
			r.hidden = append(r.hidden, one)
		}
	}
	r.pins = pins
}

func joinIncomplete(hidden []*IncompleteReadError) error {
	if len(hidden) == 1 {
		return hidden[0]
	}
	errs := make([]error, len(hidden))
	for i, one := range hidden {
		errs[i] = one
	}
	return errors.Join(errs...)
}
