// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// SchemaFor returns the text of a schema under which values of T are read
// and written. Named types are in the namespace, which may be empty, and have
// the names of their Go types.
//
// Integers of up to 32 bits are int, others long; [n]byte is a fixed; time.Time
// is timestamp-micros and time.Duration time-micros; a pointer is a union of
// null and its element, with null as the default of a field; types that write
// themselves as text are strings. The avro tag of a field, after its name, takes
// options, separated by commas: a logical type such as date, timestamp-millis,
// uuid or decimal(10,2); alias=NAME, any number of times; and last default=JSON.
//
// Interfaces, big.Rat without decimal(precision,scale), and types that no Avro
// type can hold are errors.
func SchemaFor[T any](namespace string) (string, error) {
	k := schemaInference{namespace: namespace, names: make(map[string]namedType), open: make(map[reflect.Type]bool)}
	text, err := k.schema(reflect.TypeFor[T](), "", fieldTag{})
	if err != nil {
		return "", err
	}
	if _, err := avroplan.Parse(text); err != nil {
		return "", fmt.Errorf("invalid Avro schema: %w", err)
	}
	return text, nil
}

// schemaInference derives one schema from Go types.
type schemaInference struct {
	namespace string
	names     map[string]namedType  // that are defined
	open      map[reflect.Type]bool // slices, maps and pointers around the type in hand, up to a record
}

// namedType is a definition of a named type.
type namedType struct {
	typ        reflect.Type
	definition string
}

// fieldTag holds the options of an avro tag.
type fieldTag struct {
	logical  string // name of a logical type
	decimal  string // its parameters, as JSON members
	aliases  []string
	value    string // default as JSON
	hasValue bool
}

func parseFieldTag(options string) (fieldTag, error) {
	var tag fieldTag
	for options != "" {
		if value, ok := strings.CutPrefix(options, "default="); ok {
			if !json.Valid([]byte(value)) {
				return tag, fmt.Errorf("default %q is not JSON", value)
			}
			tag.value, tag.hasValue = value, true
			return tag, nil
		}
		var option string
		if strings.HasPrefix(options, "decimal(") {
			end := strings.IndexByte(options, ')')
			if end < 0 {
				return tag, fmt.Errorf("unknown option %q", options)
			}
			option, options = options[:end+1], strings.TrimPrefix(options[end+1:], ",")
			var precision, scale int
			if n, err := fmt.Sscanf(option, "decimal(%d,%d)", &precision, &scale); n != 2 || err != nil {
				return tag, fmt.Errorf("unknown option %q", option)
			}
			tag.logical, tag.decimal = "decimal", fmt.Sprintf(`,"precision":%d,"scale":%d`, precision, scale)
			continue
		}
		option, options, _ = strings.Cut(options, ",")
		switch alias, isAlias := strings.CutPrefix(option, "alias="); {
		case isAlias:
			tag.aliases = append(tag.aliases, alias)
		case isLogicalName(option):
			tag.logical = option
		case option != "omitempty" && option != "omitzero":
			return tag, fmt.Errorf("unknown option %q", option)
		}
	}
	return tag, nil
}

func isLogicalName(name string) bool {
	for l := avroplan.UUID; l <= avroplan.Duration; l++ {
		if l.String() == name {
			return true
		}
	}
	return false
}

// schema returns the schema of a type. The field is the name for a type that
// has none of its own.
func (k *schemaInference) schema(t reflect.Type, field string, tag fieldTag) (string, error) {
	primitive := func(kind avroplan.Kind, logical string) (string, error) {
		if tag.logical != "" {
			logical = tag.logical
		}
		if logical == "" {
			return strconv.Quote(kind.String()), nil
		}
		return fmt.Sprintf(`{"type":"%s","logicalType":"%s"%s}`, kind, logical, tag.decimal), nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if k.open[t] {
			return "", fmt.Errorf("type %v contains itself without a record between", t)
		}
		k.open[t] = true
		defer delete(k.open, t)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		element, err := k.schema(t.Elem(), field, tag)
		return `["null",` + element + `]`, err
	case t == timeType && (tag.logical == "date"):
		return primitive(avroplan.Int, "")
	case t == timeType && (tag.logical == "" || strings.Contains(tag.logical, "timestamp-")):
		return primitive(avroplan.Long, "timestamp-micros")
	case t == durationType && tag.logical == "time-millis":
		return primitive(avroplan.Int, "")
	case t == durationType && (tag.logical == "" || tag.logical == "time-micros"):
		return primitive(avroplan.Long, "time-micros")
	case t == ratType && tag.logical == "decimal", isByteSlice(t):
		return primitive(avroplan.Bytes, "")
	case t == ratType, t == timeType, t == durationType:
		return "", fmt.Errorf("type %v needs another logical type than %q", t, tag.logical)
	case t == calendarType:
		return k.define(t, "Duration", `{"type":"fixed","name":%q,"size":12,"logicalType":"duration"}`)
	case reflect.PointerTo(t).Implements(textUnmarshalerType) && reflect.PointerTo(t).Implements(textMarshalerType):
		return primitive(avroplan.String, "")
	case isByteArray(t):
		return k.fixed(t, field, tag)
	}
	switch t.Kind() {
	case reflect.Bool:
		return primitive(avroplan.Boolean, "")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return primitive(avroplan.Int, "")
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return primitive(avroplan.Long, "")
	case reflect.Float32:
		return primitive(avroplan.Float, "")
	case reflect.Float64:
		return primitive(avroplan.Double, "")
	case reflect.String:
		return primitive(avroplan.String, "")
	case reflect.Slice:
		items, err := k.schema(t.Elem(), field, tag)
		return `{"type":"array","items":` + items + `}`, err
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			values, err := k.schema(t.Elem(), field, tag)
			return `{"type":"map","values":` + values + `}`, err
		}
	case reflect.Struct:
		return k.record(t)
	}
	return "", fmt.Errorf("type %v has no Avro schema", t)
}

// define returns the definition of a named type, or its name if it is defined.
// The format takes the full name.
func (k *schemaInference) define(t reflect.Type, name, format string) (string, error) {
	full := name
	if k.namespace != "" {
		full = k.namespace + "." + name
	}
	definition := fmt.Sprintf(format, full)
	switch old, ok := k.names[full]; {
	case ok && old.typ != t:
		return "", fmt.Errorf("types %v and %v are both named %s", old.typ, t, full)
	case ok && old.definition != definition:
		return "", fmt.Errorf("type %v has two logical types: %s and %s", t, old.definition, definition)
	case ok:
		return strconv.Quote(full), nil
	}
	k.names[full] = namedType{t, definition}
	return definition, nil
}

func (k *schemaInference) fixed(t reflect.Type, field string, tag fieldTag) (string, error) {
	name := t.Name()
	if name == "" {
		if name = field; name == "" {
			return "", fmt.Errorf("type %v has no name for an Avro fixed", t)
		}
	}
	logical := ""
	if tag.logical != "" {
		logical = fmt.Sprintf(`,"logicalType":"%s"%s`, tag.logical, tag.decimal)
	}
	return k.define(t, name, `{"type":"fixed","name":%q,"size":`+strconv.Itoa(t.Len())+logical+`}`)
}

func (k *schemaInference) record(t reflect.Type) (string, error) {
	if t.Name() == "" {
		return "", fmt.Errorf("type %v has no name for an Avro record", t)
	}
	head, err := k.define(t, t.Name(), `{"type":"record","name":%q,"fields":[`)
	if err != nil || !strings.HasPrefix(head, "{") {
		return head, err
	}
	outer := k.open
	k.open = make(map[reflect.Type]bool)
	defer func() { k.open = outer }()
	fields, err := goFields(t)
	if err != nil {
		return "", err
	}
	parts := make([]string, 0, len(fields))
	for _, f := range orderedFields(fields) {
		part, err := k.field(t, f)
		if err != nil {
			return "", inField(f.name, err)
		}
		parts = append(parts, part)
	}
	return head + strings.Join(parts, ",") + `]}`, nil
}

func (k *schemaInference) field(record reflect.Type, f goField) (string, error) {
	tag, err := parseFieldTag(f.options)
	if err != nil {
		return "", err
	}
	typ, err := k.schema(f.typ, record.Name()+"_"+f.name, tag)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf(`{"name":%q,"type":%s`, f.name, typ)
	if tag.aliases != nil {
		text += `,"aliases":["` + strings.Join(tag.aliases, `","`) + `"]`
	}
	if f.typ.Kind() == reflect.Pointer && !tag.hasValue {
		tag.value, tag.hasValue = "null", true
	}
	if tag.hasValue {
		text += `,"default":` + tag.value
	}
	return text + "}", nil
}
