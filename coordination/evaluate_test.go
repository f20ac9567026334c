// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

func leaseConfig(tb testing.TB, duration, renew, stagger time.Duration) coordination.LeaseConfig {
	tb.Helper()
	config, err := coordination.NewLeaseConfig(duration, renew, stagger)
	if err != nil {
		tb.Fatal(err)
	}
	return config
}

func standardConfig(tb testing.TB) coordination.LeaseConfig {
	tb.Helper()
	return leaseConfig(tb, 30*time.Second, 10*time.Second, 5*time.Second)
}

var (
	hold          = coordination.Decision{Action: coordination.ActionHold}
	challenge     = coordination.Decision{Action: coordination.ActionChallenge}
	notRegistered = coordination.Decision{Action: coordination.ActionNotRegistered}
)

func wait(until int64) coordination.Decision {
	return coordination.Decision{Action: coordination.ActionWait, WaitUntil: until}
}

func TestEvaluate(t *testing.T) {
	r := records{t, role(t, "controller")}
	roster := []coordination.StateRecord{
		r.registration("n1", 10, 100), r.registration("n2", 20, 200), r.registration("n3", 30, 300),
	}
	type row struct {
		from, to   int64
		n1, n2, n3 coordination.Decision
	}
	cases := []struct {
		name   string
		holder string
		rows   []row
	}{
		{"held by the first", "n1", []row{
			{0, 29999, hold, wait(30000), wait(35000)},
			{30000, 34999, challenge, challenge, wait(35000)},
			{35000, math.MaxInt64, challenge, challenge, challenge},
		}},
		{"held by the second", "n2", []row{
			{0, 29999, wait(30000), hold, wait(35000)},
			{30000, 34999, challenge, challenge, wait(35000)},
			{35000, math.MaxInt64, challenge, challenge, challenge},
		}},
		{"held by an outsider", "n9", []row{
			{0, 29999, wait(30000), wait(35000), wait(40000)},
			{30000, 34999, challenge, wait(35000), wait(40000)},
			{35000, 39999, challenge, challenge, wait(40000)},
			{40000, math.MaxInt64, challenge, challenge, challenge},
		}},
		{"not held", "", []row{
			{0, 99, wait(100), wait(5200), wait(10300)},
			{100, 5199, challenge, wait(5200), wait(10300)},
			{5200, 10299, challenge, challenge, wait(10300)},
			{10300, math.MaxInt64, challenge, challenge, challenge},
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			log := roster
			if c.holder != "" {
				log = append(log[:3:3], r.lease(c.holder, 40, 30000))
			}
			state := build(t, r.role, log...)
			for _, row := range c.rows {
				for _, now := range []int64{row.from, row.to} {
					got := []coordination.Decision{
						coordination.Evaluate(state, member(t, "n1"), now, standardConfig(t)),
						coordination.Evaluate(state, member(t, "n2"), now, standardConfig(t)),
						coordination.Evaluate(state, member(t, "n3"), now, standardConfig(t)),
						coordination.Evaluate(state, member(t, "n9"), now, standardConfig(t)),
					}
					if diff := cmp.Diff([]coordination.Decision{row.n1, row.n2, row.n3, notRegistered}, got); diff != "" {
						t.Errorf("at %d mismatch (-want +got):\n%s", now, diff)
					}
				}
			}
		})
	}
}

func TestEvaluateAtItsAnchors(t *testing.T) {
	r := records{t, role(t, "controller")}
	three := []coordination.StateRecord{
		r.registration("n1", 10, 1000), r.registration("n2", 20, 2000), r.registration("n3", 30, 3000),
	}
	recovered := []coordination.StateRecord{
		r.registration("n1", 10, 100), r.registration("n2", 20, 200),
		r.deregistration("n1", 40), r.lease("n2", 50, 60000), r.registration("n1", 60, 30000),
	}
	rejoined := []coordination.StateRecord{
		r.registration("n1", 10, 100), r.registration("n3", 30, 300), r.registration("n2", 40, 400), r.lease("n1", 50, 30000),
	}
	cases := []struct {
		log    []coordination.StateRecord
		member string
		now    int64
		want   coordination.Decision
	}{
		{three, "n1", 1000, challenge},
		{three, "n2", 1000, wait(7000)},
		{three, "n2", 7000, challenge},
		{three, "n3", 7000, wait(13000)},
		{three, "n3", 13000, challenge},
		{three[:1], "n1", 1000, challenge},
		{three[:1], "n1", 9000, challenge},
		{recovered, "n1", 31000, wait(60000)},
		{recovered, "n2", 31000, hold},
		{rejoined, "n3", 30000, challenge},
		{rejoined, "n2", 30000, wait(35000)},
	}
	for i, c := range cases {
		got := coordination.Evaluate(build(t, r.role, c.log...), member(t, c.member), c.now, standardConfig(t))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("case %d, %s at %d mismatch (-want +got):\n%s", i, c.member, c.now, diff)
		}
	}
}

func TestEvaluateSaturates(t *testing.T) {
	r := records{t, role(t, "controller")}
	log := []coordination.StateRecord{r.lease("n9", 1, math.MaxInt64)}
	for i, name := range []string{"n1", "n2", "n3"} {
		log = append(log, r.registration(name, int64(10*i+10), 0))
	}
	state := build(t, r.role, log...)
	for _, name := range []string{"n1", "n2", "n3"} {
		if got := coordination.Evaluate(state, member(t, name), math.MaxInt64, standardConfig(t)); got != challenge {
			t.Errorf("%s at the end of time: %+v, want challenge", name, got)
		}
		if got := coordination.Evaluate(state, member(t, name), math.MaxInt64-1, standardConfig(t)); got != wait(math.MaxInt64) {
			t.Errorf("%s before the end of time: %+v, want a wait", name, got)
		}
	}
}

func TestEvaluateUsesTheStaggerOfTheReader(t *testing.T) {
	r := records{t, role(t, "controller")}
	state := build(t, r.role, r.registration("n1", 1, 0), r.registration("n2", 2, 0), r.lease("n9", 3, 30000))
	short := leaseConfig(t, 3*time.Second, time.Second, 2*time.Second)
	if got := coordination.Evaluate(state, member(t, "n1"), 29999, short); got != wait(30000) {
		t.Errorf("rank 0: %+v, want to wait for the deadline in the record", got)
	}
	if got := coordination.Evaluate(state, member(t, "n2"), 29999, short); got != wait(32000) {
		t.Errorf("rank 1: %+v, want one stagger of two seconds", got)
	}
}

func TestEvaluateAllocatesNothing(t *testing.T) {
	r := records{t, role(t, "controller")}
	state := build(t, r.role, r.registration("n1", 1, 0), r.registration("n2", 2, 0), r.lease("n1", 3, 30000))
	config, n2 := standardConfig(t), member(t, "n2")
	if allocs := testing.AllocsPerRun(100, func() { coordination.Evaluate(state, n2, 1, config) }); allocs != 0 {
		t.Errorf("Evaluate allocates %v times", allocs)
	}
}

func TestStrings(t *testing.T) {
	got := []string{
		coordination.ActionNotRegistered.String(), coordination.ActionHold.String(), coordination.ActionChallenge.String(),
		coordination.ActionWait.String(), coordination.Action(7).String(), coordination.KindRegistration.String(),
		coordination.KindLease.String(), coordination.RecordKind(-3).String(),
		coordination.TopicPartition{Topic: "t", Partition: 3}.String(),
	}
	want := []string{"not registered", "hold", "challenge", "wait", "Action(7)", "registration", "lease", "RecordKind(-3)", "t-3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("strings mismatch (-want +got):\n%s", diff)
	}
}
