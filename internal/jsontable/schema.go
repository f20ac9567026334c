// SPDX-License-Identifier: Apache-2.0

package jsontable

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/krabka-io/krabka-streams-go/internal/jsonrows"
)

// binaryKey is the metadata key of a binary field that is base64 in JSON.
const binaryKey = "krabka.binary"

const (
	// maxSchemaHops bounds how many references lead to one schema.
	maxSchemaHops = 32
	// maxSchemaSteps bounds how many parts of a schema are looked at.
	maxSchemaSteps = 100_000
)

var (
	errNoProperties = errors.New("object JSON Schema has no properties")
	errSchemaSize   = fmt.Errorf("JSON Schema has more than %d parts", maxSchemaSteps)
)

// SchemaDocument is a JSON Schema, in which references are resolved.
type SchemaDocument struct {
	root  *jsonrows.Tree
	steps int // parts that were looked at
}

// ParseSchema reads a JSON Schema.
func ParseSchema(text string) (*SchemaDocument, error) {
	r := jsonrows.Reader{Data: []byte(text)}
	root, err := r.Tree(0)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: %w", err)
	}
	if root.Kind != jsonrows.ObjectTree {
		return nil, errors.New("invalid JSON Schema: it is not an object")
	}
	return &SchemaDocument{root: root}, nil
}

// Object returns the fields of the root's properties.
func (d *SchemaDocument) Object() (*arrow.Schema, error) {
	root, err := d.resolve(d.root)
	if err != nil {
		return nil, err
	}
	properties := root.Member("properties")
	if properties == nil || properties.Kind != jsonrows.ObjectTree {
		return nil, errNoProperties
	}
	required := make(map[string]bool)
	if names := root.Member("required"); names != nil && names.Kind == jsonrows.ArrayTree {
		for _, name := range names.Items {
			if name.Kind == jsonrows.TextTree {
				required[name.Text] = true
			}
		}
	}
	fields := make([]arrow.Field, len(properties.Names))
	for i, name := range properties.Names {
		if properties.Items[i].Kind != jsonrows.ObjectTree {
			return nil, fmt.Errorf("invalid JSON Schema property %s", name)
		}
		if fields[i], err = d.field(name, properties.Items[i]); err != nil {
			return nil, err
		}
		fields[i].Nullable = fields[i].Nullable || !required[name]
	}
	return arrow.NewSchema(fields, nil), nil
}

// Scalar returns the one field of rows that are not objects.
func (d *SchemaDocument) Scalar() (*arrow.Schema, error) {
	field, err := d.field(ScalarColumn, d.root)
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema([]arrow.Field{field}, nil), nil
}

// field returns the field that a schema describes. It is nullable where the
// schema admits null.
func (d *SchemaDocument) field(name string, schema *jsonrows.Tree) (arrow.Field, error) {
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
		field.Metadata = arrow.NewMetadata([]string{jsonrows.TextKey}, []string{"true"})
	default:
		field.Type = arrow.BinaryTypes.String
		if encoding == "base64" {
			field.Type = arrow.BinaryTypes.Binary
			field.Metadata = arrow.NewMetadata([]string{binaryKey}, []string{"true"})
		}
	}
	return field, nil
}

// describe returns the type of a schema, which may be empty, whether it admits
// null, and the encoding of its text.
func (d *SchemaDocument) describe(schema *jsonrows.Tree, hops int) (kind string, nullable bool, encoding string, err error) {
	if d.steps++; d.steps > maxSchemaSteps {
		return "", false, "", errSchemaSize
	}
	if schema, err = d.resolve(schema); err != nil {
		return "", false, "", err
	}
	if text := schema.Member("contentEncoding"); text != nil {
		encoding = text.Text
	}
	switch named := schema.Member("type"); {
	case named == nil:
	case named.Kind == jsonrows.TextTree:
		return named.Text, named.Text == "null", encoding, nil
	case named.Kind == jsonrows.ArrayTree:
		for _, one := range named.Items {
			if one.Kind != jsonrows.TextTree {
				continue
			}
			if one.Text == "null" {
				nullable = true
			} else if kind == "" {
				kind = one.Text
			}
		}
		return kind, nullable, encoding, nil
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts := schema.Member(word)
		if parts == nil || parts.Kind != jsonrows.ArrayTree || hops == maxSchemaHops {
			continue
		}
		agreed, first := true, true
		for _, part := range parts.Items {
			if part.Kind != jsonrows.ObjectTree {
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
func (d *SchemaDocument) resolve(schema *jsonrows.Tree) (*jsonrows.Tree, error) {
	for range maxSchemaHops {
		reference := schema.Member("$ref")
		if reference == nil || reference.Kind != jsonrows.TextTree {
			return schema, nil
		}
		pointer, local := strings.CutPrefix(reference.Text, "#")
		if !local || pointer != "" && pointer[0] != '/' {
			return schema, nil
		}
		if schema = d.find(pointer); schema == nil || schema.Kind != jsonrows.ObjectTree {
			return nil, fmt.Errorf("unresolved JSON Schema reference %s", reference.Text)
		}
	}
	return nil, fmt.Errorf("unresolved JSON Schema reference %s", schema.Member("$ref").Text)
}

// find returns what a JSON pointer leads to, or nil.
func (d *SchemaDocument) find(pointer string) *jsonrows.Tree {
	value := d.root
	if pointer == "" {
		return value
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if value.Kind == jsonrows.ArrayTree {
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(value.Items) {
				return nil
			}
			value = value.Items[index]
		} else if value = value.Member(step); value == nil {
			return nil
		}
	}
	return value
}
