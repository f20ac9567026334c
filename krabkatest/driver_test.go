// SPDX-License-Identifier: Apache-2.0

package krabkatest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/krabkatest"
)

// driverOf returns a driver of a topology, over an allocator that finds leaks.
func driverOf(t *testing.T, describe func(b *stream.Builder)) *krabkatest.ColumnarTestDriver {
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
	return krabkatest.NewColumnarTestDriver(built)
}

// positions sends the offsets and partitions of records to topic "out".
func positions(b *stream.Builder) {
	b.From(stream.JSON(stream.Optional(stream.Int("n"))), "in").
		With(columnar.Column(columnar.OffsetColumn).As("offset"), columnar.Column(columnar.PartitionColumn).As("partition")).
		To("out", stream.JSON())
}

type position struct {
	N         *int64 `json:"n"`
	Offset    int64  `json:"offset"`
	Partition int32  `json:"partition"`
}

func TestPipedRecordsHaveOffsetsOfTheirPartition(t *testing.T) {
	d := driverOf(t, positions)
	fault := errors.New("broken pipe")
	pipe := func(partition int, value string, want error) {
		t.Helper()
		if err := d.PipeInput("in", partition, nil, []byte(value), 5); !errors.Is(err, want) {
			t.Fatalf("pipe %s to partition %d: %v, want %v", value, partition, err, want)
		}
	}
	pipe(0, `{"n":1}`, nil)
	d.FailNext(fault)
	pipe(0, `{"n":2}`, fault) // leaves offset 1
	pipe(0, `{"n":3}`, nil)
	pipe(2, `{"n":4}`, nil)
	if err := d.PipeInput("in", 0, nil, []byte("no JSON"), 5); err == nil {
		t.Error("a record that does not decode is no error")
	}
	if err := d.PipeBatch("in", []columnar.ConsumedRecord{columnar.NewConsumedRecord(nil, []byte(`{"n":5}`), 0, 0, 70)}); err != nil {
		t.Fatalf("batch: %v", err)
	}
	pipe(0, `{"n":6}`, nil)

	rows, err := krabkatest.RowsOf[position](d.DrainOutput("out"))
	if err != nil {
		t.Fatal(err)
	}
	n := func(n int64) *int64 { return &n }
	want := []position{{n(1), 0, 0}, {n(3), 1, 0}, {n(4), 0, 2}, {n(5), 70, 0}, {n(6), 2, 0}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestFaultsWaitForOneBatchEach(t *testing.T) {
	d := driverOf(t, positions)
	first, second := errors.New("first"), errors.New("second")
	d.FailNext(first)
	d.FailNext(second)
	// An empty batch uses a fault too.
	for _, want := range []error{first, second, nil} {
		if err := d.PipeBatch("in", nil); err != want {
			t.Errorf("batch: %v, want %v", err, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("FailNext(nil) did not panic")
		}
	}()
	d.FailNext(nil)
}

func TestOutputIsReadInItsOrder(t *testing.T) {
	d := driverOf(t, func(b *stream.Builder) { b.From(stream.JSON(stream.Int("n")), "in").ForwardTo("out") })
	if !d.IsOutputEmpty("out") || d.OutputSize("out") != 0 || d.DrainOutput("out") != nil {
		t.Error("a topic without output is not empty")
	}
	key, value, header := []byte("k"), []byte("a"), []byte("h")
	if err := d.PipeInput("in", 0, key, value, 7, columnar.RecordHeader{Key: "from", Value: header}); err != nil {
		t.Fatal(err)
	}
	key[0], value[0], header[0] = 'x', 'x', 'x'
	if err := d.PipeTombstone("in", 0, []byte("k"), 8); err != nil {
		t.Fatal(err)
	}
	if d.IsOutputEmpty("out") || d.OutputSize("out") != 2 {
		t.Errorf("%d records are queued, want 2", d.OutputSize("out"))
	}
	got, err := d.ReadOutput("out")
	if err != nil {
		t.Fatal(err)
	}
	want := columnar.NewProduceRecord([]byte("k"), []byte("a"), 7, columnar.RecordHeader{Key: "from", Value: []byte("h")})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first record mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]columnar.ProduceRecord{columnar.NewProduceTombstone([]byte("k"), 8)}, d.DrainOutput("out")); diff != "" {
		t.Errorf("second record mismatch (-want +got):\n%s", diff)
	}
	if _, err := d.ReadOutput("out"); err == nil || err.Error() != "krabkatest: topic `out` has no output" {
		t.Errorf("read of an empty queue: %v", err)
	}
}

func TestTimeAndRestartsAreInTheHandOfTheTest(t *testing.T) {
	d := driverOf(t, func(b *stream.Builder) {
		b.From(stream.JSON(stream.Text("user")), "visits").
			GroupBy("user").Tumbling(10*time.Second).Emit(columnar.EmitFinal).
			Aggregate(stream.Count()).
			To("counts", stream.JSON())
	})
	type visit struct {
		User string `json:"user"`
	}
	for _, at := range []int64{1_000, 2_000} {
		if err := d.PipeJSON("visits", at, visit{"ada"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Restart(); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	if err := d.AdvanceTime(0, 9_999); err != nil {
		t.Fatal(err)
	}
	if !d.IsOutputEmpty("counts") {
		t.Errorf("the window is closed early: %v", d.DrainOutput("counts"))
	}
	if err := d.AdvanceTime(0, 10_000); err != nil {
		t.Fatal(err)
	}
	type count struct {
		visit
		Start int64 `json:"__window_start"`
		End   int64 `json:"__window_end"`
		Count int64 `json:"count"`
	}
	rows, err := krabkatest.RowsOf[count](d.DrainOutput("counts"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]count{{visit{"ada"}, 0, 10_000, 2}}, rows, cmp.AllowUnexported(count{})); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if err := d.PipeJSON("visits", 0, func() {}); err == nil {
		t.Error("a value without JSON is no error")
	}
}

func TestRowsThatDoNotFitAreErrors(t *testing.T) {
	record := func(value string) columnar.ProduceRecord { return columnar.NewProduceRecord(nil, []byte(value), 0) }
	type row struct {
		N int `json:"n"`
	}
	rows, err := krabkatest.RowsOf[row]([]columnar.ProduceRecord{record(`{"n":4}`), columnar.NewProduceTombstone(nil, 0)})
	if diff := cmp.Diff([]row{{4}, {}}, rows); diff != "" || err != nil {
		t.Errorf("rows mismatch (-want +got):\n%s\nerror %v", diff, err)
	}
	for value, want := range map[string]string{
		`{"n":1,"m":2}`: `krabkatest: record 1, "{\"n\":1,\"m\":2}", as a krabkatest_test.row: json: unknown field "m"`,
		`{"n":1} {}`:    `krabkatest: record 1, "{\"n\":1} {}", as a krabkatest_test.row: text behind the JSON value`,
	} {
		if _, err := krabkatest.RowsOf[row]([]columnar.ProduceRecord{record(`{}`), record(value)}); err == nil || err.Error() != want {
			t.Errorf("rows of %s: %v, want %s", value, err, want)
		}
	}
}
