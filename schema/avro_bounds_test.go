// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
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
	s, cache := seededAvroSerde[T](t, reader, 1)
	cache.SeedWriterSchema(2, writer)
	return s.Deserialize("orders", Encode(2, body))
}

// checkDataError checks the path and reason of an error.
func checkDataError(t *testing.T, err error, path, reason string) {
	t.Helper()
	if e, ok := errors.AsType[*AvroDataError](err); !ok || e.Path() != path || e.Reason != reason {
		t.Errorf("error %v, want field %q: %s", err, path, reason)
	}
}

// checkDoubling checks the error of a datum of one byte with too many records,
// whose path starts in one way.
func checkDoubling(t *testing.T, err error, path string) {
	t.Helper()
	e, ok := errors.AsType[*AvroDataError](err)
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

	cache := NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	text := with(40)
	_, err = NewGenericAvroSerde(text, cache, RoleValue)
	want := AvroSchemaError{
		Path: "Place.none.a", Reason: fmt.Sprintf("invalid default: the defaults stand for more than %d values", 1<<20+len(text)),
	}
	if e, ok := errors.AsType[*AvroSchemaError](err); !ok || *e != want {
		t.Errorf("NewGenericAvroSerde = %v, want %v", err, &want)
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
