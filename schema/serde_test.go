// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainFormat writes text as its body, behind the indexes of its path, and reads
// it back with the text of the writer schema in front.
type plainFormat struct {
	path      []int // nil: not indexed
	encodings atomic.Int32
	decodings atomic.Int32
	failure   error
}

func (f *plainFormat) indexed() bool     { return f.path != nil }
func (f *plainFormat) needsWriter() bool { return true }

func (f *plainFormat) compileEncoder(target *writerSchema) (encoder[any], error) {
	f.encodings.Add(1)
	if f.failure != nil {
		return encoder[any]{}, f.failure
	}
	var indexes []byte
	if f.path != nil {
		indexes, _ = appendMessageIndexes(nil, f.path)
	}
	return encoder[any]{indexes: indexes, appendBody: func(dst []byte, value any) ([]byte, error) {
		text, ok := value.(string)
		if !ok {
			return dst, fmt.Errorf("%T is not text", value)
		}
		return append(append(dst, text...), target.text...), nil
	}}, nil
}

func (f *plainFormat) compileDecoder(writer *writerSchema) (decoder[any], error) {
	f.decodings.Add(1)
	if f.failure != nil {
		return nil, f.failure
	}
	return func(indexes, body []byte) (any, error) {
		if bytes.Equal(body, []byte("bad")) {
			return nil, errors.New("a bad body")
		}
		if f.path == nil {
			return writer.text + "|" + string(body), nil
		}
		return fmt.Sprint(writer.text, "|", messageIndexes(indexes), "|", string(body)), nil
	}, nil
}

// newPlainSerde returns a core over plainFormat with schema text "S".
func newPlainSerde(tb testing.TB, cache *SchemaCache, f *plainFormat, options ...SerdeOption) *serdeCore[any] {
	tb.Helper()
	o, err := serdeOptionsFor(KindProtobuf, new(protobufOptions), options)
	if err != nil {
		tb.Fatal(err)
	}
	s := new(serdeCore[any])
	if err := s.init(serdeSpec{kind: KindProtobuf, text: "S", recordName: "demo.Rec"}, cache, RoleValue, o, f); err != nil {
		tb.Fatal(err)
	}
	return s
}

func offlineCache(tb testing.TB, options ...SchemaCacheOption) *SchemaCache {
	tb.Helper()
	cache := NewSchemaCache(nil, options...)
	tb.Cleanup(func() { _ = cache.Close() })
	return cache
}

func TestTombstones(t *testing.T) {
	cache := seededCache(t, "t-value", 1, `{}`)
	anySerde := newJSONSerde[any](t, `{}`, cache, true)
	pointers := newJSONSerde[*jsonOrder](t, `{}`, cache, true)
	for _, value := range []any{nil, (*jsonOrder)(nil)} {
		if payload, err := anySerde.Serialize("unresolved topic", value); payload != nil || err != nil {
			t.Errorf("%T: payload %q, error %v, want a tombstone", value, payload, err)
		}
	}
	if payload, err := pointers.Serialize("t", nil); payload != nil || err != nil {
		t.Errorf("payload %q, error %v, want a tombstone", payload, err)
	}
	if payload, err := pointers.AppendSerialize([]byte("x"), "t", nil); payload != nil || err != nil {
		t.Errorf("payload %q, error %v, want a tombstone", payload, err)
	}
	for _, data := range [][]byte{nil, {}} {
		if value, err := pointers.Deserialize("t", data); value != nil || err != nil {
			t.Errorf("%#v became %v, %v, want nil", data, value, err)
		}
	}

	slices := newJSONSerde[[]string](t, `{}`, cache, true)
	if payload, err := slices.Serialize("t", nil); err != nil || string(payload) != "\x00\x00\x00\x00\x01null" {
		t.Errorf("a nil slice became %q, %v, want a value", payload, err)
	}
	if payload, err := anySerde.Serialize("t", map[string]any(nil)); err != nil || string(payload[5:]) != "null" {
		t.Errorf("a nil map became %q, %v, want a value", payload, err)
	}
	nils := newJSONSerde[*jsonOrder](t, `{}`, cache, true, WithNilValues())
	if payload, err := nils.Serialize("t", nil); err != nil || string(payload) != "\x00\x00\x00\x00\x01null" {
		t.Errorf("with nil values nil became %q, %v", payload, err)
	}
}

func TestUnresolvedSubjectSaysWhatToCall(t *testing.T) {
	double := newInProcessRegistry(t)
	double.failing(401, `{"error_code":40101,"message":"Unauthorized"}`)
	cache := double.cache()
	serde := newJSONSerde[any](t, `{}`, cache, false)
	_, err := serde.Serialize("orders", "x")
	var unresolved *UnresolvedSubjectError
	if !errors.As(err, &unresolved) || unresolved.Subject != "orders-value" || unresolved.Unwrap() != nil ||
		err.Error() != "schema ID for orders-value is not resolved; call RegisterSubject and prewarm first" {
		t.Errorf("error is %#v", err)
	}
	serde.RegisterSubject("orders")
	if err := cache.Prewarm(t.Context()); !errors.Is(err, ErrUnauthorized) {
		t.Fatalf("prewarm error is %v", err)
	}
	if _, err := serde.Serialize("orders", "x"); !errors.Is(err, ErrUnauthorized) || !errors.As(err, &unresolved) {
		t.Errorf("error after a failed prewarm is %v, want its cause in the chain", err)
	}
	if _, _, err := serde.SerializeWithHeaders("orders", "x", nil); !errors.As(err, &unresolved) {
		t.Errorf("error is %v", err)
	}
}

func TestSubjectStrategies(t *testing.T) {
	byTopic := offlineCache(t)
	custom := offlineCache(t, WithSubjectNameStrategy(func(topic string, role Role) string { return role.String() + ":" + topic }))
	tests := []struct {
		name    string
		cache   *SchemaCache
		options []SerdeOption
		want    string
	}{
		{"topic name by default", byTopic, nil, "orders-value"},
		{"the cache's", custom, nil, "VALUE:orders"},
		{"the serde's over the cache's", custom, []SerdeOption{WithStrategy(TopicNameStrategy)}, "orders-value"},
		{"record name", byTopic, []SerdeOption{WithRecordStrategy(RecordNameStrategy)}, "demo.Rec"},
		{"topic and record name", byTopic, []SerdeOption{WithRecordStrategy(TopicRecordNameStrategy)}, "orders-demo.Rec"},
		{"the caller's own", byTopic, []SerdeOption{WithRecordStrategy(func(topic string, role Role, record string) string {
			return fmt.Sprint(topic, "/", role, "/", record)
		})}, "orders/VALUE/demo.Rec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			serde := newPlainSerde(t, tt.cache, &plainFormat{}, tt.options...)
			if got := serde.Subject("orders"); got != tt.want {
				t.Fatalf("Subject = %q, want %q", got, tt.want)
			}
			_, err := serde.Serialize("orders", "x")
			if unresolved, ok := errors.AsType[*UnresolvedSubjectError](err); !ok || unresolved.Subject != tt.want {
				t.Errorf("error is %v, want it to name %s", err, tt.want)
			}
		})
	}
	if got := byTopic.Subject("orders", RoleKey); got != "orders-key" {
		t.Errorf("key subject is %q", got)
	}
	if got := byTopic.SubjectWith("orders", RoleValue, func(topic string, _ Role) string { return topic }); got != "orders" {
		t.Errorf("SubjectWith = %q", got)
	}
	if RoleKey.String() != "KEY" || RoleValue.String() != "VALUE" || Role(7).String() != "VALUE" {
		t.Error("role names differ")
	}
}

func TestStrategyOfASerdeChoosesTheSeededID(t *testing.T) {
	cache := seededCache(t, "fixed", 14, `{}`)
	serde := newJSONSerde[any](t, `{}`, cache, true, WithStrategy(func(string, Role) string { return "fixed" }))
	payload, err := serde.Serialize("ignored", 1)
	if err != nil {
		t.Fatal(err)
	}
	if frame, err := Decode(payload); err != nil || frame.SchemaID != 14 {
		t.Errorf("frame is %v, %v, want id 14", frame, err)
	}
}

func TestSerdeErrorsAreWrappedOnce(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	serde := newPlainSerde(t, cache, &plainFormat{})
	dst := []byte("kept")
	out, err := serde.AppendSerialize(dst, "t", 5)
	if string(out) != "kept" || err == nil || err.Error() != "cannot serialize schema value: int is not text (PROTOBUF schema 1, subject t-value)" {
		t.Errorf("AppendSerialize = %q, %v", out, err)
	}
	if payload, err := serde.Serialize("t", 5); payload != nil || err == nil {
		t.Errorf("Serialize = %q, %v", payload, err)
	}
	if _, err := serde.Deserialize("t", Encode(1, []byte("bad"))); err == nil ||
		err.Error() != "cannot deserialize schema value: a bad body (PROTOBUF schema 1, subject t-value)" {
		t.Errorf("error is %v", err)
	} else if wrong, ok := errors.AsType[*DeserializeError](err); !ok || wrong.Subject != "t-value" || wrong.SchemaID != 1 ||
		wrong.GUID != "" || wrong.Kind != KindProtobuf || wrong.Unwrap().Error() != "a bad body" {
		t.Errorf("error is %#v", err)
	}
	for n := 1; n < 5; n++ {
		_, err := serde.Deserialize("t", make([]byte, n))
		want := fmt.Sprintf("schema frame is shorter than 5 bytes at byte %d (PROTOBUF, subject t-value)", n)
		if frame, ok := errors.AsType[*FrameError](err); !ok || err.Error() != want || frame.Subject != "t-value" || frame.Kind != KindProtobuf {
			t.Errorf("%d bytes: error is %v, want %s", n, err, want)
		}
	}
	broken := newPlainSerde(t, cache, &plainFormat{failure: errors.New("no plan")})
	_, first := broken.Deserialize("t", Encode(1, nil))
	_, second := broken.Deserialize("t", Encode(1, nil))
	if first == nil || first.Error() != "cannot deserialize schema value: no plan (PROTOBUF schema 1, subject t-value)" ||
		errors.Unwrap(first) != errors.Unwrap(second) {
		t.Errorf("compile errors are %v and %v, want one that is kept", first, second)
	}
	if _, err := broken.Serialize("t", "x"); err == nil || err.Error() != "cannot serialize schema value: no plan (PROTOBUF schema 1, subject t-value)" {
		t.Errorf("error is %v", err)
	}
}

func TestUnknownWriterSchemaIsPendingWithoutIO(t *testing.T) {
	client, err := NewRegistryClient("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	cache := NewSchemaCache(client)
	serde := newJSONSerde[any](t, `{}`, cache, true)
	_, err = serde.Deserialize("t", Encode(99, []byte(`{}`)))
	pending, ok := err.(*FetchPendingError)
	if !ok || pending.SchemaID != 99 || !pending.Retriable() || err.Error() != "writer schema for id 99 is pending fetch" {
		t.Errorf("error is %#v", err)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneCompilationForEachSchema(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "one")
	cache.SeedWriterSchema(2, "two")
	f := &plainFormat{}
	serde := newPlainSerde(t, cache, f)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				for id, want := range map[int]any{1: "one|x", 2: "two|x"} {
					if got, err := serde.Deserialize("t", Encode(id, []byte("x"))); err != nil || got != want {
						t.Errorf("id %d: %v, %v", id, got, err)
					}
				}
				if _, err := serde.Serialize("t", "x"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if f.decodings.Load() != 2 || f.encodings.Load() != 1 {
		t.Errorf("%d decoders and %d encoders were compiled, want 2 and 1", f.decodings.Load(), f.encodings.Load())
	}

	cache.SeedWriterSchema(2, "new")
	for id, want := range map[int]any{1: "one|x", 2: "new|x"} {
		if got, err := serde.Deserialize("t", Encode(id, []byte("x"))); err != nil || got != want {
			t.Errorf("after seeding id 2 again, id %d: %v, %v", id, got, err)
		}
	}
	if f.decodings.Load() != 3 {
		t.Errorf("%d decoders were compiled, want one more", f.decodings.Load())
	}
	cache.SeedSubjectID("t-value", 7)
	payload, err := serde.Serialize("t", "x")
	if err != nil || !bytes.Equal(payload, Encode(7, []byte("xS"))) {
		t.Errorf("after seeding the subject again: %q, %v", payload, err)
	}
}

func TestSerializedPayloadsBelongToTheCaller(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	serde := newPlainSerde(t, cache, &plainFormat{})
	first, err := serde.Serialize("t", "aaaa")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serde.Serialize("t", "bbbb"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, Encode(1, []byte("aaaaS"))) {
		t.Errorf("the next call changed a payload to %q", first)
	}
	out, err := serde.AppendSerialize([]byte("head"), "t", "x")
	if err != nil || string(out) != "head\x00\x00\x00\x00\x01xS" {
		t.Errorf("AppendSerialize = %q, %v", out, err)
	}
}

func TestHeadersCarryTheNumericID(t *testing.T) {
	cache := seededCache(t, "t-value", 258, "W")
	serde := newPlainSerde(t, cache, &plainFormat{path: []int{1, 0}})
	payload, headers, err := serde.SerializeWithHeaders("t", "x", []Header{{Key: "trace", Value: []byte("1")}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Header{{"trace", []byte("1")}, {"__value_schema_id", []byte{0, 0, 0, 1, 2, 4, 2, 0}}}
	if diff := cmp.Diff(want, headers); diff != "" {
		t.Errorf("headers mismatch (-want +got):\n%s", diff)
	}
	if string(payload) != "xS" {
		t.Errorf("payload is %q, want a bare body", payload)
	}
	if got, err := serde.DeserializeWithHeaders("t", payload, headers); err != nil || got != "W|[1 0]|xS" {
		t.Errorf("got %v, %v", got, err)
	}
	empty, headers, err := serde.SerializeWithHeaders("t", nil, nil)
	if empty != nil || headers != nil || err != nil {
		t.Errorf("a tombstone became %q with %v, %v", empty, headers, err)
	}
	if got, err := serde.DeserializeWithHeaders("t", nil, want); got != nil || err != nil {
		t.Errorf("a nil payload became %v, %v", got, err)
	}
	if got, err := serde.DeserializeWithHeaders("t", []byte{}, want); got != "W|[1 0]|" || err != nil {
		t.Errorf("an empty payload became %v, %v", got, err)
	}
}

func TestHeaderGUIDs(t *testing.T) {
	double := newInProcessRegistry(t)
	id := double.register("t-value", NewSchema{Kind: KindProtobuf, Schema: "S"})
	cache := double.cache(WithRegisterMode(LookupOnly))
	serde := newPlainSerde(t, cache, &plainFormat{path: []int{0}})
	serde.RegisterSubject("t")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	payload, headers, err := serde.SerializeWithHeaders("t", "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	guid := doubleGUID(id)
	if diff := cmp.Diff([]Header{{"__value_schema_id", append(append([]byte{1}, guid[:]...), 0)}}, headers); diff != "" {
		t.Errorf("headers mismatch (-want +got):\n%s", diff)
	}
	_, err = serde.DeserializeWithHeaders("t", payload, headers)
	pending, ok := errors.AsType[*FetchPendingError](err)
	if !ok || err.Error() != "writer schema for id "+guid.String()+" is pending fetch" {
		t.Fatalf("error is %v", err)
	}
	<-pending.Done()
	if got, err := serde.DeserializeWithHeaders("t", payload, headers); err != nil || got != "S|[0]|xS" {
		t.Errorf("got %v, %v", got, err)
	}
	if n := double.count("GET /schemas/guids/" + guid.String()); n != 1 {
		t.Errorf("the GUID was asked for %d times", n)
	}
	prefixed := append(append([]byte{1}, guid[:]...), "\x00body"...)
	if got, err := serde.Deserialize("t", prefixed); err != nil || got != "S|[0]|body" {
		t.Errorf("a GUID in front of the payload: %v, %v", got, err)
	}
	unknown := append([]byte{1}, make([]byte, 16)...)
	_, err = serde.DeserializeWithHeaders("t", payload, []Header{{"__value_schema_id", append(unknown, 0)}})
	if pending, ok := errors.AsType[*FetchPendingError](err); ok {
		<-pending.Done()
	}
	_, err = serde.DeserializeWithHeaders("t", payload, []Header{{"__value_schema_id", append(unknown, 0)}})
	unavailable, ok := errors.AsType[*SchemaUnavailableError](err)
	if !ok || unavailable.GUID != "00000000-0000-0000-0000-000000000000" || !errors.Is(err, ErrSchemaNotFound) {
		t.Fatalf("error of an unknown GUID is %v", err)
	}
	if unavailable.Subject != "t-value" || unavailable.Kind != KindProtobuf || !strings.HasSuffix(err.Error(), " (PROTOBUF, subject t-value)") {
		t.Errorf("error of an unknown GUID is %v, want the subject", err)
	}
}

func TestHeaderBeatsPrefixAndTheLastOneCounts(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "one")
	cache.SeedWriterSchema(2, "two")
	serde := newPlainSerde(t, cache, &plainFormat{})
	framed := Encode(1, []byte("x"))
	tests := []struct {
		name    string
		headers []Header
		want    string
	}{
		{"no header", nil, "one|x"},
		{"the other role's header", []Header{{"__key_schema_id", []byte{0, 0, 0, 0, 2}}}, "one|x"},
		{"header", []Header{{"__value_schema_id", []byte{0, 0, 0, 0, 2}}}, "two|" + string(framed)},
		{"two headers", []Header{{"__value_schema_id", []byte{9}}, {"__value_schema_id", []byte{0, 0, 0, 0, 2}}}, "two|" + string(framed)},
	}
	for _, tt := range tests {
		if got, err := serde.DeserializeWithHeaders("t", framed, tt.headers); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if value, err := serde.DeserializeWithHeaders("t", []byte{}, nil); value != nil || err != nil {
		t.Errorf("an empty payload without a header became %v, %v", value, err)
	}
}

func TestBadHeadersAreTypedErrors(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	plain, indexed := newPlainSerde(t, cache, &plainFormat{}), newPlainSerde(t, cache, &plainFormat{path: []int{0}})
	tests := []struct {
		name  string
		serde *serdeCore[any]
		value []byte
		want  string
	}{
		{"nil", plain, nil, "header __value_schema_id: schema frame is shorter than 5 bytes at byte 0 (PROTOBUF, subject t-value)"},
		{"magic", plain, []byte{7, 0, 0, 0, 1}, "header __value_schema_id: invalid schema frame magic byte 0x07 at byte 0 (PROTOBUF, subject t-value)"},
		{"short GUID", plain, []byte{1, 2, 3}, "header __value_schema_id: invalid schema frame magic byte 0x01: 3 bytes are too few for a GUID at byte 3 (PROTOBUF, subject t-value)"},
		{"trailing", plain, []byte{0, 0, 0, 0, 1, 9}, "header __value_schema_id: 1 bytes follow the schema id at byte 5 (PROTOBUF schema 1, subject t-value)"},
		{"no indexes", indexed, []byte{0, 0, 0, 0, 1}, "header __value_schema_id: truncated Protobuf message-index varint; the message indexes are malformed or absent at byte 5 (PROTOBUF schema 1, subject t-value)"},
		{"trailing after indexes", indexed, []byte{0, 0, 0, 0, 1, 0, 9}, "header __value_schema_id: 1 bytes follow the schema id at byte 6 (PROTOBUF schema 1, subject t-value)"},
	}
	for _, tt := range tests {
		_, err := tt.serde.DeserializeWithHeaders("t", []byte("x"), []Header{{"__value_schema_id", tt.value}})
		if frame := new(*FrameError); !errors.As(err, frame) || err.Error() != tt.want {
			t.Errorf("%s: error is %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestAKeySerdeUsesTheKeyHeader(t *testing.T) {
	cache := seededCache(t, "t-key", 1, `{}`)
	serde, err := NewJSONSchemaSerde[any](`{}`, cache, RoleKey, true)
	if err != nil {
		t.Fatal(err)
	}
	_, headers, err := serde.SerializeWithHeaders("t", "k", nil)
	if err != nil || len(headers) != 1 || headers[0].Key != "__key_schema_id" || serde.Role() != RoleKey {
		t.Errorf("headers are %v, %v", headers, err)
	}
}

func TestAWriterOfAnotherKindIsRefused(t *testing.T) {
	double := newInProcessRegistry(t)
	id := double.register("t-value", NewSchema{Kind: KindAvro, Schema: `"string"`})
	cache := double.cache()
	if _, err := cache.AwaitWriterSchema(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := newJSONSerde[any](t, `{}`, cache, true).Deserialize("t", Encode(id, []byte(`{}`)))
	if err == nil || err.Error() != "cannot deserialize schema value: writer schema 1 is AVRO, the serde is for JSON (JSON schema 1, subject t-value)" {
		t.Errorf("error is %v", err)
	}
}

func TestOptionsOfAnotherFormatAreRefused(t *testing.T) {
	for name, option := range map[string]SerdeOption{
		"WithReaderValidation": WithReaderValidation(), "WithExactNumbers": WithExactNumbers(), "WithKnownFieldsOnly": WithKnownFieldsOnly(),
	} {
		_, err := serdeOptionsFor(KindAvro, new(struct{}), []SerdeOption{option, WithStrategy(nil), WithRecordStrategy(nil)})
		want := name + " is an option of JSON serdes, not of AVRO ones"
		if !errors.Is(err, ErrInvalidOption) || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("error is %v, want %s and two more", err, want)
		}
	}
}

func TestOptionsOfValuesAreNotOptionsOfFramers(t *testing.T) {
	_, err := NewFramer[int, int](FramerSpec{Kind: KindAvro, Schema: `"int"`}, NewSchemaCache(nil), RoleValue, nil, WithTaggedUnions())
	if want := "WithTaggedUnions is an option of AVRO serdes, not of framers"; !errors.Is(err, ErrInvalidOption) || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestTwoSchemasOfOneSubjectKeepTheirIDs(t *testing.T) {
	double := newInProcessRegistry(t)
	cache := double.cache()
	one := newJSONSerde[any](t, `{"title":"One"}`, cache, false)
	two := newJSONSerde[any](t, `{"title":"Two"}`, cache, false)
	one.RegisterSubject("t")
	two.RegisterSubject("t")
	report := cache.PrewarmReport(t.Context())
	if diff := cmp.Diff([]string{"t-value"}, report.Conflicts); diff != "" {
		t.Errorf("conflicts mismatch (-want +got):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, serde := range []*JSONSchemaSerde[any]{one, two} {
		payload, err := serde.Serialize("t", 1)
		if err != nil {
			t.Fatal(err)
		}
		ids[string(payload[:5])] = true
	}
	if len(ids) != 2 {
		t.Errorf("two schemas were written under %d ids", len(ids))
	}
	if id, ok := cache.IDForSubject("t-value"); !ok || id != report.Resolved["t-value"] {
		t.Errorf("IDForSubject = %d, %v, the report says %v", id, ok, report.Resolved)
	}
	// White space is not a difference.
	same := newJSONSerde[any](t, `{ "title": "One" }`, cache, false)
	if _, err := same.Serialize("t", 1); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyBodyBehindAHeaderIsNoTombstone(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	o, err := serdeOptionsFor(KindProtobuf, new(protobufOptions), nil)
	if err != nil {
		t.Fatal(err)
	}
	serde := new(serdeCore[any])
	if err := serde.init(serdeSpec{kind: KindProtobuf, text: "W"}, cache, RoleValue, o, constantFormat{}); err != nil {
		t.Fatal(err)
	}
	payload, headers, err := serde.SerializeWithHeaders("t", []byte{}, nil)
	if err != nil || payload == nil || len(payload) != 0 || len(headers) != 1 {
		t.Errorf("an empty body became %#v with %v, %v", payload, headers, err)
	}
}

// leastAllocations returns how many objects a call allocates when the pools that
// it uses are warm. Under the race detector they lose what they hold at random.
func leastAllocations(call func()) float64 {
	least := testing.AllocsPerRun(1, call)
	for range 99 {
		least = min(least, testing.AllocsPerRun(1, call))
	}
	return least
}

func TestTheFramePathDoesNotAllocate(t *testing.T) {
	cache := seededCache(t, "t-value", 1, "W")
	o, err := serdeOptionsFor(KindProtobuf, new(protobufOptions), nil)
	if err != nil {
		t.Fatal(err)
	}
	serde := new(serdeCore[any])
	if err := serde.init(serdeSpec{kind: KindProtobuf, text: "W"}, cache, RoleValue, o, constantFormat{}); err != nil {
		t.Fatal(err)
	}
	var value any = []byte("body")
	buffer := make([]byte, 0, 64)
	headers := []Header{{ValueSchemaIDHeader, []byte{0, 0, 0, 0, 1}}}
	framed := Encode(1, []byte("body"))
	for name, call := range map[string]func() error{
		"append":                   func() error { _, err := serde.AppendSerialize(buffer, "t", value); return err },
		"deserialize":              func() error { _, err := serde.Deserialize("t", framed); return err },
		"deserialize with headers": func() error { _, err := serde.DeserializeWithHeaders("t", framed[5:], headers); return err },
		"writer schema":            func() error { _, err := cache.WriterSchema(1); return err },
		"frame view":               func() error { _, err := DecodeView(framed); return err },
		"frame append":             func() error { _, err := AppendEncode(buffer, 1, framed[5:]); return err },
	} {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := leastAllocations(func() { _ = call() }); n != 0 {
			t.Errorf("%s allocates %v objects", name, n)
		}
	}
}
