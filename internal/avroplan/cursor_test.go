// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRefusesWhatIsNoDatum(t *testing.T) {
	ints := `{"type":"array","items":"int"}`
	nulls := `{"type":"array","items":"null"}`
	strs := `{"type":"map","values":"string"}`
	for _, tc := range []struct{ name, schema, data, want string }{
		{"boolean that is neither", `"boolean"`, "02", "byte 0: boolean byte 0x02"},
		{"no boolean", `"boolean"`, "", "byte 0: truncated: a boolean needs 1 bytes, 0 remain"},
		{"int beyond 32 bits", `"int"`, "8080808010", "byte 0: int exceeds 32 bits"},
		{"overlong int", `"int"`, "808080808000", "byte 0: int exceeds 32 bits"},
		{"unfinished int", `"int"`, "ffff", "byte 0: truncated: integer ends after 2 bytes"},
		{"long beyond 64 bits", `"long"`, "ffffffffffffffffff02", "byte 0: variable-length integer exceeds 64 bits"},
		{"endless long", `"long"`, "ffffffffffffffffffff01", "byte 0: variable-length integer exceeds 64 bits"},
		{"short float", `"float"`, "000000", "byte 0: truncated: a float needs 4 bytes, 3 remain"},
		{"short double", `"double"`, "00000000000000", "byte 0: truncated: a double needs 8 bytes, 7 remain"},
		{"short fixed", fixed("F", 3), "0000", "byte 0: truncated: a fixed needs 3 bytes, 2 remain"},
		{"negative length", `"bytes"`, "01", "byte 0: length -1 is negative"},
		{"length beyond the datum", `"string"`, "0661", "byte 0: truncated: length 3 exceeds the 1 bytes that remain"},
		{"huge length", `"string"`, "feffffffffffffffff01", "byte 0: truncated: length 9223372036854775807 exceeds the 0 bytes that remain"},
		{"text that is not UTF-8", `"string"`, "04c328", "byte 1: string is not valid UTF-8"},
		{"symbol beyond the enum", enum("E", "A"), "02", "byte 0: index 1 is none of 1"},
		{"negative symbol", enum("E", "A"), "01", "byte 0: index -1 is none of 1"},
		{"trailing bytes", `"null"`, "00", "byte 0: 1 bytes follow the datum"},
		{"array without end", ints, "0202", "byte 2: truncated: integer ends after 0 bytes"},
		{"more items than bytes", ints, "0a0204", "byte 0: truncated: block of 5 items where at most 2 fit"},
		{"more items than bytes, with a size", ints, "0904020406", "byte 0: truncated: block of 5 items where at most 3 fit"},
		{"smallest count", ints, "ffffffffffffffffff0102", "byte 0: truncated: block of 9223372036854775808 items where at most 0 fit"},
		{"item that is cut off", rec("R", fld("a", ints)), "0402 80", "field a[1] at byte 2: truncated: integer ends after 1 bytes"},
		{"value that is cut off", rec("R", fld("a", strs)), "02 02 6b 04 61", `field a["k"] at byte 3: truncated: length 2 exceeds the 1 bytes that remain`},
		{"nulls without end", nulls, "8080808020 00", "byte 0: more than 4096 items without a width"},
		{"empty records", `{"type":"array","items":` + rec("R", fld("n", `"null"`)) + `}`, "8080808020 00", "byte 0: more than 4096 items without a width"},
		{"nulls in several arrays", `{"type":"array","items":` + nulls + `}`, "04 c03e 00 823f 00 00", "field [1] at byte 4: more than 4096 items without a width"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readAs(t, tc.schema, tc.schema, tc.data)); diff != "" {
				t.Errorf("mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadTakesEveryFormOfABlock(t *testing.T) {
	ints := `{"type":"array","items":"int"}`
	for _, tc := range []struct{ data, want string }{
		{"00", "[]"},
		{"04 02 04 00", "[1,2]"},
		{"03 04 02 04 00", "[1,2]"},
		{"02 02 01 02 04 02 06 00", "[1,2,3]"},
		{"8200 02 00", ""},
	} {
		want := tc.want
		if want == "" {
			want = "[1]"
		}
		if got := readAs(t, ints, ints, tc.data); got != want {
			t.Errorf("%s: got %s, want %s", tc.data, got, want)
		}
	}
	if got := readAs(t, `{"type":"array","items":"null"}`, `{"type":"array","items":"null"}`, "8040 00"); got != "["+strings.Repeat("null,", 4095)+"null]" {
		t.Errorf("4096 nulls: got %.80s", got)
	}
}

func TestSkipPassesOverEveryType(t *testing.T) {
	for _, tc := range []struct{ typ, data string }{
		{`"null"`, ""},
		{`"boolean"`, "01"},
		{`"int"`, "8001"},
		{`"long"`, "ffffffffffffffffff01"},
		{`"float"`, "00000000"},
		{`"double"`, "0000000000000000"},
		{`"bytes"`, "04ffff"},
		{`"string"`, "026b"},
		{fixed("F", 3), "010203"},
		{enum("E", "A B"), "02"},
		{`["null","int"]`, "028001"},
		{`{"type":"array","items":"int"}`, "04 02 04 01 02 06 00"},
		{`{"type":"array","items":"double"}`, "02 0000000000000000 00"},
		{`{"type":"map","values":"string"}`, "02 026b 0261 00"},
		{rec("S", fld("x", `"int"`), fld("y", `["null","S"]`)), "02 02 04 00"},
	} {
		writer, reader := rec("R", fld("a", tc.typ), fld("b", `"int"`)), rec("R", fld("b", `"int"`))
		if got := readAs(t, writer, reader, tc.data+"54"); got != "{b:42}" {
			t.Errorf("skip of %s: got %s", tc.typ, got)
		}
		data := mustHex(t, tc.data)
		n, err := Resolve(mustParse(t, writer), mustParse(t, reader))
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(data) {
			text, err := readText(n, data[:i])
			if err == nil || !strings.HasPrefix(err.Error(), "field ") {
				t.Errorf("skip of %s cut after %d bytes: %s, %v", tc.typ, i, text, err)
			}
		}
	}
}

func TestAppendWritesWhatTheCursorReads(t *testing.T) {
	longs := []int64{0, -1, 1, 63, -64, 64, 8191, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	var data []byte
	for _, v := range longs {
		before := len(data)
		data = AppendLong(data, v)
		if want := binary.AppendVarint(nil, v); string(data[before:]) != string(want) {
			t.Errorf("AppendLong(%d) = %x, want %x", v, data[before:], want)
		}
	}
	data = AppendBool(AppendBool(data, true), false)
	data = AppendDouble(AppendFloat(data, -0.5), math.Inf(-1))
	data = AppendString(AppendBytes(data, []byte{0, 255}), "\u00e9")
	var c Cursor
	c.Reset(data)
	for _, want := range longs {
		if got, err := c.Long(); err != nil || got != want {
			t.Errorf("Long = %d, %v, want %d", got, err, want)
		}
	}
	yes, _ := c.Bool()
	no, _ := c.Bool()
	f, _ := c.Float()
	d, _ := c.Double()
	raw, _ := c.Bytes()
	text, _ := c.String()
	got := []any{yes, no, f, d, string(raw), text, c.Remaining(), c.End()}
	want := []any{true, false, float32(-0.5), math.Inf(-1), "\x00\xff", "\u00e9", 0, (*DatumError)(nil)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mismatch (-want +got):\n%s", diff)
	}
}

func TestStringsDoNotAliasTheInput(t *testing.T) {
	for _, size := range []int{3, shareText + 1} {
		data := AppendString(nil, strings.Repeat("a", size))
		var c Cursor
		c.Reset(data)
		got, err := c.String()
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		if got != strings.Repeat("a", size) {
			t.Errorf("a string of %d bytes changes with the input", size)
		}
	}
}
