// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Parse reads an Avro schema in JSON. The named types of references, which are
// schemas that Parse has returned, can be used in the text by name. Everything
// that the Avro specification demands of a schema is checked, including that
// each default is a value of its field; what it leaves open to extension
// (unknown attributes, unknown or unfitting logical types) is ignored.
//
// Errors are of type *[ParseError].
func Parse(text string, references ...*Schema) (*Schema, error) {
	return parse(text, references, false)
}

// ParseWriter is Parse for a schema that only describes data that are already
// written, and that a registry has stored under its own rules. Whatever has no
// bearing on the data is not checked: any text that is not empty is a name; of
// repeated JSON members the last one counts; a default of a field or an enum
// that is not valid is dropped, and so are aliases that are not valid.
func ParseWriter(text string, references ...*Schema) (*Schema, error) {
	return parse(text, references, true)
}

// ParseAfter reads text with parse, which is [Parse] or [ParseWriter], after the
// texts of references in the order of their dependencies. Named returns the name
// of one reference, which an error about its text shows, and that text.
func ParseAfter[R any](parse func(string, ...*Schema) (*Schema, error), text string, references []R, named func(R) (name, text string)) (*Schema, error) {
	known := make([]*Schema, 0, len(references))
	for _, reference := range references {
		name, referenced := named(reference)
		s, err := parse(referenced, known...)
		if err != nil {
			return nil, fmt.Errorf("invalid Avro reference schema %s: %w", name, err)
		}
		known = append(known, s)
	}
	return parse(text, known...)
}

func parse(text string, references []*Schema, lenient bool) (*Schema, error) {
	value, err := parseJSON(text, lenient)
	if err != nil {
		return nil, &ParseError{Reason: err.Error()}
	}
	p := parser{lenient: lenient, names: make(map[string]*Schema), nameBytes: 1<<20 + 16*len(text)}
	measured := make(map[*Schema]bool)
	for _, ref := range references {
		var clash string
		ref.named(p.names, measured, func(name string) { clash = name })
		if clash != "" {
			return nil, &ParseError{Reason: fmt.Sprintf("references define %s twice", clash)}
		}
	}
	schema, err := p.schema(&value, "", nil)
	if err != nil {
		return nil, err
	}
	schema.measure(measured)
	if err := p.encodeDefaults(!lenient, len(text)); err != nil {
		return nil, err
	}
	return schema, nil
}

// parser holds the name table of one text.
type parser struct {
	lenient   bool // as ParseWriter
	names     map[string]*Schema
	nameBytes int // that full names may still have: a namespace is written once and is in many
	defaults  []*pendingDefault
}

func fail(path *trail, format string, args ...any) error {
	return &ParseError{Path: path.String(), Reason: fmt.Sprintf(format, args...)}
}

// schema parses v in the namespace. path names the place in messages.
func (p *parser) schema(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	switch v.kind {
	case jsonString:
		return p.reference(v.text, namespace, path)
	case jsonArray:
		return p.union(v, namespace, path)
	case jsonObject:
		return p.object(v, namespace, path)
	}
	return nil, fail(path, "a schema is a name, an array or an object, not a JSON %s", v.kind)
}

// primitive returns the kind of a primitive type's name.
func primitive(name string) (Kind, bool) {
	for k := Null; k <= String; k++ {
		if kindNames[k] == name {
			return k, true
		}
	}
	return 0, false
}

// reference returns the primitive or named type that name stands for. A name
// without a namespace is looked up in the enclosing namespace, then in none.
func (p *parser) reference(name, namespace string, path *trail) (*Schema, error) {
	if kind, ok := primitive(name); ok {
		return &Schema{Kind: kind}, nil
	}
	if !strings.Contains(name, ".") && namespace != "" {
		if s, ok := p.names[namespace+"."+name]; ok {
			return s, nil
		}
	}
	if s, ok := p.names[name]; ok {
		return s, nil
	}
	return nil, fail(path, "unknown type %q", name)
}

func (p *parser) union(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	s := &Schema{Kind: Union}
	seen := make(map[string]bool)
	for i := range v.items {
		branch, err := p.schema(&v.items[i], namespace, path)
		if err != nil {
			return nil, err
		}
		if branch.Kind == Union {
			return nil, fail(path, "branch %d of a union is itself a union", i)
		}
		name := branch.BranchName()
		if seen[name] {
			return nil, fail(path, "a union has two branches %s", name)
		}
		seen[name] = true
		s.Branches = append(s.Branches, branch)
	}
	return s, nil
}

func (p *parser) object(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	typ := v.get("type")
	if typ == nil {
		return nil, fail(path, "schema has no type")
	}
	if typ.kind != jsonString {
		return p.schema(typ, namespace, path)
	}
	switch typ.text {
	case "record", "error":
		return p.record(v, namespace, path)
	case "enum":
		return p.enum(v, namespace, path)
	case "fixed":
		return p.fixed(v, namespace, path)
	case "array":
		return p.container(v, Array, "items", namespace, path)
	case "map":
		return p.container(v, Map, "values", namespace, path)
	}
	s, err := p.reference(typ.text, namespace, path)
	if err == nil && !s.Kind.Named() {
		s.annotate(v)
	}
	return s, err
}

func (p *parser) container(v *jsonValue, kind Kind, attribute, namespace string, path *trail) (*Schema, error) {
	items := v.get(attribute)
	if items == nil {
		return nil, fail(path, "%s has no %s", kind, attribute)
	}
	element, err := p.schema(items, namespace, path.in(elementMark(kind)))
	if err != nil {
		return nil, err
	}
	return &Schema{Kind: kind, Items: element}, nil
}

// elementMark is what stands in a path for the items of an array or the values
// of a map.
func elementMark(kind Kind) string {
	if kind == Array {
		return "[]"
	}
	return "{}"
}

// define reads name, namespace and aliases of v and enters s into the table.
func (p *parser) define(s *Schema, v *jsonValue, namespace string, path *trail) error {
	name, err := textAttribute(v, "name", path)
	if err != nil {
		return err
	}
	if name == "" {
		return fail(path, "%s has no name", s.Kind)
	}
	if !strings.Contains(name, ".") {
		if given := v.get("namespace"); given != nil && given.kind != jsonNull {
			if namespace, err = textAttribute(v, "namespace", path); err != nil {
				return err
			}
		}
	} else {
		namespace = ""
	}
	full, err := p.fullName(name, namespace, path)
	if err != nil {
		return err
	}
	if !p.validFullName(full) {
		return fail(path, "invalid name %q", full)
	}
	if _, ok := primitive(full); ok {
		return fail(path, "a %s cannot be named %s", s.Kind, full)
	}
	if _, ok := p.names[full]; ok {
		return fail(path, "type %s is defined twice", full)
	}
	s.Name = full
	p.names[full] = s
	aliases, err := namesAttribute(v, "aliases", path)
	if err != nil {
		return p.unlessLenient(err)
	}
	for _, alias := range aliases {
		namespace := ""
		if !strings.Contains(alias, ".") {
			namespace = namespaceOf(full)
		}
		if alias, err = p.fullName(alias, namespace, path); err != nil {
			return err
		}
		if validFullName(alias) {
			s.Aliases = append(s.Aliases, alias)
		} else if !p.lenient {
			return fail(path, "invalid alias %q", alias)
		}
	}
	return nil
}

// unlessLenient returns an error about an attribute that has no bearing on data.
func (p *parser) unlessLenient(err error) error {
	if p.lenient {
		return nil
	}
	return err
}

func (p *parser) record(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	s := &Schema{Kind: Record}
	if err := p.define(s, v, namespace, path); err != nil {
		return nil, err
	}
	fields := v.get("fields")
	if fields == nil || fields.kind != jsonArray {
		return nil, fail(path, "record %s has no array of fields", s.Name)
	}
	names := make(map[string]bool)
	for i := range fields.items {
		f, err := p.field(s, &fields.items[i], names, path)
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, f)
	}
	owner := make(map[string]*Field)
	for _, f := range s.Fields {
		for _, alias := range f.Aliases {
			if o := owner[alias]; o != nil && o != f && !p.lenient {
				return nil, fail(join(path, s.Name, f.Name), "alias %q is also one of field %s", alias, o.Name)
			}
			owner[alias] = f
		}
	}
	return s, nil
}

// join names a field of the record that stands at path.
func join(path *trail, record, field string) *trail {
	if path == nil {
		path = path.in(record)
	}
	return path.in(field)
}

func (p *parser) field(record *Schema, v *jsonValue, names map[string]bool, path *trail) (*Field, error) {
	if v.kind != jsonObject {
		return nil, fail(path, "a field of record %s is a JSON %s", record.Name, v.kind)
	}
	name, err := textAttribute(v, "name", path)
	if err != nil {
		return nil, err
	}
	if err := checkLength(name, path); err != nil {
		return nil, err
	}
	if !p.validName(name) {
		return nil, fail(path, "invalid field name %q in record %s", name, record.Name)
	}
	if names[name] {
		return nil, fail(path, "record %s has two fields %s", record.Name, name)
	}
	names[name] = true
	f := &Field{Name: name}
	path = join(path, record.Name, name)
	if f.Aliases, err = p.fieldAliases(v, path); err != nil {
		return nil, err
	}
	typ := v.get("type")
	if typ == nil {
		return nil, fail(path, "field has no type")
	}
	if f.Type, err = p.schema(typ, namespaceOf(record.Name), path); err != nil {
		return nil, err
	}
	if value := v.get("default"); value != nil {
		f.HasDefault = true
		p.defaults = append(p.defaults, &pendingDefault{field: f, value: value, path: path})
	}
	return f, nil
}

func (p *parser) fieldAliases(v *jsonValue, path *trail) ([]string, error) {
	given, err := namesAttribute(v, "aliases", path)
	if err != nil {
		return nil, p.unlessLenient(err)
	}
	var aliases []string
	for _, alias := range given {
		if err := checkLength(alias, path); err != nil {
			return nil, err
		}
		if validName(alias) {
			aliases = append(aliases, alias)
		} else if !p.lenient {
			return nil, fail(path, "invalid alias %q", alias)
		}
	}
	return aliases, nil
}

func (p *parser) enum(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	s := &Schema{Kind: Enum, EnumDefault: -1}
	if err := p.define(s, v, namespace, path); err != nil {
		return nil, err
	}
	symbols, err := namesAttribute(v, "symbols", path)
	if err != nil {
		return nil, err
	}
	if len(symbols) == 0 {
		return nil, fail(path, "enum %s has no symbols", s.Name)
	}
	index := make(map[string]int, len(symbols))
	for i, symbol := range symbols {
		if err := checkLength(symbol, path); err != nil {
			return nil, err
		}
		if !p.validName(symbol) {
			return nil, fail(path, "invalid symbol %q in enum %s", symbol, s.Name)
		}
		if _, ok := index[symbol]; ok {
			return nil, fail(path, "enum %s has symbol %s twice", s.Name, symbol)
		}
		index[symbol] = i
	}
	s.Symbols = symbols
	if value := v.get("default"); value != nil {
		i, ok := index[value.text]
		switch {
		case value.kind == jsonString && ok:
			s.EnumDefault = i
		case !p.lenient:
			return nil, fail(path, "the default of enum %s is none of its symbols", s.Name)
		}
	}
	return s, nil
}

func (p *parser) fixed(v *jsonValue, namespace string, path *trail) (*Schema, error) {
	s := &Schema{Kind: Fixed}
	if err := p.define(s, v, namespace, path); err != nil {
		return nil, err
	}
	size := v.get("size")
	if size == nil || size.kind != jsonNumber {
		return nil, fail(path, "fixed %s has no size", s.Name)
	}
	n, err := strconv.ParseInt(size.text, 10, 32)
	if err != nil || n < 0 {
		return nil, fail(path, "fixed %s has invalid size %s", s.Name, size.text)
	}
	s.Size = int(n)
	s.annotate(v)
	return s, nil
}

// annotate sets the logical type of s, a primitive or fixed schema, from the
// attributes of v. One that does not fit s is ignored, as Avro demands.
func (s *Schema) annotate(v *jsonValue) {
	name := v.get("logicalType")
	if name == nil || name.kind != jsonString {
		return
	}
	for l := Decimal; l <= Duration; l++ {
		if logicalNames[l] == name.text && s.carries(l) && (l != Decimal || s.setDecimal(v)) {
			s.Logical = l
			return
		}
	}
}

// carries reports whether a schema of the kind and size can have the logical
// type.
func (s *Schema) carries(l Logical) bool {
	switch l {
	case Decimal:
		return s.Kind == Bytes || s.Kind == Fixed
	case BigDecimal:
		return s.Kind == Bytes
	case UUID:
		return s.Kind == String || s.Kind == Fixed && s.Size == 16
	case Date, TimeMillis:
		return s.Kind == Int
	case Duration:
		return s.Kind == Fixed && s.Size == 12
	}
	return s.Kind == Long
}

// setDecimal reads precision and scale, and reports whether they are valid for
// s: a positive precision that the size of a fixed can hold, and a scale
// between zero and the precision.
func (s *Schema) setDecimal(v *jsonValue) bool {
	precision, ok := countAttribute(v, "precision")
	if !ok || precision == 0 {
		return false
	}
	scale, ok := countAttribute(v, "scale")
	if !ok && v.get("scale") != nil || scale > precision {
		return false
	}
	if s.Kind == Fixed && precision > maxPrecision(s.Size) {
		return false
	}
	s.Precision, s.Scale = precision, scale
	return true
}

// maxPrecision returns the number of decimal digits that every two's complement
// number of size bytes can hold.
func maxPrecision(size int) int {
	if size == 0 {
		return 0
	}
	return int(math.Floor(math.Log10(2) * float64(8*size-1)))
}

// countAttribute returns the value of an attribute that is an integer from zero
// on.
func countAttribute(v *jsonValue, name string) (int, bool) {
	value := v.get(name)
	if value == nil || value.kind != jsonNumber {
		return 0, false
	}
	n, err := strconv.ParseInt(value.text, 10, 32)
	return int(n), err == nil && n >= 0
}

// textAttribute returns the value of a text attribute, empty if there is none.
func textAttribute(v *jsonValue, name string, path *trail) (string, error) {
	value := v.get(name)
	if value == nil {
		return "", nil
	}
	if value.kind != jsonString {
		return "", fail(path, "%s is a JSON %s instead of a string", name, value.kind)
	}
	return value.text, nil
}

// namesAttribute returns the value of an attribute that is an array of strings,
// nil if there is none.
func namesAttribute(v *jsonValue, name string, path *trail) ([]string, error) {
	value := v.get(name)
	if value == nil {
		return nil, nil
	}
	if value.kind != jsonArray {
		return nil, fail(path, "%s is a JSON %s instead of an array", name, value.kind)
	}
	names := make([]string, len(value.items))
	for i := range value.items {
		if value.items[i].kind != jsonString {
			return nil, fail(path, "%s holds a JSON %s instead of a string", name, value.items[i].kind)
		}
		names[i] = value.items[i].text
	}
	return names, nil
}
