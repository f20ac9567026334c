// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// The data come from Apache Avro for Java, as the folder of the file tells.
func TestDataOfJavaAvroComeBackFromColumns(t *testing.T) {
	text, err := os.ReadFile("../internal/avrovalue/testdata/avro/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Name                   string
		Schema, Reader         json.RawMessage
		Data, Blocked, Refused string
		Resolved               any
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	compared, resolved := 0, 0
	for _, g := range golden {
		t.Run(g.Name, func(t *testing.T) {
			wrapped := func(schema json.RawMessage) *avroplan.Schema {
				s, err := avroplan.Parse(`{"type":"record","name":"Wrapper","fields":[{"name":"value","type":` + string(schema) + `}]}`)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			writer := wrapped(g.Schema)
			if _, err := avroColumns(writer, false); err != nil {
				if !strings.Contains(err.Error(), "null type alone") {
					t.Error(err)
				}
				return
			}
			for _, data := range []string{g.Data, g.Blocked} {
				if data == "" && g.Data != "" {
					continue
				}
				if again, err := throughColumns(t, writer, writer, data); err != nil || again != g.Data {
					t.Errorf("%s comes back as %s, %v", data, again, err)
				}
				compared++
			}
			if g.Reader == nil {
				return
			}
			reader := wrapped(g.Reader)
			got, err := throughColumns(t, writer, reader, g.Data)
			switch {
			case g.Refused != "" && err == nil:
				t.Errorf("%s is read as %s, where Java says: %s", g.Data, got, g.Refused)
			case g.Refused == "" && (err != nil || got != g.Resolved):
				t.Errorf("%s is read as %s, %v, want %v", g.Data, got, err, g.Resolved)
			}
			resolved++
		})
	}
	if compared < 70 || resolved < 25 {
		t.Errorf("only %d data and %d resolved ones were compared", compared, resolved)
	}
}

// throughColumns reads a datum in hex into columns and writes these.
func throughColumns(t *testing.T, writer, reader *avroplan.Schema, data string) (string, error) {
	t.Helper()
	body, err := hex.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := decodeBodies(checkedTestAllocator(t), writer, reader, [][]byte{body})
	if err != nil {
		return "", err
	}
	defer batch.Release()
	encoder, err := (&avroEncodePlan{schema: reader}).bind(batch)
	if err != nil {
		return "", err
	}
	again, err := encoder.appendRow(nil, 0)
	return hex.EncodeToString(again), err
}
