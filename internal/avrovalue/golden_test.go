// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// goldenDatum is one datum in the files that testdata/golden-java reads and
// writes. Data are in hex.
type goldenDatum struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Datum  any             `json:"datum"` // Avro JSON
	Data   string          `json:"data"`

	// Blocked is the datum with the sizes of its blocks.
	Blocked string `json:"blocked,omitempty"`

	Reader   json.RawMessage `json:"reader,omitempty"`
	Resolved any             `json:"resolved,omitempty"` // data as read by Reader: in hex from Java, as Avro JSON for it
	Refused  string          `json:"refused,omitempty"`
}

func readGolden(t *testing.T) []goldenDatum {
	t.Helper()
	text, err := os.ReadFile("testdata/avro/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []goldenDatum
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

// The golden file comes from Apache Avro for Java; testdata/golden-java tells
// how.
func TestDataOfJavaAvroAreReadAndWritten(t *testing.T) {
	golden := readGolden(t)
	if len(golden) < 70 {
		t.Fatalf("only %d data", len(golden))
	}
	for _, g := range golden {
		t.Run(g.Name, func(t *testing.T) {
			c := newTestCodec[any](t, string(g.Schema), taggedUnions)
			want := avroFromJSON(t, c.schema, g.Datum)
			for _, data := range []string{g.Data, g.Blocked} {
				if data == "" && g.Data != "" {
					continue
				}
				got, err := c.decode("", data)
				if diff := cmp.Diff(want, got, compareRats); diff != "" || err != nil {
					t.Errorf("decode(%s): %v, mismatch (-want +got):\n%s", data, err, diff)
				}
			}
			if data, err := c.encode(want); data != g.Data || err != nil {
				t.Errorf("encode = %s, %v, want %s", data, err, g.Data)
			}
			if g.Reader == nil {
				return
			}
			reader := newTestCodec[any](t, string(g.Reader), taggedUnions)
			got, err := reader.decode(string(g.Schema), g.Data)
			if g.Refused != "" {
				if err == nil {
					t.Errorf("resolved to %v, where Java says: %s", got, g.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, err := reader.encode(got); data != g.Resolved || err != nil {
				t.Errorf("resolved datum = %s, %v, want %v", data, err, g.Resolved)
			}
		})
	}
}

// avroFromJSON returns the value, with tagged unions, of a datum in Avro's JSON
// encoding.
func avroFromJSON(t *testing.T, s *avroplan.Schema, v any) any {
	t.Helper()
	number := func() int64 {
		n, err := v.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch s.Kind {
	case avroplan.Int, avroplan.Long:
		switch {
		case isMoment(s.Logical):
			return timeOf(s.Logical, number())
		case isClock(s.Logical):
			return time.Duration(number()) * clockUnit(s.Logical)
		case s.Kind == avroplan.Int:
			return int(number())
		}
		return number()
	case avroplan.Float, avroplan.Double:
		f, err := v.(json.Number).Float64()
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == avroplan.Float {
			return float32(f)
		}
		return f
	case avroplan.Bytes, avroplan.Fixed:
		return bytesValue(t, s, v.(string))
	case avroplan.Array:
		items := []any{}
		for _, item := range v.([]any) {
			items = append(items, avroFromJSON(t, s.Items, item))
		}
		return items
	case avroplan.Map:
		entries := map[string]any{}
		for key, value := range v.(map[string]any) {
			entries[key] = avroFromJSON(t, s.Items, value)
		}
		return entries
	case avroplan.Record:
		record := map[string]any{}
		for _, f := range s.Fields {
			record[f.Name] = avroFromJSON(t, f.Type, v.(map[string]any)[f.Name])
		}
		return record
	case avroplan.Union:
		for _, b := range s.Branches {
			if v == nil {
				return nil
			}
			if inner, ok := v.(map[string]any)[b.BranchName()]; ok {
				value := avroFromJSON(t, b, inner)
				if s.Values() > 1 {
					return map[string]any{b.BranchName(): value}
				}
				return value
			}
		}
		t.Fatalf("no branch for %v", v)
	}
	return v
}

// bytesValue returns the value of bytes or a fixed whose bytes are the code
// points of text.
func bytesValue(t *testing.T, s *avroplan.Schema, text string) any {
	var raw []byte
	for _, r := range text {
		raw = append(raw, byte(r))
	}
	switch {
	case s.Logical == avroplan.Decimal:
		n := new(big.Int).SetBytes(raw)
		if raw[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
		}
		return new(big.Rat).SetFrac(n, power10(s.Scale))
	case s.Logical == avroplan.Duration:
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(raw[i:]) }
		return Duration{Months: word(0), Days: word(4), Milliseconds: word(8)}
	case s.Kind == avroplan.Bytes:
		return append([]byte{}, raw...)
	}
	array := reflect.New(reflect.ArrayOf(s.Size, reflect.TypeFor[byte]())).Elem()
	reflect.Copy(array, reflect.ValueOf(raw))
	return array.Interface()
}
