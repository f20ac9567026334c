// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"math"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/barrierlog"
)

// announcedCut is a cut whose start was seen and whose offsets are not known yet. It
// knows neither the runner nor Kafka: positions, epochs and the time come in, limits
// come out.
type announcedCut struct {
	active bool
	epoch  int64
	since  time.Time
	// certain are the offsets below which every record lies below the cut: it had
	// been read, or a broker had told a stable end above it, before the start was
	// seen. The offsets of the cut are taken later, and stable ends only grow.
	certain map[TopicPartition]int64
	// next is the lowest epoch that is waited for: those below it were given up,
	// because their cuts did not come.
	next int64
}

// holdEnd says how the wait for an announced cut has ended.
type holdEnd struct {
	epoch   int64
	held    time.Duration
	expired bool // the cut has not come
}

// hear takes what is known of the group: the epoch of a start without a cut, or
// barrierlog.NoEpoch, and the newest epoch of a cut. A wait ends when its cut has come, when
// a newer start or nothing is left of it, and when it has lasted for patience. It
// returns the wait that has ended, or nil.
func (a *announcedCut) hear(started, newest int64, certain map[TopicPartition]int64, now time.Time, patience time.Duration) *holdEnd {
	if started != barrierlog.NoEpoch && max(started, newest) < a.next-1 {
		a.next = 0 // the group was made anew
	}
	var ended *holdEnd
	if a.active && a.epoch != started {
		ended = a.end(now, false)
	}
	if !a.active && started > newest && started >= a.next && patience > 0 {
		a.active, a.epoch, a.since, a.certain = true, started, now, certain
	}
	if expired := a.expire(now, patience); expired != nil {
		ended = expired
	}
	return ended
}

// expire gives up a wait that has lasted for patience, and returns it, or nil.
func (a *announcedCut) expire(now time.Time, patience time.Duration) *holdEnd {
	if !a.active || now.Sub(a.since) < patience {
		return nil
	}
	a.next = a.epoch + 1
	return a.end(now, true)
}

func (a *announcedCut) end(now time.Time, expired bool) *holdEnd {
	ended := &holdEnd{epoch: a.epoch, held: now.Sub(a.since), expired: expired}
	a.active, a.certain = false, nil
	return ended
}

// limit returns the offset below which records of a topic partition lie below the
// announced cut for certain.
func (a *announcedCut) limit(tp TopicPartition) int64 {
	if !a.active {
		return math.MaxInt64
	}
	return a.certain[tp] // 0 for a partition that has arrived since
}

// remaining returns how long a wait may last, and timeout if that is shorter.
func (a *announcedCut) remaining(now time.Time, patience, timeout time.Duration) time.Duration {
	if !a.active {
		return timeout
	}
	return min(timeout, max(0, patience-now.Sub(a.since)))
}
