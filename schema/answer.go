// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// unreadable is the failure for an answer with a good status that does not say
// what it should. Something between the client and the registry may have
// answered, so asking again can help.
func unreadable(text string, cause error) *RegistryError {
	return &RegistryError{StatusCode: -1, text: text, cause: cause, retriable: true}
}

// answerObject is a JSON object whose members are read one by one: registries
// add, drop and reorder them.
type answerObject map[string]json.RawMessage

func parseObject(data []byte) (answerObject, error) {
	var object answerObject
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, unreadable("cannot parse schema registry response", err)
	}
	return object, nil
}

// has reports whether a member is present and not null.
func (o answerObject) has(key string) bool {
	raw, ok := o[key]
	return ok && !bytes.Equal(raw, []byte("null"))
}

func (o answerObject) integer(key string) (int, error) {
	value, err := parseInteger(o[key])
	if err != nil {
		return 0, unreadable("schema registry response has no integer "+key, nil)
	}
	return value, nil
}

// id reads a schema id, which must fit a frame.
func (o answerObject) id() (int, error) {
	id, err := o.integer("id")
	if err == nil && (id < 0 || uint64(id) > math.MaxUint32) {
		return 0, unreadable("schema registry response has no integer id", nil)
	}
	return id, err
}

func (o answerObject) text(key string) (string, error) {
	var value string
	if json.Unmarshal(o[key], &value) != nil || value == "" {
		return "", unreadable("schema registry response has no text "+key, nil)
	}
	return value, nil
}

// optionalInteger is 0 for an absent member.
func (o answerObject) optionalInteger(key string) (int, error) {
	if !o.has(key) {
		return 0, nil
	}
	return o.integer(key)
}

// optionalText is "" for an absent member and for an empty one.
func (o answerObject) optionalText(key string) (string, error) {
	if !o.has(key) || bytes.Equal(o[key], []byte(`""`)) {
		return "", nil
	}
	return o.text(key)
}

// schemaType is "" for Avro, also where the registry spells it out.
func (o answerObject) schemaType() (string, error) {
	text, err := o.optionalText("schemaType")
	if text == KindAvro.String() {
		text = ""
	}
	return text, err
}

// optionalJSON is nil for an absent member.
func (o answerObject) optionalJSON(key string) []byte {
	if !o.has(key) {
		return nil
	}
	return o[key]
}

// references reads the list that a schema depends on. An element without a
// name, subject or version is an error: a schema that lacks a dependency
// cannot be read.
func (o answerObject) references() ([]SchemaReference, error) {
	if !o.has("references") {
		return nil, nil
	}
	var elements []answerObject
	if err := json.Unmarshal(o["references"], &elements); err != nil {
		return nil, unreadable("schema registry response has no array references", nil)
	}
	var references []SchemaReference
	for _, element := range elements {
		name, err := element.text("name")
		if err != nil {
			return nil, err
		}
		subject, err := element.text("subject")
		if err != nil {
			return nil, err
		}
		version, err := element.integer("version")
		if err != nil {
			return nil, err
		}
		references = append(references, SchemaReference{Name: name, Subject: subject, Version: version})
	}
	return references, nil
}

// registered reads a version of a subject. Only the id is required.
func (o answerObject) registered() (RegisteredSchema, error) {
	var r RegisteredSchema
	read := []func() error{
		func() (err error) { r.ID, err = o.id(); return err },
		func() (err error) { r.Version, err = o.optionalInteger("version"); return err },
		func() (err error) { r.Schema, err = o.optionalText("schema"); return err },
		func() (err error) { r.SchemaType, err = o.schemaType(); return err },
		func() (err error) { r.MessageType, err = o.optionalText("messageType"); return err },
		func() (err error) { r.Subject, err = o.optionalText("subject"); return err },
		func() (err error) { r.GUID, err = o.optionalText("guid"); return err },
		func() (err error) { r.References, err = o.references(); return err },
	}
	for _, member := range read {
		if err := member(); err != nil {
			return RegisteredSchema{}, err
		}
	}
	r.Metadata, r.RuleSet = o.optionalJSON("metadata"), o.optionalJSON("ruleSet")
	return r, nil
}

// fetched reads a schema by id or GUID. Only its text is required.
func (o answerObject) fetched() (FetchedSchema, error) {
	var f FetchedSchema
	read := []func() error{
		func() (err error) { f.Schema, err = o.text("schema"); return err },
		func() (err error) { f.SchemaType, err = o.schemaType(); return err },
		func() (err error) { f.MessageType, err = o.optionalText("messageType"); return err },
		func() (err error) { f.GUID, err = o.optionalText("guid"); return err },
		func() (err error) { f.References, err = o.references(); return err },
	}
	for _, member := range read {
		if err := member(); err != nil {
			return FetchedSchema{}, err
		}
	}
	f.Metadata, f.RuleSet = o.optionalJSON("metadata"), o.optionalJSON("ruleSet")
	return f, nil
}

func parseInteger(raw []byte) (int, error) {
	return strconv.Atoi(string(bytes.TrimSpace(raw)))
}

// parseArray reads a whole answer that is an array.
func parseArray[T any](data []byte) ([]T, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, unreadable("cannot parse schema registry response", err)
	}
	if raw[0] != '[' {
		return nil, unreadable("schema registry response is not an array", nil)
	}
	var elements []*T
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, unreadable("cannot parse schema registry response", err)
	}
	values := make([]T, len(elements))
	for i, element := range elements {
		if element == nil {
			return nil, unreadable("cannot parse schema registry response", fmt.Errorf("element %d is null", i))
		}
		values[i] = *element
	}
	return values, nil
}
