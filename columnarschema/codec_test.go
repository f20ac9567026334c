// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// pairFormat is a format of a number and as many copies of a text: a byte with
// the number, and the text. It refuses the number 13 after it has appended
// everything.
type pairFormat struct{ spec *columnset.Spec }

var (
	errThirteen = errors.New("thirteen")

	pairSchema = arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "texts", Type: arrow.ListOfField(arrow.Field{Name: "item", Type: arrow.BinaryTypes.String})},
	}, nil)
)

func (f *pairFormat) columns() *columnset.Spec { return f.spec }

func (f *pairFormat) dictionaries() bool { return false }

func (f *pairFormat) newScratch() any { return nil }

func (f *pairFormat) compileDecoder(schema.ResolvedSchema) (decodePlan, error) { return f, nil }

func (f *pairFormat) compileEncoder(schema.ResolvedSchema) (encodePlan, []int, error) {
	return f, nil, nil
}

func (f *pairFormat) decode(set *columnset.Set, _, body []byte) error {
	set.Top()[0].Append8(uint64(body[0]))
	for range body[0] {
		set.Top()[1].Children()[0].AppendBytes(body[1:])
	}
	set.Top()[1].EndList()
	if body[0] == 13 {
		return errThirteen
	}
	return nil
}

func (f *pairFormat) bind(batch arrow.RecordBatch) (rowEncoder, error) {
	return &pairEncoder{batch.Column(0).(*array.Int64), batch.Column(1).(*array.List)}, nil
}

type pairEncoder struct {
	n     *array.Int64
	texts *array.List
}

func (e *pairEncoder) appendRow(dst []byte, row int) ([]byte, error) {
	dst = append(dst, byte(e.n.Value(row)))
	if from, to := e.texts.ValueOffsets(row); from < to {
		dst = append(dst, e.texts.ListValues().(*array.String).Value(int(from))...)
	}
	return dst, nil
}

func newPairCodec(t *testing.T, cache *schema.SchemaCache, mem memory.Allocator, options ...CodecOption) *recordCodec {
	t.Helper()
	o, err := codecOptionsFor(schema.KindAvro, options)
	if err != nil {
		t.Fatal(err)
	}
	f := &pairFormat{columnset.NewSpec(pairSchema, nil)}
	c, err := newRecordCodec(f, schema.FramerSpec{Kind: schema.KindAvro, Schema: `"bytes"`}, cache, mem, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkedTestAllocator fails the test if memory is left at its end.
func checkedTestAllocator(t testing.TB) *memory.CheckedAllocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// offlineCache is a cache that reaches no registry.
func offlineCache(t testing.TB) *schema.SchemaCache {
	t.Helper()
	client, err := schema.NewRegistryClient("http://127.0.0.1:1", schema.WithMaxRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	cache := schema.NewSchemaCache(client)
	t.Cleanup(func() { cache.Close() })
	return cache
}

// pairRecords returns records with the given numbers and texts, or tombstones
// for the number 0.
func pairRecords(id int, numbers ...byte) []columnar.ConsumedRecord {
	records := make([]columnar.ConsumedRecord, len(numbers))
	for i, n := range numbers {
		records[i] = columnar.ConsumedRecord{Partition: 3, Offset: int64(100 + i), Timestamp: 42}
		if n > 0 {
			records[i].Value = schema.Encode(id, []byte{n, 'a' + n})
		}
	}
	return records
}

func TestRecordThatFailsLeavesNoTrace(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, `"bytes"`)
	cache.SeedSubjectID("orders-value", 7)
	var poisoned []int64
	codec := newPairCodec(t, cache, mem, WithPoisonHandler(func(e *columnar.RecordError) {
		if !errors.Is(e, errThirteen) {
			t.Errorf("poison handler got %v", e)
		}
		poisoned = append(poisoned, e.Offset)
	}))
	batch, err := codec.Decode("orders", pairRecords(7, 2, 13, 1, 13, 0, 3, 13))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if diff := cmp.Diff([]int64{101, 103, 106}, poisoned); diff != "" {
		t.Errorf("offsets that the handler got (-want +got):\n%s", diff)
	}
	plain, err := codec.Decode("orders", pairRecords(7, 2, 1, 0, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Release()
	for i := range 2 {
		if !array.Equal(plain.Column(i), batch.Column(i)) {
			t.Errorf("column %d is %v, without the failing records %v", i, batch.Column(i), plain.Column(i))
		}
	}
	if got := batch.Column(5).(*array.Int64).Int64Values(); !cmp.Equal(got, []int64{100, 102, 104, 105}) {
		t.Errorf("offsets of the rows are %v", got)
	}
	records, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []byte
	for _, r := range records {
		if r.Value == nil {
			numbers = append(numbers, 0)
			continue
		}
		if id := binary.BigEndian.Uint32(r.Value[1:]); id != 7 {
			t.Errorf("record is written under id %d", id)
		}
		numbers = append(numbers, r.Value[5])
	}
	if diff := cmp.Diff([]byte{2, 1, 0, 3}, numbers); diff != "" {
		t.Errorf("records of the batch (-want +got):\n%s", diff)
	}
}

func TestFailingRecordsAreNamedOnDefault(t *testing.T) {
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, `"bytes"`)
	codec := newPairCodec(t, cache, checkedTestAllocator(t), WithTombstones(TombstoneReject))
	_, err := codec.Decode("orders", pairRecords(7, 2, 13, 0, 1))
	decode, ok := errors.AsType[*columnar.DecodeError](err)
	if !ok {
		t.Fatalf("Decode returned %v", err)
	}
	var failed []int
	for _, r := range decode.Records {
		failed = append(failed, r.Index)
	}
	if diff := cmp.Diff([]int{1, 2}, failed); diff != "" {
		t.Errorf("failing records (-want +got):\n%s", diff)
	}
	if columnar.IsRetriable(err) {
		t.Errorf("%v is retriable", err)
	}
}

func TestPendingSchemasAreAllRequestedAndTheRoundComesAgain(t *testing.T) {
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, `"bytes"`)
	codec := newPairCodec(t, cache, checkedTestAllocator(t), WithPoisonHandler(func(e *columnar.RecordError) {
		t.Errorf("the handler got %v", e)
	}))
	records := append(pairRecords(7, 13, 1), append(pairRecords(98, 1), pairRecords(99, 1)...)...)
	_, err := codec.Decode("orders", records)
	if !columnar.IsRetriable(err) {
		t.Fatalf("Decode returned %v, which is not retriable", err)
	}
	decode, _ := errors.AsType[*columnar.DecodeError](err)
	var pending []int
	for _, r := range decode.Records {
		fetch, ok := errors.AsType[*schema.FetchPendingError](r)
		if !ok {
			t.Fatalf("record %d failed with %v", r.Index, r)
		}
		pending = append(pending, fetch.SchemaID)
	}
	if diff := cmp.Diff([]int{98, 99}, pending); diff != "" {
		t.Errorf("ids of the schemas that are fetched (-want +got):\n%s", diff)
	}
}
