// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

var eventSchema = arrowtest.Fields("user", textType, "amount", int64Type, TimestampColumn, int64Type)

// events makes a batch of amount 1 for user a at each timestamp.
func events(tb testing.TB, timestamps ...int64) arrow.RecordBatch {
	tb.Helper()
	rows := make([]string, len(timestamps))
	for i, timestamp := range timestamps {
		rows[i] = fmt.Sprintf(`{"user":"a","amount":1,"__timestamp":%d}`, timestamp)
	}
	return arrowtest.JSONBatch(tb, newAllocator(tb), eventSchema, rows...)
}

func countRows() []Aggregation { return []Aggregation{{Function: Count, OutputColumn: "n"}} }

func TestWindowsSurviveASnapshotAndExpire(t *testing.T) {
	for _, test := range []struct {
		size  time.Duration
		steps [][]string // after ts 1 and 12, ts 2, ts 100, ts 101
	}{
		{10 * time.Millisecond, [][]string{
			{"a 0 10 1 1", "a 10 20 1 1"}, {"a 0 10 2 2", "a 10 20 1 1"}, {"a 100 110 1 1"}, {"a 100 110 2 2"},
		}},
		{20 * time.Millisecond, [][]string{
			{"a 0 20 2 2"}, {"a 0 20 3 3"}, {"a 100 120 1 1"}, {"a 100 120 2 2"},
		}},
	} {
		mem := newAllocator(t)
		operator := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"user"}, test.size, totals()...))
		var got [][]string
		got = append(got, processRows(t, operator, events(t, 1, 12)))
		restored := operator.fresh()
		if err := restored.Restore(must[[]byte](t)(operator.Snapshot())); err != nil {
			t.Fatal(err)
		}
		for _, timestamp := range []int64{2, 100, 101} {
			got = append(got, processRows(t, restored, events(t, timestamp)))
		}
		if diff := cmp.Diff(test.steps, got); diff != "" {
			t.Errorf("window %s mismatch (-want +got):\n%s", test.size, diff)
		}
	}
}

func TestTimestampOutOfRangeNamesTheRow(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"user"}, time.Second, totals()...))
	_, err := tryRows(operator, events(t, 5, math.MaxInt64))
	var failure *ColumnError
	if !errors.As(err, &failure) || failure.Row != 1 || failure.Column != TimestampColumn || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("error = %v, want row 1 of the timestamps to be out of range", err)
	}
	if diff := cmp.Diff([]string{"a 0 1000 1 1"}, processRows(t, operator, events(t, 6))); diff != "" {
		t.Errorf("state after the error mismatch (-want +got):\n%s", diff)
	}
}

// inSplits runs timestamps through fresh operators in batches of each size and
// returns the results by size.
func inSplits(t *testing.T, operator *BuiltinOp, timestamps []int64, sizes ...int) map[int][]string {
	t.Helper()
	results := make(map[int][]string)
	for _, size := range sizes {
		run := operator.fresh()
		for start := 0; start < len(timestamps); start += size {
			part := timestamps[start:min(start+size, len(timestamps))]
			results[size] = append(results[size], processRows(t, run, events(t, part...))...)
		}
	}
	return results
}

func TestFinalEmissionDoesNotDependOnBatches(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{
		Keys: []string{"user"}, Aggregations: countRows(), Window: time.Minute, Emit: EmitFinal,
	}))
	base := time.Now().Add(-7 * 24 * time.Hour).Truncate(time.Minute).UnixMilli()
	var timestamps []int64
	for i := range int64(500) {
		timestamps = append(timestamps, base+i*100)
	}
	// A row of the next window closes the first one.
	timestamps = append(timestamps, base+60_000)
	want := []string{fmt.Sprintf("a %d %d 500 %d", base, base+60_000, base+49_900)}
	for size, got := range inSplits(t, operator, timestamps, 1, 5, 500, 501) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches of %d mismatch (-want +got):\n%s", size, diff)
		}
	}
}

func TestUpdatesEndAtTheSameTable(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{
		Keys: []string{"user"}, Aggregations: countRows(), Window: time.Minute, Emit: EmitChanges,
	}))
	var timestamps []int64
	for i := range int64(500) {
		timestamps = append(timestamps, 60_000+i*100)
	}
	for size, got := range inSplits(t, operator, timestamps, 1, 5, 500) {
		if want := 500 / size; len(got) != want {
			t.Errorf("batches of %d made %d updates, want %d", size, len(got), want)
		}
		if last, want := got[len(got)-1], "a 60000 120000 500 109900"; last != want {
			t.Errorf("batches of %d end with %q, want %q", size, last, want)
		}
	}
}

func TestLateRowsAreDroppedAndCounted(t *testing.T) {
	for _, test := range []struct {
		grace time.Duration
		want  []string // the last update of each window
		late  int64
	}{
		// Window [90000, 100000) closes at 100000, and at 105000 with a grace of
		// five seconds.
		{0, []string{"a 100000 110000 1 100000", "a 200000 210000 1 200000"}, 3},
		{5 * time.Second, []string{"a 100000 110000 1 100000", "a 190000 200000 1 199999", "a 200000 210000 1 200000"}, 2},
	} {
		timestamps := []int64{100_000, 200_000, 50_000, 95_000, 199_999}
		for _, size := range []int{1, 2, 5} {
			operator := must[*BuiltinOp](t)(NewGroupBy(newAllocator(t), Grouping{
				Keys: []string{"user"}, Aggregations: countRows(), Window: 10 * time.Second, Grace: test.grace, Emit: EmitChanges,
			}))
			last := map[string]string{}
			for start := 0; start < len(timestamps); start += size {
				for _, row := range processRows(t, operator, events(t, timestamps[start:min(start+size, 5)]...)) {
					window, _, _ := strings.Cut(strings.TrimPrefix(row, "a "), " ")
					last[window] = row
				}
			}
			var got []string
			for _, row := range last {
				got = append(got, row)
			}
			if diff := cmp.Diff(test.want, sortedCopy(got)); diff != "" {
				t.Errorf("grace %s, batches of %d: windows mismatch (-want +got):\n%s", test.grace, size, diff)
			}
			if g, _ := operator.groupBy(); g.Late() != test.late {
				t.Errorf("grace %s, batches of %d: %d rows late, want %d", test.grace, size, g.Late(), test.late)
			}
		}
	}
}

func TestOneBatchAcrossManyWindowsEmitsAll(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"user"}, 10*time.Millisecond, totals()...))
	want := []string{"a 0 10 1 1", "a 100 110 1 1", "a 1000 1010 2 2"}
	if diff := cmp.Diff(want, processRows(t, operator, events(t, 0, 100, 1000, 1001))); diff != "" {
		t.Errorf("in-order rows of one batch mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 1000 1010 2 2"}, processRows(t, operator, events(t))); diff != "" {
		t.Errorf("closed windows are still held (-want +got):\n%s", diff)
	}
}

func TestTimeColumnOfOtherUnits(t *testing.T) {
	mem := newAllocator(t)
	for unit, values := range map[arrow.TimeUnit][2]string{
		arrow.Second:      {"1970-01-01T00:00:01Z", "1969-12-31T23:59:59Z"},
		arrow.Millisecond: {"1970-01-01T00:00:01.5Z", "1969-12-31T23:59:59.999Z"},
		arrow.Microsecond: {"1970-01-01T00:00:01.999999Z", "1969-12-31T23:59:59.999999Z"},
		arrow.Nanosecond:  {"1970-01-01T00:00:01.999999999Z", "1969-12-31T23:59:59.999999999Z"},
	} {
		operator := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{
			Keys: []string{"user"}, Aggregations: countRows(), Window: time.Second, Grace: time.Hour, TimeColumn: "at",
		}))
		schema := arrowtest.Fields("user", textType, "at", &arrow.TimestampType{Unit: unit, TimeZone: "UTC"})
		batch := arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{"user":"a","at":%q}`, values[0]), fmt.Sprintf(`{"user":"a","at":%q}`, values[1]))
		rows := processRows(t, operator, batch)
		if len(rows) != 2 || !strings.HasPrefix(rows[0], "a 1000 2000 1 ") || !strings.HasPrefix(rows[1], "a -1000 0 1 -1") {
			t.Errorf("%s: rows = %q, want windows 1000 and -1000", unit, rows)
		}
	}
}

func TestRowsAtTheCloseOfAWindow(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{
		Keys: []string{"user"}, Aggregations: countRows(), Window: 10 * time.Second, Grace: 5 * time.Second, Emit: EmitFinal,
	}))
	var got [][]string
	for _, timestamp := range []int64{1, 14_999, 9_999, 15_000, 9_999} {
		got = append(got, processRows(t, operator, events(t, timestamp)))
	}
	want := [][]string{{}, {}, {}, {"a 0 10000 2 9999"}, {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	if g, _ := operator.groupBy(); g.Late() != 1 {
		t.Errorf("%d rows late, want the last one", g.Late())
	}
}
