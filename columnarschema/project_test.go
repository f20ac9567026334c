// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnar/stream"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// Each record has a field note that is at fault, which is found where the field is a
// column alone.
func TestTopologiesPassOverColumnsThatNobodyReads(t *testing.T) {
	const avroText = `{"type":"record","name":"R","fields":[{"name":"id","type":"string"},{"name":"note","type":"string"},{"name":"n","type":"int"}]}`
	const jsonText = `{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"},"n":{"type":"integer"}}}`
	proto := protoMessage(t, `syntax = "proto3"; message R { string id = 1; string note = 2; int32 n = 3; }`)
	protobufSpec, err := schema.ProtobufFramerSpec(proto)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		text  string
		value []byte
		codec func(cache *schema.SchemaCache, mem memory.Allocator) (columnar.BatchCodec, error)
	}{
		"Avro": {avroText, avroFrame(1, 2, 'a', 2, 0xff, 6), func(cache *schema.SchemaCache, mem memory.Allocator) (columnar.BatchCodec, error) {
			return NewAvroBatchCodec(avroText, cache, mem)
		}},
		"Protobuf": {
			protobufSpec.Schema, protoFrame(t, 1, []int{0}, []byte{1<<3 | 2, 1, 'a', 2<<3 | 2, 1, 0xff, 3 << 3, 3}),
			func(cache *schema.SchemaCache, mem memory.Allocator) (columnar.BatchCodec, error) {
				codec := NewProtobufBatchCodec(dynamicpb.NewMessage(proto), cache, mem)
				return codec, codec.Err()
			},
		},
		"JSON Schema": {jsonText, avroFrame(1, []byte(`{"id":"a","note":7,"n":3}`)...), func(cache *schema.SchemaCache, mem memory.Allocator) (columnar.BatchCodec, error) {
			return NewJSONSchemaBatchCodec(jsonText, cache, mem)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mem := checkedTestAllocator(t)
			cache := offlineCache(t)
			cache.SeedWriterSchema(1, test.text)
			codec, err := test.codec(cache, mem)
			if err != nil {
				t.Fatal(err)
			}
			run := func(add func(*stream.Stream) *stream.Stream) ([]columnar.ProducedToTopic, error) {
				t.Helper()
				topology, err := add(stream.New(stream.WithAllocator(mem)).From(stream.Using(codec), "in")).To("out", stream.JSON()).Topology()
				if err != nil {
					t.Fatal(err)
				}
				built, err := topology.Build()
				if err != nil {
					t.Fatal(err)
				}
				return built.RunBatch("in", []columnar.ConsumedRecord{{Key: []byte("k"), Value: test.value}})
			}
			out, err := run(func(s *stream.Stream) *stream.Stream {
				return s.Where(columnar.Column("n").Greater(2)).Select("id")
			})
			if err != nil || len(out) != 1 || string(out[0].Record.Value) != `{"id":"a"}` || string(out[0].Record.Key) != "k" {
				t.Errorf("records = %v, %v", out, err)
			}
			out, err = run(func(s *stream.Stream) *stream.Stream { return s.Select(columnar.KeyColumn) })
			if err != nil || len(out) != 1 || string(out[0].Record.Value) != `{}` {
				t.Errorf("records without columns = %v, %v", out, err)
			}
			if _, err := run(func(s *stream.Stream) *stream.Stream { return s.Where(columnar.Column("n").Greater(2)) }); err == nil {
				t.Error("a fault in a column of whole rows is not found")
			}
		})
	}
}

func TestKeysThatNobodyReadsAreNotDecoded(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	const value, key = `{"type":"record","name":"V","fields":[{"name":"n","type":"int"}]}`, `{"type":"record","name":"K","fields":[{"name":"id","type":"string"}]}`
	cache.SeedWriterSchema(1, value)
	cache.SeedWriterSchema(2, key)
	keys, err := NewAvroBatchCodec(key, cache, mem, AsKey())
	if err != nil {
		t.Fatal(err)
	}
	codec, err := NewAvroBatchCodec(value, cache, mem, WithKey(keys, "key_"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n", "key_id"} {
		projected, err := codec.Project([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		bad := []columnar.ConsumedRecord{{Key: avroFrame(2, 2, 0xff), Value: avroFrame(1, 2)}}
		batch, err := projected.Decode("t", bad)
		if (err != nil) != (name == "key_id") {
			t.Errorf("%s: the error of a bad key is %v", name, err)
		}
		if err == nil {
			batch.Release()
		}
		if batch, err = projected.Decode("t", []columnar.ConsumedRecord{{Key: avroFrame(2, 2, 'x'), Value: avroFrame(1, 2)}}); err != nil {
			t.Fatal(err)
		}
		if got := batch.Schema().Field(0).Name; got != name || batch.Schema().HasField("n") == batch.Schema().HasField("key_id") {
			t.Errorf("columns are %v, want %v", batch.Schema(), name)
		}
		batch.Release()
	}
}
