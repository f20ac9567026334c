// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
	"github.com/krabka-io/krabka-streams-go/internal/ipcstream"
)

// userAmounts returns a batch of the columns user and amount.
func userAmounts(mem memory.Allocator, users string, values ...int64) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "amount", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(mem, schema)
	defer builder.Release()
	for i, value := range values {
		builder.Field(0).(*array.StringBuilder).Append(users[i : i+1])
		builder.Field(1).(*array.Int64Builder).Append(value)
	}
	return builder.NewRecordBatch()
}

// blob returns the IPC stream of a batch, which it releases.
func blob(tb testing.TB, batch arrow.RecordBatch) []byte {
	tb.Helper()
	defer batch.Release()
	return arrowtest.Stream(tb, []arrow.RecordBatch{batch})
}

// readBlob returns a value as a batch that is released with the test.
func readBlob(tb testing.TB, mem memory.Allocator, value []byte) arrow.RecordBatch {
	tb.Helper()
	batch, err := NewIPCSerde(mem).Deserialize("any", value)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(batch.Release)
	return batch
}

func TestBlobRowsHaveTheirRecordsMetadata(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewBlobCodec(mem)
	batch, err := codec.Decode("in", []ConsumedRecord{
		{Value: blob(t, userAmounts(mem, "ab", 5, 3)), Timestamp: 10, Offset: 5},
		{Key: []byte{7}, Value: blob(t, userAmounts(mem, "c", 9)), Timestamp: 11, Offset: 6, Headers: []RecordHeader{{"h", nil}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	var got [][]string
	for _, column := range batch.Columns() {
		got = append(got, arrowtest.Texts(column))
	}
	want := [][]string{
		{"a", "b", "c"}, {"5", "3", "9"},
		{"(null)", "(null)", "Bw=="}, {"10", "10", "11"}, {"0", "0", "0"}, {"5", "5", "6"},
		{"AAAAAA==", "AAAAAA==", "AAAAAQAAAAFo/////w=="},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}

	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 {
		t.Fatalf("%d records, want 2", len(records))
	}
	want2 := []ProduceRecord{{Timestamp: 10}, {Key: []byte{7}, Timestamp: 11, Headers: []RecordHeader{{"h", nil}}}}
	for i, rows := range []string{"[a b] [5 3]", "[c] [9]"} {
		payload := readBlob(t, mem, records[i].Value)
		if payload.NumCols() != 2 {
			t.Errorf("record %d has %d columns, want 2", i, payload.NumCols())
		}
		if got := fmt.Sprint(arrowtest.Texts(payload.Column(0)), " ", arrowtest.Texts(payload.Column(1))); got != rows {
			t.Errorf("record %d holds %s, want %s", i, got, rows)
		}
		records[i].Value = nil
	}
	if diff := cmp.Diff(want2, records); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestBlobRoundTripsEveryType(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := arrowtest.NewAllocator(t)
	codec := NewBlobCodec(mem)
	whole := arrowtest.EveryTypeBatch(r, mem, 60)
	defer whole.Release()
	var records []ConsumedRecord
	for i := range 4 {
		batch := whole.NewSlice(int64(15*i), int64(15*i+15))
		value, err := NewIPCSerde(mem).Serialize("any", batch)
		batch.Release()
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, ConsumedRecord{Key: []byte{byte(i)}, Value: value, Timestamp: int64(i)})
	}
	for name, input := range map[string][]ConsumedRecord{"one record": records[:1], "four records": records} {
		t.Run(name, func(t *testing.T) {
			batch, err := codec.Decode("in", input)
			if err != nil {
				t.Fatal(err)
			}
			defer batch.Release()
			payload := PayloadBatch(batch)
			defer payload.Release()
			want := whole.NewSlice(0, int64(15*len(input)))
			defer want.Release()
			arrowtest.CheckSameBatch(t, want, payload)
			output, err := codec.Encode("out", batch)
			if err != nil {
				t.Fatal(err)
			}
			if len(output) != len(input) {
				t.Fatalf("%d records became %d", len(input), len(output))
			}
			for i, record := range output {
				part := whole.NewSlice(int64(15*i), int64(15*i+15))
				arrowtest.CheckSameBatch(t, part, readBlob(t, mem, record.Value))
				part.Release()
			}
		})
	}
}

func TestBlobPacksAsManyRowsAsFit(t *testing.T) {
	r := arrowtest.NewRand(t)
	mem := arrowtest.NewAllocator(t)
	batch := arrowtest.EveryTypeBatch(r, mem, 300)
	defer batch.Release()
	const limit = 20_000
	codec, err := NewBlobCodecWithMaxBytes(mem, limit)
	if err != nil {
		t.Fatal(err)
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) < 2 {
		t.Fatalf("%d records, want more", len(records))
	}
	encoder, err := ipcstream.NewEncoder(mem, &ipcstream.Layouts{}, batch)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	from := 0
	for i, record := range records {
		if len(record.Value) > limit {
			t.Errorf("record %d has %d bytes, more than %d", i, len(record.Value), limit)
		}
		part := readBlob(t, mem, record.Value)
		to := from + int(part.NumRows())
		if to < 300 && encoder.Size(from, to+1) <= limit {
			t.Errorf("record %d ends at row %d although the next one fits", i, to)
		}
		if size := encoder.Size(from, to); size != len(record.Value) {
			t.Errorf("record %d has %d bytes, foretold were %d", i, len(record.Value), size)
		}
		want := batch.NewSlice(int64(from), int64(to))
		arrowtest.CheckSameBatch(t, want, part)
		want.Release()
		from = to
	}
	if from != 300 {
		t.Errorf("the records hold %d rows, want 300", from)
	}
}

// splitTexts encodes batch with a limit that one record does not keep, and returns
// the texts of its first column as the records hold them.
func splitTexts(t *testing.T, mem memory.Allocator, batch arrow.RecordBatch, limit int) []string {
	t.Helper()
	codec, err := NewBlobCodecWithMaxBytes(mem, limit)
	if err != nil {
		t.Fatal(err)
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) < 2 {
		t.Errorf("%d records, want more", len(records))
	}
	var split []string
	for i, record := range records {
		if len(record.Value) > limit {
			t.Errorf("record %d has %d bytes, more than %d", i, len(record.Value), limit)
		}
		split = append(split, arrowtest.Texts(readBlob(t, mem, record.Value).Column(0))...)
	}
	return split
}

func TestBlobSplitsAtTheLimit(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	values := make([]string, 64)
	for i := range values {
		values[i] = fmt.Sprintf("%02d %s", i, strings.Repeat("x", 37))
	}
	batch := arrowtest.TwoColumns(mem, values...)
	defer batch.Release()
	if diff := cmp.Diff(values, splitTexts(t, mem, batch, 1024)); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestBlobRefusesARowAboveTheLimit(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec, err := NewBlobCodecWithMaxBytes(mem, 1)
	if err != nil {
		t.Fatal(err)
	}
	batch := arrowtest.TwoColumns(mem, "a")
	defer batch.Release()
	if _, err := codec.Encode("out", batch); err == nil || err.Error() != "one Arrow row exceeds maxRecordBytes=1" {
		t.Errorf("error %v", err)
	}
	if _, err := NewBlobCodecWithMaxBytes(mem, 0); err == nil || err.Error() != "maxRecordBytes must be positive" {
		t.Errorf("limit 0: error %v", err)
	}
	if _, err := NewBlobCodecWithLimits(mem, 1, IPCLimits{ValueBytes: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestBlobSplitsLargeDictionaries(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	builder := array.NewBuilder(mem, dt).(*array.BinaryDictionaryBuilder)
	defer builder.Release()
	var want []string
	for i := range 400 {
		want = append(want, fmt.Sprintf("value %03d %s", i, strings.Repeat("x", 40)))
		if err := builder.AppendString(want[i]); err != nil {
			t.Fatal(err)
		}
	}
	column := builder.NewArray()
	defer column.Release()
	batch := array.NewRecordBatch(oneField(dt), []arrow.Array{column}, 400)
	defer batch.Release()
	if diff := cmp.Diff(want, splitTexts(t, mem, batch, 4000)); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}
}

func TestBlobTombstonesSurvive(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewBlobCodec(mem)
	value := blob(t, userAmounts(mem, "a", 5))
	records := []ConsumedRecord{
		{Key: []byte("a"), Timestamp: 1, Headers: []RecordHeader{{"h", nil}, {"h", []byte{}}}},
		{Key: []byte("a"), Timestamp: 1},
		{Value: value, Timestamp: 1},
		{Key: []byte{}, Value: value, Timestamp: 1},
		{Timestamp: 1},
	}
	for name, input := range map[string][]ConsumedRecord{"some": records, "nothing else": records[:2], "one": records[4:]} {
		batch, err := codec.Decode(name, input)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if batch.NumRows() != int64(len(input)) {
			t.Errorf("%s: %d rows, want %d", name, batch.NumRows(), len(input))
		}
		got, err := codec.Encode("out", batch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []ProduceRecord
		for _, record := range input {
			want = append(want, ProduceRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers})
		}
		for _, records := range [][]ProduceRecord{want, got} {
			for i := range records {
				if len(records[i].Value) > 0 {
					records[i].Value = []byte("a stream")
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: records mismatch (-want +got):\n%s", name, diff)
		}
		batch.Release()
	}
	alone, err := codec.Decode("some", records[:2])
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Release()
	if diff := cmp.Diff("(null)", alone.Column(0).ValueStr(0)); diff != "" || alone.ColumnName(0) != "user" {
		t.Errorf("tombstones alone have first column %q", alone.ColumnName(0))
	}
}

func TestBlobRefusesNoRecords(t *testing.T) {
	_, err := NewBlobCodec(memory.DefaultAllocator).Decode("in", nil)
	if err == nil || err.Error() != "decode called with an empty record batch" {
		t.Errorf("error %v", err)
	}
}

func TestBlobReportsEveryBadRecord(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	good := blob(t, userAmounts(mem, "a", 5))
	broken := blob(t, arrowtest.TwoColumns(mem, "some text"))
	// The second offset of the text column is the last such word after a zero word.
	at := strings.LastIndex(string(broken), "\x00\x00\x00\x00\x09\x00\x00\x00")
	broken[at+4] = 0xff
	_, err := NewBlobCodec(mem).Decode("in", []ConsumedRecord{
		{Value: good, Offset: 7}, {Value: []byte{1, 2, 3}, Offset: 8}, {Value: good, Offset: 9}, {Value: broken, Offset: 10}, {Value: []byte{}, Offset: 11},
	})
	var failed *DecodeError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a DecodeError", err)
	}
	var got []string
	for _, record := range failed.Records {
		got = append(got, fmt.Sprintf("%d %d %v", record.Index, record.Offset, record.Cause))
	}
	want := []string{
		"1 8 cannot decode Arrow record 1: cannot read Arrow IPC stream: truncated message",
		`3 10 cannot decode Arrow record 3: cannot read Arrow IPC stream: column "text": offsets are not ascending or outside the values`,
		"4 11 cannot decode Arrow record 4: cannot read Arrow IPC stream: truncated message",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failed records mismatch (-want +got):\n%s", diff)
	}
}

func TestBlobRefusesDifferentSchemas(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	base := arrow.Field{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	column := arrowtest.RandomArray(arrowtest.NewRand(t), mem, base.Type, 1)
	defer column.Release()
	value := func(field arrow.Field, metadata *arrow.Metadata) []byte {
		return blob(t, array.NewRecordBatch(arrow.NewSchema([]arrow.Field{field}, metadata), []arrow.Array{column}, 1))
	}
	named, required, tagged := base, base, base
	named.Name, required.Nullable, tagged.Metadata = "w", false, arrow.NewMetadata([]string{"k"}, []string{"v"})
	metadata := arrow.NewMetadata([]string{"k"}, []string{"v"})
	codec := NewBlobCodec(mem)
	for name, other := range map[string][]byte{"name": value(named, nil), "nullability": value(required, nil), "field metadata": value(tagged, nil)} {
		_, err := codec.Decode("in", []ConsumedRecord{{Value: value(base, nil)}, {}, {Value: other}})
		var mismatch *SchemaMismatchError
		if !errors.As(err, &mismatch) || mismatch.Index != 2 || !strings.Contains(err.Error(), "Arrow batch schemas differ") {
			t.Errorf("%s: error %v, want a SchemaMismatchError of record 2", name, err)
		}
	}
	batch, err := codec.Decode("in", []ConsumedRecord{{Value: value(base, nil)}, {Value: value(base, &metadata)}})
	if err != nil {
		t.Fatalf("schema metadata: %v", err)
	}
	batch.Release()
}

func TestBlobKeepsReservedNames(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	column := arrowtest.RandomArray(arrowtest.NewRand(t), mem, arrow.PrimitiveTypes.Int64, 2)
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "__key", Type: column.DataType(), Nullable: true}}, nil)
	codec := NewBlobCodec(mem)
	batch, err := codec.Decode("in", []ConsumedRecord{{Value: blob(t, array.NewRecordBatch(schema, []arrow.Array{column}, 2))}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if !batch.Schema().HasField(PayloadColumn("__key")) {
		t.Errorf("columns %v lack %q", fieldNames(batch.Schema()), PayloadColumn("__key"))
	}
	records, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if back := readBlob(t, mem, records[0].Value); !back.Schema().Equal(schema) {
		t.Errorf("schema %v, want %v", back.Schema(), schema)
	}
}

func TestBlobBatchesShareTheirSchemaObject(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewBlobCodec(mem)
	value := blob(t, userAmounts(mem, "a", 5))
	var first *arrow.Schema
	for i := range 3 {
		batch, err := codec.Decode("in", []ConsumedRecord{{Value: value, Offset: int64(i)}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = batch.Schema()
		}
		if batch.Schema() != first {
			t.Errorf("batch %d has a schema object of its own", i)
		}
		batch.Release()
	}
}

func TestBlobEncodesNoRows(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch := userAmounts(mem, "")
	defer batch.Release()
	records, err := NewBlobCodec(mem).Encode("out", batch)
	if err != nil || len(records) != 0 {
		t.Errorf("%d records and error %v, want none", len(records), err)
	}
}
