// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/keytable"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

// everyKind is a grouping with keys and aggregates of all kinds that state has.
func everyKind() (*arrow.Schema, Spec) {
	decimals := &arrow.Decimal128Type{Precision: 20, Scale: 2}
	schema := arrowtest.Fields("i", arrow.PrimitiveTypes.Int32, "s", textType, "b", arrow.BinaryTypes.Binary, "f", arrow.PrimitiveTypes.Float64,
		"d", decimals, "t", arrow.FixedWidthTypes.Boolean, "u", arrow.PrimitiveTypes.Uint64, "n", arrow.Null, metacols.Timestamp, int64Type)
	spec := Spec{Timed: true, Keys: []string{"i", "s", "b", "f", "t", "u", "n"}}
	for _, column := range []string{"i", "f", "d", "u", "n"} {
		for _, function := range []Function{Count, Sum, Min, Max} {
			spec.Aggregations = append(spec.Aggregations, Aggregation{
				InputColumn: column, OutputColumn: fmt.Sprintf("%s of %s", function, column), Function: function,
			})
		}
	}
	for _, column := range []string{"s", "b", "t"} {
		spec.Aggregations = append(spec.Aggregations, Aggregation{InputColumn: column, OutputColumn: "min of " + column, Function: Min})
	}
	return schema, spec
}

var everyKindRows = []string{
	`{"i":1,"s":"x","b":"AQ==","f":-0.5,"d":"1.25","t":true,"u":3000000000000000000,"__timestamp":7}`,
	`{"i":-1,"s":"","b":"","f":0,"d":"-9.00","t":false,"u":0,"__timestamp":8}`,
	`{"i":1,"s":"x","b":"AQ==","f":-0.5,"d":"0.05","t":true,"u":3000000000000000000,"__timestamp":5}`,
	`{}`,
}

func TestSnapshotHoldsEveryKind(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema, spec := everyKind()
	operator := newAtomic(mem, spec)
	batch := arrowtest.JSONBatch(t, mem, schema, everyKindRows[:3]...)
	operator.rows(t, batch)
	operator.rows(t, arrowtest.JSONBatch(t, mem, schema, everyKindRows[3]))
	snapshot := must[[]byte](t)(operator.Snapshot())
	restored := operator.fresh()
	if err := restored.restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot, must[[]byte](t)(restored.Snapshot())); diff != "" {
		t.Errorf("snapshot of the restored operator differs:\n%s", diff)
	}
	want, got := operator.rows(t, batch), restored.rows(t, batch)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("continued run mismatch (-want +got):\n%s", diff)
	}
	if len(want) != 3 || !strings.Contains(want[0], "4 2.6 0.05 1.25") {
		t.Errorf("rows = %q, want three groups, one with the decimal sum 2.6", want)
	}
}

func TestSnapshotOfAnEmptyState(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	operator := newAtomic(mem, Spec{Keys: []string{"user"}, Aggregations: totals()})
	restored := operator.fresh()
	if err := restored.restore(must[[]byte](t)(operator.Snapshot())); err != nil {
		t.Fatal(err)
	}
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":2}`)
	if diff := cmp.Diff([]string{"a 2 1"}, restored.rows(t, batch)); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreRefusesOtherConfigurations(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":2,"__timestamp":1}`)
	in := func(keys []string, size time.Duration, aggregations ...Aggregation) atomic {
		return newAtomic(mem, windowed(t, keys, size, size, aggregations...))
	}
	operator := in([]string{"user"}, time.Second, totals()...)
	operator.rows(t, batch)
	snapshot := must[[]byte](t)(operator.Snapshot())
	for name, other := range map[string]atomic{
		"other keys":       in([]string{"amount"}, time.Second, totals()...),
		"more keys":        in([]string{"user", "amount"}, time.Second, totals()...),
		"fewer aggregates": in([]string{"user"}, time.Second, totals()[0]),
		"other order":      in([]string{"user"}, time.Second, totals()[1], totals()[0]),
		"other window":     in([]string{"user"}, time.Minute, totals()...),
		"no window":        newAtomic(mem, Spec{Keys: []string{"user"}, Aggregations: totals()}),
	} {
		var mismatch *keytable.StateLayoutError
		err := other.restore(snapshot)
		if !errors.As(err, &mismatch) || mismatch.Saved != operator.spec.Layout() || !strings.Contains(err.Error(), "cannot restore groupBy state") {
			t.Errorf("%s: error = %v, want a StateLayoutError", name, err)
		}
		if other.spec.Layout() == operator.spec.Layout() {
			t.Errorf("%s: the layouts are equal", name)
		}
	}
	// What is held and emitted may change.
	longer := newAtomic(mem, windowed(t, []string{"user"}, time.Second, time.Hour, totals()...))
	if err := longer.restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 0 1000 4 2"}, longer.rows(t, batch)); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreIsAllOrNothing(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	operator := newAtomic(mem, Spec{Keys: []string{"user"}, Aggregations: totals()})
	batch := arrowtest.JSONBatch(t, mem, amountSchema, `{"user":"a","amount":2}`, `{"user":"b","amount":2}`)
	operator.rows(t, batch)
	snapshot := must[[]byte](t)(operator.Snapshot())
	if err := operator.restore(nil); err == nil || !strings.Contains(err.Error(), "cannot restore groupBy state: unsupported snapshot") {
		t.Errorf("restore of nothing = %v", err)
	}
	for _, version := range []byte{1, 9} {
		if err := operator.restore([]byte{version}); err == nil || !strings.Contains(err.Error(), "cannot restore groupBy state: unsupported snapshot") {
			t.Errorf("restore of version %d = %v", version, err)
		}
	}
	for length := range len(snapshot) {
		if err := operator.restore(snapshot[:length]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was restored", length)
		}
	}
	for at := range len(snapshot) {
		damaged := append([]byte{}, snapshot...)
		damaged[at] ^= 0x10
		if err := operator.restore(damaged); err == nil {
			t.Errorf("a snapshot with a flipped bit at %d was restored", at)
		}
	}
	if diff := cmp.Diff([]string{"a 4 2", "b 4 2"}, operator.rows(t, batch)); diff != "" {
		t.Errorf("state after failed restores mismatch (-want +got):\n%s", diff)
	}
}

func TestRestoreRefusesGroupsThatCannotBe(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	operator := newAtomic(mem, windowed(t, []string{"k"}, time.Second, time.Second, countRows()...))
	operator.rows(t, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, metacols.Timestamp, int64Type), `{"k":1,"__timestamp":1}`, `{"k":2,"__timestamp":1}`))
	for name, test := range map[string]struct {
		change func(*groupState)
		want   string
	}{
		"equal keys":     {func(s *groupState) { *s.table.Keys[0].(*keytable.WordColumn).Word(1, 0) = 1 }, "groups 0 and 1 have the same key"},
		"odd window":     {func(s *groupState) { *s.starts.Word(1, 0) = 7 }, "there is no window at 7"},
		"negative count": {func(s *groupState) { *s.aggregates[0].(*countState).Word(0, 0) = 1 << 63 }, "count is negative"},
		"null window":    {func(s *groupState) { s.starts.ExpectNulls(); s.starts.SetNull(&s.table.Rows, 1) }, "there is no window at 0"},
	} {
		g := operator.fresh()
		if err := g.Restore(must[[]byte](t)(operator.Snapshot())); err != nil {
			t.Fatal(err)
		}
		test.change(g.state)
		snapshot := must[[]byte](t)(g.Snapshot())
		if err := operator.fresh().restore(snapshot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
	limited := newAtomic(mem, Spec{Keys: []string{"k"}, Limit: 1, Timed: true})
	free := newAtomic(mem, Spec{Keys: []string{"k"}, Timed: true})
	batch := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type), `{"k":1}`, `{"k":2}`)
	free.rows(t, batch)
	var limit *keytable.StateLimitError
	if err := limited.restore(must[[]byte](t)(free.Snapshot())); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("restore beyond the limit = %v, want a StateLimitError", err)
	}
	if _, err := limited.tryRows(batch); !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("process beyond the limit = %v, want a StateLimitError", err)
	}
	if diff := cmp.Diff([]string{"2 (null)"}, limited.rows(t, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type), `{"k":2}`))); diff != "" {
		t.Errorf("state behind the limit mismatch (-want +got):\n%s", diff)
	}
}

func TestClosedWindowsAreNotSaved(t *testing.T) {
	operator := newAtomic(arrowtest.NewAllocator(t), windowed(t, []string{"user"}, 10*time.Millisecond, 10*time.Millisecond, countRows()...))
	operator.rows(t, events(t, 1))
	operator.rows(t, events(t, 100))
	restored := operator.fresh()
	if err := restored.restore(must[[]byte](t)(operator.Snapshot())); err != nil {
		t.Fatal(err)
	}
	if g := restored; g.state.table.Groups != 1 || g.state.streamTime != 100 {
		t.Errorf("%d groups at stream time %d, want 1 at 100", g.state.table.Groups, g.state.streamTime)
	}
}

// TestSnapshotBytes pins the stored form: snapshots outlive versions of the
// library.
func TestSnapshotBytes(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema, spec := everyKind()
	every := newAtomic(mem, spec)
	every.rows(t, arrowtest.JSONBatch(t, mem, schema, everyKindRows...))
	windowed := newAtomic(mem, Spec{
		Keys: []string{"user"}, Aggregations: totals(), Windowed: true, Window: Windowing{Size: 10}, Timed: true, Emit: EmitFinal,
	})
	windowed.rows(t, arrowtest.JSONBatch(t, mem, eventSchema, `{"user":"a","amount":2,"__timestamp":1}`, `{"user":"bb","amount":2,"__timestamp":12}`,
		`{"amount":2,"__timestamp":13}`, `{"user":"ccc","amount":7,"__timestamp":25}`, `{"user":"bb","amount":-9,"__timestamp":26}`))
	for name, test := range map[string]struct {
		operator atomic
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
}
