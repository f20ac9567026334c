// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The tests of this file explore every state that a few members and one
// transaction coordinator can reach: every order of requests, every lost
// request and answer, every crash, within bounds. They leave the clocks out. A
// lease and a clock only keep members from a mint, and here every member mints
// whenever it likes.

const (
	protocolMembers = 3
	protocolMints   = 3
	protocolEpochs  = 5
	protocolLog     = 3
)

// protocol says what brokers and members do.
type protocol struct {
	moves    bool // the end of a transaction advances the epoch
	reinit   bool // a member takes a new epoch after an end without an answer, and the broker does not compare the pair
	abortsV5 bool // a member aborts, and the broker answers with the pair it holds
}

// phase is where a member is in its work.
type phase int8

const (
	phaseIdle    phase = iota // no leadership
	phaseMinting              // the mint happened, its answer is under way
	phaseReady                // the next write may begin
	phaseAdded                // the partition is part of the transaction
	phaseWritten              // the record is appended
	phaseAsked                // the end was asked for, and nobody answered
	phaseGone                 // resigned
)

type protocolMember struct {
	phase   phase
	epoch   int8 // of the token
	mint    int8 // the leadership
	resigns bool // the write is the tombstone
}

func (m protocolMember) compare(other protocolMember) int {
	return cmp.Or(cmp.Compare(m.mint, other.mint), cmp.Compare(m.phase, other.phase), cmp.Compare(m.epoch, other.epoch))
}

// protocolRecord is a record of the log.
type protocolRecord struct {
	mint      int8 // of the leadership that wrote it, 0 for none
	tombstone bool
	committed bool
	aborted   bool
}

// protocolState is a state of everything. It is a map key.
type protocolState struct {
	members  [protocolMembers]protocolMember
	log      [protocolLog]protocolRecord
	length   int8
	epoch    int8
	last     int8 // the epoch before the last end, while its owner holds the role, or -1
	mints    int8
	acked    int8 // the highest mint that its owner knows of
	resigned int8 // the highest mint whose resignation succeeded
	open     bool // a transaction
	ending   bool // its markers are not written
	late     int8 // the epoch of a request to end that is still under way, or -1
}

// protocolStep is one move from a state.
type protocolStep struct {
	name string
	next protocolState
}

// broken says which promise a commit in the state breaks, if any.
func (s *protocolState) broken(committed int8) string {
	first := make(map[int8]int8)
	last, tombstones := int8(0), make(map[int8]bool)
	for i, r := range s.log[:s.length] {
		if !r.committed {
			continue
		}
		if r.mint < last {
			return fmt.Sprintf("a record of mint %d follows one of mint %d", r.mint, last)
		}
		if tombstones[r.mint] && !r.tombstone && s.resigned >= r.mint {
			return fmt.Sprintf("a lease of mint %d follows its tombstone", r.mint)
		}
		tombstones[r.mint] = tombstones[r.mint] || r.tombstone
		if _, known := first[r.mint]; !known {
			first[r.mint] = int8(i)
			for other, at := range first {
				if (other < r.mint) != (at < int8(i)) && other != r.mint {
					return fmt.Sprintf("the sequences of mints %d and %d", other, r.mint)
				}
			}
		}
		last = r.mint
	}
	if committed > 0 && committed < s.acked {
		return fmt.Sprintf("mint %d commits after mint %d was acknowledged", committed, s.acked)
	}
	return ""
}

// abort aborts the open transaction.
func (s *protocolState) abort() {
	for i := range s.log[:s.length] {
		if r := &s.log[i]; !r.committed {
			*r = protocolRecord{aborted: true}
		}
	}
	s.open = false
}

// end is the request to commit, under an epoch. It returns the mint whose
// record it commits, and whether the coordinator agrees.
func (s *protocolState) end(p protocol, epoch int8) (committed, next int8, agreed bool) {
	if p.moves && epoch == s.last {
		return 0, s.epoch, true // a repetition
	}
	if epoch != s.epoch || !s.open && p.moves {
		return 0, 0, false
	}
	if s.open {
		for i := range s.log[:s.length] {
			if r := &s.log[i]; !r.committed && !r.aborted {
				r.committed = true
				committed = r.mint
			}
		}
		s.open, s.ending = false, true
		if p.moves {
			s.last = s.epoch
			s.epoch++
		}
	}
	return committed, s.epoch, true
}

// steps returns every move from the state, or what a move breaks.
func (s protocolState) steps(p protocol) (steps []protocolStep, broken string) {
	move := func(name string, m int, committed int8, change func(next *protocolState, own *protocolMember)) {
		next := s
		change(&next, &next.members[m])
		if next.epoch > protocolEpochs {
			return
		}
		// Members differ in nothing but their names.
		slices.SortFunc(next.members[:], protocolMember.compare)
		steps = append(steps, protocolStep{fmt.Sprintf("%s %d", name, m), next})
		if wrong := next.broken(committed); wrong != "" && broken == "" {
			broken = steps[len(steps)-1].name + ": " + wrong
		}
	}
	lose := func(_ *protocolState, own *protocolMember) { *own = protocolMember{} }
	for m, own := range s.members {
		if own.phase != phaseIdle && own.phase != phaseGone {
			move("crash", m, 0, lose)
		}
		switch own.phase {
		case phaseIdle, phaseGone:
			if s.mints == protocolMints || s.ending {
				continue // the brokers ask for patience
			}
			for extra := int8(0); extra <= 1; extra++ {
				if extra == 1 && !s.open {
					continue
				}
				move("mint", m, 0, func(next *protocolState, own *protocolMember) {
					next.abort()
					next.mints++
					next.epoch += 1 + extra
					next.last = -1
					*own = protocolMember{phase: phaseMinting, epoch: next.epoch, mint: next.mints}
				})
			}
		case phaseMinting:
			move("learn", m, 0, func(next *protocolState, own *protocolMember) {
				own.phase = phaseReady
				next.acked = max(next.acked, own.mint)
			})
		case phaseReady:
			if s.ending {
				continue
			}
			if own.epoch != s.epoch {
				move("fenced", m, 0, lose)
				continue
			}
			for _, resigns := range []bool{false, true} {
				move(map[bool]string{false: "add", true: "add to resign"}[resigns], m, 0, func(next *protocolState, own *protocolMember) {
					next.open, own.phase, own.resigns = true, phaseAdded, resigns
				})
			}
		case phaseAdded:
			if own.epoch != s.epoch || !s.open {
				move("fenced", m, 0, lose)
				continue
			}
			if s.length < protocolLog && !(raceEnabled && s.length == 2) {
				move("write", m, 0, func(next *protocolState, own *protocolMember) {
					next.log[next.length] = protocolRecord{mint: own.mint, tombstone: own.resigns}
					next.length++
					own.phase = phaseWritten
				})
			}
		case phaseWritten, phaseAsked:
			after := s
			committed, epoch, agreed := after.end(p, own.epoch)
			if !agreed {
				move("fenced", m, 0, lose)
			} else {
				move("end", m, committed, func(next *protocolState, own *protocolMember) {
					next.end(p, own.epoch)
					if own.resigns {
						next.resigned = max(next.resigned, own.mint)
						*own = protocolMember{phase: phaseGone}
						return
					}
					own.epoch, own.phase = epoch, phaseReady
				})
				move("end without an answer", m, committed, func(next *protocolState, own *protocolMember) {
					next.end(p, own.epoch)
					own.phase = phaseAsked
				})
			}
			if s.late < 0 && own.phase == phaseWritten {
				move("end on its way", m, 0, func(next *protocolState, own *protocolMember) {
					next.late, own.phase = own.epoch, phaseAsked
				})
			}
			if own.phase == phaseAsked && p.reinit && !s.ending {
				move("take a new epoch", m, 0, func(next *protocolState, own *protocolMember) {
					next.abort()
					next.epoch++
					next.last = -1
					own.epoch, own.phase, own.resigns = next.epoch, phaseReady, false
				})
			}
			if own.phase == phaseAsked && p.abortsV5 && own.epoch == s.epoch-1 && !s.open && !s.ending {
				move("abort, and take what is answered", m, 0, func(next *protocolState, own *protocolMember) {
					own.epoch, own.phase = next.epoch, phaseReady
				})
			}
		}
	}
	if s.late >= 0 {
		after := s
		committed, _, _ := after.end(p, s.late)
		move("the late end arrives", 0, committed, func(next *protocolState, _ *protocolMember) {
			next.end(p, next.late)
			next.late = -1
		})
	}
	if s.ending {
		move("markers", 0, 0, func(next *protocolState, _ *protocolMember) { next.ending = false })
	}
	if s.open {
		move("time-out", 0, 0, func(next *protocolState, _ *protocolMember) {
			next.abort()
			next.epoch++
			next.last = -1
		})
	}
	return steps, broken
}

// explore visits every state. It returns their number and the shortest way to
// a broken promise, if there is one.
func (p protocol) explore() (states int, way []string) {
	type arrival struct {
		from protocolState
		step string
	}
	start := protocolState{last: -1, late: -1}
	came := map[protocolState]arrival{start: {}}
	queue := []protocolState{start}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		steps, broken := state.steps(p)
		if broken != "" {
			way = []string{broken}
			for at := state; at != start; at = came[at].from {
				way = append(way, came[at].step)
			}
			slices.Reverse(way)
			return len(came), way
		}
		for _, step := range steps {
			if _, seen := came[step.next]; !seen {
				came[step.next] = arrival{state, step.name}
				queue = append(queue, step.next)
			}
		}
	}
	return len(came), nil
}

// Whatever is lost, late or dead: committed records stand in the order of the
// mints, none commits after a later mint is known to its owner, none follows a
// resignation, and sequences grow.
func TestProtocolKeepsItsPromisesInEveryState(t *testing.T) {
	for name, p := range map[string]protocol{"the epoch stays": {}, "the epoch moves": {moves: true}} {
		states, way := p.explore()
		if way != nil {
			t.Errorf("%s: a promise breaks:\n%s", name, strings.Join(way, "\n"))
		}
		if states < 2_000 {
			t.Errorf("%s: %d states, too few to prove anything", name, states)
		}
		t.Logf("%s: %d states", name, states)
	}
}

// What other clients do after an end without an answer takes the role from
// whoever leads by then.
func TestProtocolBreaksWhereAMemberTakesAnEpochWithoutAMint(t *testing.T) {
	for name, p := range map[string]protocol{
		"a new epoch under a pair that is not compared": {reinit: true},
		"an abort that is answered with the pair":       {moves: true, abortsV5: true},
	} {
		states, way := p.explore()
		if way == nil {
			t.Fatalf("%s: no promise breaks in %d states", name, states)
		}
		if last := way[len(way)-1]; !strings.Contains(last, "commits after mint 2 was acknowledged") {
			t.Errorf("%s: %s", name, last)
		}
		t.Logf("%s:\n%s", name, strings.Join(way, "\n"))
	}
}
