// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// doublingRecords is a union of records R0 to Rn. R0 has no fields, and each
// other has two fields of the one before it, which have the attributes; a datum
// of Rn has no bytes and stands for 2^n records.
func doublingRecords(n int, attributes string) string {
	var b strings.Builder
	b.WriteString(`{"type":"record","name":"R0","fields":[]}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"type":"record","name":"R%d","fields":[{"name":"a","type":"R%d"%s},{"name":"b","type":"R%[2]d"%[3]s}]}`,
			i+1, i, attributes)
	}
	return b.String()
}

// readUnder reads an Avro body that was written under one schema as values of
// another.
func readUnder[T any](t *testing.T, writer, reader string, body []byte) (T, error) {
	t.Helper()
	return newTestCodec[T](t, reader).read(writer, body)
}

// checkDataError checks the path and reason of an error.
func checkDataError(t *testing.T, err error, path, reason string) {
	t.Helper()
	if e, ok := errors.AsType[*avroplan.DatumError](err); !ok || e.Path() != path || e.Reason != reason {
		t.Errorf("error %v, want field %q: %s", err, path, reason)
	}
}

// checkDoubling checks the error of a datum of one byte with too many records,
// whose path starts in one way.
func checkDoubling(t *testing.T, err error, path string) {
	t.Helper()
	e, ok := errors.AsType[*avroplan.DatumError](err)
	if !ok || e.Offset != 1 || e.Reason != "more than 65552 fields without a width" || !strings.HasPrefix(e.Path(), path) {
		t.Errorf("error %v, want one of too many fields in %s", err, path)
	}
}

func TestRecordsOfNoBytesAreBounded(t *testing.T) {
	text := `[` + doublingRecords(40, "") + `]`
	body := avroplan.AppendLong(nil, 40)
	_, err := readUnder[any](t, text, text, body)
	checkDoubling(t, err, "a.a.")
	_, err = readUnder[map[string]any](t, text, text, body)
	checkDoubling(t, err, "a.a.")

	nulls := `{"type":"record","name":"E","fields":[` +
		strings.TrimPrefix(manyFields(32, `"null"`), ",") + `]}`
	items := `{"type":"array","items":` + nulls + `}`
	body = append(avroplan.AppendLong(nil, 4096), 0)
	_, err = readUnder[[]struct{}](t, items, items, body)
	checkDataError(t, err, "[2049]", "more than 65584 fields without a width")
	_, err = readUnder[[]map[string]any](t, items, items, body)
	checkDataError(t, err, "[2049]", "more than 65584 fields without a width")

	// Fields that the reader does not have are not read.
	if v, err := readUnder[[]struct{}](t, items, `{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, body); err != nil || len(v) != 4096 {
		t.Errorf("without the fields: %d items, %v", len(v), err)
	}
}

// manyFields declares n fields of a type, each behind a comma.
func manyFields(n int, typ string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"name":"f%d","type":%s}`, i, typ)
	}
	return b.String()
}

func TestFieldsOfNoBytesGrowWithTheDatum(t *testing.T) {
	const count = 100_000
	text := `{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"x","type":"boolean"}` + manyFields(16, `"null"`) + `]}}`
	body := append(append(avroplan.AppendLong(nil, count), make([]byte, count)...), 0)
	if v, err := readUnder[[]struct{}](t, text, text, body); err != nil || len(v) != count {
		t.Errorf("16 fields a byte: %d items, %v", len(v), err)
	}
}

func TestDefaultsOfManyRecordsAreBounded(t *testing.T) {
	const place = `{"type":"record","name":"Place","fields":[{"name":"x","type":"boolean"}`
	with := func(n int) string {
		return place + `,{"name":"none","type":["null",` + doublingRecords(n, `,"default":{}`) + `],"default":null}` +
			fmt.Sprintf(`,{"name":"d","type":"R%d","default":{}}]}`, n)
	}
	// R16 stands for 2^17-1 records, all but one of which are fields of no bytes.
	_, err := readUnder[any](t, place+`]}`, with(16), []byte{1})
	checkDoubling(t, err, "d.")

	text := with(40)
	_, err = avroplan.Parse(text)
	want := avroplan.ParseError{
		Path: "Place.none.a", Reason: fmt.Sprintf("invalid default: the defaults stand for more than %d values", 1<<20+len(text)),
	}
	if e, ok := errors.AsType[*avroplan.ParseError](err); !ok || *e != want {
		t.Errorf("Parse = %v, want %v", err, &want)
	}
	// A writer's defaults are not needed.
	if v, err := readUnder[any](t, text, place+`]}`, []byte{1, 0}); err != nil || v.(map[string]any)["x"] != true {
		t.Errorf("a writer with such defaults: %v, %v", v, err)
	}
}

func TestDefaultsAreBoundedInADatum(t *testing.T) {
	const item = `{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"x","type":"boolean"}`
	reader := item + `,{"name":"d","type":"bytes","default":"` + strings.Repeat("d", 1<<20-4) + `"}]}}`
	body := func(count int) []byte {
		return append(append(avroplan.AppendLong(nil, int64(count)), make([]byte, count)...), 0)
	}
	// Each default has 2^20-1 bytes with its length.
	v, err := readUnder[[]map[string]any](t, item+`]}}`, reader, body(16))
	if err != nil || len(v) != 16 || len(v[15]["d"].([]byte)) != 1<<20-4 {
		t.Errorf("16 defaults: %d items, %v", len(v), err)
	}
	const reason = "more than 16782080 bytes of defaults"
	_, err = readUnder[[]map[string]any](t, item+`]}}`, reader, body(17))
	checkDataError(t, err, "[16].d", reason)
	_, err = readUnder[any](t, item+`]}}`, reader, body(17))
	checkDataError(t, err, "[16].d", reason)
	_, err = readUnder[[]struct {
		D []byte `avro:"d"`
	}](t, item+`]}}`, reader, body(17))
	checkDataError(t, err, "[16].d", reason)
}

// Small data that claim much must not cost more than what they can hold.
func TestHostileAvroDataCostLittle(t *testing.T) {
	for _, tc := range []struct{ schema, data, want string }{
		{`{"type":"array","items":"null"}`, "fcffffff0f", "more than 4096 items without a width"},
		{`{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, "ffffffffffffffffff0100", "more than 4096 items without a width"},
		{`{"type":"array","items":{"type":"array","items":"null"}}`, strings.Repeat("02803e", 50), "more than 4096 items without a width"},
		{`{"type":"map","values":"null"}`, "fcffffff0f", "truncated"},
		{`{"type":"array","items":"long"}`, "fcffffff0f" + strings.Repeat("00", 100), "truncated"},
		{`{"type":"array","items":{"type":"fixed","name":"F","size":1000000}}`, "fcffffff0f", "truncated"},
		{`"bytes"`, "feffffff0f", "truncated"},
		{`"string"`, "feffffffffffffffff01", "truncated"},
		{`{"type":"fixed","name":"F","size":2147483647}`, "00", "truncated"},
		{`{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}`, strings.Repeat("02", 20000), "nesting exceeds 10000 levels"},
		{`{"type":"record","name":"N","fields":[{"name":"n","type":{"type":"array","items":"N"}}]}`, strings.Repeat("02", 20000), "nesting exceeds 10000 levels"},
	} {
		c := newTestCodec[any](t, tc.schema)
		if _, err := c.read("", nil); err == nil {
			t.Fatalf("%s: a datum of no bytes is read", tc.schema)
		}
		body, _ := hex.DecodeString(tc.data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.read("", body)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.schema, err, tc.want)
		}
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(256<<10+600*len(body)); used > limit {
			t.Errorf("%s: %d bytes allocated for %d bytes of data, more than %d", tc.schema, used, len(body), limit)
		}
	}
}
