// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/namedcols"
)

func TestConcatKeepsValuesOfEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			var parts []arrow.Array
			var want []string
			for i, length := range []int{30, 1, 0, 50, 9} {
				whole := arrowtest.RandomArray(r, mem, dt, length+2*i)
				defer whole.Release()
				sliced := array.NewSlice(whole, int64(i), int64(i+length))
				defer sliced.Release()
				parts = append(parts, sliced)
				want = append(want, arrowtest.Texts(sliced)...)
			}
			// Slices of one array, the later rows first.
			again := array.NewSlice(parts[3], 20, 45)
			defer again.Release()
			earlier := array.NewSlice(parts[3], 1, 18)
			defer earlier.Release()
			parts = append(parts, again, earlier)
			want = append(append(want, arrowtest.Texts(again)...), arrowtest.Texts(earlier)...)

			joined, err := concatArrays(mem, parts)
			if err != nil {
				t.Fatal(err)
			}
			defer joined.Release()
			if diff := cmp.Diff(want, arrowtest.Texts(joined)); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
			if validator, ok := joined.(interface{ ValidateFull() error }); ok {
				if err := validator.ValidateFull(); err != nil {
					t.Error(err)
				}
			}
			if !arrow.TypeEqual(joined.DataType(), dt) {
				t.Errorf("type %s, want %s", joined.DataType(), dt)
			}
		})
	}
}

func TestConcatOfNothingButEmptyPartsIsEmpty(t *testing.T) {
	for _, dt := range arrowtest.EveryType() {
		mem := arrowtest.NewAllocator(t)
		empty := array.MakeFromData(emptyData(dt))
		joined, err := concatArrays(mem, []arrow.Array{empty, empty})
		if err != nil {
			t.Fatalf("%s: %v", dt, err)
		}
		if joined.Len() != 0 {
			t.Errorf("%s: %d rows, want 0", dt, joined.Len())
		}
		joined.Release()
	}
}

func TestConcatUnifiesDictionaries(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	var parts []arrow.Array
	var want []string
	for i := range 100 {
		builder := array.NewBuilder(mem, dt).(*array.BinaryDictionaryBuilder)
		for j := range 3 {
			value := fmt.Sprint("value ", (i+j)%60)
			if err := builder.AppendString(value); err != nil {
				t.Fatal(err)
			}
			want = append(want, value)
		}
		part := builder.NewArray()
		builder.Release()
		defer part.Release()
		parts = append(parts, part)
	}
	joined, err := concatArrays(mem, parts)
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Release()
	if diff := cmp.Diff(want, arrowtest.Texts(joined)); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
	if size := joined.(*array.Dictionary).Dictionary().Len(); size != 60 {
		t.Errorf("the joined dictionary has %d values, want 60", size)
	}
}

func TestConcatRefusesDictionariesBeyondTheirIndexType(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int32}
	var parts []arrow.Array
	for i := range 2 {
		builder := array.NewBuilder(mem, dt).(*array.Int32DictionaryBuilder)
		for j := range 100 {
			if err := builder.Append(int32(100*i + j)); err != nil {
				t.Fatal(err)
			}
		}
		part := builder.NewArray()
		builder.Release()
		defer part.Release()
		parts = append(parts, part)
	}
	if joined, err := concatArrays(mem, parts); err == nil || !strings.Contains(err.Error(), "128") {
		t.Errorf("joined %v with error %v, want an error that names the limit of 128 values", joined, err)
	}
}

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
	fields[1].Nullable = false
	other := array.NewRecordBatch(arrow.NewSchema(fields, nil), batch.Columns(), 1)
	defer other.Release()
	_, err := concatBatches(mem, []arrow.RecordBatch{batch, batch, other})
	var mismatch *SchemaMismatchError
	if !errors.As(err, &mismatch) || mismatch.Index != 2 || !errors.Is(err, ErrSchemaMismatch) {
		t.Fatalf("error %v, want a SchemaMismatchError of batch 2", err)
	}
	want := "columnar: Arrow batch schemas differ: number 2 has [text utf8, at int64 not null], those before it have [text utf8, at int64]"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text mismatch (-want +got):\n%s", diff)
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
