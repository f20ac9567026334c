// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	hamba "github.com/hamba/avro/v2"
	twmb "github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
	"github.com/krabka-io/krabka-streams-go/internal/avrovalue"
)

// The record that engines are compared on: two strings, an int, a double, two
// longs, a boolean, a nullable string, an array of strings and an enum.
const benchSchema = `{"type":"record","name":"Order","namespace":"bench","fields":[
	{"name":"id","type":"string"},
	{"name":"customer","type":"string"},
	{"name":"quantity","type":"int"},
	{"name":"price","type":"double"},
	{"name":"created","type":"long"},
	{"name":"updated","type":"long"},
	{"name":"paid","type":"boolean"},
	{"name":"note","type":["null","string"]},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"status","type":{"type":"enum","name":"Status","symbols":["NEW","PAID","SENT"]}}]}`

// benchReaderSchema adds and drops a field, widens the int and reorders.
const benchReaderSchema = `{"type":"record","name":"Order","namespace":"bench","fields":[
	{"name":"customer","type":"string"},
	{"name":"id","type":"string"},
	{"name":"quantity","type":"long"},
	{"name":"price","type":"double"},
	{"name":"created","type":"long"},
	{"name":"channel","type":"string","default":"web"},
	{"name":"paid","type":"boolean"},
	{"name":"note","type":["null","string"]},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"status","type":{"type":"enum","name":"Status","symbols":["NEW","PAID","SENT"]}}]}`

type benchOrder struct {
	ID       string   `avro:"id"`
	Customer string   `avro:"customer"`
	Quantity int      `avro:"quantity"`
	Price    float64  `avro:"price"`
	Created  int64    `avro:"created"`
	Updated  int64    `avro:"updated"`
	Paid     bool     `avro:"paid"`
	Note     *string  `avro:"note"`
	Tags     []string `avro:"tags"`
	Status   string   `avro:"status"`
}

func benchValue() benchOrder {
	note := "leave at the door"
	return benchOrder{
		ID: "order-000000042", Customer: "customer-7788", Quantity: 300, Price: 19.99, Created: 1700000000123,
		Updated: 1700000000456, Paid: true, Note: &note, Tags: []string{"priority", "gift"}, Status: "PAID",
	}
}

func benchGeneric() map[string]any {
	return map[string]any{
		"id": "order-000000042", "customer": "customer-7788", "quantity": 300, "price": 19.99,
		"created": int64(1700000000123), "updated": int64(1700000000456), "paid": true, "note": "leave at the door",
		"tags": []any{"priority", "gift"}, "status": "PAID",
	}
}

func hambaParse(b *testing.B, text string) hamba.Schema {
	s, err := hamba.ParseWithCache(text, "", &hamba.SchemaCache{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchBody(b *testing.B) []byte {
	data, err := hamba.Marshal(hambaParse(b, benchSchema), benchValue())
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func benchCodec[T any](b *testing.B, text string) *avrovalue.Codec[T] {
	s, err := avroplan.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	return avrovalue.NewCodec[T](s, avrovalue.Options{})
}

// benchDecoder reads data of benchSchema.
func benchDecoder[T any](b *testing.B, reader string) func([]byte) (T, error) {
	c := benchCodec[T](b, reader)
	plan, err := avroplan.Resolve(benchCodec[T](b, benchSchema).Schema(), c.Schema())
	if err != nil {
		b.Fatal(err)
	}
	decode, err := c.Decoder(plan)
	if err != nil {
		b.Fatal(err)
	}
	return decode
}

func measure(b *testing.B, run func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAvroDecodeGeneric(b *testing.B) {
	body := benchBody(b)
	b.Run("plan", func(b *testing.B) {
		decode := benchDecoder[any](b, benchSchema)
		measure(b, func() error { _, err := decode(body); return err })
	})
	b.Run("hamba", func(b *testing.B) {
		s := hambaParse(b, benchSchema)
		measure(b, func() error { var v any; return hamba.Unmarshal(s, body, &v) })
	})
	b.Run("twmb", func(b *testing.B) {
		s := twmb.MustParse(benchSchema)
		measure(b, func() error { var v any; _, err := s.Decode(body, &v); return err })
	})
}

func BenchmarkAvroDecodeStruct(b *testing.B) {
	body := benchBody(b)
	b.Run("plan", func(b *testing.B) {
		decode := benchDecoder[benchOrder](b, benchSchema)
		measure(b, func() error { _, err := decode(body); return err })
	})
	b.Run("hamba", func(b *testing.B) {
		s := hambaParse(b, benchSchema)
		measure(b, func() error { var v benchOrder; return hamba.Unmarshal(s, body, &v) })
	})
	b.Run("twmb", func(b *testing.B) {
		s := twmb.MustParse(benchSchema)
		measure(b, func() error { var v benchOrder; _, err := s.Decode(body, &v); return err })
	})
}

func BenchmarkAvroDecodeEvolved(b *testing.B) {
	body := benchBody(b)
	b.Run("plan", func(b *testing.B) {
		decode := benchDecoder[any](b, benchReaderSchema)
		measure(b, func() error { _, err := decode(body); return err })
	})
	b.Run("hamba", func(b *testing.B) {
		s, err := hamba.NewSchemaCompatibility().Resolve(hambaParse(b, benchReaderSchema), hambaParse(b, benchSchema))
		if err != nil {
			b.Fatal(err)
		}
		measure(b, func() error { var v any; return hamba.Unmarshal(s, body, &v) })
	})
	b.Run("twmb", func(b *testing.B) {
		s, err := twmb.Resolve(twmb.MustParse(benchSchema), twmb.MustParse(benchReaderSchema))
		if err != nil {
			b.Fatal(err)
		}
		measure(b, func() error { var v any; _, err := s.Decode(body, &v); return err })
	})
	b.Run("parse-each", func(b *testing.B) {
		measure(b, func() error {
			writer, reader := hambaParse(b, benchSchema), hambaParse(b, benchReaderSchema)
			s, err := hamba.NewSchemaCompatibility().Resolve(reader, writer)
			if err != nil {
				return err
			}
			var v any
			return hamba.Unmarshal(s, body, &v)
		})
	})
}

func BenchmarkAvroEncodeGeneric(b *testing.B) {
	value := benchGeneric()
	buffer := make([]byte, 0, 256)
	b.Run("plan", func(b *testing.B) {
		enc, err := benchCodec[any](b, benchSchema).Encoder()
		if err != nil {
			b.Fatal(err)
		}
		measure(b, func() error { _, err := enc(buffer, value); return err })
	})
	b.Run("hamba", func(b *testing.B) {
		s := hambaParse(b, benchSchema)
		measure(b, func() error { _, err := hamba.Marshal(s, value); return err })
	})
	b.Run("twmb", func(b *testing.B) {
		s := twmb.MustParse(benchSchema)
		measure(b, func() error { _, err := s.AppendEncode(buffer, value); return err })
	})
}

func BenchmarkAvroEncodeStruct(b *testing.B) {
	value := benchValue()
	buffer := make([]byte, 0, 256)
	b.Run("plan", func(b *testing.B) {
		enc, err := benchCodec[benchOrder](b, benchSchema).Encoder()
		if err != nil {
			b.Fatal(err)
		}
		measure(b, func() error { _, err := enc(buffer, value); return err })
	})
	b.Run("hamba", func(b *testing.B) {
		s := hambaParse(b, benchSchema)
		measure(b, func() error { _, err := hamba.Marshal(s, value); return err })
	})
	b.Run("twmb", func(b *testing.B) {
		s := twmb.MustParse(benchSchema)
		measure(b, func() error { _, err := s.AppendEncode(buffer, &value); return err })
	})
}

// BenchmarkAvroSerde measures the whole way from a framed payload to a value
// and back.
func BenchmarkAvroSerde(b *testing.B) {
	serde, cache := seededAvroSerde[benchOrder](b, benchSchema, 1)
	cache.SeedWriterSchema(2, benchSchema)
	value := benchValue()
	payload, err := serde.Serialize("orders", value)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("deserialize", func(b *testing.B) {
		measure(b, func() error { _, err := serde.Deserialize("orders", payload); return err })
	})
	buffer := make([]byte, 0, 256)
	b.Run("append-serialize", func(b *testing.B) {
		measure(b, func() error { _, err := serde.AppendSerialize(buffer, "orders", value); return err })
	})
}
