// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrays"
	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func TestJoinOutputColumns(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: textType},
		{Name: "__payload___key", Type: int64Type, Metadata: arrow.MetadataFrom(map[string]string{metacols.NameKey: metacols.Key, "unit": "s"})},
		{Name: metacols.Timestamp, Type: int64Type, Nullable: true},
		{Name: metacols.Key, Type: arrow.BinaryTypes.Binary, Nullable: true},
	}, nil)
	join := New(Spec{LeftKey: metacols.Key, RightKey: metacols.Key, RightPrefix: "r."}, mem)
	batch := arrowtest.JSONBatch(t, mem, schema, `{"user":"a","__payload___key":4,"__timestamp":7,"__key":"AQ=="}`)
	results, err := join.Process([]arrow.RecordBatch{batch}, []arrow.RecordBatch{batch})
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
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

func TestJoinErrors(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrowtest.Fields("k", int64Type, "t", textType, metacols.Timestamp, int64Type)
	good := arrowtest.JSONBatch(t, mem, schema, `{"k":1,"t":"x","__timestamp":1}`)
	for name, test := range map[string]struct {
		join        Spec
		left, right arrow.RecordBatch
		want        string
	}{
		"no key":               {Spec{LeftKey: "x", RightKey: "k"}, good, nil, "left side: column `x`: join key column does not exist: x"},
		"no right key":         {Spec{LeftKey: "k", RightKey: "x"}, nil, good, "right side: column `x`: join key column does not exist: x"},
		"no time":              {Spec{LeftKey: "user", RightKey: "k"}, arrowtest.JSONBatch(t, mem, arrowtest.Fields("user", textType, "amount", int64Type), `{}`), nil, "join requires __timestamp"},
		"time of another type": {Spec{LeftKey: "k", RightKey: "k"}, arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, metacols.Timestamp, textType)), nil, "join requires __timestamp"},
		"null time":            {Spec{LeftKey: "k", RightKey: "k"}, arrowtest.JSONBatch(t, mem, schema, `{"k":1,"__timestamp":4}`, `{"k":1}`), nil, "event timestamp is null at row 1"},
		"different kinds":      {Spec{LeftKey: "k", RightKey: "t"}, good, good, "the join key is of type utf8, but keys so far are of kind integer"},
		"equal names":          {Spec{LeftKey: "k", RightKey: "k", LeftPrefix: "x_", RightPrefix: "x_"}, good, good, "joined Arrow column name collides: x_k"},
	} {
		t.Run(name, func(t *testing.T) {
			var left, right []arrow.RecordBatch
			if test.left != nil {
				left = []arrow.RecordBatch{test.left}
			}
			if test.right != nil {
				right = []arrow.RecordBatch{test.right}
			}
			join := New(test.join, mem)
			if _, err := join.Process(left, right); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if err := join.Rollback(); err != nil || len(join.sides[0].rows)+len(join.sides[1].rows)+join.keys.table.Groups > 0 {
				t.Errorf("rollback = %v and left rows behind", err)
			}
		})
	}
}

func TestJoinNullKeysMatchNothing(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	schema := arrowtest.Fields("k", int64Type, "v", textType, metacols.Timestamp, int64Type)
	join := New(Spec{LeftKey: "k", RightKey: "k"}, mem)
	left := arrowtest.JSONBatch(t, mem, schema, `{"v":"n","__timestamp":1}`, `{"k":1,"v":"a","__timestamp":1}`, `{"v":"n","__timestamp":1}`, `{"k":2,"v":"b","__timestamp":1}`)
	right := arrowtest.JSONBatch(t, mem, schema, `{"k":2,"v":"B","__timestamp":1}`, `{"v":"N","__timestamp":1}`, `{"k":1,"v":"A","__timestamp":1}`)
	results, err := join.Process([]arrow.RecordBatch{left}, []arrow.RecordBatch{right})
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
	if diff := cmp.Diff([]string{"2 b 2 B (null) 1 (null) (null) (null)", "1 a 1 A (null) 1 (null) (null) (null)"}, arrowtest.Rows(results[0])); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if rows := len(join.sides[0].rows) + len(join.sides[1].rows); rows != 4 {
		t.Errorf("%d rows are kept, want those with keys", rows)
	}
}

func TestJoinKeysOfDifferentWidth(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	join := New(Spec{LeftKey: "k", RightKey: "k"}, mem)
	left := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", arrow.PrimitiveTypes.Int8, metacols.Timestamp, int64Type), `{"k":-3,"__timestamp":1}`)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: int64Type}
	right := arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", dictionary, metacols.Timestamp, int64Type), `{"k":-3,"__timestamp":1}`)
	results, err := join.Process([]arrow.RecordBatch{left}, []arrow.RecordBatch{right})
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
	if len(results) != 1 || results[0].NumRows() != 1 {
		t.Errorf("results = %v, want one pair", results)
	}
}

func TestJoinRowsOutliveASchemaChange(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	join := New(Spec{LeftKey: "k", RightKey: "k", Window: time.Second}, mem)
	run := func(schema *arrow.Schema, left, right []string) []string {
		t.Helper()
		results, err := join.Process(
			[]arrow.RecordBatch{arrowtest.JSONBatch(t, mem, schema, left...)},
			[]arrow.RecordBatch{arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, metacols.Timestamp, int64Type), right...)})
		if err != nil {
			t.Fatal(err)
		}
		defer arrays.Release(results)
		var texts []string
		for _, result := range results {
			texts = append(texts, fmt.Sprint(result.NumCols(), arrowtest.Rows(result)))
		}
		join.Commit()
		return texts
	}
	run(arrowtest.Fields("k", int64Type, metacols.Timestamp, int64Type), []string{`{"k":1,"__timestamp":1}`, `{"k":2,"__timestamp":1}`}, nil)
	got := run(arrowtest.Fields("k", int64Type, "more", textType, metacols.Timestamp, int64Type), []string{`{"k":1,"more":"x","__timestamp":2}`},
		[]string{`{"k":2,"__timestamp":3}`, `{"k":1,"__timestamp":4}`})
	want := []string{
		"7 [2 2 (null) 1 (null) (null) (null) 1 1 (null) 1 (null) (null) (null)]",
		"8 [1 x 1 (null) 2 (null) (null) (null)]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results mismatch (-want +got):\n%s", diff)
	}
}

func TestJoinStateTakesNoMemoryOfTheTopology(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: textType}
	schema := arrowtest.Fields("k", int64Type, "d", dictionary, "l", arrow.ListOf(dictionary), "s", textType, metacols.Timestamp, int64Type)
	join := New(Spec{LeftKey: "k", RightKey: "k"}, mem)
	batch, err := arrays.ConcatBatches(mem, []arrow.RecordBatch{arrowtest.JSONBatch(t, mem, schema, `{"k":1,"d":"x","l":["y","x"],"s":"long text","__timestamp":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join.Process([]arrow.RecordBatch{batch}, nil); err != nil {
		t.Fatal(err)
	}
	// Nothing of the batch is used behind its release.
	for _, column := range batch.Columns() {
		scribble(column.Data())
	}
	batch.Release()
	results, err := join.Process(nil, []arrow.RecordBatch{arrowtest.JSONBatch(t, mem, arrowtest.Fields("k", int64Type, metacols.Timestamp, int64Type), `{"k":1,"__timestamp":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
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
	mem := arrowtest.NewAllocator(t)
	batch := func(key arrow.DataType, text string) []arrow.RecordBatch {
		schema := arrowtest.Fields("k", key, metacols.Timestamp, arrow.PrimitiveTypes.Int64)
		return []arrow.RecordBatch{arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{"k":%q,"__timestamp":1}`, text))}
	}
	seconds, millis, days := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Date32
	join := New(Spec{LeftKey: "k", RightKey: "k"}, mem)
	want := "right side: column `k`: the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"
	if _, err := join.Process(batch(seconds, "1970-01-01T00:00:07Z"), batch(millis, "1970-01-01T00:00:07Z")); err == nil || err.Error() != want {
		t.Errorf("process = %v, want %s", err, want)
	}
	if err := join.Rollback(); err != nil {
		t.Fatal(err)
	}
	// The failed batches have not happened.
	results, err := join.Process(batch(days, "1970-01-08"), batch(days, "1970-01-08"))
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Release(results)
	if len(results) != 1 || results[0].NumRows() != 1 {
		t.Errorf("process = %v, want one pair", results)
	}
	join.Commit()
	if _, err := join.Process(batch(millis, "1970-01-01T00:00:07Z"), nil); err == nil {
		t.Error("process took another unit of the same side")
	}
}

// TestJoinRefusesAnotherUnitOfTimeBehindARestore restores a side whose keys are
// in seconds. A key that is named like a metadata column is escaped on its way
// in.
func TestJoinRefusesAnotherUnitOfTimeBehindARestore(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	seconds, millis := arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms
	for _, name := range []string{"k", metacols.Payload(metacols.Key)} {
		batch := func(key arrow.DataType) []arrow.RecordBatch {
			field := arrow.Field{Name: name, Type: key, Nullable: true}
			if name != "k" {
				field.Metadata = arrow.MetadataFrom(map[string]string{metacols.NameKey: metacols.Key})
			}
			schema := arrow.NewSchema([]arrow.Field{field, {Name: metacols.Timestamp, Type: int64Type}}, nil)
			return []arrow.RecordBatch{arrowtest.JSONBatch(t, mem, schema, fmt.Sprintf(`{%q:"1970-01-01T00:00:07Z","__timestamp":1}`, name))}
		}
		spec := Spec{LeftKey: name, RightKey: name, Window: time.Second}
		join := New(spec, mem)
		must[[]arrow.RecordBatch](t)(join.Process(batch(seconds), nil))
		join.Commit()
		restored := New(spec, mem)
		if err := restored.Restore(must[[]byte](t)(join.Snapshot())); err != nil {
			t.Fatal(err)
		}
		restored.Commit()
		results, err := restored.Process(nil, batch(millis))
		want := "the column is of type timestamp[ms, tz=UTC], but the state holds values of type timestamp[s, tz=UTC]"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %s: process = %v, %v; want %s", name, results, err, want)
		}
		if err := restored.Rollback(); err != nil {
			t.Fatal(err)
		}
		pairs := must[[]arrow.RecordBatch](t)(restored.Process(nil, batch(seconds)))
		if len(pairs) != 1 || pairs[0].NumRows() != 1 {
			t.Errorf("key %s: process = %v; want one pair", name, pairs)
		}
		arrays.Release(pairs)
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
			sides[side] = array.NewRecordBatch(arrowtest.Fields("k", dt, metacols.Timestamp, int64Type), columns, 40)
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
		join := New(Spec{LeftKey: "k", RightKey: "k"}, mem)
		results, err := join.Process([]arrow.RecordBatch{sides[0]}, []arrow.RecordBatch{sides[1]})
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
		arrays.Release(append(results, sides[0], sides[1]))
	}
}

// TestSideErrorsNameThePackageOnce quotes a cause whose text begins with the name
// of the package.
func TestSideErrorsNameThePackageOnce(t *testing.T) {
	err := onSide(1, &namedcols.Error{Column: "c", Row: namedcols.NoRow, Cause: errors.New("columnar: cannot")})
	if want := "right side: column `c`: cannot"; err.Error() != want {
		t.Errorf("text is %q, want %q", err, want)
	}
}
