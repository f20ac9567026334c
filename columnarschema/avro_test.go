// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const (
	scalarsSchema = `{"type":"record","name":"Scalars","fields":[
		{"name":"text","type":"string"},{"name":"flag","type":"boolean"},{"name":"small","type":"int"},
		{"name":"large","type":"long"},{"name":"single","type":"float"},{"name":"double","type":"double"},
		{"name":"blob","type":"bytes"},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
		{"name":"day","type":{"type":"int","logicalType":"date"}},
		{"name":"clock","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"local_at","type":{"type":"long","logicalType":"local-timestamp-micros"}},
		{"name":"maybe","type":["null","string"],"default":null}]}`
	nestedSchema = `{"type":"record","name":"Nested","fields":[
		{"name":"child","type":{"type":"record","name":"Child","fields":[{"name":"name","type":"string"},{"name":"n","type":["null","int"]}]}},
		{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"labels","type":{"type":"map","values":"long"}},
		{"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","BLUE"]}},
		{"name":"checksum","type":{"type":"fixed","name":"Checksum","size":4}},
		{"name":"either","type":["string","int"]}]}`
	readerSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"amount","type":"long"}]}`
)

// avroFrame returns a body in the frame of a schema id.
func avroFrame(id int, body ...byte) []byte { return schema.Encode(id, body) }

func newTestBridge(t *testing.T, text string) *AvroRowBridge {
	t.Helper()
	parsed, err := ParseAvroSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := NewAvroRowBridge(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return bridge
}

var compareRats = cmp.Comparer(func(a, b *big.Rat) bool { return a == nil && b == nil || a != nil && b != nil && a.Cmp(b) == 0 })

// roundTripRows converts rows to columns and back, and returns the columns.
func roundTripRows(t *testing.T, bridge *AvroRowBridge, rows []any) arrow.RecordBatch {
	t.Helper()
	batch, err := bridge.RowsToBatch(rows, checkedTestAllocator(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(batch.Release)
	back, err := bridge.BatchToRows(batch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, back, compareRats); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	return batch
}

func TestRowsOfScalarsComeBack(t *testing.T) {
	row := map[string]any{
		"text": "hello", "flag": true, "small": 7, "large": int64(1) << 40, "single": float32(1.5), "double": 2.25,
		"blob": []byte{1, 2}, "price": big.NewRat(1234, 100),
		"day":      time.Unix(19000*86400, 0).UTC(),
		"clock":    3600123 * time.Millisecond,
		"at":       time.UnixMilli(1700000000123).UTC(),
		"local_at": time.UnixMicro(1700000000123456).UTC(),
		"maybe":    nil,
	}
	batch := roundTripRows(t, newTestBridge(t, scalarsSchema), []any{row})
	price := batch.Schema().Field(7)
	if _, ok := price.Type.(*arrow.Decimal128Type); !ok || price.Nullable {
		t.Errorf("price is %v", price)
	}
	if got := batch.Column(8).String() + batch.Column(10).String(); got != "[2022-01-08][2023-11-14 22:13:20.123 +0000 UTC]" && !strings.Contains(got, "2022-01-08") {
		t.Errorf("day and at are %s", got)
	}
}

func TestRowsOfNestedTypesComeBack(t *testing.T) {
	batch := roundTripRows(t, newTestBridge(t, nestedSchema), []any{
		map[string]any{
			"child": map[string]any{"name": "n", "n": 42}, "tags": []any{"x", "y"}, "labels": map[string]any{"k": int64(7)},
			"color": "BLUE", "checksum": [4]byte{1, 2, 3, 4}, "either": "words",
		},
		map[string]any{
			"child": map[string]any{"name": "m", "n": nil}, "tags": []any{}, "labels": map[string]any{},
			"color": "RED", "checksum": [4]byte{5, 6, 7, 8}, "either": 42,
		},
	})
	either := batch.Column(5).(*array.Struct)
	if got := either.String(); got != `{["words" (null)] [(null) 42]}` {
		t.Errorf("union is %s", got)
	}
	var names []string
	for _, f := range batch.Schema().Fields() {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"child", "tags", "labels", "color", "checksum", "either"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

func TestRecursiveRowsComeBackThroughJSON(t *testing.T) {
	bridge := newTestBridge(t, `{"type":"record","name":"Node","fields":[
		{"name":"label","type":"string"},{"name":"next","type":["null","Node"]}]}`)
	batch := roundTripRows(t, bridge, []any{
		map[string]any{"label": "a", "next": map[string]any{"label": "b", "next": map[string]any{"label": "c\n\u00e9", "next": nil}}},
		map[string]any{"label": "z", "next": nil},
	})
	want := "[\"{\\\"label\\\":\\\"b\\\",\\\"next\\\":{\\\"Node\\\":{\\\"label\\\":\\\"c\\\\n\u00e9\\\",\\\"next\\\":null}}}\" (null)]"
	if got := batch.Column(1).String(); got != want {
		t.Errorf("column is %s, want %s", got, want)
	}
}

func TestNoRowsAreABatchOfAllColumns(t *testing.T) {
	batch := roundTripRows(t, newTestBridge(t, scalarsSchema), []any{})
	if batch.NumCols() != 13 || batch.NumRows() != 0 {
		t.Errorf("batch is %v", batch)
	}
	bridge := newTestBridge(t, scalarsSchema)
	for row, want := range map[any]string{5: "int", nil: "map[string]any"} {
		if _, err := bridge.RowsToBatch([]any{row}, checkedTestAllocator(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("row %v gives %v", row, err)
		}
	}
	_, err := bridge.RowsToBatch([]any{map[string]any{}}, checkedTestAllocator(t))
	if blamed, ok := errors.AsType[*columnar.RowError](err); !ok || blamed.Row != 0 || !strings.Contains(err.Error(), "text") {
		t.Errorf("an empty row gives %v", err)
	}
}

func TestTopLevelIsARecord(t *testing.T) {
	parsed, err := ParseAvroSchema(`"string"`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewAvroRowBridge(parsed); err == nil || !strings.Contains(err.Error(), "record") {
		t.Errorf("bridge of a string: %v", err)
	}
	if _, err := NewAvroBatchCodec(`"string"`, offlineCache(t), checkedTestAllocator(t)); err == nil || !strings.Contains(err.Error(), "record") {
		t.Errorf("codec of a string: %v", err)
	}
	if _, err := ParseAvroSchema("{"); err == nil || !strings.HasPrefix(err.Error(), "invalid Avro schema: ") {
		t.Errorf("text that is no schema: %v", err)
	}
	columns, err := AvroArrowSchema(parsed)
	if err != nil || columns.NumFields() != 1 || columns.Field(0).Name != "value" {
		t.Errorf("columns of a string: %v, %v", columns, err)
	}
}

func newOrdersCodec(t *testing.T, options ...CodecOption) (*AvroBatchCodec, *schema.SchemaCache) {
	t.Helper()
	cache := offlineCache(t)
	cache.SeedSubjectID("orders-value", 11)
	cache.SeedWriterSchema(11, readerSchema)
	cache.SeedWriterSchema(21, `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"note","type":["null","string"]},{"name":"amount","type":"int"}]}`)
	codec, err := NewAvroBatchCodec(readerSchema, cache, checkedTestAllocator(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	return codec, cache
}

func TestAvroRecordsBecomeColumnsAndComeBack(t *testing.T) {
	codec, _ := newOrdersCodec(t)
	frame := avroFrame(11, 6, 'o', '-', '1', 14)
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{
		columnar.NewConsumedRecord([]byte("k"), frame, 42, 3, 100),
		columnar.NewConsumedRecord(nil, avroFrame(21, 6, 'o', '-', '2', 2, 4, 'h', 'i', 16), 43, 3, 101),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	want := map[string]string{
		"id": `["o-1" "o-2"]`, "amount": "[7 8]", columnar.KeyColumn: `["k" (null)]`, columnar.TimestampColumn: "[42 43]",
		columnar.PartitionColumn: "[3 3]", columnar.OffsetColumn: "[100 101]",
	}
	for name, values := range want {
		if got := batch.Column(batch.Schema().FieldIndices(name)[0]).String(); got != values {
			t.Errorf("column %s is %s, want %s", name, got, values)
		}
	}
	if codec.ArrowSchema().NumFields() != 2 {
		t.Errorf("schema of the codec is %v", codec.ArrowSchema())
	}
	again, err := codec.Decode("orders", []columnar.ConsumedRecord{{Value: frame}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if again.Schema() != batch.Schema() {
		t.Error("two batches have two schema objects")
	}
	records, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	wantRecords := []columnar.ProduceRecord{
		{Key: []byte("k"), Value: frame, Timestamp: 42},
		{Value: avroFrame(11, 6, 'o', '-', '2', 16), Timestamp: 43},
	}
	if diff := cmp.Diff(wantRecords, records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestUnknownWriterIsFetchedAndUnresolvedSubjectIsNamed(t *testing.T) {
	codec, _ := newOrdersCodec(t)
	_, err := codec.Decode("orders", []columnar.ConsumedRecord{{Value: avroFrame(99, 0)}})
	if _, ok := errors.AsType[*schema.FetchPendingError](err); !ok || !columnar.IsRetriable(err) {
		t.Errorf("unknown id gives %v", err)
	}
	batch, err := codec.Decode("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if batch.NumRows() != 0 || batch.NumCols() != 7 {
		t.Errorf("no records are %v", batch)
	}
	_, err = codec.Encode("payments", batch)
	if _, ok := errors.AsType[*schema.UnresolvedSubjectError](err); !ok || !strings.Contains(err.Error(), "RegisterSubject") {
		t.Errorf("topic without an id gives %v", err)
	}
}

func TestMalformedRecordsAreNamedWithPlaceAndSchema(t *testing.T) {
	codec, _ := newOrdersCodec(t)
	for name, tc := range map[string]struct {
		value []byte
		want  string
	}{
		"empty":           {[]byte{}, "frame"},
		"other magic":     {[]byte{9, 0, 0, 0, 11, 0}, "magic"},
		"truncated":       {avroFrame(11, 6, 'o', '-', '1'), "field amount at byte 4"},
		"trailing":        {avroFrame(11, 6, 'o', '-', '1', 14, 0), "1 bytes follow"},
		"invalid UTF-8":   {avroFrame(11, 2, 0xff, 14), "field id"},
		"negative length": {avroFrame(11, 1, 14), "negative"},
		"long number":     {avroFrame(11, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "exceeds 64 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			good := columnar.ConsumedRecord{Value: avroFrame(11, 0, 2)}
			_, err := codec.Decode("orders", []columnar.ConsumedRecord{good, {Value: tc.value, Partition: 2, Offset: 55}, good})
			decode, ok := errors.AsType[*columnar.DecodeError](err)
			if !ok || len(decode.Records) != 1 || decode.Records[0].Index != 1 || decode.Records[0].Offset != 55 {
				t.Fatalf("Decode returned %v", err)
			}
			if !strings.Contains(err.Error(), tc.want) || columnar.IsRetriable(err) {
				t.Errorf("error is %v, want one that says %q", err, tc.want)
			}
		})
	}
}
