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
)

// textSerde reads and writes text in upper case. Values that begin with "!" are
// not valid, and those that begin with "?" not yet.
type textSerde struct{}

var errNotText = errors.New("not a text")

type laterError struct{ topic string }

func (e *laterError) Error() string   { return "not yet: " + e.topic }
func (e *laterError) Retriable() bool { return true }

func (textSerde) Serialize(topic string, value string) ([]byte, error) {
	if strings.HasPrefix(value, "!") {
		return nil, fmt.Errorf("%w for %s", errNotText, topic)
	}
	return []byte(strings.ToLower(value)), nil
}

func (textSerde) Deserialize(topic string, data []byte) (string, error) {
	switch {
	case strings.HasPrefix(string(data), "!"):
		return "", fmt.Errorf("%w in %s", errNotText, topic)
	case strings.HasPrefix(string(data), "?"):
		return "", &laterError{topic}
	}
	return strings.ToUpper(string(data)), nil
}

// textBridge makes one column of texts. It blames rows that begin with "#", and
// makes extra rows.
type textBridge struct{ extra int }

func (b textBridge) RowsToBatch(rows []string, mem memory.Allocator) (arrow.RecordBatch, error) {
	builder := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{{Name: "value", Type: arrow.BinaryTypes.String}}, nil))
	defer builder.Release()
	var errs []error
	for i, row := range rows {
		if strings.HasPrefix(row, "#") {
			errs = append(errs, &RowError{Row: i, Cause: errors.New("bad row " + row)})
		}
		if row == "FAIL" {
			return nil, errNotText
		}
		builder.Field(0).(*array.StringBuilder).Append(row)
	}
	for range b.extra {
		builder.Field(0).(*array.StringBuilder).Append("extra")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return builder.NewRecordBatch(), nil
}

func (b textBridge) BatchToRows(batch arrow.RecordBatch) ([]string, error) {
	rows := make([]string, 0, batch.NumRows()+int64(b.extra))
	for i := range int(batch.NumRows()) {
		rows = append(rows, strings.Clone(batch.Column(0).(*array.String).Value(i)))
	}
	for range b.extra {
		rows = append(rows, "extra")
	}
	return rows, nil
}

func values(texts ...string) []ConsumedRecord {
	records := make([]ConsumedRecord, len(texts))
	for i, text := range texts {
		records[i] = ConsumedRecord{Key: []byte{byte(i)}, Value: []byte(text), Timestamp: int64(i), Offset: int64(10 * i)}
	}
	return records
}

func TestRowCodecRoundTrips(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{}, mem)
	input := values("ada", "grace", "")
	input[1].Headers = []RecordHeader{{"h", []byte("v")}}
	input[2].Key = nil
	batch, err := codec.Decode("in", input)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	wantNames := []string{"value", "__key", "__timestamp", "__partition", "__offset", "__headers"}
	if diff := cmp.Diff(wantNames, fieldNames(batch.Schema())); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ADA", "GRACE", ""}, arrowtest.Texts(batch.Column(0))); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	got, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]ProduceRecord, len(input))
	for i, record := range input {
		want[i] = ProduceRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

func TestRowCodecTombstonesSurvive(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{}, mem)
	input := values("a", "b", "c", "d")
	input[0].Value, input[2].Value = nil, nil
	for name, records := range map[string][]ConsumedRecord{"some": input, "all": {input[0], input[2]}} {
		batch, err := codec.Decode("in", records)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if batch.NumRows() != int64(len(records)) || batch.Column(0).NullN() != 2 {
			t.Errorf("%s: %d rows with %d nulls", name, batch.NumRows(), batch.Column(0).NullN())
		}
		got, err := codec.Encode("out", batch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []ProduceRecord
		for _, record := range records {
			want = append(want, ProduceRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: records mismatch (-want +got):\n%s", name, diff)
		}
		batch.Release()
	}
}

func TestRowCodecReportsEveryBadRecord(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{}, mem)
	input := values("a", "!b", "#c", "d", "?e", "#f")
	input[3].Value = nil
	_, err := codec.Decode("in", input)
	var failed *DecodeError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a DecodeError", err)
	}
	var got []string
	for _, record := range failed.Records {
		got = append(got, fmt.Sprint(record.Index, " ", record.Offset, " ", record.Cause))
	}
	want := []string{"1 10 not a text in in", "2 20 bad row #C", "4 40 not yet: in", "5 50 bad row #F"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failed records mismatch (-want +got):\n%s", diff)
	}
	if !errors.Is(err, errNotText) || !IsRetriable(err) {
		t.Errorf("error %v hides the serde's errors", err)
	}
	var later *laterError
	if !errors.As(err, &later) || later.topic != "in" {
		t.Errorf("error %v hides the serde's error type", err)
	}
	if _, err := codec.Decode("in", values("!a")); IsRetriable(err) {
		t.Errorf("error %v is retriable", err)
	}
}

func TestRowCodecReturnsOtherBridgeErrorsAsTheyAre(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{}, mem)
	if _, err := codec.Decode("in", values("a", "fail")); err != errNotText {
		t.Errorf("error %v, want %v itself", err, errNotText)
	}
}

func TestRowCodecWrapsSerializeErrors(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{}, mem)
	payload, err := textBridge{}.RowsToBatch([]string{"a", "!b"}, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer payload.Release()
	_, err = codec.Encode("out", payload)
	var row *RowError
	if !errors.Is(err, errNotText) || !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("error %v, want the serde's for row 1", err)
	}
}

func TestRowCodecChecksTheBridgesRows(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec := NewRowCodec(textSerde{}, textBridge{extra: 1}, mem)
	if _, err := codec.Decode("in", values("a")); err == nil || !strings.Contains(err.Error(), "payload and metadata row counts differ") {
		t.Errorf("Decode: error %v", err)
	}
	payload := arrowtest.TwoColumns(mem, "a")
	defer payload.Release()
	if _, err := codec.Encode("out", payload); err == nil || err.Error() != "columnar: the bridge made 2 rows of a batch of 1" {
		t.Errorf("Encode: error %v", err)
	}
}

func TestRowCodecDecodesNoRecords(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	batch, err := NewRowCodec(textSerde{}, textBridge{}, mem).Decode("in", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if batch.NumRows() != 0 || batch.NumCols() != 6 {
		t.Errorf("%d rows and %d columns, want 0 and 6", batch.NumRows(), batch.NumCols())
	}
}
