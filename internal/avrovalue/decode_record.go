// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"reflect"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// structDecoder reads records into structs of one type.
type structDecoder struct {
	fields   []structField
	defaults []structField
	empty    int // as in avroplan.Node
}

// structField reads one field of a record. Without decode it passes over a
// field that the struct or the reader's schema lacks.
type structField struct {
	decode decodeFunc
	place  fieldPlace
	name   string
	skip   *avroplan.Schema
}

// structure compiles a record. Fields that the struct lacks are passed over.
func (k *decodeCompiler) structure(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	key := structKey{n, t}
	if d, ok := k.structs[key]; ok {
		return d.decode, nil
	}
	d := &structDecoder{empty: n.Empty}
	k.structs[key] = d
	targets, err := goFields(t)
	if err != nil {
		return nil, err
	}
	for _, step := range n.Steps {
		f := structField{name: step.Writer.Name, skip: step.Writer.Type}
		if step.Node != nil {
			f.name = n.Schema.Fields[step.Field].Name
			if target, ok := targets[f.name]; ok {
				f.place = target.place
				if f.decode, err = k.value(step.Node, target.typ); err != nil {
					return nil, inField(f.name, err)
				}
			}
		}
		d.fields = append(d.fields, f)
	}
	for _, def := range n.Defaults {
		name := n.Schema.Fields[def.Field].Name
		if target, ok := targets[name]; ok {
			decode, err := k.fieldDefault(def, target.typ)
			if err != nil {
				return nil, inField(name, err)
			}
			d.defaults = append(d.defaults, structField{name: name, place: target.place, decode: decode})
		}
	}
	return d.decode, nil
}

func (d *structDecoder) decode(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
	if err := enterRecord(c, d.empty); err != nil {
		return err
	}
	for i := range d.fields {
		f := &d.fields[i]
		var err *avroplan.DatumError
		if f.decode != nil {
			err = f.decode(c, f.place.make(p))
		} else {
			err = c.Skip(f.skip)
		}
		if err != nil {
			return err.In(f.name)
		}
	}
	for i := range d.defaults {
		f := &d.defaults[i]
		if err := f.decode(c, f.place.make(p)); err != nil {
			return err.In(f.name)
		}
	}
	c.Leave()
	return nil
}

// enterRecord counts a record with so many fields of no bytes. [avroplan.Cursor.Leave]
// takes its level back.
func enterRecord(c *avroplan.Cursor, empty int) *avroplan.DatumError {
	if empty > 0 {
		if err := c.Empty(empty); err != nil {
			return err
		}
	}
	return c.Enter()
}

// fieldDefault returns what gives a struct field its default. A value that
// holds no memory of its own beyond strings is made once and copied.
func (k *decodeCompiler) fieldDefault(d avroplan.Default, t reflect.Type) (decodeFunc, error) {
	decode, err := k.value(d.Node, t)
	if err != nil {
		return nil, err
	}
	fromData := func(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		datum, err := c.EnterDefault(d.Data)
		if err != nil {
			return err
		}
		return c.LeaveDefault(datum, decode(c, p))
	}
	if !isPlainKind(t.Kind()) {
		return fromData, nil
	}
	value := reflect.New(t).Elem()
	if fromData(new(avroplan.Cursor), value.Addr().UnsafePointer()) != nil {
		return fromData, nil
	}
	return func(_ *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
		reflect.NewAt(t, p).Elem().Set(value)
		return nil
	}, nil
}

// isPlainKind reports whether copies of values of the kind share nothing that
// can change.
func isPlainKind(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Complex128 || kind == reflect.String
}

// recordMap compiles a record to a map with string keys.
func (k *decodeCompiler) recordMap(n *avroplan.Node, t reflect.Type) (decodeFunc, error) {
	key := structKey{n, t}
	if r, ok := k.maps[key]; ok {
		return r.decode, nil
	}
	r := &mapDecoder{typ: t, size: len(n.Schema.Fields), empty: n.Empty}
	k.maps[key] = r
	for _, step := range n.Steps {
		f := mapField{structField: structField{name: step.Writer.Name, skip: step.Writer.Type}}
		if step.Node != nil {
			f.name = n.Schema.Fields[step.Field].Name
			f.key = reflect.ValueOf(f.name).Convert(t.Key())
			var err error
			if f.decode, err = k.value(step.Node, t.Elem()); err != nil {
				return nil, inField(f.name, err)
			}
		}
		r.fields = append(r.fields, f)
	}
	for _, def := range n.Defaults {
		name := n.Schema.Fields[def.Field].Name
		decode, err := k.fieldDefault(def, t.Elem())
		if err != nil {
			return nil, inField(name, err)
		}
		r.fields = append(r.fields, mapField{
			structField: structField{name: name, decode: decode}, key: reflect.ValueOf(name).Convert(t.Key()),
		})
	}
	return r.decode, nil
}

// mapDecoder reads records into maps of one type.
type mapDecoder struct {
	typ    reflect.Type
	size   int
	fields []mapField
	empty  int // as in avroplan.Node
}

type mapField struct {
	structField
	key reflect.Value
}

func (d *mapDecoder) decode(c *avroplan.Cursor, p unsafe.Pointer) *avroplan.DatumError {
	if err := enterRecord(c, d.empty); err != nil {
		return err
	}
	record := reflect.MakeMapWithSize(d.typ, d.size)
	value := reflect.New(d.typ.Elem()).Elem()
	for i := range d.fields {
		f := &d.fields[i]
		if f.decode == nil {
			if err := c.Skip(f.skip); err != nil {
				return err.In(f.name)
			}
			continue
		}
		value.SetZero()
		if err := f.decode(c, value.Addr().UnsafePointer()); err != nil {
			return err.In(f.name)
		}
		record.SetMapIndex(f.key, value)
	}
	reflect.NewAt(d.typ, p).Elem().Set(record)
	c.Leave()
	return nil
}
