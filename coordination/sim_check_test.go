// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// invariant names a promise that holds in every election, whatever fails.
type invariant string

const (
	// invLogOrder: committed leases carry the tokens of their mints, in order.
	invLogOrder invariant = "leases in the order of the mints"
	// invLateCommit: nothing commits after a later mint was acknowledged.
	invLateCommit invariant = "no commit after a later mint"
	// invDevice: a device takes no command of an earlier leadership.
	invDevice invariant = "no stale command"
	// invAcquired: whoever leads has a committed lease, and no older handle.
	invAcquired invariant = "a lease before the leadership"
	// invDone: Done closes with a reason, and the reason stays.
	invDone invariant = "one reason for the end"
	// invEnds: a rejected, failing or hung holder ends in time.
	invEnds invariant = "a failed holder ends in time"
	// invResigned: a resigned handle makes no call any more.
	invResigned invariant = "silence after the resignation"
	// invCalm: nobody mints beside a holder that renews.
	invCalm invariant = "no mint beside a holder"
	// invFresh: nobody mints on an old look at the role.
	invFresh invariant = "no mint on an old state"
	// invLiveness: once the faults are over, one member leads, soon.
	invLiveness invariant = "a leader in time"
	// invRegisters: a member registers once, and again when it was removed.
	invRegisters invariant = "one registration"
	// invToken: the token of a holder is the pair of the coordinator.
	invToken invariant = "the token of the coordinator"
	// invDescribed: an authoritative token was the newest during the call.
	invDescribed invariant = "authoritative means newest"
	// invRead: a read is what was committed below some stable offset.
	invRead invariant = "a read is a committed prefix"
	// invSequence: sequences grow from leadership to leadership.
	invSequence invariant = "sequences grow"
	// invLease: the grant instant never moves back, and the lease of a handle
	// is the last acknowledged one.
	invLease invariant = "the lease moves forward"
	// invQuick: no loop runs hot.
	invQuick invariant = "no hot loop"
	// invLinear: guarded writes are linearizable.
	invLinear invariant = "linearizable writes"
	// invHarness: the simulation itself does what it means to.
	invHarness invariant = "the simulation works"
)

// simChecker holds what a simulation has to fulfil, and what happened so far.
// That nothing is left running at the end is the bubble's to find out.
// The cluster reports to it under its own mutex, so the checker never calls
// the cluster.
type simChecker struct {
	world  *simWorld
	events chan struct{} // something happened since the last look

	mu       sync.Mutex // guards the fields below
	problems []string
	trace    []string
	mints    map[coordination.Role][]simMint // by number of the mint, from 1
	pairs    map[coordination.Role][]simPair
	commits  map[coordination.Role]simCommit
	handles  []*simHandle
	ops      []porcupine.Operation
	admitted map[coordination.Role]int     // the highest mint whose command a device took
	byPair   map[coordination.Role]int     // the same at a device that compares tokens
	regress  int                           // stale commands that such a device took
	removed  map[coordination.MemberID]int // registrations that somebody removed
	ledger   []coordination.StateRecord    // what was committed to the coordination partition
	met      map[string]int                // how often something of note happened
}

type simMint struct {
	token coordination.FencingToken
	at    time.Duration
	acked time.Duration // when its owner learnt of it
	ended time.Duration // when the pair was superseded
}

// simPair is a pair of the coordinator and the time it held.
type simPair struct {
	token    coordination.FencingToken
	mint     int
	from, to time.Duration
}

// simCommit is the committed lease of a role with the highest offset.
type simCommit struct {
	offset   int64
	mint     int // that its token names
	deadline int64
	granted  map[int]int64 // the last grant instant of each mint
}

// simHandle is a leadership as its owner sees it.
type simHandle struct {
	*coordination.Leadership
	process  *simProcess
	engine   *simEngine
	since    time.Duration
	err      error
	resigned bool // Resign returned nil
}

const never = time.Duration(math.MaxInt64)

func newSimChecker(w *simWorld) *simChecker {
	return &simChecker{
		world: w, events: make(chan struct{}, 1),
		mints:    make(map[coordination.Role][]simMint),
		pairs:    make(map[coordination.Role][]simPair),
		commits:  make(map[coordination.Role]simCommit),
		admitted: make(map[coordination.Role]int),
		byPair:   make(map[coordination.Role]int),
		removed:  make(map[coordination.MemberID]int),
		met:      make(map[string]int),
	}
}

// wrong records a broken invariant.
func (c *simChecker) wrong(inv invariant, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrongLocked(inv, format, args...)
}

func (c *simChecker) wrongLocked(inv invariant, format string, args ...any) {
	if len(c.problems) < 10 {
		c.problems = append(c.problems, fmt.Sprintf("%v: [%s] ", c.world.now(), inv)+fmt.Sprintf(format, args...))
	}
}

func (c *simChecker) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *simChecker) noteLocked(format string, args ...any) {
	if c.world.traced {
		c.trace = append(c.trace, fmt.Sprintf("%v ", c.world.now())+fmt.Sprintf(format, args...))
	}
}

// meet counts something of note.
func (c *simChecker) meet(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met[what]++
}

// happened makes the checker look at the handles once all is quiet.
func (c *simChecker) happened() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// look checks the handles after every event, until the world is over.
func (c *simChecker) look() {
	for {
		select {
		case <-c.events:
			synctest.Wait()
			c.inspect()
		case <-c.world.over:
			return
		}
	}
}

// minted runs at the coordinator.
func (c *simChecker) minted(role coordination.Role, mint int, token coordination.FencingToken, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("mint %d of %s is %s", mint, role, token)
	if last := mint - 1; last > 0 && c.mints[role][last-1].ended == never {
		if _, led := c.commits[role].granted[last]; !led {
			c.met[metDuel]++
		}
	}
	c.supersede(role, at)
	c.pairs[role][len(c.pairs[role])-1].mint = mint
	c.mints[role] = append(c.mints[role], simMint{token: token, at: at, acked: never, ended: never})
	c.ops = append(c.ops, porcupine.Operation{
		Input: simInput{role: role, kind: simOpMint, mint: mint}, Call: int64(at), Return: int64(at),
	})
}

// mintsOn runs when a process sends a request to mint, of whatever it knows about
// the role.
func (c *simChecker) mintsOn(p *simProcess, role coordination.Role) {
	p.mu.Lock()
	looked, resumed := p.looked, p.resumed
	p.mu.Unlock()
	if age := c.world.now() - looked; age > simPoll && resumed < looked {
		c.wrong(invFresh, "%s mints an epoch of %s, which it looked at %v before", p.name, role, age)
	}
}

// bumped runs when the coordinator moves the pair on by itself.
func (c *simChecker) bumped(role coordination.Role, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("the coordinator supersedes %s", role)
	c.supersede(role, at)
	c.ops = append(c.ops, porcupine.Operation{
		Input: simInput{role: role, kind: simOpMint, mint: -1}, Call: int64(at), Return: int64(at),
	})
}

func (c *simChecker) supersede(role coordination.Role, at time.Duration) {
	if mints := c.mints[role]; len(mints) > 0 && mints[len(mints)-1].ended == never {
		mints[len(mints)-1].ended = at
	}
}

// moved runs when the pair of a role changes at the coordinator.
func (c *simChecker) moved(role coordination.Role, token coordination.FencingToken, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pairs := c.pairs[role]; len(pairs) > 0 {
		last := &pairs[len(pairs)-1]
		last.to = at
		switch {
		case token.ProducerID() == last.token.ProducerID():
		case last.token.Supersedes(token):
			c.met[metSmallerID]++
		default:
			c.met[metRotation]++
		}
	}
	c.pairs[role] = append(c.pairs[role], simPair{token: token, mint: len(c.mints[role]), from: at, to: never})
}

// mintOf returns the mint that a token belongs to, or -1.
func (c *simChecker) mintOf(role coordination.Role, token coordination.FencingToken) int {
	for _, pair := range c.pairs[role] {
		if pair.token == token {
			return pair.mint
		}
	}
	return -1
}

// acknowledged runs when the owner of a mint learns of it.
func (c *simChecker) acknowledged(role coordination.Role, mint int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mints[role][mint-1].acked = c.world.now()
}

// appended runs at the log for a record outside a transaction.
func (c *simChecker) appended(part coordination.TopicPartition, entry *simEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(part, entry)
}

func (c *simChecker) record(part coordination.TopicPartition, entry *simEntry) {
	if part == c.world.at {
		c.ledger = append(c.ledger, coordination.StateRecord{Offset: entry.offset, Key: entry.key, Value: entry.value})
	}
}

// committedOnly checks a read behind open transactions: every record was
// committed.
func (c *simChecker) committedOnly(part coordination.TopicPartition, records []coordination.StateRecord) {
	if part != c.world.at {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	written := make(map[int64]coordination.StateRecord, len(c.ledger))
	for _, r := range c.ledger {
		written[r.Offset] = r
	}
	for _, r := range records {
		if w, known := written[r.Offset]; !known || string(w.Key) != string(r.Key) || string(w.Value) != string(r.Value) {
			c.wrongLocked(invRead, "a read returned the record at offset %d, which was not committed", r.Offset)
		}
	}
}

// returned checks a read of the coordination partition: every record was
// committed, and up to the last one the newest of each key is there.
func (c *simChecker) returned(part coordination.TopicPartition, records []coordination.StateRecord) {
	if part != c.world.at || len(records) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := int64(-1)
	got := make(map[int64]coordination.StateRecord, len(records))
	for _, r := range records {
		if r.Offset <= last {
			c.wrongLocked(invRead, "a read returned offset %d after %d", r.Offset, last)
		}
		last = max(last, r.Offset)
		got[r.Offset] = r
	}
	newest := make(map[string]int64, len(records))
	known := 0
	for _, r := range c.ledger {
		if r.Offset > last {
			continue
		}
		newest[string(r.Key)] = max(newest[string(r.Key)], r.Offset)
		if g, there := got[r.Offset]; there && string(g.Key) == string(r.Key) && string(g.Value) == string(r.Value) {
			known++
		}
	}
	if known != len(records) {
		c.wrongLocked(invRead, "a read returned %d records, %d of them were committed", len(records), known)
	}
	for _, offset := range newest {
		if _, there := got[offset]; !there {
			c.wrongLocked(invRead, "a read up to offset %d leaves out the newest record of a key, at %d", last, offset)
		}
	}
}

// committed runs at the coordinator for every record of a committed
// transaction: commits follow the order of the mints, none comes after a
// later mint was acknowledged, and the grant instant never moves back.
func (c *simChecker) committed(part coordination.TopicPartition, entry *simEntry, log *simLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("commit %s@%d of mint %d of %s", part, entry.offset, entry.mint, entry.role)
	c.record(part, entry)
	for _, other := range log.entries {
		if other.role != entry.role || other.mint == 0 || other.open || other.aborted {
			continue
		}
		if (other.offset < entry.offset) != (other.mint <= entry.mint) && other.mint != entry.mint {
			c.wrongLocked(invLogOrder, "%s: record %d of mint %d committed beside record %d of mint %d", part, entry.offset, entry.mint, other.offset, other.mint)
		}
	}
	for later := entry.mint + 1; later <= len(c.mints[entry.role]); later++ {
		if c.mints[entry.role][later-1].acked <= c.world.now() {
			c.wrongLocked(invLateCommit, "%s: mint %d commits after mint %d was acknowledged", part, entry.mint, later)
		}
	}
	key, err := coordination.DecodeKey(entry.key)
	if err != nil || key.Kind != coordination.KindLease {
		return
	}
	if entry.value == nil {
		return
	}
	lease, err := coordination.DecodeLease(entry.value)
	if err != nil {
		c.wrongLocked(invHarness, "lease at %d: %v", entry.offset, err)
		return
	}
	last := c.commits[entry.role]
	if last.granted == nil {
		last.granted = make(map[int]int64)
	}
	mint := c.mintOf(entry.role, lease.Token)
	if mint != entry.mint || (mint < last.mint) == (entry.offset > last.offset) && mint != last.mint {
		c.wrongLocked(invLogOrder, "the lease at %d carries token %s of mint %d, mint %d writes it beside one of mint %d at %d",
			entry.offset, lease.Token, mint, entry.mint, last.mint, last.offset)
	}
	switch granted, renewed := last.granted[mint]; {
	case !renewed:
	case lease.GrantedAt < granted:
		c.wrongLocked(invLease, "mint %d: granted at %d after %d", mint, lease.GrantedAt, granted)
	case mint == last.mint && lease.GrantedAt >= last.deadline:
		c.met[metLateRenewal]++
	}
	last.granted[mint] = lease.GrantedAt
	if entry.offset > last.offset {
		last.offset, last.mint, last.deadline = entry.offset, mint, lease.Deadline
	}
	c.commits[entry.role] = last
}

// called counts the calls of a process: no loop runs hot.
func (c *simChecker) called(p *simProcess, kind string) {
	interval, limit := int64(c.world.now()/simPoll), 50*len(c.world.roles)
	p.mu.Lock()
	if interval != p.interval {
		p.interval, p.calls = interval, 0
	}
	p.calls++
	hot := p.calls == limit
	p.mu.Unlock()
	if hot {
		c.wrong(invQuick, "process %s makes its %dth call within one poll interval, a %s", p.name, limit, kind)
	}
}

// writing runs when something is about to be written under an epoch: a
// resigned handle writes nothing any more.
func (c *simChecker) writing(e *simEngine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handles {
		if h.engine == e && h.resigned {
			c.wrongLocked(invResigned, "mint %d of %s writes after its resignation succeeded", e.mint, e.role)
		}
	}
}

// acquired adds a handle: its lease is committed under its token, and no
// earlier handle of the role is left on its transport.
func (c *simChecker) acquired(p *simProcess, l *coordination.Leadership) *simHandle {
	e := p.engine(l.MintedToken())
	h := &simHandle{Leadership: l, process: p, engine: e, since: c.world.now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("%s leads %s as mint %d, sequence %d", p.name, l.Role(), e.mint, l.Sequence())
	if _, committed := c.commits[l.Role()].granted[e.mint]; !committed {
		c.wrongLocked(invAcquired, "mint %d of %s leads without a committed lease", e.mint, l.Role())
	}
	for _, other := range c.handles {
		if other.Role() != l.Role() {
			continue
		}
		if other.engine.mint < e.mint && other.Sequence() >= l.Sequence() || other.engine.mint > e.mint && other.Sequence() <= l.Sequence() {
			c.wrongLocked(invSequence, "sequences %d of mint %d and %d of mint %d", other.Sequence(), other.engine.mint, l.Sequence(), e.mint)
		}
	}
	c.handles = append(c.handles, h)
	return h
}

// resignation notes that Resign returned nil.
func (c *simChecker) resignation(h *simHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("%s resigned mint %d of %s", h.process.name, h.engine.mint, h.Role())
	h.resigned = h.resigned || errors.Is(h.Err(), coordination.ErrNotHeld)
}

// inspect looks at every handle while nothing else runs.
func (c *simChecker) inspect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.world.now()
	for i, h := range c.handles {
		err := h.Err()
		select {
		case <-h.Done():
			if err == nil {
				c.wrongLocked(invDone, "mint %d is done without a reason", h.engine.mint)
			}
		default:
			if err != nil {
				c.wrongLocked(invDone, "mint %d has reason %v and is not done", h.engine.mint, err)
			}
		}
		if h.err != nil && err != h.err {
			c.wrongLocked(invDone, "mint %d changed its reason from %v to %v", h.engine.mint, h.err, err)
		}
		if h.err == nil && err != nil {
			c.met[endOf(err)]++
			c.noteLocked("mint %d ends: fenced %t, expired %t, resigned %t", h.engine.mint, errors.Is(err, coordination.ErrFenced),
				errors.Is(err, coordination.ErrLeaseExpired), errors.Is(err, coordination.ErrNotHeld))
		}
		h.err = err
		if err != nil {
			continue
		}
		for _, other := range c.handles[:i] {
			if other.process == h.process && other.Role() == h.Role() && other.Err() == nil {
				c.wrongLocked(invAcquired, "mints %d and %d of %s are both held by %s", other.engine.mint, h.engine.mint, h.Role(), h.process.name)
			}
		}
		h.engine.mu.Lock()
		acked, taken, current, writing, unsettled := h.engine.acked, h.engine.taken, h.engine.current, h.engine.writing, h.engine.unsettled
		h.engine.mu.Unlock()
		running, since := h.process.state()
		if !running {
			continue
		}
		// A renewal that fails or hangs ends the handle one tick after the
		// deadline, or after the one attempt of a process that was paused or
		// waited long for its first lease.
		if latest := max(taken+simLease, since+simPoll, h.since+simPoll) + simPoll + 100*time.Millisecond; now > latest {
			c.wrongLocked(invEnds, "mint %d of %s is held at %v, the lease taken at %v is over", h.engine.mint, h.Role(), now, taken)
		}
		if writing > 0 {
			continue
		}
		if lease := coordination.EncodeLease(h.Lease()); string(lease) != string(acked) {
			c.wrongLocked(invLease, "mint %d of %s shows lease %x, acknowledged is %x", h.engine.mint, h.Role(), lease, acked)
		}
		if h.Token() != current {
			c.wrongLocked(invToken, "mint %d of %s shows token %s, its writes go out under %s", h.engine.mint, h.Role(), h.Token(), current)
		}
		pairs, mints := c.pairs[h.Role()], c.mints[h.Role()]
		newest := h.engine.mint == len(mints) && mints[len(mints)-1].ended == never
		if pair := pairs[len(pairs)-1]; newest && !unsettled && h.Token() != pair.token {
			c.wrongLocked(invToken, "mint %d of %s shows token %s, the coordinator holds %s", h.engine.mint, h.Role(), h.Token(), pair.token)
		}
	}
}

func endOf(err error) string {
	switch {
	case errors.Is(err, coordination.ErrFenced):
		return metFenced
	case errors.Is(err, coordination.ErrLeaseExpired):
		return metExpired
	case errors.Is(err, coordination.ErrNotHeld):
		return metResigned
	}
	return metClosed
}

// command takes a command at a device: the guard took it, or not, and so did a
// device that compares tokens alone.
func (c *simChecker) command(h *simHandle, took, tookByPair bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	role, mint := h.Role(), h.engine.mint
	if took {
		if mint < c.admitted[role] {
			c.wrongLocked(invDevice, "a device took a command of mint %d of %s after one of mint %d", mint, role, c.admitted[role])
		}
		c.admitted[role] = max(mint, c.admitted[role])
	} else {
		c.met[metStaleCommand]++
	}
	if tookByPair {
		if mint < c.byPair[role] {
			c.regress++
		}
		c.byPair[role] = max(mint, c.byPair[role])
	}
}

// described checks that a token that was called authoritative was the newest
// at some instant of the call.
func (c *simChecker) described(role coordination.Role, token coordination.FencingToken, from, to time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pair := range c.pairs[role] {
		if pair.token == token && pair.from <= to && pair.to >= from {
			return
		}
	}
	c.wrongLocked(invDescribed, "token %s of %s was authoritative between %v and %v", token, role, from, to)
}

// The operations of a register that a role guards, for the linearizability
// check: its value is what the holder of the newest mint wrote last.
type simOpKind int

const (
	simOpMint simOpKind = iota
	simOpWrite
	simOpRead
)

type simInput struct {
	role  coordination.Role
	kind  simOpKind
	mint  int
	value string
}

type simOutcome int

const (
	simWritten simOutcome = iota
	simRefused
	simUnknown
	simUnsent // not written, for a reason of the client
)

type simRegister struct {
	newest int
	value  string
}

var simModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRole := make(map[coordination.Role][]porcupine.Operation)
		for _, op := range history {
			role := op.Input.(simInput).role
			byRole[role] = append(byRole[role], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byRole {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return simRegister{} },
	Step: func(state, input, output any) (bool, any) {
		s, in := state.(simRegister), input.(simInput)
		switch in.kind {
		case simOpMint:
			s.newest = in.mint
			return true, s
		case simOpRead:
			return s.value == in.value, s
		}
		switch held := s.newest == in.mint; output.(simOutcome) {
		case simWritten:
			s.value = in.value
			return held, s
		case simRefused:
			return !held, s
		case simUnsent:
			return true, s
		default:
			if held {
				s.value = in.value
			}
			return true, s
		}
	},
}

// write records that a guarded write begins. Until its end is known, it may
// take effect before its mint is superseded, or never.
func (c *simChecker) write(role coordination.Role, mint int, value string) (op int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, porcupine.Operation{
		Input: simInput{role: role, kind: simOpWrite, mint: mint, value: value}, Output: simUnknown,
		Call: int64(c.world.now()), Return: math.MaxInt64,
	})
	return len(c.ops) - 1
}

// wrote records the end of a guarded write. A member that did not hear that a
// transaction of its own moved the pair is refused under the token that it
// knows, although nobody superseded it.
func (c *simChecker) wrote(op int, known coordination.FencingToken, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.ops[op].Input.(simInput)
	pair := c.pairs[in.role][len(c.pairs[in.role])-1]
	c.noteLocked("write %+v: failed %t", c.ops[op].Input, err != nil)
	switch {
	case errors.Is(err, coordination.ErrOutcomeUnknown):
		c.met[metUnknownOutcome]++
		return
	case err == nil:
		c.ops[op].Output = simWritten
	case errors.Is(err, coordination.ErrFenced) && !errors.Is(err, coordination.ErrNotHeld):
		c.met[metFencedWrite]++
		c.ops[op].Output = simRefused
		if pair.mint == in.mint && pair.token != known {
			c.ops[op].Output = simUnsent
		}
	default:
		c.ops[op].Output = simUnsent
	}
	c.ops[op].Return = int64(c.world.now())
}

// read records what a reader of all committed records saw.
func (c *simChecker) read(role coordination.Role, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := int64(c.world.now())
	c.noteLocked("read %q of %s", value, role)
	c.ops = append(c.ops, porcupine.Operation{Input: simInput{role: role, kind: simOpRead, value: value}, Call: now, Return: now})
}

// linearizable checks the history of guarded writes.
func (c *simChecker) linearizable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ops {
		in := c.ops[i].Input.(simInput)
		if c.ops[i].Return == math.MaxInt64 {
			c.ops[i].Return = int64(max(c.mints[in.role][in.mint-1].ended, time.Duration(c.ops[i].Call)))
		}
	}
	if result := porcupine.CheckOperationsTimeout(simModel, c.ops, 5*time.Second); result == porcupine.Illegal {
		c.wrongLocked(invLinear, "the history of %d guarded operations is not linearizable", len(c.ops))
	}
}

// registrations checks that members register once, and again only after they
// were removed or their registration did not show for long.
func (c *simChecker) registrations(p *simProcess, id coordination.MemberID, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := max(simLease, 10*simPoll)
	if allowed := len(c.world.roles)*int(1+c.world.now()/lag) + c.removed[id]; count > allowed {
		c.wrongLocked(invRegisters, "%s registered %d times, at most %d are due", p.name, count, allowed)
	}
}

func (c *simChecker) deregistered(id coordination.MemberID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed[id]++
}

// mintsSoFar counts the mints of the simulated roles.
func (c *simChecker) mintsSoFar() int { return c.mintsSince(-1) }

func (c *simChecker) mintsSince(since time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, role := range c.world.roles {
		for _, mint := range c.mints[role] {
			if mint.at > since {
				count++
			}
		}
	}
	return count
}

// led reports whether every role has exactly one handle that holds, and its
// mint is the newest.
func (c *simChecker) led() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, role := range c.world.roles {
		held := 0
		for _, h := range c.handles {
			running, _ := h.process.state()
			if running && h.Role() == role && h.Err() == nil {
				held++
				if h.engine.mint != len(c.mints[role]) {
					return false
				}
			}
		}
		if held != 1 {
			return false
		}
	}
	return true
}

// holds reports whether a process holds a role.
func (c *simChecker) holds(p *simProcess) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.handles, func(h *simHandle) bool { return h.process == p && h.Err() == nil })
}

// anyHandle returns one of the last handles.
func (c *simChecker) anyHandle(random *rand.Rand) *simHandle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.handles) == 0 {
		return nil
	}
	return c.handles[len(c.handles)-1-random.IntN(min(3, len(c.handles)))]
}
