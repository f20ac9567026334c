// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// goField is a field of a Go struct that stands for a field of a record.
type goField struct {
	name    string
	options string // of the tag, behind the name
	typ     reflect.Type
	place   fieldPlace
}

// fieldPlace is where a field is: at an offset in the struct, or in the struct
// behind the last one of several embedded pointers.
type fieldPlace struct {
	hops   []embeddedHop
	offset uintptr
}

// embeddedHop is an embedded pointer on the way to a field.
type embeddedHop struct {
	offset uintptr
	typ    reflect.Type // that it points to
}

// find returns the address of the field in the struct at p, or nil and the
// pointer that is nil.
func (f *fieldPlace) find(p unsafe.Pointer) (unsafe.Pointer, *embeddedHop) {
	if f.hops != nil {
		return f.behindPointers(p)
	}
	return unsafe.Add(p, f.offset), nil
}

func (f *fieldPlace) behindPointers(p unsafe.Pointer) (unsafe.Pointer, *embeddedHop) {
	for i := range f.hops {
		if p = *(*unsafe.Pointer)(unsafe.Add(p, f.hops[i].offset)); p == nil {
			return nil, &f.hops[i]
		}
	}
	return unsafe.Add(p, f.offset), nil
}

// make is find that sets pointers which are nil to new values.
func (f *fieldPlace) make(p unsafe.Pointer) unsafe.Pointer {
	if f.hops != nil {
		return f.setPointers(p)
	}
	return unsafe.Add(p, f.offset)
}

func (f *fieldPlace) setPointers(p unsafe.Pointer) unsafe.Pointer {
	for i := range f.hops {
		pointer := (*unsafe.Pointer)(unsafe.Add(p, f.hops[i].offset))
		if *pointer == nil {
			*pointer = reflect.New(f.hops[i].typ).UnsafePointer()
		}
		p = *pointer
	}
	return unsafe.Add(p, f.offset)
}

// compare orders places as the struct has them.
func (f *fieldPlace) compare(g *fieldPlace) int {
	for i := range min(len(f.hops), len(g.hops)) {
		if c := cmp.Compare(f.hops[i].offset, g.hops[i].offset); c != 0 {
			return c
		}
	}
	at := func(f *fieldPlace, i int) uintptr {
		if i < len(f.hops) {
			return f.hops[i].offset
		}
		return f.offset
	}
	i := min(len(f.hops), len(g.hops))
	return cmp.Compare(at(f, i), at(g, i))
}

// goFields lists the fields of a struct type by the name of the record field
// that each stands for: the avro tag, otherwise the name of the Go field. A tag
// of "-" leaves a field out, and fields of embedded structs without a tag, or of
// embedded pointers to structs, count as the struct's own. Of two fields with one name the less deeply embedded
// stands; two at the same depth are an error.
func goFields(t reflect.Type) (map[string]goField, error) {
	type level struct {
		typ   reflect.Type
		place fieldPlace // of the struct; its offset is that of the first field
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
				place := fieldPlace{l.place.hops, l.place.offset + f.Offset}
				if inner, ok := embeddedStruct(f); ok && tag == "" {
					if !visited[inner] {
						visited[inner] = true
						if f.Type.Kind() == reflect.Pointer {
							place = fieldPlace{hops: append(slices.Clone(place.hops), embeddedHop{place.offset, inner})}
						}
						next = append(next, level{inner, place})
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
					fields[tag] = goField{tag, options, f.Type, place}
				}
			}
		}
		current = next
	}
	return fields, nil
}

// embeddedStruct returns the struct type that a field embeds, directly or by a
// pointer.
func embeddedStruct(f reflect.StructField) (reflect.Type, bool) {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, f.Anonymous && t.Kind() == reflect.Struct && !isScalarStruct(t)
}

// orderedFields returns the fields in the order in which the struct has them.
// Fields without a size share an offset with the next one.
func orderedFields(fields map[string]goField) []goField {
	return slices.SortedFunc(maps.Values(fields), func(a, b goField) int {
		return cmp.Or(a.place.compare(&b.place), cmp.Compare(a.name, b.name))
	})
}

// inField adds the name of a record's field to an error about the Go type.
func inField(name string, err error) error { return fmt.Errorf("field %s: %w", name, err) }
