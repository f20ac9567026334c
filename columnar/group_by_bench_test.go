// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
)

const benchRows = 65536

var benchSchema = arrowtest.Fields("key", int64Type, "name", textType, "amount", int64Type, TimestampColumn, int64Type)

// benchBatch returns rows whose keys are drawn from that many, in the window
// of 10 s that begins at start.
func benchBatch(r *rand.Rand, rows, keys int, start int64) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema)
	defer builder.Release()
	for i := range rows {
		key := r.Int64N(int64(keys))
		builder.Field(0).(*array.Int64Builder).Append(key)
		builder.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("user-%d", key))
		builder.Field(2).(*array.Int64Builder).Append(int64(i))
		builder.Field(3).(*array.Int64Builder).Append(start + int64(i)*9999/int64(rows))
	}
	return builder.NewRecordBatch()
}

// allKeys returns one row for each key.
func allKeys(keys int) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema)
	defer builder.Release()
	for key := range int64(keys) {
		builder.Field(0).(*array.Int64Builder).Append(key)
		builder.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("user-%d", key))
		builder.Field(2).(*array.Int64Builder).Append(1)
		builder.Field(3).(*array.Int64Builder).Append(0)
	}
	return builder.NewRecordBatch()
}

func reportRows(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

var benchGroups = []int{10, 1000, 50_000, 1_000_000}

// BenchmarkGroupBy adds batches to groups that exist, and emits the changed
// ones, or none of them.
func BenchmarkGroupBy(b *testing.B) {
	sum := Aggregation{InputColumn: "amount", OutputColumn: "total", Function: Sum}
	count := Aggregation{Function: Count, OutputColumn: "n"}
	for _, test := range []struct {
		name     string
		grouping Grouping
		quiet    bool // leaves out the emission
	}{
		{"key=int/sum/quiet", Grouping{Keys: []string{"key"}, Aggregations: []Aggregation{sum}}, true},
		{"key=int/sum/changes", Grouping{Keys: []string{"key"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
		{"key=int/window/count/changes", Grouping{Keys: []string{"key"}, Aggregations: []Aggregation{count}, Window: 10 * time.Second, Emit: EmitChanges}, false},
		{"key=text/sum/changes", Grouping{Keys: []string{"name"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
		{"key=int,text/sum/changes", Grouping{Keys: []string{"key", "name"}, Aggregations: []Aggregation{sum}, Emit: EmitChanges}, false},
	} {
		for _, groups := range benchGroups {
			b.Run(fmt.Sprintf("%s/groups=%d", test.name, groups), func(b *testing.B) {
				operator, err := NewGroupBy(memory.DefaultAllocator, test.grouping)
				if err != nil {
					b.Fatal(err)
				}
				g, _ := operator.groupBy()
				if _, err := g.Process(allKeys(groups)); err != nil {
					b.Fatal(err)
				}
				g.Commit()
				r := rand.New(rand.NewPCG(1, 2))
				var batches []arrow.RecordBatch
				for range 8 {
					batches = append(batches, benchBatch(r, benchRows, groups, 0))
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
				reportRows(b, benchRows)
			})
		}
	}
}

func processAndRelease(g *groupKernel, batch arrow.RecordBatch) error {
	result, err := g.Process(batch)
	if err == nil {
		result.Release()
	}
	return err
}

func addOnly(g *groupKernel, batch arrow.RecordBatch) error {
	var in groupInput
	defer in.release()
	if err := in.read(g.mem, batch, g.plan, false, &g.millis); err != nil {
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
			add(allKeys(groups))
			r := rand.New(rand.NewPCG(1, 2))
			batch := benchBatch(r, benchRows, groups, 0)
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
			reportRows(b, benchRows)
		})
	}
}
