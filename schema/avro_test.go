// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	hamba "github.com/hamba/avro/v2"
)

type avroOrder struct {
	ID string `avro:"id"`
}

const avroOrderSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`

// seededAvroSerde returns a serde over a cache without a registry, whose
// subject for the topic "orders" has the id.
func seededAvroSerde[T any](t testing.TB, text string, id int, options ...SerdeOption) (*AvroSerde[T], *SchemaCache) {
	t.Helper()
	cache := NewSchemaCache(nil)
	t.Cleanup(func() { _ = cache.Close() })
	s, err := NewAvroSerde[T](text, cache, RoleValue, options...)
	if err != nil {
		t.Fatal(err)
	}
	cache.SeedSubjectID("orders-value", id)
	cache.SeedWriterSchema(id, s.ReaderSchema().String())
	return s, cache
}

func TestAvroSerdeRoundTripsWithSeeds(t *testing.T) {
	generic, _ := seededAvroSerde[any](t, avroOrderSchema, 11)
	data, err := generic.Serialize("orders", map[string]any{"id": "o-1"})
	if err != nil || hex.EncodeToString(data) != "000000000b066f2d31" {
		t.Errorf("generic Serialize = %x, %v", data, err)
	}
	value, err := generic.Deserialize("orders", data)
	if diff := cmp.Diff(any(map[string]any{"id": "o-1"}), value); diff != "" || err != nil {
		t.Errorf("generic Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
	typed, _ := seededAvroSerde[avroOrder](t, avroOrderSchema, 11)
	again, err := typed.Serialize("orders", avroOrder{"o-1"})
	if string(again) != string(data) || err != nil {
		t.Errorf("typed Serialize = %x, %v", again, err)
	}
	if order, err := typed.Deserialize("orders", data); err != nil || order != (avroOrder{"o-1"}) {
		t.Errorf("typed Deserialize = %v, %v", order, err)
	}
	pointers, _ := seededAvroSerde[*avroOrder](t, avroOrderSchema, 11)
	if data, err := pointers.Serialize("orders", nil); data != nil || err != nil {
		t.Errorf("Serialize of a nil pointer = %v, %v", data, err)
	}
	if order, err := pointers.Deserialize("orders", nil); order != nil || err != nil {
		t.Errorf("Deserialize of a tombstone = %v, %v", order, err)
	}
	if order, err := pointers.Deserialize("orders", data); err != nil || order.ID != "o-1" {
		t.Errorf("Deserialize to a pointer = %v, %v", order, err)
	}
}

func TestAvroReaderAddsANullableField(t *testing.T) {
	s, cache := seededAvroSerde[any](t, `{"type":"record","name":"Order","fields":[
		{"name":"id","type":"string"},{"name":"note","type":["null","string"],"default":null}]}`, 12)
	cache.SeedWriterSchema(13, avroOrderSchema)
	value, err := s.Deserialize("orders", Encode(13, []byte("\x06o-1")))
	if diff := cmp.Diff(any(map[string]any{"id": "o-1", "note": nil}), value); diff != "" || err != nil {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
}

func TestAvroConstructorErrors(t *testing.T) {
	cache := NewSchemaCache(nil)
	defer cache.Close()
	for _, tc := range []struct {
		name string
		make func() error
		want string
	}{
		{"no schema", func() error { _, err := NewGenericAvroSerde(`{`, cache, RoleValue); return err }, "invalid Avro schema: text ends at byte 1"},
		{"unknown reference", func() error {
			_, err := NewGenericAvroSerde(`"m.Money"`, cache, RoleValue)
			return err
		}, `invalid Avro schema: unknown type "m.Money"`},
		{"bad reference", func() error {
			_, err := NewGenericAvroSerde(`"m.Money"`, cache, RoleValue, WithReferences(Reference{Name: "m.Money", Subject: "m", Schema: "[[]]"}))
			return err
		}, "invalid Avro schema: invalid Avro reference schema m.Money: branch 0 of a union is itself a union"},
		{"Go type", func() error { _, err := NewAvroSerde[bool](avroOrderSchema, cache, RoleValue); return err },
			"type bool does not suit the Avro schema: type bool cannot hold Avro record"},
		{"no cache", func() error { _, err := NewGenericAvroSerde(`"int"`, nil, RoleValue); return err }, "schema cache must not be nil"},
		{"empty type name", func() error {
			_, err := NewGenericAvroSerde(`"int"`, cache, RoleValue, WithAvroType("", 1))
			return err
		}, "WithAvroType needs a name and a value"},
		{"one type for two names", func() error {
			_, err := NewGenericAvroSerde(`"int"`, cache, RoleValue, WithAvroType("A", 1), WithAvroType("B", new(int)))
			return err
		}, "WithAvroType gives int to both A and B"},
		{"option of another format", func() error {
			_, err := NewJSONSchemaSerde[any](`{}`, cache, RoleValue, false, WithTaggedUnions())
			return err
		}, "WithTaggedUnions is an option of AVRO serdes, not of JSON ones"},
	} {
		if err := tc.make(); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	// A type that can only be read makes a serde that only reads.
	type part struct {
		Name string `avro:"name"`
	}
	readOnly, err := NewAvroSerde[part](avroOrderSchema, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	cache.SeedSubjectID("orders-value", 1)
	_, err = readOnly.Serialize("orders", part{})
	if want := "cannot serialize schema value: type schema.part has no field id, which has no default (AVRO schema 1, subject orders-value)"; err == nil || err.Error() != want {
		t.Errorf("Serialize: %v, want %s", err, want)
	}
}

func TestReaderSchemaDescribesWhatTheOtherLibraryCannotParse(t *testing.T) {
	s, _ := seededAvroSerde[any](t, `{"type":"record","name":"n.R","fields":[
		{"name":"a","type":["null","int"],"default":5},
		{"name":"b","type":{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":4,"scale":2}},
		{"name":"c","type":{"type":"map","values":{"type":"array","items":"F"}}},
		{"name":"d","type":{"type":"enum","name":"E","symbols":["X","Y"]}},
		{"name":"e","type":["null","R"]}]}`, 1)
	record, ok := s.ReaderSchema().(*hamba.RecordSchema)
	if !ok || record.FullName() != "n.R" || len(record.Fields()) != 5 {
		t.Fatalf("ReaderSchema = %v", s.ReaderSchema())
	}
	fixed := record.Fields()[1].Type().(*hamba.FixedSchema)
	if got := fixed.Logical().(*hamba.DecimalLogicalSchema); got.Precision() != 4 || got.Scale() != 2 {
		t.Errorf("decimal(%d,%d)", got.Precision(), got.Scale())
	}
	data, err := s.Serialize("orders", map[string]any{"b": big.NewRat(1, 100), "c": map[string]any{}, "d": "Y"})
	if err != nil {
		t.Fatal(err)
	}
	if value, err := s.Deserialize("orders", data); err != nil || value.(map[string]any)["a"] != 5 {
		t.Errorf("Deserialize = %v, %v", value, err)
	}
}

func TestTypesOfOneTextAreUnknownToOthers(t *testing.T) {
	cache := NewSchemaCache(nil)
	defer cache.Close()
	if _, err := NewGenericAvroSerde(`{"type":"record","name":"Leaked","fields":[]}`, cache, RoleValue); err != nil {
		t.Fatal(err)
	}
	if _, err := NewGenericAvroSerde(`"Leaked"`, cache, RoleValue); err == nil {
		t.Error("a type of another serde is visible")
	}
	if _, err := hamba.Parse(`"Leaked"`); err == nil {
		t.Error("the type has reached the other library's global table")
	}
}

func TestTwoVersionsOfATypeDoNotMix(t *testing.T) {
	one, _ := seededAvroSerde[any](t, `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int"}]}`, 1)
	two, _ := seededAvroSerde[any](t, `{"type":"record","name":"n.R","fields":[{"name":"b","type":"string"}]}`, 2)
	for range 3 {
		first, err := one.Serialize("orders", map[string]any{"a": 1})
		if err != nil || hex.EncodeToString(first) != "000000000102" {
			t.Fatalf("first = %x, %v", first, err)
		}
		second, err := two.Serialize("orders", map[string]any{"b": "x"})
		if err != nil || hex.EncodeToString(second) != "00000000020278" {
			t.Fatalf("second = %x, %v", second, err)
		}
		v, err := one.Deserialize("orders", first)
		if diff := cmp.Diff(any(map[string]any{"a": 1}), v); diff != "" || err != nil {
			t.Fatalf("first: %v, mismatch (-want +got):\n%s", err, diff)
		}
	}
}

func TestAvroBodyErrorsNameElementAndOffset(t *testing.T) {
	s, cache := seededAvroSerde[any](t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":{"type":"array","items":"string"}}]}`, 5)
	_, err := s.Deserialize("orders", Encode(5, []byte("\x02\x04\x02x\x06ab")))
	want := "cannot deserialize schema value: field b[1] at byte 4: truncated: length 3 exceeds the 2 bytes that remain (AVRO schema 5, subject orders-value)"
	if err == nil || err.Error() != want {
		t.Errorf("Deserialize: %v, want %s", err, want)
	}
	var data *AvroDataError
	if !errors.As(err, &data) || data.Path() != "b[1]" || data.Offset != 4 {
		t.Errorf("AvroDataError = %+v", data)
	}
	_, err = s.Serialize("orders", map[string]any{"a": 1, "b": []any{"x", 2}})
	var value *AvroValueError
	if want := "cannot serialize schema value: field b[1]: type int cannot be written as Avro string (AVRO schema 5, subject orders-value)"; err == nil || err.Error() != want ||
		!errors.As(err, &value) || value.Path() != "b[1]" {
		t.Errorf("Serialize: %v, want %s", err, want)
	}
	cache.SeedWriterSchema(6, `"int"`)
	_, err = s.Deserialize("orders", Encode(6, []byte{2}))
	if want := "cannot deserialize schema value: cannot resolve writer schema 6 against the reader schema: reader record R cannot read writer int (AVRO schema 6, subject orders-value)"; err == nil || err.Error() != want {
		t.Errorf("Deserialize: %v, want %s", err, want)
	}
	cache.SeedWriterSchema(7, `{"type":"rec`)
	_, err = s.Deserialize("orders", Encode(7, []byte{2}))
	if want := "cannot deserialize schema value: invalid writer schema 7: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Deserialize: %v, want %s", err, want)
	}
	var parse *AvroSchemaError
	if !errors.As(err, &parse) {
		t.Errorf("Deserialize: %v is no *AvroSchemaError", err)
	}
}

func TestEveryPrefixOfAnAvroFrameIsAnError(t *testing.T) {
	s, _ := seededAvroSerde[any](t, avroOrderSchema, 11)
	data, err := s.Serialize("orders", map[string]any{"id": "0123456789ab"})
	if err != nil || len(data) != 18 {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	for i := 1; i < len(data); i++ {
		if v, err := s.Deserialize("orders", data[:i]); err == nil {
			t.Errorf("the first %d bytes are read as %v", i, v)
		}
	}
	if v, err := s.Deserialize("orders", append(data, 0xff)); err == nil {
		t.Errorf("a frame with one byte more is read as %v", v)
	}
}

func TestAvroWriterReferencesAreParsedInOrder(t *testing.T) {
	references := []Reference{
		{Name: "shop.Unit", Subject: "unit", Version: 1, Schema: `{"type":"enum","name":"shop.Unit","symbols":["EUR"]}`},
		{Name: "shop.Money", Subject: "money", Version: 1, Schema: `{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"},{"name":"unit","type":"Unit"}]}`},
	}
	const text = `{"type":"record","name":"shop.Order","fields":[{"name":"price","type":"Money"},{"name":"unit","type":"shop.Unit"}]}`
	s, cache := seededAvroSerde[any](t, text, 1, WithReferences(references...))
	want := map[string]any{"price": map[string]any{"cents": int64(5), "unit": "EUR"}, "unit": "EUR"}
	data, err := s.Serialize("orders", want)
	if err != nil || hex.EncodeToString(data) != "00000000010a0000" {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	cache.SeedWriterSchema(2, text)
	if err := cache.SeedWriterReferences(2, references...); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{1, 2} {
		got, err := s.Deserialize("orders", Encode(id, data[5:]))
		if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
			t.Errorf("writer %d: %v, mismatch (-want +got):\n%s", id, err, diff)
		}
	}
	if err := cache.SeedWriterReferences(3, Reference{Name: "shop.Money", Subject: "money", Version: 1, Schema: "7"}); err != nil {
		t.Fatal(err)
	}
	cache.SeedWriterSchema(3, text)
	_, err = s.Deserialize("orders", Encode(3, data[5:]))
	if want := "invalid Avro reference schema shop.Money: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("broken reference: %v, want %s", err, want)
	}
}

func TestRegisteredAvroTextKeepsWhatTheAuthorWrote(t *testing.T) {
	registry := newRegistryDouble(t)
	cache := registry.cache()
	const text = `{
		"type": "record", "name": "Payment", "namespace": "shop", "doc": "A payment.", "aliases": ["Bill"], "connect.version": 3,
		"fields": [
			{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "doc": "Net."},
			{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "aliases": ["time"], "order": "ignore"},
			{"name": "count", "type": "int", "default": 0},
			{"name": "note", "type": ["null", "string"], "default": null},
			{"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"], "default": "A"}}
		]
	}`
	s, err := NewGenericAvroSerde(text, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterSubject("payments")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, ok := cache.IDForSubject("payments-value")
	stored, err := registry.client().SchemaByID(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("id %d: %v", id, err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal([]byte(stored.Schema), &got), json.Unmarshal([]byte(text), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered text mismatch (-want +got):\n%s", diff)
	}
	if strings.ContainsAny(stored.Schema, "\n\t") {
		t.Errorf("registered text is not minified: %s", stored.Schema)
	}
	// The same schema in another layout is the same registration.
	minified, err := NewGenericAvroSerde(stored.Schema, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	minified.RegisterSubject("payments")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := registry.count("POST /subjects/payments-value/versions"); got != 1 {
		t.Errorf("%d registrations, want 1", got)
	}
}

func TestUseLatestWritesUnderTheLatestSchema(t *testing.T) {
	registry := newRegistryDouble(t)
	latest := registry.register("orders-value", NewSchema{Schema: `{"type":"record","name":"shop.Order","fields":[
		{"name":"number","type":"long","aliases":["id"]},
		{"name":"channel","type":"string","default":"web"},
		{"name":"status","type":["null",{"type":"enum","name":"Status","symbols":["NEW","OTHER"],"default":"OTHER"}],"default":null}]}`})
	cache := registry.cache(WithRegisterMode(UseLatest))
	s, err := NewGenericAvroSerde(`{"type":"record","name":"shop.Order","fields":[
		{"name":"id","type":"int"},{"name":"gone","type":"string"},
		{"name":"status","type":{"type":"enum","name":"Status","symbols":["PAID","NEW"]}}]}`, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterSubject("orders")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	for status, symbol := range map[string]string{"NEW": "00", "PAID": "02"} {
		data, err := s.Serialize("orders", map[string]any{"id": 7, "gone": "x", "status": status})
		if want := fmt.Sprintf("00%08x0e0677656202%s", latest, symbol); err != nil || hex.EncodeToString(data) != want {
			t.Errorf("Serialize = %x, %v, want %s", data, err, want)
		}
	}
}

// The latest text is the local one, and the type that it refers to is not.
func TestUseLatestWritesUnderTheReferencesOfTheLatestSchema(t *testing.T) {
	const (
		text  = `{"type":"record","name":"Order","fields":[{"name":"price","type":"Price"}]}`
		cents = `{"type":"record","name":"Price","fields":[{"name":"cents","type":"int"}]}`
		units = `{"type":"record","name":"Price","fields":[{"name":"cents","type":"int"},{"name":"unit","type":"string","default":"EUR"}]}`
	)
	registry := newRegistryDouble(t)
	registry.register("price", NewSchema{Schema: cents})
	registry.register("price", NewSchema{Schema: units})
	latest := registry.register("orders-value", NewSchema{Schema: text, References: []SchemaReference{{"Price", "price", 2}}})
	cache := registry.cache(WithRegisterMode(UseLatest))
	s, err := NewGenericAvroSerde(text, cache, RoleValue, WithReferences(Reference{Name: "Price", Subject: "price", Version: 1, Schema: cents}))
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterSubject("orders")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := s.Serialize("orders", map[string]any{"price": map[string]any{"cents": 7}})
	if want := fmt.Sprintf("00%08x0e06455552", latest); err != nil || hex.EncodeToString(data) != want {
		t.Errorf("Serialize = %x, %v, want %s", data, err, want)
	}
}

func TestUseLatestRefusesAvroThatCannotReadTheLocalSchema(t *testing.T) {
	registry := newRegistryDouble(t)
	registry.register("orders-value", NewSchema{Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"total","type":"double"}]}`})
	cache := registry.cache(WithRegisterMode(UseLatest))
	s, err := NewGenericAvroSerde(avroOrderSchema, cache, RoleValue)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterSubject("orders")
	err = cache.Prewarm(t.Context())
	if want := "total: writer record Order does not have the field, and it has no default"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Prewarm: %v, want %s", err, want)
	}
}

func TestAWriterSchemaIsCompiledOnce(t *testing.T) {
	s, cache := seededAvroSerde[any](t, avroOrderSchema, 11)
	cache.SeedWriterSchema(12, `{"type":"record","name":"Order","fields":[{"name":"gone","type":"int"},{"name":"id","type":"string"}]}`)
	data := Encode(12, []byte("\x02\x06o-1"))
	if _, err := s.Deserialize("orders", data); err != nil {
		t.Fatal(err)
	}
	allocs := leastAllocations(func() {
		if _, err := s.Deserialize("orders", data); err != nil {
			t.Fatal(err)
		}
	})
	// The value alone: a map with its table, a string and its box.
	if allocs > 4 {
		t.Errorf("%v allocations for each record", allocs)
	}
	typed, cache := seededAvroSerde[avroOrder](t, avroOrderSchema, 11)
	cache.SeedWriterSchema(12, `{"type":"record","name":"Order","fields":[{"name":"gone","type":"int"},{"name":"id","type":"string"}]}`)
	if allocs := leastAllocations(func() {
		if _, err := typed.Deserialize("orders", data); err != nil {
			t.Fatal(err)
		}
	}); allocs > 1 {
		t.Errorf("%v allocations for each typed record, want the one of the string", allocs)
	}
	buffer := make([]byte, 0, 64)
	if allocs := leastAllocations(func() {
		if _, err := typed.AppendSerialize(buffer, "orders", avroOrder{"o-1"}); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations for each record that is appended", allocs)
	}
}

func TestAvroSerdesAreSafeForConcurrentUse(t *testing.T) {
	s, cache := seededAvroSerde[any](t, benchSchema, 1)
	cache.SeedWriterSchema(2, benchSchema)
	framed, err := s.Serialize("orders", benchGeneric())
	if err != nil {
		t.Fatal(err)
	}
	body := framed[5:]
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 200 {
				value, err := s.Deserialize("orders", Encode(1+i%2, body))
				if err != nil {
					t.Error(err)
					return
				}
				data, err := s.Serialize("orders", value)
				if err != nil || string(data[5:]) != string(body) {
					t.Errorf("Serialize = %x, %v", data, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestNilValuesOptionWritesAvroNull(t *testing.T) {
	s, _ := seededAvroSerde[any](t, `["null","string"]`, 1, WithNilValues())
	data, err := s.Serialize("orders", nil)
	if err != nil || hex.EncodeToString(data) != "000000000100" {
		t.Errorf("Serialize = %x, %v", data, err)
	}
	if v, err := s.Deserialize("orders", data); v != nil || err != nil {
		t.Errorf("Deserialize = %v, %v", v, err)
	}
	bytes, _ := seededAvroSerde[[]byte](t, `"bytes"`, 1)
	if data, err := bytes.Serialize("orders", nil); err != nil || hex.EncodeToString(data) != "000000000100" {
		t.Errorf("nil bytes are %x, %v", data, err)
	}
}

func TestRecordNameOfAnAvroSerde(t *testing.T) {
	s, _ := seededAvroSerde[any](t, `{"type":"record","name":"shop.Order","fields":[]}`, 1, WithRecordStrategy(TopicRecordNameStrategy))
	if got := s.Subject("orders"); got != "orders-shop.Order" {
		t.Errorf("Subject = %s", got)
	}
	cache := NewSchemaCache(nil)
	defer cache.Close()
	if _, err := NewGenericAvroSerde(`["null","int"]`, cache, RoleValue, WithRecordStrategy(RecordNameStrategy)); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("a union has no record name: %v", err)
	}
}

func TestAvroSerdeOfAUnionWithoutBranches(t *testing.T) {
	s, _ := seededAvroSerde[any](t, `{"type":"record","name":"R","fields":[{"name":"never","type":{"type":"array","items":[]}}]}`, 1)
	data, err := s.Serialize("orders", map[string]any{"never": []any{}})
	if err != nil || hex.EncodeToString(data) != "000000000100" {
		t.Fatalf("Serialize = %x, %v", data, err)
	}
	got, err := s.Deserialize("orders", data)
	if diff := cmp.Diff(map[string]any{"never": []any{}}, got); diff != "" || err != nil {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
	if _, err := s.Serialize("orders", map[string]any{"never": []any{1}}); err == nil {
		t.Error("an item of the union without branches is written")
	}
}

// Data stay readable when a registry of another rule book has stored their
// schema.
func TestAvroWritersThatRegistriesStoredAreRead(t *testing.T) {
	s, cache := seededAvroSerde[any](t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, 1)
	for i, text := range []string{
		`{"type":"record","name":"R","namespace":"my-team.x","fields":[{"name":"a","type":"int"}]}`,
		`{"type":"record","name":"R","namespace":"com.2x","fields":[{"name":"a","type":"int"}]}`,
		`{"type":"record","name":"R","namespace":"com.x.Outer$","fields":[{"name":"a","type":"int"}]}`,
		`{"type":"record","name":"R","doc":"x","doc":"y","fields":[{"name":"a","type":"int","aliases":["b-c"]}]}`,
	} {
		cache.SeedWriterSchema(10+i, text)
		got, err := s.Deserialize("orders", Encode(10+i, []byte{4}))
		if diff := cmp.Diff(map[string]any{"a": 2}, got); diff != "" || err != nil {
			t.Errorf("%s: %v, mismatch (-want +got):\n%s", text, err, diff)
		}
		if _, err := NewGenericAvroSerde(text, cache, RoleValue); err == nil {
			t.Errorf("%s: it is taken as a schema of one's own", text)
		}
	}
}

func TestLongAvroStringsAndBytesHaveNoOtherLimit(t *testing.T) {
	text := strings.Repeat("a", 3<<20)
	s, _ := seededAvroSerde[any](t, `{"type":"record","name":"R","fields":[{"name":"s","type":"string"},{"name":"b","type":"bytes"}]}`, 1)
	data, err := s.Serialize("orders", map[string]any{"s": text, "b": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Deserialize("orders", data)
	if err != nil {
		t.Fatal(err)
	}
	record := got.(map[string]any)
	if record["s"] != text || string(record["b"].([]byte)) != text {
		t.Error("the values differ")
	}
}
