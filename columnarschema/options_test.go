// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/schema"
)

func TestKeysAreColumnsAndComeBack(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, `"bytes"`)
	cache.SeedSubjectID("orders-value", 8)
	cache.SeedSubjectID("orders-key", 9)
	key := newPairCodec(t, cache, mem, AsKey())
	if _, err := key.Decode("orders", nil); err != errKeyCodec {
		t.Errorf("a codec for keys decodes records: %v", err)
	}
	codec := newPairCodec(t, cache, mem, WithKey(key, "k."))
	records := pairRecords(7, 2, 0, 1)
	records[0].Key = schema.Encode(7, []byte{1, 'x'})
	records[1].Key = schema.Encode(7, []byte{0})
	batch, err := codec.Decode("orders", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	var names []string
	for _, field := range batch.Schema().Fields()[:4] {
		names = append(names, field.Name)
	}
	if diff := cmp.Diff([]string{"n", "texts", "k.n", "k.texts"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if keys := batch.Column(2); keys.String() != "[1 0 (null)]" {
		t.Errorf("column k.n is %v", keys)
	}
	produced, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	want := [][2][]byte{
		{{0, 0, 0, 0, 9, 1, 'x'}, {0, 0, 0, 0, 8, 2, 'c'}},
		{{0, 0, 0, 0, 9, 0}, nil},
		{nil, {0, 0, 0, 0, 8, 1, 'b'}},
	}
	var got [][2][]byte
	for _, r := range produced {
		got = append(got, [2][]byte{r.Key, r.Value})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys and values (-want +got):\n%s", diff)
	}
}

func TestHeaderFramingComesBack(t *testing.T) {
	mem := checkedTestAllocator(t)
	cache := offlineCache(t)
	cache.SeedWriterSchema(7, `"bytes"`)
	cache.SeedSubjectID("numbers", 7)
	codec := newPairCodec(t, cache, mem, WithHeaderFraming(), WithoutMetadataColumns(), WithTombstones(TombstoneSkip),
		WithSerdeOptions(schema.WithStrategy(func(string, schema.Role) string { return "numbers" })))
	if got := codec.Subject("orders"); got != "numbers" {
		t.Errorf("subject is %q", got)
	}
	batch, err := codec.Decode("orders", pairRecords(7, 3, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if batch.NumCols() != 2 || batch.NumRows() != 2 {
		t.Fatalf("batch is %v", batch)
	}
	produced, err := codec.Encode("orders", batch)
	if err != nil {
		t.Fatal(err)
	}
	header := []columnar.RecordHeader{{Key: schema.ValueSchemaIDHeader, Value: []byte{0, 0, 0, 0, 7}}}
	want := []columnar.ProduceRecord{{Value: []byte{3, 'd'}, Headers: header}, {Value: []byte{1, 'b'}, Headers: header}}
	if diff := cmp.Diff(want, produced); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	again, err := codec.Decode("orders", []columnar.ConsumedRecord{
		{Value: produced[0].Value, Headers: produced[0].Headers}, {Value: produced[1].Value, Headers: produced[1].Headers},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if !array.RecordEqual(batch, again) {
		t.Errorf("batch came back as %v, was %v", again, batch)
	}
}

func TestColumnsAreChosenByName(t *testing.T) {
	chosen := func(names ...string) ([]string, error) {
		o, err := codecOptionsFor(schema.KindAvro, []CodecOption{WithColumns(names...)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.project(pairSchema)
		if err != nil {
			return nil, err
		}
		got := []string{}
		for _, f := range s.Fields() {
			got = append(got, f.Name)
		}
		return got, nil
	}
	for _, want := range [][]string{{"texts"}, {"n", "texts"}, {}} {
		asked := slices.Clone(want)
		slices.Reverse(asked)
		if got, err := chosen(asked...); err != nil || !cmp.Equal(want, got) {
			t.Errorf("WithColumns(%q) gives %q, %v", asked, got, err)
		}
	}
	if _, err := chosen("n", "total"); err == nil || !strings.Contains(err.Error(), `"total"`) {
		t.Errorf("an unknown column gives %v", err)
	}
}

func TestContradictoryOptionsAreRefused(t *testing.T) {
	cache := offlineCache(t)
	key := newPairCodec(t, cache, memory.DefaultAllocator)
	for want, options := range map[string][]CodecOption{
		"option 0 is nil":              {nil},
		"must not be nil":              {WithPoisonHandler(nil)},
		"built without AsKey":          {WithKey(key, "")},
		"unknown tombstone policy 9":   {WithTombstones(9)},
		"WithKey belongs to the codec": {AsKey(), WithKey(newPairCodec(t, cache, memory.DefaultAllocator, AsKey()), "")},
	} {
		if _, err := codecOptionsFor(schema.KindAvro, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
}
