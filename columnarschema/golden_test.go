// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

var updateGoldens = flag.Bool("update", false, "rewrite the files of expected Arrow schemas in testdata")

// schemaText renders the columns of a schema, one a line.
func schemaText(s *arrow.Schema) string {
	var b strings.Builder
	writeFields(&b, s.Fields(), "")
	return b.String()
}

func writeFields(b *strings.Builder, fields []arrow.Field, indent string) {
	for _, f := range fields {
		name := f.Type.String()
		var children []arrow.Field
		switch dt := f.Type.(type) {
		case *arrow.StructType:
			name, children = "struct", dt.Fields()
		case *arrow.ListType:
			name, children = "list", []arrow.Field{dt.ElemField()}
		case *arrow.MapType:
			name, children = "map", []arrow.Field{dt.KeyField(), dt.ItemField()}
		}
		b.WriteString(indent + f.Name + " " + name)
		if !f.Nullable {
			b.WriteString(" not null")
		}
		for i, key := range f.Metadata.Keys() {
			b.WriteString(" " + key + "=" + f.Metadata.Values()[i])
		}
		b.WriteByte('\n')
		writeFields(b, children, indent+"  ")
	}
}

// checkGolden compares text with the file beside source that has the ending
// .arrow.
func checkGolden(t *testing.T, source, text string) {
	t.Helper()
	path := strings.TrimSuffix(source, filepath.Ext(source)) + ".arrow"
	if *updateGoldens {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestAvroSchemasBecomeTheirColumns(t *testing.T) {
	sources, err := filepath.Glob("testdata/avro/*.avsc")
	if err != nil || len(sources) < 7 {
		t.Fatalf("schemas are %v, %v", sources, err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ParseAvroSchema(string(text))
		if err != nil {
			t.Fatal(err)
		}
		columns, err := AvroArrowSchema(parsed)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		checkGolden(t, source, schemaText(columns))
	}
}

func TestAvroTypesWithoutColumnsAreNamed(t *testing.T) {
	// Each of the records holds the next one twice.
	doubling := `"int"`
	for i := range 20 {
		name := string(rune('A' + i))
		doubling = `{"type":"record","name":"` + name + `","fields":[{"name":"a","type":` + doubling + `}`
		if i > 0 {
			doubling += `,{"name":"b","type":"` + string(rune('A'+i-1)) + `"}`
		}
		doubling += `]}`
	}
	for name, tc := range map[string]struct{ field, want string }{
		"null":          {`"null"`, `"f": the null type`},
		"list of null":  {`{"type":"array","items":"null"}`, `"f.item": the null type`},
		"union of null": {`["null"]`, `"f": a union of the null type`},
		"wide decimal":  {`{"type":"bytes","logicalType":"decimal","precision":80}`, "precision 80"},
		"doubling":      {doubling, "more than 10000 columns"},
	} {
		parsed, err := ParseAvroSchema(`{"type":"record","name":"Top","fields":[{"name":"f","type":` + tc.field + `}]}`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := AvroArrowSchema(parsed); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s gives %v, want an error that says %q", name, err, tc.want)
		}
	}
}

func TestEnumsAreDictionariesOnDemand(t *testing.T) {
	const text = `{"type":"record","name":"R","fields":[{"name":"e","type":["null",{"type":"enum","name":"E","symbols":["A","B"]}]}]}`
	cache := offlineCache(t)
	cache.SeedSubjectID("r-value", 1)
	cache.SeedWriterSchema(1, text)
	cache.SeedWriterSchema(2, `{"type":"record","name":"R","fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["B","C","A"]}}]}`)
	codec, err := NewAvroBatchCodec(text, cache, checkedTestAllocator(t), WithDictionaryEnums())
	if err != nil {
		t.Fatal(err)
	}
	records := []columnar.ConsumedRecord{
		{Value: avroFrame(1, 2, 2)}, {Value: avroFrame(1, 0)}, {Value: avroFrame(2, 0)}, {Value: avroFrame(2, 4)},
	}
	batch, err := codec.Decode("r", records)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if got := batch.Column(0).DataType().String(); got != "dictionary<values=utf8, indices=int32, ordered=false>" {
		t.Errorf("column is %s", got)
	}
	if got := batch.Column(0).String(); !strings.Contains(got, `dictionary: ["A" "B"]`) || !strings.Contains(got, "indices: [1 (null) 1 0]") {
		t.Errorf("column is %s", got)
	}
	produced, err := codec.Encode("r", batch)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for _, r := range produced {
		got = append(got, r.Value[5:])
	}
	if diff := cmp.Diff([][]byte{{2, 2}, {0}, {2, 2}, {2, 0}}, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	if _, err := codec.Decode("r", []columnar.ConsumedRecord{{Value: avroFrame(2, 2)}}); err == nil || !strings.Contains(err.Error(), "unknown to enum E") {
		t.Errorf("a symbol without a counterpart gives %v", err)
	}
}
