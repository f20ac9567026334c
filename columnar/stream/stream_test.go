// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
)

// record is one record of a test, with its event time in milliseconds.
type record struct {
	value string
	at    int64
}

// process returns the outputs of a topology for records by topic, as text.
func process(t *testing.T, built *columnar.BuiltTopology, input map[string][]record) []string {
	t.Helper()
	batches := map[string][]columnar.ConsumedRecord{}
	for topic, records := range input {
		for i, r := range records {
			batches[topic] = append(batches[topic], columnar.NewConsumedRecord([]byte("k"), []byte(r.value), r.at, 0, int64(i)))
		}
	}
	outputs, err := built.RunPartitionBatches(0, batches)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	var lines []string
	for _, out := range outputs {
		lines = append(lines, fmt.Sprintf("%s %s=%s @%d", out.Topic, out.Record.Key, out.Record.Value, out.Record.Timestamp))
	}
	return lines
}

// build builds what a builder describes, over an allocator that finds leaks.
func build(t *testing.T, describe func(b *stream.Builder)) *columnar.BuiltTopology {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	b := stream.New(stream.WithAllocator(mem))
	describe(b)
	topology, err := b.Topology()
	if err != nil {
		t.Fatalf("topology: %v", err)
	}
	built, err := topology.Build()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	t.Cleanup(func() { built.Close() })
	return built
}

// double is a processor of a user's: it forwards each batch twice.
func double() columnar.Processor {
	return columnar.ProcessorFunc(func(ctx *columnar.Context, batch arrow.RecordBatch) error {
		for range 2 {
			ctx.Forward(batch.NewSlice(0, batch.NumRows()))
		}
		return nil
	})
}

func TestStepsDoWhatTheirFunctionsDo(t *testing.T) {
	bids := stream.JSON(stream.Text("who"), stream.Optional(stream.Float("price")), stream.Bool("open"), stream.Decimal("fee", 9, 2))
	input := map[string][]record{"bids": {
		{`{"who":"ada","price":2.5,"open":true,"fee":1.25}`, 1000},
		{`{"who":"alan","open":false,"fee":3}`, 2000},
	}}
	tests := []struct {
		name  string
		chain func(s *stream.Stream) *stream.Stream
		want  []string
	}{
		{"where", func(s *stream.Stream) *stream.Stream { return s.Where(columnar.Column("open").Equal(true)) },
			[]string{`out k={"who":"ada","price":2.5,"open":true,"fee":1.25} @1000`}},
		{"select", func(s *stream.Stream) *stream.Stream { return s.Select("fee", "who") },
			[]string{`out k={"fee":1.25,"who":"ada"} @1000`, `out k={"fee":3.00,"who":"alan"} @2000`}},
		{"with", func(s *stream.Stream) *stream.Stream {
			return s.With(columnar.Column("price").IsNull().As("free")).Select("free")
		}, []string{`out k={"free":false} @1000`, `out k={"free":true} @2000`}},
		{"key", func(s *stream.Stream) *stream.Stream { return s.WithKey(columnar.Column("who")).Select("open") },
			[]string{`out ada={"open":true} @1000`, `out alan={"open":false} @2000`}},
		{"timestamp", func(s *stream.Stream) *stream.Stream {
			return s.WithTimestamp(columnar.Column(columnar.TimestampColumn).Add(5)).Select("open")
		}, []string{`out k={"open":true} @1005`, `out k={"open":false} @2005`}},
		{"apply", func(s *stream.Stream) *stream.Stream {
			return s.Apply(columnar.Filter(memory.DefaultAllocator, func(batch arrow.RecordBatch, row int) bool { return row == 1 })).Select("who")
		}, []string{`out k={"who":"alan"} @2000`}},
		{"process", func(s *stream.Stream) *stream.Stream { return s.Select("open").Process(double) },
			[]string{`out k={"open":true} @1000`, `out k={"open":false} @2000`, `out k={"open":true} @1000`, `out k={"open":false} @2000`}},
		{"merge", func(s *stream.Stream) *stream.Stream {
			names := s.Select("who")
			return names.Merge(names.Where(columnar.Column("who").HasPrefix("al")))
		}, []string{`out k={"who":"ada"} @1000`, `out k={"who":"alan"} @2000`, `out k={"who":"alan"} @2000`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			built := build(t, func(b *stream.Builder) { tt.chain(b.From(bids, "bids")).To("out", stream.JSON()) })
			if diff := cmp.Diff(tt.want, process(t, built, input)); diff != "" {
				t.Errorf("outputs mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupingSettingsReachTheGrouping(t *testing.T) {
	visits := stream.JSON(stream.Text("user"), stream.Int("ms"), stream.Time("at"))
	input := map[string][]record{"visits": {
		{`{"user":"ada","ms":5,"at":"1970-01-01T00:00:01Z"}`, 0},
		{`{"user":"ada","ms":9,"at":"1970-01-01T00:00:02Z"}`, 0},
		{`{"user":"bob","ms":1,"at":"1970-01-01T00:00:15Z"}`, 0},
		{`{"user":"ada","ms":2,"at":"1970-01-01T00:00:03Z"}`, 0},
	}}
	built := build(t, func(b *stream.Builder) {
		grouped := b.From(visits, "visits").
			GroupBy("user").EventTime("at").Tumbling(10*time.Second).Grace(5*time.Second).Emit(columnar.EmitFinal).
			Aggregate(stream.Count(), stream.Sum("ms"), stream.Min("ms").As("least"), stream.Max("ms"))
		grouped.To("out", stream.JSON().Key("user"))
		grouped.Late().Select("ms").To("late", stream.JSON())
	})
	want := []string{
		`out {"user":"ada"}={"user":"ada","__window_start":0,"__window_end":10000,"count":2,"sum_ms":14,"least":5,"max_ms":9} @2000`,
		`late k={"ms":2} @0`,
	}
	if diff := cmp.Diff(want, process(t, built, input)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}

	hopping := build(t, func(b *stream.Builder) {
		b.From(visits, "visits").
			GroupBy("user").EventTimeIn("ms", time.Second).Hopping(10*time.Second, 5*time.Second).Offset(2*time.Second).
			Aggregate(stream.Count()).Select(columnar.WindowStartColumn, "count").To("out", stream.JSON())
	})
	want = []string{
		`out ={"__window_start":-3000,"count":1} @5000`, `out ={"__window_start":2000,"count":2} @9000`,
		`out ={"__window_start":7000,"count":1} @9000`,
	}
	if diff := cmp.Diff(want, process(t, hopping, map[string][]record{"visits": input["visits"][:2]})); diff != "" {
		t.Errorf("outputs of hopping windows mismatch (-want +got):\n%s", diff)
	}

	all := build(t, func(b *stream.Builder) {
		b.From(visits, "visits").With(columnar.Column("ms").Greater(4).As("long")).GroupBy("user").
			Aggregate(stream.CountValues("ms"), stream.Avg("ms"), stream.First("ms"), stream.Last("ms"), stream.AllTrue("long"), stream.AnyTrue("long")).
			To("out", stream.JSON())
	})
	want = []string{
		`out ={"user":"ada","count_ms":3,"avg_ms":5.333333333333333,"first_ms":5,"last_ms":2,"all_long":false,"any_long":true} @0`,
		`out ={"user":"bob","count_ms":1,"avg_ms":1,"first_ms":1,"last_ms":1,"all_long":false,"any_long":false} @0`,
	}
	if diff := cmp.Diff(want, process(t, all, input)); diff != "" {
		t.Errorf("outputs of all aggregates mismatch (-want +got):\n%s", diff)
	}

	limited := build(t, func(b *stream.Builder) {
		b.From(visits, "visits").GroupBy("user").MaxGroups(1).Aggregate(stream.Count()).To("out", stream.JSON())
	})
	var tooMany *columnar.StateLimitError
	_, err := limited.RunBatch("visits", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte(`{"user":"ada","ms":1,"at":0}`), 0, 0, 0),
		columnar.NewConsumedRecord(nil, []byte(`{"user":"bob","ms":1,"at":0}`), 0, 0, 1),
	})
	if !errors.As(err, &tooMany) {
		t.Errorf("two groups where one is allowed: %v, want a StateLimitError", err)
	}
}

func TestJoinSettingsReachTheJoin(t *testing.T) {
	orders, payments := stream.JSON(stream.Int("id")), stream.JSON(stream.Int("order"), stream.Int("cents"))
	join := func(match stream.Match) func(b *stream.Builder) {
		return func(b *stream.Builder) {
			b.From(orders, "orders").Join(b.From(payments, "payments"), time.Second, match).To("out", stream.JSON())
		}
	}
	input := map[string][]record{
		"orders":   {{`{"id":1}`, 1000}, {`{"id":2}`, 1000}},
		"payments": {{`{"order":1,"cents":7}`, 2000}, {`{"order":2,"cents":8}`, 2001}},
	}
	got := process(t, build(t, join(stream.On("id", "order").Prefixes("o_", "p_"))), input)
	if diff := cmp.Diff([]string{`out k={"o_id":1,"p_order":1,"p_cents":7} @1000`}, got); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}

	limited := build(t, join(stream.On("id", "order").MaxRows(1)))
	var tooMany *columnar.StateLimitError
	_, err := limited.RunBatch("orders", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord(nil, []byte(`{"id":1}`), 0, 0, 0),
		columnar.NewConsumedRecord(nil, []byte(`{"id":2}`), 0, 0, 1),
	})
	if !errors.As(err, &tooMany) {
		t.Errorf("two rows where one is allowed: %v, want a StateLimitError", err)
	}
}

func TestRecordsAreForwardedAsTheyAre(t *testing.T) {
	built := build(t, func(b *stream.Builder) { b.From(stream.JSON(stream.Int("n")), "in").ForwardTo("out") })
	got := process(t, built, map[string][]record{"in": {{"not json", 3}}})
	if diff := cmp.Diff([]string{"out k=not json @3"}, got); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
}

// State that a chain has saved is restored by a topology of the documented calls
// whose node has the same name, and the other way round.
func TestChainAndDocumentedCallsShareTheirState(t *testing.T) {
	chain := func(name string) func(b *stream.Builder) {
		return func(b *stream.Builder) {
			b.From(stream.JSON(stream.Text("user")), "visits").Named(name).
				GroupBy("user").Aggregate(stream.Count().As("visits")).
				To("out", stream.JSON())
		}
	}
	documented := func(t *testing.T, name string) *columnar.BuiltTopology {
		t.Helper()
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		t.Cleanup(func() { mem.AssertSize(t, 0) })
		must := func(node columnar.Node, err error) columnar.Node {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return node
		}
		codec, err := columnar.NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{{Name: "user", Type: arrow.BinaryTypes.String}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		perUser, err := columnar.NewGroupBy(mem, columnar.Grouping{
			Keys: []string{"user"}, Emit: columnar.EmitChanges,
			Aggregations: []columnar.Aggregation{{Function: columnar.Count, OutputColumn: "visits"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		topology := columnar.NewTopology(mem)
		source := must(topology.AddSource("visits", []string{"visits"}, codec))
		must(topology.AddSink("out", "out", codec, must(topology.AddOperator(name, perUser, source))))
		built, err := topology.Build()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { built.Close() })
		return built
	}
	input := map[string][]record{"visits": {{`{"user":"ada"}`, 0}}}
	for _, tt := range []struct{ name, node string }{{"", "group-1"}, {"per-user", "per-user"}} {
		t.Run("node "+tt.node, func(t *testing.T) {
			from, to := build(t, chain(tt.name)), documented(t, tt.node)
			for n, direction := range [][2]*columnar.BuiltTopology{{from, to}, {to, from}} {
				process(t, direction[0], input)
				state, err := direction[0].SnapshotPartition(0)
				if err != nil {
					t.Fatalf("snapshot: %v", err)
				}
				if err := direction[1].RestorePartition(0, state); err != nil {
					t.Fatalf("restore: %v", err)
				}
				want := []string{fmt.Sprintf(`out ={"user":"ada","visits":%d} @0`, 2+2*n)}
				if diff := cmp.Diff(want, process(t, direction[1], input)); diff != "" {
					t.Errorf("outputs after restore %d mismatch (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

func TestErrorsOfAChainComeAtItsEnd(t *testing.T) {
	visits := stream.JSON(stream.Text("user"))
	tests := []struct {
		name  string
		chain func(b *stream.Builder)
		want  string
	}{
		{"source without a topic", func(b *stream.Builder) { b.From(visits).To("out", visits) },
			"columnar: node `source-1`: a source needs at least one topic"},
		{"source without a format", func(b *stream.Builder) { b.From(nil, "in").To("out", visits) },
			"columnar: node `source-1`: the format is nil"},
		{"source of JSON without fields", func(b *stream.Builder) { b.From(stream.JSON(), "in").To("out", visits) },
			"columnar: node `source-1`: JSON without fields has no columns to decode into: name the fields in stream.JSON"},
		{"codec that is nil", func(b *stream.Builder) { b.From(visits, "in").To("out", stream.Using(nil)) },
			"columnar: node `sink-1`: codec must not be nil"},
		{"expression that is wrong", func(b *stream.Builder) {
			b.From(visits, "in").Where(columnar.Literal(struct{}{})).Select("user").To("out", visits)
		}, "columnar: node `where-1`: cannot use struct {} as a literal"},
		{"two steps that are wrong", func(b *stream.Builder) {
			in := b.From(visits, "in")
			in.GroupBy().Aggregate().To("out", visits)
			in.Named("mine").Process(nil).To("out", visits)
		}, "columnar: node `group-1`: groupBy requires at least one key column\ncolumnar: node `mine`: processor must not be nil"},
		{"step that nothing reads", func(b *stream.Builder) {
			in := b.From(visits, "in")
			in.To("out", visits)
			in.Named("forgotten").Select("user")
		}, "columnar: node `forgotten`: nothing reads the rows of this step: end the stream with To or ForwardTo"},
		{"stream of another builder", func(b *stream.Builder) {
			in := b.From(visits, "in")
			in.To("out", visits)
			in.Merge(stream.New().From(visits, "other")).To("out", visits)
		}, "columnar: node `merge-1`: a stream that the step reads belongs to another builder"},
		{"stream that is nil", func(b *stream.Builder) {
			in := b.From(visits, "in")
			in.To("out", visits)
			in.Join(nil, time.Second, stream.On("user", "user")).To("out", visits)
		}, "columnar: node `join-1`: a stream that the step reads is nil"},
		{"late rows of a grouping without windows", func(b *stream.Builder) {
			grouped := b.From(visits, "in").GroupBy("user").Aggregate()
			grouped.To("out", visits)
			grouped.Late().To("late", visits)
		}, "columnar: node `late-1`: late rows come from an operator with windows"},
		{"records that are forwarded behind a step", func(b *stream.Builder) { b.From(visits, "in").Select("user").ForwardTo("out") },
			"columnar: node `sink-1`: a pass-through sink must be attached directly to a source"},
		{"two steps of one name", func(b *stream.Builder) {
			b.From(visits, "in").Named("same").Select("user").Named("same").Select("user").To("out", visits)
		}, "columnar: duplicate node name `same`"},
		{"no step", func(*stream.Builder) {}, "columnar: topology has no source"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := stream.New()
			tt.chain(b)
			topology, err := b.Topology()
			if err == nil || topology != nil {
				t.Fatalf("topology %v, error %v; want an error alone", topology, err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error mismatch (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := stream.New(stream.WithAllocator(nil)).From(visits, "in").ForwardTo("out").Topology(); err == nil || err.Error() != "stream: the allocator is nil" {
		t.Errorf("error of a nil allocator: %v", err)
	}
}
