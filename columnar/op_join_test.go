// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// joinOf builds a topology that joins the topics l and r on user and sends the
// pairs to out, in all their payload columns.
func joinOf(tb testing.TB, mem memory.Allocator, join Join) *BuiltTopology {
	tb.Helper()
	topology := NewTopology(mem)
	codec := wideCodec{amountCodec{mem}}
	left := must[Node](tb)(topology.AddSource("left", []string{"l"}, codec))
	right := must[Node](tb)(topology.AddSource("right", []string{"r"}, codec))
	joined := must[Node](tb)(topology.AddJoin("join", join, left, right))
	must[Node](tb)(topology.AddSink("sink", "out", codec, joined))
	return must[*BuiltTopology](tb)(topology.Build())
}

// wideCodec writes all payload columns.
type wideCodec struct{ amountCodec }

func (c wideCodec) Encode(_ string, batch arrow.RecordBatch) ([]ProduceRecord, error) {
	payload, metadata := PayloadBatch(batch), NewRowMetadata(batch)
	defer payload.Release()
	records := make([]ProduceRecord, batch.NumRows())
	for i, row := range arrowtest.Rows(payload) {
		records[i] = ProduceRecord{Value: []byte(row), Timestamp: metadata.timestampOf(i)}
	}
	return records, nil
}

func byUser(window time.Duration) Join {
	return Join{LeftKey: "user", RightKey: "user", Window: window}
}

// timed makes records from texts such as "5 ada 7": timestamp and value.
func timed(partition int, records ...string) []ConsumedRecord {
	list := make([]ConsumedRecord, len(records))
	for i, record := range records {
		stamp, value, _ := strings.Cut(record, " ")
		list[i] = ConsumedRecord{Value: []byte(value), Partition: partition, Offset: int64(i)}
		if _, err := fmt.Sscan(stamp, &list[i].Timestamp); err != nil {
			panic(err)
		}
	}
	return list
}

func TestJoinSurvivesASnapshot(t *testing.T) {
	mem := newAllocator(t)
	built := joinOf(t, mem, byUser(10*time.Millisecond))
	if outputs := must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "100 a 5"))); len(outputs) != 0 {
		t.Errorf("a left row alone gave %q", produced(outputs))
	}
	restored := joinOf(t, mem, byUser(10*time.Millisecond))
	if err := restored.RestorePartition(0, must[map[string][]byte](t)(built.SnapshotPartition(0))); err != nil {
		t.Fatal(err)
	}
	if outputs := must[[]ProducedToTopic](t)(restored.RunBatch("r", timed(1, "105 a 9"))); len(outputs) != 0 {
		t.Errorf("another partition gave %q", produced(outputs))
	}
	outputs := must[[]ProducedToTopic](t)(restored.RunBatch("r", timed(0, "105 a 9")))
	if diff := cmp.Diff([]string{"out:a 5 a 9"}, produced(outputs)); diff != "" {
		t.Errorf("outputs mismatch (-want +got):\n%s", diff)
	}
	if outputs[0].Record.Timestamp != 100 {
		t.Errorf("timestamp = %d, want that of the left row", outputs[0].Record.Timestamp)
	}
}

func TestJoinOutputColumns(t *testing.T) {
	mem := newAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: textType},
		{Name: "__payload___key", Type: int64Type, Metadata: arrow.MetadataFrom(map[string]string{metacols.NameKey: KeyColumn, "unit": "s"})},
		{Name: TimestampColumn, Type: int64Type, Nullable: true},
		{Name: KeyColumn, Type: arrow.BinaryTypes.Binary, Nullable: true},
	}, nil)
	join := newJoinState(Join{LeftKey: KeyColumn, RightKey: KeyColumn, RightPrefix: "r."}, mem)
	batch := arrowtest.JSONBatch(t, mem, schema, `{"user":"a","__payload___key":4,"__timestamp":7,"__key":"AQ=="}`)
	results, err := join.process([]flow{{batch: batch}}, []flow{{batch: batch}})
	if err != nil {
		t.Fatal(err)
	}
	defer releaseBatches(results)
	want := arrow.NewSchema(slices.Concat([]arrow.Field{
		{Name: "left_user", Type: textType},
		{Name: "left___key", Type: int64Type, Metadata: arrow.MetadataFrom(map[string]string{"unit": "s"})},
		{Name: "r.user", Type: textType},
		{Name: "r.__key", Type: int64Type, Metadata: arrow.MetadataFrom(map[string]string{"unit": "s"})},
	}, metacols.Fields(false)), nil)
	if len(results) != 1 || !results[0].Schema().Equal(want) {
		t.Fatalf("results = %v, want one batch of %v", results, want)
	}
	if diff := cmp.Diff([]string{"a 4 a 4 AQ== 7 (null) (null) (null)"}, arrowtest.Rows(results[0])); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestJoinPairsInOrder(t *testing.T) {
	mem := newAllocator(t)
	built := joinOf(t, mem, byUser(10*time.Millisecond))
	run := func(left, right []string) []string {
		return produced(must[[]ProducedToTopic](t)(built.RunBatches(map[string][]ConsumedRecord{"l": timed(0, left...), "r": timed(0, right...)})))
	}
	steps := []struct{ left, right, want []string }{
		{[]string{"0 a 1", "1 b 2", "2 a 3"}, nil, nil},
		// Left rows meet the right rows that are there; right rows meet all left
		// rows, those of the same run among them.
		{[]string{"3 a 4"}, []string{"3 a 1", "4 b 2"}, []string{"out:a 1 a 1", "out:a 3 a 1", "out:a 4 a 1", "out:b 2 b 2"}},
		{[]string{"5 b 5", "5 a 6"}, []string{"5 a 3"}, []string{"out:b 5 b 2", "out:a 6 a 1", "out:a 1 a 3", "out:a 3 a 3", "out:a 4 a 3", "out:a 6 a 3"}},
	}
	for i, step := range steps {
		if diff := cmp.Diff(step.want, run(step.left, step.right)); diff != "" {
			t.Errorf("step %d mismatch (-want +got):\n%s", i, diff)
		}
	}
}

func TestJoinWindowBounds(t *testing.T) {
	for _, test := range []struct {
		window      time.Duration
		left, right string
		want        int
	}{
		{0, "5 a 1", "5 a 1", 1},
		{0, "5 a 1", "6 a 1", 0},
		{10 * time.Millisecond, "0 a 1", "10 a 1", 1},
		{10 * time.Millisecond, "0 a 1", "11 a 1", 0},
		{10 * time.Millisecond, "20 a 1", "10 a 1", 1},
		{10 * time.Millisecond, "21 a 1", "10 a 1", 0},
		{10*time.Millisecond + time.Microsecond, "0 a 1", "10 a 1", 1},
		{time.Hour, fmt.Sprintf("%d a 1", int64(math.MaxInt64)), fmt.Sprintf("%d a 1", int64(math.MinInt64)), 0},
		{time.Hour, fmt.Sprintf("%d a 1", int64(math.MaxInt64)), fmt.Sprintf("%d a 1", int64(math.MaxInt64-1)), 1},
	} {
		for _, leftFirst := range []bool{true, false} {
			built := joinOf(t, newAllocator(t), byUser(test.window))
			topics, records := []string{"l", "r"}, [][]ConsumedRecord{timed(0, test.left), timed(0, test.right)}
			if !leftFirst {
				slices.Reverse(topics)
				slices.Reverse(records)
			}
			pairs := 0
			for i, topic := range topics {
				pairs += len(must[[]ProducedToTopic](t)(built.RunBatch(topic, records[i])))
			}
			if pairs != test.want {
				t.Errorf("window %s, left first %v: %q and %q made %d pairs, want %d", test.window, leftFirst, test.left, test.right, pairs, test.want)
			}
		}
	}
}

func TestJoinErrors(t *testing.T) {
	mem := newAllocator(t)
	schema := arrowtest.Fields("k", int64Type, "t", textType, TimestampColumn, int64Type)
	good := arrowtest.JSONBatch(t, mem, schema, `{"k":1,"t":"x","__timestamp":1}`)
	for name, test := range map[string]struct {
		join        Join
		left, right arrow.RecordBatch
		want        string
	}{
		"no key":               {Join{LeftKey: "x", RightKey: "k"}, good, nil, "left side: column `x`: join key column does not exist: x"},
		"no right key":         {Join{LeftKey: "k", RightKey: "x"}, nil, good, "right side: column `x`: join key column does not exist: x"},
		"no time":              {Join{LeftKey: "user", RightKey: "k"}, arrowtest.JSONBatch(t, mem, amountSchema, `{}`), nil, "join requires __timestamp"},
		"time of another type": {Join{LeftKey: "k", RightKey: "k"}, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, TimestampColumn, textType)), nil, "join requires __timestamp"},
		"null time":            {Join{LeftKey: "k", RightKey: "k"}, arrowtest.JSONBatch(t, mem, schema, `{"k":1,"__timestamp":4}`, `{"k":1}`), nil, "event timestamp is null at row 1"},
		"different kinds":      {Join{LeftKey: "k", RightKey: "t"}, good, good, "the join key is of type utf8, but keys so far are of kind integer"},
		"equal names":          {Join{LeftKey: "k", RightKey: "k", LeftPrefix: "x_", RightPrefix: "x_"}, good, good, "joined Arrow column name collides: x_k"},
	} {
		t.Run(name, func(t *testing.T) {
			var left, right []flow
			if test.left != nil {
				left = []flow{{batch: test.left}}
			}
			if test.right != nil {
				right = []flow{{batch: test.right}}
			}
			join := newJoinState(test.join, mem)
			if _, err := join.process(left, right); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if err := join.rollback(); err != nil || len(join.sides[0].rows)+len(join.sides[1].rows)+join.keys.table.Groups > 0 {
				t.Errorf("rollback = %v and left rows behind", err)
			}
		})
	}
}

func TestJoinNullKeysMatchNothing(t *testing.T) {
	mem := newAllocator(t)
	schema := arrowtest.Fields("k", int64Type, "v", textType, TimestampColumn, int64Type)
	join := newJoinState(Join{LeftKey: "k", RightKey: "k"}, mem)
	left := arrowtest.JSONBatch(t, mem, schema, `{"v":"n","__timestamp":1}`, `{"k":1,"v":"a","__timestamp":1}`, `{"v":"n","__timestamp":1}`, `{"k":2,"v":"b","__timestamp":1}`)
	right := arrowtest.JSONBatch(t, mem, schema, `{"k":2,"v":"B","__timestamp":1}`, `{"v":"N","__timestamp":1}`, `{"k":1,"v":"A","__timestamp":1}`)
	results, err := join.process([]flow{{batch: left}}, []flow{{batch: right}})
	if err != nil {
		t.Fatal(err)
	}
	defer releaseBatches(results)
	if diff := cmp.Diff([]string{"2 b 2 B (null) 1 (null) (null) (null)", "1 a 1 A (null) 1 (null) (null) (null)"}, arrowtest.Rows(results[0])); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if rows := len(join.sides[0].rows) + len(join.sides[1].rows); rows != 4 {
		t.Errorf("%d rows are kept, want those with keys", rows)
	}
}

func TestJoinKeysOfDifferentWidth(t *testing.T) {
	mem := newAllocator(t)
	join := newJoinState(Join{LeftKey: "k", RightKey: "k"}, mem)
	left := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", arrow.PrimitiveTypes.Int8, TimestampColumn, int64Type), `{"k":-3,"__timestamp":1}`)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: int64Type}
	right := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", dictionary, TimestampColumn, int64Type), `{"k":-3,"__timestamp":1}`)
	results, err := join.process([]flow{{batch: left}}, []flow{{batch: right}})
	if err != nil {
		t.Fatal(err)
	}
	defer releaseBatches(results)
	if len(results) != 1 || results[0].NumRows() != 1 {
		t.Errorf("results = %v, want one pair", results)
	}
}

func TestJoinRowsOutliveASchemaChange(t *testing.T) {
	mem := newAllocator(t)
	join := newJoinState(Join{LeftKey: "k", RightKey: "k", Window: time.Second}, mem)
	run := func(schema *arrow.Schema, left, right []string) []string {
		t.Helper()
		results, err := join.process(
			[]flow{{batch: arrowtest.JSONBatch(t, mem, schema, left...)}},
			[]flow{{batch: arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, TimestampColumn, int64Type), right...)}})
		if err != nil {
			t.Fatal(err)
		}
		defer releaseBatches(results)
		var texts []string
		for _, result := range results {
			texts = append(texts, fmt.Sprint(result.NumCols(), arrowtest.Rows(result)))
		}
		join.commit()
		return texts
	}
	run(arrowtest.Fields("k", int64Type, TimestampColumn, int64Type), []string{`{"k":1,"__timestamp":1}`, `{"k":2,"__timestamp":1}`}, nil)
	got := run(arrowtest.Fields("k", int64Type, "more", textType, TimestampColumn, int64Type), []string{`{"k":1,"more":"x","__timestamp":2}`},
		[]string{`{"k":2,"__timestamp":3}`, `{"k":1,"__timestamp":4}`})
	want := []string{
		"7 [2 2 (null) 1 (null) (null) (null) 1 1 (null) 1 (null) (null) (null)]",
		"8 [1 x 1 (null) 2 (null) (null) (null)]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results mismatch (-want +got):\n%s", diff)
	}
}

func TestJoinLimit(t *testing.T) {
	mem := newAllocator(t)
	join := byUser(10 * time.Millisecond)
	join.MaxRows = 3
	built := joinOf(t, mem, join)
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "0 a 1", "1 a 2", "2 a 3")))
	_, err := built.RunBatch("l", timed(0, "3 a 4"))
	var limit *StateLimitError
	if !errors.As(err, &limit) || limit.Limit != 3 {
		t.Fatalf("error = %v, want a StateLimitError of 3", err)
	}
	// Progress of the other side makes room, and so does an advance of time.
	must[[]ProducedToTopic](t)(built.RunBatch("r", timed(0, "12 b 1")))
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "3 a 4", "4 a 5")))
	if _, err := built.RunBatch("l", timed(0, "5 a 6")); !errors.As(err, &limit) {
		t.Errorf("error = %v, want a StateLimitError", err)
	}
	must[[]ProducedToTopic](t)(built.AdvanceTime(0, 1000))
	must[[]ProducedToTopic](t)(built.RunBatch("l", timed(0, "995 a 6", "995 a 7", "996 a 8")))
}

func TestJoinStateTakesNoMemoryOfTheTopology(t *testing.T) {
	mem := newAllocator(t)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: textType}
	schema := arrowtest.Fields("k", int64Type, "d", dictionary, "l", arrow.ListOf(dictionary), "s", textType, TimestampColumn, int64Type)
	join := newJoinState(Join{LeftKey: "k", RightKey: "k"}, mem)
	batch, err := concatBatches(mem, []arrow.RecordBatch{arrowtest.JSONBatch(t, mem, schema, `{"k":1,"d":"x","l":["y","x"],"s":"long text","__timestamp":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join.process([]flow{{batch: batch}}, nil); err != nil {
		t.Fatal(err)
	}
	// Nothing of the batch is used behind its release.
	for _, column := range batch.Columns() {
		scribble(column.Data())
	}
	batch.Release()
	results, err := join.process(nil, []flow{{batch: arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, TimestampColumn, int64Type), `{"k":1,"__timestamp":1}`)}})
	if err != nil {
		t.Fatal(err)
	}
	defer releaseBatches(results)
	if diff := cmp.Diff([]string{`1 x ["y","x"] long text 1 (null) 1 (null) (null) (null)`}, arrowtest.Rows(results[0])); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

// scribble overwrites the memory of an array.
func scribble(data arrow.ArrayData) {
	for _, buffer := range data.Buffers() {
		if buffer != nil {
			clear(buffer.Bytes())
		}
	}
	for _, child := range data.Children() {
		scribble(child)
	}
	if dictionary, _ := data.Dictionary().(*array.Data); dictionary != nil {
		scribble(dictionary)
	}
}

// TestJoinRefusesAnotherUnitOfTime joins keys whose integers count different
// units.
func TestJoinRefusesAnotherUnitOfTime(t *testing.T) {
	mem := newAllocator(t)
	batch := func(key arrow.DataType, text string) []flow {
		schema := arrowtest.Fields("k", key, TimestampColumn, arrow.PrimitiveTypes.Int64)
		return []flow{{batch: arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{"k":%q,"__timestamp":1}`, text))}}
	}
	seconds, millis, days := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Date32
	join := newJoinState(Join{LeftKey: "k", RightKey: "k"}, mem)
	want := "right side: column `k`: the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"
	if _, err := join.process(batch(seconds, "1970-01-01T00:00:07Z"), batch(millis, "1970-01-01T00:00:07Z")); err == nil || err.Error() != want {
		t.Errorf("process = %v, want %s", err, want)
	}
	if err := join.rollback(); err != nil {
		t.Fatal(err)
	}
	// The failed batches have not happened.
	results, err := join.process(batch(days, "1970-01-08"), batch(days, "1970-01-08"))
	if err != nil {
		t.Fatal(err)
	}
	defer releaseBatches(results)
	if len(results) != 1 || results[0].NumRows() != 1 {
		t.Errorf("process = %v, want one pair", results)
	}
	join.commit()
	if _, err := join.process(batch(millis, "1970-01-01T00:00:07Z"), nil); err == nil {
		t.Error("process took another unit of the same side")
	}
}

// TestJoinRefusesAnotherUnitOfTimeBehindARestore restores a side whose keys are
// in seconds. A key that is named like a metadata column is escaped on its way
// in.
func TestJoinRefusesAnotherUnitOfTimeBehindARestore(t *testing.T) {
	mem := newAllocator(t)
	seconds, millis := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms
	for _, name := range []string{"k", PayloadColumn(KeyColumn)} {
		batch := func(key arrow.DataType) []flow {
			field := arrow.Field{Name: name, Type: key, Nullable: true}
			if name != "k" {
				field.Metadata = arrow.MetadataFrom(map[string]string{metacols.NameKey: KeyColumn})
			}
			schema := arrow.NewSchema([]arrow.Field{field, {Name: TimestampColumn, Type: int64Type}}, nil)
			return []flow{{batch: arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{%q:"1970-01-01T00:00:07Z","__timestamp":1}`, name))}}
		}
		spec := Join{LeftKey: name, RightKey: name, Window: time.Second}
		join := newJoinState(spec, mem)
		must[[]arrow.RecordBatch](t)(join.process(batch(seconds), nil))
		join.commit()
		restored := newJoinState(spec, mem)
		if err := restored.restore(must[[]byte](t)(join.snapshot())); err != nil {
			t.Fatal(err)
		}
		restored.commit()
		results, err := restored.process(nil, batch(millis))
		want := "the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %s: process = %v, %v; want %s", name, results, err, want)
		}
		if err := restored.rollback(); err != nil {
			t.Fatal(err)
		}
		pairs := must[[]arrow.RecordBatch](t)(restored.process(nil, batch(seconds)))
		if len(pairs) != 1 || pairs[0].NumRows() != 1 {
			t.Errorf("key %s: process = %v; want one pair", name, pairs)
		}
		releaseBatches(pairs)
	}
}

// TestJoinKeysThatAreNullWithin joins keys of types that have no validity of
// their own: nulls of unions and of runs lie in their children.
func TestJoinKeysThatAreNullWithin(t *testing.T) {
	r, mem := arrowtest.NewRand(t), arrowtest.NewAllocator(t)
	for _, dt := range arrowtest.EveryType() {
		if dt.Name() == "month_interval" || dt.Name() == "day_time_interval" || dt.Name() == "month_day_nano_interval" {
			continue // no keys
		}
		var sides [2]arrow.RecordBatch
		var keys [2][]string
		for side := range sides {
			key, times := arrowtest.RandomArray(r, mem, dt, 40), array.NewInt64Builder(mem)
			times.AppendValues(make([]int64, 40), nil)
			columns := []arrow.Array{key, times.NewArray()}
			sides[side] = array.NewRecordBatch(arrowtest.Fields("k", dt, TimestampColumn, int64Type), columns, 40)
			keys[side] = arrowtest.Texts(key)
			arrays.Release(columns)
			times.Release()
		}
		want := 0
		for _, left := range keys[0] {
			for _, right := range keys[1] {
				if left != "(null)" && left == right {
					want++
				}
			}
		}
		join := newJoinState(Join{LeftKey: "k", RightKey: "k"}, mem)
		results, err := join.process([]flow{{batch: sides[0]}}, []flow{{batch: sides[1]}})
		if err != nil {
			t.Errorf("%s: %v", dt, err)
		}
		got := 0
		for _, result := range results {
			got += int(result.NumRows())
		}
		if got != want {
			t.Errorf("%s: %d pairs; want %d", dt, got, want)
		}
		releaseBatches(append(results, sides[0], sides[1]))
	}
}
