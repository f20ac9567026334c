// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// fieldDefault returns the bytes of a record field that a value does not have:
// the field's default, otherwise null if the field can be null.
func missingField(f *avroplan.Field) ([]byte, bool) {
	if f.HasDefault {
		return f.Default, true
	}
	for i, b := range f.Type.Branches {
		if b.Kind == avroplan.Null {
			return avroplan.AppendLong(nil, int64(i)), true
		}
	}
	return nil, f.Type.Kind == avroplan.Null
}

// structEncoder writes structs of one type as records.
type structEncoder struct{ fields []structValue }

// structValue writes one field of a record: from the struct, or the bytes that
// stand for it where the struct has no such field.
type structValue struct {
	name     string
	encode   encodeFunc // nil without a field of the struct
	place    fieldPlace
	fill     []byte
	optional bool // fill stands for the field
}

func (k *encodeCompiler) structure(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	key := encodeKey{s, t}
	if e, ok := k.structs[key]; ok {
		return e.encode, nil
	}
	e := &structEncoder{}
	k.structs[key] = e
	sources, err := goFields(t)
	if err != nil {
		return nil, err
	}
	for _, f := range s.Fields {
		fill, optional := missingField(f)
		source, ok := sources[f.Name]
		if !ok {
			if !optional {
				return nil, fmt.Errorf("type %v has no field %s, which has no default", t, f.Name)
			}
			e.fields = append(e.fields, structValue{name: f.Name, fill: fill})
			continue
		}
		encode, err := k.value(f.Type, source.typ)
		if err != nil {
			return nil, inField(f.Name, err)
		}
		e.fields = append(e.fields, structValue{name: f.Name, encode: encode, place: source.place, fill: fill, optional: optional})
	}
	return e.encode, nil
}

func (e *structEncoder) encode(w *buffer, p unsafe.Pointer) *ValueError {
	if err := w.enter(); err != nil {
		return err
	}
	for i := range e.fields {
		f := &e.fields[i]
		if f.encode == nil {
			w.raw(f.fill)
			continue
		}
		field, missing := f.place.find(p)
		switch {
		case missing == nil:
			if err := f.encode(w, field); err != nil {
				return err.in(f.name)
			}
		case f.optional:
			w.raw(f.fill)
		default:
			return valueErrorf("the embedded *%v is nil, and the field has no default", missing.typ).in(f.name)
		}
	}
	w.leave()
	return nil
}

// recordEncoder writes maps as records.
type recordEncoder struct{ fields []recordValue }

type recordValue struct {
	name     string
	encode   anyEncode
	fill     []byte
	optional bool
}

// record compiles a record for the map of generic values.
func (k *encodeCompiler) record(s *avroplan.Schema) (*recordEncoder, error) {
	if e, ok := k.records[s]; ok {
		return e, nil
	}
	e := &recordEncoder{}
	k.records[s] = e
	for _, f := range s.Fields {
		encode, err := k.generic(f.Type)
		if err != nil {
			return nil, err
		}
		fill, ok := missingField(f)
		e.fields = append(e.fields, recordValue{name: f.Name, encode: encode, fill: fill, optional: ok})
	}
	return e, nil
}

// encode writes a record. Keys that are no field are ignored.
func (e *recordEncoder) encode(w *buffer, record map[string]any) *ValueError {
	if err := w.enter(); err != nil {
		return err
	}
	for i := range e.fields {
		f := &e.fields[i]
		v, ok := record[f.name]
		switch {
		case ok:
			if err := f.encode(w, v); err != nil {
				return err.in(f.name)
			}
		case f.optional:
			w.raw(f.fill)
		default:
			return valueErrorf("it is absent and has no default").in(f.name)
		}
	}
	w.leave()
	return nil
}

// recordMap compiles a record for maps with string keys.
func (k *encodeCompiler) recordMap(s *avroplan.Schema, t reflect.Type) (encodeFunc, error) {
	e, err := k.record(s)
	if err != nil {
		return nil, err
	}
	if t == genericMapType {
		return func(w *buffer, p unsafe.Pointer) *ValueError { return e.encode(w, *(*map[string]any)(p)) }, nil
	}
	return func(w *buffer, p unsafe.Pointer) *ValueError {
		entries := reflect.NewAt(t, p).Elem()
		record := make(map[string]any, entries.Len())
		for key, value := range entries.Seq2() {
			record[key.String()] = value.Interface()
		}
		return e.encode(w, record)
	}, nil
}

var genericMapType = reflect.TypeFor[map[string]any]()
