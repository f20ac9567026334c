// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// doublingJSON is a schema that uses the definition d40. Definition d0 takes
// strings, and each other one is a pair of the one before it.
func doublingJSON(use, pair string) string {
	const n = 40
	var b strings.Builder
	fmt.Fprintf(&b, `{%s,"definitions":{"d0":{"type":"string"}`, strings.ReplaceAll(use, "USE", `{"$ref":"#/definitions/d40"}`))
	for i := range n {
		ref := fmt.Sprintf(`{"$ref":"#/definitions/d%d"}`, i)
		fmt.Fprintf(&b, `,"d%d":%s`, i+1, strings.ReplaceAll(pair, "REF", ref))
	}
	return b.String() + "}}"
}

func TestSchemasThatDoubleAreBounded(t *testing.T) {
	nested := func(open, end string) string {
		return strings.Repeat(open, 40) + `"x"` + strings.Repeat(end, 40)
	}
	for _, tc := range []struct {
		name, schema, document string
		values                 int
		pointer                string
	}{
		{"allOf", doublingJSON(`"allOf":[USE]`, `{"allOf":[REF,REF]}`), `"x"`, 1, ""},
		{"anyOf and not", doublingJSON(`"allOf":[USE]`, `{"anyOf":[REF],"not":REF}`), `"x"`, 1, ""},
		{"below a member", doublingJSON(`"properties":{"a":USE}`, `{"oneOf":[REF,REF]}`), `{"a":"x"}`, 2, "/a"},
		{"members", doublingJSON(`"allOf":[USE]`, `{"allOf":[{"properties":{"a":REF}},{"additionalProperties":REF}]}`), nested(`{"a":`, "}"), 41, ""},
		{"elements", `{"items":{"$ref":"#"},"additionalProperties":{"type":"null"},"contains":{"$ref":"#"}}`, nested("[", "]"), 41, ""},
		{"names", doublingJSON(`"propertyNames":USE`, `{"allOf":[REF,REF]}`), `{"x":1}`, 2, "/x"},
	} {
		cache := seededCache(t, "t-value", 1, tc.schema)
		s := newJSONSerde[any](t, tc.schema, cache, true)
		want := fmt.Sprintf("the document takes more than %d steps to validate", 1<<20+256*tc.values)
		for call, err := range map[string]error{
			"Deserialize": second(s.Deserialize("t", Encode(1, []byte(tc.document)))),
			"Serialize":   second(s.Serialize("t", jsonTree(t, tc.document))),
		} {
			invalid, ok := errors.AsType[*ValidationError](err)
			if !ok || len(invalid.Violations) != 1 || invalid.Violations[0].Message != want ||
				!strings.HasPrefix(invalid.Violations[0].Pointer, tc.pointer) || invalid.Violations[0].Keyword == "" {
				t.Errorf("%s: %s: %v, want %q below %q", tc.name, call, err, want, tc.pointer)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func jsonTree(t *testing.T, text string) any {
	t.Helper()
	v, err := jsoncheck.ParseSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRepeatedSchemasOfASmallDocumentAreValidated(t *testing.T) {
	const expression = `{"definitions":{"e":{"oneOf":[{"type":"integer"},
		{"type":"object","properties":{"op":{"const":"add"},"l":{"$ref":"#/definitions/e"},"r":{"$ref":"#/definitions/e"}},"required":["op","l","r"]},
		{"type":"object","properties":{"op":{"const":"neg"},"l":{"$ref":"#/definitions/e"}},"required":["op","l"],"additionalProperties":false}]}},
		"$ref":"#/definitions/e"}`
	cache := seededCache(t, "t-value", 1, expression)
	s := newJSONSerde[any](t, expression, cache, true)
	document := strings.Repeat(`{"op":"add","r":1,"l":`, 8) + "2" + strings.Repeat("}", 8)
	want := any(2.0)
	for range 8 {
		want = map[string]any{"op": "add", "r": 1.0, "l": want}
	}
	got, err := s.Deserialize("t", Encode(1, []byte(document)))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Deserialize: %v, mismatch (-want +got):\n%s", err, diff)
	}
	_, err = s.Deserialize("t", Encode(1, []byte(strings.Replace(document, "2", `"two"`, 1))))
	if invalid, ok := errors.AsType[*ValidationError](err); !ok || strings.Contains(err.Error(), "steps") || len(invalid.Violations) < 2 {
		t.Errorf("an invalid leaf: %v", err)
	}
}
