// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

func FuzzJSONDocument(f *testing.F) {
	f.Add(orderSchema, `{"id":"a","total":1}`)
	f.Add(`{"$ref":"#"}`, `1`)
	f.Add(`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}`, `{}`)
	f.Add(`{"$ref":"file:///etc/passwd"}`, `1`)
	f.Add(`{"$id":"http://[bad","$ref":"x"}`, `1`)
	f.Add(`{"multipleOf":0.1,"maximum":1e400}`, `1e999`)
	f.Add(`{"pattern":"(?=a)","uniqueItems":true,"contains":{"not":{}}}`, `[1,1.0,"a",{"b":[]}]`)
	f.Add(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$dynamicRef":"#a","$defs":{"a":{"$dynamicAnchor":"a"}}}`, `null`)
	f.Add(`true`, `{"a":{"a":{"a":[[[]]]}}}`)
	f.Fuzz(func(t *testing.T, schema, document string) {
		cache := NewSchemaCache(nil)
		cache.SeedSubjectID("t-value", 1)
		cache.SeedWriterSchema(1, schema)
		serde, err := NewJSONSchemaSerde[any](schema, cache, RoleValue, true)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "invalid JSON Schema: ") {
				t.Fatalf("error of a schema is %v", err)
			}
			return
		}
		value, err := serde.Deserialize("t", Encode(1, []byte(document)))
		if err != nil || value == nil {
			return
		}
		// What was read can be written, and is read again.
		payload, err := serde.Serialize("t", value)
		if err != nil {
			return // a float64 has changed a number that the schema looks at
		}
		if _, err := serde.Deserialize("t", payload); err != nil {
			t.Fatalf("%s was read and written as %q, which is not read: %v", document, payload, err)
		}
	})
}

// A document that the writer's schema allows is accepted by every reader that
// the strict check calls compatible.
func FuzzJSONCompatibility(f *testing.F) {
	f.Add(`{"type":"integer"}`, `{"type":"number"}`, `5`)
	f.Add(`{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"properties":{"a":{"type":"number"}}}`, `{"a":1}`)
	f.Add(`{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}`, `{"items":{"type":["string","null"]}}`, `["a",null]`)
	f.Add(`{"anyOf":[{"type":"string","maxLength":3},{"enum":[1,2]}]}`, `{"type":["string","integer"],"not":{"maximum":0}}`, `"abc"`)
	f.Add(`{"allOf":[{"required":["a"]},{"minProperties":2}],"dependencies":{"a":["b"]}}`, `{"required":["a"],"dependencies":{"a":{"required":["b"]}}}`, `{"a":1,"b":2}`)
	f.Add(`{"patternProperties":{"^x":{"minimum":3}},"propertyNames":{"pattern":"^x"}}`, `{"additionalProperties":{"minimum":1}}`, `{"x":4}`)
	f.Add(`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"if":{"required":["a"]},"then":{}}`, `{"a":1}`)
	f.Add(`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"const":1}],"contains":{"const":1},"unevaluatedItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"integer"}],"minItems":0}`, `[1]`)
	f.Add(`{"$ref":"#/definitions/a","definitions":{"a":{"properties":{"n":{"$ref":"#/definitions/a"}}}}}`, `{"properties":{"n":{"type":["object","string"]}}}`, `{"n":{}}`)
	f.Fuzz(func(t *testing.T, writer, reader, document string) {
		// These three are lenient on purpose: a default stands in for a missing
		// member, one of several alternatives is enough, unknown patterns match
		// nothing.
		if strings.Contains(reader, "default") || strings.Contains(reader, "oneOf") || strings.Contains(reader, `\u`) {
			return
		}
		history := []ResolvedSchema{{Schema: writer}}
		result, err := CheckJSONCompatibility(history, ResolvedSchema{Schema: reader}, Backward, WithStrictContent())
		if err != nil || !result.Compatible {
			return
		}
		var dialect jsoncheck.Dialect
		writes, err := dialect.Compile(writer, nil)
		if err != nil {
			return
		}
		reads, err := dialect.Compile(reader, nil)
		if err != nil {
			return
		}
		value, err := jsoncheck.ParseSchema([]byte(document))
		if err != nil || writes.Validate(value) != nil {
			return
		}
		if err := reads.Validate(value); err != nil {
			t.Fatalf("%s reads %s, but not its %s: %v", reader, writer, document, err)
		}
	})
}
