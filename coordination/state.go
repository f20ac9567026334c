// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"hash/fnv"
	"slices"
	"time"
)

// step is what a candidate does next.
type step int

const (
	// stepRegister appends a registration and reads again.
	stepRegister step = iota
	// stepWait waits and reads again.
	stepWait
	// stepMint takes the epoch of the role.
	stepMint
	// stepYield gives the acquisition up in favour of another process with
	// the same member id.
	stepYield
)

// reading is one read of the partition as a candidate sees it.
type reading struct {
	state    RoleState
	complete bool   // no open transaction stands in the log
	began    moment // before the read
	ended    moment // after it
}

// identity is what one process knows about the leases under its member id. It
// outlives an acquisition.
type identity struct {
	seed   uint64
	turns  uint64         // numbers drawn so far
	known  []FencingToken // minted by this process, or in the log before it minted
	minted bool
	wary   bool // another process uses the member id
	looked bool // the process read the role

	// The process led before, and the newest lease was its own at that moment.
	led      bool
	ledAt    moment
	resigned bool // and it gave the role up
}

// knownTokens bounds what an identity remembers. The newest lease in the log
// is of interest alone, so a few are plenty.
const knownTokens = 32

func newIdentity(member MemberID) identity {
	h := fnv.New64a()
	h.Write([]byte(member.name))
	return identity{seed: h.Sum64()}
}

// spread returns a number in [0, 1) that differs from member to member and
// from wait to wait, and that repeats itself from run to run.
func (i *identity) spread() float64 {
	i.turns++
	x := i.seed + i.turns*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

func (i *identity) learn(tokens ...FencingToken) {
	for _, token := range tokens {
		if !slices.Contains(i.known, token) {
			i.known = append(i.known, token)
		}
	}
	if excess := len(i.known) - knownTokens; excess > 0 {
		i.known = slices.Delete(i.known, 0, excess)
	}
}

// candidate is the state of one member between two leaderships. The state
// outlives a failed acquisition, so a repeated one goes on from what the failed
// one saw. The methods take events and their moments and return the next step;
// they do no I/O and read no clock. A candidate is not safe for concurrent use.
type candidate struct {
	member   MemberID
	settings *settings
	identity *identity

	registered   bool   // the candidate appended a registration
	registeredAt moment // when
	seen         bool   // the roster showed the member, since then if registered
	entry        RosterEntry
	entrySeen    moment // the first read that showed entry

	last   *reading
	lease  sighting
	vacant vacancy
	placed bool // the role is in no other partition
	fences int  // mints in a row that were superseded

	// The challenge met an open transaction first at that moment.
	pinned      bool
	pinnedSince moment
}

func newCandidate(member MemberID, s *settings, i *identity) *candidate {
	return &candidate{member: member, settings: s, identity: i}
}

// read takes a read of the partition. The extent says how long to wait, for
// stepWait alone.
func (c *candidate) read(r reading) (step, time.Duration) {
	c.observe(r)
	if next, extent, enrolled := c.enrol(r); !enrolled {
		return next, extent
	}
	foreign := c.foreign(r.state.Lease)
	if foreign && !c.identity.wary {
		return stepYield, 0
	}
	if due := c.untilDue(r.ended); due > 0 {
		c.pinned = false
		return stepWait, c.pollWithin(due)
	}
	return c.challenge(r)
}

// untilDue returns how long the member has to wait for its turn if the role
// stays as the last read showed it. It returns zero when the turn has come, and
// when nothing was read yet.
func (c *candidate) untilDue(now moment) time.Duration {
	if c.last == nil {
		return 0
	}
	state := c.locally(now)
	decision := Evaluate(state, c.member, now.wall, c.settings.lease)
	former := c.settings.formerLeaseWait && !c.identity.minted
	if decision.Action == ActionHold && (former || c.foreign(state.Lease)) {
		decision = Decision{Action: ActionWait, WaitUntil: state.Lease.Deadline}
	}
	if decision.Action != ActionWait {
		return 0
	}
	return untilMillis(now.wall, decision.WaitUntil)
}

// observe updates what the candidate remembers from read to read.
func (c *candidate) observe(r reading) {
	previous := c.last
	c.last = &r
	c.identity.looked = true
	lease := r.state.Lease
	own := lease != nil && lease.Member == c.member && slices.Contains(c.identity.known, lease.Token)
	if previous != nil && !own && !sameState(previous.state, r.state) {
		c.fences = 0
	}
	if lease == nil {
		c.lease = sighting{}
		if !c.vacant.seen {
			c.vacant = vacancy{seen: true, since: r.ended}
			if previous != nil {
				c.vacant.resigned, _ = previous.state.Holder()
			}
		}
		return
	}
	c.vacant = vacancy{}
	if !c.identity.minted && lease.Member == c.member {
		c.identity.learn(lease.Token)
	}
	if !c.lease.about(*lease) {
		seen := sighting{seen: true, token: lease.Token, grantedAt: lease.GrantedAt, first: r.ended}
		switch {
		case previous != nil:
			seen.witness(previous.began.elapsed)
		case previous == nil && c.identity.led && lease.Member != c.member:
			seen.witness(c.identity.ledAt.elapsed)
		}
		seen.follow(c.lease)
		c.lease = seen
	}
}

func sameState(x, y RoleState) bool {
	if x.Lease == nil || y.Lease == nil {
		return x.Lease == y.Lease && slices.Equal(x.Roster, y.Roster)
	}
	return *x.Lease == *y.Lease && slices.Equal(x.Roster, y.Roster)
}

// enrol brings the member into the roster, and reports whether it is there.
//
// A registration of this acquisition that the roster does not show yet is read
// lag, until it has not come for so long that it must be lost. A registration
// that was there and is gone was removed by somebody.
func (c *candidate) enrol(r reading) (step, time.Duration, bool) {
	entry, present := r.state.Entry(c.member)
	if present && (c.registered || !c.settings.freshRegistration) {
		if !c.seen || entry != c.entry {
			c.entry, c.entrySeen = entry, r.ended
		}
		c.seen = true
		return 0, 0, true
	}
	lag := max(c.settings.lease.duration, 10*c.settings.poll)
	if !c.registered || c.seen || r.ended.since(c.registeredAt) >= lag {
		return stepRegister, 0, false
	}
	return stepWait, c.pollWithin(lag), false
}

func (c *candidate) appended(at moment) {
	c.registered, c.registeredAt, c.seen = true, at, false
}

// foreign reports whether a lease in the name of this member is the work of
// another live process: its token came up after this process began to mint,
// and this process did not mint it.
func (c *candidate) foreign(lease *Lease) bool {
	return lease != nil && lease.Member == c.member && c.identity.minted &&
		!slices.Contains(c.identity.known, lease.Token)
}

// locally returns the last state with instants that this process can vouch for,
// so that a wrong wall clock neither keeps a dead holder in place nor keeps the
// member from its turn.
func (c *candidate) locally(now moment) RoleState {
	state := c.last.state
	if state.Lease == nil {
		state.Roster = c.vacantRoster(now)
		return state
	}
	if state.Lease.Member != c.member || c.settings.formerLeaseWait || c.foreign(state.Lease) {
		lease := *state.Lease
		lease.Deadline = c.lease.deadline(lease, now, c.settings.tolerance)
		state.Lease = &lease
	}
	return state
}

// vacancy is a role without a lease, as one process saw it.
type vacancy struct {
	seen     bool
	since    moment   // the first read that showed no lease
	resigned MemberID // the holder of the lease that was cleared, if it was seen
}

// vacantRoster returns the order of succession of a role without a lease. A turn
// that its registration gives a member counts from the moment at which this
// process saw the vacancy too: by old registrations alone the turns of all
// members would have come, and all of them would mint at once. The member that
// resigned takes the last turn. A role with many members stays vacant for less
// than a lease.
func (c *candidate) vacantRoster(now moment) []RosterEntry {
	roster := slices.Clone(c.last.state.Roster)
	last := c.vacant.resigned
	if c.identity.resigned {
		last = c.member
	}
	if at := slices.IndexFunc(roster, func(e RosterEntry) bool { return e.Member == last }); at >= 0 {
		resigned := roster[at]
		roster = append(slices.Delete(roster, at, at+1), resigned)
	}
	own := func(e RosterEntry) bool { return e.Member == c.member }
	rank, registeredRank := slices.IndexFunc(roster, own), slices.IndexFunc(c.last.state.Roster, own)
	if rank < 0 {
		return roster
	}
	config := c.settings.lease
	delay := extentMillis(config.ChallengeDelay(rank))
	ago := func(m moment) int64 { return addMillis(now.wall, -int64(now.since(m)/time.Millisecond)) }
	byRegistration := addMillis(min(roster[rank].RegisteredAt, ago(c.entrySeen)), extentMillis(config.ChallengeDelay(registeredRank)))
	byVacancy := addMillis(ago(c.vacant.since), min(delay, extentMillis(max(config.duration-config.challengeStagger, 0))))
	roster[rank].RegisteredAt = addMillis(max(byRegistration, byVacancy), -delay)
	return roster
}

// challenge decides whether a mint follows. The open transaction of an incomplete
// read may be a renewal of the holder, and it gets a short time to end.
func (c *candidate) challenge(r reading) (step, time.Duration) {
	if r.complete {
		c.pinned = false
		return stepMint, 0
	}
	if !c.pinned {
		c.pinned, c.pinnedSince = true, r.ended
	}
	grace := min(2*c.settings.poll, c.settings.lease.challengeStagger) - r.ended.since(c.pinnedSince)
	if grace > 0 {
		return stepWait, c.pollWithin(grace)
	}
	return stepMint, 0
}

// stale reports whether the last read is too old to fence a holder on: the
// process was paused, or the read was slow, and the holder may have renewed
// since.
func (c *candidate) stale(now moment) bool {
	return now.since(c.last.began) > c.settings.poll
}

func (c *candidate) won(token FencingToken) {
	c.pinned = false
	c.identity.minted = true
	c.identity.learn(token)
}

// fenced takes a mint that another member superseded before its first lease
// was written, and returns how long to stay away. The first time is free: the
// rival may be gone, and its lease is probably in the log.
func (c *candidate) fenced() time.Duration {
	c.fences++
	if c.fences < 2 {
		return 0
	}
	stagger := c.settings.lease.challengeStagger
	backoff := stagger
	if doublings := c.fences - 2; doublings < 32 && c.settings.poll < stagger>>doublings {
		backoff = c.settings.poll << doublings
	}
	backoff = time.Duration(float64(backoff) * (0.5 + c.identity.spread()))
	rank, _ := c.last.state.RankOf(c.member)
	return addExtents(backoff, c.settings.lease.ChallengeDelay(rank)/8)
}

// pollWithin returns the extent until the next read: a jittered poll interval,
// or less when something is due earlier.
func (c *candidate) pollWithin(due time.Duration) time.Duration {
	poll := c.settings.poll
	if c.settings.jitter > 0 {
		poll -= time.Duration(float64(poll) * c.settings.jitter * c.identity.spread())
	}
	return max(min(poll, due), time.Millisecond)
}
