// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/headercol"
	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

func fieldNames(schema *arrow.Schema) []string {
	names := make([]string, schema.NumFields())
	for i, field := range schema.Fields() {
		names[i] = field.Name
	}
	return names
}

func TestAttachMetadataAppendsFiveColumns(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	payload := arrowtest.TwoColumns(mem, "a", "b", "c")
	defer payload.Release()
	batch, err := AttachMetadata(mem, payload, []ConsumedRecord{
		{Key: []byte("k"), Value: []byte{}, Timestamp: 10, Partition: 3, Offset: 7},
		{Value: []byte{}, Timestamp: -1, Partition: math.MaxInt32, Offset: math.MaxInt64, Headers: []RecordHeader{{"h", []byte{1}}, {"h", nil}, {"", []byte{}}}},
		{Key: []byte{}, Value: []byte{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := arrow.NewSchema(append(payload.Schema().Fields(),
		arrow.Field{Name: "__key", Type: arrow.BinaryTypes.Binary, Nullable: true},
		arrow.Field{Name: "__timestamp", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "__partition", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "__offset", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "__headers", Type: arrow.BinaryTypes.Binary, Nullable: true},
	), nil)
	if !batch.Schema().Equal(want) {
		t.Errorf("schema %v, want %v", batch.Schema(), want)
	}
	var got [][]string
	for _, column := range batch.Columns()[2:] {
		got = append(got, arrowtest.Texts(column))
	}
	wantValues := [][]string{
		{"aw==", "(null)", ""},
		{"10", "-1", "0"},
		{"3", "2147483647", "0"},
		{"7", "9223372036854775807", "0"},
		{"AAAAAA==", "AAAAAwAAAAFoAAAAAQEAAAABaP////8AAAAAAAAAAA==", "AAAAAA=="},
	}
	if diff := cmp.Diff(wantValues, got); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
	if batch.Column(0) != payload.Column(0) {
		t.Error("the payload column was copied")
	}
	for _, i := range []int{3, 4, 5, 6} {
		if batch.Column(i).NullN() != 0 {
			t.Errorf("column %q has nulls", batch.ColumnName(i))
		}
	}
}

func TestAttachMetadataKeepsSchemaMetadata(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	metadata := arrow.NewMetadata([]string{"origin"}, []string{"lab"})
	payload := array.NewRecordBatch(arrow.NewSchema(nil, &metadata), nil, 1)
	defer payload.Release()
	batch, err := AttachMetadata(mem, payload, []ConsumedRecord{{Value: []byte{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if got := batch.Schema().Metadata(); !got.Equal(metadata) {
		t.Errorf("schema metadata %v, want %v", got, metadata)
	}
}

func TestAttachMetadataRefusesWhatDoesNotFit(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	payload := arrowtest.TwoColumns(mem, "a")
	defer payload.Release()
	for name, test := range map[string]struct {
		records []ConsumedRecord
		want    string
	}{
		"row counts":         {make([]ConsumedRecord, 2), "payload and metadata row counts differ"},
		"large partition":    {[]ConsumedRecord{{Partition: math.MaxInt32 + 1}}, "partition 2147483648 of record 0"},
		"negative partition": {[]ConsumedRecord{{Partition: -1}}, "partition -1 of record 0"},
	} {
		if _, err := AttachMetadata(mem, payload, test.records); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestReservedPayloadNamesRoundTrip(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	if got := PayloadColumn("__key"); got != "__payload___key" {
		t.Errorf("PayloadColumn(__key) = %q", got)
	}
	if got := PayloadColumn("user"); got != "user" {
		t.Errorf("PayloadColumn(user) = %q", got)
	}
	column := arrowtest.RandomArray(arrowtest.NewRand(t), mem, arrow.PrimitiveTypes.Int64, 1)
	defer column.Release()
	field := func(name string, pairs ...string) arrow.Field {
		metadata := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			metadata[pairs[i]] = pairs[i+1]
		}
		f := arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
		if len(pairs) > 0 {
			f.Metadata = arrow.MetadataFrom(metadata)
		}
		return f
	}
	payload := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		field("__key", "z", "1", "a", "2"), field("__payload___key"), field("__payload___payload___key"), field("__offset"),
		field("__tombstone"), field("__window_start"), field("other", "krabka.payload.name", "__key"), field("__key"),
	}, nil), []arrow.Array{column, column, column, column, column, column, column, column}, 1)
	defer payload.Release()

	batch, err := AttachMetadata(mem, payload, []ConsumedRecord{{Value: []byte{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := []string{
		"__payload___payload___payload___key", "__payload___key", "__payload___payload___key", "__payload___offset",
		"__payload___tombstone", "__window_start", "other", "__payload___payload___payload___payload___key",
		"__key", "__timestamp", "__partition", "__offset", "__headers",
	}
	if diff := cmp.Diff(want, fieldNames(batch.Schema())); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}
	metadata := batch.Schema().Field(0).Metadata
	if diff := cmp.Diff([]string{"a", "krabka.payload.name", "z"}, metadata.Keys()); diff != "" {
		t.Errorf("metadata keys mismatch (-want +got):\n%s", diff)
	}
	back := PayloadBatch(batch)
	defer back.Release()
	if !back.Schema().Equal(payload.Schema()) {
		t.Errorf("restored schema %v, want %v", back.Schema(), payload.Schema())
	}
}

func TestReservedPayloadNameWithoutCollisionIsPlain(t *testing.T) {
	schema := withMetadataSchema(arrow.NewSchema([]arrow.Field{{Name: "__key", Type: arrow.PrimitiveTypes.Int64}}, nil), false)
	want := arrow.Field{Name: "__payload___key", Type: arrow.PrimitiveTypes.Int64,
		Metadata: arrow.NewMetadata([]string{"krabka.payload.name"}, []string{"__key"})}
	if !schema.Field(0).Equal(want) {
		t.Errorf("field %v, want %v", schema.Field(0), want)
	}
}

func TestRowMetadataReturnsWhatWasAttached(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	records := []ConsumedRecord{
		{Key: []byte("k"), Value: []byte{}, Timestamp: 10, Headers: []RecordHeader{{"a", []byte("b")}}},
		{Key: []byte("k"), Timestamp: 10, Headers: []RecordHeader{{"a", []byte("b")}}},
		{Value: []byte{}, Headers: []RecordHeader{{"a", nil}, {"a", []byte{}}}},
		{Key: []byte{}, Value: []byte{}, Timestamp: 3},
	}
	payload := arrowtest.TwoColumns(mem, "a", "b", "c", "d")
	defer payload.Release()
	batch, err := AttachMetadata(mem, payload, records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	sliced := batch.NewSlice(1, 4)
	defer sliced.Release()
	for name, source := range map[string]arrow.RecordBatch{"whole": batch, "sliced": sliced} {
		skipped := len(records) - int(source.NumRows())
		metadata := NewRowMetadata(source)
		for row := range int(source.NumRows()) {
			record := records[row+skipped]
			got, err := metadata.Record(row)
			if err != nil {
				t.Fatal(err)
			}
			want := ProduceRecord{Key: record.Key, Timestamp: record.Timestamp, Headers: record.Headers}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: record of row %d mismatch (-want +got):\n%s", name, row, diff)
			}
			if got := metadata.Tombstone(row); got != (record.Value == nil) {
				t.Errorf("%s: Tombstone(%d) = %v", name, row, got)
			}
		}
	}
}

func TestRowMetadataOfOtherColumnsIsNull(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	column := arrowtest.RandomArray(arrowtest.NewRand(t), mem, arrow.PrimitiveTypes.Float64, 1)
	defer column.Release()
	fields := make([]arrow.Field, 0, 6)
	for _, field := range metacols.Fields(true) {
		fields = append(fields, arrow.Field{Name: field.Name, Type: column.DataType(), Nullable: true})
	}
	odd := array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{column, column, column, column, column, column}, 1)
	defer odd.Release()
	none := arrowtest.TwoColumns(mem, "a")
	defer none.Release()
	for _, batch := range []arrow.RecordBatch{odd, none} {
		metadata := NewRowMetadata(batch)
		got, err := metadata.Record(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ProduceRecord{}, got); diff != "" {
			t.Errorf("record mismatch (-want +got):\n%s", diff)
		}
		if metadata.Tombstone(0) {
			t.Error("a row without marker is a tombstone")
		}
	}
}

func TestMalformedHeadersAtASinkAreAnError(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	builder := array.NewBinaryBuilder(mem, arrow.BinaryTypes.Binary)
	defer builder.Release()
	builder.Append([]byte{0, 0, 0, 0})
	builder.Append([]byte{0, 0})
	column := builder.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: HeadersColumn, Type: arrow.BinaryTypes.Binary, Nullable: true}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, 2)
	defer batch.Release()
	metadata := NewRowMetadata(batch)
	if _, err := metadata.Record(0); err != nil {
		t.Errorf("row 0: %v", err)
	}
	_, err := metadata.Record(1)
	if !errors.Is(err, headercol.ErrTruncated) || !strings.Contains(err.Error(), `"__headers", row 1`) {
		t.Errorf("row 1: error %v, want truncated headers with column and row", err)
	}
}

func TestRecordRunsTellNullFromEmpty(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	value := []byte{}
	records := []ConsumedRecord{
		{Value: value}, {Value: value}, // null key
		{Key: []byte{}, Value: value}, // empty key
		{Key: []byte{}, Value: value, Timestamp: 1},
		{Key: []byte{}, Value: value, Timestamp: 1, Headers: []RecordHeader{{"h", nil}}},
		{Key: []byte{}, Value: value, Timestamp: 1, Headers: []RecordHeader{{"h", []byte{}}}},
		{Key: []byte{}, Value: value, Timestamp: 1, Headers: []RecordHeader{{"h", []byte{}}}},
		{Key: []byte{}, Timestamp: 1, Headers: []RecordHeader{{"h", []byte{}}}},
		{Key: []byte{}, Timestamp: 1, Headers: []RecordHeader{{"h", []byte{}}}},
	}
	payload := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, int64(len(records)))
	defer payload.Release()
	batch, err := AttachMetadata(mem, payload, records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if diff := cmp.Diff([]int{2, 3, 4, 5, 7, 8, 9}, NewRowMetadata(batch).recordRuns(len(records))); diff != "" {
		t.Errorf("run ends mismatch (-want +got):\n%s", diff)
	}
}
