// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds of a schema text.
const (
	// MaxSchemaBytes is the largest schema text that Parse takes.
	MaxSchemaBytes = 16 << 20

	// MaxSchemaDepth is the deepest nesting of JSON arrays and objects that
	// Parse takes.
	MaxSchemaDepth = 512
)

// jsonValue is one JSON value with the order of its members kept.
type jsonValue struct {
	kind    jsonKind
	text    string // a string's value, a number's literal
	items   []jsonValue
	members []jsonMember
	index   map[string]int // the members by name, once there are too many to compare
}

type jsonMember struct {
	name  string
	value jsonValue
}

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonFalse
	jsonTrue
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

func (k jsonKind) String() string {
	return [...]string{"null", "boolean", "boolean", "number", "string", "array", "object"}[k]
}

// get returns the member of that name, or nil.
func (v *jsonValue) get(name string) *jsonValue {
	if v.index != nil {
		if i, ok := v.index[name]; ok {
			return &v.members[i].value
		}
		return nil
	}
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value
		}
	}
	return nil
}

// parseJSON reads text, which must be exactly one JSON value. A repeated member
// is an error, or with lenient counts in the place of the one before.
func parseJSON(text string, lenient bool) (jsonValue, error) {
	if len(text) > MaxSchemaBytes {
		return jsonValue{}, fmt.Errorf("schema text of %d bytes exceeds %d", len(text), MaxSchemaBytes)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	v, err := (&jsonReader{dec, lenient}).value(0)
	if err != nil {
		return jsonValue{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return jsonValue{}, fmt.Errorf("text goes on after the schema at byte %d", dec.InputOffset())
	}
	return v, nil
}

// jsonReader reads the tokens of one text.
type jsonReader struct {
	*json.Decoder
	lenient bool // takes repeated members
}

func (dec *jsonReader) value(depth int) (jsonValue, error) {
	token, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return jsonValue{}, fmt.Errorf("text ends at byte %d", dec.InputOffset())
	}
	if err != nil {
		return jsonValue{}, fmt.Errorf("not JSON: %w", err)
	}
	switch t := token.(type) {
	case bool:
		if t {
			return jsonValue{kind: jsonTrue}, nil
		}
		return jsonValue{kind: jsonFalse}, nil
	case json.Number:
		return jsonValue{kind: jsonNumber, text: t.String()}, nil
	case string:
		return jsonValue{kind: jsonString, text: t}, nil
	case json.Delim:
		if depth == MaxSchemaDepth {
			return jsonValue{}, fmt.Errorf("nesting exceeds %d levels at byte %d", MaxSchemaDepth, dec.InputOffset())
		}
		if t == '[' {
			return dec.array(depth + 1)
		}
		return dec.object(depth + 1)
	}
	return jsonValue{kind: jsonNull}, nil
}

func (dec *jsonReader) array(depth int) (jsonValue, error) {
	v := jsonValue{kind: jsonArray}
	for dec.More() {
		item, err := dec.value(depth)
		if err != nil {
			return jsonValue{}, err
		}
		v.items = append(v.items, item)
	}
	return v, dec.close()
}

// manyMembers is the number of members from which an object's names are held in
// a map.
const manyMembers = 16

func (dec *jsonReader) object(depth int) (jsonValue, error) {
	v := jsonValue{kind: jsonObject}
	for dec.More() {
		key, err := dec.value(depth)
		if err != nil {
			return jsonValue{}, err
		}
		known := v.get(key.text)
		if known != nil && !dec.lenient {
			return jsonValue{}, fmt.Errorf("member %q is repeated at byte %d", key.text, dec.InputOffset())
		}
		value, err := dec.value(depth)
		if err != nil {
			return jsonValue{}, err
		}
		if known != nil {
			*known = value
			continue
		}
		v.members = append(v.members, jsonMember{key.text, value})
		v.indexLast()
	}
	return v, dec.close()
}

// indexLast enters the last member into the index, if there is to be one.
func (v *jsonValue) indexLast() {
	last := len(v.members) - 1
	if last < manyMembers {
		return
	}
	if v.index == nil {
		v.index = make(map[string]int, 2*manyMembers)
		for i, m := range v.members[:last] {
			v.index[m.name] = i
		}
	}
	v.index[v.members[last].name] = last
}

// closeJSON reads the bracket that ends an array or object.
func (dec *jsonReader) close() error {
	if _, err := dec.Token(); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("text ends at byte %d", dec.InputOffset())
		}
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}
