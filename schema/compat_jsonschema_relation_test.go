// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

var drawScalar = rapid.Custom(func(t *rapid.T) any {
	return rapid.SampledFrom([]any{nil, true, false, 0, 1, 2, 3, 4, 6, 1.5, "", "a", "ab", "abc", "xa"}).Draw(t, "scalar")
})

// drawDocument draws small documents over few names and values, so that random
// schemas have something to say about them.
func drawDocument(t *rapid.T, depth int) any {
	if depth == 0 {
		return drawScalar.Draw(t, "leaf")
	}
	switch rapid.IntRange(0, 4).Draw(t, "shape") {
	case 0, 1:
		object := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "xa"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
			object[name] = drawDocument(t, depth-1)
		}
		return object
	case 2, 3:
		array := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			array = append(array, drawDocument(t, depth-1))
		}
		return array
	default:
		return drawScalar.Draw(t, "scalar")
	}
}

// drawSchema draws a schema of 2020-12 with a few keywords of any kind.
func drawSchema(t *rapid.T, depth int) any {
	if rapid.IntRange(0, 19).Draw(t, "boolean") == 0 {
		return rapid.Bool().Draw(t, "all")
	}
	schema := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keywords") {
		drawKeyword(t, schema, depth)
	}
	return schema
}

func drawKeyword(t *rapid.T, schema map[string]any, depth int) {
	small := func() int { return rapid.IntRange(0, 3).Draw(t, "count") }
	limit := func() any { return rapid.SampledFrom([]any{0, 1, 1.5, 2, 3, 6}).Draw(t, "limit") }
	name := func() string { return rapid.SampledFrom([]string{"a", "b", "xa"}).Draw(t, "name") }
	sub := func() any {
		if depth == 0 {
			return map[string]any{"type": rapid.SampledFrom([]string{"string", "integer", "number", "null"}).Draw(t, "leaf type")}
		}
		return drawSchema(t, depth-1)
	}
	subs := func() any {
		list := []any{}
		for range rapid.IntRange(1, 2).Draw(t, "branches") {
			list = append(list, sub())
		}
		return list
	}
	keywords := []func(){
		func() {
			types := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"null", "boolean", "integer", "number", "string", "array", "object"}), 1, 3, rapid.ID[string])
			schema["type"] = types.Draw(t, "types")
		},
		func() { schema["enum"] = rapid.SliceOfN(drawScalar, 1, 3).Draw(t, "enum") },
		func() { schema["const"] = drawScalar.Draw(t, "const") },
		func() { schema["minimum"] = limit() },
		func() { schema["maximum"] = limit() },
		func() { schema["exclusiveMinimum"] = limit() },
		func() { schema["exclusiveMaximum"] = limit() },
		func() { schema["multipleOf"] = rapid.SampledFrom([]any{0.5, 1, 2, 3}).Draw(t, "multiple") },
		func() { schema["minLength"] = small() },
		func() { schema["maxLength"] = small() },
		func() { schema["pattern"] = rapid.SampledFrom([]string{"^a", "^x", "b"}).Draw(t, "pattern") },
		func() { schema["required"] = []any{name()} },
		func() { schema["properties"] = map[string]any{name(): sub(), "b": sub()} },
		func() { schema["additionalProperties"] = sub() },
		func() { schema["additionalProperties"] = false },
		func() {
			schema["patternProperties"] = map[string]any{rapid.SampledFrom([]string{"^a", "^x"}).Draw(t, "pattern"): sub()}
		},
		func() { schema["propertyNames"] = sub() },
		func() { schema["minProperties"] = small() },
		func() { schema["maxProperties"] = small() },
		func() { schema["dependentRequired"] = map[string]any{name(): []any{name()}} },
		func() { schema["dependentSchemas"] = map[string]any{name(): sub()} },
		func() { schema["unevaluatedProperties"] = sub() },
		func() { schema["items"] = sub() },
		func() { schema["prefixItems"] = subs() },
		func() { schema["minItems"] = small() },
		func() { schema["maxItems"] = small() },
		func() { schema["uniqueItems"] = true },
		func() { schema["contains"] = sub() },
		func() { schema["minContains"] = small() },
		func() { schema["maxContains"] = small() },
		func() { schema["unevaluatedItems"] = sub() },
		func() { schema["allOf"] = subs() },
		func() { schema["anyOf"] = subs() },
		func() { schema["not"] = sub() },
		func() { schema["if"], schema["then"], schema["else"] = sub(), sub(), sub() },
	}
	keywords[rapid.IntRange(0, len(keywords)-1).Draw(t, "keyword")]()
}

// drawVariant changes a schema a little: most random pairs have nothing to do
// with each other and are incompatible at once.
func drawVariant(t *rapid.T, schema any) any {
	object, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	variant := maps.Clone(object)
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		if rapid.IntRange(0, 3).Draw(t, "remove "+keyword) == 0 {
			delete(variant, keyword)
		}
	}
	if rapid.Bool().Draw(t, "change") {
		drawKeyword(t, variant, 1)
	}
	return variant
}

// A schema reads its own documents.
func TestJSONSchemasAreCompatibleWithThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(drawSchema(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range [][]JSONCompatibilityOption{{WithCompatibilityDialect(JSONDraft2020)}, {WithCompatibilityDialect(JSONDraft2020), WithStrictContent()}} {
			schema := ResolvedSchema{Schema: string(text)}
			result, err := CheckJSONCompatibility([]ResolvedSchema{schema}, schema, Full, options...)
			if err != nil {
				return // a keyword that the random one does not go with
			}
			if !result.Compatible {
				t.Fatalf("%s does not read itself: %q", text, result.Incompatibilities)
			}
		}
	})
}

// Whatever a writer's schema allows, a reader accepts that the strict check
// calls compatible.
func TestCompatibleJSONReadersAcceptEveryDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		writer := drawSchema(t, 2)
		var reader any
		if rapid.IntRange(0, 3).Draw(t, "unrelated") == 0 {
			reader = drawSchema(t, 1)
		} else {
			reader = drawVariant(t, writer)
		}
		texts := map[string]string{}
		for name, schema := range map[string]any{"writer": writer, "reader": reader} {
			data, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(data)
		}
		dialect := jsoncheck.Dialect{Draft: JSONDraft2020.draft()}
		writes, err := dialect.Compile(texts["writer"], nil)
		if err != nil {
			return // a pattern of properties that is also a keyword of another type
		}
		reads, err := dialect.Compile(texts["reader"], nil)
		if err != nil {
			return // a pattern of properties that is also a keyword of another type
		}
		compatible := len((&jsoncheck.Comparer{Dialect: dialect, Strict: true}).Violations(reads, writes)) == 0
		for range 20 {
			data, err := json.Marshal(drawDocument(t, 2))
			if err != nil {
				t.Fatal(err)
			}
			document, err := jsoncheck.ParseSchema(data)
			if err != nil {
				t.Fatal(err)
			}
			if compatible && writes.Validate(document) == nil && reads.Validate(document) != nil {
				t.Fatalf("%s reads %s, but not its %s", texts["reader"], texts["writer"], data)
			}
		}
	})
}
