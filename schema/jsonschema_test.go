// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

const orderSchema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "Order",
  "type": "object",
  "properties": {"id": {"type": "string"}, "total": {"type": "integer"}},
  "required": ["id"]
}`

type jsonOrder struct {
	ID    string `json:"id"`
	Total int64  `json:"total,omitempty"`
}

// seededCache returns a cache without a client that knows one id.
func seededCache(tb testing.TB, subject string, id int, text string) *SchemaCache {
	tb.Helper()
	cache := NewSchemaCache(nil)
	tb.Cleanup(func() { _ = cache.Close() })
	cache.SeedSubjectID(subject, id)
	cache.SeedWriterSchema(id, text)
	return cache
}

func newJSONSerde[T any](tb testing.TB, text string, cache *SchemaCache, validate bool, options ...SerdeOption) *JSONSchemaSerde[T] {
	tb.Helper()
	serde, err := NewJSONSchemaSerde[T](text, cache, RoleValue, validate, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return serde
}

func TestJSONValuesRoundTrip(t *testing.T) {
	cache := seededCache(t, "orders-value", 11, orderSchema)
	serde := newJSONSerde[jsonOrder](t, orderSchema, cache, true)
	want := jsonOrder{ID: "o-1", Total: 1<<62 + 1}
	payload, err := serde.Serialize("orders", want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("\x00\x00\x00\x00\x0b"+`{"id":"o-1","total":4611686018427387905}`, string(payload)); diff != "" {
		t.Errorf("payload mismatch (-want +got):\n%s", diff)
	}
	got, err := serde.Deserialize("orders", payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONValidationNamesEveryViolation(t *testing.T) {
	cache := seededCache(t, "orders-value", 11, orderSchema)
	serde := newJSONSerde[any](t, orderSchema, cache, true)

	payload, err := serde.Serialize("orders", map[string]any{"total": "many"})
	if payload != nil {
		t.Errorf("an invalid document was written: %q", payload)
	}
	const want = `cannot serialize schema value: JSON Schema validation failed: missing property 'id' at "" (and 1 more) (JSON schema 11, subject orders-value)`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	var invalid *ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %T, want a ValidationError in the chain", err)
	}
	violations := []Violation{
		{Pointer: "", Message: "missing property 'id'", Keyword: jsoncheck.Address + "#/required"},
		{Pointer: "/total", Message: "got string, want integer", Keyword: jsoncheck.Address + "#/properties/total/type"},
	}
	if diff := cmp.Diff(violations, invalid.Violations); diff != "" {
		t.Errorf("violations mismatch (-want +got):\n%s", diff)
	}

	_, err = serde.Deserialize("orders", Encode(11, []byte(`{}`)))
	const wantRead = `cannot deserialize schema value: JSON Schema validation failed: missing property 'id' at "" (JSON schema 11, subject orders-value)`
	if err == nil || err.Error() != wantRead {
		t.Errorf("error is %v, want %s", err, wantRead)
	}
}

func TestJSONConstructorErrors(t *testing.T) {
	cache := NewSchemaCache(nil)
	t.Cleanup(func() { _ = cache.Close() })
	tests := []struct {
		name     string
		text     string
		validate bool
		options  []SerdeOption
		want     string
	}{
		{"not JSON, unvalidated", `{`, false, nil, "invalid JSON Schema"},
		{"not JSON", `{`, true, nil, "invalid JSON Schema: unexpected EOF"},
		{"trailing data", `{} {}`, true, nil, "invalid JSON Schema: data follows the JSON value"},
		{"dialect", `{}`, true, []SerdeOption{WithJSONDialect(3)}, "unknown JSON Schema dialect 3"},
		{"formats", `{}`, true, []SerdeOption{WithFormatAssertion(), WithoutFormatAssertion()}, "WithFormatAssertion excludes WithoutFormatAssertion"},
		{"codec", `{}`, true, []SerdeOption{WithExactNumbers(), WithJSONCodec(json.Marshal, json.Unmarshal)}, "WithJSONCodec excludes WithExactNumbers and WithKnownFieldsOnly"},
		{"nil codec", `{}`, true, []SerdeOption{WithJSONCodec(nil, json.Unmarshal)}, "JSON codec must not be nil"},
		{"nil regexp", `{}`, true, []SerdeOption{WithJSONRegexp(nil)}, "regexp compiler must not be nil"},
		{"strategies", `{"title":"T"}`, true, []SerdeOption{WithStrategy(TopicNameStrategy), WithRecordStrategy(RecordNameStrategy)}, "WithStrategy excludes WithRecordStrategy"},
		{"no title", `{}`, true, []SerdeOption{WithRecordStrategy(RecordNameStrategy)}, "WithRecordStrategy needs a schema with a record name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewJSONSchemaSerde[any](tt.text, cache, RoleValue, tt.validate, tt.options...)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
			if tt.options != nil && !errors.Is(err, ErrInvalidOption) {
				t.Errorf("error %v does not match ErrInvalidOption", err)
			}
		})
	}
	if _, err := NewJSONSchemaSerde[any](`{"type":"no such type"}`, cache, RoleValue, true); err == nil ||
		!strings.HasPrefix(err.Error(), "invalid JSON Schema: ") {
		t.Errorf("error of a schema that does not compile is %v", err)
	}
	if _, err := NewJSONSchemaSerde[any](`{}`, nil, RoleValue, true); err == nil || err.Error() != "schema cache must not be nil" {
		t.Errorf("error without a cache is %v", err)
	}
	if _, err := NewJSONSchemaSerde[any](`{}`, cache, Role(2), true); err == nil || err.Error() != "unknown role 2" {
		t.Errorf("error of an unknown role is %v", err)
	}
}

// jsonAccepts reports whether a validating serde of schema accepts document.
func jsonAccepts(tb testing.TB, schema, document string, options ...SerdeOption) error {
	tb.Helper()
	cache := seededCache(tb, "t-value", 1, schema)
	_, err := newJSONSerde[any](tb, schema, cache, true, options...).Deserialize("t", Encode(1, []byte(document)))
	return err
}

func TestJSONDialects(t *testing.T) {
	tuple := `{"items":[{"type":"string"},{"type":"integer"}]}`
	prefix := `{"prefixItems":[{"type":"string"}]}`
	date := `{"format":"date-time"}`
	tests := []struct {
		name, schema, document string
		options                []SerdeOption
		valid                  bool
	}{
		{"tuples are draft-07 by default", tuple, `["a","b"]`, nil, false},
		{"a good tuple", tuple, `["a",1]`, nil, true},
		{"prefixItems is not draft-07", prefix, `[1]`, nil, true},
		{"prefixItems in 2020-12", prefix, `[1]`, []SerdeOption{WithJSONDialect(JSONDraft2020)}, false},
		{"$schema beats the option", `{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}`,
			`[1]`, []SerdeOption{WithJSONDialect(JSONDraft7)}, false},
		{"formats are checked by default", date, `"nope"`, nil, false},
		{"formats can be ignored", date, `"nope"`, []SerdeOption{WithoutFormatAssertion()}, true},
		{"formats are annotations in 2020-12", date, `"nope"`, []SerdeOption{WithJSONDialect(JSONDraft2020)}, true},
		{"formats can be checked in 2020-12", date, `"nope"`, []SerdeOption{WithJSONDialect(JSONDraft2020), WithFormatAssertion()}, false},
		{"boolean exclusiveMaximum of draft-04", `{"maximum":5,"exclusiveMaximum":true}`, `5`, []SerdeOption{WithJSONDialect(JSONDraft4)}, false},
		{"const of draft-06", `{"const":1}`, `2`, []SerdeOption{WithJSONDialect(JSONDraft6)}, false},
		{"no const in draft-04", `{"const":1}`, `2`, []SerdeOption{WithJSONDialect(JSONDraft4)}, true},
		{"dependentRequired of 2019-09", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []SerdeOption{WithJSONDialect(JSONDraft2019)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := jsonAccepts(t, tt.schema, tt.document, tt.options...)
			if invalid := new(*ValidationError); (err == nil) != tt.valid || err != nil && !errors.As(err, invalid) {
				t.Errorf("error is %v, want valid %v", err, tt.valid)
			}
		})
	}
	if got := []string{JSONDraft4.String(), JSONDraft7.String(), JSONDraft2019.String(), JSONDraft2020.String(), JSONDialect(5).String()}; !cmp.Equal(got, []string{"draft-04", "draft-07", "2019-09", "2020-12", "JSONDialect(5)"}) {
		t.Errorf("names are %q", got)
	}
}

func TestJSONSchemaReadsNoFilesAndNoNetwork(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(secret))
	double := newRegistryDouble(t)
	for _, ref := range []string{"file://" + secret, "secret.json", "./secret.json", double.url + "/schemas/ids/1", "http://json-schema.org.invalid/x"} {
		schema := `{"$ref":` + string(mustJSON(t, ref)) + `}`
		cache := seededCache(t, "t-value", 3, schema)
		serde := newJSONSerde[any](t, `{}`, cache, true)
		_, err := serde.Deserialize("t", Encode(3, []byte(`"x"`)))
		if err == nil || !strings.Contains(err.Error(), "invalid writer JSON Schema 3: ") ||
			!strings.Contains(err.Error(), "not among the schema's registry references") {
			t.Errorf("$ref %q: error is %v", ref, err)
		}
		if _, err := NewJSONSchemaSerde[any](schema, cache, RoleValue, true); err == nil {
			t.Errorf("$ref %q: a local schema compiled", ref)
		}
	}
	if got := double.recorded(); len(got) != 0 {
		t.Errorf("the schema made requests: %q", got)
	}
}

func mustJSON(tb testing.TB, value any) []byte {
	tb.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestJSONReferencesComeFromTheRegistry(t *testing.T) {
	double := newRegistryDouble(t)
	double.register("money", NewSchema{Kind: KindJSON, Schema: `{"type":"integer","minimum":0}`})
	double.register("item", NewSchema{Kind: KindJSON, Schema: `{"type":"object","properties":{"price":{"$ref":"money.json"}}}`,
		References: []SchemaReference{{Name: "money.json", Subject: "money", Version: 1}}})
	schema := `{"$id":"http://example.com/schemas/order.json","properties":{"item":{"$ref":"item.json"},"total":{"$ref":"money.json#"}}}`
	id := double.register("orders-value", NewSchema{Kind: KindJSON, Schema: schema, References: []SchemaReference{
		{Name: "item.json", Subject: "item", Version: 1}, {Name: "money.json", Subject: "money", Version: 1},
	}})
	cache := double.cache()
	if _, err := cache.AwaitWriterSchema(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	serde := newJSONSerde[any](t, `{}`, cache, true)
	if _, err := serde.Deserialize("orders", Encode(id, []byte(`{"item":{"price":1},"total":2}`))); err != nil {
		t.Errorf("a valid document: %v", err)
	}
	for _, document := range []string{`{"item":{"price":-1}}`, `{"total":-1}`} {
		_, err := serde.Deserialize("orders", Encode(id, []byte(document)))
		if invalid := new(*ValidationError); !errors.As(err, invalid) {
			t.Errorf("%s: error is %v, want a ValidationError", document, err)
		}
	}
	if n := double.count("GET /subjects/money/versions/1?deleted=true"); n != 1 {
		t.Errorf("the shared reference was fetched %d times, want once", n)
	}
}

func TestJSONLocalReferences(t *testing.T) {
	double := newRegistryDouble(t)
	cache := double.cache()
	money := Reference{Name: "money.json", Subject: "money", Schema: `{"type":"integer"}`}
	item := Reference{Name: "item.json", Subject: "item", Schema: `{"properties":{"price":{"$ref":"money.json"}}}`, References: []Reference{money}}
	schema := `{"title":"Order","properties":{"item":{"$ref":"item.json"},"total":{"$ref":"money.json"}}}`
	serde := newJSONSerde[any](t, schema, cache, true, WithReferences(item, money))
	serde.RegisterSubject("orders")
	if err := cache.Prewarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /subjects/money/versions", "POST /subjects/item/versions", "POST /subjects/orders-value/versions",
	}
	if diff := cmp.Diff(want, double.recorded()); diff != "" {
		t.Errorf("requests mismatch (-want +got):\n%s", diff)
	}
	var body schemaBody
	if err := json.Unmarshal([]byte(double.request(2).Body), &body); err != nil {
		t.Fatal(err)
	}
	references := []SchemaReference{{Name: "item.json", Subject: "item", Version: 1}, {Name: "money.json", Subject: "money", Version: 1}}
	if diff := cmp.Diff(schemaBody{Schema: schema, SchemaType: "JSON", References: references}, body); diff != "" {
		t.Errorf("registration mismatch (-want +got):\n%s", diff)
	}
	if _, err := serde.Serialize("orders", map[string]any{"item": map[string]any{"price": "high"}}); err == nil {
		t.Error("a document that breaks a nested reference was written")
	}
	payload, err := serde.Serialize("orders", map[string]any{"total": 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serde.Deserialize("orders", payload); err != nil {
		t.Error(err)
	}
	conflict := WithReferences(money, Reference{Name: "money.json", Subject: "money", Schema: `{"type":"string"}`})
	if _, err := NewJSONSchemaSerde[any](schema, cache, RoleValue, true, conflict); !errors.Is(err, ErrReferenceConflict) {
		t.Errorf("error of conflicting references is %v", err)
	}
}

func TestJSONNumbersAreExact(t *testing.T) {
	const big = `9007199254740993` // 2^53+1
	schema := `{"type":"integer","maximum":9007199254740992}`
	if err := jsonAccepts(t, schema, big); err == nil {
		t.Error("2^53+1 passed a maximum of 2^53")
	}
	if err := jsonAccepts(t, schema, `9007199254740992`); err != nil {
		t.Error(err)
	}
	for _, validate := range []bool{true, false} {
		cache := seededCache(t, "t-value", 1, `{}`)
		exact, err := newJSONSerde[any](t, `{}`, cache, validate, WithExactNumbers()).Deserialize("t", Encode(1, []byte(`[`+big+`]`)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{json.Number(big)}, exact); diff != "" {
			t.Errorf("validate %v: exact numbers mismatch (-want +got):\n%s", validate, diff)
		}
		plain, err := newJSONSerde[map[string]any](t, `{}`, cache, validate).Deserialize("t", Encode(1, []byte(`{"n":[1.5,2]}`)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{"n": []any{1.5, 2.0}}, plain); diff != "" {
			t.Errorf("validate %v: numbers mismatch (-want +got):\n%s", validate, diff)
		}
		if _, err := newJSONSerde[[]any](t, `{}`, cache, validate).Deserialize("t", Encode(1, []byte(`{}`))); err == nil {
			t.Errorf("validate %v: an object was read as a slice", validate)
		}
	}
}

func TestJSONNumberBombsAreRefused(t *testing.T) {
	for _, document := range []string{`1e1000000000`, `-1E-99999999999999999999`, `[{"a":1e1001}]`, strings.Repeat("9", 1001)} {
		err := jsonAccepts(t, `{"type":"integer","multipleOf":3}`, document)
		if err == nil || !strings.Contains(err.Error(), "JSON number ") {
			t.Errorf("%.20s: error is %v", document, err)
		}
	}
	if err := jsonAccepts(t, `{"type":"integer"}`, `1e1000`); err == nil || strings.Contains(err.Error(), "JSON number ") {
		t.Errorf("1e1000 is within the bounds and too large for a float64, error is %v", err)
	}
}

func TestJSONReaderValidation(t *testing.T) {
	writer := `{"properties":{"id":{}},"additionalProperties":false}`
	reader := `{"properties":{"id":{},"note":{"default":"none"}},"required":["id","note"]}`
	cache := seededCache(t, "t-value", 1, writer)
	document := Encode(1, []byte(`{"id":"a"}`))
	if _, err := newJSONSerde[any](t, reader, cache, true).Deserialize("t", document); err != nil {
		t.Errorf("validation by the writer's schema refused what it wrote: %v", err)
	}
	byReader := newJSONSerde[any](t, reader, cache, true, WithReaderValidation())
	_, err := byReader.Deserialize("t", document)
	if invalid := new(*ValidationError); !errors.As(err, invalid) {
		t.Errorf("error is %v, want the reader's missing property", err)
	}
	value, err := byReader.Deserialize("t", Encode(99, []byte(`{"id":"a","note":"b"}`)))
	if err != nil {
		t.Fatalf("validation by the reader's schema needs the writer's: %v", err)
	}
	if diff := cmp.Diff(map[string]any{"id": "a", "note": "b"}, value); diff != "" {
		t.Errorf("value mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONPatternsOfECMA(t *testing.T) {
	for _, tt := range []struct{ pattern, good, bad string }{
		{`^\u0041+$`, "AA", "B"},
		{`^[\u0041-\u0043]$`, "B", "D"},
		{`^\ud83d\ude00$`, "\U0001f600", "\ufffd"},
		{`^\u{1f600}$`, "\U0001f600", "u"},
		{`^\cA\cz$`, "\x01\x1a", "AZ"},
		{`^\\u0041$`, `\u0041`, "A"},
		{`^\/\-\d$`, "/-7", "/-\u0667"},
	} {
		schema := string(mustJSON(t, map[string]string{"pattern": tt.pattern}))
		if err := jsonAccepts(t, schema, string(mustJSON(t, tt.good))); err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
		}
		invalid, ok := errors.AsType[*ValidationError](jsonAccepts(t, schema, string(mustJSON(t, tt.bad))))
		if !ok || !strings.Contains(invalid.Error(), strings.ReplaceAll(tt.pattern, `\`, `\\`)) {
			t.Errorf("%s: %q is accepted, or the error %v has another pattern", tt.pattern, tt.bad, invalid)
		}
		result, err := JSONCompatibility(schema, schema, Full)
		if err != nil || !result.Compatible {
			t.Errorf("%s: compared with itself: %v, %v", tt.pattern, result, err)
		}
	}
	for _, pattern := range []string{`\ud83d`, `\u12`, `\u{110000}`, `\c1`} {
		if compiled, err := jsoncheck.CompilePattern(pattern); err == nil {
			t.Errorf("%s compiles to %v", pattern, compiled)
		}
	}
}

func TestJSONRegexpEngineCanBeReplaced(t *testing.T) {
	lookahead := `{"type":"string","pattern":"^(?=.*[0-9])[a-z0-9]+$"}`
	if err := jsonAccepts(t, `{}`, `1`); err != nil {
		t.Fatal(err)
	}
	cache := seededCache(t, "t-value", 1, lookahead)
	var compiled int
	serde := newJSONSerde[any](t, `{}`, cache, true, WithJSONRegexp(func(pattern string) (JSONRegexp, error) {
		compiled++
		return regexp.Compile(strings.Replace(pattern, "(?=.*[0-9])", "", 1))
	}))
	var first int
	for i := range 3 {
		if _, err := serde.Deserialize("t", Encode(1, []byte(`"ab1"`))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = compiled
		}
	}
	if first == 0 || compiled != first {
		t.Errorf("patterns were compiled %d times for the first record, %d in all", first, compiled)
	}
	plain := newJSONSerde[any](t, `{}`, cache, true)
	_, once := plain.Deserialize("t", Encode(1, []byte(`"ab1"`)))
	_, again := plain.Deserialize("t", Encode(1, []byte(`"ab1"`)))
	if once == nil || errors.Unwrap(once) != errors.Unwrap(again) {
		t.Errorf("a schema that does not compile is compiled again: %v, %v", once, again)
	}
}

func TestJSONCodecOptions(t *testing.T) {
	cache := seededCache(t, "t-value", 1, `{}`)
	custom := newJSONSerde[string](t, `{}`, cache, false, WithJSONCodec(
		func(v any) ([]byte, error) { return []byte(`"<` + v.(string) + `>"`), nil },
		func(data []byte, v any) error { *v.(*string) = strings.ToUpper(string(data)); return nil },
	))
	payload, err := custom.Serialize("t", "x")
	if err != nil || string(payload[5:]) != `"<x>"` {
		t.Errorf("custom codec wrote %q, %v", payload, err)
	}
	if value, err := custom.Deserialize("t", payload); err != nil || value != `"<X>"` {
		t.Errorf("custom codec read %q, %v", value, err)
	}
	strict := newJSONSerde[jsonOrder](t, `{}`, cache, false, WithKnownFieldsOnly())
	if _, err := strict.Deserialize("t", Encode(1, []byte(`{"id":"a","other":1}`))); err == nil || !strings.Contains(err.Error(), `unknown field "other"`) {
		t.Errorf("error of an unknown field is %v", err)
	}
	if _, err := strict.Deserialize("t", Encode(1, []byte(`{"id":"a"} x`))); err == nil || !strings.Contains(err.Error(), "data follows the JSON value") {
		t.Errorf("error of trailing data is %v", err)
	}
	if value, err := strict.Deserialize("t", Encode(1, []byte(`{"id":"a"}`))); err != nil || value.ID != "a" {
		t.Errorf("got %v, %v", value, err)
	}
}

func TestUnvalidatedJSONNeedsNoRegistry(t *testing.T) {
	cache := NewSchemaCache(nil)
	t.Cleanup(func() { _ = cache.Close() })
	serde := newJSONSerde[jsonOrder](t, orderSchema, cache, false)
	for _, id := range []int{1, 99, 1<<32 - 1} {
		value, err := serde.Deserialize("t", Encode(id, []byte(`{"id":"a"}`)))
		if err != nil || value.ID != "a" {
			t.Errorf("id %d: got %v, %v", id, value, err)
		}
	}
}
