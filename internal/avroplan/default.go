// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"fmt"
	"math"
	"strconv"
)

// MaxDefaultBytes bounds the Avro binary of all defaults of one schema text:
// records whose defaults are left out take the defaults of their own fields,
// which can multiply.
const MaxDefaultBytes = 16 << 20

// pendingDefault is the default of a field while its schema is parsed. It is
// encoded once all types are complete, because a default can name fields of
// types that are declared around it.
type pendingDefault struct {
	field *Field
	value *jsonValue
	path  string
	state encodeState
}

type encodeState uint8

const (
	notEncoded encodeState = iota
	encoding
	encoded
)

// encodeDefaults fills in the Default of every field that has one. With strict
// false, a field whose default does not fit its type has none.
func (p *parser) encodeDefaults(strict bool) error {
	e := defaultEncoder{pending: make(map[*Field]*pendingDefault, len(p.defaults))}
	for _, d := range p.defaults {
		e.pending[d.field] = d
	}
	for _, d := range p.defaults {
		if err := e.field(d); err != nil {
			if strict {
				return fail(d.path, "invalid default: %v", err)
			}
			d.field.HasDefault, d.field.Default, d.state = false, nil, encoded
		}
	}
	return nil
}

type defaultEncoder struct {
	pending map[*Field]*pendingDefault
	total   int
}

func (e *defaultEncoder) field(d *pendingDefault) error {
	switch d.state {
	case encoded:
		return nil
	case encoding:
		return fmt.Errorf("it contains itself")
	}
	d.state = encoding
	data, err := e.append(nil, d.field.Type, d.value)
	if err != nil {
		d.state = notEncoded
		return err
	}
	d.field.Default, d.state = data, encoded
	return nil
}

// append adds the Avro binary of the JSON value v of type s to dst.
func (e *defaultEncoder) append(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	before := len(dst)
	dst, err := e.value(dst, s, v)
	if err != nil {
		return nil, err
	}
	if !s.Kind.container() {
		if e.total += len(dst) - before; e.total > MaxDefaultBytes {
			return nil, fmt.Errorf("defaults exceed %d bytes", MaxDefaultBytes)
		}
	}
	return dst, nil
}

// container reports whether data of the kind consist of other data.
func (k Kind) container() bool { return k >= Array }

func (e *defaultEncoder) value(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	mismatch := func() ([]byte, error) { return nil, fmt.Errorf("a JSON %s is no %s", v.kind, s.describe()) }
	switch s.Kind {
	case Null:
		if v.kind != jsonNull {
			return mismatch()
		}
		return dst, nil
	case Boolean:
		if v.kind != jsonTrue && v.kind != jsonFalse {
			return mismatch()
		}
		return AppendBool(dst, v.kind == jsonTrue), nil
	case Int, Long:
		if v.kind != jsonNumber {
			return mismatch()
		}
		bits := 64
		if s.Kind == Int {
			bits = 32
		}
		n, err := strconv.ParseInt(v.text, 10, bits)
		if err != nil {
			return nil, fmt.Errorf("%s is no %s", v.text, s.Kind)
		}
		return AppendLong(dst, n), nil
	case Float, Double:
		return appendFloatDefault(dst, s, v)
	case String:
		if v.kind != jsonString {
			return mismatch()
		}
		return AppendString(dst, v.text), nil
	case Bytes, Fixed:
		if v.kind != jsonString {
			return mismatch()
		}
		return appendByteDefault(dst, s, v.text)
	case Enum:
		for i, symbol := range s.Symbols {
			if v.kind == jsonString && symbol == v.text {
				return AppendLong(dst, int64(i)), nil
			}
		}
		return nil, fmt.Errorf("it is no symbol of %s", s.describe())
	case Array:
		if v.kind != jsonArray {
			return mismatch()
		}
		return e.items(dst, s, v)
	case Map:
		if v.kind != jsonObject {
			return mismatch()
		}
		return e.entries(dst, s, v)
	case Record:
		if v.kind != jsonObject {
			return mismatch()
		}
		return e.record(dst, s, v)
	}
	return e.union(dst, s, v)
}

func appendFloatDefault(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	bits := 64
	if s.Kind == Float {
		bits = 32
	}
	var x float64
	switch {
	case v.kind == jsonNumber:
		var err error
		if x, err = strconv.ParseFloat(v.text, bits); err != nil {
			return nil, fmt.Errorf("%s is no %s", v.text, s.Kind)
		}
	case v.kind == jsonString && v.text == "NaN":
		x = math.NaN()
	case v.kind == jsonString && v.text == "Infinity":
		x = math.Inf(1)
	case v.kind == jsonString && v.text == "-Infinity":
		x = math.Inf(-1)
	default:
		return nil, fmt.Errorf("a JSON %s is no %s", v.kind, s.Kind)
	}
	if s.Kind == Float {
		return AppendFloat(dst, float32(x)), nil
	}
	return AppendDouble(dst, x), nil
}

// appendByteDefault adds the bytes that text stands for, one a code point.
func appendByteDefault(dst []byte, s *Schema, text string) ([]byte, error) {
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		if r > math.MaxUint8 {
			return nil, fmt.Errorf("code point %U is no byte", r)
		}
		raw = append(raw, byte(r))
	}
	if s.Kind == Bytes {
		return AppendBytes(dst, raw), nil
	}
	if len(raw) != s.Size {
		return nil, fmt.Errorf("it has %d bytes instead of the %d of %s", len(raw), s.Size, s.describe())
	}
	return append(dst, raw...), nil
}

func (e *defaultEncoder) items(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	if len(v.items) > 0 {
		dst = AppendLong(dst, int64(len(v.items)))
	}
	for i := range v.items {
		var err error
		if dst, err = e.append(dst, s.Items, &v.items[i]); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return AppendLong(dst, 0), nil
}

func (e *defaultEncoder) entries(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	if len(v.members) > 0 {
		dst = AppendLong(dst, int64(len(v.members)))
	}
	for i := range v.members {
		m := &v.members[i]
		var err error
		if dst, err = e.append(AppendString(dst, m.name), s.Items, &m.value); err != nil {
			return nil, fmt.Errorf("key %q: %w", m.name, err)
		}
	}
	return AppendLong(dst, 0), nil
}

// record encodes an object as a record. Members that it leaves out take the
// default of their field.
func (e *defaultEncoder) record(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	for _, f := range s.Fields {
		if member := v.get(f.Name); member != nil {
			var err error
			if dst, err = e.append(dst, f.Type, member); err != nil {
				return nil, fmt.Errorf("field %s: %w", f.Name, err)
			}
			continue
		}
		if d := e.pending[f]; d != nil {
			if err := e.field(d); err != nil {
				return nil, fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
		if !f.HasDefault {
			return nil, fmt.Errorf("field %s is absent and has no default", f.Name)
		}
		if e.total += len(f.Default); e.total > MaxDefaultBytes {
			return nil, fmt.Errorf("defaults exceed %d bytes", MaxDefaultBytes)
		}
		dst = append(dst, f.Default...)
	}
	return dst, nil
}

// union encodes v as the first branch that can hold it.
func (e *defaultEncoder) union(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	for i, branch := range s.Branches {
		if data, err := e.append(AppendLong(dst[:len(dst):len(dst)], int64(i)), branch, v); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("a JSON %s fits no branch of %s", v.kind, s.describe())
}
