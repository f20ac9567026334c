// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

const benchRows = 65536

var benchGroups = []int{10, 1000, 50_000, 1_000_000}

// BenchmarkGroupBy adds batches to groups that exist, and emits the changed
// ones, or none of them.
func BenchmarkGroupBy(b *testing.B) {
	sum := Aggregation{InputColumn: "amount", OutputColumn: "total", Function: Sum}
	count := Aggregation{Function: Count, OutputColumn: "n"}
	for _, test := range []struct {
		name  string
		spec  Spec
		quiet bool // leaves out the emission
	}{
		{"key=int/sum/quiet", Spec{Keys: []string{"key"}, Aggregations: []Aggregation{sum}}, true},
		{"key=int/sum/changes", Spec{Keys: []string{"key"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
		{"key=int/window/count/changes", Spec{Keys: []string{"key"}, Aggregations: []Aggregation{count}, Windowed: true, Window: Windowing{Size: 10_000}, Emit: EmitChanges}, false},
		{"key=text/sum/changes", Spec{Keys: []string{"name"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
		{"key=int,text/sum/changes", Spec{Keys: []string{"key", "name"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
	} {
		for _, groups := range benchGroups {
			b.Run(fmt.Sprintf("%s/groups=%d", test.name, groups), func(b *testing.B) {
				spec := test.spec
				spec.Timed = true
				g := New(memory.DefaultAllocator, spec.WithDefaults())
				if _, err := g.Process(arrowtest.OneRowAKey(groups)); err != nil {
					b.Fatal(err)
				}
				g.Commit()
				r := rand.New(rand.NewPCG(1, 2))
				var batches []arrow.RecordBatch
				for range 8 {
					batches = append(batches, arrowtest.KeyedBatch(r, benchRows, groups, 0))
				}
				run := processAndRelease
				if test.quiet {
					run = addOnly
				}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					if err := run(g, batches[i%len(batches)]); err != nil {
						b.Fatal(err)
					}
					g.Commit()
					i++
				}
				arrowtest.ReportRows(b, benchRows)
			})
		}
	}
}

func processAndRelease(g *Operator, batch arrow.RecordBatch) error {
	result, err := g.Process(batch)
	if err == nil {
		result.Release()
	}
	return err
}

func addOnly(g *Operator, batch arrow.RecordBatch) error {
	var in rowInput
	defer in.release()
	if err := in.read(g.mem, batch, g.plan, false, 0, &g.millis); err != nil {
		return err
	}
	return g.addRows(&in)
}

// BenchmarkGroupByNaive is the row-by-row route: each key boxed, encoded and
// made a string, each sum a big.Int, each emitted cell boxed.
func BenchmarkGroupByNaive(b *testing.B) {
	for _, groups := range benchGroups {
		b.Run(fmt.Sprintf("key=int/sum/changes/groups=%d", groups), func(b *testing.B) {
			sums := make(map[string]*big.Int)
			keys := make(map[string]any)
			add := func(batch arrow.RecordBatch) (touched map[string]bool) {
				touched = make(map[string]bool)
				for row := range int(batch.NumRows()) {
					key := arrays.Value(batch.Column(0), row)
					encoded, _ := keytable.AppendValue(nil, key)
					name := string(encoded)
					if sums[name] == nil {
						sums[name], keys[name] = new(big.Int), key
					}
					amount := arrays.Value(batch.Column(2), row).(int64)
					sums[name].Add(sums[name], big.NewInt(amount))
					touched[name] = true
				}
				return touched
			}
			add(arrowtest.OneRowAKey(groups))
			r := rand.New(rand.NewPCG(1, 2))
			batch := arrowtest.KeyedBatch(r, benchRows, groups, 0)
			b.ReportAllocs()
			for b.Loop() {
				result := array.NewRecordBuilder(memory.DefaultAllocator, arrowtest.Fields("key", int64Type, "total", int64Type))
				for name := range add(batch) {
					if err := arrays.AppendValue(result.Field(0), keys[name]); err != nil {
						b.Fatal(err)
					}
					if err := arrays.AppendValue(result.Field(1), sums[name].Int64()); err != nil {
						b.Fatal(err)
					}
				}
				result.NewRecordBatch().Release()
				result.Release()
			}
			arrowtest.ReportRows(b, benchRows)
		})
	}
}

// heldGroups returns an operator that holds so many groups.
func heldGroups(b *testing.B, groups int, key string, aggregations ...Aggregation) *Operator {
	b.Helper()
	g := New(memory.DefaultAllocator, Spec{Keys: []string{key}, Aggregations: aggregations, Emit: EmitChanges, Timed: true}.WithDefaults())
	batch := arrowtest.OneRowAKey(groups)
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
		batch := arrowtest.KeyedBatch(rand.New(rand.NewPCG(1, 2)), rows, groups, 0)
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
			arrowtest.ReportRows(b, rows)
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
			arrowtest.ReportRows(b, rows)
		})
		batch.Release()
	}
}
