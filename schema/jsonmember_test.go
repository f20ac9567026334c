// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

type jsonLine struct {
	SKU   string `json:"sku"`
	Count int    `json:"count"`
}

type jsonBase struct {
	Tenant string `json:"tenant"`
}

type jsonSpelt struct {
	jsonBase
	Name    string              `json:"name"`
	Plain   any                 // no tag: the field is called Plain
	Lines   []jsonLine          `json:"lines"`
	ByKey   map[string]jsonLine `json:"byKey"`
	Next    *jsonSpelt          `json:"next"`
	Free    map[string]any      `json:"free"`
	Ignored string              `json:"-"`
}

const speltSchema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "properties": {
    "tenant": {"type": "string", "pattern": "^t-"},
    "name": {"type": "string", "maxLength": 3},
    "plain": {"type": "integer"},
    "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    "byKey": {"type": "object", "properties": {"a": {"$ref": "#/definitions/line"}}, "additionalProperties": {"$ref": "#/definitions/line"}},
    "next": {"$ref": "#"},
    "free": {"type": "object"}
  },
  "definitions": {
    "line": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}}}
  }
}`

func TestMembersThatTheSchemaDoesNotKnowReachNoField(t *testing.T) {
	cache := seededCache(t, "t-value", 1, speltSchema)
	serde := newJSONSerde[*jsonSpelt](t, `{}`, cache, true)
	past := func(known, name string) string {
		return fmt.Sprintf("the schema knows '%s' and not '%s', which would be read into the same field", known, name)
	}
	for _, tt := range []struct {
		name, document string
		want           []Violation
	}{
		{"exact names", `{"tenant":"t-1","name":"abc","lines":[{"sku":"x","count":1}],"byKey":{"a":{"count":2},"B":{"count":3}},"next":{"name":"n"}}`, nil},
		{"an untagged field under the schema's name", `{"plain":1}`, nil},
		{"members that no field takes", `{"other":1,"OTHER":2,"ignored":3,"-":4}`, nil},
		{"free members", `{"free":{"NAME":1,"name":2}}`, nil},
		{"other case", `{"NAME":"too long"}`, []Violation{{Pointer: "/NAME", Message: past("name", "NAME")}}},
		{"a rune that folds to a letter", "{\"line\u017f\":[]}", []Violation{{Pointer: "/line\u017f", Message: past("lines", "line\u017f")}}},
		{"the Go name", `{"Plain":"text"}`, []Violation{{Pointer: "/Plain", Message: past("plain", "Plain")}}},
		{"embedded", `{"Tenant":"x"}`, []Violation{{Pointer: "/Tenant", Message: past("tenant", "Tenant")}}},
		{"in a slice", `{"lines":[{"count":1},{"COUNT":0}]}`, []Violation{{Pointer: "/lines/1/COUNT", Message: past("count", "COUNT")}}},
		{"in a map", `{"byKey":{"a":{"Count":0},"B/~":{"Sku":1}}}`, []Violation{
			{Pointer: "/byKey/B~1~0/Sku", Message: past("sku", "Sku")}, {Pointer: "/byKey/a/Count", Message: past("count", "Count")},
		}},
		{"below itself", `{"next":{"next":{"Name":"n"}}}`, []Violation{{Pointer: "/next/next/Name", Message: past("name", "Name")}}},
		{"null", `{"NAME":null}`, []Violation{{Pointer: "/NAME", Message: past("name", "NAME")}}},
		{"beside what the schema says", `{"NAME":1,"name":2}`, []Violation{
			{Pointer: "/NAME", Message: "'name' and 'NAME' would be read into the same field"},
			{Pointer: "/NAME", Message: past("name", "NAME")},
			{Pointer: "/name", Message: "got number, want string", Keyword: jsoncheck.Address + "#/properties/name/type"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			value, err := serde.Deserialize("t", Encode(1, []byte(tt.document)))
			if tt.want == nil {
				want := new(jsonSpelt)
				if plainErr := json.Unmarshal([]byte(tt.document), want); err != nil || plainErr != nil {
					t.Fatalf("errors are %v and %v", err, plainErr)
				}
				if diff := cmp.Diff(want, value, cmp.AllowUnexported(jsonSpelt{})); diff != "" {
					t.Errorf("value mismatch (-want +got):\n%s", diff)
				}
				return
			}
			invalid, ok := errors.AsType[*ValidationError](err)
			if !ok || value != nil {
				t.Fatalf("read %v, %v, want a ValidationError", value, err)
			}
			if diff := cmp.Diff(tt.want, invalid.Violations); diff != "" {
				t.Errorf("violations mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereTheSchemaKnowsAMember(t *testing.T) {
	type named struct {
		Name string `json:"name"`
	}
	type both struct {
		Name  string `json:"name"`
		Upper string `json:"NAME"`
	}
	read := func(value any, schema, document string, options ...SerdeOption) error {
		cache := seededCache(t, "t-value", 1, schema)
		payload := Encode(1, []byte(document))
		var err error
		switch value.(type) {
		case named:
			_, err = newJSONSerde[named](t, schema, cache, true, options...).Deserialize("t", payload)
		case []named:
			_, err = newJSONSerde[[]named](t, schema, cache, true, options...).Deserialize("t", payload)
		case both:
			_, err = newJSONSerde[both](t, schema, cache, true, options...).Deserialize("t", payload)
		}
		return err
	}
	const draft2020 = `"$schema":"https://json-schema.org/draft/2020-12/schema",`
	for _, tt := range []struct {
		name             string
		value            any
		schema, document string
		refused          bool
		options          []SerdeOption
	}{
		{"nowhere", named{}, `{}`, `{"NAME":"x"}`, false, nil},
		{"under both names", named{}, `{"properties":{"name":{},"NAME":{}}}`, `{"NAME":"x"}`, false, nil},
		{"under another name of two fields", both{}, `{"properties":{"name":{}}}`, `{"NAME":"x"}`, false, nil},
		{"under two names for one field", named{}, `{"properties":{"name":{},"NAME":{}}}`, `{"NAME":"x","name":"y"}`, true, nil},
		{"nowhere, for one field", named{}, `{}`, `{"NAME":"x","Name":"y"}`, true, nil},
		{"in allOf", named{}, `{"allOf":[{"properties":{"name":{}}}]}`, `{"NAME":"x"}`, true, nil},
		{"in anyOf", named{}, `{"anyOf":[{},{"properties":{"name":{}}}]}`, `{"NAME":"x"}`, true, nil},
		{"in oneOf", named{}, `{"oneOf":[{"properties":{"name":{}}}]}`, `{"NAME":"x"}`, true, nil},
		{"in not", named{}, `{"not":{"required":["name"],"properties":{"name":{"const":"y"}}}}`, `{"NAME":"y"}`, true, nil},
		{"in then", named{}, `{"if":{"required":["a"]},"then":{"properties":{"name":{}}}}`, `{"a":1,"NAME":"y"}`, true, nil},
		{"in dependencies", named{}, `{"dependencies":{"a":{"properties":{"name":{}}}}}`, `{"a":1,"NAME":"y"}`, true, nil},
		{"in dependentSchemas", named{}, `{` + draft2020 + `"dependentSchemas":{"a":{"properties":{"name":{}}}}}`, `{"a":1,"NAME":"y"}`, true, nil},
		{"behind $dynamicRef", named{}, `{` + draft2020 + `"$dynamicRef":"#n","$defs":{"a":{"$dynamicAnchor":"n","properties":{"name":{}}}}}`, `{"NAME":"y"}`, true, nil},
		{"by a pattern", named{}, `{"patternProperties":{"^na":{"type":"string"}}}`, `{"NAME":"x"}`, true, nil},
		{"by a pattern that takes any case", named{}, `{"patternProperties":{"^[nN]":{"type":"string"}}}`, `{"NAME":"x"}`, false, nil},
		{"as an additional property", named{}, `{"additionalProperties":{"type":"string"}}`, `{"NAME":"x"}`, false, nil},
		{"in another element of a tuple", []named{}, `{"items":[{},{"properties":{"name":{}}}]}`, `[{"NAME":"a"}]`, true, nil},
		{"under both names in two places", []named{}, `{"items":[{"properties":{"NAME":{}}},{"properties":{"name":{}}}]}`, `[{"NAME":"a"},{"name":"b"}]`, false, nil},
		{"in the second of a tuple", []named{}, `{"items":[{},{"properties":{"name":{}}}]}`, `[{},{"NAME":"b"}]`, true, nil},
		{"behind a tuple", []named{}, `{"items":[{}],"additionalItems":{"properties":{"name":{}}}}`, `[{"NAME":"a"},{"NAME":"b"}]`, true, nil},
		{"in contains", []named{}, `{"contains":{"properties":{"name":{}}}}`, `[{"NAME":"a"}]`, true, nil},
		{"by the reader", named{}, `{"properties":{"name":{}}}`, `{"NAME":"x"}`, true, []SerdeOption{WithReaderValidation()}},
		{"with known fields alone", named{}, `{"properties":{"name":{}}}`, `{"NAME":"x"}`, true, []SerdeOption{WithKnownFieldsOnly()}},
		{"with a codec that knows itself", named{}, `{"properties":{"name":{}}}`, `{"NAME":"x"}`, false, []SerdeOption{WithJSONCodec(json.Marshal, json.Unmarshal)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := read(tt.value, tt.schema, tt.document, tt.options...)
			if _, invalid := errors.AsType[*ValidationError](err); invalid != tt.refused || !invalid && err != nil {
				t.Errorf("error is %v, want refused %v", err, tt.refused)
			}
		})
	}
}

// jsonTwice reads itself, so its members are its own affair.
type jsonTwice struct{ N int }

func (j *jsonTwice) UnmarshalJSON(data []byte) error {
	var plain struct{ N int }
	err := json.Unmarshal(data, &plain)
	j.N = 2 * plain.N
	return err
}

func TestTypesThatReadThemselvesAreLeftAlone(t *testing.T) {
	schema := `{"properties":{"n":{"type":"integer"}}}`
	cache := seededCache(t, "t-value", 1, schema)
	got, err := newJSONSerde[jsonTwice](t, schema, cache, true).Deserialize("t", Encode(1, []byte(`{"N":2}`)))
	if err != nil || got.N != 4 {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestDocumentsThatReadersUnderstandDifferentlyAreRefused(t *testing.T) {
	cache := seededCache(t, "t-value", 1, speltSchema)
	generic := newJSONSerde[any](t, speltSchema, cache, true)
	typed := newJSONSerde[jsonSpelt](t, speltSchema, cache, true)
	open := newJSONSerde[any](t, speltSchema, cache, false)
	for _, tt := range []struct {
		name, document string
		want           Violation
	}{
		{"repeated member", `{"name":"bad-name","name":"ok"}`, Violation{Pointer: "/name", Message: "the member is repeated"}},
		{"repeated in another spelling", `{"name":"bad-name","n\u0061me":"ok"}`, Violation{Pointer: "/name", Message: "the member is repeated"}},
		{"repeated below", `{"free":{"a":"x:y"},"lines":[{"sku":":"},{"count":0,"sku":"\":","count":1}]}`,
			Violation{Pointer: "/lines/1/count", Message: "the member is repeated"}},
		{"an object in two parts", `{"free":{"a":1},"free":{"b":2}}`, Violation{Pointer: "/free", Message: "the member is repeated"}},
		{"not UTF-8", "{\"lines\":[{\"sku\":\"a\xff\"}]}", Violation{Pointer: "/lines/0/sku", Message: "the text is not UTF-8 at byte 19"}},
		{"a name that is not UTF-8", "{\"\xff\":1}", Violation{Pointer: "/\ufffd", Message: "the text is not UTF-8 at byte 2"}},
		{"half of a pair", `{"name":"\ud83d"}`, Violation{Pointer: "/name", Message: "the text has half of a surrogate pair at byte 9"}},
		{"half of a pair before another escape", `{"name":"\ud83d\u0041"}`, Violation{Pointer: "/name", Message: "the text has half of a surrogate pair at byte 9"}},
		{"the second half alone", `["\\\ude00"]`, Violation{Pointer: "/0", Message: "the text has half of a surrogate pair at byte 4"}},
		{"too deep", `{"free":{"a":[0,` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `]}}`,
			Violation{Pointer: "/free/a/1" + strings.Repeat("/0", 997), Message: "values are nested more than 1000 deep"}},
		{"a number out of bounds", `{"free":{"a":[1,1e1001]}}`, Violation{Pointer: "/free/a/1", Message: "JSON number 1e1001 has an exponent beyond 1000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload := Encode(1, []byte(tt.document))
			_, genericErr := generic.Deserialize("t", payload)
			_, typedErr := typed.Deserialize("t", payload)
			for _, err := range []error{genericErr, typedErr} {
				invalid, ok := errors.AsType[*ValidationError](err)
				if !ok {
					t.Fatalf("error is %v, want a ValidationError", err)
				}
				if diff := cmp.Diff([]Violation{tt.want}, invalid.Violations); diff != "" {
					t.Errorf("violations mismatch (-want +got):\n%s", diff)
				}
			}
			if _, err := open.Deserialize("t", payload); err != nil && !strings.Contains(tt.document, "1e1001") {
				t.Errorf("without validation: %v", err)
			}
		})
	}
	for _, document := range []string{`{"name":"\ud83d\ude00"}`, `{"name":"\\ud"}`, "{\"name\":\"\U0001f600\"}", `{"free":{":":":","\"":"\":"}}`, ` [ ] `, `"\u00e4"`} {
		if _, err := jsoncheck.ParseDocument([]byte(document)); err != nil {
			t.Errorf("%s: %v", document, err)
		}
	}
}

func TestRepeatedMembersAreNotWritten(t *testing.T) {
	cache := seededCache(t, "t-value", 1, `{}`)
	payload, err := newJSONSerde[json.RawMessage](t, `{}`, cache, true).Serialize("t", json.RawMessage(`{"a":1,"a":2}`))
	if _, ok := errors.AsType[*ValidationError](err); !ok || payload != nil {
		t.Errorf("written as %q, %v", payload, err)
	}
}

func TestJSONErrorsTellTheByte(t *testing.T) {
	cache := seededCache(t, "t-value", 1, `{}`)
	for _, tt := range []struct {
		document string
		validate bool
		want     string
	}{
		{`{"id":1}`, true, "json: cannot unmarshal number into Go struct field jsonOrder.id of type string at byte 7"},
		{`{"id":1}`, false, "json: cannot unmarshal number into Go struct field jsonOrder.id of type string at byte 7"},
		{`{"id" 1}`, true, "invalid character '1' after object key at byte 7"},
		{`{"id":"a"`, false, "unexpected end of JSON input at byte 9"},
	} {
		serde := newJSONSerde[jsonOrder](t, `{}`, cache, tt.validate)
		_, err := serde.Deserialize("t", Encode(1, []byte(tt.document)))
		if want := "cannot deserialize schema value: " + tt.want + " (JSON schema "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", tt.document, err, want)
		}
	}
	_, err := newJSONSerde[any](t, `{}`, cache, true).Deserialize("t", Encode(1, []byte(`{"a":[1e999]}`)))
	if unsuited, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || unsuited.Value != "number 1e999" {
		t.Errorf("error of a number that float64 does not hold is %v", err)
	}
}

func TestViolationsShowLittleOfTheDocument(t *testing.T) {
	long := strings.Repeat("\u00e4", 4000)
	err := jsonAccepts(t, `{"additionalProperties":{"pattern":"^x"}}`, `{"`+long+`":"`+long+`"}`)
	invalid, ok := errors.AsType[*ValidationError](err)
	if !ok || len(invalid.Violations) != 1 {
		t.Fatalf("error is %v", err)
	}
	if v := invalid.Violations[0]; len(v.Message) > jsoncheck.MaxShownText || !strings.HasSuffix(v.Message, "\u00e4...") || v.Pointer != "/"+long {
		t.Errorf("the message has %d bytes, the pointer %d", len(v.Message), len(v.Pointer))
	}
	if len(err.Error()) > 2*jsoncheck.MaxShownText+500 {
		t.Errorf("the error's text has %d bytes", len(err.Error()))
	}
}

func TestViolationsAreBounded(t *testing.T) {
	document := "[" + strings.Repeat(`{"COUNT":1},`, 1500) + strings.TrimSuffix(strings.Repeat("1,", 1500), ",") + "]"
	schema := `{"items":{"type":"object","properties":{"count":{}}}}`
	cache := seededCache(t, "t-value", 1, schema)
	_, err := newJSONSerde[[]jsonLine](t, schema, cache, true).Deserialize("t", Encode(1, []byte(document)))
	invalid, ok := errors.AsType[*ValidationError](err)
	if !ok || len(invalid.Violations) != 1000 || !strings.HasSuffix(invalid.Error(), ` at "/1500" (and 2999 more)`) {
		t.Errorf("error is %v", err)
	}
}

func TestJSONSchemasAreBounded(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"not":`, n) + "true" + strings.Repeat("}", n) }
	if err := jsonAccepts(t, nested(256), `1`); err != nil {
		t.Errorf("a schema of 256 levels: %v", err)
	}
	cache := seededCache(t, "t-value", 1, nested(257))
	_, readErr := newJSONSerde[any](t, `{}`, cache, true).Deserialize("t", Encode(1, []byte(`1`)))
	_, err := NewJSONSchemaSerde[any](nested(257), cache, RoleValue, true)
	for _, err := range []error{readErr, err} {
		if err == nil || !strings.Contains(err.Error(), "values are nested more than 256 deep") || len(err.Error()) > 1300 {
			t.Errorf("error of a schema of 257 levels is %v", err)
		}
	}
}

func TestPropertyNamesTellTheObject(t *testing.T) {
	document := `{"a":{"BAD":1,"ok":2},"b":{},"c":{"WORSE":1},"d":{"e":{}}}`
	for range 20 { // the order of members differs
		err := jsonAccepts(t, `{"additionalProperties":{"propertyNames":{"pattern":"^[a-z]","maxLength":4}}}`, document)
		invalid, ok := errors.AsType[*ValidationError](err)
		if !ok {
			t.Fatalf("error is %v", err)
		}
		keyword := jsoncheck.Address + "#/additionalProperties/propertyNames/"
		want := []Violation{
			{Pointer: "/a/BAD", Message: `'BAD' does not match pattern '^[a-z]'`, Keyword: keyword + "pattern"},
			{Pointer: "/c/WORSE", Message: `maxLength: got 5, want 4`, Keyword: keyword + "maxLength"},
			{Pointer: "/c/WORSE", Message: `'WORSE' does not match pattern '^[a-z]'`, Keyword: keyword + "pattern"},
		}
		if diff := cmp.Diff(want, invalid.Violations); diff != "" {
			t.Fatalf("violations mismatch (-want +got):\n%s", diff)
		}
	}
}
