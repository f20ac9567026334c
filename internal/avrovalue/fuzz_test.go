// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	twmb "github.com/twmb/avro"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// FuzzAvroDatum reads random bytes under random schemas.
func FuzzAvroDatum(f *testing.F) {
	for seed := range uint64(40) {
		m := newSchemaMaker(seed)
		_, text := m.randomSchema()
		c := newTestCodec[any](f, text, taggedUnions)
		data, err := c.encode(m.value(c.schema, 6))
		if err != nil {
			f.Fatal(err)
		}
		body, _ := hex.DecodeString(data)
		f.Add(seed, body)
	}
	f.Fuzz(func(t *testing.T, seed uint64, body []byte) {
		_, text := newSchemaMaker(seed).randomSchema()
		c := newTestCodec[any](t, text, taggedUnions)
		value, err := c.decode("", hex.EncodeToString(body))
		skipped := skipAvro(c.schema, body)
		if err != nil {
			return
		}
		if skipped != nil {
			t.Fatalf("%s: %x is read, but not passed over: %v", text, body, skipped)
		}
		data, err := c.encode(value)
		if err != nil {
			t.Fatalf("%s: %x is read as %v, which cannot be written: %v", text, body, value, err)
		}
		again, err := c.decode("", data)
		if diff := cmp.Diff(plainValue(value), plainValue(again)); diff != "" || err != nil {
			t.Fatalf("%s: %x: %v, mismatch (-first +second):\n%s", text, body, err, diff)
		}
		bare, err := newTestCodec[any](t, text).decode("", data)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := twmb.Parse(text); err == nil {
			if want, err := twmbDecode(other, hex.EncodeToString(body)); err == nil {
				if diff := cmp.Diff(plainValue(want), plainValue(bare)); diff != "" {
					t.Fatalf("%s: %x mismatch (-twmb +plan):\n%s", text, body, diff)
				}
			}
		}
	})
}

func skipAvro(s *avroplan.Schema, body []byte) *avroplan.DatumError {
	var c avroplan.Cursor
	c.Reset(body)
	if err := c.Skip(s); err != nil {
		return err
	}
	return c.End()
}

// FuzzAvroResolution reads random bytes under random pairs of schemas, into
// generic values and into a struct.
func FuzzAvroResolution(f *testing.F) {
	for seed := range uint64(40) {
		m := newSchemaMaker(seed)
		writer, text := m.randomSchema()
		m.evolve(writer, make(map[*randomType]*randomType))
		c := newTestCodec[any](f, text, taggedUnions)
		data, err := c.encode(m.value(c.schema, 6))
		if err != nil {
			f.Fatal(err)
		}
		body, _ := hex.DecodeString(data)
		f.Add(seed, body)
	}
	f.Fuzz(func(t *testing.T, seed uint64, body []byte) {
		m := newSchemaMaker(seed)
		writer, writerText := m.randomSchema()
		readerText := m.evolve(writer, make(map[*randomType]*randomType)).text(make(map[*randomType]bool))
		if _, err := avroplan.Parse(readerText); err != nil {
			return
		}
		before := bytes.Clone(body)
		data := hex.EncodeToString(body)
		value, err := newTestCodec[any](t, readerText).decode(writerText, data)
		typed, typedErr := newTestCodec[fuzzRecord](t, readerText).decode(writerText, data)
		if err == nil && typedErr == nil {
			if record, ok := value.(map[string]any); ok {
				compareFuzzRecord(t, record, typed)
			}
		}
		if !bytes.Equal(before, body) {
			t.Fatal("the input is changed")
		}
		if err != nil {
			return
		}
		if other, err := twmbResolve(writerText, readerText); err == nil {
			if want, err := twmbDecode(other, data); err == nil {
				if diff := cmp.Diff(plainValue(want), plainValue(value)); diff != "" {
					t.Fatalf("%s as %s: %s mismatch (-twmb +plan):\n%s", writerText, readerText, data, diff)
				}
			}
		}
	})
}

// fuzzRecord takes the fields of random records that suit it.
type fuzzRecord struct {
	F0   any            `avro:"f0"`
	F1   *any           `avro:"f1"`
	New0 any            `avro:"new0"`
	New1 []int64        `avro:"new1"`
	Rest map[string]any `avro:"f9"`
}

func compareFuzzRecord(t *testing.T, record map[string]any, typed fuzzRecord) {
	got := map[string]any{"f0": typed.F0, "f1": nil, "new0": typed.New0}
	if typed.F1 != nil {
		got["f1"] = *typed.F1
	}
	for name, v := range got {
		if diff := cmp.Diff(plainValue(record[name]), plainValue(v)); diff != "" {
			t.Fatalf("field %s mismatch (-generic +struct):\n%s", name, diff)
		}
	}
}
