// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// goField is a field of a Go struct as encoding/json knows it.
type goField struct {
	name   string
	tagged bool // the name is that of a tag
	index  []int
	typ    reflect.Type
}

var (
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textReaderType      = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readsItself reports whether values of a type read JSON with a method.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshalerType) || p.Implements(textReaderType)
}

// goFields lists the fields of a struct type that encoding/json reads, in the
// order of the struct. Fields of embedded structs without a tag count as the
// struct's own. Of several fields with one name the least deeply embedded one
// stands, and among those the one with a tag; more than one of them hide each
// other.
func goFields(t reflect.Type) []goField {
	var all []goField
	visited := map[reflect.Type]bool{}
	for level := []goField{{typ: t}}; len(level) > 0; {
		var next []goField
		for _, outer := range level {
			for i := range outer.typ.NumField() {
				field, embedded, ok := jsonFieldOf(outer.typ.Field(i))
				field.index = append(slices.Clone(outer.index), i)
				switch {
				case !ok:
				case embedded:
					next = append(next, field)
				default:
					all = append(all, field)
				}
			}
		}
		for _, outer := range level {
			visited[outer.typ] = true
		}
		level = slices.DeleteFunc(next, func(f goField) bool { return visited[f.typ] })
	}
	slices.SortStableFunc(all, func(a, b goField) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.rank(), b.rank()))
	})
	var fields []goField
	for len(all) > 0 {
		others := slices.IndexFunc(all, func(f goField) bool { return f.name != all[0].name })
		if others < 0 {
			others = len(all)
		}
		if others == 1 || all[1].rank() > all[0].rank() {
			fields = append(fields, all[0])
		}
		all = all[others:]
	}
	slices.SortFunc(fields, func(a, b goField) int { return slices.Compare(a.index, b.index) })
	return fields
}

// rank is lower for the field that stands, of two with one name.
func (f goField) rank() int {
	if f.tagged {
		return 2 * len(f.index)
	}
	return 2*len(f.index) + 1
}

// jsonFieldOf reads the tag of one field. An embedded field stands for its own
// fields.
func jsonFieldOf(f reflect.StructField) (field goField, embedded, ok bool) {
	typ := f.Type
	if typ.Name() == "" && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !(f.Anonymous && typ.Kind() == reflect.Struct) {
		return goField{}, false, false
	}
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case isJSONTag(name):
		return goField{name: name, tagged: true, typ: typ}, false, true
	case f.Anonymous && typ.Kind() == reflect.Struct:
		return goField{typ: typ}, true, true
	default:
		return goField{name: f.Name, typ: typ}, false, true
	}
}

// isJSONTag reports whether encoding/json takes a name from a tag.
func isJSONTag(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) {
			return false
		}
	}
	return name != ""
}

// appendFolded appends a name in the form that all names have which differ from
// it by case alone.
func appendFolded(dst []byte, name string) []byte {
	for _, r := range name {
		if r < utf8.RuneSelf {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			dst = append(dst, byte(r))
			continue
		}
		// The smallest rune stands for those that fold to it.
		next := unicode.SimpleFold(r)
		for ; next > r; next = unicode.SimpleFold(r) {
			r = next
		}
		dst = utf8.AppendRune(dst, next)
	}
	return dst
}

func folded(name string) string { return string(appendFolded(nil, name)) }
