// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func TestDescribeLeadership(t *testing.T) {
	f := newFixture(t, 1000)
	status, err := coordination.DescribeLeadership(t.Context(), f.fake, f.role)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(coordination.LeadershipStatus{Role: f.role, Token: coordination.NoEpoch}, status, equateValues); diff != "" {
		t.Errorf("status of a free role mismatch (-want +got):\n%s", diff)
	}
	if status.String() != "role controller: no epoch" || status.Authoritative(coordination.NoEpoch) || status.Authoritative(token(t, 0, 0)) {
		t.Errorf("%s is authoritative for somebody", status)
	}

	l := f.acquire(t, "node-1")
	before := f.count("read")
	if status, err = coordination.DescribeLeadership(t.Context(), f.fake, f.role); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(coordination.LeadershipStatus{Role: f.role, Token: l.Token(), Held: true}, status, equateValues); diff != "" {
		t.Errorf("status of a held role mismatch (-want +got):\n%s", diff)
	}
	if status.String() != "role controller: epoch 1:0" || !status.Authoritative(l.Token()) || status.Authoritative(token(t, 99, 0)) {
		t.Errorf("%s is not authoritative for its holder alone", status)
	}
	if status.Superseded(l.Token()) || !status.Superseded(coordination.NoEpoch) || status.Superseded(token(t, 1, 1)) {
		t.Errorf("%s supersedes the wrong tokens", status)
	}
	if f.count("read") != before || f.count("describe") != 2 {
		t.Errorf("%d reads and %d describes", f.count("read")-before, f.count("describe"))
	}
}

func TestHolderIsAuthoritativeAfterEveryRenewal(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	for range 5 {
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		status, err := coordination.DescribeLeadership(t.Context(), f.fake, f.role)
		if err != nil || !status.Authoritative(l.Token()) {
			t.Errorf("%s, error %v, want the holder %s", status, err, l.Token())
		}
	}
}

func TestDescribeFailures(t *testing.T) {
	f := newFixture(t, 1000)
	f.onDescribe = func(context.Context, int) error { return errBroken }
	f.onRead = f.onDescribe
	status, err := coordination.DescribeLeadership(t.Context(), f.fake, f.role)
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "controller") || status != (coordination.LeadershipStatus{}) {
		t.Errorf("status %+v, error %v", status, err)
	}
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "controller") || state.Roster != nil {
		t.Errorf("state %+v, error %v", state, err)
	}
	for want, err := range map[string]error{
		"the coordinator is nil":          second(coordination.DescribeLeadership(t.Context(), nil, f.role)),
		"the role is the zero value":      second(coordination.DescribeLeadership(t.Context(), f.fake, coordination.Role{})),
		"the state reader is nil":         second(coordination.DescribeRoleState(t.Context(), nil, f.role)),
		"the role is the zero value ":     second(coordination.DescribeRoleState(t.Context(), f.fake, coordination.Role{})),
		"option 0 is nil":                 second(coordination.DescribeRoleState(t.Context(), f.fake, f.role, nil)),
		"the registrar is nil":            coordination.Deregister(t.Context(), nil, f.role, member(t, "m")),
		"the role is the zero value  ":    coordination.Deregister(t.Context(), f.fake, coordination.Role{}, member(t, "m")),
		"the member id is the zero value": coordination.Deregister(t.Context(), f.fake, f.role, coordination.MemberID{}),
		"age -1ns must not be negative":   second(coordination.PruneRoster(t.Context(), f.fake, f.role, -1)),
		"the state reader is nil ":        second(coordination.PruneRoster(t.Context(), nil, f.role, 0)),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// second returns the error of a call that also returns a value.
func second[T any](_ T, err error) error { return err }

func TestDescribeRoleStateReadsOnce(t *testing.T) {
	f := newFixture(t, 1000)
	f.register(f.at, f.role, member(t, "node-1"), 5)
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	entry, found := state.Entry(member(t, "node-1"))
	if !found || entry.RegisteredAt != 5 {
		t.Errorf("entry %+v, %t", entry, found)
	}
	if diff := cmp.Diff(map[string]int{"read": 1}, f.calls); diff != "" {
		t.Errorf("calls mismatch (-want +got):\n%s", diff)
	}
}

func TestPruneRosterKeepsTheHolderAndTheYoung(t *testing.T) {
	f := newFixture(t, 100000)
	for i, name := range []string{"old-1", "holder", "old-2", "young"} {
		f.register(f.at, f.role, member(t, name), int64(i*25000))
	}
	f.grant(f.at, f.role, member(t, "holder"), 0, 30000)
	removed, err := coordination.PruneRoster(t.Context(), f.fake, f.role, 30*time.Second, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]coordination.MemberID{member(t, "old-1"), member(t, "old-2")}, removed, equateValues); diff != "" {
		t.Errorf("removed mismatch (-want +got):\n%s", diff)
	}
	state, err := coordination.DescribeRoleState(t.Context(), f.fake, f.role, f.options()...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"holder", "young"}, names(state)); diff != "" {
		t.Errorf("roster mismatch (-want +got):\n%s", diff)
	}
	f.onAppend = func(context.Context, int) error { return errBroken }
	removed, err = coordination.PruneRoster(t.Context(), f.fake, f.role, 0, f.options()...)
	if !errors.Is(err, errBroken) || len(removed) != 0 {
		t.Errorf("removed %v, error %v", removed, err)
	}
}
