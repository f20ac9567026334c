// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentedAvroColumnsAreThoseOfTheCode(t *testing.T) {
	page, err := os.ReadFile("../docs/columnarschema.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Avro type |")
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
		parsed, err := ParseAvroSchema(cell(0))
		if err != nil {
			t.Fatalf("%s: %v", cell(0), err)
		}
		field, err := AvroArrowField("f", parsed)
		if err != nil {
			t.Fatalf("%s: %v", cell(0), err)
		}
		var metadata []string
		for i, key := range field.Metadata.Keys() {
			metadata = append(metadata, key+"="+field.Metadata.Values()[i])
		}
		got := [2]string{field.Type.String(), strings.Join(metadata, " ")}
		if diff := cmp.Diff([2]string{cell(1), cell(2)}, got); diff != "" {
			t.Errorf("%s (-page +code):\n%s", cell(0), diff)
		}
	}
	if rows < 30 {
		t.Errorf("the page has only %d rows", rows)
	}
}
