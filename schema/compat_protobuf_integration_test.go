// SPDX-License-Identifier: Apache-2.0

//go:build integration

package schema

import (
	"fmt"
	"strings"
	"testing"
)

// The local verdict is that of a registry, but where one of the two has a reason
// not to follow the other.
func TestRealRegistryJudgesProtobufAlike(t *testing.T) {
	client, prefix := realRegistry(t)
	const head = "syntax = \"proto3\"; package p;\n"
	const head2 = "syntax = \"proto2\"; package p;\n"
	one := func(field string) string {
		return head + "message M { " + field + " } message A { int32 x = 1; } message B { int32 x = 1; }"
	}
	for i, tc := range []struct {
		name, previous, candidate string
		compatible                bool
		differs                   string // why the registry says the opposite
	}{
		{"same", one("int32 a = 1;"), one("int32 a = 1;"), true, ""},
		{"new field", one("int32 a = 1;"), one("int32 a = 1; string b = 2;"), true, ""},
		{"removed and reserved", one("int32 a = 1; int32 b = 2;"), one("int32 b = 2; reserved 1; reserved \"a\";"), true, ""},
		{"new value of an open enum", one("E e = 1;} enum E { Z = 0;"), one("E e = 1;} enum E { Z = 0; ONE = 1;"), true, ""},
		{"wire type", one("int64 a = 1;"), one("string a = 1;"), false, ""},
		{"zig-zag", one("sint32 a = 1;"), one("int32 a = 1;"), false, ""},
		{"float", one("fixed32 a = 1;"), one("float a = 1;"), false, ""},
		{"other message", one("A a = 1;"), one("B a = 1;"), false, ""},
		{"cardinality of text", one("string a = 1;"), one("repeated string a = 1;"), true, "it compares labels; the language guide calls the change compatible"},
		{"cardinality of messages", one("A a = 1;"), one("repeated A a = 1;"), true, "it compares labels; the language guide calls the change compatible"},
		{"cardinality of numbers", one("int32 a = 1;"), one("repeated int32 a = 1;"), false, ""},
		{"map and messages", one("map<string, A> a = 1;"), one("repeated A a = 1;"), false, ""},
		{"new required field", head2 + "message M {}", head2 + "message M { required int32 a = 1; }", false, ""},
		{"reserved number used", one("reserved 1;"), one("int32 a = 1;"), false, ""},
		{"other number", one("int32 a = 1;"), one("int32 a = 2;"), false, ""},
		{"removed message", one("int32 a = 1;"), head + "message M { int32 a = 1; }", false, ""},
		{"field removed from a oneof", one("oneof o { int32 a = 1; int32 b = 2; }"), one("oneof o { int32 a = 1; }"), false, ""},
		{"removed field", one("int32 a = 1; int32 b = 2;"), one("int32 b = 2;"), true, "it demands that the number and name are reserved"},
		{"renamed field", one("int32 a = 1;"), one("int32 b = 1;"), true, "it compares names"},
		{"wider number", one("int32 a = 1;"), one("int64 a = 1;"), true, "it compares types, not encodings"},
		{"package", one("int32 a = 1;"), strings.Replace(one("int32 a = 1;"), "package p", "package q", 1), false, "it ignores packages"},
		{"fields joined in a oneof", one("int32 a = 1; int32 b = 2;"), one("oneof o { int32 a = 1; int32 b = 2; }"), false, "it does not look at oneofs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, subject := t.Context(), fmt.Sprintf("%s-%d-value", prefix, i)
			if _, err := client.Register(ctx, subject, KindProtobuf, tc.previous, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := client.SetSubjectCompatibility(ctx, subject, Backward.String()); err != nil {
				t.Fatal(err)
			}
			theirs, err := client.CheckVersionCompatibility(ctx, subject, 1, NewSchema{Kind: KindProtobuf, Schema: tc.candidate})
			if err != nil {
				t.Fatal(err)
			}
			if want := tc.compatible == (tc.differs == ""); theirs.Compatible != want {
				t.Errorf("the registry says compatible %v: %q", theirs.Compatible, theirs.Incompatibilities)
			}
			ours, err := CheckProtobufCompatibility([]ResolvedSchema{{Schema: tc.previous}}, ResolvedSchema{Schema: tc.candidate}, Backward)
			if err != nil || ours.Compatible != tc.compatible {
				t.Errorf("the local check says compatible %v: %q, %v", ours.Compatible, ours.Incompatibilities, err)
			}
		})
	}
}
