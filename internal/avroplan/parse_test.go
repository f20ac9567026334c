// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, text string, refs ...*Schema) *Schema {
	t.Helper()
	s, err := Parse(text, refs...)
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return s
}

// outline renders a schema as a short text in which a type that is declared
// further out stands as its name alone.
func outline(s *Schema) string { return outlineIn(s, map[*Schema]bool{}) }

func outlineIn(s *Schema, seen map[*Schema]bool) string {
	text := s.Kind.String()
	if s.Logical != NoLogical {
		text += ":" + s.Logical.String()
	}
	if s.Logical == Decimal {
		text += fmt.Sprintf("(%d,%d)", s.Precision, s.Scale)
	}
	if s.Kind.Named() {
		if seen[s] {
			return s.Name
		}
		seen[s] = true
		text += " " + s.Name
		if s.Aliases != nil {
			text += fmt.Sprint(s.Aliases)
		}
	}
	switch s.Kind {
	case Array, Map:
		return text + "<" + outlineIn(s.Items, seen) + ">"
	case Union:
		parts := make([]string, len(s.Branches))
		for i, b := range s.Branches {
			parts[i] = outlineIn(b, seen)
		}
		return "(" + strings.Join(parts, "|") + ")"
	case Enum:
		text += fmt.Sprint(s.Symbols)
		if s.EnumDefault >= 0 {
			text += "=" + s.Symbols[s.EnumDefault]
		}
	case Fixed:
		text += fmt.Sprintf("[%d]", s.Size)
	case Record:
		parts := make([]string, len(s.Fields))
		for i, f := range s.Fields {
			parts[i] = f.Name + " " + outlineIn(f.Type, seen)
			if f.Aliases != nil {
				parts[i] = f.Name + fmt.Sprint(f.Aliases) + " " + outlineIn(f.Type, seen)
			}
			if f.HasDefault {
				parts[i] += "=" + hex.EncodeToString(f.Default)
			}
		}
		text += "{" + strings.Join(parts, "; ") + "}"
	}
	return text
}

func TestParseBuildsEveryType(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"primitive", `"string"`, "string"},
		{"primitive object", ` {"type":"long"} `, "long"},
		{"nested type attribute", `{"type":{"type":"int"}}`, "int"},
		{"array and map", `{"type":"array","items":{"type":"map","values":"bytes"}}`, "array<map<bytes>>"},
		{"union", `["null","int",{"type":"array","items":"null"}]`, "(null|int|array<null>)"},
		{"fixed", `{"type":"fixed","name":"F","namespace":"a.b","size":3}`, "fixed a.b.F[3]"},
		{"enum", `{"type":"enum","name":"E","symbols":["A","B"],"default":"B","doc":"d"}`, "enum E[A B]=B"},
		{"namespaces",
			`{"type":"record","name":"R","namespace":"n","aliases":["Old","m.Older"],"fields":[
				{"name":"a","type":{"type":"fixed","name":"F","size":1}},
				{"name":"b","type":{"type":"record","name":"o.S","fields":[{"name":"f","type":{"type":"enum","name":"E","symbols":["X"]}},{"name":"g","type":"E"}]}},
				{"name":"c","type":"F"},
				{"name":"d","type":{"type":"fixed","name":"G","namespace":"","size":2}},
				{"name":"e","type":["null","G","o.E","n.R"]}]}`,
			"record n.R[n.Old m.Older]{a fixed n.F[1]; b record o.S{f enum o.E[X]; g o.E}; c n.F; d fixed G[2]; e (null|G|o.E|n.R)}"},
		{"lexical scope",
			`{"type":"record","name":"x.R","fields":[
				{"name":"a","type":{"type":"fixed","name":"y.Foo","size":1}},
				{"name":"b","type":{"type":"fixed","name":"x.Foo","size":2}},
				{"name":"c","type":"Foo"}]}`,
			"record x.R{a fixed y.Foo[1]; b fixed x.Foo[2]; c x.Foo}"},
		{"error record", `{"type":"error","name":"E","fields":[]}`, "record E{}"},
		{"field aliases", `{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":["b","c"]}]}`, "record R{a[b c] int}"},
		{"reference as type attribute",
			`{"type":"record","name":"R","fields":[{"name":"a","type":["null",{"type":"R"}]}]}`, "record R{a (null|R)}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, outline(mustParse(t, tc.text))); diff != "" {
				t.Errorf("Parse mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseKeepsFittingLogicalTypesOnly(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"type":"int","logicalType":"date"}`, "int:date"},
		{`{"type":"int","logicalType":"time-millis"}`, "int:time-millis"},
		{`{"type":"long","logicalType":"time-micros"}`, "long:time-micros"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "long:timestamp-millis"},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "long:timestamp-micros"},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "long:timestamp-nanos"},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, "long:local-timestamp-millis"},
		{`{"type":"long","logicalType":"local-timestamp-micros"}`, "long:local-timestamp-micros"},
		{`{"type":"long","logicalType":"local-timestamp-nanos"}`, "long:local-timestamp-nanos"},
		{`{"type":"string","logicalType":"uuid"}`, "string:uuid"},
		{`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, "fixed:uuid U[16]"},
		{`{"type":"fixed","name":"D","size":12,"logicalType":"duration"}`, "fixed:duration D[12]"},
		{`{"type":"bytes","logicalType":"big-decimal"}`, "bytes:big-decimal"},
		{`{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`, "bytes:decimal(10,2)"},
		{`{"type":"bytes","logicalType":"decimal","precision":10}`, "bytes:decimal(10,0)"},
		{`{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":9}`, "fixed:decimal(9,9) D[4]"},

		{`{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":10,"scale":2}`, "fixed D[4]"},
		{`{"type":"bytes","logicalType":"decimal"}`, "bytes"},
		{`{"type":"bytes","logicalType":"decimal","precision":0}`, "bytes"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":5}`, "bytes"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":-1}`, "bytes"},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":"2"}`, "bytes"},
		{`{"type":"int","logicalType":"timestamp-millis"}`, "int"},
		{`{"type":"long","logicalType":"date"}`, "long"},
		{`{"type":"fixed","name":"U","size":15,"logicalType":"uuid"}`, "fixed U[15]"},
		{`{"type":"fixed","name":"D","size":13,"logicalType":"duration"}`, "fixed D[13]"},
		{`{"type":"string","logicalType":"money"}`, "string"},
		{`{"type":"string","logicalType":7}`, "string"},
	} {
		if diff := cmp.Diff(tc.want, outline(mustParse(t, tc.text))); diff != "" {
			t.Errorf("Parse(%s) mismatch (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestParseRefusesWhatIsNoSchema(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, MaxSchemaDepth) + `"int"` + strings.Repeat("}", MaxSchemaDepth)
	for _, tc := range []struct{ text, want string }{
		{``, "text ends at byte 0"},
		{`{"type":"int"`, "text ends at byte 13"},
		{`string`, "not JSON: invalid character 's' looking for beginning of value"},
		{`"int" "int"`, "text goes on after the schema at byte 11"},
		{`7`, "a schema is a name, an array or an object, not a JSON number"},
		{`{"type":"int","type":"long"}`, `member "type" is repeated at byte 20`},
		{`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"s":0,"c":0}`, `member "c" is repeated at byte 118`},
		{strings.TrimSuffix(deep, "}"), ""},
		{`{"type":"array","items":` + deep + `}`, "nesting exceeds 512 levels at byte 12289"},
		{`"Unknown"`, `unknown type "Unknown"`},
		{`{"name":"x"}`, "schema has no type"},
		{`{"type":"array"}`, "array has no items"},
		{`{"type":"map"}`, "map has no values"},
		{`["int",["null"]]`, "branch 1 of a union is itself a union"},
		{`["int","null","int"]`, "a union has two branches int"},
		{`[{"type":"map","values":"int"},{"type":"map","values":"long"}]`, "a union has two branches map"},
		{`{"type":"fixed","name":"F"}`, "fixed F has no size"},
		{`{"type":"fixed","name":"F","size":-1}`, "fixed F has invalid size -1"},
		{`{"type":"fixed","name":"F","size":1.5}`, "fixed F has invalid size 1.5"},
		{`{"type":"fixed","name":"F","size":2147483648}`, "fixed F has invalid size 2147483648"},
		{`{"type":"enum","name":"E"}`, "enum E has no symbols"},
		{`{"type":"enum","name":"E","symbols":["A","A"]}`, "enum E has symbol A twice"},
		{`{"type":"enum","name":"E","symbols":["A-"]}`, `invalid symbol "A-" in enum E`},
		{`{"type":"enum","name":"E","symbols":"A"}`, "symbols is a JSON string instead of an array"},
		{`{"type":"enum","name":"E","symbols":[1]}`, "symbols holds a JSON number instead of a string"},
		{`{"type":"enum","name":"E","symbols":["A"],"default":"B"}`, "the default of enum E is none of its symbols"},
		{`{"type":"record","fields":[]}`, "record has no name"},
		{`{"type":"record","name":1,"fields":[]}`, "name is a JSON number instead of a string"},
		{`{"type":"record","name":"1R","fields":[]}`, `invalid name "1R"`},
		{`{"type":"record","name":"R","namespace":"a..b","fields":[]}`, `invalid name "a..b.R"`},
		{`{"type":"record","name":"long","fields":[]}`, "a record cannot be named long"},
		{`{"type":"record","name":"R","aliases":["x y"],"fields":[]}`, `invalid alias "x y"`},
		{`{"type":"record","name":"R"}`, "record R has no array of fields"},
		{`{"type":"record","name":"R","fields":["a"]}`, "a field of record R is a JSON string"},
		{`{"type":"record","name":"R","fields":[{"name":"a b","type":"int"}]}`, `invalid field name "a b" in record R`},
		{`{"type":"record","name":"R","fields":[{"name":"a"}]}`, "R.a: field has no type"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`, "record R has two fields a"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":["c"]},{"name":"b","type":"int","aliases":["c"]}]}`,
			`R.b: alias "c" is also one of field a`},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":{"type":"record","name":"R","fields":[]}}}]}`,
			"R.a[]: type R is defined twice"},
		{`{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"map","values":{"type":"record","name":"S","fields":[{"name":"b","type":"T"}]}}}]}`,
			`n.R.a{}.b: unknown type "T"`},
	} {
		_, err := Parse(tc.text)
		if tc.want == "" {
			if !strings.HasPrefix(fmt.Sprint(err), "text ends") {
				t.Errorf("Parse of unclosed text: %v", err)
			}
			continue
		}
		var parseError *ParseError
		if !errors.As(err, &parseError) || err.Error() != tc.want {
			t.Errorf("Parse(%.80s) = %v, want %s", tc.text, err, tc.want)
		}
	}
	if _, err := Parse(deep); err != nil {
		t.Errorf("Parse of %d levels: %v", MaxSchemaDepth, err)
	}
	if _, err := Parse(strings.Repeat(" ", MaxSchemaBytes) + `"int"`); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("Parse of an oversized text: %v", err)
	}
}

func TestParseEncodesDefaults(t *testing.T) {
	for _, tc := range []struct{ typ, value, want string }{
		{`"null"`, `null`, ""},
		{`"boolean"`, `true`, "01"},
		{`"int"`, `-2147483648`, "ffffffff0f"},
		{`"long"`, `9223372036854775807`, "feffffffffffffffff01"},
		{`"float"`, `1.5`, "0000c03f"},
		{`"double"`, `3`, "0000000000000840"},
		{`"double"`, `"-Infinity"`, "000000000000f0ff"},
		{`"string"`, `"h\u00e9"`, "0668c3a9"},
		{`"bytes"`, `"\u0000\u00ff"`, "0400ff"},
		{`{"type":"fixed","name":"F","size":2}`, `"\u0001\u0080"`, "0180"},
		{`{"type":"enum","name":"E","symbols":["A","B"]}`, `"B"`, "02"},
		{`{"type":"array","items":"int"}`, `[]`, "00"},
		{`{"type":"array","items":"int"}`, `[1,2]`, "04020400"},
		{`{"type":"map","values":"int"}`, `{"k":1}`, "02026b0200"},
		{`["null","int"]`, `null`, "00"},
		{`["int","null"]`, `5`, "000a"},
		{`["null","int"]`, `5`, "020a"},
		{`["null","string",{"type":"array","items":"string"}]`, `["x"]`, "0402027800"},
		{`{"type":"record","name":"S","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":7}]}`, `{"a":1}`, "020e"},
		{`{"type":"record","name":"S","fields":[{"name":"a","type":"int","default":3},{"name":"b","type":["null","S"],"default":null}]}`, `{"b":{"a":4}}`, "06020800"},
	} {
		s := mustParse(t, `{"type":"record","name":"R","fields":[{"name":"f","type":`+tc.typ+`,"default":`+tc.value+`}]}`)
		if diff := cmp.Diff(tc.want, hex.EncodeToString(s.Fields[0].Default)); diff != "" {
			t.Errorf("default %s of %s mismatch (-want +got):\n%s", tc.value, tc.typ, diff)
		}
	}
}

func TestParseRefusesDefaultsOfAnotherType(t *testing.T) {
	for _, tc := range []struct{ typ, value, want string }{
		{`"null"`, `0`, "a JSON number is no null"},
		{`"boolean"`, `"true"`, "a JSON string is no boolean"},
		{`"int"`, `2147483648`, "2147483648 is no int"},
		{`"int"`, `1.5`, "1.5 is no int"},
		{`"long"`, `"5"`, "a JSON string is no long"},
		{`"float"`, `1e99`, "1e99 is no float"},
		{`"double"`, `"x"`, "a JSON string is no double"},
		{`"string"`, `null`, "a JSON null is no string"},
		{`"bytes"`, `"\u0100"`, "code point U+0100 is no byte"},
		{`{"type":"fixed","name":"F","size":2}`, `"a"`, "it has 1 bytes instead of the 2 of fixed F"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, `"B"`, "it is no symbol of enum E"},
		{`{"type":"array","items":"int"}`, `[1,"x"]`, "item 1: a JSON string is no int"},
		{`{"type":"map","values":"int"}`, `{"k":null}`, `key "k": a JSON null is no int`},
		{`["null","int"]`, `"x"`, "a JSON string fits no branch of union [null int]"},
		{`{"type":"record","name":"S","fields":[{"name":"a","type":"int"}]}`, `{}`, "field a is absent and has no default"},
		{`{"type":"record","name":"S","fields":[{"name":"a","type":"int"}]}`, `{"a":true}`, "field a: a JSON boolean is no int"},
		{`"R"`, `{}`, "field f: it contains itself"},
	} {
		text := `{"type":"record","name":"R","fields":[{"name":"f","type":` + tc.typ + `,"default":` + tc.value + `}]}`
		_, err := Parse(text)
		var parseError *ParseError
		want := "R.f: invalid default: " + tc.want
		if !errors.As(err, &parseError) || err.Error() != want {
			t.Errorf("Parse(%s) = %v, want %s", text, err, want)
		}
		s, err := ParseWriter(text)
		if err != nil || s.Fields[0].HasDefault {
			t.Errorf("ParseWriter(%s) = %v, want the field without a default", text, err)
		}
	}
}

func TestParseBoundsDefaultsThatMultiply(t *testing.T) {
	fields := []string{`{"name":"f0","type":{"type":"record","name":"R0","fields":[{"name":"x","type":"string","default":"` + strings.Repeat("x", 1000) + `"}]}}`}
	for i := 1; i < 30; i++ {
		fields = append(fields, fmt.Sprintf(
			`{"name":"f%d","type":{"type":"record","name":"R%d","fields":[{"name":"a","type":"R%d","default":{}},{"name":"b","type":"R%d","default":{}}]}}`,
			i, i, i-1, i-1))
	}
	_, err := Parse(`{"type":"record","name":"R","fields":[` + strings.Join(fields, ",") + `]}`)
	if err == nil || !strings.Contains(err.Error(), "defaults exceed 16777216 bytes") {
		t.Errorf("Parse = %v", err)
	}
}

func TestParseUsesReferencesAndNothingElse(t *testing.T) {
	money := mustParse(t, `{"type":"record","name":"shop.Money","fields":[{"name":"cents","type":"long"},{"name":"unit","type":{"type":"enum","name":"Unit","symbols":["EUR"]}}]}`)
	line := mustParse(t, `{"type":"record","name":"shop.Line","fields":[{"name":"price","type":"Money"}]}`, money)
	order := mustParse(t, `{"type":"record","name":"shop.Order","fields":[{"name":"lines","type":{"type":"array","items":"shop.Line"}},{"name":"unit","type":"Unit"}]}`, money, line)
	if got, want := outline(order), "record shop.Order{lines array<record shop.Line{price record shop.Money{cents long; unit enum shop.Unit[EUR]}}>; unit shop.Unit}"; got != want {
		t.Errorf("with references: got %s, want %s", got, want)
	}
	if _, err := Parse(`"shop.Money"`); err == nil || err.Error() != `unknown type "shop.Money"` {
		t.Errorf("a type of another text is visible: %v", err)
	}
	if got := mustParse(t, `"shop.Money"`, money); got != money {
		t.Errorf("a text that names a reference is %s", outline(got))
	}
	other := mustParse(t, `{"type":"fixed","name":"shop.Money","size":1}`)
	if _, err := Parse(`"int"`, line, other); err == nil || err.Error() != "references define shop.Money twice" {
		t.Errorf("clashing references: %v", err)
	}
	if _, err := Parse(`{"type":"fixed","name":"shop.Money","size":1}`, money); err == nil || err.Error() != "type shop.Money is defined twice" {
		t.Errorf("redefined reference: %v", err)
	}
}

// Registries have stored these texts. What data look like does not depend on
// what is wrong with them.
func TestParseWriterTakesWhatRegistriesStore(t *testing.T) {
	for _, tc := range []struct{ text, strict, outline string }{
		{`{"type":"record","name":"R","namespace":"my-team.x","fields":[]}`, `invalid name "my-team.x.R"`, "record my-team.x.R{}"},
		{`{"type":"record","name":"com.2x.R","fields":[]}`, `invalid name "com.2x.R"`, "record com.2x.R{}"},
		{`{"type":"record","name":"R","namespace":"com.x.Outer$","fields":[{"name":"r","type":["null","com.x.Outer$.R"]}]}`,
			`invalid name "com.x.Outer$.R"`, "record com.x.Outer$.R{r (null|com.x.Outer$.R)}"},
		{`{"type":"record","name":"Gr\u00f6\u00dfe","fields":[{"name":"h\u00f6he","type":"int"}]}`, "invalid name \"Gr\u00f6\u00dfe\"", "record Gr\u00f6\u00dfe{h\u00f6he int}"},
		{`{"type":"enum","name":"E","symbols":["a-b"]}`, `invalid symbol "a-b" in enum E`, "enum E[a-b]"},
		{`{"type":"enum","name":"E","symbols":["A"],"default":"B"}`, "the default of enum E is none of its symbols", "enum E[A]"},
		{`{"type":"record","name":"R","doc":"one","doc":"two","fields":[]}`, `member "doc" is repeated at byte 45`, "record R{}"},
		{`{"type":"fixed","name":"F","size":2,"size":3}`, `member "size" is repeated at byte 42`, "fixed F[3]"},
		{`{"type":"record","name":"R","aliases":["a-b","ok"],"fields":[]}`, `invalid alias "a-b"`, "record R[ok]{}"},
		{`{"type":"record","name":"R","aliases":"x","fields":[]}`, "aliases is a JSON string instead of an array", "record R{}"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":["x","y-z"]},{"name":"b","type":"int","aliases":["x"]}]}`,
			`R.a: invalid alias "y-z"`, "record R{a[x] int; b[x] int}"},
	} {
		if _, err := Parse(tc.text); err == nil || err.Error() != tc.strict {
			t.Errorf("Parse(%s) = %v, want %s", tc.text, err, tc.strict)
		}
		s, err := ParseWriter(tc.text)
		if err != nil {
			t.Errorf("ParseWriter(%s): %v", tc.text, err)
		} else if got := outline(s); got != tc.outline {
			t.Errorf("ParseWriter(%s) = %s, want %s", tc.text, got, tc.outline)
		}
	}
	for _, text := range []string{`{"type":"record","name":"","fields":[]}`, `{"type":"record","name":"x.","fields":[]}`, `{"type":"record","name":"R","fields":[{"name":"","type":"int"}]}`} {
		if _, err := ParseWriter(text); err == nil {
			t.Errorf("ParseWriter(%s) takes a type or field without a name", text)
		}
	}
}
