// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func TestGzipRoundTrips(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	raw := NewRowCodec(textSerde{}, textBridge{}, mem)
	codec := NewGzipBatchCodec(raw)
	records := []ConsumedRecord{
		{Key: []byte("k"), Value: []byte("hello"), Timestamp: 7, Headers: []RecordHeader{{"trace-id", []byte("abc")}}},
		{Key: []byte("gone"), Timestamp: 8},
		{Value: []byte{}, Timestamp: 9},
		{Value: []byte(strings.Repeat("long ", 1000)), Timestamp: 10},
	}
	batch, err := raw.Decode("in", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	compressed, err := codec.Encode("out", batch)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(compressed[3].Value); size > 500 || compressed[1].Value != nil || compressed[2].Value == nil {
		t.Errorf("compressed values have %d bytes, %v and %v", size, compressed[1].Value, compressed[2].Value)
	}
	var again []ConsumedRecord
	var want []ProduceRecord
	for i, record := range compressed {
		again = append(again, ConsumedRecord{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp, Headers: record.Headers})
		want = append(want, ProduceRecord{Key: records[i].Key, Value: records[i].Value, Timestamp: records[i].Timestamp, Headers: records[i].Headers})
	}
	back, err := codec.Decode("in", again)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Release()
	got, err := raw.Encode("out", back)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records mismatch (-want +got):\n%s", diff)
	}
}

// gzipped returns values compressed one by one.
func gzipped(t testing.TB, texts ...string) [][]byte {
	t.Helper()
	mem := memory.DefaultAllocator
	payload, err := textBridge{}.RowsToBatch(texts, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer payload.Release()
	records, err := NewGzipBatchCodec(NewRowCodec(textSerde{}, textBridge{}, mem)).Encode("out", payload)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]byte, len(records))
	for i, record := range records {
		out[i] = record.Value
	}
	return out
}

func TestGzipReportsEveryBadRecord(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	codec, err := NewGzipBatchCodecWithMaxBytes(NewRowCodec(textSerde{}, textBridge{}, mem), 4)
	if err != nil {
		t.Fatal(err)
	}
	data := gzipped(t, "abcd", "abcde", "ab", "cd", "?x")
	two := append(append([]byte{}, data[2]...), data[3]...)
	_, err = codec.Decode("in", []ConsumedRecord{
		{Value: data[0]}, {Value: data[1], Offset: 1}, {Value: []byte("no gzip"), Offset: 2}, {Value: data[2][:20], Offset: 3}, {Value: data[4], Offset: 4}, {Value: two, Offset: 5},
	})
	var failed *DecodeError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a DecodeError", err)
	}
	var got []string
	for _, record := range failed.Records {
		got = append(got, fmt.Sprint(record.Index, " ", record.Offset, " ", record.Cause))
	}
	want := []string{
		"1 1 GZIP record exceeds maxUncompressedBytes=4",
		"2 2 cannot decompress GZIP record: unexpected EOF",
		"3 3 cannot decompress GZIP record: unexpected EOF",
		"4 4 not yet: in",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failed records mismatch (-want +got):\n%s", diff)
	}
	batch, err := codec.Decode("in", []ConsumedRecord{{Value: data[0]}, {Value: two}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if diff := cmp.Diff([]string{"ABCD", "ABCD"}, arrowtest.Texts(batch.Column(0))); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestGzipLimits(t *testing.T) {
	codec := NewRowCodec(textSerde{}, textBridge{}, memory.DefaultAllocator)
	want := fmt.Sprintf("maxUncompressedBytes must be between 1 and %d", math.MaxInt-1)
	for _, limit := range []int{0, -1, math.MaxInt} {
		if _, err := NewGzipBatchCodecWithMaxBytes(codec, limit); err == nil || err.Error() != want {
			t.Errorf("limit %d: error %v", limit, err)
		}
	}
	large, err := NewGzipBatchCodecWithMaxBytes(codec, math.MaxInt-1)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := large.Decode("in", []ConsumedRecord{{Value: gzipped(t, "abc")[0]}})
	if err != nil {
		t.Fatal(err)
	}
	batch.Release()
	if _, err := NewGzipBatchCodec(nil).Decode("in", nil); !errors.Is(err, errCodecNil) {
		t.Errorf("no delegate: error %v", err)
	}
}

// misnumbering fails with record numbers that no record has.
type misnumbering struct{ BatchCodec }

var errMisnumbered = errors.New("misnumbered")

func (misnumbering) Decode(string, []ConsumedRecord) (arrow.RecordBatch, error) {
	return nil, &DecodeError{Records: []*RecordError{{Index: 7, Cause: errMisnumbered}, {Index: -1, Cause: errMisnumbered}}}
}

func TestGzipOverACodecThatMisnumbersRecords(t *testing.T) {
	codec := NewGzipBatchCodec(misnumbering{})
	_, err := codec.Decode("in", []ConsumedRecord{{Value: []byte("no gzip"), Offset: 4}, {Value: gzipped(t, "abcd")[0], Offset: 5}})
	var failed *DecodeError
	if !errors.As(err, &failed) || len(failed.Records) != 1 || failed.Records[0].Offset != 4 || !errors.Is(err, errMisnumbered) {
		t.Errorf("error = %v; want one of the record at offset 4, and the codec's", err)
	}
}

func TestDecodeErrorWithoutRecords(t *testing.T) {
	err := error(&DecodeError{})
	if got, want := err.Error(), "columnar: records could not be decoded"; got != want || IsRetriable(err) {
		t.Errorf("error = %q, retriable %v; want %q, false", got, IsRetriable(err), want)
	}
}
