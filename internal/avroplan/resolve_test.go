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

func mustHex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readAs reads hex as a datum of writer, resolved to reader, and returns the
// text of the value or the error.
func readAs(t testing.TB, writer, reader, data string) string {
	t.Helper()
	n, err := Resolve(mustParse(t, writer), mustParse(t, reader))
	if err != nil {
		return "resolve: " + err.Error()
	}
	text, err := readText(n, mustHex(t, data))
	if err != nil {
		return err.Error()
	}
	return text
}

func rec(name string, fields ...string) string {
	return `{"type":"record","name":"` + name + `","fields":[` + strings.Join(fields, ",") + `]}`
}

func fld(name, typ string, more ...string) string {
	return `{"name":"` + name + `","type":` + typ + strings.Join(more, "") + `}`
}

func enum(name, symbols string, more ...string) string {
	return `{"type":"enum","name":"` + name + `","symbols":["` + strings.ReplaceAll(symbols, " ", `","`) + `"]` + strings.Join(more, "") + `}`
}

func fixed(name string, size int, more ...string) string {
	return fmt.Sprintf(`{"type":"fixed","name":"%s","size":%d%s}`, name, size, strings.Join(more, ""))
}

func logical(typ, name string, more ...string) string {
	return `{"type":"` + typ + `","logicalType":"` + name + `"` + strings.Join(more, "") + `}`
}

func TestResolveReadsAsTheReaderSays(t *testing.T) {
	const node = `{"type":"record","name":"Node","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","Node"],"default":null}]}`
	const wideNode = `{"type":"record","name":"Node","fields":[{"name":"next","type":["Node","null"]},{"name":"v","type":"long"},{"name":"w","type":"int","default":9}]}`
	for _, tc := range []struct{ name, writer, reader, data, want string }{
		{"int to long", `"int"`, `"long"`, "03", "-2"},
		{"int to float", `"int"`, `"float"`, "04", "2"},
		{"int to double", `"int"`, `"double"`, "04", "2"},
		{"long to float", `"long"`, `"float"`, "04", "2"},
		{"long to double", `"long"`, `"double"`, "04", "2"},
		{"float to double", `"float"`, `"double"`, "0000c03f", "1.5"},
		{"string to bytes", `"string"`, `"bytes"`, "02 61", "61"},
		{"bytes to string", `"bytes"`, `"string"`, "02 61", `"a"`},
		{"bytes that are no text to string", `"bytes"`, `"string"`, "02 ff", "byte 1: string is not valid UTF-8"},
		{"long to int", `"long"`, `"int"`, "", "resolve: reader int cannot read writer long"},
		{"double to float", `"double"`, `"float"`, "", "resolve: reader float cannot read writer double"},
		{"array to map", `{"type":"array","items":"int"}`, `{"type":"map","values":"int"}`, "", "resolve: reader map cannot read writer array"},
		{"promotion in items", `{"type":"array","items":"int"}`, `{"type":"array","items":"double"}`, "02 04 00", "[2]"},
		{"promotion in values", `{"type":"map","values":"int"}`, `{"type":"map","values":"long"}`, "02 02 6b 04 00", "(k:2)"},
		{"items of another type", `{"type":"array","items":"string"}`, `{"type":"array","items":"int"}`, "", "resolve: []: reader int cannot read writer string"},

		{"reordered fields", rec("R", fld("a", `"int"`), fld("b", `"string"`)), rec("R", fld("b", `"string"`), fld("a", `"int"`)), "02 02 78", `{a:1,b:"x"}`},
		{"skipped field", rec("R", fld("a", `"string"`), fld("b", `"int"`)), rec("R", fld("b", `"int"`)), "02 78 04", "{b:2}"},
		{"default", rec("R", fld("b", `"int"`)), rec("R", fld("a", `"string"`, `,"default":"d"`), fld("b", `"int"`)), "04", `{b:2,a:"d"}`},
		{"nested default", rec("R"), rec("R", fld("s", rec("S", fld("x", `"int"`, `,"default":1`), fld("y", `{"type":"array","items":["null","long"]}`)), `,"default":{"y":[null,5]}`)), "",
			"{s:{x:1,y:[@0null,@15]}}"},
		{"default of a later union branch", rec("R"), rec("R", fld("a", `["null","int"]`, `,"default":5`)), "", "{a:@15}"},
		{"missing field", rec("R", fld("b", `"int"`)), rec("R", fld("a", `"string"`), fld("b", `"int"`)), "",
			"resolve: a: writer record R does not have the field, and it has no default"},
		{"field alias", rec("R", fld("a", `"int"`)), rec("R", fld("b", `"long"`, `,"aliases":["z","a"]`)), "04", "{b:2}"},
		{"name before alias", rec("R", fld("a", `"int"`), fld("b", `"int"`)), rec("R", fld("b", `"int"`, `,"aliases":["a"]`)), "02 04", "{b:2}"},
		{"alias of a field that is read by name", rec("R", fld("a", `"int"`)), rec("R", fld("a", `"int"`), fld("b", `"int"`, `,"aliases":["a"],"default":7`)), "02", "{a:1,b:7}"},
		{"record of another namespace", rec("n.R", fld("a", `"int"`)), rec("m.R", fld("a", `"int"`)), "02", "{a:1}"},
		{"record alias", rec("n.Old", fld("a", `"int"`)), rec("m.R", fld("a", `"int"`)), "02", "resolve: reader record m.R cannot read writer record n.Old"},
		{"record alias in full", rec("n.Old", fld("a", `"int"`)), `{"type":"record","name":"m.R","aliases":["n.Old"],"fields":[{"name":"a","type":"int"}]}`, "02", "{a:1}"},

		{"enum by symbol", enum("E", "A B"), enum("E", "B A"), "00", "A"},
		{"enum default", enum("E", "A B"), enum("E", "B X", `,"default":"X"`), "00", "X"},
		{"unknown symbol", enum("E", "A B"), enum("E", "B"), "00", "byte 0: symbol 0 of the writer is unknown to enum E, which has no default"},
		{"known symbol beside unknown", enum("E", "A B"), enum("E", "B"), "02", "B"},
		{"enum alias", enum("Old", "A"), enum("n.E", "A", `,"aliases":["x.E","n.Other"]`), "00", "resolve: reader enum n.E cannot read writer enum Old"},
		{"fixed", fixed("F", 2), fixed("x.F", 2), "0102", "0102"},
		{"fixed of another size", fixed("F", 2), fixed("F", 3), "", "resolve: reader fixed F cannot read writer fixed F"},

		{"datum to union", `"int"`, `["null","int"]`, "04", "@12"},
		{"datum to union of promotions", `"int"`, `["null","double","long"]`, "04", "@12"},
		{"same kind before promotion", `"int"`, `["double","int"]`, "04", "@12"},
		{"datum to union without it", `"string"`, `["null","int"]`, "", "resolve: reader union [null int] has no branch for writer string"},
		{"datum to union inside an array", `{"type":"array","items":"int"}`, `{"type":"array","items":["null","int"]}`, "04 02 04 00", "[@11,@12]"},
		{"union to datum", `["null","int"]`, `"long"`, "02 04", "2"},
		{"union to datum, other branch", `["null","int"]`, `"long"`, "00", "byte 1: reader long cannot read writer null"},
		{"union without a branch to datum", `["null","string"]`, `"long"`, "", "resolve: reader long cannot read writer null; reader long cannot read writer string"},
		{"union to union", `["null","int","string"]`, `["string","null","long"]`, "02 04", "@22"},
		{"union to smaller union", `["null","int","string"]`, `["null","int"]`, "00", "@0null"},
		{"union to smaller union, missing branch", `["null","int","string"]`, `["null","int"]`, "04 02 78", "byte 1: reader union [null int] has no branch for writer string"},
		{"branch beyond the union", `["null","int"]`, `["null","int"]`, "04", "byte 0: index 2 is none of 2"},
		{"record branch by full name", `["null",` + rec("b.R", fld("x", `"int"`)) + `]`, `[` + rec("a.R", fld("x", `"int"`)) + `,` + rec("b.R", fld("x", `"long"`)) + `]`, "02 04", "@1{x:2}"},
		{"record branch by alias", rec("old.R", fld("x", `"int"`)),
			`[` + rec("a.R", fld("x", `"int"`)) + `,{"type":"record","name":"b.S","aliases":["old.R"],"fields":[{"name":"x","type":"int"}]}]`, "04", "@1{x:2}"},
		{"record branch by simple name", rec("old.R", fld("x", `"int"`)), `["null",` + rec("a.S", fld("x", `"int"`)) + `,` + rec("a.R", fld("x", `"int"`)) + `]`, "04", "@2{x:2}"},
		{"nullable record with a new field", rec("W", fld("r", rec("R", fld("a", `"int"`))), fld("z", `"int"`)),
			rec("W", fld("r", `["null",`+rec("R", fld("a", `"int"`), fld("b", `"int"`, `,"default":9`))+`]`), fld("z", `"int"`)), "02 04", "{r:@1{a:1,b:9},z:2}"},
		{"mismatch below one branch", `["null",` + rec("R", fld("a", `"string"`)) + `]`, `["null",` + rec("R", fld("a", `"int"`)) + `]`, "00", "@0null"},
		{"mismatch below one branch, datum of it", `["null",` + rec("R", fld("a", `"string"`)) + `]`, `["null",` + rec("R", fld("a", `"int"`)) + `]`, "02 02 78",
			"byte 1: a: reader int cannot read writer string"},

		{"recursion", node, node, "02 02 04 00", "{v:1,next:@1{v:2,next:@0null}}"},
		{"evolved recursion", node, wideNode, "02 02 04 00", "{v:1,next:@0{v:2,next:@1null,w:9},w:9}"},
		{"record that always holds itself", rec("R", fld("r", `"R"`)), rec("R", fld("r", `"R"`)), "", "field " + strings.Repeat("r.", 15) + "r..." + strings.Repeat(".r", 16) + " at byte 0: nesting exceeds 10000 levels"},

		{"millis as micros", logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "04", "2000"},
		{"micros as millis", logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), "a01f", "2"},
		{"micros between millis", logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), "02", "byte 0: 1 is no whole number of units of timestamp-millis"},
		{"millis beyond micros", logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "feffffffffffffffff01", "byte 0: 9223372036854775807 exceeds a timestamp-micros"},
		{"micros as nanos", logical("long", "local-timestamp-micros"), logical("long", "local-timestamp-nanos"), "03", "-2000"},
		{"int millis as long micros", logical("int", "time-millis"), logical("long", "time-micros"), "02", "1000"},
		{"date as timestamp", logical("int", "date"), logical("long", "timestamp-millis"), "", "resolve: reader long timestamp-millis cannot read writer int date"},
		{"instant as local", logical("long", "timestamp-millis"), logical("long", "local-timestamp-millis"), "",
			"resolve: reader long local-timestamp-millis cannot read writer long timestamp-millis"},
		{"long as timestamp", `"long"`, logical("long", "timestamp-millis"), "04", "2"},
		{"timestamp as double", logical("long", "timestamp-millis"), `"double"`, "04", "2"},
		{"same decimal", logical("bytes", "decimal", `,"precision":4,"scale":2`), logical("bytes", "decimal", `,"precision":4,"scale":2`), "02 7b", "7b"},
		{"decimal of another scale", logical("bytes", "decimal", `,"precision":4,"scale":2`), logical("bytes", "decimal", `,"precision":4,"scale":3`), "",
			"resolve: reader decimal(4,3) cannot read writer decimal(4,2)"},
		{"decimal of a wider precision", fixed("F", 2, `,"logicalType":"decimal","precision":3,"scale":2`), fixed("F", 2, `,"logicalType":"decimal","precision":4,"scale":2`), "007b", "007b"},
		{"decimal of a smaller precision", fixed("F", 4, `,"logicalType":"decimal","precision":5,"scale":2`), fixed("F", 4, `,"logicalType":"decimal","precision":4,"scale":2`), "",
			"resolve: reader decimal(4,2) cannot read writer decimal(5,2)"},
		{"array of no possible item", `{"type":"array","items":[]}`, `{"type":"array","items":[]}`, "00", "[]"},
		{"item of an empty union", `{"type":"array","items":[]}`, `{"type":"array","items":[]}`, "02 00 00", "byte 0: truncated: block of 1 items where at most 0 fit"},
		{"empty union as an int", rec("R", fld("a", `["null",{"type":"array","items":[]}]`)), rec("R", fld("a", `["null",{"type":"array","items":"int"}]`)), "00", "{a:@0null}"},
		{"int as an empty union", `"int"`, `[]`, "02", "resolve: reader union [] has no branch for writer int"},
		{"decimal as bytes", logical("bytes", "decimal", `,"precision":4,"scale":2`), `"bytes"`, "02 7b", "7b"},
		{"decimal as uuid", logical("bytes", "decimal", `,"precision":4,"scale":2`), logical("string", "uuid"), "", "resolve: reader string uuid cannot read writer bytes decimal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readAs(t, tc.writer, tc.reader, tc.data)); diff != "" {
				t.Errorf("mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckListsEveryMismatch(t *testing.T) {
	writer := mustParse(t, rec("R",
		fld("a", `"string"`),
		fld("b", enum("E", "A B C")),
		fld("c", `["null","string"]`),
		fld("d", `{"type":"array","items":`+rec("S", fld("x", `"long"`), fld("y", `["null","S"]`))+`}`),
		fld("f", `{"type":"map","values":`+logical("long", "timestamp-millis")+`}`)))
	reader := mustParse(t, rec("R",
		fld("a", `"int"`),
		fld("b", enum("E", "B")),
		fld("c", `"string"`),
		fld("d", `{"type":"array","items":`+rec("S", fld("x", `"int"`), fld("y", `["null","S"]`))+`}`),
		fld("e", `"int"`),
		fld("f", `{"type":"map","values":`+logical("long", "time-micros")+`}`)))
	want := []Mismatch{
		{"e", "writer record R does not have the field, and it has no default"},
		{"a", "reader int cannot read writer string"},
		{"b", "reader enum E lacks the writer's symbols A, C and has no default"},
		{"c", "reader string cannot read writer null"},
		{"d[].x", "reader int cannot read writer long"},
		{"f{}", "reader long time-micros cannot read writer long timestamp-millis"},
	}
	if diff := cmp.Diff(want, Check(writer, reader)); diff != "" {
		t.Errorf("Check mismatch (-want +got):\n%s", diff)
	}
	_, err := Resolve(writer, reader)
	var resolveError *ResolveError
	if !errors.As(err, &resolveError) {
		t.Fatalf("Resolve = %v, want a *ResolveError", err)
	}
	if diff := cmp.Diff(want, resolveError.Mismatches); diff != "" {
		t.Errorf("ResolveError mismatch (-want +got):\n%s", diff)
	}
	if got := Check(writer, writer); got != nil {
		t.Errorf("Check of a schema with itself = %v", got)
	}
}

func TestResolveBoundsThePlan(t *testing.T) {
	fields := make([]string, MaxNodes+1)
	for i := range fields {
		fields[i] = fld(fmt.Sprintf("f%d", i), `"int"`)
	}
	huge := mustParse(t, rec("R", fields...))
	if _, err := Resolve(huge, huge); err == nil || err.Error() != "the plan exceeds 65536 nodes" {
		t.Errorf("Resolve of a huge schema: %v", err)
	}
	// The root is one node, so the last two fields have none.
	want := []Mismatch{{Path: "f65535", Reason: "the plan exceeds 65536 nodes"}}
	if diff := cmp.Diff(want, Check(huge, huge)); diff != "" {
		t.Errorf("Check of a huge schema mismatch (-want +got):\n%s", diff)
	}
}
