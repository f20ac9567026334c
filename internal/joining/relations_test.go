// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

type modelRow struct {
	user         string
	amount, time int64
}

// joinModel is a join in nested loops over everything that has come.
type joinModel struct {
	window int64
	rows   [2][]modelRow
	times  [2]int64
}

func (m *joinModel) clone() *joinModel {
	c := *m
	c.rows = [2][]modelRow{slices.Clone(m.rows[0]), slices.Clone(m.rows[1])}
	return &c
}

func (m *joinModel) add(batches [2][]modelRow) (pairs []string) {
	for side, batch := range batches {
		for _, row := range batch {
			m.times[side] = max(m.times[side], row.time)
			m.rows[side] = append(m.rows[side], row)
			if row.user == "" {
				continue
			}
			for _, partner := range m.rows[1-side] {
				kept := partner.time+m.window >= m.times[side]
				if partner.user == row.user && kept && max(partner.time-row.time, row.time-partner.time) <= m.window {
					pair := [2]modelRow{row, partner}
					left, right := pair[side], pair[1-side]
					pairs = append(pairs, fmt.Sprintf("%s %d %s %d", left.user, left.amount, right.user, right.amount))
				}
			}
		}
	}
	return pairs
}

func joinRows(r *rand.Rand, most int, clock *int64, disorder int64) []modelRow {
	rows := make([]modelRow, r.IntN(most))
	for i := range rows {
		*clock += r.Int64N(3)
		user := ""
		if r.IntN(20) > 0 {
			user = fmt.Sprintf("u%d", r.IntN(6))
		}
		rows[i] = modelRow{user: user, amount: r.Int64N(1000), time: *clock - r.Int64N(disorder+1)}
	}
	return rows
}

// joinJSON renders rows; no user is a null key.
func joinJSON(rows []modelRow) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		user := "null"
		if row.user != "" {
			user = fmt.Sprintf("%q", row.user)
		}
		texts[i] = fmt.Sprintf(`{"user":%s,"amount":%d,"__timestamp":%d}`, user, row.amount, row.time)
	}
	return texts
}

func joinedPairs(t *testing.T, join *State, batches [2][]modelRow) []string {
	t.Helper()
	var sides [2][]arrow.RecordBatch
	for side, rows := range batches {
		if len(rows) > 0 {
			sides[side] = []arrow.RecordBatch{arrowtest.JSONBatch(t, arrowtest.NewAllocator(t), eventSchema, joinJSON(rows)...)}
		}
	}
	results, err := join.Process(sides[0], sides[1])
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
	var pairs []string
	for _, result := range results {
		users := [2]arrow.Array{namedcols.Column(result, "left_user"), namedcols.Column(result, "right_user")}
		amounts := [2]arrow.Array{namedcols.Column(result, "left_amount"), namedcols.Column(result, "right_amount")}
		for row := range int(result.NumRows()) {
			pairs = append(pairs, fmt.Sprintf("%s %s %s %s", users[0].ValueStr(row), amounts[0].ValueStr(row), users[1].ValueStr(row), amounts[1].ValueStr(row)))
		}
	}
	return pairs
}

// TestJoinAgreesWithAModel runs random batches, commits, rollbacks and restores
// into fresh joins, with rows in order and out of order.
func TestJoinAgreesWithAModel(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, disorder := range []int64{0, 15} {
		for range 20 {
			window := r.Int64N(12)
			spec := Spec{LeftKey: "user", RightKey: "user", Window: time.Duration(window) * time.Millisecond}
			mem := arrowtest.NewAllocator(t)
			join := New(spec, mem)
			model := &joinModel{window: window, times: [2]int64{eventtime.None, eventtime.None}}
			committed := model.clone()
			var clocks [2]int64
			for step := range 60 {
				switch r.IntN(7) {
				case 0, 1:
					join.Commit()
					committed = model.clone()
				case 2:
					if err := join.Rollback(); err != nil {
						t.Fatal(err)
					}
					model = committed.clone()
				case 3:
					snapshot := must[[]byte](t)(join.Snapshot())
					fresh := r.IntN(2) == 0
					if fresh {
						join = New(spec, mem)
					}
					if err := join.Restore(snapshot); err != nil {
						t.Fatal(err)
					}
					if fresh || r.IntN(2) == 0 {
						join.Commit()
						committed = model.clone()
					}
				default:
					var batches [2][]modelRow
					for side := range batches {
						if r.IntN(3) > 0 {
							batches[side] = joinRows(r, 12, &clocks[side], disorder)
						}
					}
					want, got := model.add(batches), joinedPairs(t, join, batches)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("window %d, disorder %d, step %d mismatch (-want +got):\n%s", window, disorder, step, diff)
					}
				}
			}
		}
	}
}

// TestJoinOfRowsInOrderIsComplete delivers two branches in every kind of split
// and interleaving, one far ahead of the other among them.
func TestJoinOfRowsInOrderIsComplete(t *testing.T) {
	r := arrowtest.NewRand(t)
	var all [2][]modelRow
	for side := range all {
		clock := int64(0)
		for len(all[side]) < 200 {
			all[side] = append(all[side], joinRows(r, 20, &clock, 0)...)
		}
	}
	const window = 7
	var want []string
	for _, left := range all[0] {
		for _, right := range all[1] {
			if left.user != "" && left.user == right.user && max(left.time-right.time, right.time-left.time) <= window {
				want = append(want, fmt.Sprintf("%s %d %s %d", left.user, left.amount, right.user, right.amount))
			}
		}
	}
	for _, most := range []int{1, 7, 1000} {
		for range 4 {
			join := New(Spec{LeftKey: "user", RightKey: "user", Window: window * time.Millisecond}, arrowtest.NewAllocator(t))
			rest, got := all, []string(nil)
			for len(rest[0])+len(rest[1]) > 0 {
				var batches [2][]modelRow
				for side := range batches {
					n := min(len(rest[side]), r.IntN(most+1))
					batches[side], rest[side] = rest[side][:n], rest[side][n:]
				}
				got = append(got, joinedPairs(t, join, batches)...)
				join.Commit()
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Fatalf("batches of up to %d rows mismatch (-want +got):\n%s", most, diff)
			}
		}
	}
}

func TestJoinDropsRowsThatFindNoPartner(t *testing.T) {
	r := arrowtest.NewRand(t)
	const window = 20
	join := New(Spec{LeftKey: "user", RightKey: "user", Window: window * time.Millisecond}, arrowtest.NewAllocator(t))
	model := &joinModel{window: window, times: [2]int64{eventtime.None, eventtime.None}}
	var clocks [2]int64
	most := 0
	for round := range 150 {
		batches := [2][]modelRow{joinRows(r, 60, &clocks[0], 5), joinRows(r, 60, &clocks[1], 5)}
		want := model.add(batches)
		got := joinedPairs(t, join, batches)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d mismatch (-want +got):\n%s", round, diff)
		}
		if round%3 == 0 {
			join.Commit()
		}
		most = max(most, len(join.sides[0].rows)+len(join.sides[1].rows))
		if chunks := len(join.sides[0].chunks); chunks > 24 {
			t.Fatalf("round %d: the rows of a side lie in %d batches", round, chunks)
		}
	}
	if most > 3*keytable.MinCompaction {
		t.Errorf("up to %d rows were kept, want dead ones to be dropped", most)
	}
}

func TestJoinSmallBatchesAreMerged(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	join := New(Spec{LeftKey: "user", RightKey: "user", Window: time.Hour}, mem)
	batch := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":1,"__timestamp":1}`)
	for range 500 {
		if _, err := join.Process([]arrow.RecordBatch{batch}, nil); err != nil {
			t.Fatal(err)
		}
		join.Commit()
	}
	if chunks := len(join.sides[0].chunks); chunks > 10 {
		t.Errorf("500 rows lie in %d batches", chunks)
	}
	results, err := join.Process(nil, []arrow.RecordBatch{batch})
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
	if len(results) != 1 || results[0].NumRows() != 500 {
		t.Errorf("results = %v, want one batch of 500 pairs", results)
	}
}
