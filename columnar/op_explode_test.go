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
)

// TestExplodeMakesARowOfEachElement takes random lists of every list type, whole and
// sliced, and compares with the elements one by one.
func TestExplodeMakesARowOfEachElement(t *testing.T) {
	r := arrowtest.NewRand(t)
	for _, dt := range []arrow.DataType{
		arrow.ListOf(int64Type), arrow.LargeListOf(textType), arrow.FixedSizeListOf(3, int64Type),
		arrow.ListViewOf(textType), arrow.LargeListViewOf(int64Type), arrow.ListOf(arrow.ListOf(int64Type)), arrow.ListOf(arrow.StructOf(arrow.Field{Name: "a", Type: textType, Nullable: true})),
		arrow.MapOf(textType, int64Type),
	} {
		for range 10 {
			mem := newAllocator(t)
			arr := arrowtest.RandomArray(r, mem, dt, 30)
			number := array.NewInt64Builder(mem)
			for row := range arr.Len() {
				number.Append(int64(row))
			}
			numbers := number.NewArray()
			number.Release()
			whole := array.NewRecordBatch(arrowtest.Fields("n", int64Type, "v", dt, "m", int64Type), []arrow.Array{numbers, arr, numbers}, int64(arr.Len()))
			first := r.Int64N(10)
			batch := whole.NewSlice(first, first+r.Int64N(20))
			var want []string
			lists := batch.Column(1).(array.ListLike)
			for row := range lists.Len() {
				if lists.IsNull(row) {
					continue
				}
				start, end := lists.ValueOffsets(row)
				elements := array.NewSlice(lists.ListValues(), start, end)
				for _, text := range arrowtest.Texts(elements) {
					want = append(want, fmt.Sprintf("%d %s %d", first+int64(row), text, first+int64(row)))
				}
				elements.Release()
			}
			got := processRows(t, Explode(mem, "v"), batch)
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("%s: rows mismatch (-want +got):\n%s", dt, diff)
			}
			for _, release := range []interface{ Release() }{batch, whole, numbers, arr} {
				release.Release()
			}
		}
	}
}

func TestExplodeDescribesItsElements(t *testing.T) {
	mem := newAllocator(t)
	raw := arrow.NewMetadata([]string{"krabka.json"}, []string{"true"})
	lines := arrow.ListOfField(arrow.Field{Name: "item", Type: textType, Metadata: raw})
	codec := must[*JSONCodec](t)(NewJSONCodec(mem, arrow.NewSchema([]arrow.Field{{Name: "lines", Type: lines}, {Name: "id", Type: int64Type}}, nil)))
	batch := must[arrow.RecordBatch](t)(codec.Decode("in", []ConsumedRecord{
		{Key: []byte("k"), Value: []byte(`{"id":7,"lines":[{"sku":1},"x"]}`), Timestamp: 5}, {Value: []byte(`{"id":8,"lines":[]}`)}, {Key: []byte("gone")},
	}))
	defer batch.Release()
	result := processed(t, Explode(mem, "lines"), batch)
	var got []string
	for _, record := range must[[]ProduceRecord](t)(codec.Encode("out", result)) {
		got = append(got, fmt.Sprintf("%s=%s @%d", record.Key, record.Value, record.Timestamp))
	}
	if diff := cmp.Diff([]string{`k={"lines":{"sku":1},"id":7} @5`, `k={"lines":"x","id":7} @5`}, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
	var failure *ColumnError
	if _, err := tryRows(Explode(mem, "id"), batch); !errors.As(err, &failure) || err.Error() != "columnar: column `id`: a column of type int64 has no elements: only lists and maps are exploded" {
		t.Errorf("explode of an integer: %v", err)
	}
	if _, err := tryRows(Explode(mem, "line"), batch); !errors.Is(err, ErrNoColumn) {
		t.Errorf("explode of no column: %v", err)
	}
}
