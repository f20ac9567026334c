// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/joining"
)

// BenchmarkFilter keeps each third row. The naive twin boxes each cell.
func BenchmarkFilter(b *testing.B) {
	batch := benchBatch(rand.New(rand.NewPCG(1, 2)), benchRows, 1000, 0)
	defer batch.Release()
	const kept = (benchRows + 2) / 3
	b.Run("columns", func(b *testing.B) {
		filter := FilterWhere(memory.DefaultAllocator, Column("amount").Mod(int64(3)).Equal(int64(0)))
		b.ReportAllocs()
		for b.Loop() {
			result, err := filter.kernel.Process(batch)
			if err != nil || result.NumRows() != kept {
				b.Fatalf("%v rows, %v; want %d", result.NumRows(), err, kept)
			}
			result.Release()
		}
		reportRows(b, benchRows)
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, batch.Schema())
			for row := range int(batch.NumRows()) {
				if arrays.Value(batch.Column(2), row).(int64)%3 != 0 {
					continue
				}
				for column := range int(batch.NumCols()) {
					if err := arrays.AppendValue(builder.Field(column), arrays.Value(batch.Column(column), row)); err != nil {
						b.Fatal(err)
					}
				}
			}
			result := builder.NewRecordBatch()
			if result.NumRows() != kept {
				b.Fatalf("%v rows; want %d", result.NumRows(), kept)
			}
			result.Release()
			builder.Release()
		}
		reportRows(b, benchRows)
	})
}

// BenchmarkJoin joins two sides that come at once. The naive twin keeps boxed
// rows in a map of each side.
func BenchmarkJoin(b *testing.B) {
	const rows, window = 8192, 2 * time.Second
	r := rand.New(rand.NewPCG(1, 2))
	left, right := benchBatch(r, rows, rows, 0), benchBatch(r, rows, rows, 0)
	defer left.Release()
	defer right.Release()
	pairs := 0
	b.Run("columns", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			join := joining.New(joining.Spec{LeftKey: "key", RightKey: "key", Window: window}, memory.DefaultAllocator)
			results, err := join.Process([]arrow.RecordBatch{left}, []arrow.RecordBatch{right})
			if err != nil {
				b.Fatal(err)
			}
			join.Commit()
			pairs = 0
			for _, result := range results {
				pairs += int(result.NumRows())
			}
			arrays.Release(results)
		}
		reportRows(b, 2*rows)
	})
	b.Run("naive", func(b *testing.B) {
		schema := arrowtest.Fields("left_key", int64Type, "left_name", textType, "left_amount", int64Type, "right_key", int64Type, "right_name", textType, "right_amount", int64Type)
		b.ReportAllocs()
		for b.Loop() {
			var sides [2]map[any][][]any
			for side, batch := range []arrow.RecordBatch{left, right} {
				sides[side] = map[any][][]any{}
				for row := range int(batch.NumRows()) {
					var cells []any
					for column := range int(batch.NumCols()) {
						cells = append(cells, arrays.Value(batch.Column(column), row))
					}
					sides[side][cells[0]] = append(sides[side][cells[0]], cells)
				}
			}
			builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			found := 0
			for key, rights := range sides[1] {
				for _, r := range rights {
					for _, l := range sides[0][key] {
						if distance := l[3].(int64) - r[3].(int64); distance > window.Milliseconds() || -distance > window.Milliseconds() {
							continue
						}
						found++
						for i := range 3 {
							if err := arrays.AppendValue(builder.Field(i), l[i]); err != nil {
								b.Fatal(err)
							}
							if err := arrays.AppendValue(builder.Field(3+i), r[i]); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
			}
			builder.NewRecordBatch().Release()
			builder.Release()
			if pairs > 0 && found != pairs {
				b.Fatalf("%d pairs; want %d", found, pairs)
			}
		}
		reportRows(b, 2*rows)
	})
}

// heldGroups returns an operator that holds so many groups.
func heldGroups(b *testing.B, groups int, key string, aggregations ...Aggregation) *groupKernel {
	b.Helper()
	operator, err := NewGroupBy(memory.DefaultAllocator, Grouping{Keys: []string{key}, Aggregations: aggregations, Emit: EmitChanges})
	if err != nil {
		b.Fatal(err)
	}
	g, _ := operator.groupBy()
	batch := allKeys(groups)
	defer batch.Release()
	if err := processAndRelease(g, batch); err != nil {
		b.Fatal(err)
	}
	g.Commit()
	return g
}

var (
	benchCount = Aggregation{OutputColumn: "n", Function: Count}
	benchSum   = Aggregation{InputColumn: "amount", OutputColumn: "total", Function: Sum}
)

// BenchmarkSnapshot saves and restores groups. The naive twin, BenchmarkSnapshotNaive,
// is a map and encoding/json.
func BenchmarkSnapshot(b *testing.B) {
	for _, state := range []struct {
		name         string
		key          string
		aggregations []Aggregation
	}{
		{"key=int/count", "key", []Aggregation{benchCount}},
		{"key=text/count,sum", "name", []Aggregation{benchCount, benchSum}},
	} {
		for _, groups := range []int{100_000, 1_000_000} {
			g := heldGroups(b, groups, state.key, state.aggregations...)
			snapshot, err := g.Snapshot()
			if err != nil {
				b.Fatal(err)
			}
			run := func(step string, size int, run func() error) {
				b.Run(fmt.Sprintf("%s/%s/groups=%d", step, state.name, groups), func(b *testing.B) {
					b.ReportAllocs()
					b.SetBytes(int64(size))
					for b.Loop() {
						if err := run(); err != nil {
							b.Fatal(err)
						}
					}
					reportGroups(b, groups)
				})
			}
			run("save", len(snapshot), func() error { _, err := g.Snapshot(); return err })
			run("restore", len(snapshot), func() error {
				err := g.Restore(snapshot)
				g.Commit()
				return err
			})
		}
	}
}

func BenchmarkSnapshotNaive(b *testing.B) {
	const groups = 100_000
	sums := make(map[string]int64, groups)
	for key := range groups {
		sums[strconv.Itoa(key)] = 1
	}
	text, err := json.Marshal(sums)
	if err != nil {
		b.Fatal(err)
	}
	for name, run := range map[string]func() error{
		"save":    func() error { _, err := json.Marshal(sums); return err },
		"restore": func() error { return json.Unmarshal(text, &map[string]int64{}) },
	} {
		b.Run(fmt.Sprintf("%s/groups=%d", name, groups), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
			reportGroups(b, groups)
		})
	}
}

func reportGroups(b *testing.B, groups int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(groups), "ns/group")
}

// BenchmarkRollback adds a small batch to many groups and takes it back. The
// naive twin keeps a copy of its map to go back to.
func BenchmarkRollback(b *testing.B) {
	const rows = 1000
	for _, groups := range []int{1000, 100_000, 1_000_000} {
		batch := benchBatch(rand.New(rand.NewPCG(1, 2)), rows, groups, 0)
		b.Run(fmt.Sprintf("columns/groups=%d", groups), func(b *testing.B) {
			g := heldGroups(b, groups, "key", benchSum)
			before, err := g.Snapshot()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Begin(); err != nil {
					b.Fatal(err)
				}
				if err := processAndRelease(g, batch); err != nil {
					b.Fatal(err)
				}
				if err := g.Rollback(); err != nil {
					b.Fatal(err)
				}
			}
			if after, err := g.Snapshot(); err != nil || string(after) != string(before) {
				b.Fatalf("the state is not what it was: %v", err)
			}
			reportRows(b, rows)
		})
		b.Run(fmt.Sprintf("naive/groups=%d", groups), func(b *testing.B) {
			sums := make(map[int64]int64, groups)
			for key := range groups {
				sums[int64(key)] = 1
			}
			b.ReportAllocs()
			for b.Loop() {
				before := maps.Clone(sums)
				for row := range int(batch.NumRows()) {
					sums[arrays.Value(batch.Column(0), row).(int64)] += arrays.Value(batch.Column(2), row).(int64)
				}
				sums = before
			}
			reportRows(b, rows)
		})
		batch.Release()
	}
}
