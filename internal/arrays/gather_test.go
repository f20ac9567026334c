// SPDX-License-Identifier: Apache-2.0

package arrays

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

// rowChoices returns selections of rows in all shapes that kernels tell apart.
func rowChoices(r *rand.Rand, length int) map[string][]int32 {
	var scattered, ascending, runs, nulls, longNulls []int32
	for range length {
		scattered = append(scattered, int32(r.IntN(length)))
		nulls = append(nulls, int32(r.IntN(length+length/4))-int32(length/4))
	}
	for i := range nulls {
		nulls[i] = max(nulls[i], -1)
	}
	for i := range length {
		if r.IntN(3) > 0 {
			ascending = append(ascending, int32(i))
		}
	}
	for range 4 {
		from := r.IntN(length / 2)
		for i := range length / 3 {
			runs = append(runs, int32(from+i))
			longNulls = append(longNulls, int32(from+i))
		}
		for range 10 {
			longNulls = append(longNulls, -1)
		}
	}
	return map[string][]int32{
		"none": {}, "one": {int32(length - 1)}, "only null": {-1}, "scattered": scattered, "ascending": ascending,
		"runs": runs, "scattered nulls": nulls, "runs of nulls": longNulls,
	}
}

func TestGatherKeepsValuesOfEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range arrowtest.EveryType() {
		t.Run(dt.String(), func(t *testing.T) {
			mem := arrowtest.NewAllocator(t)
			const length = 100
			whole := arrowtest.RandomArray(r, mem, dt, length+20)
			defer whole.Release()
			sliced := array.NewSlice(whole, 13, length+13)
			defer sliced.Release()
			field := arrow.Field{Name: "inner", Type: dt, Nullable: true}
			inStruct := array.NewData(arrow.StructOf(field), length, []*memory.Buffer{nil}, []arrow.ArrayData{whole.Data()}, 0, 11)
			defer inStruct.Release()
			nested := array.NewStructData(inStruct)
			defer nested.Release()
			for name, source := range map[string]arrow.Array{"whole": whole, "sliced": sliced, "field of a sliced struct": nested} {
				want := arrowtest.Texts(source)
				for shape, rows := range rowChoices(r, source.Len()) {
					taken, err := Gather(mem, source, rows)
					if err != nil {
						t.Fatalf("%s, %s: %v", name, shape, err)
					}
					checkTaken(t, fmt.Sprint(name, ", ", shape), taken, want, rows)
					taken.Release()
				}
			}
		})
	}
}

func checkTaken(t *testing.T, name string, taken arrow.Array, values []string, rows []int32) {
	t.Helper()
	want := make([]string, len(rows))
	for i, row := range rows {
		want[i] = array.NullValueStr
		if row >= 0 {
			want[i] = values[row]
		}
	}
	got := arrowtest.Texts(taken)
	switch StorageType(taken.DataType()).(type) {
	case *arrow.SparseUnionType, *arrow.DenseUnionType, *arrow.RunEndEncodedType:
		// These have no validity bitmap of their own: nulls are those of their values.
		for i := range rows {
			if rows[i] < 0 && (strings.Contains(got[i], "null") || got[i] == "") {
				got[i] = array.NullValueStr
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: values mismatch (-want +got):\n%s", name, diff)
	}
	if validator, ok := taken.(interface{ ValidateFull() error }); ok {
		if err := validator.ValidateFull(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nulls := 0
	for i := range taken.Len() {
		if taken.IsNull(i) {
			nulls++
		}
	}
	if taken.DataType().ID() != arrow.NULL && taken.NullN() != nulls {
		t.Errorf("%s: NullN() = %d, want %d", name, taken.NullN(), nulls)
	}
}

func TestGatherOfAllRowsReturnsTheInput(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	defer batch.Release()
	rows := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	taken, err := GatherBatch(mem, batch, rows)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	if taken != batch {
		t.Error("taking all rows in order copied the batch")
	}
	some, err := GatherBatch(mem, batch, rows[:9])
	if err != nil {
		t.Fatal(err)
	}
	defer some.Release()
	if some.Schema() != batch.Schema() || some.NumRows() != 9 {
		t.Errorf("taking 9 rows gave %d rows and schema %p, want 9 and %p", some.NumRows(), some.Schema(), batch.Schema())
	}
}

func TestGatherRefusesRowsOutsideTheBatch(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.TwoColumns(mem, "a", "b")
	defer batch.Release()
	for _, row := range []int32{2, -2} {
		_, err := GatherBatch(mem, batch, []int32{0, row})
		want := fmt.Sprintf("row %d at position 1 is outside a batch of 2 rows", row)
		if err == nil || err.Error() != want {
			t.Errorf("gather of row %d: error %v, want %q", row, err, want)
		}
	}
}

func TestGatherNamesTheColumnThatGrowsTooLarge(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewBuilder(mem, arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64)).(*array.RunEndEncodedBuilder)
	defer builder.Release()
	builder.Append(1)
	builder.ValueBuilder().(*array.Int64Builder).Append(7)
	column := builder.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "runs", Type: column.DataType(), Nullable: true}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, 1)
	defer batch.Release()
	_, err := GatherBatch(mem, batch, make([]int32, 40_000))
	if err == nil || !strings.Contains(err.Error(), `column "runs"`) || !strings.Contains(err.Error(), "32767") {
		t.Errorf("error %v, want one that names column runs and the limit 32767", err)
	}
}
