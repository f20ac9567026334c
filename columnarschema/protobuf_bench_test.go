// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/internal/testpb"
	"github.com/krabka-io/krabka-streams-go/schema"
)

func benchTrade(r *rand.Rand) *testpb.Trade {
	m := &testpb.Trade{
		Id: fmt.Sprintf("trade-%06d", r.IntN(1e6)), Count: r.Int64N(1e6), Small: r.Int32N(5000), Price: r.Float64(), Weight: r.Float32(), Flag: true,
		At: &timestamppb.Timestamp{Seconds: 1700000000 + r.Int64N(1e6), Nanos: 1000 * r.Int32N(1e6)}, Blob: make([]byte, 8),
	}
	if r.IntN(10) > 0 {
		m.Note, m.Parent = proto.String("a note"), proto.Int64(r.Int64N(1e6))
	}
	return m
}

func benchBasket(r *rand.Rand) *testpb.Basket {
	text := func() string { return fmt.Sprintf("text%04d", r.IntN(10000)) }
	m := &testpb.Basket{
		Id: text(), Tags: []string{text(), text(), text()}, Counts: map[string]int64{"k0": r.Int64N(1e6), "k1": r.Int64N(1e6)},
		Person: &testpb.Basket_Person{Name: text(), Age: r.Int32N(90), Address: &testpb.Basket_Address{Street: text(), Zip: proto.Int32(r.Int32N(99999))}},
		Status: testpb.Basket_Status(r.IntN(3)), Hash: r.Uint64(), Voucher: wrapperspb.String(text()), Either: &testpb.Basket_Text{Text: text()},
		At:    &timestamppb.Timestamp{Seconds: 1700000000 + r.Int64N(1e6), Nanos: 1000 * r.Int32N(1e6)},
		Sizes: []int32{r.Int32N(100), r.Int32N(100), r.Int32N(100), r.Int32N(1000)},
	}
	if r.IntN(2) == 0 {
		m.Either = &testpb.Basket_Number{Number: r.Int32()}
	}
	for range 2 {
		m.Items = append(m.Items, &testpb.Basket_Item{Sku: text(), Quantity: r.Int32N(10), Price: r.Float64()})
	}
	return m
}

// The boxed twin is the way without a plan: the library reads a message, the
// message becomes a map, and the map's values are appended to builders; and back.

// boxedMessage returns the fields of a message as columnar.AppendValue takes them.
func boxedMessage(m protoreflect.Message) map[string]any {
	row := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			row[string(f.Name())] = nil
			continue
		}
		v := m.Get(f)
		switch {
		case f.IsMap():
			entries := map[string]any{}
			v.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
				entries[key.String()] = boxedValue(f.MapValue(), v)
				return true
			})
			row[string(f.Name())] = entries
		case f.IsList():
			items := make([]any, v.List().Len())
			for i := range items {
				items[i] = boxedValue(f, v.List().Get(i))
			}
			row[string(f.Name())] = items
		default:
			row[string(f.Name())] = boxedValue(f, v)
		}
	}
	return row
}

func boxedValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if f.Kind() == protoreflect.EnumKind {
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	}
	if f.Message() == nil {
		return v.Interface()
	}
	fields := f.Message().Fields()
	switch f.Message().FullName() {
	case "google.protobuf.Timestamp":
		return time.Unix(v.Message().Get(fields.Get(0)).Int(), v.Message().Get(fields.Get(1)).Int()).UTC()
	case "google.protobuf.StringValue":
		return v.Message().Get(fields.Get(0)).String()
	}
	return boxedMessage(v.Message())
}

func boxedColumns(message protoreflect.MessageType, columns *arrow.Schema, bodies [][]byte) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	defer b.Release()
	for _, body := range bodies {
		m := message.New()
		if err := proto.Unmarshal(body, m.Interface()); err != nil {
			return nil, err
		}
		row := boxedMessage(m)
		for i, f := range columns.Fields() {
			if err := columnar.AppendValue(b.Field(i), row[f.Name]); err != nil {
				return nil, err
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// setBoxed sets the fields of a message from a row.
func setBoxed(m protoreflect.Message, row map[string]any) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v := row[string(f.Name())]
		switch {
		case v == nil:
		case f.IsMap():
			for key, value := range v.(map[string]any) {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOf(value))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for _, item := range v.([]any) {
				if f.Message() == nil {
					list.Append(protoreflect.ValueOf(item))
					continue
				}
				setBoxed(list.AppendMutable().Message(), item.(map[string]any))
			}
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(f.Enum().Values().ByName(protoreflect.Name(v.(string))).Number()))
		case f.Message() == nil:
			m.Set(f, protoreflect.ValueOf(v))
		default:
			setBoxedMessage(m.Mutable(f).Message(), v)
		}
	}
}

func setBoxedMessage(m protoreflect.Message, v any) {
	fields := m.Descriptor().Fields()
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		micros := v.(int64)
		m.Set(fields.Get(0), protoreflect.ValueOfInt64(micros/1e6))
		m.Set(fields.Get(1), protoreflect.ValueOfInt32(int32(micros%1e6*1000)))
	case "google.protobuf.StringValue":
		m.Set(fields.Get(0), protoreflect.ValueOf(v))
	default:
		setBoxed(m, v.(map[string]any))
	}
}

func boxedBodies(message protoreflect.MessageType, batch arrow.RecordBatch) ([][]byte, error) {
	bodies := make([][]byte, batch.NumRows())
	for row := range bodies {
		values := map[string]any{}
		for i, f := range batch.Schema().Fields() {
			values[f.Name] = columnar.Value(batch.Column(i), row)
		}
		m := message.New()
		setBoxed(m, values)
		var err error
		if bodies[row], err = (proto.MarshalOptions{Deterministic: true}).Marshal(m.Interface()); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

// protobufBench is one kind of message with records of it.
type protobufBench struct {
	name    string
	codec   *recordCodec
	message protoreflect.MessageType
	dynamic protoreflect.MessageType
	columns *arrow.Schema
	bodies  [][]byte
	records []columnar.ConsumedRecord
}

func protobufBenches(tb testing.TB) []protobufBench {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	flat := newProtobufBench(tb, "flat", 0, (*testpb.Trade)(nil), func() proto.Message { return benchTrade(r) })
	nested := newProtobufBench(tb, "nested", 1, (*testpb.Basket)(nil), func() proto.Message { return benchBasket(r) })
	return []protobufBench{flat, nested}
}

func newProtobufBench[T proto.Message](tb testing.TB, name string, index int, prototype T, next func() proto.Message) protobufBench {
	tb.Helper()
	descriptor := prototype.ProtoReflect().Descriptor()
	spec, err := schema.ProtobufFramerSpec(descriptor)
	if err != nil {
		tb.Fatal(err)
	}
	cache := schema.NewSchemaCache(nil)
	cache.SeedSubjectID("t-value", 1)
	cache.SeedWriterSchema(1, spec.Schema)
	codec := NewProtobufBatchCodec(prototype, cache, memory.DefaultAllocator, WithoutMetadataColumns(), WithTombstones(TombstoneReject))
	if err := codec.Err(); err != nil {
		tb.Fatal(err)
	}
	b := protobufBench{
		name: name, codec: codec.recordCodec, message: prototype.ProtoReflect().Type(), dynamic: dynamicpb.NewMessageType(descriptor),
		columns: codec.ArrowSchema(),
	}
	for range benchRows {
		body := wireOf(tb, next())
		b.bodies = append(b.bodies, body)
		b.records = append(b.records, columnar.ConsumedRecord{Value: protoFrame(tb, 1, []int{index}, body)})
	}
	return b
}

func BenchmarkProtobufDecode(b *testing.B) {
	for _, bench := range protobufBenches(b) {
		b.Run(bench.name+"/plan", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				batch, err := bench.codec.Decode("t", bench.records)
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
			reportPerRecord(b)
		})
		for name, message := range map[string]protoreflect.MessageType{"generated-naive": bench.message, "dynamic-naive": bench.dynamic} {
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					batch, err := boxedColumns(message, bench.columns, bench.bodies)
					if err != nil {
						b.Fatal(err)
					}
					batch.Release()
				}
				reportPerRecord(b)
			})
			b.Run(bench.name+"/"+name+"/paired", func(b *testing.B) {
				benchPaired(b, func() error { return decodeOnce(bench.codec, bench.records) }, func() error {
					batch, err := boxedColumns(message, bench.columns, bench.bodies)
					if err == nil {
						batch.Release()
					}
					return err
				}, 1)
			})
		}
	}
}

func BenchmarkProtobufEncode(b *testing.B) {
	for _, bench := range protobufBenches(b) {
		batch, err := bench.codec.Decode("t", bench.records)
		if err != nil {
			b.Fatal(err)
		}
		defer batch.Release()
		b.Run(bench.name+"/plan", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.codec.Encode("t", batch); err != nil {
					b.Fatal(err)
				}
			}
			reportPerRecord(b)
		})
		for name, message := range map[string]protoreflect.MessageType{"generated-naive": bench.message, "dynamic-naive": bench.dynamic} {
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := boxedBodies(message, batch); err != nil {
						b.Fatal(err)
					}
				}
				reportPerRecord(b)
			})
			b.Run(bench.name+"/"+name+"/paired", func(b *testing.B) {
				benchPaired(b, func() error {
					_, err := bench.codec.Encode("t", batch)
					return err
				}, func() error {
					_, err := boxedBodies(message, batch)
					return err
				}, 1)
			})
		}
	}
}

// The figures of the benchmarks compare equal work.
func TestBoxedTwinMakesTheSameColumnsAndBytes(t *testing.T) {
	for _, bench := range protobufBenches(t) {
		want, err := boxedColumns(bench.message, bench.columns, bench.bodies)
		if err != nil {
			t.Fatal(err)
		}
		got, err := bench.codec.Decode("t", bench.records)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range bench.columns.Fields() {
			for row := range benchRows {
				if a, b := fmt.Sprint(columnar.Value(want.Column(i), row)), fmt.Sprint(columnar.Value(got.Column(i), row)); a != b {
					t.Fatalf("%s: column %s row %d is %s, want %s", bench.name, f.Name, row, b, a)
				}
			}
		}
		produced, err := bench.codec.Encode("t", got)
		if err != nil {
			t.Fatal(err)
		}
		for i, record := range produced {
			// Deterministic bytes of the library have members of oneofs last.
			m := bench.message.New().Interface()
			frame, err := schema.DecodeProtobuf(record.Value)
			if err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(frame.Body, m); err != nil {
				t.Fatal(err)
			}
			if body := wireOf(t, m); string(body) != string(bench.bodies[i]) {
				t.Fatalf("%s: row %d is written as %x, want %x", bench.name, i, body, bench.bodies[i])
			}
		}
		want.Release()
		got.Release()
	}
}

func TestProtobufCodecAllocatesForBatchesAlone(t *testing.T) {
	for _, bench := range protobufBenches(t) {
		var batch arrow.RecordBatch
		decode := testing.AllocsPerRun(5, func() {
			var err error
			if batch, err = bench.codec.Decode("t", bench.records); err != nil {
				t.Fatal(err)
			}
		})
		encode := testing.AllocsPerRun(5, func() {
			if _, err := bench.codec.Encode("t", batch); err != nil {
				t.Fatal(err)
			}
		})
		// A race build empties pools at random, so each batch makes their buffers anew.
		if limit := 0.05 * benchRows * allocationFactor; decode > limit || encode > limit {
			t.Errorf("%s: %v allocations to decode and %v to encode %d records, at most %v are allowed", bench.name, decode, encode, benchRows, limit)
		}
	}
}
