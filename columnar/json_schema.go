// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// jsonBinaryKey is the metadata key of a binary field that is base64 in JSON.
const jsonBinaryKey = "krabka.binary"

const (
	// maxJSONSchemaHops bounds how many references lead to one schema.
	maxJSONSchemaHops = 32
	// maxJSONSchemaSteps bounds how many parts of a schema are looked at.
	maxJSONSchemaSteps = 100_000
)

var (
	errNoProperties   = errors.New("object JSON Schema has no properties")
	errJSONSchemaSize = fmt.Errorf("JSON Schema has more than %d parts", maxJSONSchemaSteps)
)

// SchemaFromJSONSchema returns the Arrow schema of the objects that a JSON
// Schema describes, for [NewJSONCodec] and [NewJSONRowBridgeWithSchema].
//
// The fields are the properties in their order. Fields that are required and
// not null are not nullable.
//
//	JSON Schema                               Arrow type
//	integer, number, boolean                  Int64, Float64, Boolean
//	object, array                             Utf8 with metadata krabka.json: the JSON text
//	text with contentEncoding base64          Binary with metadata krabka.binary
//	anything else                             Utf8
//
// A "$ref" within the document is followed. Where allOf, anyOf or oneOf stand
// in place of a type and agree on one, beside null, that is the type.
func SchemaFromJSONSchema(jsonSchema string) (*arrow.Schema, error) {
	root, err := parseJSONSchema(jsonSchema)
	if err != nil {
		return nil, err
	}
	return root.object()
}

// jsonSchemaDocument is a JSON Schema, in which references are resolved.
type jsonSchemaDocument struct {
	root  *jsonValue
	steps int // parts that were looked at
}

func parseJSONSchema(text string) (*jsonSchemaDocument, error) {
	r := jsonReader{data: []byte(text)}
	root, err := r.value(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	}
	if root.kind != jsonObjectValue {
		return nil, errors.New("invalid JSON Schema: it is not an object")
	}
	return &jsonSchemaDocument{root: root}, nil
}

// object returns the fields of the root's properties.
func (d *jsonSchemaDocument) object() (*arrow.Schema, error) {
	root, err := d.resolve(d.root)
	if err != nil {
		return nil, err
	}
	properties := root.member("properties")
	if properties == nil || properties.kind != jsonObjectValue {
		return nil, errNoProperties
	}
	required := make(map[string]bool)
	if names := root.member("required"); names != nil && names.kind == jsonArrayValue {
		for _, name := range names.items {
			if name.kind == jsonTextValue {
				required[name.text] = true
			}
		}
	}
	fields := make([]arrow.Field, len(properties.names))
	for i, name := range properties.names {
		if properties.items[i].kind != jsonObjectValue {
			return nil, fmt.Errorf("invalid JSON Schema property %s", name)
		}
		if fields[i], err = d.field(name, properties.items[i]); err != nil {
			return nil, err
		}
		fields[i].Nullable = fields[i].Nullable || !required[name]
	}
	return arrow.NewSchema(fields, nil), nil
}

// scalar returns the one field of rows that are not objects.
func (d *jsonSchemaDocument) scalar() (*arrow.Schema, error) {
	field, err := d.field(scalarColumn, d.root)
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema([]arrow.Field{field}, nil), nil
}

// field returns the field that a schema describes. It is nullable where the
// schema admits null.
func (d *jsonSchemaDocument) field(name string, schema *jsonValue) (arrow.Field, error) {
	field := arrow.Field{Name: name}
	kind, nullable, encoding, err := d.describe(schema, 0)
	if err != nil {
		return field, err
	}
	field.Nullable = nullable
	switch kind {
	case "integer":
		field.Type = arrow.PrimitiveTypes.Int64
	case "number":
		field.Type = arrow.PrimitiveTypes.Float64
	case "boolean":
		field.Type = arrow.FixedWidthTypes.Boolean
	case "object", "array":
		field.Type = arrow.BinaryTypes.String
		field.Metadata = arrow.NewMetadata([]string{jsonFieldKey}, []string{"true"})
	default:
		field.Type = arrow.BinaryTypes.String
		if encoding == "base64" {
			field.Type = arrow.BinaryTypes.Binary
			field.Metadata = arrow.NewMetadata([]string{jsonBinaryKey}, []string{"true"})
		}
	}
	return field, nil
}

// describe returns the type of a schema, which may be empty, whether it admits
// null, and the encoding of its text.
func (d *jsonSchemaDocument) describe(schema *jsonValue, hops int) (kind string, nullable bool, encoding string, err error) {
	if d.steps++; d.steps > maxJSONSchemaSteps {
		return "", false, "", errJSONSchemaSize
	}
	if schema, err = d.resolve(schema); err != nil {
		return "", false, "", err
	}
	if text := schema.member("contentEncoding"); text != nil {
		encoding = text.text
	}
	switch named := schema.member("type"); {
	case named == nil:
	case named.kind == jsonTextValue:
		return named.text, named.text == "null", encoding, nil
	case named.kind == jsonArrayValue:
		for _, one := range named.items {
			if one.kind != jsonTextValue {
				continue
			}
			if one.text == "null" {
				nullable = true
			} else if kind == "" {
				kind = one.text
			}
		}
		return kind, nullable, encoding, nil
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts := schema.member(word)
		if parts == nil || parts.kind != jsonArrayValue || hops == maxJSONSchemaHops {
			continue
		}
		agreed, first := true, true
		for _, part := range parts.items {
			if part.kind != jsonObjectValue {
				continue
			}
			one, null, partEncoding, err := d.describe(part, hops+1)
			if err != nil {
				return "", false, "", err
			}
			nullable = nullable || null
			if one == "null" || one == "" && word == "allOf" {
				continue
			}
			if first {
				kind, encoding, first = one, partEncoding, false
			}
			agreed = agreed && one == kind
		}
		if !agreed {
			kind, encoding = "", ""
		}
		return kind, nullable, encoding, nil
	}
	return "", false, encoding, nil
}

// resolve follows references within the document.
func (d *jsonSchemaDocument) resolve(schema *jsonValue) (*jsonValue, error) {
	for range maxJSONSchemaHops {
		reference := schema.member("$ref")
		if reference == nil || reference.kind != jsonTextValue {
			return schema, nil
		}
		pointer, local := strings.CutPrefix(reference.text, "#")
		if !local || pointer != "" && pointer[0] != '/' {
			return schema, nil
		}
		if schema = d.find(pointer); schema == nil || schema.kind != jsonObjectValue {
			return nil, fmt.Errorf("unresolved JSON Schema reference %s", reference.text)
		}
	}
	return nil, fmt.Errorf("unresolved JSON Schema reference %s", schema.member("$ref").text)
}

// find returns what a JSON pointer leads to, or nil.
func (d *jsonSchemaDocument) find(pointer string) *jsonValue {
	value := d.root
	if pointer == "" {
		return value
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if value.kind == jsonArrayValue {
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(value.items) {
				return nil
			}
			value = value.items[index]
		} else if value = value.member(step); value == nil {
			return nil
		}
	}
	return value
}
