// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// backward returns why a reader cannot read what a writer wrote.
func backward(tb testing.TB, writer, reader string, options ...JSONCompatibilityOption) []string {
	tb.Helper()
	result, err := CheckJSONCompatibility([]ResolvedSchema{{Schema: writer}}, ResolvedSchema{Schema: reader}, Backward, options...)
	if err != nil {
		tb.Fatal(err)
	}
	if result.Compatible != (len(result.Incompatibilities) == 0) {
		tb.Errorf("result is %+v", result)
	}
	for i, text := range result.Incompatibilities {
		result.Incompatibilities[i] = strings.TrimPrefix(text, "BACKWARD: ")
	}
	return result.Incompatibilities
}

const draft2020 = `"$schema":"https://json-schema.org/draft/2020-12/schema",`

func TestJSONReaderAcceptsWhatTheWriterAllows(t *testing.T) {
	tests := []struct {
		name, writer, reader string
		want                 []string
	}{
		{"same", `{"type":"object"}`, `{"type":"object"}`, nil},
		{"to anything", `{"type":"object"}`, `{}`, nil},
		{"to true", `{"type":"object"}`, `true`, nil},
		{"from false", `false`, `{"type":"string"}`, nil},
		{"to false", `{"type":"object"}`, `false`, []string{" accepts nothing"}},
		{"any to one type", `{}`, `{"type":"string"}`, []string{" narrows type from [] to [string]"}},
		{"true to one type", `true`, `{"type":"string"}`, []string{" narrows type from [] to [string]"}},
		{"type changed", `{"type":"integer"}`, `{"type":"string"}`, []string{" narrows type from [integer] to [string]"}},
		{"integer widened", `{"type":"integer"}`, `{"type":"number"}`, nil},
		{"number narrowed", `{"type":"number"}`, `{"type":"integer"}`, []string{" narrows type from [number] to [integer]"}},
		{"number of integers", `{"type":"number","multipleOf":5}`, `{"type":"integer"}`, nil},
		{"type added", `{"type":"string"}`, `{"type":["string","null"]}`, nil},
		{"type removed", `{"type":["string","null"]}`, `{"type":"string"}`, []string{" narrows type from [null string] to [string]"}},
		{"booleans of an enum", `{"type":"boolean"}`, `{"enum":[true,false,null]}`, nil},

		{"required without properties", `{}`, `{"required":["a"]}`, []string{"a became required"}},
		{"required and it was", `{"required":["a","b"]}`, `{"required":["a"]}`, nil},
		{"required with a default", `{"type":"object"}`, `{"required":["a"],"properties":{"a":{"default":1}}}`, nil},
		{"required of a writer without objects", `{"type":"string"}`, `{"required":["a"]}`, nil},
		{"nested", `{"properties":{"a":{"properties":{"b":{"type":"integer"}}}}}`, `{"properties":{"a":{"required":["c"],"properties":{"b":{"type":"string"}}}}}`,
			[]string{"a.b narrows type from [integer] to [string]", "a.c became required"}},
		{"property added to an open object", `{"type":"object"}`, `{"properties":{"note":{"type":"string"}}}`, nil},
		{"property removed from an open object", `{"properties":{"a":{}}}`, `{"type":["object","array","string","number","null","boolean"]}`, nil},
		{"property removed from a closed object", `{"properties":{"a":{}},"additionalProperties":false}`, `{"additionalProperties":false}`, []string{"a is no longer allowed"}},
		{"property added to a closed object", `{"additionalProperties":false}`, `{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, nil},
		{"closing an open object", `{"type":"object"}`, `{"additionalProperties":false}`, nil},
		{"typing the rest of an open object", `{"type":"object"}`, `{"additionalProperties":{"type":"string"}}`, nil},
		{"closing an object of typed properties", `{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":false}`, []string{" no longer allows additional properties"}},
		{"a property that never was", `{"properties":{"a":{},"b":false},"additionalProperties":false}`, `{"properties":{"a":{}},"additionalProperties":false}`, nil},
		{"a pattern that never matched", `{"patternProperties":{"^b":false},"additionalProperties":false}`, `{"additionalProperties":false}`, nil},
		{"an item that never was", `{"items":[{},false],"additionalItems":false}`, `{"items":[{}],"additionalItems":false}`, nil},
		{"typed rest to an open object", `{"additionalProperties":{"type":"string"}}`, `{}`, nil},
		{"rest typed", `{"additionalProperties":{"type":["string","null"]}}`, `{"additionalProperties":{"type":"string"}}`, []string{"* narrows type from [null string] to [string]"}},
		{"rest narrowed", `{"additionalProperties":{"type":"number"}}`, `{"additionalProperties":{"type":"string"}}`, []string{"* narrows type from [number] to [string]"}},
		{"property among a typed rest", `{"additionalProperties":{"type":"number"}}`, `{"properties":{"a":{"type":"string"}}}`, []string{"a narrows type from [number] to [string]"}},
		{"property moved to the rest", `{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"additionalProperties":{"type":"string"}}`, []string{"a narrows type from [integer] to [string]"}},
		{"property taken by a pattern", `{"properties":{"x1":{"type":"integer"}},"additionalProperties":false}`, `{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`,
			[]string{"x1 narrows type from [integer] to [string]"}},
		{"pattern narrowed", `{"patternProperties":{"^x":{"type":"integer"}}}`, `{"patternProperties":{"^x":{"type":"string"}}}`, []string{"/^x/ narrows type from [integer] to [string]"}},
		{"pattern removed from a closed object", `{"patternProperties":{"^x":{}},"additionalProperties":false}`, `{"additionalProperties":false}`, []string{"/^x/ is no longer allowed"}},
		{"pattern moved to the rest", `{"patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}`, `{"additionalProperties":{"type":"string"}}`, []string{"/^x/ narrows type from [integer] to [string]"}},
		{"property names", `{"type":"object"}`, `{"propertyNames":{"maxLength":3}}`, []string{" (property names) allows at most 3 characters"}},
		{"same property names", `{"propertyNames":{"maxLength":3}}`, `{"propertyNames":{"maxLength":4}}`, nil},
		{"number of properties", `{"minProperties":1,"maxProperties":9}`, `{"minProperties":2,"maxProperties":8}`, []string{" needs at least 2 properties", " allows at most 8 properties"}},
		{"dependencies", `{}`, `{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, []string{"b became required with a", " (with c).d became required"}},
		{"same dependencies", `{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, nil},
		{"dependentRequired", `{` + draft2020 + `"dependentRequired":{"a":["b"]}}`, `{` + draft2020 + `"dependentRequired":{"a":["b","c"]}}`, []string{"c became required with a"}},
		{"dependentSchemas", `{` + draft2020 + `"dependentSchemas":{"a":{"required":["b"]}}}`, `{` + draft2020 + `"dependentSchemas":{"a":{"required":["b"]}}}`, nil},
		{"dependency of a property that cannot be", `{"additionalProperties":false}`, `{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, nil},
		{"unevaluated properties", `{` + draft2020 + `"properties":{"a":{},"x":{}},"additionalProperties":false}`, `{` + draft2020 + `"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`,
			[]string{"x is no longer allowed"}},
		{"unevaluated properties of an open object", `{` + draft2020 + `"type":"object"}`, `{` + draft2020 + `"unevaluatedProperties":false}`, nil},
		{"unevaluated in both", `{` + draft2020 + `"properties":{"a":{}},"unevaluatedProperties":false}`, `{` + draft2020 + `"properties":{"a":{},"b":{"type":"string"}},"unevaluatedProperties":false}`, nil},

		{"items typed", `{"type":"array"}`, `{"items":{"type":"string"}}`, []string{"[] narrows type from [] to [string]"}},
		{"items narrowed", `{"properties":{"a":{"items":{"type":"number"}}}}`, `{"properties":{"a":{"items":{"type":"integer"}}}}`, []string{"a[] narrows type from [number] to [integer]"}},
		{"tuple narrowed", `{"items":[{"type":"number"},{}]}`, `{"items":[{"type":"string"}]}`, []string{"[0] narrows type from [number] to [string]"}},
		{"tuple shortened", `{"items":[{},{}],"additionalItems":false}`, `{"items":[{}],"additionalItems":false}`, []string{"[1] is no longer allowed"}},
		{"tuple lengthened", `{"items":[{}],"additionalItems":false}`, `{"items":[{},{"type":"string"}],"additionalItems":false}`, nil},
		{"tuple closed", `{"items":[{}]}`, `{"items":[{}],"additionalItems":false}`, []string{" no longer allows additional items"}},
		{"tuple closed by a length", `{"items":[{}],"maxItems":1}`, `{"items":[{}],"additionalItems":false}`, nil},
		{"tuple to items", `{"items":[{"type":"number"}],"additionalItems":{"type":"null"}}`, `{"items":{"type":"string"}}`,
			[]string{"[0] narrows type from [number] to [string]", "[] no longer accepts null"}},
		{"prefixItems", `{` + draft2020 + `"prefixItems":[{"type":"number"}],"items":false}`, `{` + draft2020 + `"prefixItems":[{"type":"integer"}]}`, []string{"[0] narrows type from [number] to [integer]"}},
		{"items after prefixItems", `{` + draft2020 + `"items":{"type":"number"}}`, `{` + draft2020 + `"prefixItems":[{"type":"string"}],"items":{"type":"number"}}`, []string{"[0] narrows type from [number] to [string]"}},
		{"number of items", `{"minItems":1,"maxItems":5}`, `{"minItems":2,"maxItems":4}`, []string{" needs at least 2 items", " allows at most 4 items"}},
		{"fewer bounds", `{"minItems":1,"maxItems":5}`, `{"minItems":0,"maxItems":6}`, nil},
		{"unique items", `{"type":"array"}`, `{"uniqueItems":true}`, []string{" became a set of unique items"}},
		{"unique single item", `{"type":"array","maxItems":1}`, `{"uniqueItems":true}`, nil},
		{"contains", `{"type":"array"}`, `{"contains":{"type":"string"}}`, []string{" must contain other items than before"}},
		{"contains less", `{"contains":{"type":"integer"}}`, `{"contains":{"type":"number"}}`, nil},
		{"more contained", `{` + draft2020 + `"contains":{},"minContains":2,"maxContains":3}`, `{` + draft2020 + `"contains":{},"minContains":3}`, []string{" must contain other items than before"}},
		{"fewer contained", `{` + draft2020 + `"contains":{},"minContains":2,"maxContains":3}`, `{` + draft2020 + `"contains":{},"minContains":1,"maxContains":4}`, nil},
		{"unevaluated items", `{` + draft2020 + `"type":"array"}`, `{` + draft2020 + `"unevaluatedItems":false}`, []string{" no longer allows additional items"}},

		{"lengths", `{"type":"string","minLength":2,"maxLength":5}`, `{"minLength":3,"maxLength":4}`, []string{" needs at least 3 characters", " allows at most 4 characters"}},
		{"lengths loosened", `{"type":"string","minLength":2,"maxLength":5}`, `{"minLength":2,"maxLength":6}`, nil},
		{"pattern", `{"type":"string","pattern":"^a"}`, `{"pattern":"^b"}`, []string{" must match another pattern, ^b"}},
		{"same pattern, unknown to Go", `{"type":"string","pattern":"^(?=a)"}`, `{"pattern":"^(?=a)"}`, nil},
		{"format", `{"type":"string"}`, `{"format":"date"}`, []string{" must have another format, date"}},
		{"format as an annotation", `{` + draft2020 + `"type":"string"}`, `{` + draft2020 + `"format":"date"}`, nil},

		{"limits", `{"type":"number","minimum":1,"maximum":9}`, `{"minimum":2,"maximum":8}`, []string{" must be at least 2", " must be at most 8"}},
		{"same limits, exclusive", `{"type":"number","minimum":1,"maximum":9}`, `{"exclusiveMinimum":1,"exclusiveMaximum":9}`, []string{" must be above 1", " must be below 9"}},
		{"exclusive to inclusive", `{"type":"number","exclusiveMinimum":1,"exclusiveMaximum":9}`, `{"minimum":1,"maximum":9}`, nil},
		{"exact limits", `{"type":"integer","maximum":9007199254740993}`, `{"maximum":9007199254740992}`, []string{" must be at most 9007199254740992"}},
		{"multiples", `{"type":"number","multipleOf":6}`, `{"multipleOf":4}`, []string{" must be a multiple of 4"}},
		{"divisor", `{"type":"number","multipleOf":0.6}`, `{"multipleOf":0.3}`, nil},
		{"integers are multiples of one", `{"type":"integer"}`, `{"multipleOf":0.5}`, nil},

		{"enum narrowed", `{"enum":["a","b","c"]}`, `{"enum":["a"]}`, []string{` no longer accepts "b"`, ` no longer accepts "c"`}},
		{"enum widened", `{"enum":["a"]}`, `{"enum":["a","b"]}`, nil},
		{"enum of a free string", `{"type":"string"}`, `{"enum":["a"]}`, []string{" narrows to fixed values"}},
		{"const of a free string", `{"type":"string"}`, `{"const":"a"}`, []string{" narrows to fixed values"}},
		{"const within bounds", `{"const":5}`, `{"type":"integer","minimum":5}`, nil},
		{"const out of bounds", `{"const":5}`, `{"type":"integer","minimum":6}`, []string{" no longer accepts 5"}},

		{"allOf flattened", `{"allOf":[{"type":"object"},{"required":["a"]}]}`, `{"type":"object","required":["a"]}`, nil},
		{"allOf added", `{"type":"object"}`, `{"allOf":[{"required":["a"]},{"required":["b"]}]}`, []string{"a became required", "b became required"}},
		{"alternative added", `{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, nil},
		{"alternative removed", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `{"anyOf":[{"type":"string"},{"type":"boolean"}]}`, []string{" fits none of 2 alternatives"}},
		{"single alternative", `{"type":"integer"}`, `{"anyOf":[{"type":"string"}]}`, []string{" narrows type from [integer] to [string]"}},
		{"types to alternatives", `{"type":["string","integer"]}`, `{"oneOf":[{"type":"string"},{"type":"number"}]}`, nil},
		{"alternatives to types", `{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `{"type":["string","number"]}`, nil},
		{"alternative narrowed", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"required":["a"]}`, []string{"a became required"}},
		{"not added", `{"type":"string"}`, `{"not":{"maxLength":3}}`, []string{" excludes more than before"}},
		{"not of another type", `{"type":"string"}`, `{"not":{"type":"integer"}}`, nil},
		{"not narrowed", `{"type":"integer","not":{"minimum":3}}`, `{"not":{"type":"integer","minimum":5}}`, nil},
		{"condition added", `{"type":"object"}`, `{"if":{"required":["a"]},"then":{"required":["b"]}}`, []string{" changed its condition"}},
		{"condition kept", `{"if":{"required":["a"]},"then":{"required":["b","c"]}}`, `{"if":{"required":["a"]},"then":{"required":["b"]}}`, nil},

		{"definitions", `{"definitions":{"t":{"type":"integer"}},"properties":{"a":{"$ref":"#/definitions/t"}}}`, `{"definitions":{"u":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/u"}}}`,
			[]string{"a narrows type from [integer] to [string]"}},
		{"recursive", `{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}}}`, `{"properties":{"next":{"$ref":"#"},"v":{"type":"number"}}}`, nil},
		{"recursive and narrowed", `{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}}}`, `{"properties":{"next":{"$ref":"#"},"v":{"type":"string"}}}`,
			[]string{"v narrows type from [integer] to [string]"}},
		{"mutually recursive", `{"$ref":"#/definitions/a","definitions":{"a":{"properties":{"b":{"$ref":"#/definitions/b"}}},"b":{"properties":{"a":{"$ref":"#/definitions/a"},"x":{"type":"integer"}}}}}`,
			`{"$ref":"#/definitions/a","definitions":{"a":{"properties":{"b":{"$ref":"#/definitions/b"}}},"b":{"properties":{"a":{"$ref":"#/definitions/a"},"x":{"type":"string"}}}}}`,
			[]string{"b.x narrows type from [integer] to [string]"}},
		{"boolean subschemas", `{"properties":{"a":false,"b":true}}`, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, []string{"b narrows type from [] to [string]"}},
		{"every violation", `{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"items":{"type":"integer"}}}}`,
			`{"required":["d"],"properties":{"a":{"type":"string"},"b":{"type":"integer","maximum":1},"c":{"items":{"type":"string"}}}}`,
			[]string{"a narrows type from [integer] to [string]", "b must be at most 1", "c[] narrows type from [integer] to [string]", "d became required"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, backward(t, tt.writer, tt.reader)); diff != "" {
				t.Errorf("mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStrictContentTakesOpenObjectsAtTheirWord(t *testing.T) {
	tests := []struct {
		writer, reader string
		want           []string
	}{
		{`{"type":"object"}`, `{"properties":{"note":{"type":"string"}}}`, []string{"note narrows type from [] to [string]"}},
		{`{"additionalProperties":false}`, `{"properties":{"note":{"type":"string"}}}`, nil},
		{`{"type":"object"}`, `{"additionalProperties":false}`, []string{" no longer allows additional properties"}},
		{`{"type":"object"}`, `{"additionalProperties":{"type":"string"}}`, []string{"* narrows type from [] to [string]"}},
		{`{"type":"object"}`, `{"patternProperties":{"^x":{"type":"string"}}}`, []string{"/^x/ narrows type from [] to [string]"}},
		{`{"type":"array"}`, `{"items":[{"type":"string"}]}`, []string{"[0] narrows type from [] to [string]"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, backward(t, tt.writer, tt.reader, WithStrictContent())); diff != "" {
			t.Errorf("%s to %s mismatch (-want +got):\n%s", tt.writer, tt.reader, diff)
		}
		if found := backward(t, tt.writer, tt.reader); found != nil {
			t.Errorf("%s to %s by default: %v", tt.writer, tt.reader, found)
		}
	}
}

func TestJSONCompatibilityByMode(t *testing.T) {
	const closed, wider = `{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{},"b":{}},"additionalProperties":false}`
	tests := []struct {
		previous, candidate string
		mode                CompatibilityMode
		want                []string
	}{
		{`{"type":"integer"}`, `{"type":"string"}`, Backward, []string{"BACKWARD:  narrows type from [integer] to [string]"}},
		{`{"type":"integer"}`, `{"type":"string"}`, Forward, []string{"FORWARD:  narrows type from [string] to [integer]"}},
		{`{"type":"integer"}`, `{"type":"string"}`, Full, []string{"BACKWARD:  narrows type from [integer] to [string]", "FORWARD:  narrows type from [string] to [integer]"}},
		{`{"type":"integer"}`, `{"type":"string"}`, None, nil},
		{closed, wider, Backward, nil},
		{closed, wider, Forward, []string{"FORWARD: b is no longer allowed"}},
		{wider, closed, Backward, []string{"BACKWARD: b is no longer allowed"}},
		{wider, closed, Forward, nil},
	}
	for _, tt := range tests {
		got, err := JSONCompatibility(tt.previous, tt.candidate, tt.mode)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(CompatibilityResult{Compatible: tt.want == nil, Incompatibilities: tt.want}, got); diff != "" {
			t.Errorf("%s to %s, %v mismatch (-want +got):\n%s", tt.previous, tt.candidate, tt.mode, diff)
		}
	}
	for _, mode := range []CompatibilityMode{Backward, Forward, Full} {
		open := `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`
		added := `{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"]}`
		if got, err := JSONCompatibility(open, added, mode); err != nil || !got.Compatible || got.Incompatibilities != nil {
			t.Errorf("%v: an optional property of an open object: %v, %v", mode, got, err)
		}
	}
}

func TestJSONCompatibilityOfAHistoryWithReferences(t *testing.T) {
	money := func(typ string) []Reference {
		return []Reference{{Name: "money.json", Schema: `{"type":"` + typ + `"}`}}
	}
	total := `{"properties":{"total":{"$ref":"money.json"}}}`
	history := []ResolvedSchema{{Schema: total, Dependencies: money("string")}, {Schema: total, Dependencies: money("integer")}}
	candidate := ResolvedSchema{Schema: total, Dependencies: money("number")}
	got, err := CheckJSONCompatibility(history, candidate, BackwardTransitive)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"BACKWARD: against schema 1 of 2: total narrows type from [string] to [number]"}
	if diff := cmp.Diff(CompatibilityResult{Incompatibilities: want}, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
	if got, err := CheckJSONCompatibility(history, candidate, Backward); err != nil || !got.Compatible {
		t.Errorf("against the last one: %v, %v", got, err)
	}
	for _, schema := range []string{`{`, `{"type":"nope"}`, `{"$ref":"gone.json"}`} {
		if _, err := JSONCompatibility(schema, `{}`, Full); err == nil || !strings.HasPrefix(err.Error(), "invalid JSON Schema: ") {
			t.Errorf("%s: error is %v", schema, err)
		}
	}
	tuple := `{"items":[{"type":"string"}]}`
	if _, err := CheckJSONCompatibility(nil, ResolvedSchema{Schema: tuple}, Full, WithCompatibilityDialect(JSONDraft2020)); err == nil {
		t.Error("a tuple of draft-07 is taken for 2020-12")
	}
}

func TestJSONComparisonIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/definitions/d0","definitions":{`)
	for i := range 40 {
		fmt.Fprintf(&b, `"d%d":{"properties":{"l":{"$ref":"#/definitions/d%[2]d"},"r":{"$ref":"#/definitions/d%[2]d"}}},`, i, i+1)
	}
	b.WriteString(`"d40":{"type":"integer"}}}`)
	if found := backward(t, b.String(), strings.Replace(b.String(), `"d40":{"type":"integer"}`, `"d40":{"type":"number"}`, 1)); found != nil {
		t.Errorf("2^40 paths to 41 pairs: %q", found)
	}
	var choices []string
	for i := range 18 {
		choices = append(choices, fmt.Sprintf(`{"anyOf":[{"minProperties":%d},{"maxProperties":%d}]}`, i, i+50))
	}
	found := backward(t, `{"type":"object","allOf":[`+strings.Join(choices, ",")+`]}`, `{"type":"object","properties":{"a":{}},"minProperties":0}`)
	if len(found) == 0 || !strings.HasSuffix(found[0], " is part of schemas that are too large to compare") {
		t.Errorf("2^18 combinations were compared: %q", found)
	}
}

// What is wide costs as much as what is deep: a comparison looks at a bounded number
// of pairs of schemas, of names and patterns, and of values.
func TestJSONComparisonOfWideSchemasIsBounded(t *testing.T) {
	list := func(n int, part string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(part, "N", strconv.Itoa(i))
		}
		return strings.Join(parts, ",")
	}
	deep := func(leaf string) string {
		for i := range 12 {
			leaf = fmt.Sprintf(`{"oneOf":[%s,{"type":"null","title":"%d"},{"minProperties":%[2]d}]}`, leaf, i)
		}
		return leaf
	}
	for name, tc := range map[string]struct {
		writer, reader string
		large          bool
	}{
		"conjuncts":           {`{"allOf":[` + list(4200, `{"maxLength":N}`) + `]}`, `{"allOf":[` + list(4200, `{"maxLength":N}`) + `,{}]}`, true},
		"some conjuncts":      {`{"allOf":[` + list(900, `{"maxLength":N}`) + `]}`, `{"allOf":[` + list(900, `{"maxLength":N}`) + `,{}]}`, false},
		"alternatives":        {`{"oneOf":[` + list(3000, `{"type":"object","required":["rN"]}`) + `]}`, `{"oneOf":[{"type":"null"},` + list(3000, `{"type":"object","required":["rN"],"title":"x"}`) + `]}`, true},
		"names and patterns":  {`{"properties":{` + list(4200, `"pN":{}`) + `}}`, `{"patternProperties":{` + list(4200, `"^pN$":{"type":"string"}`) + `}}`, true},
		"names":               {`{"properties":{` + list(2000, `"pN":{"type":"string"}`) + `}}`, `{"title":"x","properties":{` + list(2000, `"pN":{"type":"string"}`) + `}}`, false},
		"values":              {`{"enum":[` + list(9000, `"vN"`) + `]}`, `{"enum":[` + list(9000, `"vN"`) + `,0]}`, true},
		"some values":         {`{"enum":[` + list(900, `"vN"`) + `]}`, `{"enum":[` + list(900, `"vN"`) + `,0]}`, false},
		"alternatives nested": {deep(`{"type":"string"}`), deep(`{"type":"string","title":"x"}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			found := backward(t, tc.writer, tc.reader)
			large := slices.ContainsFunc(found, func(text string) bool {
				return strings.HasSuffix(text, " is part of schemas that are too large to compare")
			})
			if large != tc.large || !large && found != nil {
				t.Errorf("%d violations, too large to compare %v: %.200q", len(found), large, found)
			}
		})
	}
}

// The library compiles a schema in a time that grows with the square of its parts.
func TestJSONSchemasOfVeryManyPartsAreRefused(t *testing.T) {
	text := `{"type":"object","properties":{"p":{}` + strings.Repeat(`,"p":{}`, 10) + `},"x":[` + strings.TrimSuffix(strings.Repeat(`{},`, 50_000), ",") + `]}`
	_, err := JSONCompatibility(text, `{}`, Backward)
	if want := `invalid JSON Schema: it has more than 50000 objects at ""`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// recursiveRecords are n records, told apart by a constant, each of which holds
// any of them.
func recursiveRecords(n int, extra string) string {
	var definitions, branches []string
	for i := range n {
		branches = append(branches, fmt.Sprintf(`{"$ref":"#/definitions/T%d"}`, i))
	}
	for i := range n {
		definitions = append(definitions, fmt.Sprintf(
			`"T%d":{"type":"object","required":["kind"],"properties":{"kind":{"const":"t%d"}%s,"child":{"oneOf":[%s]}}}`,
			i, i, extra, strings.Join(branches, ",")))
	}
	return `{"oneOf":[` + strings.Join(branches, ",") + `],"definitions":{` + strings.Join(definitions, ",") + `}}`
}

// A pair of schemas is compared once, however many ways lead to it.
func TestRecursiveJSONSchemasAreCompared(t *testing.T) {
	previous := recursiveRecords(3, "")
	if got := backward(t, previous, previous); got != nil {
		t.Errorf("compared with itself: %q", got)
	}
	if got := backward(t, previous, recursiveRecords(3, `,"note":{"type":"string"}`)); got != nil {
		t.Errorf("compared with one that has another property: %q", got)
	}
	if got := backward(t, recursiveRecords(12, ""), recursiveRecords(12, `,"note":{"type":"string"}`)); got != nil {
		t.Errorf("twelve records: %q", got)
	}
	want := []string{" fits none of 3 alternatives"}
	if diff := cmp.Diff(want, backward(t, recursiveRecords(3, `,"note":{"type":"integer"}`), recursiveRecords(3, `,"note":{"type":"string"}`))); diff != "" {
		t.Errorf("another type: mismatch (-want +got):\n%s", diff)
	}
	// The second alternative of the outermost record is the one that fits, and what
	// was found below the first one rests on an assumption that proves wrong.
	const node = `"definitions":{"N":{"type":"object","properties":{"next":{"$ref":"#/definitions/N"},"v":%s}}}`
	writer := `{"$ref":"#/definitions/N",` + fmt.Sprintf(node, `{"type":"number"}`) + `}`
	reader := `{"anyOf":[{"type":"object","properties":{"next":{"$ref":"#/definitions/N"},"v":{"type":"number"}}},{"type":"string"}],` + fmt.Sprintf(node, `{"type":"integer"}`) + `}`
	if got := backward(t, writer, reader); len(got) == 0 {
		t.Error("a record whose nested one narrows is compatible")
	}
}

// Definitions that double with each level have very many paths and few pairs.
func TestViolationsOfManyPathsAreBounded(t *testing.T) {
	doubling := func(leaf string) string {
		definitions := []string{`"D0":{"type":"` + leaf + `"}`}
		for i := range 24 {
			definitions = append(definitions, fmt.Sprintf(`"D%d":{"type":"object","properties":{"a":{"$ref":"#/definitions/D%d"},"b":{"$ref":"#/definitions/D%[2]d"}}}`, i+1, i))
		}
		return `{"$ref":"#/definitions/D24","definitions":{` + strings.Join(definitions, ",") + `}}`
	}
	got := backward(t, doubling("number"), doubling("integer"))
	if len(got) != 1000 || !strings.HasPrefix(got[0], "a.a.a.") || !strings.HasSuffix(got[0], ".a narrows type from [number] to [integer]") {
		t.Errorf("%d violations, the first of which is %.200q", len(got), got)
	}
}
