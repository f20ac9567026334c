// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func TestConcatOfOneBatchIsThatBatch(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a", "b")
	defer batch.Release()
	joined, err := concatBatches(mem, []arrow.RecordBatch{batch})
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Release()
	if joined != batch {
		t.Error("joining one batch copied it")
	}
}

func TestConcatRefusesDifferentSchemas(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a")
	defer batch.Release()
	fields := batch.Schema().Fields()
	fields[1].Name = "when"
	other := array.NewRecordBatch(arrow.NewSchema(fields, nil), batch.Columns(), 1)
	defer other.Release()
	_, err := concatBatches(mem, []arrow.RecordBatch{batch, batch, other})
	var mismatch *SchemaMismatchError
	if !errors.As(err, &mismatch) || mismatch.Index != 2 || !errors.Is(err, ErrSchemaMismatch) {
		t.Fatalf("error %v, want a SchemaMismatchError of batch 2", err)
	}
	want := "columnar: Arrow batch schemas differ: number 2 has [text utf8, when int64], those before it have [text utf8, at int64]"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
	}
}

// Branches that differ only in whether a column may be null are joined, as a column
// that may, wherever the batch that says so stands.
func TestConcatOfColumnsThatMayBeNullInSomeBatches(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	loose := arrowtest.TwoColumns(mem, "a")
	defer loose.Release()
	strict := func(columns ...int) arrow.RecordBatch {
		fields := loose.Schema().Fields()
		for _, column := range columns {
			fields[column].Nullable = false
		}
		batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), loose.Columns(), 1)
		t.Cleanup(batch.Release)
		return batch
	}
	both, first, second := strict(0, 1), strict(0), strict(1)
	for name, test := range map[string]struct {
		batches []arrow.RecordBatch
		want    []bool
	}{
		"loose, then strict":          {[]arrow.RecordBatch{loose, both}, []bool{true, true}},
		"strict, then loose":          {[]arrow.RecordBatch{both, loose}, []bool{true, true}},
		"strict, then half":           {[]arrow.RecordBatch{both, both, first}, []bool{false, true}},
		"each in a column of its own": {[]arrow.RecordBatch{first, second}, []bool{true, true}},
		"all strict":                  {[]arrow.RecordBatch{both, strict(0, 1)}, []bool{false, false}},
	} {
		joined, err := concatBatches(mem, test.batches)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fields := joined.Schema().Fields()
		if got := []bool{fields[0].Nullable, fields[1].Nullable}; !cmp.Equal(got, test.want) || int(joined.NumRows()) != len(test.batches) {
			t.Errorf("%s: %d rows, nullable %v, want %d and %v", name, joined.NumRows(), got, len(test.batches), test.want)
		}
		joined.Release()
	}
}

func TestConcatIgnoresSchemaMetadata(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a")
	defer batch.Release()
	metadata := arrow.NewMetadata([]string{"k"}, []string{"v"})
	other := array.NewRecordBatch(arrow.NewSchema(batch.Schema().Fields(), &metadata), batch.Columns(), 1)
	defer other.Release()
	joined, err := concatBatches(mem, []arrow.RecordBatch{batch, other})
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Release()
	if joined.NumRows() != 2 || joined.Schema() != batch.Schema() {
		t.Errorf("%d rows with schema %v, want 2 with that of the first batch", joined.NumRows(), joined.Schema())
	}
}

func TestConcatAlignsTombstones(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	attach := func(payload arrow.RecordBatch, records ...ConsumedRecord) arrow.RecordBatch {
		t.Helper()
		defer payload.Release()
		batch, err := AttachMetadata(mem, payload, records)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(batch.Release)
		return batch
	}
	value := []byte("v")
	plain := attach(arrowtest.TwoColumns(mem, "a"), ConsumedRecord{Value: value, Offset: 1})
	mixed := attach(arrowtest.TwoColumns(mem, "b", "c"), ConsumedRecord{Value: value, Offset: 2}, ConsumedRecord{Offset: 3})
	bare := attach(array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1), ConsumedRecord{Offset: 4})

	for name, batches := range map[string][]arrow.RecordBatch{
		"plain first":      {plain, mixed, bare},
		"tombstones first": {bare, mixed, plain},
		"no mixed batch":   {bare, plain},
	} {
		t.Run(name, func(t *testing.T) {
			joined, err := concatBatches(mem, batches)
			if err != nil {
				t.Fatal(err)
			}
			defer joined.Release()
			want := map[int64]string{1: "a false", 2: "b false", 3: "c true", 4: "(null) true"}
			got := map[int64]string{}
			offsets := namedcols.Column(joined, OffsetColumn).(*array.Int64)
			metadata := NewRowMetadata(joined)
			for row := range int(joined.NumRows()) {
				got[offsets.Value(row)] = fmt.Sprint(namedcols.Column(joined, "text").ValueStr(row), " ", metadata.Tombstone(row))
			}
			if len(batches) == 2 {
				delete(want, 2)
				delete(want, 3)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
