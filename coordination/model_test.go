// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// modelRecord is a record in the terms of the model: who, what, where.
type modelRecord struct {
	member    int // -1 for the lease key
	tombstone bool
	value     int64 // registration instant or deadline
	holder    int   // of a lease
}

// modelState is the succession rules once more, written for reading: a log of
// plain values, scanned from its end.
type modelState []modelRecord

// last returns the newest record of a key, and its offset.
func (s modelState) last(member int) (modelRecord, int) {
	for offset := len(s) - 1; offset >= 0; offset-- {
		if s[offset].member == member {
			return s[offset], offset
		}
	}
	return modelRecord{tombstone: true}, -1
}

// rank counts the registered members before this one, without the holder.
func (s modelState) rank(member int) (int, bool) {
	own, at := s.last(member)
	if own.tombstone {
		return 0, false
	}
	lease, _ := s.last(-1)
	if !lease.tombstone && lease.holder == member {
		return 0, true
	}
	rank := 0
	for other := range modelMembers {
		entry, offset := s.last(other)
		if !entry.tombstone && offset < at && (lease.tombstone || lease.holder != other) {
			rank++
		}
	}
	return rank, true
}

func (s modelState) evaluate(member int, now, stagger int64) coordination.Decision {
	rank, registered := s.rank(member)
	if !registered {
		return notRegistered
	}
	lease, _ := s.last(-1)
	anchor := lease.value
	if lease.tombstone {
		own, _ := s.last(member)
		anchor = own.value
	} else if lease.holder == member && now < lease.value {
		return hold
	}
	if due := anchor + int64(rank)*stagger; now < due {
		return wait(due)
	}
	return challenge
}

const modelMembers = 4

// Every log of up to five records over the registrations of four members, two
// deregistrations and five kinds of lease, at every instant where a decision
// can change.
func TestRulesMatchTheModelExhaustively(t *testing.T) {
	const stagger, deadline = 5, 30
	controller := role(t, "controller")
	config := leaseConfig(t, 30e6, 10e6, stagger*1e6)
	var members [modelMembers]coordination.MemberID
	for i := range members {
		members[i] = member(t, fmt.Sprintf("n%d", i))
	}
	var alphabet []modelRecord
	for m := range modelMembers {
		alphabet = append(alphabet, modelRecord{member: m, value: int64(3 * m)})
	}
	for m := range modelMembers / 2 {
		alphabet = append(alphabet, modelRecord{member: m, tombstone: true})
	}
	alphabet = append(alphabet, modelRecord{member: -1, tombstone: true})
	for holder := range modelMembers {
		alphabet = append(alphabet, modelRecord{member: -1, holder: holder, value: deadline})
	}

	encode := func(offset int, r modelRecord) coordination.StateRecord {
		record := coordination.StateRecord{Offset: int64(offset)}
		if r.member < 0 {
			record.Key = coordination.EncodeKey(coordination.LeaseKey(controller))
			if !r.tombstone {
				record.Value = coordination.EncodeLease(coordination.Lease{Member: members[r.holder], Deadline: r.value})
			}
			return record
		}
		record.Key = coordination.EncodeKey(coordination.RegistrationKey(controller, members[r.member]))
		if !r.tombstone {
			record.Value = coordination.EncodeRegistration(coordination.Registration{Member: members[r.member], RegisteredAt: r.value})
		}
		return record
	}

	instants := []int64{-1, 0}
	for _, anchor := range []int64{0, 3, 6, 9, deadline} {
		for rank := range int64(modelMembers) {
			instants = append(instants, anchor+rank*stagger-1, anchor+rank*stagger)
		}
	}
	checked := 0
	check := func(log modelState, records []coordination.StateRecord) {
		state := build(t, controller, records...)
		for m, id := range members {
			wantRank, wantRegistered := log.rank(m)
			if rank, registered := state.RankOf(id); rank != wantRank || registered != wantRegistered {
				t.Fatalf("log %+v: rank of n%d is %d, %t, want %d, %t", log, m, rank, registered, wantRank, wantRegistered)
			}
			for _, now := range instants {
				got, want := coordination.Evaluate(state, id, now, config), log.evaluate(m, now, stagger)
				if got != want {
					t.Fatalf("log %+v: n%d at %d: %+v, want %+v", log, m, now, got, want)
				}
				if got.Action == coordination.ActionWait && got.WaitUntil <= now {
					t.Fatalf("log %+v: n%d at %d waits until %d", log, m, now, got.WaitUntil)
				}
				checked++
			}
		}
	}
	length := 5
	if raceEnabled {
		length = 3
	}
	var extend func(log modelState, records []coordination.StateRecord)
	extend = func(log modelState, records []coordination.StateRecord) {
		check(log, records)
		if len(log) == length {
			return
		}
		for _, next := range alphabet {
			extend(append(log[:len(log):len(log)], next), append(records[:len(records):len(records)], encode(len(log), next)))
		}
	}
	extend(nil, nil)
	t.Logf("%d decisions", checked)
}

func TestHolderOutsideTheModelledRosterIsStillTheHolder(t *testing.T) {
	r := records{t, role(t, "controller")}
	state := build(t, r.role, r.lease("n9", 1, 5))
	holder, held := state.Holder()
	if diff := cmp.Diff([]any{"n9", true}, []any{holder.String(), held}); diff != "" {
		t.Errorf("holder mismatch (-want +got):\n%s", diff)
	}
}
