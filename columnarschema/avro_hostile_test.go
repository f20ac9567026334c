// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/columnset"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// sampleSchema has every kind of column.
const sampleSchema = `{"type":"record","name":"Sample","fields":[
	{"name":"id","type":"string"},{"name":"n","type":["null","long"]},{"name":"flag","type":"boolean"},
	{"name":"tags","type":{"type":"array","items":["null","string"]}},
	{"name":"counts","type":{"type":"map","values":"int"}},
	{"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","BLUE"]}},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":6,"scale":2}},
	{"name":"wide","type":{"type":"fixed","name":"Wide","size":20,"logicalType":"decimal","precision":45}},
	{"name":"sum","type":{"type":"fixed","name":"Sum","size":4}},
	{"name":"either","type":["int","string",{"type":"record","name":"Box","fields":[{"name":"v","type":["null","double"]}]}]},
	{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[{"name":"sku","type":"string"},{"name":"more","type":["null","Line"]}]}}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}}]}`

func sampleBody(t testing.TB, seed uint64) (*avroplan.Schema, []byte) {
	t.Helper()
	s, err := avroplan.Parse(sampleSchema)
	if err != nil {
		t.Fatal(err)
	}
	r := &randomAvro{Rand: rand.New(rand.NewPCG(seed, 3))}
	for {
		// A line can hold a line, so that a datum can be long.
		if body := r.datum(nil, s); len(body) > 60 && len(body) < 300 {
			return s, body
		}
	}
}

// sampleSet reads bodies of the sample schema into columns.
type sampleSet struct {
	set  *columnset.Set
	plan *avroDecodePlan
}

func newSampleSet(t testing.TB, s *avroplan.Schema, mem memory.Allocator) *sampleSet {
	t.Helper()
	f, err := newAvroFormat(s, new(codecOptions))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := compileAvro(s, s, f.spec)
	if err != nil {
		t.Fatal(err)
	}
	set := columnset.New(f.spec, mem)
	set.Scratch = f.newScratch()
	set.Begin(mem, 4, 0)
	return &sampleSet{set, plan}
}

// read makes a body a row, or leaves no trace of it.
func (s *sampleSet) read(body []byte) error {
	if err := s.plan.decode(s.set, nil, body); err != nil {
		s.set.Rollback()
		return err
	}
	s.set.Commit()
	return nil
}

// expectRows compares all columns with those of bodies that are read alone.
func (s *sampleSet) expectRows(t *testing.T, schema *avroplan.Schema, mem memory.Allocator, bodies [][]byte) {
	t.Helper()
	want, err := decodeBodies(mem, schema, schema, bodies)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Release()
	for i, column := range s.set.Finish() {
		if !array.Equal(want.Column(i), column) {
			t.Errorf("column %d is %v, want %v", i, column, want.Column(i))
		}
		column.Release()
	}
}

func TestEveryTruncationIsAnErrorWithoutTrace(t *testing.T) {
	for seed := range uint64(5) {
		mem := checkedTestAllocator(t)
		s, body := sampleBody(t, seed)
		set := newSampleSet(t, s, mem)
		if err := set.read(body); err != nil {
			t.Fatal(err)
		}
		for n := range body {
			if err := set.read(body[:n]); err == nil {
				t.Errorf("seed %d: %d of %d bytes are a record", seed, n, len(body))
			}
		}
		if err := set.read(append(body[:len(body):len(body)], 0)); err == nil {
			t.Errorf("seed %d: a record with a byte more is read", seed)
		}
		if err := set.read(body); err != nil {
			t.Fatal(err)
		}
		set.expectRows(t, s, mem, [][]byte{body, body})
	}
}

func TestEveryMutationIsARowOrAnErrorWithoutTrace(t *testing.T) {
	mem := checkedTestAllocator(t)
	s, body := sampleBody(t, 1)
	set := newSampleSet(t, s, mem)
	var kept [][]byte
	for at := range body {
		for _, b := range []byte{0, 1, 2, 0x7f, 0x80, 0xff, body[at] + 1, body[at] ^ 0x10} {
			mutated := bytes.Clone(body)
			mutated[at] = b
			if set.read(mutated) == nil {
				kept = append(kept, mutated)
			}
		}
	}
	if len(kept) < len(body) {
		t.Fatalf("only %d mutations are records", len(kept))
	}
	set.expectRows(t, s, mem, kept)
}

func TestCountsDoNotAllocateBeforeTheirItems(t *testing.T) {
	s, err := avroplan.Parse(`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"long"}},{"name":"b","type":"bytes"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	set := newSampleSet(t, s, memory.DefaultAllocator)
	defer set.set.Discard()
	var before, after runtime.MemStats
	huge := avroplan.AppendLong(nil, 1<<40)
	runtime.ReadMemStats(&before)
	for _, body := range [][]byte{huge, append(avroplan.AppendLong(nil, -(1<<40)), 2), append([]byte{0}, huge...), append([]byte{0}, avroplan.AppendLong(nil, 1<<31)...)} {
		if err := set.read(body); err == nil {
			t.Errorf("%x is a record", body)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("four short records took %d bytes", got)
	}
}

func TestNestingIsBounded(t *testing.T) {
	s, err := avroplan.Parse(`{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	mem := checkedTestAllocator(t)
	set := newSampleSet(t, s, mem)
	defer set.set.Discard()
	deep := append(bytes.Repeat([]byte{2}, 100_000), 0)
	if err := set.read(deep); err == nil || !strings.Contains(err.Error(), "nesting exceeds") {
		t.Errorf("100 000 levels give %v", err)
	}
	if err := set.read(append(bytes.Repeat([]byte{2}, 5000), 0)); err != nil {
		t.Errorf("5 000 levels give %v", err)
	}
}

func TestColumnsBeyondTheirLimitSplitTheBatch(t *testing.T) {
	codec, _ := newOrdersCodec(t, WithPoisonHandler(func(e *columnar.RecordError) { t.Errorf("handler got %v", e) }))
	codec.value.limit = 100
	records := make([]columnar.ConsumedRecord, 20)
	for i := range records {
		records[i].Value = avroFrame(11, append(avroplan.AppendString(nil, strings.Repeat("x", 9)), 2)...)
	}
	_, err := codec.Decode("orders", records)
	tooLarge, ok := err.(*BatchTooLargeError)
	if !ok || tooLarge.Column != "id" || tooLarge.Fits < 5 || tooLarge.Fits > 14 {
		t.Fatalf("Decode returned %v", err)
	}
	if !columnar.IsRetriable(err) {
		t.Errorf("%v is not retriable, so that an error policy would drop records", err)
	}
	batch, err := codec.Decode("orders", records[:tooLarge.Fits])
	if err != nil {
		t.Fatal(err)
	}
	batch.Release()

	alone, _ := newOrdersCodec(t)
	alone.value.limit = 100
	records[0].Value = avroFrame(11, append(avroplan.AppendString(nil, strings.Repeat("x", 200)), 2)...)
	_, err = alone.Decode("orders", records)
	decode, ok := errors.AsType[*columnar.DecodeError](err)
	if !ok || len(decode.Records) != 1 || decode.Records[0].Index != 0 || columnar.IsRetriable(err) {
		t.Errorf("a record that does not fit alone gives %v", err)
	}
}

// A topology decodes what is too large for one batch in several, also where records
// in the middle are bad: each record comes out once, and each bad one is named.
func TestTopologiesSplitBatchesThatAreTooLarge(t *testing.T) {
	for limit := 60; limit < 160; limit += 10 {
		codec, _ := newOrdersCodec(t)
		codec.value.limit = limit
		records := make([]columnar.ConsumedRecord, 50)
		var want []string
		for i := range records {
			id := fmt.Sprintf("order-%03d", i)
			records[i] = columnar.ConsumedRecord{Offset: int64(i), Value: avroFrame(11, append(avroplan.AppendString(nil, id), 2)...)}
			want = append(want, fmt.Sprintf(`{"id":%q,"amount":1}`, id))
		}
		topology, err := stream.New(stream.WithAllocator(codec.mem)).From(stream.Using(codec), "orders").To("out", stream.JSON()).Topology()
		if err != nil {
			t.Fatal(err)
		}
		built, err := topology.Build()
		if err != nil {
			t.Fatal(err)
		}
		out, err := built.RunBatch("orders", records)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, record := range out {
			got = append(got, string(record.Record.Value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
		for _, i := range []int{3, 40} {
			records[i].Value = records[i].Value[:8]
			_, err = built.RunBatch("orders", records)
			failed, ok := errors.AsType[*columnar.DecodeError](err)
			if !ok || len(failed.Records) != 1 || failed.Records[0].Index != i || failed.Records[0].Offset != int64(i) {
				t.Errorf("limit %d: the bad record %d gives %v", limit, i, err)
			}
			records[i].Value = records[i+1].Value
		}
	}
}

func FuzzAvroBodies(f *testing.F) {
	s, body := sampleBody(f, 1)
	f.Add(body)
	_, body = sampleBody(f, 2)
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := decodeBodies(memory.DefaultAllocator, s, s, [][]byte{body})
		if err != nil {
			return
		}
		defer batch.Release()
		encoder, err := (&avroEncodePlan{schema: s}).bind(batch)
		if err != nil {
			t.Fatal(err)
		}
		again, err := encoder.appendRow(nil, 0)
		if err != nil {
			t.Fatalf("%x is read, but not written: %v", body, err)
		}
		second, err := decodeBodies(memory.DefaultAllocator, s, s, [][]byte{again})
		if err != nil {
			t.Fatalf("%x is written as %x, which is not read: %v", body, again, err)
		}
		defer second.Release()
		// NaN differs from itself, and text compares it by its bits.
		if !array.RecordEqual(batch, second) && batch.Column(9).String() != second.Column(9).String() {
			t.Errorf("%x is written as %x, which is %v instead of %v", body, again, second, batch)
		}
	})
}

func FuzzAvroWriters(f *testing.F) {
	f.Add(readerSchema, []byte{6, 'o', '-', '1', 14})
	f.Add(nestedSchema, []byte{2, 'n', 0, 0, 0, 0, 1, 2, 3, 4, 0, 0})
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		cache := schema.NewSchemaCache(nil)
		defer cache.Close()
		cache.SeedWriterSchema(1, text)
		codec, err := NewAvroBatchCodec(readerSchema, cache, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		records := []columnar.ConsumedRecord{{Value: schema.Encode(1, body)}}
		if batch, err := codec.Decode("t", records); err == nil {
			if batch.NumRows() != 1 {
				t.Errorf("one record became %d rows", batch.NumRows())
			}
			batch.Release()
		}
		if own, err := NewAvroBatchCodec(text, cache, memory.DefaultAllocator); err == nil {
			if batch, err := own.Decode("t", records); err == nil {
				batch.Release()
			}
		}
	})
}
