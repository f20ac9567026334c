// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const jsonOrder = `{"title":"Order","type":"object","properties":{
	"id":{"type":"string","minLength":1},"cents":{"type":"integer"},"open":{"type":["boolean","null"]},"tags":{"type":"array"}},
	"required":["id","cents"]}`

// jsonCache knows an order schema of its own and a looser one of a writer.
func jsonCache(t testing.TB) *schema.SchemaCache {
	t.Helper()
	cache := offlineCache(t)
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, jsonOrder)
	cache.SeedWriterSchema(8, `{"type":"object"}`)
	return cache
}

func jsonRecords(bodies ...string) []columnar.ConsumedRecord {
	records := make([]columnar.ConsumedRecord, len(bodies))
	for i, body := range bodies {
		records[i] = columnar.ConsumedRecord{Key: []byte("k"), Offset: int64(i)}
		if body != "" {
			records[i].Value = schema.Encode(7, []byte(body))
		}
	}
	return records
}

func TestJSONRecordsBecomeColumnsAndComeBack(t *testing.T) {
	codec, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), WithValidation())
	if err != nil {
		t.Fatal(err)
	}
	want := "id utf8 not null\ncents int64 not null\nopen bool\ntags utf8 krabka.json=true\n"
	if got := schemaText(codec.ArrowSchema()); got != want || codec.Schema() != codec.ArrowSchema() {
		t.Errorf("columns are\n%s", got)
	}
	records := jsonRecords(`{"id":"a","cents":7,"open":null,"tags":[1, {"x":2}]}`, "", `{"cents":9007199254740993,"id":"b","more":1}`)
	records[2].Value = schema.Encode(8, records[2].Value[5:])
	batch, err := codec.Decode("orders", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	for i, values := range []string{`["a" (null) "b"]`, "[7 (null) 9007199254740993]", "[(null) (null) (null)]"} {
		if got := batch.Column(i).String(); got != values {
			t.Errorf("column %d is %s, want %s", i, got, values)
		}
	}
	produced, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range produced {
		got = append(got, string(r.Value))
	}
	frame := "\x00\x00\x00\x00\x07"
	// Nulls are left out: the schema lets tags be missing, but not be null.
	kept := []string{frame + `{"id":"a","cents":7,"tags":[1, {"x":2}]}`, "", frame + `{"id":"b","cents":9007199254740993}`}
	if diff := cmp.Diff(kept, got); diff != "" || produced[1].Value != nil {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestJSONDocumentsThatBreakTheirSchemaAreRefusedOnDemand(t *testing.T) {
	bodies := []string{`{"id":"a","cents":1}`, `{"id":"","cents":2}`, `{"id":"c","cents":"3"}`, `{"id":"d","cents":4}`}
	for name, tc := range map[string]struct {
		options []CodecOption
		bad     []int
	}{
		"validated":     {[]CodecOption{WithValidation()}, []int{1, 2}},
		"not validated": {nil, []int{2}}, // whose column is a number
	} {
		strict, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), tc.options...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = strict.Decode("orders", jsonRecords(bodies...))
		var failed *columnar.DecodeError
		if !errors.As(err, &failed) {
			t.Fatalf("%s: bad documents give %v", name, err)
		}
		var bad, poison []int
		for _, record := range failed.Records {
			bad = append(bad, record.Index)
		}
		if diff := cmp.Diff(tc.bad, bad); diff != "" {
			t.Errorf("%s: bad records (-want +got):\n%s", name, diff)
		}
		if violation := new(schema.ValidationError); errors.As(err, &violation) != (name == "validated") {
			t.Errorf("%s: bad documents give %v", name, err)
		}
		lenient, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), append(tc.options,
			WithColumns("id"), WithPoisonHandler(func(e *columnar.RecordError) { poison = append(poison, e.Index) }))...)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := lenient.Decode("orders", jsonRecords(bodies...))
		if err != nil {
			t.Fatal(err)
		}
		// Without validation a member that has no column is not looked at.
		want := map[string]string{"validated": `["a" "d"]`, "not validated": `["a" "" "c" "d"]`}[name]
		if got := batch.Column(0).String(); got != want || (len(poison) == 2) != (name == "validated") {
			t.Errorf("%s: column id is %s, want %s, poison %v", name, got, want, poison)
		}
		batch.Release()
	}
}

func TestJSONRowsThatBreakTheSchemaAreNotWritten(t *testing.T) {
	codec, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), WithHeaderFraming())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := codec.Decode("orders", jsonRecords(`{"id":"a","cents":1}`, `{"id":"","cents":2}`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	produced, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	header := []columnar.RecordHeader{{Key: schema.ValueSchemaIDHeader, Value: []byte{0, 0, 0, 0, 7}}}
	if diff := cmp.Diff(columnar.ProduceRecord{Key: []byte("k"), Value: []byte(`{"id":"","cents":2}`), Headers: header}, produced[1]); diff != "" {
		t.Errorf("record with the schema in a header (-want +got):\n%s", diff)
	}
	again, err := codec.Decode("orders", []columnar.ConsumedRecord{{Value: produced[0].Value, Headers: produced[0].Headers}})
	if err != nil || again.Column(1).String() != "[1]" {
		t.Fatalf("a record with its schema in a header gives %v, %v", again, err)
	}
	again.Release()
	validating, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), WithValidation())
	if err != nil {
		t.Fatal(err)
	}
	_, err = validating.Encode("orders", batch)
	var row *columnar.RowError
	if violation := new(schema.ValidationError); !errors.As(err, &row) || row.Row != 1 || !errors.As(err, &violation) || violation.Violations[0].Pointer != "/id" {
		t.Errorf("a row that breaks the schema gives %v", err)
	}
}

// The schema of the writer is not needed where documents are not validated.
// Where documents are too many for one batch, the records that fit are counted as the
// caller's, tombstones that are left out among them.
func TestJSONBatchesThatAreTooLargeTellWhereToSplit(t *testing.T) {
	d := jsonBatch{topic: "orders", indexes: []int{0, 2, 5, 7}}
	tooLarge, ok := errors.AsType[*BatchTooLargeError](d.tooLarge(&BatchTooLargeError{Fits: 2}))
	if !ok || tooLarge.SplitAt() != 5 || tooLarge.Topic != "orders" || !strings.Contains(tooLarge.Error(), "a column exceeds") {
		t.Errorf("two of four documents: %v", tooLarge)
	}
	failed, ok := errors.AsType[*columnar.DecodeError](d.tooLarge(&BatchTooLargeError{}))
	if !ok || len(failed.Records) != 1 || failed.Records[0].Index != 0 || columnar.IsRetriable(failed) {
		t.Errorf("a document that does not fit alone: %v", failed)
	}
	if err := d.tooLarge(errTombstone); err != errTombstone {
		t.Errorf("another error: %v", err)
	}
}

func TestJSONRecordsOfUnknownSchemasAreRead(t *testing.T) {
	record := []columnar.ConsumedRecord{{Value: schema.Encode(99, []byte(`{"id":"a","cents":1}`))}}
	codec, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), WithoutMetadataColumns(), WithTombstones(TombstoneSkip))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := codec.Decode("orders", append(record, columnar.ConsumedRecord{}))
	if err != nil {
		t.Fatal(err)
	}
	if batch.NumRows() != 1 || batch.NumCols() != 4 {
		t.Errorf("batch is %v", batch)
	}
	batch.Release()
	empty, err := codec.Decode("orders", nil)
	if err != nil || empty.NumRows() != 0 || empty.NumCols() != 4 {
		t.Fatalf("no records give %v, %v", empty, err)
	}
	empty.Release()
	validating, err := NewJSONSchemaBatchCodec(jsonOrder, jsonCache(t), checkedTestAllocator(t), WithValidation())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := validating.Decode("orders", record); !strings.Contains(err.Error(), "99") {
		t.Errorf("a schema that is not there gives %v", err)
	}
}

func TestJSONSchemaCodecsThatCannotWorkAreRefused(t *testing.T) {
	for want, tc := range map[string]struct {
		text    string
		options []CodecOption
	}{
		"no properties":            {`{"type":"object"}`, nil},
		"invalid JSON Schema":      {`{"properties":{"a":{"type":"strange"}}}`, []CodecOption{WithValidation()}},
		"AsKey and WithKey":        {jsonOrder, []CodecOption{AsKey()}},
		"names \"total\"":          {jsonOrder, []CodecOption{WithColumns("total")}},
		"is an option of PROTOBUF": {jsonOrder, []CodecOption{WithUnknownFields()}},
	} {
		if _, err := NewJSONSchemaBatchCodec(tc.text, jsonCache(t), checkedTestAllocator(t), tc.options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
}

func TestNullsThatNobodyRequiresAreLeftOut(t *testing.T) {
	for object, want := range map[string]string{
		`{}`:                                     `{}`,
		`{"a":null}`:                             `{}`,
		`{"r":null,"a":null}`:                    `{"r":null}`,
		`{"a":null,"b":{"x":[null,"},"]},"c":1}`: `{"b":{"x":[null,"},"]},"c":1}`,
		`{"a\\\"b":"\"null","c":null,"d":"null"}`: `{"a\\\"b":"\"null","d":"null"}`,
		`{"\u0072":null}`:                         `{"\u0072":null}`,
	} {
		if got := string(appendPresent(nil, []byte(object), map[string]bool{"r": true})); got != want {
			t.Errorf("%s becomes %s, want %s", object, got, want)
		}
	}
}
