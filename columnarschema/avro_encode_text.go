// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// appendFromText writes the value of a schema that text gives as the JSON of
// avroTextReader. Values of unions may also stand without the name of
// their branch, where they fit one.
func appendFromText(dst []byte, s *avroplan.Schema, text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil {
		if _, trailing := dec.Token(); !errors.Is(trailing, io.EOF) {
			err = errors.New("text goes on after the value")
		}
	}
	out := dst
	if err == nil {
		out, err = appendJSONValue(dst, s, v)
	}
	if err != nil {
		return dst, fmt.Errorf("cannot write a recursive Avro value from JSON: %w", err)
	}
	return out, nil
}

func appendJSONValue(dst []byte, s *avroplan.Schema, v any) ([]byte, error) {
	switch s.Kind {
	case avroplan.Null:
		if v == nil {
			return dst, nil
		}
	case avroplan.Boolean:
		if b, ok := v.(bool); ok {
			return avroplan.AppendBool(dst, b), nil
		}
	case avroplan.Int, avroplan.Long:
		bits := 64
		if s.Kind == avroplan.Int {
			bits = 32
		}
		if number, ok := v.(json.Number); ok {
			if n, err := strconv.ParseInt(number.String(), 10, bits); err == nil {
				return avroplan.AppendLong(dst, n), nil
			}
		}
	case avroplan.Float, avroplan.Double:
		if x, ok := jsonFloat(v, s.Kind); ok {
			if s.Kind == avroplan.Float {
				return avroplan.AppendFloat(dst, float32(x)), nil
			}
			return avroplan.AppendDouble(dst, x), nil
		}
	case avroplan.String:
		if text, ok := v.(string); ok {
			return avroplan.AppendString(dst, text), nil
		}
	case avroplan.Bytes, avroplan.Fixed:
		if raw, ok := jsonBytes(v); ok {
			if s.Kind == avroplan.Bytes {
				return avroplan.AppendBytes(dst, raw), nil
			}
			if len(raw) == s.Size {
				return append(dst, raw...), nil
			}
		}
	case avroplan.Enum:
		for i, symbol := range s.Symbols {
			if v == symbol {
				return avroplan.AppendLong(dst, int64(i)), nil
			}
		}
	case avroplan.Array:
		if items, ok := v.([]any); ok {
			return appendJSONItems(dst, s, items)
		}
	case avroplan.Map:
		if entries, ok := v.(map[string]any); ok {
			return appendJSONEntries(dst, s, entries)
		}
	case avroplan.Record:
		if members, ok := v.(map[string]any); ok {
			return appendJSONFields(dst, s, members)
		}
	case avroplan.Union:
		return appendJSONUnion(dst, s, v)
	}
	return dst, fmt.Errorf("a JSON %s is no %s", jsonTypeOf(v), s.BranchName())
}

func jsonTypeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func jsonFloat(v any, kind avroplan.Kind) (float64, bool) {
	bits := 64
	if kind == avroplan.Float {
		bits = 32
	}
	switch v := v.(type) {
	case json.Number:
		x, err := strconv.ParseFloat(v.String(), bits)
		return x, err == nil
	case string:
		switch v {
		case "NaN":
			return math.NaN(), true
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
	}
	return 0, false
}

// jsonBytes returns the bytes that a text stands for, one a code point.
func jsonBytes(v any) ([]byte, bool) {
	text, ok := v.(string)
	if !ok {
		return nil, false
	}
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		if r > math.MaxUint8 {
			return nil, false
		}
		raw = append(raw, byte(r))
	}
	return raw, true
}

func appendJSONItems(dst []byte, s *avroplan.Schema, items []any) ([]byte, error) {
	if len(items) > 0 {
		dst = avroplan.AppendLong(dst, int64(len(items)))
	}
	for i, item := range items {
		var err error
		if dst, err = appendJSONValue(dst, s.Items, item); err != nil {
			return dst, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return append(dst, 0), nil
}

func appendJSONEntries(dst []byte, s *avroplan.Schema, entries map[string]any) ([]byte, error) {
	if len(entries) > 0 {
		dst = avroplan.AppendLong(dst, int64(len(entries)))
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		var err error
		if dst, err = appendJSONValue(avroplan.AppendString(dst, key), s.Items, entries[key]); err != nil {
			return dst, fmt.Errorf("key %q: %w", key, err)
		}
	}
	return append(dst, 0), nil
}

func appendJSONFields(dst []byte, s *avroplan.Schema, members map[string]any) ([]byte, error) {
	for name := range members {
		if !slices.ContainsFunc(s.Fields, func(f *avroplan.Field) bool { return f.Name == name }) {
			return dst, fmt.Errorf("record %s has no field %q", s.Name, name)
		}
	}
	for _, f := range s.Fields {
		v, ok := members[f.Name]
		if !ok {
			if !f.HasDefault {
				return dst, fmt.Errorf("field %s is absent and has no default", f.Name)
			}
			dst = append(dst, f.Default...)
			continue
		}
		var err error
		if dst, err = appendJSONValue(dst, f.Type, v); err != nil {
			return dst, fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return dst, nil
}

// appendJSONUnion writes null, a value in an object that names its branch, or a
// bare value that fits a branch.
func appendJSONUnion(dst []byte, s *avroplan.Schema, v any) ([]byte, error) {
	if wrapped, ok := v.(map[string]any); ok && len(wrapped) == 1 {
		for i, b := range s.Branches {
			if inner, ok := wrapped[b.BranchName()]; ok {
				return appendJSONValue(avroplan.AppendLong(dst, int64(i)), b, inner)
			}
		}
	}
	var problems []error
	for i, b := range s.Branches {
		out, err := appendJSONValue(avroplan.AppendLong(dst, int64(i)), b, v)
		if err == nil {
			return out, nil
		}
		problems = append(problems, err)
	}
	return dst, fmt.Errorf("no branch of the union fits: %w", errors.Join(problems...))
}
