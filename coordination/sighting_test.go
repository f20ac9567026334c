// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math"
	"testing"
	"time"
)

// reads builds a moment of a process whose wall clock was set by skew
// milliseconds against its elapsed time.
func reads(elapsedMillis, skew int64) moment {
	return moment{wall: elapsedMillis + skew, elapsed: time.Duration(elapsedMillis) * time.Millisecond}
}

func TestSightingBoundsTheDeadline(t *testing.T) {
	lease := Lease{GrantedAt: 1000, Deadline: 31000}
	tests := []struct {
		name      string
		lease     Lease
		first     moment // that showed the record
		absent    moment // that did not, where witnessed
		witnessed bool
		now       moment
		tolerance time.Duration
		want      int64
	}{
		{name: "a record in the log at the start, clocks that agree", lease: lease, first: reads(5000, 0), now: reads(9000, 0), want: 31000},
		{name: "tolerance on top", lease: lease, first: reads(5000, 0), now: reads(9000, 0), tolerance: 1500 * time.Millisecond, want: 32500},
		{name: "tolerance that the first look bounds", lease: lease, first: reads(5000, 0), now: reads(9000, 0), tolerance: time.Hour, want: 35000},
		{name: "tolerance rounds up to what a record can say", lease: lease, first: reads(5000, 0), now: reads(9000, 0), tolerance: time.Nanosecond, want: 31001},
		{name: "a reader whose clock is behind does not wait for its own deadline", lease: lease,
			first: reads(5000, -60000), now: reads(20000, -60000), want: 35000 - 60000},
		{name: "a reader whose clock is ahead leaves a witnessed renewal alone", lease: lease,
			first: reads(2000, 60000), absent: reads(900, 60000), witnessed: true, now: reads(9000, 60000), want: 30900 + 60000},
		{name: "without a witness the clock that is ahead decides", lease: lease,
			first: reads(2000, 60000), now: reads(9000, 60000), want: 31000},
		{name: "a witness does not shorten a lease", lease: lease,
			first: reads(2000, 0), absent: reads(500, 0), witnessed: true, now: reads(9000, 0), want: 31000},
		{name: "the extent has passed since the first look", lease: lease, first: reads(5000, -60000), now: reads(40000, -60000), want: 35000 - 60000},
		{name: "a deadline at the end of time", lease: Lease{GrantedAt: 0, Deadline: math.MaxInt64},
			first: reads(5000, 0), now: reads(9000, 0), tolerance: time.Hour, want: 9000 + (math.MaxInt64-int64(4*time.Second))/int64(time.Millisecond) + 1},
		{name: "a lease without extent is over", lease: Lease{GrantedAt: 8000, Deadline: 8000}, first: reads(8000, 0), now: reads(9000, 0), want: 8000},
		{name: "a deadline before the grant is over at the first look", lease: Lease{GrantedAt: 8000, Deadline: 1000}, first: reads(8000, 0), now: reads(8000, 0), want: 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sighting{seen: true, first: tt.first, absent: tt.absent.elapsed, witnessed: tt.witnessed}
			if got := s.deadline(tt.lease, tt.now, tt.tolerance); got != tt.want {
				t.Errorf("deadline = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSightingIsAboutOneRecord(t *testing.T) {
	lease := Lease{Token: FencingToken{producerID: 7, producerEpoch: 3}, GrantedAt: 1000, Deadline: 31000}
	renewed, retaken, extended := lease, lease, lease
	renewed.GrantedAt++
	retaken.Token.producerEpoch++
	extended.Deadline++
	s := sighting{seen: true, token: lease.Token, grantedAt: lease.GrantedAt}
	for name, tt := range map[string]struct {
		s     sighting
		lease Lease
		want  bool
	}{
		"the record":                   {s, lease, true},
		"its renewal":                  {s, renewed, false},
		"the lease of another mint":    {s, retaken, false},
		"the deadline is no identity":  {s, extended, true},
		"nothing was seen":             {sighting{}, lease, false},
		"nothing is not the zero pair": {sighting{}, Lease{}, false},
	} {
		if got := tt.s.about(tt.lease); got != tt.want {
			t.Errorf("%s: about = %t, want %t", name, got, tt.want)
		}
	}
}
