// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A member with a store that knows no positions is killed: what the store has is
// the state of the last member that left in order, and not that of the committed
// offsets.
func TestPlainStoreOfAKilledMemberIsNotTrusted(t *testing.T) {
	for _, test := range []struct {
		policy    MissingStatePolicy
		saved     int // records by the member that left in order
		behind    int // records by the one that was killed
		wantError string
		want      string
	}{
		{policy: MissingStateFail, saved: 3, behind: 0, want: "ada=5"},
		{policy: MissingStateFail, saved: 3, behind: 4,
			wantError: "committed offset in/0:7 but no state for partition 0: the stored state stands at offset 3 of in/0"},
		{policy: MissingStateRebuild, saved: 3, behind: 4, want: "ada=9"},
		{policy: MissingStateEmpty, saved: 3, behind: 4, want: "ada=2"},
		{policy: MissingStateFail, saved: 0, behind: 4,
			wantError: "committed offset in/0:4 but no state for partition 0: the stored state is from before the first commit of in/0"},
	} {
		for _, transactional := range []bool{false, true} {
			t.Run(fmt.Sprintf("policy %d, %d saved, %d behind, transactional %v", test.policy, test.saved, test.behind, transactional), func(t *testing.T) {
				c := clusterOf(t, map[string]int{"in": 1})
				store := &recordingStore{}
				start := func() (*fakeMember, *GroupRunner) {
					m := c.member("member")
					return m, newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store), WithMissingState(test.policy))
				}
				drain := func(r *GroupRunner) (err error) {
					for range 50 {
						if transactional {
							_, err = r.RunOnceTransactional(t.Context(), 0)
						} else {
							_, err = r.RunOnce(t.Context(), 0)
						}
						if err != nil {
							return err
						}
					}
					return nil
				}
				c.fill(in(0), ones(test.saved)...)
				m, r := start()
				if err := errors.Join(drain(r), r.Close()); err != nil {
					t.Fatal(err)
				}
				c.expire(m)
				if test.behind > 0 {
					c.fill(in(0), ones(test.behind)...)
					m, r = start()
					if err := drain(r); err != nil {
						t.Fatal(err)
					}
					c.expire(m) // killed
				}
				c.fill(in(0), ones(2)...)
				_, r = start()
				err := drain(r)
				if test.wantError != "" {
					var missing *MissingStateError
					if !errors.As(err, &missing) || !strings.Contains(err.Error(), test.wantError) {
						t.Errorf("round = %v; want a MissingStateError with %q", err, test.wantError)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := ledgerState(t, r, 0); got != test.want {
					t.Errorf("state %q; want %q", got, test.want)
				}
			})
		}
	}
}

func TestPlainStateThatCannotBeReadIsNotTrusted(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), ones(3)...)
	m := c.member("member")
	store := &recordingStore{}
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
	untilDrained(t, r, c, "in")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(m)
	store.states[[2]int64{0, NoEpoch}][plainPositions] = []byte("[")
	m = c.member("member")
	r = newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
	var missing *MissingStateError
	if _, err := r.RunOnce(t.Context(), 0); !errors.As(err, &missing) || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("RunOnce = %v; want a MissingStateError", err)
	}
}

// The record at the offset of a cut is in the state of a member that starts right
// behind it, or there is a marker in its place: nobody can tell.
func TestStateThatMayContainTheRecordAtACutTakesNoPartInIt(t *testing.T) {
	c := clusterOf(t, map[string]int{"in": 1})
	c.fill(in(0), "ada 1", "ada 2", "ada 4")
	store := &recordingStore{}
	m := c.member("member")
	r := newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store))
	untilDrained(t, r, c, "in")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(m)
	m = c.member("member")
	var skipped []string
	r = newTestRunner(t, ledgerTopology(t), m, m, WithStateStore(store),
		WithBarrierGroup("audit", cutsOf(t, map[int64]map[TopicPartition]int64{1: {in(0): 2}, 2: {in(0): 3}})),
		WithHooks(Hooks{CutSkipped: func(cut BarrierCut, reason error) { skipped = append(skipped, fmt.Sprint(cut.Epoch, " ", reason)) }}))
	for range 5 {
		runOnce(t, r)
	}
	want := []string{"1 in/0 has processed offset 2, behind the cut at 2"}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped cuts mismatch (-want +got):\n%s", diff)
	}
	if _, ok := store.states[[2]int64{0, 1}]; ok || string(store.states[[2]int64{0, 2}]["ledger"]) != "ada=7" {
		t.Errorf("stored %v; want epoch 2 alone", store.states)
	}
}
