// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/arrays"
)

// textForms are Arrow types for columns of text, and of lists of text.
func textForms() (texts, lists []arrow.DataType) {
	texts = []arrow.DataType{
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.LargeString},
	}
	for _, text := range texts[:3] {
		item := arrow.Field{Name: "item", Type: text, Nullable: true}
		lists = append(lists, arrow.ListOfField(item), arrow.LargeListOfField(item))
	}
	return texts, lists
}

// formBatch has three rows: a text, a list of texts and a struct of a text.
func formBatch(t *testing.T, mem memory.Allocator, text, list arrow.DataType) arrow.RecordBatch {
	t.Helper()
	column := func(dt arrow.DataType, values ...any) arrow.Array {
		built, err := arrays.Build(mem, dt, len(values), func(row int) any { return values[row] })
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	texts := column(text, "a", "", "some text of more than sixteen bytes")
	defer texts.Release()
	lists := column(list, []any{"x", "y"}, []any{}, []any{"z"})
	defer lists.Release()
	inner, err := array.NewStructArray([]arrow.Array{texts}, []string{"v"})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Release()
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: text}, {Name: "list", Type: list}, {Name: "inner", Type: inner.DataType()},
	}, nil), []arrow.Array{texts, lists, inner}, 3)
}

func TestColumnsInOtherFormsAreWrittenAsThePlainOnes(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	cache.SeedSubjectID("t-value", 1)
	avroCodec, err := NewAvroBatchCodec(`{"type":"record","name":"R","fields":[{"name":"text","type":"string"},
		{"name":"list","type":{"type":"array","items":"string"}},
		{"name":"inner","type":{"type":"record","name":"I","fields":[{"name":"v","type":"string"}]}}]}`, cache, mem)
	if err != nil {
		t.Fatal(err)
	}
	message := protoMessage(t, `syntax = "proto3"; message R { string text = 1; repeated string list = 2; I inner = 3; message I { string v = 1; } }`)
	protobuf := NewProtobufBatchCodec(dynamicpb.NewMessage(message), cache, mem)
	texts, lists := textForms()
	for name, codec := range map[string]columnar.SchemaCodec{"Avro": avroCodec, "Protobuf": protobuf} {
		write := func(text, list arrow.DataType) []string {
			batch := formBatch(t, mem, text, list)
			defer batch.Release()
			if err := codec.CheckSchema(batch.Schema()); err != nil {
				t.Errorf("%s: CheckSchema of %s and %s: %v", name, text, list, err)
			}
			sliced := batch.NewSlice(1, 3)
			defer sliced.Release()
			var values []string
			for _, b := range []arrow.RecordBatch{batch, sliced} {
				records, err := codec.Encode("t", b)
				if err != nil {
					t.Fatalf("%s: %s and %s: %v", name, text, list, err)
				}
				for _, record := range records {
					values = append(values, fmt.Sprintf("%x", record.Value))
				}
			}
			return values
		}
		want := write(texts[0], lists[0])
		for _, text := range texts {
			for _, list := range lists {
				if diff := cmp.Diff(want, write(text, list)); diff != "" {
					t.Errorf("%s: %s and %s (-want +got):\n%s", name, text, list, diff)
				}
			}
		}
	}
}

// The lists of a view may lie in any order, with gaps and overlaps.
func TestListViewsAndRunEndsAreWritten(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	cache.SeedSubjectID("t-value", 1)
	codec, err := NewAvroBatchCodec(`{"type":"record","name":"R","fields":[
		{"name":"view","type":["null",{"type":"array","items":"int"}]},{"name":"run","type":["null","int"]}]}`, cache, mem)
	if err != nil {
		t.Fatal(err)
	}
	views := array.NewListViewBuilder(mem, arrow.PrimitiveTypes.Int32)
	defer views.Release()
	views.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{1, 2, 3}, nil)
	views.AppendDimensions(1, 2)
	views.AppendDimensions(0, 2)
	views.AppendNull()
	view := views.NewArray()
	defer view.Release()
	runs := array.NewRunEndEncodedBuilder(mem, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32)
	defer runs.Release()
	runs.Append(2)
	runs.ValueBuilder().(*array.Int32Builder).Append(7)
	runs.AppendNull()
	run := runs.NewArray()
	defer run.Release()
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		{Name: "view", Type: view.DataType(), Nullable: true}, {Name: "run", Type: run.DataType(), Nullable: true},
	}, nil), []arrow.Array{view, run}, 3)
	defer batch.Release()
	records, err := codec.Encode("t", batch)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{avroFrame(1, 2, 4, 4, 6, 0, 2, 14), avroFrame(1, 2, 4, 2, 4, 0, 2, 14), avroFrame(1, 0, 0)}
	for i, record := range records {
		if diff := cmp.Diff(want[i], record.Value); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
}
