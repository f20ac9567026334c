// SPDX-License-Identifier: Apache-2.0

package coordination

import "time"

// sighting is what one process knows about the age of a lease record without
// trusting the wall clock of its writer.
//
// A record that was first seen at some moment is at least as old as the time
// since, so its lease is over at the latest when its own extent has passed
// since then. A record that an earlier read did not show is at most as old as
// the time since that read, so its lease is good at least until its extent has
// passed since that. The deadline that the holder wrote decides between the
// two bounds; for clocks that agree it always lies there.
type sighting struct {
	seen      bool // there is a record at all
	token     FencingToken
	grantedAt int64
	first     moment // the first read that showed the record
	absent    moment // the begin of the last whole read that did not
	witnessed bool   // absent is known
}

// about reports whether the sighting is about this lease record.
func (s sighting) about(lease Lease) bool {
	return s.seen && s.token == lease.Token && s.grantedAt == lease.GrantedAt
}

// deadline returns the instant on the wall clock of this process at which the
// lease counts as expired.
func (s sighting) deadline(lease Lease, now moment, tolerance time.Duration) int64 {
	extent := untilMillis(lease.GrantedAt, lease.Deadline)
	deadline := addMillis(lease.Deadline, extentMillis(tolerance))
	if s.witnessed {
		deadline = max(deadline, addMillis(now.wall, extentMillis(extent-now.since(s.absent))))
	}
	return min(deadline, addMillis(now.wall, extentMillis(extent-now.since(s.first))))
}
