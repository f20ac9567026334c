// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// records builds log records of one role.
type records struct {
	tb   testing.TB
	role coordination.Role
}

func (r records) registration(name string, offset, registeredAt int64) coordination.StateRecord {
	r.tb.Helper()
	m := member(r.tb, name)
	return coordination.StateRecord{
		Offset: offset,
		Key:    coordination.EncodeKey(coordination.RegistrationKey(r.role, m)),
		Value:  coordination.EncodeRegistration(coordination.Registration{Member: m, RegisteredAt: registeredAt}),
	}
}

func (r records) deregistration(name string, offset int64) coordination.StateRecord {
	r.tb.Helper()
	record := r.registration(name, offset, 0)
	record.Value = nil
	return record
}

func (r records) lease(name string, offset, deadline int64) coordination.StateRecord {
	r.tb.Helper()
	return coordination.StateRecord{
		Offset: offset,
		Key:    coordination.EncodeKey(coordination.LeaseKey(r.role)),
		Value: coordination.EncodeLease(coordination.Lease{
			Member: member(r.tb, name), Token: token(r.tb, 11, 1), Deadline: deadline,
		}),
	}
}

func (r records) noLease(offset int64) coordination.StateRecord {
	return coordination.StateRecord{Offset: offset, Key: coordination.EncodeKey(coordination.LeaseKey(r.role)), Value: []byte{}}
}

func build(tb testing.TB, role coordination.Role, records ...coordination.StateRecord) coordination.RoleState {
	tb.Helper()
	state, err := coordination.BuildRoleState(role, records)
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

func names(state coordination.RoleState) []string {
	order := make([]string, 0, len(state.Roster))
	for _, entry := range state.Roster {
		order = append(order, entry.Member.String())
	}
	return order
}

func TestRosterIsInOffsetOrder(t *testing.T) {
	r := records{t, role(t, "controller")}
	input := []coordination.StateRecord{
		r.registration("node-3", 30, 300), r.registration("node-1", 10, 100), r.registration("node-2", 20, 200),
	}
	state := build(t, r.role, input...)
	want := []coordination.RosterEntry{
		{Member: member(t, "node-1"), Offset: 10, RegisteredAt: 100},
		{Member: member(t, "node-2"), Offset: 20, RegisteredAt: 200},
		{Member: member(t, "node-3"), Offset: 30, RegisteredAt: 300},
	}
	if diff := cmp.Diff(want, state.Roster, equateValues); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}

	state = build(t, r.role, append(input, r.registration("node-1", 40, 400))...)
	if diff := cmp.Diff([]string{"node-2", "node-3", "node-1"}, names(state)); diff != "" {
		t.Errorf("roster after node-1 came back mismatch (-want +got):\n%s", diff)
	}
	if rank, registered := state.RankOf(member(t, "node-1")); rank != 2 || !registered {
		t.Errorf("rank of node-1 is %d, %t, want 2", rank, registered)
	}
}

func TestNewestRecordOfAKeyWinsInAnyOrder(t *testing.T) {
	r := records{t, role(t, "controller")}
	all := []coordination.StateRecord{
		r.registration("node-1", 10, 100), r.deregistration("node-1", 20),
		r.registration("node-2", 30, 300), r.deregistration("node-2", 40), r.registration("node-2", 50, 500),
		r.lease("node-1", 15, 1), r.noLease(25), r.lease("node-2", 60, 2),
	}
	want := build(t, r.role, all...)
	if diff := cmp.Diff([]string{"node-2"}, names(want)); diff != "" || want.Lease == nil || want.Lease.Deadline != 2 {
		t.Fatalf("state %+v", want)
	}
	for i := range all {
		for j := range all {
			shuffled := slices.Clone(all)
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
			slices.Reverse(shuffled)
			if diff := cmp.Diff(want, build(t, r.role, shuffled...), equateValues); diff != "" {
				t.Fatalf("order %d %d mismatch (-want +got):\n%s", i, j, diff)
			}
		}
	}
}

func TestTombstonesOfTheFold(t *testing.T) {
	r := records{t, role(t, "controller")}
	if state := build(t, r.role, r.deregistration("node-1", 20), r.registration("node-1", 10, 100)); len(state.Roster) != 0 {
		t.Errorf("a registration below its tombstone revived %v", names(state))
	}
	if state := build(t, r.role, r.noLease(20), r.lease("node-1", 10, 1)); state.Lease != nil {
		t.Errorf("a lease below its tombstone revived %v", state.Lease)
	}
	if state := build(t, r.role, r.lease("node-2", 20, 2), r.noLease(10), r.lease("node-1", 5, 1)); state.Lease == nil || state.Lease.Member != member(t, "node-2") {
		t.Errorf("an older lease won: %v", state.Lease)
	}
	// Of two records at one offset, the first applied stays.
	if state := build(t, r.role, r.registration("node-1", 10, 1), r.registration("node-1", 10, 2)); state.Roster[0].RegisteredAt != 1 {
		t.Errorf("the second record at an offset won: %v", state.Roster)
	}
}

func TestTiesOfTheRosterBreakByMember(t *testing.T) {
	r := records{t, role(t, "controller")}
	for range 20 {
		state := build(t, r.role, r.registration("c", 1, 0), r.registration("a", 1, 0), r.registration("b", 1, 0))
		if diff := cmp.Diff([]string{"a", "b", "c"}, names(state)); diff != "" {
			t.Fatalf("roster mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestFoldDropsOtherRoles(t *testing.T) {
	r, other := records{t, role(t, "controller")}, records{t, role(t, "dispatcher")}
	foreign := other.registration("node-9", 5, 0)
	foreign.Value = []byte("not a registration")
	builder := coordination.NewRoleStateBuilder(r.role)
	if builder.Role() != r.role {
		t.Errorf("Role() = %s", builder.Role())
	}
	for _, record := range []coordination.StateRecord{foreign, other.lease("node-9", 6, 1), r.registration("node-1", 7, 0)} {
		if err := builder.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"node-1"}, names(builder.Build())); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}
}

func TestFoldReportsMalformedRecords(t *testing.T) {
	r := records{t, role(t, "controller")}
	badKey, badRegistration, badLease := r.registration("node-1", 7, 0), r.registration("node-1", 8, 0), r.lease("node-1", 9, 0)
	badKey.Key = nil
	badRegistration.Value = []byte{0, 7, 0, 0}
	badLease.Value = append(badLease.Value, 0)
	cases := []struct {
		record coordination.StateRecord
		part   string
		want   string
	}{
		{badKey, "key", "coordination: record at offset 7: malformed key: truncated in the version: 2 bytes needed, 0 left ()"},
		{badRegistration, "registration value", "coordination: record at offset 8: malformed registration value: unsupported record version 7 (00070000)"},
		{badLease, "lease value", "trailing bytes: 1 after the last field"},
		{badLease, "lease value", "..., 37 bytes)"},
	}
	for _, c := range cases {
		state, err := coordination.BuildRoleState(r.role, []coordination.StateRecord{r.registration("node-2", 1, 0), c.record})
		checkMalformed(t, c.part, c.want, err)
		if len(state.Roster) != 0 {
			t.Errorf("a failed fold returned %v", names(state))
		}
		var format *coordination.FormatError
		if errors.As(err, &format); strings.Contains(format.Error(), "offset") {
			t.Errorf("the part error %q repeats the record", format)
		}
	}
}

func TestBuiltStateIsTheCallers(t *testing.T) {
	r := records{t, role(t, "controller")}
	builder := coordination.NewRoleStateBuilder(r.role)
	empty := builder.Build()
	if empty.Roster == nil || len(empty.Roster) != 0 || empty.Lease != nil {
		t.Errorf("an empty fold built %+v, want an empty roster that is not nil", empty)
	}
	for _, record := range []coordination.StateRecord{r.registration("node-1", 1, 10), r.lease("node-1", 2, 20)} {
		if err := builder.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	first := builder.Build()
	first.Lease.Deadline = 99
	if again := builder.Build(); again.Lease.Deadline == 99 {
		t.Errorf("a change of a built state shows in the next one: %+v", again.Lease)
	}
	for _, record := range []coordination.StateRecord{r.registration("node-2", 3, 30), r.noLease(4)} {
		if err := builder.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	second := builder.Build()
	if diff := cmp.Diff([]string{"node-1"}, names(first)); diff != "" || first.Lease == nil {
		t.Errorf("a later record changed the state that was built before: %+v", first)
	}
	if diff := cmp.Diff([]string{"node-1", "node-2"}, names(second)); diff != "" || second.Lease != nil {
		t.Errorf("the fold did not go on after Build: %+v", second)
	}
}

func TestZeroRoleStateIsUsable(t *testing.T) {
	var state coordination.RoleState
	if _, found := state.Entry(member(t, "node-1")); found {
		t.Error("the zero state has an entry")
	}
	if holder, held := state.Holder(); held || holder != (coordination.MemberID{}) {
		t.Errorf("the zero state has holder %s", holder)
	}
	if rank, registered := state.RankOf(member(t, "node-1")); rank != 0 || registered {
		t.Errorf("the zero state ranks a member %d", rank)
	}
}

func TestRanks(t *testing.T) {
	r := records{t, role(t, "controller")}
	roster := []coordination.StateRecord{
		r.registration("n1", 10, 100), r.registration("n2", 20, 200), r.registration("n3", 30, 300),
	}
	cases := []struct {
		name  string
		lease []coordination.StateRecord
		want  map[string]int
	}{
		{"no lease", nil, map[string]int{"n1": 0, "n2": 1, "n3": 2}},
		{"holder in the middle", []coordination.StateRecord{r.lease("n2", 40, 0)}, map[string]int{"n1": 0, "n2": 0, "n3": 1}},
		{"holder outside the roster", []coordination.StateRecord{r.lease("n9", 40, 0)}, map[string]int{"n1": 0, "n2": 1, "n3": 2}},
	}
	for _, c := range cases {
		state := build(t, r.role, append(slices.Clone(roster), c.lease...)...)
		got := make(map[string]int)
		for _, name := range []string{"n1", "n2", "n3", "n9"} {
			if rank, registered := state.RankOf(member(t, name)); registered {
				got[name] = rank
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: ranks mismatch (-want +got):\n%s", c.name, diff)
		}
	}
}

// The key of a record says which member registered, and the value of a lease
// says which member holds it.
func TestIdentityComesFromTheKeyOfARegistrationAndTheValueOfALease(t *testing.T) {
	r := records{t, role(t, "controller")}
	disguised := r.registration("node-1", 1, 100)
	disguised.Value = r.registration("node-9", 1, 100).Value
	state := build(t, r.role, disguised, r.registration("node-2", 2, 200), r.lease("node-2", 3, 30000))
	if diff := cmp.Diff([]string{"node-1", "node-2"}, names(state)); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}
	if holder, held := state.Holder(); !held || holder != member(t, "node-2") {
		t.Errorf("holder %s, %t, want the member in the value of the lease", holder, held)
	}
}
