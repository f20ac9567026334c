// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"os"
	"strings"
	"testing"
)

// verdict is a change of a schema that the BACKWARD level allows or does not.
type verdict struct {
	name, previous, candidate string
	compatible                bool
	otherwise                 string // the change in docs/serdes.md on which a registry says the opposite
	by                        string // the registries that do: Confluent's (C), Apicurio's (A)
}

const (
	registryHead  = "syntax = \"proto3\"; package p;\n"
	registryHead2 = "syntax = \"proto2\"; package p;\n"

	labelOtherwise = "a single text, bytes or message becomes many"
)

// protobufOf is a file with one message of fields, and two for them to refer to.
func protobufOf(fields string) string {
	return registryHead + "message M { " + fields + " } message A { int32 x = 1; } message B { int32 x = 1; }"
}

var protobufVerdicts = []verdict{
	{"same", protobufOf("int32 a = 1;"), protobufOf("int32 a = 1;"), true, "", ""},
	{"new field", protobufOf("int32 a = 1;"), protobufOf("int32 a = 1; string b = 2;"), true, "", ""},
	{"removed and reserved", protobufOf("int32 a = 1; int32 b = 2;"), protobufOf("int32 b = 2; reserved 1; reserved \"a\";"), true, "", ""},
	{"new message", protobufOf("int32 a = 1;"), protobufOf("int32 a = 1;") + " message C {}", true, "", ""},
	{"new value of an open enum", protobufOf("E e = 1;} enum E { Z = 0;"), protobufOf("E e = 1;} enum E { Z = 0; ONE = 1;"), true, "", ""},
	{"new enum", protobufOf("int32 a = 1;"), protobufOf("int32 a = 1;") + " enum E { Z = 0; }", true, "", ""},
	{"new field in a nested message", protobufOf("message N { int32 x = 1; } N n = 1;"), protobufOf("message N { int32 x = 1; int32 y = 2; } N n = 1;"), true, "", ""},
	{"a oneof of new fields", protobufOf("int32 a = 1;"), protobufOf("int32 a = 1; oneof o { int32 b = 2; string c = 3; }"), true, "", ""},
	{"new field in a oneof", protobufOf("oneof o { int32 a = 1; }"), protobufOf("oneof o { int32 a = 1; string b = 2; }"), true, "", ""},
	{"unsigned number", protobufOf("int32 a = 1;"), protobufOf("uint32 a = 1;"), true, "int32, int64, uint32, uint64, bool and enums in each other's place", "A"},
	{"string and bytes", protobufOf("string a = 1;"), protobufOf("bytes a = 1;"), true, "string and bytes in each other's place", "A"},
	{"wire type", protobufOf("int64 a = 1;"), protobufOf("string a = 1;"), false, "", ""},
	{"wire type in a nested message", protobufOf("message N { int32 x = 1; } N n = 1;"), protobufOf("message N { string x = 1; } N n = 1;"), false, "", ""},
	{"zig-zag", protobufOf("sint32 a = 1;"), protobufOf("int32 a = 1;"), false, "", ""},
	{"float", protobufOf("fixed32 a = 1;"), protobufOf("float a = 1;"), false, "", ""},
	{"double", protobufOf("double a = 1;"), protobufOf("fixed64 a = 1;"), false, "", ""},
	{"other message", protobufOf("A a = 1;"), protobufOf("B a = 1;"), false, "", ""},
	{"message and number", protobufOf("A a = 1;"), protobufOf("int32 a = 1;"), false, "", ""},
	{"cardinality of text", protobufOf("string a = 1;"), protobufOf("repeated string a = 1;"), true, labelOtherwise, "A"},
	{"cardinality of messages", protobufOf("A a = 1;"), protobufOf("repeated A a = 1;"), true, labelOtherwise, "A"},
	{"cardinality of numbers", protobufOf("int32 a = 1;"), protobufOf("repeated int32 a = 1;"), false, "", ""},
	{"key of a map", protobufOf("map<string, A> a = 1;"), protobufOf("map<int32, A> a = 1;"), false, "", ""},
	{"value of a map", protobufOf("map<string, A> a = 1;"), protobufOf("map<string, int32> a = 1;"), false, "", ""},
	{"map and messages", protobufOf("map<string, A> a = 1;"), protobufOf("repeated A a = 1;"), false, "", ""},
	{"new required field", registryHead2 + "message M {}", registryHead2 + "message M { required int32 a = 1; }", false, "", ""},
	{"required field removed", registryHead2 + "message M { required int32 a = 1; }", registryHead2 + "message M { reserved 1; reserved \"a\"; }", true, "a required field goes", "C"},
	{"reserved number used", protobufOf("reserved 1;"), protobufOf("int32 a = 1;"), false, "", ""},
	{"other number", protobufOf("int32 a = 1;"), protobufOf("int32 a = 2;"), false, "a field gets another number", "C"},
	{"removed message", protobufOf("int32 a = 1;"), registryHead + "message M { int32 a = 1; }", false, "", ""},
	{"field removed from a oneof", protobufOf("oneof o { int32 a = 1; int32 b = 2; }"), protobufOf("oneof o { int32 a = 1; }"), false, "", ""},
	{"removed field", protobufOf("int32 a = 1; int32 b = 2;"), protobufOf("int32 b = 2;"), true, "a field is removed and its number and name are not reserved", "A"},
	{"renamed field", protobufOf("int32 a = 1;"), protobufOf("int32 b = 1;"), true, "a field is renamed", "A"},
	{"wider number", protobufOf("int32 a = 1;"), protobufOf("int64 a = 1;"), true, "int32, int64, uint32, uint64, bool and enums in each other's place", "A"},
	{"package", protobufOf("int32 a = 1;"), strings.Replace(protobufOf("int32 a = 1;"), "package p", "package q", 1), false, "the package changes", "CA"},
	{"fields joined in a oneof", protobufOf("int32 a = 1; int32 b = 2;"), protobufOf("oneof o { int32 a = 1; int32 b = 2; }"), false, "fields that the writer can set together join a oneof", "A"},
}

// Registries are those of strict content models, which is their default.
var jsonVerdicts = []verdict{
	{"words", `{"title":"a","description":"b","default":1}`, `{"title":"x","description":"y","default":2}`, true, "", ""},
	{"no limits any more", `{"type":"string"}`, `{}`, true, "", ""},
	{"a type where there was none", `{}`, `{"type":"string"}`, false, "", ""},
	{"another type", `{"type":"boolean"}`, `{"type":"string"}`, false, "", ""},
	{"one more type", `{"type":"string"}`, `{"type":["string","boolean"]}`, true, "a type, an alternative or a value more is allowed where the form of the schema changes", "A"},
	{"one type fewer", `{"type":["string","boolean"]}`, `{"type":"string"}`, false, "", ""},
	{"integer to number", `{"type":"integer"}`, `{"type":"number"}`, true, "", ""},
	{"number to integer", `{"type":"number"}`, `{"type":"integer"}`, false, "", ""},

	{"longest text added", `{"type":"string"}`, `{"type":"string","maxLength":9}`, false, "", ""},
	{"longest text longer", `{"type":"string","maxLength":9}`, `{"type":"string","maxLength":10}`, true, "", ""},
	{"longest text shorter", `{"type":"string","maxLength":9}`, `{"type":"string","maxLength":8}`, false, "", ""},
	{"shortest text removed", `{"type":"string","minLength":2}`, `{"type":"string"}`, true, "", ""},
	{"shortest text longer", `{"type":"string","minLength":2}`, `{"type":"string","minLength":3}`, false, "", ""},
	{"pattern added", `{"type":"string"}`, `{"type":"string","pattern":"^a"}`, false, "", ""},
	{"pattern removed", `{"type":"string","pattern":"^a"}`, `{"type":"string"}`, true, "", ""},
	{"pattern changed", `{"type":"string","pattern":"^a"}`, `{"type":"string","pattern":"^b"}`, false, "", ""},

	{"maximum added", `{"type":"number"}`, `{"type":"number","maximum":9}`, false, "", ""},
	{"maximum raised", `{"type":"number","maximum":9}`, `{"type":"number","maximum":9.5}`, true, "", ""},
	{"minimum lowered", `{"type":"number","minimum":2}`, `{"type":"number","minimum":1}`, true, "", ""},
	{"minimum raised", `{"type":"number","minimum":2}`, `{"type":"number","minimum":3}`, false, "", ""},
	{"open maximum lowered", `{"type":"number","exclusiveMaximum":9}`, `{"type":"number","exclusiveMaximum":8}`, false, "", ""},
	{"open minimum removed", `{"type":"number","exclusiveMinimum":9}`, `{"type":"number"}`, true, "", ""},
	{"a step added", `{"type":"integer"}`, `{"type":"integer","multipleOf":5}`, false, "", ""},
	{"a step that divides", `{"type":"integer","multipleOf":10}`, `{"type":"integer","multipleOf":5}`, true, "", ""},
	{"a step that is divided", `{"type":"integer","multipleOf":5}`, `{"type":"integer","multipleOf":10}`, false, "", ""},
	{"a step beside the old one", `{"type":"integer","multipleOf":4}`, `{"type":"integer","multipleOf":6}`, false, "", ""},

	{"enum longer", `{"enum":["a","b"]}`, `{"enum":["b","a","c"]}`, true, "", ""},
	{"enum shorter", `{"enum":["a","b"]}`, `{"enum":["a"]}`, false, "", ""},
	{"enum replaced", `{"enum":["a","b"]}`, `{"enum":["a","c"]}`, false, "", ""},

	{"required, as it was", `{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]}`, `{"type":"object","properties":{"k":{"type":"string"}}}`, true, "", ""},
	{"became required", `{"type":"object","properties":{"k":{"type":"string"}}}`, `{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]}`, false, "", ""},
	{"became required with a default", `{"type":"object","properties":{"k":{"type":"string"}}}`, `{"type":"object","properties":{"k":{"type":"string","default":""}},"required":["k"]}`, true, "a property with a default becomes required", "A"},
	{"another one became required, which is no property", `{"properties":{"k":{"type":"string"}},"required":["k"]}`, `{"properties":{"k":{"type":"string"}},"required":["l"]}`, false,
		"a property is required that `properties` does not list", "C"},
	{"fewer members at most", `{"type":"object","maxProperties":4}`, `{"type":"object","maxProperties":3}`, false, "", ""},
	{"fewer members at least", `{"type":"object","minProperties":4}`, `{"type":"object","minProperties":3}`, true, "", ""},
	{"property added to an open object", `{"type":"object"}`, `{"type":"object","properties":{"k":{"type":"string"}}}`, false, "", ""},
	{"free property added to an open object", `{"type":"object"}`, `{"type":"object","properties":{"k":{}}}`, true, "a property that may be anything is added to an open object", "A"},
	{"property added to a closed object", `{"type":"object","additionalProperties":false}`, `{"type":"object","properties":{"k":{"type":"string"}},"additionalProperties":false}`, true, "", ""},
	{"property removed from an open object", `{"type":"object","properties":{"k":{"type":"string"}}}`, `{"type":"object"}`, true, "", ""},
	{"property removed from a closed object", `{"type":"object","properties":{"k":{"type":"string"}},"additionalProperties":false}`, `{"type":"object","additionalProperties":false}`, false, "", ""},
	{"property that a typed rest takes", `{"type":"object","properties":{"k":{"type":"string"}},"additionalProperties":false}`, `{"type":"object","additionalProperties":{"type":"string"}}`, true, "", ""},
	{"property that a typed rest refuses", `{"type":"object","properties":{"k":{"type":"boolean"}},"additionalProperties":false}`, `{"type":"object","additionalProperties":{"type":"string"}}`, false, "", ""},
	{"property from a typed rest", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","properties":{"k":{"type":"string"}},"additionalProperties":{"type":"string"}}`, true, "", ""},
	{"property from a typed rest, of another type", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","properties":{"k":{"type":"boolean"}},"additionalProperties":{"type":"string"}}`, false, "", ""},
	{"object opened", `{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":true}`, true, "", ""},
	{"object closed", `{"type":"object"}`, `{"type":"object","additionalProperties":false}`, false, "", ""},
	{"type of a property", `{"type":"object","properties":{"k":{"type":"object","properties":{"n":{"type":"string"}}}}}`,
		`{"type":"object","properties":{"k":{"type":"object","properties":{"n":{"type":"boolean"}}}}}`, false, "", ""},
	{"dependency added", `{"type":"object"}`, `{"type":"object","dependencies":{"k":["l"]}}`, false, "", ""},
	{"dependency removed", `{"type":"object","dependencies":{"k":["l"]}}`, `{"type":"object"}`, true, "", ""},
	{"dependency longer", `{"type":"object","dependencies":{"k":["l"]}}`, `{"type":"object","dependencies":{"k":["l","m"]}}`, false, "", ""},

	{"more items at most", `{"type":"array","maxItems":3}`, `{"type":"array","maxItems":4}`, true, "", ""},
	{"more items at least", `{"type":"array","minItems":3}`, `{"type":"array","minItems":4}`, false, "", ""},
	{"items became unique", `{"type":"array"}`, `{"type":"array","uniqueItems":true}`, false, "", ""},
	{"items need not be unique", `{"type":"array","uniqueItems":true}`, `{"type":"array"}`, true, "", ""},
	{"type of items", `{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"boolean"}}`, false, "", ""},
	{"more types of items", `{"type":"array","items":{"type":"integer"}}`, `{"type":"array","items":{"type":"number"}}`, true, "", ""},
	{"item added to an open tuple", `{"type":"array","items":[{"type":"string"}]}`, `{"type":"array","items":[{"type":"string"},{"type":"string"}]}`, false, "", ""},
	{"item added to a closed tuple", `{"type":"array","items":[{"type":"string"}],"additionalItems":false}`,
		`{"type":"array","items":[{"type":"string"},{"type":"string"}],"additionalItems":false}`, true, "", ""},
	{"item removed from a closed tuple", `{"type":"array","items":[{"type":"string"},{"type":"string"}],"additionalItems":false}`,
		`{"type":"array","items":[{"type":"string"}],"additionalItems":false}`, false, "", ""},
	{"tuple closed", `{"type":"array","items":[{"type":"string"}]}`, `{"type":"array","items":[{"type":"string"}],"additionalItems":false}`, false, "", ""},
	{"rest of no tuple", `{"type":"array","additionalItems":true}`, `{"type":"array","additionalItems":false}`, true,
		"`additionalItems` without a tuple changes", "CA"},

	{"one alternative more", `{"oneOf":[{"type":"string"},{"type":"boolean"}]}`, `{"oneOf":[{"type":"string"},{"type":"boolean"},{"type":"null"}]}`, true, "", ""},
	{"one alternative fewer", `{"oneOf":[{"type":"string"},{"type":"boolean"}]}`, `{"oneOf":[{"type":"string"}]}`, false, "", ""},
	{"a schema becomes an alternative", `{"type":"string"}`, `{"oneOf":[{"type":"null"},{"type":"string"}]}`, true, "a type, an alternative or a value more is allowed where the form of the schema changes", "A"},
	{"alternatives become one schema", `{"anyOf":[{"type":"null"},{"type":"string"}]}`, `{"type":"string"}`, false, "", ""},
	{"a condition more", `{"allOf":[{"type":"string","maxLength":9}]}`, `{"allOf":[{"type":"string","maxLength":9},{"type":"string","minLength":1}]}`, false, "", ""},
	{"a condition fewer", `{"allOf":[{"type":"string","maxLength":9},{"type":"string","minLength":1}]}`, `{"allOf":[{"type":"string","maxLength":9}]}`, true, "", ""},
	{"oneOf to anyOf", `{"oneOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`, true, "", ""},
	{"the excluded type grows", `{"not":{"type":"string"}}`, `{"not":{"type":["string","null"]}}`, false, "", ""},
	{"the excluded type shrinks", `{"not":{"type":["string","null"]}}`, `{"not":{"type":"string"}}`, true, "a type, an alternative or a value more is allowed where the form of the schema changes", "A"},
	{"a definition by another name", `{"$ref":"#/definitions/a","definitions":{"a":{"type":"string"}}}`, `{"$ref":"#/definitions/b","definitions":{"b":{"type":"string"}}}`, true, "", ""},
	{"a recursive schema", `{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"string"}},"additionalProperties":false}`, true, "", ""},
	{"a recursive schema that narrows", `{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"string"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"null"}},"additionalProperties":false}`, false, "", ""},
}

// avroOf is a record of one field, or of none.
func avroOf(field string) string { return `{"type":"record","name":"r.R","fields":[` + field + `]}` }

var avroVerdicts = []verdict{
	{"field added with a default", avroOf(``), avroOf(`{"name":"f","type":"int","default":0}`), true, "", ""},
	{"field added without a default", avroOf(``), avroOf(`{"name":"f","type":"int"}`), false, "", ""},
	{"field removed", avroOf(`{"name":"f","type":"int"}`), avroOf(``), true, "", ""},
	{"field renamed", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"g","type":"int"}`), false, "", ""},
	{"field renamed with an alias", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"g","aliases":["f"],"type":"int"}`), true, "", ""},
	{"int to long", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"f","type":"long"}`), true, "", ""},
	{"int to float", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"f","type":"float"}`), true, "", ""},
	{"long to double", avroOf(`{"name":"f","type":"long"}`), avroOf(`{"name":"f","type":"double"}`), true, "", ""},
	{"long to int", avroOf(`{"name":"f","type":"long"}`), avroOf(`{"name":"f","type":"int"}`), false, "", ""},
	{"double to float", avroOf(`{"name":"f","type":"double"}`), avroOf(`{"name":"f","type":"float"}`), false, "", ""},
	{"string to bytes", avroOf(`{"name":"f","type":"string"}`), avroOf(`{"name":"f","type":"bytes"}`), true, "", ""},
	{"bytes to string", avroOf(`{"name":"f","type":"bytes"}`), avroOf(`{"name":"f","type":"string"}`), true, "", ""},
	{"int to string", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"f","type":"string"}`), false, "", ""},
	{"into a union", avroOf(`{"name":"f","type":"int"}`), avroOf(`{"name":"f","type":["null","int"]}`), true, "", ""},
	{"out of a union", avroOf(`{"name":"f","type":["null","int"]}`), avroOf(`{"name":"f","type":"int"}`), false, "", ""},
	{"out of a union of one", avroOf(`{"name":"f","type":["int"]}`), avroOf(`{"name":"f","type":"int"}`), true, "", ""},
	{"a branch more", avroOf(`{"name":"f","type":["null","int"]}`), avroOf(`{"name":"f","type":["string","int","null"]}`), true, "", ""},
	{"a branch fewer", avroOf(`{"name":"f","type":["null","int","string"]}`), avroOf(`{"name":"f","type":["null","int"]}`), false, "", ""},
	{"a branch promoted", avroOf(`{"name":"f","type":["null","int"]}`), avroOf(`{"name":"f","type":["null","double"]}`), true, "", ""},
	{"symbol added", avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A"]}}`), avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A","B"]}}`), true, "", ""},
	{"symbol removed", avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A","B"]}}`), avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A"]}}`), false, "", ""},
	{"symbol removed with a default", avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A","B"]}}`),
		avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A"],"default":"A"}}`), true, "", ""},
	{"enum renamed", avroOf(`{"name":"f","type":{"type":"enum","name":"E","symbols":["A"]}}`), avroOf(`{"name":"f","type":{"type":"enum","name":"F","symbols":["A"]}}`), false, "", ""},
	{"size of a fixed", avroOf(`{"name":"f","type":{"type":"fixed","name":"X","size":4}}`), avroOf(`{"name":"f","type":{"type":"fixed","name":"X","size":5}}`), false, "", ""},
	{"items promoted", avroOf(`{"name":"f","type":{"type":"array","items":"int"}}`), avroOf(`{"name":"f","type":{"type":"array","items":"long"}}`), true, "", ""},
	{"items changed", avroOf(`{"name":"f","type":{"type":"array","items":"int"}}`), avroOf(`{"name":"f","type":{"type":"array","items":"string"}}`), false, "", ""},
	{"values changed", avroOf(`{"name":"f","type":{"type":"map","values":"int"}}`), avroOf(`{"name":"f","type":{"type":"map","values":"boolean"}}`), false, "", ""},
	{"record renamed", avroOf(``), `{"type":"record","name":"r.S","fields":[]}`, false, "", ""},
	{"record renamed with an alias", avroOf(``), `{"type":"record","name":"r.S","aliases":["r.R"],"fields":[]}`, true, "", ""},
	{"a list of itself", avroOf(`{"name":"n","type":["null","R"]}`), avroOf(`{"name":"n","type":["null","R"]},{"name":"v","type":"int","default":1}`), true, "", ""},
	{"a list of itself that needs more", avroOf(`{"name":"n","type":["null","R"]}`), avroOf(`{"name":"n","type":["null","R"]},{"name":"v","type":"int"}`), false, "", ""},
	{"namespace", avroOf(``), `{"type":"record","name":"s.R","fields":[]}`, true, "", ""},
	{"scale of a decimal", avroOf(`{"name":"f","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}`),
		avroOf(`{"name":"f","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}}`), false, "another logical type or scale, such as a decimal of scale 2 read as one of scale 3", "CA"},
	{"unit of a timestamp, which is converted", avroOf(`{"name":"f","type":{"type":"long","logicalType":"timestamp-millis"}}`),
		avroOf(`{"name":"f","type":{"type":"long","logicalType":"timestamp-micros"}}`), true, "", ""},
}

// verdictsOf lists the verdicts of each kind, with the local check.
var verdictsOf = []struct {
	kind     Kind
	verdicts []verdict
	check    func(previous, candidate string) (CompatibilityResult, error)
}{
	{KindAvro, avroVerdicts, func(previous, candidate string) (CompatibilityResult, error) {
		return AvroCompatibility(previous, candidate, Backward)
	}},
	{KindProtobuf, protobufVerdicts, func(previous, candidate string) (CompatibilityResult, error) {
		return CheckProtobufCompatibility([]ResolvedSchema{{Schema: previous}}, ResolvedSchema{Schema: candidate}, Backward)
	}},
	{KindJSON, jsonVerdicts, func(previous, candidate string) (CompatibilityResult, error) {
		return CheckJSONCompatibility([]ResolvedSchema{{Schema: previous}}, ResolvedSchema{Schema: candidate}, Backward, WithStrictContent())
	}},
}

func TestVerdictsOnEveryKindOfChange(t *testing.T) {
	page, err := os.ReadFile("../docs/serdes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range verdictsOf {
		for _, tc := range of.verdicts {
			t.Run(of.kind.String()+"/"+tc.name, func(t *testing.T) {
				got, err := of.check(tc.previous, tc.candidate)
				if err != nil || got.Compatible != tc.compatible {
					t.Errorf("compatible %v, %q, %v, want %v", got.Compatible, got.Incompatibilities, err, tc.compatible)
				}
				if tc.otherwise != "" && !strings.Contains(string(page), "| "+tc.otherwise+" | ") {
					t.Errorf("docs/serdes.md has no row for a change in which %s", tc.otherwise)
				}
			})
		}
	}
}
