// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// goField is a field of a Go struct that stands for a field of a record.
type goField struct {
	name    string
	options string // of the tag, behind the name
	typ     reflect.Type
	offset  uintptr
}

// goFields lists the fields of a struct type by the name of the record field
// that each stands for: the avro tag, otherwise the name of the Go field. A tag
// of "-" leaves a field out, and fields of embedded structs without a tag count
// as the struct's own. Of two fields with one name the less deeply embedded
// stands; two at the same depth are an error.
func goFields(t reflect.Type) (map[string]goField, error) {
	type level struct {
		typ    reflect.Type
		offset uintptr
	}
	fields := make(map[string]goField)
	visited := map[reflect.Type]bool{t: true}
	for current := []level{{typ: t}}; len(current) > 0; {
		var next []level
		found := make(map[string]bool)
		for _, l := range current {
			for i := range l.typ.NumField() {
				f := l.typ.Field(i)
				tag, options, _ := strings.Cut(f.Tag.Get("avro"), ",")
				if f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "" && !isScalarStruct(f.Type) {
					if !visited[f.Type] {
						visited[f.Type] = true
						next = append(next, level{f.Type, l.offset + f.Offset})
					}
					continue
				}
				if tag == "-" || !f.IsExported() {
					continue
				}
				if tag == "" {
					tag = f.Name
				}
				if found[tag] {
					return nil, fmt.Errorf("%v has two fields for %q", t, tag)
				}
				if _, shadowed := fields[tag]; !shadowed {
					found[tag] = true
					fields[tag] = goField{tag, options, f.Type, l.offset + f.Offset}
				}
			}
		}
		current = next
	}
	return fields, nil
}

// orderedFields returns the fields in the order in which the struct has them.
// Fields without a size share an offset with the next one.
func orderedFields(fields map[string]goField) []goField {
	return slices.SortedFunc(maps.Values(fields), func(a, b goField) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.name, b.name))
	})
}

// inField adds the name of a record's field to an error about the Go type.
func inField(name string, err error) error { return fmt.Errorf("field %s: %w", name, err) }
