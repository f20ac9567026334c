// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
)

func TestProtobufCompatibilityListsEveryViolationWithItsDirection(t *testing.T) {
	const head = "syntax = \"proto3\"; package p; import \"google/protobuf/timestamp.proto\";\n"
	const head2 = "syntax = \"proto2\"; package p;\n"
	one := func(field string) string {
		return head + "message M { " + field + " } message A { int32 x = 1; } message B { int32 x = 1; }"
	}
	for _, tc := range []struct {
		name, previous, candidate string
		backward, forward         []string
	}{
		{"same", one("int32 a = 1;"), one("int32 a = 1;"), nil, nil},
		{"new field", one("int32 a = 1;"), one("int32 a = 1; string b = 2;"), nil, nil},
		{"renamed field", one("int32 a = 1;"), one("int32 b = 1;"), nil, nil},
		{"removed map", one("map<string, int32> a = 1;"), one(""), nil, nil},
		{"removed group", head2 + "message M { optional group G = 1 {} }", head2 + "message M {}", nil, nil},
		{"services", head + "message M {} service S { rpc R(M) returns (M); }", head + "message M {}", nil, nil},
		{"optional keyword", one("int32 a = 1;"), one("optional int32 a = 1;"), nil, nil},
		{"packed", one("repeated int32 a = 1;"), one("repeated int32 a = 1 [packed = false];"), nil, nil},
		{"one encoding of numbers", one("int32 a = 1; bool b = 2; E c = 3;} enum E { Z = 0;"), one("uint64 a = 1; int64 b = 2; int32 c = 3;} enum E { Z = 0;"), nil, nil},
		{"fixed numbers by sign", one("fixed32 a = 1; fixed64 b = 2;"), one("sfixed32 a = 1; sfixed64 b = 2;"), nil, nil},
		{"string and bytes", one("string a = 1;"), one("bytes a = 1;"), nil, nil},
		{"wire type", one("int64 a = 1;"), one("string a = 1;"),
			[]string{"BACKWARD: p.M field 1 changed wire type or cardinality"}, []string{"FORWARD: p.M field 1 changed wire type or cardinality"}},
		{"cardinality of text", one("string a = 1;"), one("repeated string a = 1;"), nil, nil},
		{"cardinality of bytes", one("bytes a = 1;"), one("repeated bytes a = 1;"), nil, nil},
		{"cardinality of messages", one("A a = 1;"), one("repeated A a = 1;"), nil, nil},
		{"cardinality of numbers", one("int32 a = 1;"), one("repeated int32 a = 1;"),
			[]string{"BACKWARD: p.M field 1 changed wire type or cardinality"}, []string{"FORWARD: p.M field 1 changed wire type or cardinality"}},
		{"cardinality of enums", one("E a = 1;} enum E { Z = 0;"), one("repeated E a = 1;} enum E { Z = 0;"),
			[]string{"BACKWARD: p.M field 1 changed wire type or cardinality"}, []string{"FORWARD: p.M field 1 changed wire type or cardinality"}},
		{"a message in the place of a map", one("map<string, A> a = 1;"), one("A a = 1;"),
			[]string{"BACKWARD: p.M field 1: reader p.A cannot read writer map<string, p.A>"},
			[]string{"FORWARD: p.M field 1: reader map<string, p.A> cannot read writer p.A"}},
		{"zig-zag", one("sint32 a = 1;"), one("int32 a = 1;"),
			[]string{"BACKWARD: p.M field 1: reader int32 cannot read writer sint32"}, []string{"FORWARD: p.M field 1: reader sint32 cannot read writer int32"}},
		{"float", one("fixed32 a = 1; repeated double b = 2;"), one("float a = 1; repeated fixed64 b = 2;"),
			[]string{"BACKWARD: p.M field 1: reader float cannot read writer fixed32", "BACKWARD: p.M field 2: reader fixed64 cannot read writer double"},
			[]string{"FORWARD: p.M field 1: reader fixed32 cannot read writer float", "FORWARD: p.M field 2: reader double cannot read writer fixed64"}},
		{"message and bytes", one("A a = 1;"), one("bytes a = 1;"),
			[]string{"BACKWARD: p.M field 1: reader bytes cannot read writer p.A"}, []string{"FORWARD: p.M field 1: reader p.A cannot read writer bytes"}},
		{"other message", one("A a = 1;"), one("B a = 1;"),
			[]string{"BACKWARD: p.M field 1: reader p.B cannot read writer p.A"}, []string{"FORWARD: p.M field 1: reader p.A cannot read writer p.B"}},
		{"map and messages", one("map<string, A> a = 1;"), one("repeated A a = 1;"),
			[]string{"BACKWARD: p.M field 1: reader p.A cannot read writer map<string, p.A>"}, []string{"FORWARD: p.M field 1: reader map<string, p.A> cannot read writer p.A"}},
		{"map key and value", one("map<string, A> a = 1; map<int32, bytes> b = 2;"), one("map<int32, B> a = 1; map<int64, string> b = 2;"),
			[]string{"BACKWARD: p.M field 1 map key: reader int32 cannot read writer string", "BACKWARD: p.M field 1 map value: reader p.B cannot read writer p.A"},
			[]string{"FORWARD: p.M field 1 map key: reader string cannot read writer int32", "FORWARD: p.M field 1 map value: reader p.A cannot read writer p.B"}},
		{"group and message", head2 + "message M { optional group G = 1 {} }", head2 + "message M { message G {} optional G g = 1; }",
			[]string{"BACKWARD: p.M field 1 changed wire type or cardinality"}, []string{"FORWARD: p.M field 1 changed wire type or cardinality"}},
		{"removed messages", head + "message M { message N { message O {} } } message L {}", head + "message M {}",
			[]string{"BACKWARD: message p.L is absent from the reader", "BACKWARD: message p.M.N is absent from the reader", "BACKWARD: message p.M.N.O is absent from the reader"}, nil},
		{"moved message", head + "message M { message N {} N n = 1; }", head + "message M { N n = 1; } message N {}",
			[]string{"BACKWARD: p.M field 1: reader p.N cannot read writer p.M.N", "BACKWARD: message p.M.N is absent from the reader"},
			[]string{"FORWARD: p.M field 1: reader p.M.N cannot read writer p.N", "FORWARD: message p.N is absent from the reader"}},
		{"package", head + "message M {}", strings.Replace(head, "p;", "q;", 1) + "message M {}",
			[]string{"BACKWARD: message p.M is absent from the reader"}, []string{"FORWARD: message q.M is absent from the reader"}},
		{"new required field", head2 + "message M {}", head2 + "message M { required int32 a = 1; }", []string{"BACKWARD: p.M.a is required but absent from the writer"}, nil},
		{"required and optional", head2 + "message M { required int32 a = 1; optional int32 b = 2; }", head2 + "message M { optional int32 a = 1; required int32 b = 2; }",
			[]string{"BACKWARD: p.M.b is required but optional in the writer"}, []string{"FORWARD: p.M.a is required but optional in the writer"}},
		{"other number", one("int32 a = 1;"), one("int32 a = 2;"),
			[]string{"BACKWARD: p.M field a moved from number 1 to 2"}, []string{"FORWARD: p.M field a moved from number 2 to 1"}},
		{"swapped numbers", one("int32 a = 1; int32 b = 2;"), one("int32 a = 2; int32 b = 1;"),
			[]string{"BACKWARD: p.M field a moved from number 1 to 2", "BACKWARD: p.M field b moved from number 2 to 1"},
			[]string{"FORWARD: p.M field a moved from number 2 to 1", "FORWARD: p.M field b moved from number 1 to 2"}},
		{"other number, the old one reserved", one("int32 a = 1;"), one("reserved 1; string a = 2;"), nil, nil},
		{"removed and reserved", one("int32 a = 1;"), one("reserved 1; reserved \"a\";"), nil, nil},
		{"reserved number used", one("reserved 1 to 5;"), one("int32 a = 3;"), []string{"BACKWARD: p.M field 3 uses a reserved number"}, nil},
		{"reserved name used", one("reserved \"a\";"), one("int32 a = 3;"), []string{"BACKWARD: p.M field 3 uses the reserved name a"}, nil},
		{"fields joined in a oneof", one("int32 a = 1; int32 b = 2;"), one("oneof o { int32 a = 1; int32 b = 2; }"),
			[]string{"BACKWARD: p.M oneof o joins fields 1, 2, which the writer can set together"}, nil},
		{"field moved into a oneof", one("int32 a = 1; oneof o { int32 b = 2; }"), one("oneof o { int32 b = 2; int32 a = 1; }"),
			[]string{"BACKWARD: p.M oneof o joins fields 2, 1, which the writer can set together"}, nil},
		{"oneofs joined", one("oneof o { int32 a = 1; } oneof q { int32 b = 2; }"), one("oneof o { int32 a = 1; int32 b = 2; }"),
			[]string{"BACKWARD: p.M oneof o joins fields 1, 2, which the writer can set together"}, nil},
		{"one field moved into a new oneof", one("int32 a = 1; int32 b = 2;"), one("oneof o { int32 a = 1; string c = 3; } int32 b = 2;"), nil, nil},
		{"renamed oneof", one("oneof o { int32 a = 1; int32 b = 2; }"), one("oneof q { int32 a = 1; int32 b = 2; }"), nil, nil},
		{"field removed from a oneof", one("oneof o { int32 a = 1; int32 b = 2; }"), one("oneof o { int32 a = 1; }"),
			[]string{"BACKWARD: p.M oneof o lacks the writer's field 2"}, nil},
		{"oneof removed", one("oneof o { int32 a = 1; int32 b = 2; }"), one(""), nil, nil},
		{"open enum", one("E e = 1;} enum E { Z = 0; ONE = 1;"), one("E e = 1;} enum E { Z = 0;"), nil, nil},
		{"closed enum", head2 + "message M { optional E e = 1; } enum E { Z = 0; ONE = 1; }", head2 + "message M { optional E e = 1; } enum E { Z = 0; }",
			[]string{"BACKWARD: enum p.E is closed and lacks the writer's value ONE = 1"}, nil},
		{"renamed value of a closed enum", head2 + "message M { optional E e = 1; } enum E { Z = 0; }", head2 + "message M { optional E e = 1; } enum E { Y = 0; }", nil, nil},
		{"enum that no field has", head2 + "enum E { Z = 0; ONE = 1; }", head2, nil, nil},
		{"value with another number", one("repeated E e = 1;} enum E { Z = 0; ONE = 1;"), one("repeated E e = 1;} enum E { Z = 0; ONE = 2;"),
			[]string{"BACKWARD: enum p.E has ONE moved from number 1 to 2"}, []string{"FORWARD: enum p.E has ONE moved from number 2 to 1"}},
		{"value with another number, the old one reserved", one("E e = 1;} enum E { Z = 0; ONE = 1;"), one("E e = 1;} enum E { Z = 0; reserved 1; ONE = 2;"), nil, nil},
		{"other enum", head2 + "message M { optional E e = 1; } enum E { Z = 0; ONE = 1; } enum F { Y = 0; TWO = 2; }",
			head2 + "message M { optional F e = 1; } enum E { Z = 0; ONE = 1; } enum F { Y = 0; TWO = 2; }",
			[]string{"BACKWARD: enum p.F, read in the place of p.E, is closed and lacks the writer's value ONE = 1"},
			[]string{"FORWARD: enum p.E, read in the place of p.F, is closed and lacks the writer's value TWO = 2"}},
		{"extensions", head2 + "message M { extensions 10 to 20; } extend M { optional int32 a = 10; optional int32 b = 11; }",
			head2 + "message M { extensions 10 to 20; } extend M { optional string a = 10; optional int32 b = 12; }",
			[]string{"BACKWARD: p.M field 10 changed wire type or cardinality", "BACKWARD: p.M field [p.b] moved from number 11 to 12"},
			[]string{"FORWARD: p.M field 10 changed wire type or cardinality", "FORWARD: p.M field [p.b] moved from number 12 to 11"}},
		{"types in a circle", head + "message A { B b = 1; int32 x = 2; } message B { A a = 1; map<string, B> m = 2; }",
			head + "message A { B b = 1; sint32 x = 2; } message B { A a = 1; map<string, B> m = 2; }",
			[]string{"BACKWARD: p.A field 2: reader sint32 cannot read writer int32"}, []string{"FORWARD: p.A field 2: reader int32 cannot read writer sint32"}},
		{"several, by message and field", head + "message B { int32 z = 9; int32 a = 1; } message A { string b = 2; }",
			head + "message B { string z = 9; string a = 1; } message A { int32 b = 2; }",
			[]string{
				"BACKWARD: p.A field 2 changed wire type or cardinality", "BACKWARD: p.B field 9 changed wire type or cardinality",
				"BACKWARD: p.B field 1 changed wire type or cardinality",
			},
			[]string{
				"FORWARD: p.A field 2 changed wire type or cardinality", "FORWARD: p.B field 9 changed wire type or cardinality",
				"FORWARD: p.B field 1 changed wire type or cardinality",
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			previous, candidate := mustParseProto(t, tc.previous, nil), mustParseProto(t, tc.candidate, nil)
			for mode, want := range map[CompatibilityMode][]string{
				Backward: tc.backward, Forward: tc.forward, Full: slices.Concat(tc.backward, tc.forward), None: nil,
				BackwardTransitive: tc.backward, ForwardTransitive: tc.forward, FullTransitive: slices.Concat(tc.backward, tc.forward),
			} {
				if len(want) == 0 {
					want = nil
				}
				got := ProtobufCompatibility(previous, candidate, mode)
				if diff := cmp.Diff(CompatibilityResult{Compatible: want == nil, Incompatibilities: want}, got); diff != "" {
					t.Errorf("%v mismatch (-want +got):\n%s", mode, diff)
				}
				text, err := CheckProtobufCompatibility([]ResolvedSchema{{Schema: tc.previous}}, ResolvedSchema{Schema: tc.candidate}, mode)
				if diff := cmp.Diff(got, text); diff != "" || err != nil {
					t.Errorf("%v from text: %v, mismatch (-descriptors +text):\n%s", mode, err, diff)
				}
			}
		})
	}
}

func TestStrictValuesCountWhatMayBeLost(t *testing.T) {
	file := func(fields string) []ResolvedSchema {
		return []ResolvedSchema{{Schema: `syntax = "proto2"; message M { ` + fields + ` } enum E { Z = 0; }`}}
	}
	for _, tc := range []struct{ writer, reader, want string }{
		{"optional int32 a = 1;", "optional int64 a = 1;", ""},
		{"optional uint32 a = 1;", "optional int64 a = 1;", ""},
		{"optional bool a = 1;", "optional int32 a = 1;", ""},
		{"optional E a = 1;", "optional int32 a = 1;", ""},
		{"optional sint32 a = 1;", "optional sint64 a = 1;", ""},
		{"optional string a = 1;", "optional bytes a = 1;", ""},
		{"optional int64 a = 1;", "optional int32 a = 1;", "reader int32 cannot hold every int64 of the writer"},
		{"optional int32 a = 1;", "optional uint64 a = 1;", "reader uint64 cannot hold every int32 of the writer"},
		{"optional uint64 a = 1;", "optional int64 a = 1;", "reader int64 cannot hold every uint64 of the writer"},
		{"optional int32 a = 1;", "optional bool a = 1;", "reader bool cannot hold every int32 of the writer"},
		{"optional int32 a = 1;", "optional E a = 1;", "reader E cannot hold every int32 of the writer"},
		{"optional sint64 a = 1;", "optional sint32 a = 1;", "reader sint32 cannot hold every sint64 of the writer"},
		{"optional fixed32 a = 1;", "optional sfixed32 a = 1;", "reader sfixed32 cannot hold every fixed32 of the writer"},
		{"optional sfixed64 a = 1;", "optional fixed64 a = 1;", "reader fixed64 cannot hold every sfixed64 of the writer"},
		{"optional string a = 1;", "repeated string a = 1;", ""},
		{"repeated string a = 1;", "optional string a = 1;", "reader string keeps only the last of the writer's values"},
		{"optional bytes a = 1;", "optional string a = 1;", "reader string cannot hold every bytes of the writer"},
	} {
		lenient, err := CheckProtobufCompatibility(file(tc.writer), file(tc.reader)[0], Backward)
		if err != nil || !lenient.Compatible {
			t.Errorf("%s as %s: %v, %v", tc.writer, tc.reader, lenient, err)
		}
		var want []string
		if tc.want != "" {
			want = []string{"BACKWARD: M field 1: " + tc.want}
		}
		strict, err := CheckProtobufCompatibility(file(tc.writer), file(tc.reader)[0], Backward, WithStrictValues())
		if diff := cmp.Diff(want, strict.Incompatibilities); diff != "" || err != nil {
			t.Errorf("%s as %s: %v, mismatch (-want +got):\n%s", tc.writer, tc.reader, err, diff)
		}
	}
}

func TestProtobufCompatibilityFollowsHistoryAndImports(t *testing.T) {
	money := func(field string) []Reference {
		return []Reference{
			{Name: "base.proto", Schema: `syntax = "proto3"; message Unused {} message Money { ` + field + ` }`},
			{Name: "money.proto", Schema: `import public "base.proto";`},
		}
	}
	const text = `syntax = "proto3"; import "money.proto"; message Order { repeated Money prices = 1; }`
	history := []ResolvedSchema{
		{Schema: text, Dependencies: money("string cents = 1;")},
		{Schema: text, Dependencies: money("sint64 cents = 1;")},
	}
	for mode, want := range map[CompatibilityMode][]string{
		None:     nil,
		Backward: {"BACKWARD: Money field 1: reader int32 cannot read writer sint64"},
		Forward:  {"FORWARD: Money field 1: reader sint64 cannot read writer int32"},
		BackwardTransitive: {
			"BACKWARD: against schema 1 of 2: Money field 1 changed wire type or cardinality",
			"BACKWARD: against schema 2 of 2: Money field 1: reader int32 cannot read writer sint64",
		},
	} {
		got, err := CheckProtobufCompatibility(history, ResolvedSchema{Schema: text, Dependencies: money("int32 cents = 1;")}, mode)
		if diff := cmp.Diff(CompatibilityResult{Compatible: want == nil, Incompatibilities: want}, got); diff != "" || err != nil {
			t.Errorf("%v: %v, mismatch (-want +got):\n%s", mode, err, diff)
		}
	}
	// What moves to another file stays what it is.
	inline := ResolvedSchema{Schema: `syntax = "proto3"; message Order { repeated Money prices = 1; } message Money { int32 cents = 1; }`}
	got, err := CheckProtobufCompatibility([]ResolvedSchema{inline}, ResolvedSchema{Schema: text, Dependencies: money("int32 cents = 1;")}, Full)
	if err != nil || !got.Compatible {
		t.Errorf("moved to an import: %v, %v", got, err)
	}
	if got, err := CheckProtobufCompatibility(nil, inline, FullTransitive); err != nil || !got.Compatible {
		t.Errorf("first schema: %v, %v", got, err)
	}
}

func TestProtobufCompatibilityRefusesWhatIsNoSchema(t *testing.T) {
	good, bad := ResolvedSchema{Schema: `syntax = "proto3";`}, ResolvedSchema{Schema: `import "x.proto";`}
	for want, call := range map[string]func() error{
		`invalid previous Protobuf schema: 1:8: import "x.proto" is neither a well-known file nor a reference of the schema`: func() error {
			_, err := CheckProtobufCompatibility([]ResolvedSchema{bad}, good, Full)
			return err
		},
		`invalid candidate Protobuf schema: 1:8: import "x.proto" is neither a well-known file nor a reference of the schema`: func() error {
			_, err := CheckProtobufCompatibility([]ResolvedSchema{good}, bad, Full)
			return err
		},
	} {
		err := call()
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if parse, ok := errors.AsType[*ProtobufSchemaError](err); !ok || parse.MissingImport != "x.proto" {
			t.Errorf("error is %#v", err)
		}
	}
}

func mustParseProto(tb testing.TB, text string, imports map[string]string) protoreflect.FileDescriptor {
	tb.Helper()
	file, err := prototext.Compile(tb.Context(), text, imports)
	if err != nil {
		tb.Fatalf("%v in:\n%s", err, text)
	}
	return file
}

// Messages that refer to each other in circles are compared once each.
func TestProtobufCyclesAreBounded(t *testing.T) {
	const n = 60
	file := func(kind string) string {
		text := "syntax = \"proto3\"; package p;\n"
		for i := range n {
			text += fmt.Sprintf("message M%02d { %s leaf = 1000;", i, kind)
			for j := range n {
				text += fmt.Sprintf(" M%02d f%d = %d;", j, j, j+1)
			}
			text += " }\n"
		}
		return text
	}
	for kind, want := range map[string]int{"string": 0, "int32": n} {
		got, err := CheckProtobufCompatibility([]ResolvedSchema{{Schema: file("string")}}, ResolvedSchema{Schema: file(kind)}, Backward)
		if err != nil || len(got.Incompatibilities) != want {
			t.Errorf("%s: %d violations, want %d: %.200q, %v", kind, len(got.Incompatibilities), want, got.Incompatibilities, err)
		}
	}
}
