// SPDX-License-Identifier: Apache-2.0

package metacols_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/metacols"
)

func namesOf(fields []arrow.Field) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	return names
}

func TestFieldsAreReserved(t *testing.T) {
	want := []string{"__key", "__timestamp", "__partition", "__offset", "__headers", "__tombstone"}
	if diff := cmp.Diff(want, namesOf(metacols.Fields(true))); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:5], namesOf(metacols.Fields(false))); diff != "" {
		t.Errorf("names without tombstones mismatch (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if !metacols.IsReserved(name) || metacols.Payload(name) != "__payload_"+name || metacols.Bare(metacols.Payload(name)) != name {
			t.Errorf("%s: reserved %t, payload name %s", name, metacols.IsReserved(name), metacols.Payload(name))
		}
	}
	for _, name := range []string{"", "key", "__keys", "_key", "__KEY"} {
		if metacols.IsReserved(name) || metacols.Payload(name) != name {
			t.Errorf("%q: reserved %t, payload name %q", name, metacols.IsReserved(name), metacols.Payload(name))
		}
	}
}

func TestRestoreUndoesEscape(t *testing.T) {
	unit := arrow.MetadataFrom(map[string]string{"unit": "s"})
	fields := []arrow.Field{
		{Name: "__key", Type: arrow.PrimitiveTypes.Int64, Metadata: unit},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "__payload___key", Type: arrow.BinaryTypes.String},
		{Name: "__offset", Type: arrow.BinaryTypes.Binary},
	}
	escaped := metacols.Escape(fields)
	want := []string{"__payload___payload___key", "id", "__payload___key", "__payload___offset"}
	if diff := cmp.Diff(want, namesOf(escaped)); diff != "" {
		t.Errorf("escaped names mismatch (-want +got):\n%s", diff)
	}
	for i, field := range escaped {
		if back := metacols.Restore(field); !back.Equal(fields[i]) {
			t.Errorf("%v became %v, want %v", field, back, fields[i])
		}
	}
	if again := metacols.Escape(fields[1:2]); &again[0] != &fields[1] {
		t.Error("fields without a reserved name were copied")
	}
}

func TestRestoreLeavesOtherFields(t *testing.T) {
	named := func(original string) arrow.Metadata {
		return arrow.MetadataFrom(map[string]string{metacols.NameKey: original})
	}
	for _, field := range []arrow.Field{
		{Name: "__payload___key", Type: arrow.Null},
		{Name: "__payload_id", Type: arrow.Null, Metadata: named("id")},
		{Name: "__payload_x__key", Type: arrow.Null, Metadata: named("__key")},
		{Name: "id", Type: arrow.Null, Metadata: named("__key")},
	} {
		if back := metacols.Restore(field); !back.Equal(field) {
			t.Errorf("%v became %v", field, back)
		}
	}
}
