// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// benchSerde writes and reads text, so that what is measured is the core.
func benchSerde(b *testing.B) (*serdeCore[any], any, []byte) {
	b.Helper()
	cache := NewSchemaCache(nil)
	b.Cleanup(func() { _ = cache.Close() })
	cache.SeedSubjectID("orders-value", 7)
	for id := range 100 {
		cache.SeedWriterSchema(id, "S")
	}
	o, err := serdeOptionsFor(KindProtobuf, new(protobufOptions), nil)
	if err != nil {
		b.Fatal(err)
	}
	s := new(serdeCore[any])
	if err := s.init(serdeSpec{kind: KindProtobuf, text: "S"}, cache, RoleValue, o, constantFormat{}); err != nil {
		b.Fatal(err)
	}
	var value any = []byte("a body of some forty bytes, as a record is")
	payload, err := s.Serialize("orders", value)
	if err != nil {
		b.Fatal(err)
	}
	return s, value, payload
}

// constantFormat writes byte slices as they are and reads every body as one
// value.
type constantFormat struct{}

func (constantFormat) indexed() bool     { return false }
func (constantFormat) needsWriter() bool { return true }

func (constantFormat) compileEncoder(*writerSchema) (encoder[any], error) {
	return encoder[any]{appendBody: func(dst []byte, value any) ([]byte, error) {
		return append(dst, value.([]byte)...), nil
	}}, nil
}

func (constantFormat) compileDecoder(*writerSchema) (decoder[any], error) {
	var value any = "constant"
	return func(_, _ []byte) (any, error) { return value, nil }, nil
}

func BenchmarkFrame(b *testing.B) {
	s, value, payload := benchSerde(b)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			var err error
			if dst, err = s.AppendSerialize(dst[:0], "orders", value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serialize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Serialize("orders", value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serialize-naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			id, ok := s.cache.IDForSubject(s.cache.Subject("orders", RoleValue))
			if !ok {
				b.Fatal("no id")
			}
			body := append([]byte(nil), value.([]byte)...)
			_ = Encode(id, body)
		}
	})
	b.Run("deserialize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Deserialize("orders", payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("deserialize-headers", func(b *testing.B) {
		b.ReportAllocs()
		headers := []Header{{Key: ValueSchemaIDHeader, Value: payload[:5]}}
		for b.Loop() {
			if _, err := s.DeserializeWithHeaders("orders", payload[5:], headers); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("deserialize-naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame, err := Decode(payload)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.cache.WriterSchema(frame.SchemaID); err != nil {
				b.Fatal(err)
			}
			_ = s.cache.WriterReferences(frame.SchemaID)
		}
	})
	b.Run("deserialize-parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Deserialize("orders", payload); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func benchmarkJSONRead[T any](b *testing.B, cache *SchemaCache, payload []byte, validate bool) {
	b.Helper()
	serde := newJSONSerde[T](b, orderSchema, cache, validate)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := serde.Deserialize("orders", payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONDeserialize(b *testing.B) {
	cache := NewSchemaCache(nil)
	b.Cleanup(func() { _ = cache.Close() })
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, orderSchema)
	payload := Encode(7, []byte(`{"id":"o-1","total":12}`))
	b.Run("validated", func(b *testing.B) { benchmarkJSONRead[any](b, cache, payload, true) })
	b.Run("validated-typed", func(b *testing.B) { benchmarkJSONRead[jsonOrder](b, cache, payload, true) })
	b.Run("unvalidated", func(b *testing.B) { benchmarkJSONRead[any](b, cache, payload, false) })
	b.Run("validated-naive", func(b *testing.B) {
		b.ReportAllocs()
		var dialect jsoncheck.Dialect
		for b.Loop() {
			frame, err := Decode(payload)
			if err != nil {
				b.Fatal(err)
			}
			text, err := cache.WriterSchema(frame.SchemaID)
			if err != nil {
				b.Fatal(err)
			}
			compiled, err := dialect.Compile(text, nil)
			if err != nil {
				b.Fatal(err)
			}
			document, err := jsoncheck.ParseSchema(frame.Body)
			if err != nil {
				b.Fatal(err)
			}
			if err := compiled.Validate(document); err != nil {
				b.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(frame.Body, &value); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkJSONSerialize(b *testing.B) {
	cache := NewSchemaCache(nil)
	b.Cleanup(func() { _ = cache.Close() })
	cache.SeedSubjectID("orders-value", 7)
	value := &jsonOrder{ID: "o-1", Total: 12}
	serde, err := NewJSONSchemaSerde[*jsonOrder](orderSchema, cache, RoleValue, false)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			if dst, err = serde.AppendSerialize(dst[:0], "orders", value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, err := json.Marshal(value)
			if err != nil {
				b.Fatal(err)
			}
			_ = Encode(7, body)
		}
	})
}
