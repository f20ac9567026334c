// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Members says which members of a document encoding/json would read past the
// schema into a Go type. A schema knows a member by its exact name, and
// encoding/json reads a member also into a field whose name differs by case: the
// rule of the schema for "name" does not hold for "NAME". A name counts as known
// wherever in the schema it is spelt. Nil is nothing to check.
type Members struct {
	typ      reflect.Type
	structs  map[reflect.Type]*structMembers // all that typ reaches
	known    map[string]bool                 // the names that the schema spells
	folded   map[string]string               // one of these names, by its folded form
	patterns []jsonschema.Regexp             // for the names that the schema does not spell
}

// structMembers is the fields of a struct. Those that encoding/json leaves out
// because others hide them are among them.
type structMembers struct {
	fields map[string]reflect.Type // by name
	folded map[string]string       // the name of one of them, by its folded form
}

// PlanMembers returns what to check of the documents of a schema that are read
// into a type.
func PlanMembers(t reflect.Type, schema *jsonschema.Schema) *Members {
	m := &Members{typ: t, structs: map[reflect.Type]*structMembers{}, known: map[string]bool{}, folded: map[string]string{}}
	for _, s := range reachable([]*jsonschema.Schema{schema}, inside) {
		for name := range s.Properties {
			m.spell(name)
		}
		for pattern := range s.PatternProperties {
			m.patterns = append(m.patterns, pattern)
		}
	}
	m.walk(t, map[reflect.Type]bool{})
	if len(m.structs) == 0 {
		return nil
	}
	return m
}

func (m *Members) spell(name string) {
	m.known[name] = true
	if earlier, ok := m.folded[fold(name)]; !ok || name > earlier {
		m.folded[fold(name)] = name
	}
}

func (m *Members) matches(name string) bool {
	return slices.ContainsFunc(m.patterns, func(p jsonschema.Regexp) bool { return p.MatchString(name) })
}

// walk finds the structs that a type reaches.
func (m *Members) walk(t reflect.Type, seen map[reflect.Type]bool) {
	t = pointedTo(t)
	if seen[t] || readsItself(t) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		m.walk(t.Elem(), seen)
	case reflect.Struct:
		s := &structMembers{fields: map[string]reflect.Type{}, folded: map[string]string{}}
		s.add(t, map[reflect.Type]bool{})
		m.structs[t] = s
		for name, field := range s.fields {
			if m.matches(name) {
				m.spell(name)
			}
			m.walk(field, seen)
		}
	}
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// readsItself reports whether values of a type read JSON with a method.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// add adds the fields of a struct type, and then those of the structs that it
// embeds without a tag.
func (s *structMembers) add(t reflect.Type, seen map[reflect.Type]bool) {
	seen[t] = true
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && pointedTo(f.Type).Kind() == reflect.Struct:
			embedded = append(embedded, pointedTo(f.Type))
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			if _, ok := s.fields[name]; !ok {
				s.fields[name] = f.Type
			}
			if _, ok := s.folded[fold(name)]; !ok {
				s.folded[fold(name)] = name
			}
		}
	}
	for _, e := range embedded {
		if !seen[e] {
			s.add(e, seen)
		}
	}
}

// fold returns a name in the form that all names have which differ from it by
// case alone.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r < utf8.RuneSelf {
			return r
		}
		// The smallest rune stands for those that fold to it.
		next := unicode.SimpleFold(r)
		for ; next > r; next = unicode.SimpleFold(r) {
			r = next
		}
		return next
	}, name)
}

// check appends what is wrong with the members of a document that is read into a
// type to found.
func (m *Members) check(document any, t reflect.Type, found []Violation) []Violation {
	t = pointedTo(t)
	switch value := document.(type) {
	case []any:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for i, element := range value {
				found = m.below(element, t.Elem(), strconv.Itoa(i), found)
			}
		}
	case map[string]any:
		if s := m.structs[t]; s != nil {
			return m.object(value, s, found)
		}
		if t.Kind() == reflect.Map && !readsItself(t) {
			for name, element := range value {
				found = m.below(element, t.Elem(), name, found)
			}
		}
	}
	return found
}

// below checks a member or element.
func (m *Members) below(value any, t reflect.Type, token string, found []Violation) []Violation {
	before := len(found)
	found = m.check(value, t, found)
	for i := range found[before:] {
		found[before+i].within(token)
	}
	return found
}

// object checks a document that is read into a struct.
func (m *Members) object(object map[string]any, s *structMembers, found []Violation) []Violation {
	var renamed []string // the members that are not called as their field
	for name, value := range object {
		field, exact := s.fields[name], true
		if field == nil {
			if field, exact = s.fields[s.folded[fold(name)]], false; field == nil {
				continue
			}
			renamed = append(renamed, name)
		}
		if !m.known[name] && !m.matches(name) {
			known := m.folded[fold(name)]
			if known != "" && (!exact || s.fields[known] == nil) {
				found = append(found, Violation{Pointer: pointer(name), Message: fmt.Sprintf(
					"the schema knows '%s' and not '%s', which would be read into the same field", known, name)})
				continue
			}
		}
		found = m.below(value, field, name, found)
	}
	slices.Sort(renamed)
	readers := map[string]string{} // the member that is read into a field
	for _, name := range renamed {
		field := s.folded[fold(name)]
		other, taken := readers[field]
		if _, ok := object[field]; ok && !taken {
			other, taken = field, true
		}
		if taken {
			found = append(found, Violation{Pointer: pointer(name), Message: fmt.Sprintf("'%s' and '%s' would be read into the same field", other, name)})
		} else {
			readers[field] = name
		}
	}
	return found
}
