// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gapJob is a ledger of which 5 records are committed, and whose log then loses
// those between and starts at offset 12 of 20.
func gapJob(t *testing.T) (*fakeCluster, func(...GroupRunnerOption) (*fakeMember, *GroupRunner)) {
	t.Helper()
	c := clusterOf(t, map[string]int{"in": 1})
	store := NewFileStateStore(t.TempDir())
	start := func(options ...GroupRunnerOption) (*fakeMember, *GroupRunner) {
		m := c.member("member")
		return m, newTestRunner(t, ledgerTopology(t), m, m, append(options, WithStateStore(store))...)
	}
	c.fill(in(0), ones(5)...)
	m, r := start()
	untilDrained(t, r, c, "in")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.expire(m)
	c.fill(in(0), ones(15)...)
	c.trim(in(0), 12)
	return c, start
}

func TestDeletedRecordsAreAnErrorByDefault(t *testing.T) {
	c, start := gapJob(t)
	_, r := start()
	for range 3 {
		_, err := r.RunOnce(t.Context(), 0)
		var outside *OffsetOutOfRangeError
		if !errors.As(err, &outside) || IsRetriable(err) {
			t.Fatalf("RunOnce = %v; want a lasting *OffsetOutOfRangeError", err)
		}
		outside.Cause = nil
		if diff := cmp.Diff(&OffsetOutOfRangeError{Partition: in(0), Offset: 5, Start: 12, End: 20}, outside); diff != "" {
			t.Errorf("error mismatch (-want +got):\n%s", diff)
		}
	}
	if got := ledgerState(t, r, 0); got != "ada=5" || c.committed[in(0)] != 5 || r.Stats().Gaps != 0 {
		t.Errorf("state %q at %d with %d gaps; want ada=5 at 5", got, c.committed[in(0)], r.Stats().Gaps)
	}
}

func TestOutOfRangePoliciesGoOnBehindDeletedRecords(t *testing.T) {
	for _, test := range []struct {
		name      string
		policy    OutOfRangePolicy
		to        int64
		atTheGap  string
		inTheEnd  string
		committed int64
	}{
		{"earliest", OutOfRangeEarliest, 12, "ada=5", "ada=17", 24},
		{"latest", OutOfRangeLatest, 20, "ada=5", "ada=9", 24},
	} {
		for _, transactional := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				c, start := gapJob(t)
				var gaps []GapInfo
				hooks := WithHooks(Hooks{Gap: func(gap GapInfo) { gaps = append(gaps, gap) }}.Join(Hooks{}))
				m, r := start(hooks, WithOutOfRange(test.policy))
				run := func(r *GroupRunner) {
					t.Helper()
					round := r.RunOnce
					if transactional {
						round = r.RunOnceTransactional
					}
					if _, err := round(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				}
				for r.Stats().Gaps == 0 {
					run(r)
				}
				if got := ledgerState(t, r, 0); got != test.atTheGap || c.committed[in(0)] != test.to {
					t.Errorf("state %q at %d; want %q at %d", got, c.committed[in(0)], test.atTheGap, test.to)
				}
				if diff := cmp.Diff([]GapInfo{{Partition: in(0), From: 5, To: test.to}}, gaps); diff != "" {
					t.Errorf("gaps mismatch (-want +got):\n%s", diff)
				}
				if stats := r.Stats(); stats.OffsetsLost != test.to-5 {
					t.Errorf("%d offsets lost; want %d", stats.OffsetsLost, test.to-5)
				}
				// A crash right behind the gap finds state that stands behind it.
				c.expire(m)
				_, next := start(WithOutOfRange(test.policy))
				c.fill(in(0), ones(4)...)
				for range 100 {
					if run(next); c.drained("in") {
						break
					}
				}
				if got := ledgerState(t, next, 0); got != test.inTheEnd || c.committed[in(0)] != test.committed {
					t.Errorf("state %q at %d; want %q at %d", got, c.committed[in(0)], test.inTheEnd, test.committed)
				}
				if stats := next.Stats(); stats.Gaps != 0 || stats.Recoveries != 1 {
					t.Errorf("%d gaps and %d recoveries behind the crash; want the state of the gap", stats.Gaps, stats.Recoveries)
				}
			})
		}
	}
}

// What the log has lost before it was processed is not what it lost at its end.
func TestOffsetBehindTheEndIsAnErrorUnderEachPolicy(t *testing.T) {
	for _, policy := range []OutOfRangePolicy{OutOfRangeFail, OutOfRangeEarliest, OutOfRangeLatest} {
		beyond := &OffsetOutOfRangeError{Partition: in(0), Offset: 2, Start: 0, End: 1, Cause: errors.New("truncated")}
		other := errors.New("coordinator is away")
		consumer := &scriptedConsumer{pollErrs: []error{nil, beyond, errors.Join(other, &OffsetOutOfRangeError{Partition: in(0), Offset: 2, Start: 3, End: 9})}}
		consumer.add(fetch{in(0): rows(0, 0, "ada 1", "ada 1")})
		r := newTestRunner(t, ledgerTopology(t), consumer, &recordingProducer{}, WithOutOfRange(policy))
		runOnce(t, r)
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, beyond) {
			t.Errorf("policy %d: RunOnce = %v; want %v", policy, err, beyond)
		}
		// An error beside a gap is returned; the gap comes again.
		if _, err := r.RunOnce(t.Context(), 0); !errors.Is(err, other) {
			t.Errorf("policy %d: RunOnce = %v; want %v", policy, err, other)
		}
		if consumer.seeks != 0 || r.Stats().Gaps != 0 {
			t.Errorf("policy %d: %d seeks, %d gaps; want none", policy, consumer.seeks, r.Stats().Gaps)
		}
	}
}
