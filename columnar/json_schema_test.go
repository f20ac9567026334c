// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/arrowtest"
)

func TestJSONSchemaFields(t *testing.T) {
	schema, err := SchemaFromJSONSchema(`{
		"type": "object",
		"required": ["id", "maybe", 7, "address"],
		"properties": {
			"id": {"type": "integer"},
			"amount": {"type": "number"},
			"paid": {"type": ["null", "boolean", "string"]},
			"maybe": {"type": ["string", "null"]},
			"tags": {"type": "array"},
			"meta": {"type": "object"},
			"blob": {"type": "string", "contentEncoding": "base64"},
			"free": {},
			"address": {"$ref": "#/$defs/an~1odd%20~0name"},
			"remote": {"$ref": "https://example.com/x.json"},
			"choice": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/count"}]},
			"mixed": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
			"wrapped": {"allOf": [{"$ref": "#/$defs/count"}, {"description": "how many"}]},
			"__key": {"type": "string"}
		},
		"$defs": {
			"an/odd ~name": {"$ref": "#/$defs/list/1"},
			"list": [true, {"type": "object"}],
			"count": {"type": "integer"}
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"id int64 not null", "amount float64", "paid bool", "maybe utf8", "tags utf8 krabka.json=true", "meta utf8 krabka.json=true",
		"blob binary krabka.binary=true", "free utf8", "address utf8 not null krabka.json=true", "remote utf8",
		"choice int64", "mixed utf8", "wrapped int64", "__key utf8",
	}
	if diff := cmp.Diff(want, fieldsText(schema)); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
}

func TestJSONSchemaRootReference(t *testing.T) {
	schema, err := SchemaFromJSONSchema(`{"$ref": "#/definitions/row", "definitions": {"row": {"required": "a", "properties": {"a": {"type": "integer"}}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a int64"}, fieldsText(schema)); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
}

func TestBrokenJSONSchemas(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                      "invalid JSON Schema: unexpected end of JSON (at byte 1)",
		`{"properties": {}} x`:                   "invalid JSON Schema: unexpected bytes behind the JSON value (at byte 19)",
		`true`:                                   "invalid JSON Schema: it is not an object",
		`{"type": "object"}`:                     "object JSON Schema has no properties",
		`{"properties": []}`:                     "object JSON Schema has no properties",
		`{"properties": {"a": true}}`:            "invalid JSON Schema property a",
		`{"properties": {"a": {"$ref": "#/x"}}}`: "unresolved JSON Schema reference #/x",
		`{"properties": {"a": {"$ref": "#/properties/a"}}}`:                                          "unresolved JSON Schema reference #/properties/a",
		`{"properties": {"a": {"anyOf": [{"$ref": "#/properties/b/0"}]}}}`:                           "unresolved JSON Schema reference #/properties/b/0",
		`{"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"$ref": "#/properties/a"}]}}}`: "JSON Schema has more than 100000 parts",
		strings.Repeat("[", 300): "invalid JSON Schema: JSON is nested deeper than 256 levels (at byte 256)",
	} {
		if _, err := SchemaFromJSONSchema(text); err == nil || err.Error() != want {
			t.Errorf("%.60s: error %v, want %q", text, err, want)
		}
	}
}

func TestJSONBridgeFromJSONSchema(t *testing.T) {
	mem := arrowtest.NewAllocator(t)
	type order struct {
		ID   *string  `json:"id"`
		Sum  *float64 `json:"sum"`
		Tags []string `json:"tags"`
	}
	bridge, err := JSONRowBridgeFromJSONSchema[order](`{
		"type": "object", "required": ["id"],
		"properties": {"id": {"type": "string"}, "sum": {"type": "number"}, "tags": {"type": "array"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	id, sum := "a", 1.5
	rows := []order{{&id, &sum, []string{"x"}}, {&id, nil, nil}}
	batch, back := roundTrip(t, bridge, rows)
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"id utf8 not null", "sum float64", "tags utf8 krabka.json=true"}, fieldsText(batch.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
	if _, err := bridge.RowsToBatch([]order{{}}, mem); err == nil || err.Error() != "required JSON field is null: id (row 0)" {
		t.Errorf("error %v", err)
	}

	text, err := JSONRowBridgeFromJSONSchema[*string](`{"type": "string"}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := text.RowsToBatch([]*string{nil}, mem); err == nil || err.Error() != "required JSON field is null: value (row 0)" {
		t.Errorf("error %v", err)
	}
	nullable, err := JSONRowBridgeFromJSONSchema[[]byte](`{"$ref": "#/$defs/b", "$defs": {"b": {"type": ["string", "null"], "contentEncoding": "base64"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	binary, data := roundTrip(t, nullable, [][]byte{{1, 2}, nil})
	if diff := cmp.Diff([][]byte{{1, 2}, nil}, data); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"value binary krabka.binary=true"}, fieldsText(binary.Schema())); diff != "" {
		t.Errorf("fields mismatch (-want +got):\n%s", diff)
	}
	if _, err := JSONRowBridgeFromJSONSchema[order](`{"type": "string"}`); err == nil || err.Error() != "object JSON Schema has no properties" {
		t.Errorf("error %v", err)
	}
}
