// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/eventtime"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

// groupModel is a windowed group-by on maps: sum, count and latest time per
// user and window.
type groupModel struct {
	window, grace int64
	hop, offset   int64 // hop 0 is window
	order         []string
	groups        map[string][3]int64 // sum, count, time
	starts        map[string]int64
	streamTime    int64
	late          int64
}

type modelRow struct {
	user         string
	amount, time int64
}

func (m *groupModel) clone() *groupModel {
	c := *m
	c.order, c.groups, c.starts = slices.Clone(m.order), maps.Clone(m.groups), maps.Clone(m.starts)
	return &c
}

// add returns the rows of EmitTable, EmitChanges and EmitFinal.
func (m *groupModel) add(rows []modelRow) (results [3][]string) {
	touched, before := map[string]bool{}, m.streamTime
	var changes []string
	for _, row := range rows {
		m.streamTime = max(m.streamTime, row.time)
		open := 0
		for start := row.time - m.window + 1; start <= row.time; start++ {
			if !m.isStart(start) || start+m.window+m.grace <= m.streamTime {
				continue
			}
			open++
			key := fmt.Sprintf("%s %d %d", row.user, start, start+m.window)
			group, known := m.groups[key]
			if !known {
				m.order = append(m.order, key)
				m.starts[key], group[2] = start, math.MinInt64
			}
			m.groups[key] = [3]int64{group[0] + row.amount, group[1] + 1, max(group[2], row.time)}
			if !touched[key] {
				touched[key] = true
				changes = append(changes, key)
			}
		}
		if open == 0 {
			m.late++
		}
	}
	show := func(key string) string {
		group := m.groups[key]
		return fmt.Sprintf("%s %d %d %d", key, group[0], group[1], group[2])
	}
	closed := func(key string, at int64) bool { return m.starts[key]+m.window+m.grace <= at }
	var final []string
	for _, key := range m.order {
		if touched[key] || !closed(key, m.streamTime) {
			results[EmitTable] = append(results[EmitTable], show(key))
		}
		if closed(key, m.streamTime) && !closed(key, before) {
			final = append(final, key)
		}
	}
	slices.SortStableFunc(final, func(a, b string) int { return int(m.starts[a] - m.starts[b]) })
	for _, key := range changes {
		results[EmitChanges] = append(results[EmitChanges], show(key))
	}
	for _, key := range final {
		results[EmitFinal] = append(results[EmitFinal], show(key))
	}
	return results
}

// isStart reports whether a window starts at a time.
func (m *groupModel) isStart(at int64) bool {
	hop := m.hop
	if hop == 0 {
		hop = m.window
	}
	return (at-m.offset)%hop == 0
}

func randomRows(r *rand.Rand, clock *int64) []modelRow {
	rows := make([]modelRow, r.IntN(30))
	for i := range rows {
		*clock += r.Int64N(4)
		user := fmt.Sprintf("u%d", r.IntN(12))
		if r.IntN(15) == 0 {
			user = ""
		}
		rows[i] = modelRow{user: user, amount: r.Int64N(100) - 50, time: *clock - r.Int64N(25)*r.Int64N(2) - 100}
	}
	return rows
}

func jsonRows(rows []modelRow) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = fmt.Sprintf(`{"user":%q,"amount":%d,"__timestamp":%d}`, row.user, row.amount, row.time)
	}
	return texts
}

// TestGroupByAgreesWithAModel runs random batches, commits, rollbacks and
// restores into fresh operators through every emission, with windows that tumble and
// that hop.
func TestGroupByAgreesWithAModel(t *testing.T) {
	r := arrowtest.NewRand(t)
	const window, grace = 10, 7
	windows := []Windowing{{}, {Offset: 4}, {Hop: 5}, {Hop: 3, Offset: -4}, {Hop: 1}, {Hop: 7, Offset: 1_000_003}}
	for _, emit := range []Emission{EmitTable, EmitChanges, EmitFinal} {
		for i := range 3 * len(windows) {
			hops := windows[i%len(windows)]
			mem := arrowtest.NewAllocator(t)
			spec := Spec{
				Keys: []string{"user"}, Aggregations: totals(), Emit: emit,
				Windowed: true, Window: Windowing{Size: window, CloseAfter: grace, Hop: hops.Hop, Offset: hops.Offset}, Timed: true,
			}.WithDefaults()
			g := New(mem, spec)
			model := &groupModel{window: window, grace: grace, hop: hops.Hop, offset: hops.Offset, groups: map[string][3]int64{}, starts: map[string]int64{}, streamTime: eventtime.None}
			committed, clock := model.clone(), int64(0)
			for step := range 60 {
				switch r.IntN(6) {
				case 0:
					g.Commit()
					committed = model.clone()
				case 1:
					if err := g.Rollback(); err != nil {
						t.Fatal(err)
					}
					model = committed.clone()
				case 2:
					snapshot := must[[]byte](t)(g.Snapshot())
					fresh := r.IntN(2) == 0
					if fresh {
						g = New(mem, spec)
					}
					if err := g.Restore(snapshot); err != nil {
						t.Fatal(err)
					}
					if fresh || r.IntN(2) == 0 {
						g.Commit()
						committed = model.clone()
					}
				default:
					rows := randomRows(r, &clock)
					result, err := g.Process(arrowtest.JSONBatch(t, mem, eventSchema, jsonRows(rows)...))
					if err != nil {
						t.Fatal(err)
					}
					got := arrowtest.Rows(result)
					result.Release()
					want := model.add(rows)[emit]
					if diff := cmp.Diff(want, got, cmp.Transformer("nonNil", nonNil)); diff != "" {
						t.Fatalf("emission %d, windows %+v, step %d mismatch (-want +got):\n%s", emit, hops, step, diff)
					}
				}
				if g.state.late != model.late {
					t.Fatalf("emission %d, step %d: %d rows late, want %d", emit, step, g.state.late, model.late)
				}
			}
		}
	}
}

func nonNil(rows []string) string { return strings.Join(rows, "\n") }

// TestGroupsAreCompacted holds many closed windows at once, so that the groups
// are numbered anew.
func TestGroupsAreCompacted(t *testing.T) {
	for _, emit := range []Emission{EmitTable, EmitChanges, EmitFinal} {
		mem := arrowtest.NewAllocator(t)
		g := New(mem, Spec{
			Keys: []string{"user"}, Aggregations: totals(), Emit: emit, Windowed: true, Window: Windowing{Size: 10}, Timed: true,
		}.WithDefaults())
		model := &groupModel{window: 10, groups: map[string][3]int64{}, starts: map[string]int64{}, streamTime: eventtime.None}
		for round := range int64(12) {
			var rows []modelRow
			for i := range int64(300) {
				rows = append(rows, modelRow{user: fmt.Sprintf("u%d", i), amount: i, time: round * 10})
			}
			rows = append(rows, modelRow{user: "u7", amount: 1, time: round*10 + 5})
			result, err := g.Process(arrowtest.JSONBatch(t, mem, eventSchema, jsonRows(rows)...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(model.add(rows)[emit], arrowtest.Rows(result), cmp.Transformer("nonNil", nonNil)); diff != "" {
				t.Fatalf("emission %d, round %d mismatch (-want +got):\n%s", emit, round, diff)
			}
			result.Release()
			if round%3 == 1 {
				if err := g.Rollback(); err != nil {
					t.Fatal(err)
				}
				result, err := g.Process(arrowtest.JSONBatch(t, mem, eventSchema, jsonRows(rows)...))
				if err != nil {
					t.Fatal(err)
				}
				result.Release()
			}
			g.Commit()
		}
		if held := g.state.table.Groups; held > 2*keytable.MinCompaction {
			t.Errorf("emission %d: %d groups are held, want the closed ones gone", emit, held)
		}
	}
}
