// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// everyKind is a grouping with keys and aggregates of all kinds that state has.
func everyKind() (*arrow.Schema, Grouping) {
	decimals := &arrow.Decimal128Type{Precision: 20, Scale: 2}
	schema := arrowtest.Fields("i", arrow.PrimitiveTypes.Int32, "s", textType, "b", arrow.BinaryTypes.Binary, "f", arrow.PrimitiveTypes.Float64,
		"d", decimals, "t", arrow.FixedWidthTypes.Boolean, "u", arrow.PrimitiveTypes.Uint64, "n", arrow.Null, TimestampColumn, int64Type)
	grouping := Grouping{Keys: []string{"i", "s", "b", "f", "t", "u", "n"}}
	for _, column := range []string{"i", "f", "d", "u", "n"} {
		for _, function := range []AggregateFunction{Count, Sum, Min, Max} {
			grouping.Aggregations = append(grouping.Aggregations, Aggregation{
				InputColumn: column, OutputColumn: fmt.Sprintf("%s of %s", function, column), Function: function,
			})
		}
	}
	for _, column := range []string{"s", "b", "t"} {
		grouping.Aggregations = append(grouping.Aggregations, Aggregation{InputColumn: column, OutputColumn: "min of " + column, Function: Min})
	}
	return schema, grouping
}

var everyKindRows = []string{
	`{"i":1,"s":"x","b":"AQ==","f":-0.5,"d":"1.25","t":true,"u":3000000000000000000,"__timestamp":7}`,
	`{"i":-1,"s":"","b":"","f":0,"d":"-9.00","t":false,"u":0,"__timestamp":8}`,
	`{"i":1,"s":"x","b":"AQ==","f":-0.5,"d":"0.05","t":true,"u":3000000000000000000,"__timestamp":5}`,
	`{}`,
}

func TestSnapshotHoldsEveryKind(t *testing.T) {
	mem := newAllocator(t)
	schema, grouping := everyKind()
	operator := must[*BuiltinOp](t)(NewGroupBy(mem, grouping))
	batch := arrowtest.JSONBatch(t, mem, schema, everyKindRows[:3]...)
	processRows(t, operator, batch)
	processRows(t, operator, arrowtest.JSONBatch(t, mem, schema, everyKindRows[3]))
	snapshot := must[[]byte](t)(operator.Snapshot())
	restored := operator.fresh()
	if err := restored.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot, must[[]byte](t)(restored.Snapshot())); diff != "" {
		t.Errorf("snapshot of the restored operator differs:\n%s", diff)
	}
	want, got := processRows(t, operator, batch), processRows(t, restored, batch)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("continued run mismatch (-want +got):\n%s", diff)
	}
	if len(want) != 3 || !strings.Contains(want[0], "4 2.6 0.05 1.25") {
		t.Errorf("rows = %q, want three groups, one with the decimal sum 2.6", want)
	}
}

func TestSnapshotOfAnEmptyState(t *testing.T) {
	mem := newAllocator(t)
	operator := GroupBy(mem, []string{"user"}, totals()...)
	restored := operator.fresh()
	if err := restored.Restore(must[[]byte](t)(operator.Snapshot())); err != nil {
		t.Fatal(err)
	}
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":2}`)
	if diff := cmp.Diff([]string{"a 2 1"}, processRows(t, restored, batch)); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreRefusesOtherConfigurations(t *testing.T) {
	mem := newAllocator(t)
	batch := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":2,"__timestamp":1}`)
	windowed := func(keys []string, size time.Duration, aggregations ...Aggregation) *BuiltinOp {
		return must[*BuiltinOp](t)(WindowedGroupBy(mem, keys, size, aggregations...))
	}
	operator := windowed([]string{"user"}, time.Second, totals()...)
	processRows(t, operator, batch)
	snapshot := must[[]byte](t)(operator.Snapshot())
	for name, other := range map[string]*BuiltinOp{
		"other keys":       windowed([]string{"amount"}, time.Second, totals()...),
		"more keys":        windowed([]string{"user", "amount"}, time.Second, totals()...),
		"fewer aggregates": windowed([]string{"user"}, time.Second, totals()[0]),
		"other order":      windowed([]string{"user"}, time.Second, totals()[1], totals()[0]),
		"other window":     windowed([]string{"user"}, time.Minute, totals()...),
		"no window":        GroupBy(mem, []string{"user"}, totals()...),
	} {
		var mismatch *StateLayoutError
		err := other.Restore(snapshot)
		if !errors.As(err, &mismatch) || mismatch.Saved != operator.layout || !strings.Contains(err.Error(), "cannot restore groupBy state") {
			t.Errorf("%s: error = %v, want a StateLayoutError", name, err)
		}
		if other.layout == operator.layout {
			t.Errorf("%s: the layouts are equal", name)
		}
	}
	// What is held and emitted may change.
	longer := must[*BuiltinOp](t)(WindowedGroupByWithRetention(mem, []string{"user"}, time.Second, time.Hour, totals()...))
	if err := longer.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 0 1000 4 2"}, processRows(t, longer, batch)); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreIsAllOrNothing(t *testing.T) {
	mem := newAllocator(t)
	operator := GroupBy(mem, []string{"user"}, totals()...)
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":2}`, `{"user":"b","amount":2}`)
	processRows(t, operator, batch)
	snapshot := must[[]byte](t)(operator.Snapshot())
	if err := operator.Restore(nil); err == nil || !strings.Contains(err.Error(), "cannot restore groupBy state: unsupported snapshot") {
		t.Errorf("restore of nothing = %v", err)
	}
	if err := operator.Restore([]byte{9}); err == nil || !strings.Contains(err.Error(), "cannot restore groupBy state: unsupported snapshot") {
		t.Errorf("restore of an unknown version = %v", err)
	}
	for length := range len(snapshot) {
		if err := operator.Restore(snapshot[:length]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was restored", length)
		}
	}
	for at := range len(snapshot) {
		damaged := append([]byte{}, snapshot...)
		damaged[at] ^= 0x10
		if err := operator.Restore(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit at %d was restored", at)
		}
	}
	if diff := cmp.Diff([]string{"a 4 2", "b 4 2"}, processRows(t, operator, batch)); diff != "" {
		t.Errorf("state after failed restores mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreRefusesGroupsThatCannotBe(t *testing.T) {
	mem := newAllocator(t)
	operator := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"k"}, time.Second, countRows()...))
	processRows(t, operator, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, TimestampColumn, int64Type), `{"k":1,"__timestamp":1}`, `{"k":2,"__timestamp":1}`))
	for name, test := range map[string]struct {
		change func(*groupState)
		want   string
	}{
		"equal keys":     {func(s *groupState) { *s.table.keys[0].(*wordKeys).word(1, 0) = 1 }, "groups 0 and 1 have the same key"},
		"odd window":     {func(s *groupState) { *s.starts.word(1, 0) = 7 }, "there is no window at 7"},
		"negative count": {func(s *groupState) { *s.aggregates[0].(*countState).word(0, 0) = 1 << 63 }, "count is negative"},
		"null window":    {func(s *groupState) { s.starts.expectNulls(); s.starts.setNull(&s.table.rows, 1) }, "there is no window at 0"},
	} {
		g, _ := operator.fresh().groupBy()
		if err := g.restore(must[[]byte](t)(operator.Snapshot())); err != nil {
			t.Fatal(err)
		}
		test.change(g.state)
		snapshot := must[[]byte](t)(g.snapshot())
		if err := operator.fresh().Restore(snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
	limited := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{"k"}, MaxGroups: 1}))
	free := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{Keys: []string{"k"}}))
	batch := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type), `{"k":1}`, `{"k":2}`)
	processRows(t, free, batch)
	var limit *StateLimitError
	if err := limited.Restore(must[[]byte](t)(free.Snapshot())); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("restore beyond the limit = %v, want a StateLimitError", err)
	}
	if _, err := tryRows(limited, batch); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("process beyond the limit = %v, want a StateLimitError", err)
	}
	if diff := cmp.Diff([]string{"2 (null)"}, processRows(t, limited, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type), `{"k":2}`))); diff != "" {
		t.Errorf("state behind the limit mismatch (-want +got):\n%s", diff)
	}
}

func TestClosedWindowsAreNotSaved(t *testing.T) {
	operator := must[*BuiltinOp](t)(WindowedGroupBy(newAllocator(t), []string{"user"}, 10*time.Millisecond, countRows()...))
	processRows(t, operator, events(t, 1))
	processRows(t, operator, events(t, 100))
	restored := operator.fresh()
	if err := restored.Restore(must[[]byte](t)(operator.Snapshot())); err != nil {
		t.Fatal(err)
	}
	if g, _ := restored.groupBy(); g.state.table.groups != 1 || g.state.streamTime != 100 {
		t.Errorf("%d groups at stream time %d, want 1 at 100", g.state.table.groups, g.state.streamTime)
	}
}

// version1 writes a snapshot of version 1: rows of keys and aggregates.
func version1(streamTime int64, rows ...[2][]any) []byte {
	data := binary.BigEndian.AppendUint64([]byte{groupSnapshotVersion1}, uint64(streamTime))
	data = binary.BigEndian.AppendUint32(data, uint32(len(rows)))
	for _, row := range rows {
		for _, values := range row {
			data = binary.BigEndian.AppendUint32(data, uint32(len(values)))
			for _, value := range values {
				data, _ = appendKeyValue(data, value)
			}
		}
	}
	return data
}

func TestVersion1IsRead(t *testing.T) {
	mem := newAllocator(t)
	decimals := &arrow.Decimal128Type{Precision: 20, Scale: 2}
	schema := arrowtest.Fields("k", textType, "i", int64Type, "f", arrow.PrimitiveTypes.Float64, "d", decimals, "s", textType, "n", int64Type)
	var aggregations []Aggregation
	for i, function := range []AggregateFunction{Count, Sum, Sum, Sum, Min, Max, Max, Min, Sum} {
		aggregations = append(aggregations, Aggregation{
			InputColumn: []string{"i", "i", "f", "d", "i", "f", "d", "s", "n"}[i], OutputColumn: fmt.Sprint(i), Function: function,
		})
	}
	operator := GroupBy(mem, []string{"k"}, aggregations...)
	err := operator.Restore(version1(noTime,
		[2][]any{{"a"}, {int64(2), big.NewInt(7), 1.5, big.NewRat(25, 10), int64(-3), 2.5, big.NewRat(1, 4), "m", nil}},
		[2][]any{{nil}, {int64(1), nil, nil, nil, nil, nil, nil, nil, nil}},
	))
	if err != nil {
		t.Fatal(err)
	}
	batch := arrowtest.JSONBatch(t, mem, schema, `{"k":"a","i":1,"f":1,"d":"0.25","s":"z","n":4}`, `{"i":5,"f":5,"d":"5.00","s":"y"}`)
	want := []string{"a 3 8 2.5 2.75 -3 2.5 0.25 m 4", "(null) 2 5 5 5 5 5 5 y (null)"}
	if diff := cmp.Diff(want, processRows(t, operator, batch)); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}

	windowed := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"user"}, 10*time.Millisecond, totals()...))
	if err := windowed.Restore(version1(12, [2][]any{{"a", int64(0), int64(10)}, {big.NewInt(5), int64(5)}})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 0 10 6 6"}, processRows(t, windowed, events(t, 2))); diff != "" {
		t.Errorf("windowed mismatch (-want +got):\n%s", diff)
	}
}

func TestVersion1IsChecked(t *testing.T) {
	mem := newAllocator(t)
	plain := GroupBy(mem, []string{"k"}, Aggregation{Function: Count, OutputColumn: "n"}, Aggregation{InputColumn: "v", OutputColumn: "s", Function: Sum})
	windowed := must[*BuiltinOp](t)(WindowedGroupBy(mem, []string{"k"}, 10*time.Millisecond))
	one := int64(1)
	good := version1(noTime, [2][]any{{"a"}, {one, nil}})
	huge := append([]byte{}, good...)
	binary.BigEndian.PutUint32(huge[9:], math.MaxUint32)
	for name, test := range map[string]struct {
		operator *BuiltinOp
		snapshot []byte
		want     string
	}{
		"truncated":         {plain, good[:len(good)-1], "truncated snapshot"},
		"trailing bytes":    {plain, append(append([]byte{}, good...), 0), "cannot restore groupBy state: trailing bytes"},
		"count of groups":   {plain, huge, "truncated snapshot"},
		"unknown tag":       {plain, append(append([]byte{}, good[:len(good)-1]...), 'z'), "unknown snapshot value tag 'z'"},
		"fewer aggregates":  {plain, version1(noTime, [2][]any{{"a"}, {one}}), "state was saved by"},
		"no windows":        {windowed, version1(noTime, [2][]any{{"a"}, {}}), "state was saved by"},
		"another window":    {windowed, version1(noTime, [2][]any{{"a", int64(0), int64(20)}, {}}), "state was saved by"},
		"equal keys":        {plain, version1(noTime, [2][]any{{"a"}, {one, nil}}, [2][]any{{"a"}, {one, nil}}), "have the same key"},
		"mixed keys":        {plain, version1(noTime, [2][]any{{"a"}, {one, nil}}, [2][]any{{one}, {one, nil}}), "values are both"},
		"text as count":     {plain, version1(noTime, [2][]any{{"a"}, {"x", nil}}), "values are text"},
		"null as count":     {plain, version1(noTime, [2][]any{{"a"}, {nil, nil}}), "values are null"},
		"text as sum":       {plain, version1(noTime, [2][]any{{"a"}, {one, "x"}}), "values are text"},
		"invalid integer":   {plain, append(append([]byte{}, good[:len(good)-1]...), 'I', 0, 0, 0, 1, 'x'), "invalid integer in snapshot"},
		"invalid rational":  {plain, append(append([]byte{}, good[:len(good)-1]...), 'R', 0, 0, 0, 3, '1', '/', '0'), "invalid rational in snapshot"},
		"endless rational":  {plain, version1(noTime, [2][]any{{"a"}, {one, big.NewRat(1, 3)}}), "1/3 is not a decimal"},
		"exponent":          {plain, append(append([]byte{}, good[:len(good)-1]...), 'R', 0, 0, 0, 3, '1', 'e', '9'), "invalid rational in snapshot"},
		"sum out of bounds": {plain, version1(noTime, [2][]any{{"a"}, {one, new(big.Int).Lsh(big.NewInt(1), 200)}}), "integer overflow"},
	} {
		if err := test.operator.fresh().Restore(test.snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

// TestSnapshotBytes pins the stored form: snapshots outlive versions of the
// library.
func TestSnapshotBytes(t *testing.T) {
	mem := newAllocator(t)
	schema, grouping := everyKind()
	every := must[*BuiltinOp](t)(NewGroupBy(mem, grouping))
	processRows(t, every, arrowtest.JSONBatch(t, mem, schema, everyKindRows...))
	windowed := must[*BuiltinOp](t)(NewGroupBy(mem, Grouping{
		Keys: []string{"user"}, Aggregations: totals(), Window: 10 * time.Millisecond, Emit: EmitFinal,
	}))
	processRows(t, windowed, arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":2,"__timestamp":1}`, `{"user":"bb","amount":2,"__timestamp":12}`,
		`{"amount":2,"__timestamp":13}`, `{"user":"ccc","amount":7,"__timestamp":25}`, `{"user":"bb","amount":-9,"__timestamp":26}`))
	for name, test := range map[string]struct {
		operator *BuiltinOp
		want     string
	}{
		"every kind": {every, "2539 bytes, 2e036c208433b9d199521f3ac66b81a6f43e78bbf9139a559ce8aa9a504217a3"},
		"windows":    {windowed, "753 bytes, 3ffa2df8f0e21013509bda59db106870d4c74769c5f52d732b1b3df339eb49a2"},
	} {
		snapshot := must[[]byte](t)(test.operator.Snapshot())
		if got := fmt.Sprintf("%d bytes, %x", len(snapshot), sha256.Sum256(snapshot)); got != test.want {
			t.Errorf("%s: snapshot of %s; want %s", name, got, test.want)
		}
	}
	join := must[[]byte](t)(filledJoin(t, byUser(20*time.Millisecond)).snapshot())
	if got, want := fmt.Sprintf("%d bytes, %x", len(join), sha256.Sum256(join)), "1171 bytes, f3088808a09ba0423f79d7e5a956264672ee98ae2e9f796fff65a4fee4024c38"; got != want {
		t.Errorf("snapshot of a join of %s; want %s", got, want)
	}
}
