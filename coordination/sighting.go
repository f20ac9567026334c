// SPDX-License-Identifier: Apache-2.0

package coordination

import "time"

// sighting bounds the age of one lease record on the monotonic clock of this
// process, without trust in the wall clock of the member that wrote the record.
//
// The lease ends at the latest when its extent has passed since the process
// first saw the record. The lease is good at least until its extent has passed
// since a moment at which the record did not exist yet. The deadline in the
// record decides between these two bounds; between clocks that agree the
// deadline always lies there.
type sighting struct {
	seen      bool // a lease record was seen
	token     FencingToken
	grantedAt int64
	first     moment // the first read that showed the record

	// The record did not exist at this elapsed time. The field has a meaning
	// only when witnessed is true.
	absent    time.Duration
	witnessed bool
}

func (s sighting) about(lease Lease) bool {
	return s.seen && s.token == lease.Token && s.grantedAt == lease.GrantedAt
}

// witness says that the record did not exist at an elapsed time.
func (s *sighting) witness(elapsed time.Duration) {
	if !s.witnessed || elapsed > s.absent {
		s.absent, s.witnessed = elapsed, true
	}
}

// follow takes over what an earlier record of the same leadership showed. The
// holder wrote both grant instants with one clock, so their difference also
// separates the records in time.
func (s *sighting) follow(earlier sighting) {
	if earlier.witnessed && earlier.token == s.token {
		passed := untilMillis(earlier.grantedAt, s.grantedAt)
		s.witness(min(addExtents(earlier.absent, passed), s.first.elapsed))
	}
}

// deadline returns the instant on the wall clock of this process at which the
// lease counts as expired.
func (s sighting) deadline(lease Lease, now moment, tolerance time.Duration) int64 {
	extent := untilMillis(lease.GrantedAt, lease.Deadline)
	deadline := addMillis(lease.Deadline, extentMillis(tolerance))
	if s.witnessed {
		deadline = max(deadline, addMillis(now.wall, extentMillis(extent-(now.elapsed-s.absent))))
	}
	return min(deadline, addMillis(now.wall, extentMillis(extent-now.since(s.first))))
}
