// SPDX-License-Identifier: Apache-2.0

//go:build integration

package avrovalue

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// TestJavaAvroReadsRandomData has Apache Avro for Java read what this package
// writes, plainly and through other readers' schemas. It needs Java 17 and
// Maven, which fetches that library.
func TestJavaAvroReadsRandomData(t *testing.T) {
	var data []goldenDatum
	resolved := 0
	for _, seed := range randomSeeds(t, 3000) {
		m := newSchemaMaker(seed)
		writer, text := m.randomSchema()
		c := newTestCodec[any](t, text, taggedUnions)
		value := m.value(c.schema, 6)
		encoded, err := c.encode(value)
		if err != nil {
			t.Fatalf("-avro-seed %d: %s: encode: %v", seed, text, err)
		}
		datum := goldenDatum{Schema: json.RawMessage(text), Datum: avroToJSON(c.schema, value), Data: encoded}
		readerText := m.evolve(writer, make(map[*randomType]*randomType)).text(make(map[*randomType]bool))
		if reader, err := avroplan.Parse(readerText); err == nil {
			got, err := newTestCodec[any](t, readerText, taggedUnions).decode(text, encoded)
			if err == nil {
				datum.Reader, datum.Resolved = json.RawMessage(readerText), avroToJSON(reader, got)
				resolved++
			}
		}
		data = append(data, datum)
	}
	if resolved < 2000 {
		t.Errorf("only %d data are read through another schema", resolved)
	}

	folder := t.TempDir()
	file := filepath.Join(folder, "data.json")
	content, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(folder, "lib")
	run(t, "mvn", "-q", "-B", "-f", "testdata/golden-java/pom.xml",
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+library)
	out := run(t, "java", "-cp", library+"/*", "testdata/golden-java/AvroGolden.java", "verify", file)
	// The parser of Java fails on a few schemas that contain themselves.
	var compared, differ, unread int
	if _, err := fmt.Sscanf(lastLine(out), "%d data compared, %d differ, %d unread", &compared, &differ, &unread); err != nil {
		t.Fatalf("Java says %q: %v", out, err)
	}
	if compared != 3000 || differ != 0 || unread > 3 {
		t.Errorf("Java says %q, want 3000 data compared, none that differ, 3 unread at most", out)
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%.4000s", name, err, out)
	}
	return string(out)
}

// avroToJSON returns a value, whose unions are tagged, in Avro's JSON encoding.
func avroToJSON(s *avroplan.Schema, v any) any {
	if s.Kind == avroplan.Union {
		return unionToJSON(s, v)
	}
	switch v := v.(type) {
	case time.Time:
		n, _ := timeCount(s.Logical, v)
		return n
	case time.Duration:
		return int64(v / clockUnit(s.Logical))
	case []byte:
		return codePoints(v)
	case *big.Rat:
		decimal, _ := newDecimalType(s)
		raw, _ := decimal.append(nil, v)
		if s.Kind == avroplan.Bytes {
			_, n := binary.Varint(raw)
			raw = raw[n:]
		}
		return codePoints(raw)
	case Duration:
		w := new(buffer)
		w.duration(v)
		return codePoints(w.data)
	}
	switch s.Kind {
	case avroplan.Fixed:
		value := reflect.ValueOf(v)
		raw := make([]byte, value.Len())
		reflect.Copy(reflect.ValueOf(raw), value)
		return codePoints(raw)
	case avroplan.Array:
		items := []any{}
		for _, item := range v.([]any) {
			items = append(items, avroToJSON(s.Items, item))
		}
		return items
	case avroplan.Map:
		entries := map[string]any{}
		for key, value := range v.(map[string]any) {
			entries[key] = avroToJSON(s.Items, value)
		}
		return entries
	case avroplan.Record:
		record := map[string]any{}
		for _, f := range s.Fields {
			record[f.Name] = avroToJSON(f.Type, v.(map[string]any)[f.Name])
		}
		return record
	}
	return v
}

func unionToJSON(s *avroplan.Schema, v any) any {
	if v == nil {
		return nil
	}
	for _, b := range s.Branches {
		if b.Kind == avroplan.Null {
			continue
		}
		if s.Values() == 1 {
			return map[string]any{b.BranchName(): avroToJSON(b, v)}
		}
		if inner, ok := v.(map[string]any)[b.BranchName()]; ok {
			return map[string]any{b.BranchName(): avroToJSON(b, inner)}
		}
	}
	return nil
}

func codePoints(raw []byte) string {
	runes := make([]rune, len(raw))
	for i, b := range raw {
		runes[i] = rune(b)
	}
	return string(runes)
}
