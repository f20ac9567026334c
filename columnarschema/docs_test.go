// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

// checkDocumentedColumns compares the table of the page that begins with a heading
// with the fields that the code gives for the first cells of its rows.
func checkDocumentedColumns(t *testing.T, heading string, least int, field func(source string) (arrow.Field, error)) {
	t.Helper()
	page, err := os.ReadFile("../docs/columnarschema.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), heading)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			if rows > 0 {
				break
			}
			continue
		}
		rows++
		cell := func(i int) string { return strings.Trim(cells[i], "|` ") }
		f, err := field(cell(0))
		if err != nil {
			t.Fatalf("%s: %v", cell(0), err)
		}
		var metadata []string
		for i, key := range f.Metadata.Keys() {
			metadata = append(metadata, key+"="+f.Metadata.Values()[i])
		}
		got := [2]string{f.Type.String(), strings.Join(metadata, " ")}
		if diff := cmp.Diff([2]string{cell(1), cell(2)}, got); diff != "" {
			t.Errorf("%s (-page +code):\n%s", cell(0), diff)
		}
	}
	if rows < least {
		t.Errorf("the page has only %d rows", rows)
	}
}

func TestDocumentedAvroColumnsAreThoseOfTheCode(t *testing.T) {
	checkDocumentedColumns(t, "| Avro type |", 30, func(source string) (arrow.Field, error) {
		parsed, err := ParseAvroSchema(source)
		if err != nil {
			return arrow.Field{}, err
		}
		return AvroArrowField("f", parsed)
	})
}

func TestDocumentedProtobufColumnsAreThoseOfTheCode(t *testing.T) {
	const file = `syntax = "proto3"; package doc;
		import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
		import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
		message M { %s } message Box { int32 v = 1; } enum Color { RED = 0; }`
	checkDocumentedColumns(t, "| Protobuf field |", 30, func(source string) (arrow.Field, error) {
		return ProtobufArrowField(protoMessage(t, fmt.Sprintf(file, source)).Fields().Get(0)), nil
	})
}
