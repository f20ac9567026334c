// SPDX-License-Identifier: Apache-2.0

package avroplan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// MaxDefaultBytes bounds the Avro binary of all defaults of one schema text:
// records whose defaults are left out take the defaults of their own fields,
// which can multiply.
const MaxDefaultBytes = 16 << 20

// MaxDefaultValues bounds the values that all defaults of one schema text stand
// for, those of records without bytes included. Each byte of the text allows for
// one more.
const MaxDefaultValues = 1 << 20

// pendingDefault is the default of a field while its schema is parsed. It is
// encoded once all types are complete, because a default can name fields of
// types that are declared around it.
type pendingDefault struct {
	field *Field
	value *jsonValue
	path  *trail
	state encodeState
}

type encodeState uint8

const (
	notEncoded encodeState = iota
	encoding
	encoded
)

// encodeDefaults fills in the Default of every field that has one. With strict
// false, a field whose default does not fit its type has none. size is that of
// the text in bytes.
func (p *parser) encodeDefaults(strict bool, size int) error {
	e := defaultEncoder{
		pending: make(map[*Field]*pendingDefault, len(p.defaults)), steps: 1<<20 + 8*size, maxValues: MaxDefaultValues + size,
	}
	e.maxSteps = e.steps
	if !strict {
		e.trials++
	}
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

// defaultEncoder encodes the defaults of one text. Which branch of a union a
// value takes is found by trying, and trying nests, so the steps are counted.
type defaultEncoder struct {
	pending map[*Field]*pendingDefault
	total   int // bytes encoded

	// values is the number of values that the defaults stand for.
	values, maxValues int

	// steps is how many of the maxSteps are left.
	steps, maxSteps int

	// spent is the error of every value from the one on that exceeds a bound.
	spent error

	// trials is the number of attempts under way whose errors nobody reads.
	trials int
}

// errTrial is the error of a value within a trial.
var errTrial = errors.New("the value does not fit")

// fail returns the formatted error, and errTrial within a trial.
func (e *defaultEncoder) fail(format string, args ...any) error {
	if e.trials > 0 {
		return errTrial
	}
	return fmt.Errorf(format, args...)
}

// mismatch returns the error of a value of another type than s.
func (e *defaultEncoder) mismatch(s *Schema, v *jsonValue) error {
	return e.fail("a JSON %s is no %s", v.kind, s.describe())
}

// in puts the error of a part into its place. That of an exceeded bound belongs
// to all of the text and stays as it is.
func (e *defaultEncoder) in(err error, format string, place any) error {
	if e.trials > 0 || e.spent != nil {
		return err
	}
	return fmt.Errorf(format+": %w", place, err)
}

// step counts one value, with a text of some length to look at.
func (e *defaultEncoder) step(length int) error {
	if e.steps -= 1 + length/16; e.steps < 0 && e.spent == nil {
		e.spent = fmt.Errorf("the defaults take more than %d steps to encode", e.maxSteps)
	}
	return e.spent
}

// grow counts bytes that are encoded.
func (e *defaultEncoder) grow(n int) error {
	if e.total += n; e.total > MaxDefaultBytes && e.spent == nil {
		e.spent = fmt.Errorf("defaults exceed %d bytes", MaxDefaultBytes)
	}
	return e.spent
}

// count counts values that defaults stand for.
func (e *defaultEncoder) count(n int) error {
	if e.values += n; e.values > e.maxValues && e.spent == nil {
		e.spent = fmt.Errorf("the defaults stand for more than %d values", e.maxValues)
	}
	return e.spent
}

func (e *defaultEncoder) field(d *pendingDefault) error {
	switch d.state {
	case encoded:
		return nil
	case encoding:
		return e.fail("it contains itself")
	}
	d.state = encoding
	before := e.values
	data, err := e.append(nil, d.field.Type, d.value)
	if err != nil {
		d.state = notEncoded
		return err
	}
	d.field.Default, d.field.defaultValues, d.state = data, e.values-before, encoded
	return nil
}

// append adds the Avro binary of the JSON value v of type s to dst. With an
// error, what it has added is of no use, but the room for it is.
func (e *defaultEncoder) append(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	if err := e.step(len(v.text)); err != nil {
		return dst, err
	}
	if err := e.count(1); err != nil {
		return dst, err
	}
	before := len(dst)
	dst, err := e.value(dst, s, v)
	if err == nil && !s.Kind.container() {
		err = e.grow(len(dst) - before)
	}
	return dst, err
}

// container reports whether data of the kind consist of other data.
func (k Kind) container() bool { return k >= Array }

func (e *defaultEncoder) value(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	switch s.Kind {
	case Null:
		if v.kind != jsonNull {
			return dst, e.mismatch(s, v)
		}
		return dst, nil
	case Boolean:
		if v.kind != jsonTrue && v.kind != jsonFalse {
			return dst, e.mismatch(s, v)
		}
		return AppendBool(dst, v.kind == jsonTrue), nil
	case Int, Long:
		if v.kind != jsonNumber {
			return dst, e.mismatch(s, v)
		}
		bits := 64
		if s.Kind == Int {
			bits = 32
		}
		n, err := strconv.ParseInt(v.text, 10, bits)
		if err != nil {
			return dst, e.fail("%s is no %s", v.text, s.Kind)
		}
		return AppendLong(dst, n), nil
	case Float, Double:
		return e.float(dst, s, v)
	case String:
		if v.kind != jsonString {
			return dst, e.mismatch(s, v)
		}
		return AppendString(dst, v.text), nil
	case Bytes, Fixed:
		if v.kind != jsonString {
			return dst, e.mismatch(s, v)
		}
		return e.bytes(dst, s, v.text)
	case Enum:
		if err := e.step(len(s.Symbols)); err != nil {
			return dst, err
		}
		for i, symbol := range s.Symbols {
			if v.kind == jsonString && symbol == v.text {
				return AppendLong(dst, int64(i)), nil
			}
		}
		return dst, e.fail("it is no symbol of %s", s.describe())
	case Array:
		if v.kind != jsonArray {
			return dst, e.mismatch(s, v)
		}
		return e.items(dst, s, v)
	case Map:
		if v.kind != jsonObject {
			return dst, e.mismatch(s, v)
		}
		return e.entries(dst, s, v)
	case Record:
		if v.kind != jsonObject {
			return dst, e.mismatch(s, v)
		}
		return e.record(dst, s, v)
	}
	return e.union(dst, s, v)
}

func (e *defaultEncoder) float(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	bits := 64
	if s.Kind == Float {
		bits = 32
	}
	var x float64
	switch {
	case v.kind == jsonNumber:
		var err error
		if x, err = strconv.ParseFloat(v.text, bits); err != nil {
			return dst, e.fail("%s is no %s", v.text, s.Kind)
		}
	case v.kind == jsonString && v.text == "NaN":
		x = math.NaN()
	case v.kind == jsonString && v.text == "Infinity":
		x = math.Inf(1)
	case v.kind == jsonString && v.text == "-Infinity":
		x = math.Inf(-1)
	default:
		return dst, e.fail("a JSON %s is no %s", v.kind, s.Kind)
	}
	if s.Kind == Float {
		return AppendFloat(dst, float32(x)), nil
	}
	return AppendDouble(dst, x), nil
}

// bytes adds the bytes that text stands for, one a code point.
func (e *defaultEncoder) bytes(dst []byte, s *Schema, text string) ([]byte, error) {
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		if r > math.MaxUint8 {
			return dst, e.fail("code point %U is no byte", r)
		}
		raw = append(raw, byte(r))
	}
	if s.Kind == Bytes {
		return AppendBytes(dst, raw), nil
	}
	if len(raw) != s.Size {
		return dst, e.fail("it has %d bytes instead of the %d of %s", len(raw), s.Size, s.describe())
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
			return dst, e.in(err, "item %d", i)
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
			return dst, e.in(err, "key %q", m.name)
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
				return dst, e.in(err, "field %s", f.Name)
			}
			continue
		}
		if d := e.pending[f]; d != nil {
			if err := e.field(d); err != nil {
				return dst, e.in(err, "field %s", f.Name)
			}
		}
		if !f.HasDefault {
			return dst, e.fail("field %s is absent and has no default", f.Name)
		}
		if err := e.step(0); err != nil {
			return dst, err
		}
		if err := e.grow(len(f.Default)); err != nil {
			return dst, err
		}
		if err := e.count(f.defaultValues); err != nil {
			return dst, err
		}
		dst = append(dst, f.Default...)
	}
	return dst, nil
}

// union encodes v as the first branch that can hold it.
func (e *defaultEncoder) union(dst []byte, s *Schema, v *jsonValue) ([]byte, error) {
	before, values := len(dst), e.values
	e.trials++
	for i, branch := range s.Branches {
		e.values = values
		var err error
		if dst, err = e.append(AppendLong(dst[:before], int64(i)), branch, v); err == nil || e.spent != nil {
			e.trials--
			return dst, err
		}
	}
	if e.trials--; e.trials > 0 {
		return dst, errTrial
	}
	return dst, fmt.Errorf("a JSON %s fits no branch of %s", v.kind, s.describe())
}
