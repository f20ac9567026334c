// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/schema"
)

const (
	benchFlat = `{"type":"record","name":"Flat","fields":[
		{"name":"id","type":"string"},{"name":"count","type":"long"},{"name":"small","type":"int"},{"name":"price","type":"double"},
		{"name":"weight","type":"float"},{"name":"flag","type":"boolean"},{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"note","type":["null","string"]},{"name":"parent","type":["null","long"]},{"name":"blob","type":"bytes"}]}`
	// benchWriter is evolved to benchFlat: it has two fields more and one less,
	// a narrower number, and another order.
	benchWriter = `{"type":"record","name":"Flat","fields":[
		{"name":"count","type":"int"},{"name":"id","type":"string"},{"name":"extra","type":"string"},{"name":"small","type":"int"},
		{"name":"weight","type":"float"},{"name":"price","type":"double"},{"name":"more","type":["null","long"]},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"note","type":["null","string"]},{"name":"parent","type":["null","long"]},{"name":"blob","type":"bytes"}]}`
	benchReader = `{"type":"record","name":"Flat","fields":[
		{"name":"id","type":"string"},{"name":"count","type":"long"},{"name":"small","type":"int"},{"name":"price","type":"double"},
		{"name":"weight","type":"float"},{"name":"flag","type":"boolean","default":true},{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"note","type":["null","string"]},{"name":"parent","type":["null","long"]},{"name":"blob","type":"bytes"}]}`
	benchNested = `{"type":"record","name":"Nested","fields":[
		{"name":"id","type":"string"},
		{"name":"customer","type":{"type":"record","name":"Customer","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"},
			{"name":"address","type":{"type":"record","name":"Address","fields":[{"name":"street","type":"string"},{"name":"zip","type":["null","int"]}]}}]}},
		{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"counts","type":{"type":"map","values":"long"}},
		{"name":"status","type":{"type":"enum","name":"Status","symbols":["NEW","PAID","SENT"]}},
		{"name":"hash","type":{"type":"fixed","name":"Hash","size":8}},
		{"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
		{"name":"either","type":["int","string"]},
		{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[{"name":"sku","type":"string"},{"name":"quantity","type":"int"},{"name":"price","type":"double"}]}}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}}]}`

	benchRows = 4096
)

// benchRecords returns framed records of a schema with id 1.
func benchRecords(b testing.TB, text string) (*avroplan.Schema, []columnar.ConsumedRecord) {
	b.Helper()
	s, err := avroplan.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	r := &randomAvro{Rand: rand.New(rand.NewPCG(1, 2))}
	records := make([]columnar.ConsumedRecord, benchRows)
	for i := range records {
		records[i].Value = schema.Encode(1, r.benchDatum(nil, s))
	}
	return s, records
}

// benchDatum appends a datum of ordinary size: texts of 8 bytes, lists and maps
// of 2 items, and no null in nine of ten unions.
func (r *randomAvro) benchDatum(dst []byte, s *avroplan.Schema) []byte {
	switch s.Kind {
	case avroplan.Int:
		return avroplan.AppendLong(dst, int64(r.IntN(5000)))
	case avroplan.Long:
		if s.Logical != avroplan.NoLogical {
			return avroplan.AppendLong(dst, 1700000000000000+r.Int64N(1e12))
		}
		return avroplan.AppendLong(dst, r.Int64N(1e6))
	case avroplan.String:
		return avroplan.AppendString(dst, fmt.Sprintf("text%04d", r.IntN(10000)))
	case avroplan.Bytes:
		if s.Logical == avroplan.Decimal {
			return avroplan.AppendBytes(dst, []byte{1, 2, byte(r.IntN(256))})
		}
		return avroplan.AppendBytes(dst, make([]byte, 8))
	case avroplan.Array, avroplan.Map:
		dst = avroplan.AppendLong(dst, 2)
		for i := range 2 {
			if s.Kind == avroplan.Map {
				dst = avroplan.AppendString(dst, fmt.Sprintf("k%d", i))
			}
			dst = r.benchDatum(dst, s.Items)
		}
		return append(dst, 0)
	case avroplan.Union:
		i := r.IntN(len(s.Branches))
		if s.Branches[0].Kind == avroplan.Null && r.IntN(10) > 0 {
			i = 1
		}
		return r.benchDatum(avroplan.AppendLong(dst, int64(i)), s.Branches[i])
	case avroplan.Record:
		for _, f := range s.Fields {
			dst = r.benchDatum(dst, f.Type)
		}
		return dst
	}
	return r.datum(dst, s)
}

func newBenchCodec(b testing.TB, text string, options ...CodecOption) *AvroBatchCodec {
	b.Helper()
	cache := schema.NewSchemaCache(nil)
	cache.SeedSubjectID("t-value", 1)
	cache.SeedWriterSchema(1, text)
	cache.SeedWriterSchema(2, benchWriter)
	codec, err := NewAvroBatchCodec(text, cache, memory.DefaultAllocator, options...)
	if err != nil {
		b.Fatal(err)
	}
	return codec
}

// bare leaves the metadata columns, which are the same for all codecs, out of
// the comparison.
func bare() []CodecOption {
	return []CodecOption{WithoutMetadataColumns(), WithTombstones(TombstoneReject)}
}

func reportPerRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/record")
}

func benchDecode(b *testing.B, codec *AvroBatchCodec, records []columnar.ConsumedRecord) {
	b.ReportAllocs()
	for b.Loop() {
		batch, err := codec.Decode("t", records)
		if err != nil {
			b.Fatal(err)
		}
		batch.Release()
	}
	reportPerRecord(b)
}

// boxed returns a generic value of the hamba library as columnar.AppendValue
// takes it: with the branches of unions in a map.
func boxed(s *avroplan.Schema, v any) any {
	switch s.Kind {
	case avroplan.Union:
		if v == nil {
			return nil
		}
		branches := valueBranches(s)
		if len(branches) == 1 {
			return boxed(branches[0], v)
		}
		for _, b := range branches {
			if _, text := v.(string); text == (b.Kind == avroplan.String) {
				return map[string]any{b.BranchName(): boxed(b, v)}
			}
		}
	case avroplan.Record:
		fields := make(map[string]any, len(s.Fields))
		for _, f := range s.Fields {
			fields[f.Name] = boxed(f.Type, v.(map[string]any)[f.Name])
		}
		return fields
	case avroplan.Array:
		items := v.([]any)
		out := make([]any, len(items))
		for i := range items {
			out[i] = boxed(s.Items, items[i])
		}
		return out
	case avroplan.Map:
		out := make(map[string]any)
		for key, value := range v.(map[string]any) {
			out[key] = boxed(s.Items, value)
		}
		return out
	case avroplan.Fixed:
		raw := make([]byte, s.Size)
		reflect.Copy(reflect.ValueOf(raw), reflect.ValueOf(v))
		return raw
	}
	return v
}

// unboxed is boxed the other way.
func unboxed(s *avroplan.Schema, v any) any {
	switch s.Kind {
	case avroplan.Union:
		branches := valueBranches(s)
		if len(branches) == 1 || v == nil {
			if v != nil {
				return unboxed(branches[0], v)
			}
			return nil
		}
		for _, b := range branches {
			if value := v.(map[string]any)[b.BranchName()]; value != nil {
				return unboxed(b, value)
			}
		}
	case avroplan.Record:
		fields := make(map[string]any, len(s.Fields))
		for _, f := range s.Fields {
			fields[f.Name] = unboxed(f.Type, v.(map[string]any)[f.Name])
		}
		return fields
	case avroplan.Array:
		items := v.([]any)
		out := make([]any, len(items))
		for i := range items {
			out[i] = unboxed(s.Items, items[i])
		}
		return out
	case avroplan.Map:
		out := make(map[string]any)
		for key, value := range v.(map[string]any) {
			out[key] = unboxed(s.Items, value)
		}
		return out
	case avroplan.Fixed:
		raw := reflect.New(reflect.ArrayOf(s.Size, reflect.TypeFor[byte]())).Elem()
		reflect.Copy(raw, reflect.ValueOf(v))
		return raw.Interface()
	case avroplan.Int:
		if n, ok := v.(int32); ok {
			return int(n)
		}
	}
	return v
}

// boxedDecode reads records into generic values, with a schema that is parsed
// once, and appends these to builders.
func boxedDecode(s *avroplan.Schema, other avro.Schema, columns *arrow.Schema, records []columnar.ConsumedRecord) (arrow.RecordBatch, error) {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	defer builder.Release()
	for i := range records {
		var v any
		if err := avro.Unmarshal(other, records[i].Value[5:], &v); err != nil {
			return nil, err
		}
		row := boxed(s, v).(map[string]any)
		for j, f := range s.Fields {
			if err := columnar.AppendValue(builder.Field(j), row[f.Name]); err != nil {
				return nil, err
			}
		}
	}
	return builder.NewRecordBatch(), nil
}

// boxedEncode reads the rows of a batch into generic values, and writes these.
func boxedEncode(s *avroplan.Schema, other avro.Schema, batch arrow.RecordBatch) ([]columnar.ProduceRecord, error) {
	records := make([]columnar.ProduceRecord, batch.NumRows())
	for i := range records {
		row := make(map[string]any, len(s.Fields))
		for j, f := range s.Fields {
			row[f.Name] = columnar.Value(batch.Column(j), i)
		}
		body, err := avro.Marshal(other, unboxed(s, row))
		if err != nil {
			return nil, err
		}
		records[i].Value = schema.Encode(1, body)
	}
	return records, nil
}

// decodeOnce decodes records and drops the batch.
func decodeOnce(codec columnar.BatchCodec, records []columnar.ConsumedRecord) error {
	batch, err := codec.Decode("t", records)
	if err == nil {
		batch.Release()
	}
	return err
}

// avroBench is one schema with records of it, and the twin that the plans are
// compared with.
type avroBench struct {
	name    string
	text    string
	schema  *avroplan.Schema
	other   avro.Schema
	codec   *AvroBatchCodec
	records []columnar.ConsumedRecord
}

func avroBenches(b testing.TB) []avroBench {
	b.Helper()
	var benches []avroBench
	for _, bench := range []avroBench{{name: "flat", text: benchFlat}, {name: "nested", text: benchNested}} {
		bench.schema, bench.records = benchRecords(b, bench.text)
		var err error
		if bench.other, err = avro.ParseWithCache(bench.text, "", &avro.SchemaCache{}); err != nil {
			b.Fatal(err)
		}
		bench.codec = newBenchCodec(b, bench.text, bare()...)
		benches = append(benches, bench)
	}
	return benches
}

func (x *avroBench) decodeBoxed() error {
	batch, err := boxedDecode(x.schema, x.other, x.codec.ArrowSchema(), x.records)
	if err == nil {
		batch.Release()
	}
	return err
}

func BenchmarkAvroDecode(b *testing.B) {
	for _, bench := range avroBenches(b) {
		b.Run(bench.name+"/plan", func(b *testing.B) { benchDecode(b, bench.codec, bench.records) })
		b.Run(bench.name+"/plan with metadata", func(b *testing.B) {
			benchDecode(b, newBenchCodec(b, bench.text), bench.records)
		})
		b.Run(bench.name+"/boxed", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.decodeBoxed(); err != nil {
					b.Fatal(err)
				}
			}
			reportPerRecord(b)
		})
		b.Run(bench.name+"/paired", func(b *testing.B) {
			benchPaired(b, func() error { return decodeOnce(bench.codec, bench.records) }, bench.decodeBoxed, 1)
		})
	}
	b.Run("flat/evolved", func(b *testing.B) { benchDecode(b, newBenchCodec(b, benchReader, bare()...), evolvedRecords(b)) })
	b.Run("flat/evolved/paired", func(b *testing.B) {
		codec := newBenchCodec(b, benchReader, bare()...)
		evolved := evolvedRecords(b)
		_, same := benchRecords(b, benchReader)
		benchPaired(b, func() error { return decodeOnce(codec, same) }, func() error { return decodeOnce(codec, evolved) }, pairedRuns)
	})
	b.Run("flat/two of ten columns", func(b *testing.B) {
		_, records := benchRecords(b, benchFlat)
		benchDecode(b, newBenchCodec(b, benchFlat, append(bare(), WithColumns("count", "note"))...), records)
	})
}

// evolvedRecords returns records of benchWriter.
func evolvedRecords(b *testing.B) []columnar.ConsumedRecord {
	b.Helper()
	_, records := benchRecords(b, benchWriter)
	for i := range records {
		records[i].Value[4] = 2
	}
	return records
}

func BenchmarkAvroEncode(b *testing.B) {
	for _, bench := range avroBenches(b) {
		batch, err := bench.codec.Decode("t", bench.records)
		if err != nil {
			b.Fatal(err)
		}
		plan := func() error {
			_, err := bench.codec.Encode("t", batch)
			return err
		}
		twin := func() error {
			_, err := boxedEncode(bench.schema, bench.other, batch)
			return err
		}
		for name, encode := range map[string]func() error{"plan": plan, "boxed": twin} {
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := encode(); err != nil {
						b.Fatal(err)
					}
				}
				reportPerRecord(b)
			})
		}
		b.Run(bench.name+"/paired", func(b *testing.B) { benchPaired(b, plan, twin, 1) })
	}
}

// The figures of the benchmarks compare equal work.
func TestBoxedTwinMakesTheSameAvroColumnsAndData(t *testing.T) {
	for _, bench := range avroBenches(t) {
		direct, err := bench.codec.Decode("t", bench.records)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := boxedDecode(bench.schema, bench.other, bench.codec.ArrowSchema(), bench.records)
		if err != nil {
			t.Fatal(err)
		}
		if !array.RecordEqual(batch, direct) {
			t.Errorf("%s: the batches differ", bench.name)
		}
		batch.Release()
		written, err := boxedEncode(bench.schema, bench.other, direct)
		if err != nil {
			t.Fatal(err)
		}
		// The library writes arrays and maps in blocks with a size, and the entries
		// of a map in any order, so the records are compared by what they say.
		consumed := make([]columnar.ConsumedRecord, len(written))
		for i := range written {
			consumed[i].Value = written[i].Value
		}
		again, err := bench.codec.Decode("t", consumed)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range direct.Schema().Fields() {
			for row := range benchRows {
				if got, want := fmt.Sprint(columnar.Value(again.Column(i), row)), fmt.Sprint(columnar.Value(direct.Column(i), row)); got != want {
					t.Fatalf("%s: column %s row %d is %s, want %s", bench.name, f.Name, row, got, want)
				}
			}
		}
		again.Release()
		direct.Release()
	}
}
