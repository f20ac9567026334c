// SPDX-License-Identifier: Apache-2.0

package kafka_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/kafka"
)

func init() {
	runnerSuite = append(runnerSuite, []suiteTest{
		{"advance of time is committed once", testAdvanceIsCommittedOnce},
		{"notes stay beside offsets until the next commit", testNotes},
	}...)
}

// windowedCounts counts the values of in by windows of a day, and emits a window
// when it closes.
func windowedCounts(t testing.TB, in, out string) *columnar.Topology {
	t.Helper()
	mem := memory.DefaultAllocator
	field := arrow.Field{Name: "v", Type: arrow.BinaryTypes.String}
	read, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{field}, nil))
	if err != nil {
		t.Fatal(err)
	}
	count, err := columnar.NewGroupBy(mem, columnar.Grouping{
		Keys: []string{"v"}, Window: 24 * time.Hour, Emit: columnar.EmitFinal,
		Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	topology := columnar.NewTopology(mem)
	source, err := topology.AddSource("values", []string{in}, read)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := topology.AddOperator("count", count, source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.AddSink("counts", out, read, counted); err != nil {
		t.Fatal(err)
	}
	return topology
}

// countedValues sums what the windows said of each value.
func (c cluster) countedValues(t testing.TB, out string) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	for _, value := range c.values(t, out) {
		var row struct {
			V string `json:"v"`
			N int64  `json:"n"`
		}
		if err := json.Unmarshal([]byte(value), &row); err != nil {
			t.Fatalf("output %s: %v", value, err)
		}
		sums[row.V] += row.N
	}
	return sums
}

// The answer to the commit of an advance is lost, or its request, and the member
// goes on, or is killed before it can find out. The journal has the advance in any
// case; the note beside the committed offsets tells whether it took place.
func testAdvanceIsCommittedOnce(t *testing.T, c cluster) {
	for _, lost := range []string{"nothing", "the answer", "the request"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s is lost, killed %v", lost, killed), func(t *testing.T) {
				in, out, group, dir := c.topic(t, 1), c.topic(t, 1), unique("group"), t.TempDir()
				w := newWire()
				recovered := false // the partition of the latest runner
				start := func() (*columnar.GroupRunner, *kafka.TransactionalMember) {
					t.Helper()
					m, err := kafka.NewTransactionalMember(group, group+"-0",
						c.opts(brisk(kgo.Dialer(w.dial), kgo.RetryTimeout(time.Second), kafka.WithCallTimeout(3*time.Second))...)...)
					if err != nil {
						t.Fatal(err)
					}
					recovered = false
					r, err := columnar.NewGroupRunner(windowedCounts(t, in, out), m, m, columnar.WithStateStore(killedStore{columnar.NewFileStateStore(dir)}),
						columnar.WithHooks(columnar.Hooks{Recovery: func(columnar.RecoveryInfo) { recovered = true }}))
					if err != nil {
						t.Fatal(err)
					}
					return r, m
				}
				drain := func(r *columnar.GroupRunner) {
					t.Helper()
					ctx := within(t)
					for {
						_, err := r.RunOnceTransactional(ctx, 200*time.Millisecond)
						if err != nil && !columnar.IsRetriable(err) {
							t.Fatalf("round: %v", err)
						}
						lag, err := r.Lag(ctx)
						if err != nil {
							t.Fatalf("lag: %v", err)
						}
						if behind, ok := lag[at(in, 0)]; ok && behind == 0 && recovered {
							return
						}
					}
				}
				later := time.Now().Add(72 * time.Hour).UnixMilli()
				c.produce(t, in, 0, `{"v":"a"}`, `{"v":"a"}`, `{"v":"b"}`)
				r, m := start()
				drain(r)
				w.set(func(w *wire) {
					switch lost {
					case "the answer":
						w.answers = kmsg.EndTxn
					case "the request":
						w.request = kmsg.EndTxn
					}
					if killed {
						w.hit = func() {}
					}
				})
				err := r.AdvanceTime(within(t), later)
				switch {
				case lost == "nothing" || lost == "the answer" && !killed:
					if err != nil {
						t.Errorf("AdvanceTime = %v; want none: it was committed", err)
					}
				case killed:
					if !errors.As(err, new(*columnar.CommitUnknownError)) {
						t.Errorf("AdvanceTime = %v; want a CommitUnknownError", err)
					}
				default:
					if !columnar.IsRetriable(err) {
						t.Errorf("AdvanceTime = %v; want an aborted transaction", err)
					}
				}
				if killed {
					_ = m.Close() // the wire may be down
					w.set(func(w *wire) { w.down, w.hit = false, nil })
					r, m = start()
					drain(r)
				}
				for range 2 {
					if err := r.AdvanceTime(within(t), later); err != nil {
						t.Fatalf("AdvanceTime again: %v", err)
					}
				}
				if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1}, c.countedValues(t, out)); diff != "" {
					t.Errorf("counts mismatch (-want +got):\n%s", diff)
				}
				if err := errors.Join(r.Close(), m.Close()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

func testNotes(t *testing.T, c cluster) {
	in, group := c.topic(t, 2), unique("group")
	c.produce(t, in, 0, "a", "b")
	c.produce(t, in, 1, "x", "y")
	m := c.transactional(t, group, unique("id"), nil, []string{in})
	pollUntil(t, m, records(4))
	both := []columnar.TopicPartition{at(in, 0), at(in, 1)}
	for _, step := range []struct {
		offsets    map[columnar.TopicPartition]int64
		notes      map[columnar.TopicPartition]string
		abort      bool
		wantStored map[columnar.TopicPartition]string
	}{
		{
			offsets:    map[columnar.TopicPartition]int64{at(in, 0): 1, at(in, 1): 1},
			notes:      map[columnar.TopicPartition]string{at(in, 0): "one", at(in, 1): "two words"},
			wantStored: map[columnar.TopicPartition]string{at(in, 0): "one", at(in, 1): "two words"},
		},
		{
			offsets:    map[columnar.TopicPartition]int64{at(in, 0): 1},
			notes:      map[columnar.TopicPartition]string{at(in, 0): "aborted"},
			abort:      true,
			wantStored: map[columnar.TopicPartition]string{at(in, 0): "one", at(in, 1): "two words"},
		},
		{ // the same offset as before
			offsets:    map[columnar.TopicPartition]int64{at(in, 0): 1},
			notes:      map[columnar.TopicPartition]string{at(in, 0): "again"},
			wantStored: map[columnar.TopicPartition]string{at(in, 0): "again", at(in, 1): "two words"},
		},
		{
			offsets:    map[columnar.TopicPartition]int64{at(in, 1): 2},
			wantStored: map[columnar.TopicPartition]string{at(in, 0): "again"},
		},
	} {
		if err := m.BeginTransaction(); err != nil {
			t.Fatalf("begin: %v", err)
		}
		if err := m.SendOffsetsNoted(within(t), step.offsets, step.notes, m.GroupMetadata()); err != nil {
			t.Fatalf("send offsets: %v", err)
		}
		end := m.CommitTransactionContext
		if step.abort {
			end = m.AbortTransactionContext
		}
		if err := end(within(t)); err != nil {
			t.Fatalf("end: %v", err)
		}
		stored, err := m.CommittedNotes(within(t), both)
		if err != nil {
			t.Fatalf("committed notes: %v", err)
		}
		if diff := cmp.Diff(step.wantStored, stored); diff != "" {
			t.Errorf("notes behind %v mismatch (-want +got):\n%s", step.notes, diff)
		}
	}
}
