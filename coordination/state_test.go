// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// act is what a candidate answers.
type act struct {
	Step   step
	Extent time.Duration
}

// campaign drives one candidate named "me" through reads.
type campaign struct {
	*candidate
	t *testing.T
}

func newCampaign(t *testing.T, options ...Option) campaign {
	t.Helper()
	s, err := resolve(append([]Option{WithPollInterval(time.Second), WithPollJitter(0)}, options...), nil)
	if err != nil {
		t.Fatal(err)
	}
	me := MemberID{name: "me"}
	i := newIdentity(me)
	return campaign{newCandidate(me, &s, &i), t}
}

// sees takes a whole read of a state at an instant.
func (c campaign) sees(atMillis int64, state RoleState) act {
	return c.glimpses(atMillis, state, true)
}

func (c campaign) glimpses(atMillis int64, state RoleState, complete bool) act {
	next, extent := c.read(reading{state: state, complete: complete, began: reads(atMillis, 0), ended: reads(atMillis, 0)})
	if next != stepWait {
		extent = 0
	}
	return act{next, extent}
}

func (c campaign) expect(what string, want, got act) {
	c.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s: step mismatch (-want +got):\n%s", what, diff)
	}
}

var (
	registers  = act{Step: stepRegister}
	mints      = act{Step: stepMint}
	yields     = act{Step: stepYield}
	waitsAPoll = act{stepWait, time.Second}
)

func tokenOf(epoch int16) FencingToken { return FencingToken{producerID: 7, producerEpoch: epoch} }

// roster registers members at the offsets 0, 1 and so on, at instant 0.
func roster(names ...string) []RosterEntry {
	entries := []RosterEntry{}
	for i, name := range names {
		entries = append(entries, RosterEntry{Member: MemberID{name: name}, Offset: int64(i)})
	}
	return entries
}

// held is a role whose holder took a lease of 30 s.
func held(holder string, epoch int16, grantedAt int64, names ...string) RoleState {
	return RoleState{Roster: roster(names...), Lease: &Lease{
		Member: MemberID{name: holder}, Token: tokenOf(epoch), GrantedAt: grantedAt, Deadline: grantedAt + 30000,
	}}
}

func TestCandidateEnrols(t *testing.T) {
	none := RoleState{Roster: roster()}
	me := RoleState{Roster: roster("me")}

	c := newCampaign(t)
	c.expect("an empty log", registers, c.sees(0, none))
	c.appended(reads(0, 0))
	c.expect("a read that lags", waitsAPoll, c.sees(1000, none))
	c.expect("a read that lags for less than a lease", waitsAPoll, c.sees(29999, none))
	c.expect("a registration that must be lost", registers, c.sees(30000, none))
	c.appended(reads(30000, 0))
	c.expect("the lag counts from the new one", waitsAPoll, c.sees(59999, none))
	c.expect("registered", mints, c.sees(60000, me))
	c.expect("a registration that somebody removed", registers, c.sees(61000, none))

	c = newCampaign(t, WithPollInterval(10*time.Second))
	c.expect("an empty log", registers, c.sees(0, none))
	c.appended(reads(0, 0))
	c.expect("a lag below ten polls", act{stepWait, 10 * time.Second}, c.sees(99999, none))
	c.expect("a lag of ten polls", registers, c.sees(100000, none))

	c = newCampaign(t)
	c.expect("a retained registration", mints, c.sees(0, me))
	c = newCampaign(t, WithFreshRegistration())
	c.expect("a retained registration that does not count", registers, c.sees(0, me))
	c.appended(reads(0, 0))
	c.expect("registered anew", mints, c.sees(1000, me))
}

func TestCandidateWaitsForItsTurn(t *testing.T) {
	c := newCampaign(t)
	state := held("a", 0, 0, "a", "b", "me")
	c.expect("a live lease", waitsAPoll, c.sees(1000, state))
	c.expect("the turn of the first standby", waitsAPoll, c.sees(30000, state))
	c.expect("less than a poll before its turn", act{stepWait, 200 * time.Millisecond}, c.sees(34800, state))
	c.expect("its turn", mints, c.sees(35000, state))

	c = newCampaign(t)
	c.expect("no lease, behind two", waitsAPoll, c.sees(9000, RoleState{Roster: roster("a", "b", "me")}))
	c.expect("no lease, almost two staggers later", act{stepWait, time.Millisecond}, c.sees(18999, RoleState{Roster: roster("a", "b", "me")}))
	c.expect("no lease, two staggers later", mints, c.sees(19000, RoleState{Roster: roster("a", "b", "me")}))

	c = newCampaign(t)
	c.expect("behind two and a holder", waitsAPoll, c.sees(9000, held("c", 0, 0, "c", "a", "b", "me")))
	c.expect("the holder resigned, behind two", waitsAPoll, c.sees(10000, RoleState{Roster: roster("c", "a", "b", "me")}))
	c.expect("two staggers later, since the one that resigned is last", mints, c.sees(20000, RoleState{Roster: roster("c", "a", "b", "me")}))

	c = newCampaign(t)
	c.expect("first behind a holder", waitsAPoll, c.sees(9000, held("a", 0, 0, "a", "me")))
	c.expect("the turn of the first comes at once", mints, c.sees(9500, RoleState{Roster: roster("a", "me")}))

	c = newCampaign(t)
	c.identity.resigned = true
	c.expect("resigned before two others", waitsAPoll, c.sees(9000, RoleState{Roster: roster("me", "a", "b")}))
	c.expect("and behind them", mints, c.sees(19000, RoleState{Roster: roster("me", "a", "b")}))

	c = newCampaign(t)
	many := roster("a", "b", "c", "d", "e", "f", "g", "h", "i", "me")
	c.expect("no lease, behind nine", waitsAPoll, c.sees(100000, RoleState{Roster: many}))
	c.expect("a vacancy lasts less than a lease", mints, c.sees(125000, RoleState{Roster: many}))

	c = newCampaign(t, WithClockTolerance(2*time.Second))
	c.expect("the deadline, with tolerance", waitsAPoll, c.sees(30000, held("a", 0, 0, "a", "me")))
	c.expect("and after it", mints, c.sees(32000, held("a", 0, 0, "a", "me")))

	c = newCampaign(t)
	c.expect("a lease in the own name is of an earlier life", mints, c.sees(1000, held("me", 4, 0, "me")))
}

// A lease in the name of this member that came up after it began to mint, under
// a token that it did not mint, is the work of another process.
func TestCandidateMeetsItsDouble(t *testing.T) {
	c := newCampaign(t)
	c.expect("a lease of an earlier life", mints, c.sees(0, held("me", 4, 0, "me")))
	c.won(tokenOf(5))
	if delay := c.fenced(); delay != 0 {
		t.Errorf("the first fence costs %v", delay)
	}
	c.expect("the earlier life again", mints, c.sees(1000, held("me", 4, 0, "me")))
	c.expect("its own mint", mints, c.sees(2000, held("me", 5, 2000, "me")))
	c.expect("a mint of another process", yields, c.sees(3000, held("me", 6, 3000, "me")))

	c = newCampaign(t)
	c.identity.minted, c.identity.wary = true, true
	c.expect("a double that is known is a rival", waitsAPoll, c.sees(3000, held("me", 6, 3000, "me")))
	c.expect("whose lease runs out", mints, c.sees(33000, held("me", 6, 3000, "me")))
}

// The open transaction of an incomplete read may be a renewal of the holder.
func TestCandidateGivesAnOpenTransactionTimeToEnd(t *testing.T) {
	expired := held("a", 3, -30000, "a", "me")
	c := newCampaign(t)
	c.expect("an expired lease in an incomplete read", waitsAPoll, c.glimpses(0, expired, false))
	c.expect("less than two polls", act{stepWait, 500 * time.Millisecond}, c.glimpses(1500, expired, false))
	c.expect("two polls", mints, c.glimpses(2000, expired, false))
	c.expect("a complete read", mints, c.sees(2500, expired))
	c.expect("incomplete again", waitsAPoll, c.glimpses(3000, expired, false))
	c.expect("a renewal", waitsAPoll, c.glimpses(4000, held("a", 3, 4000, "a", "me"), false))
	if c.pinned {
		t.Error("the challenge is still on")
	}

	c = newCampaign(t, WithPollInterval(4*time.Second))
	c.expect("incomplete", act{stepWait, 4 * time.Second}, c.glimpses(0, expired, false))
	c.expect("less than a stagger", act{stepWait, time.Millisecond}, c.glimpses(4999, expired, false))
	c.expect("a stagger", mints, c.glimpses(5000, expired, false))
}

// A member that restarts takes its own role at once, or waits for the lease of
// the process before it, as the caller chooses.
func TestCandidateWaitsForItsFormerLeaseWhenAsked(t *testing.T) {
	c := newCampaign(t, WithFormerLeaseWait())
	c.expect("a lease of the process before", waitsAPoll, c.sees(1000, held("me", 4, 0, "me")))
	c.expect("whose deadline comes", mints, c.sees(30000, held("me", 4, 0, "me")))
	c.won(tokenOf(5))
	c.expect("a lease of this process", mints, c.sees(31000, held("me", 5, 30500, "me")))

	c = newCampaign(t, WithFormerLeaseWait(), WithClockTolerance(2*time.Second))
	c.expect("a deadline within the tolerance", waitsAPoll, c.sees(30000, held("me", 4, 0, "me")))
}

func TestReadIsStaleAfterAPollInterval(t *testing.T) {
	c := newCampaign(t)
	state := held("a", 0, -60000, "a", "me")
	for _, began := range []int64{0, 5000} {
		c.expect("an expired lease", mints, c.sees(began, state))
		if c.stale(reads(began+1000, 0)) {
			t.Error("a read is stale after one poll interval")
		}
		if !c.stale(reads(began+1001, 0)) {
			t.Error("a read is not stale after more than a poll interval")
		}
	}
}

func TestFencesOfACandidateCostMoreAndMore(t *testing.T) {
	c := newCampaign(t)
	state := held("a", 0, -60000, "a", "b", "me")
	c.sees(0, state)
	// Doubled from the poll interval up to the stagger, times 0.5 to 1.5, and an
	// eighth of a stagger for each rank.
	rank := 5 * time.Second / 8
	for i, base := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		low, high := base/2+rank, base*3/2+rank
		if i == 0 {
			low, high = 0, 0
		}
		if got := c.fenced(); got < low || got > high {
			t.Errorf("fence %d costs %v, want %v to %v", i+1, got, low, high)
		}
		c.sees(int64(i)*1000, state)
	}
	c.sees(10000, held("a", 1, -50000, "a", "b", "me"))
	if got := c.fenced(); got != 0 {
		t.Errorf("the first fence after a change costs %v, want nothing", got)
	}
	c.won(tokenOf(2))
	c.sees(11000, held("me", 2, 11000, "a", "b", "me"))
	if got := c.fenced(); got < time.Second/2 {
		t.Errorf("a second fence that follows an own lease costs %v, want half a poll interval at least", got)
	}
	for range 100 {
		if got := c.fenced(); got > 5*time.Second*3/2+rank {
			t.Fatalf("a fence costs %v", got)
		}
	}
}

func TestPollsAreSpreadAndBounded(t *testing.T) {
	c := newCampaign(t, WithPollJitter(0.2))
	for range 1000 {
		if got := c.pollWithin(time.Hour); got <= 800*time.Millisecond || got > time.Second {
			t.Fatalf("poll after %v, want above 800ms and at most 1s", got)
		}
	}
	if got := c.pollWithin(30 * time.Millisecond); got != 30*time.Millisecond {
		t.Errorf("poll after %v, want what is due in 30ms", got)
	}
	for _, due := range []time.Duration{0, -time.Hour, math.MinInt64, 1} {
		if got := c.pollWithin(due); got != time.Millisecond {
			t.Errorf("poll after %v for what is due in %v, want a millisecond", got, due)
		}
	}
}

func TestSpreadRepeatsItselfAndDiffersByMember(t *testing.T) {
	draw := func(name string) []float64 {
		i := newIdentity(MemberID{name: name})
		var drawn []float64
		for range 100 {
			x := i.spread()
			if x < 0 || x >= 1 {
				t.Fatalf("spread = %v, want [0, 1)", x)
			}
			drawn = append(drawn, x)
		}
		return drawn
	}
	first := draw("node-1")
	if diff := cmp.Diff(first, draw("node-1")); diff != "" {
		t.Errorf("the same member draws something else (-first +second):\n%s", diff)
	}
	other, sum := draw("node-2"), 0.0
	for i, x := range first {
		if x == other[i] {
			t.Errorf("draw %d of two members is %v", i, x)
		}
		sum += x
	}
	if mean := sum / float64(len(first)); math.Abs(mean-0.5) > 0.15 {
		t.Errorf("mean of the draws = %v, want about a half", mean)
	}
}

func TestIdentityRemembersTheLastTokens(t *testing.T) {
	var i identity
	for epoch := range int16(100) {
		i.learn(tokenOf(epoch), tokenOf(epoch))
	}
	if len(i.known) != knownTokens || slices.Contains(i.known, tokenOf(99-knownTokens)) || !slices.Contains(i.known, tokenOf(100-knownTokens)) {
		t.Errorf("known tokens %v, want the last %d", i.known, knownTokens)
	}
}

// A member whose registration lies in the future of its own clock waits from
// the moment that it saw it.
func TestRegistrationInTheFutureCountsFromItsFirstSight(t *testing.T) {
	c := newCampaign(t)
	state := RoleState{Roster: roster("a", "me")}
	state.Roster[1].RegisteredAt = 1 << 40
	c.expect("the first sight", waitsAPoll, c.sees(0, state))
	c.expect("a millisecond before a stagger has passed", act{stepWait, time.Millisecond}, c.sees(4999, state))
	c.expect("a stagger later", mints, c.sees(5000, state))
	if state.Roster[1].RegisteredAt != 1<<40 {
		t.Error("the candidate changed the state of its reader")
	}
}

// A process that led before vouches for a lease that another member took since.
func TestFormerLeaderKnowsThatALeaseIsNew(t *testing.T) {
	fresh := held("a", 1, -60000, "me", "a") // by a wall clock that is a minute behind
	c := newCampaign(t)
	c.expect("a lease that looks old", mints, c.sees(20000, fresh))

	c = newCampaign(t)
	c.identity.led, c.identity.ledAt = true, reads(10000, 0)
	c.expect("the same lease, taken after the own one", waitsAPoll, c.sees(20000, fresh))
	c.expect("until its extent has passed since then", mints, c.sees(40000, fresh))
}

func TestStatesAreComparedByWhatTheyHold(t *testing.T) {
	a, b := held("a", 0, 0, "a"), held("a", 0, 0, "a")
	renewed, grown := held("a", 0, 1, "a"), held("a", 0, 0, "a", "b")
	empty := RoleState{Roster: roster("a")}
	for name, tt := range map[string]struct {
		x, y RoleState
		want bool
	}{
		"equal leases at other addresses": {a, b, true},
		"a renewal":                       {a, renewed, false},
		"a registration":                  {a, grown, false},
		"a resignation":                   {a, empty, false},
		"no lease, equal rosters":         {empty, RoleState{Roster: roster("a")}, true},
		"no lease, other rosters":         {empty, RoleState{Roster: roster("b")}, false},
	} {
		if got := sameState(tt.x, tt.y); got != tt.want {
			t.Errorf("%s: sameState = %t, want %t", name, got, tt.want)
		}
	}
}
