// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/binary"
	"math/big"
	"reflect"
	"unsafe"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// anyDecode reads one value in the mapping of generic Avro values.
type anyDecode func(c *avroplan.Cursor) (any, *avroplan.DatumError)

// maxMapHint bounds the size that a map is made with before its entries are
// read.
const maxMapHint = 1024

// generic compiles a node to generic values.
func (k *decodeCompiler) generic(n *avroplan.Node) (anyDecode, error) {
	switch {
	case n.Err != "":
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) { return nil, c.Fail("%s", n.Err) }, nil
	case n.Choose != nil:
		return k.genericUnion(n)
	}
	if t, ok := k.types[n.Schema.Name]; ok && n.Schema.Kind.Named() {
		return k.registered(n, t)
	}
	switch n.Schema.Kind {
	case avroplan.Null:
		return func(*avroplan.Cursor) (any, *avroplan.DatumError) { return nil, nil }, nil
	case avroplan.Boolean:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Bool()
			return v, err
		}, nil
	case avroplan.Int, avroplan.Long:
		return genericInteger(n), nil
	case avroplan.Float:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := n.ReadFloat(c)
			return v, err
		}, nil
	case avroplan.Double:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := n.ReadDouble(c)
			return v, err
		}, nil
	case avroplan.String:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.String()
			return v, err
		}, nil
	case avroplan.Bytes, avroplan.Fixed:
		return genericBytes(n)
	case avroplan.Enum:
		return genericEnum(n), nil
	case avroplan.Array:
		return k.genericArray(n)
	case avroplan.Map:
		return k.genericMap(n)
	default:
		return k.genericRecord(n)
	}
}

func genericInteger(n *avroplan.Node) anyDecode {
	logical := n.Schema.Logical
	switch {
	case isMoment(logical):
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := n.ReadLong(c)
			if err != nil {
				return nil, err
			}
			return timeOf(logical, v), nil
		}
	case isClock(logical):
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := n.ReadLong(c)
			if err != nil {
				return nil, err
			}
			d, ok := clockOf(logical, v)
			if !ok {
				return nil, c.Fail("%d exceeds a time.Duration", v)
			}
			return d, nil
		}
	case n.Schema.Kind == avroplan.Int:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Int()
			return int(v), err
		}
	case n.Plain():
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Long()
			return v, err
		}
	default:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := n.ReadLong(c)
			return v, err
		}
	}
}

func genericBytes(n *avroplan.Node) (anyDecode, error) {
	s := n.Schema
	switch {
	case s.Logical == avroplan.Decimal:
		set, err := decimalReader(s)
		if err != nil {
			return nil, err
		}
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			r := new(big.Rat)
			if err := set(c, r); err != nil {
				return nil, err
			}
			return r, nil
		}, nil
	case s.Kind == avroplan.Bytes:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Bytes()
			if err != nil {
				return nil, err
			}
			return append(make([]byte, 0, len(v)), v...), nil
		}, nil
	case s.Logical == avroplan.Duration:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Fixed(s.Size)
			if err != nil {
				return nil, err
			}
			return durationOf(v), nil
		}, nil
	case s.Size == 16:
		return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
			v, err := c.Fixed(16)
			if err != nil {
				return nil, err
			}
			return [16]byte(v), nil
		}, nil
	}
	array := reflect.ArrayOf(s.Size, reflect.TypeFor[byte]())
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		v, err := c.Fixed(s.Size)
		if err != nil {
			return nil, err
		}
		out := reflect.New(array).Elem()
		copy(unsafe.Slice((*byte)(out.Addr().UnsafePointer()), s.Size), v)
		return out.Interface(), nil
	}, nil
}

func durationOf(v []byte) Duration {
	return Duration{
		Months:       binary.LittleEndian.Uint32(v),
		Days:         binary.LittleEndian.Uint32(v[4:]),
		Milliseconds: binary.LittleEndian.Uint32(v[8:]),
	}
}

// decimalReader returns what reads a decimal into a number.
func decimalReader(s *avroplan.Schema) (func(*avroplan.Cursor, *big.Rat) *avroplan.DatumError, error) {
	decimal, err := newDecimalType(s)
	if err != nil {
		return nil, err
	}
	return func(c *avroplan.Cursor, r *big.Rat) *avroplan.DatumError {
		var data []byte
		var err *avroplan.DatumError
		if s.Kind == avroplan.Fixed {
			data, err = c.Fixed(s.Size)
		} else {
			data, err = c.Bytes()
		}
		if err != nil {
			return err
		}
		decimal.set(r, data)
		return nil
	}, nil
}

// genericEnum returns the symbols as values that are made once.
func genericEnum(n *avroplan.Node) anyDecode {
	symbols := make([]any, len(n.Schema.Symbols))
	for i, symbol := range n.Schema.Symbols {
		symbols[i] = symbol
	}
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		i, err := n.ReadSymbol(c)
		if err != nil {
			return nil, err
		}
		return symbols[i], nil
	}
}

func (k *decodeCompiler) genericArray(n *avroplan.Node) (anyDecode, error) {
	item, err := k.generic(n.Items)
	if err != nil {
		return nil, err
	}
	size := n.ItemSize
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		if err := c.Enter(); err != nil {
			return nil, err
		}
		items := []any{}
		for {
			block, err := c.Block(size)
			if err != nil {
				return nil, err
			}
			if block.Count == 0 {
				c.Leave()
				return items, nil
			}
			if cap(items) == 0 {
				items = make([]any, 0, block.Count)
			}
			for range block.Count {
				v, err := item(c)
				if err != nil {
					return nil, err.At(len(items))
				}
				items = append(items, v)
			}
		}
	}, nil
}

func (k *decodeCompiler) genericMap(n *avroplan.Node) (anyDecode, error) {
	value, err := k.generic(n.Items)
	if err != nil {
		return nil, err
	}
	size := n.ItemSize
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		if err := c.Enter(); err != nil {
			return nil, err
		}
		var entries map[string]any
		for {
			block, err := c.Block(size)
			if err != nil {
				return nil, err
			}
			if entries == nil {
				entries = make(map[string]any, min(block.Count, maxMapHint))
			}
			if block.Count == 0 {
				c.Leave()
				return entries, nil
			}
			for range block.Count {
				key, err := c.String()
				if err != nil {
					return nil, err
				}
				v, err := value(c)
				if err != nil {
					return nil, err.Under(key)
				}
				entries[key] = v
			}
		}
	}, nil
}

// genericField reads one field of a record into a map. Without decode it passes
// over a field of the writer.
type genericField struct {
	name   string
	decode anyDecode
	skip   *avroplan.Schema
}

func (k *decodeCompiler) genericRecord(n *avroplan.Node) (anyDecode, error) {
	if r, ok := k.records[n]; ok {
		return r.decode, nil
	}
	r := &genericRecord{size: len(n.Schema.Fields), empty: n.Empty}
	k.records[n] = r
	for _, step := range n.Steps {
		f := genericField{name: step.Writer.Name, skip: step.Writer.Type}
		if step.Node != nil {
			f.name = n.Schema.Fields[step.Field].Name
			var err error
			if f.decode, err = k.generic(step.Node); err != nil {
				return nil, err
			}
		}
		r.fields = append(r.fields, f)
	}
	for _, d := range n.Defaults {
		decode, err := k.genericDefault(d)
		if err != nil {
			return nil, err
		}
		r.defaults = append(r.defaults, genericField{name: n.Schema.Fields[d.Field].Name, decode: decode})
	}
	return r.decode, nil
}

type genericRecord struct {
	size     int
	fields   []genericField
	defaults []genericField
	empty    int // as in avroplan.Node
}

func (r *genericRecord) decode(c *avroplan.Cursor) (any, *avroplan.DatumError) {
	if err := enterRecord(c, r.empty); err != nil {
		return nil, err
	}
	record := make(map[string]any, r.size)
	for i := range r.fields {
		f := &r.fields[i]
		if f.decode == nil {
			if err := c.Skip(f.skip); err != nil {
				return nil, err.In(f.name)
			}
			continue
		}
		v, err := f.decode(c)
		if err != nil {
			return nil, err.In(f.name)
		}
		record[f.name] = v
	}
	for i := range r.defaults {
		f := &r.defaults[i]
		v, err := f.decode(c)
		if err != nil {
			return nil, err.In(f.name)
		}
		record[f.name] = v
	}
	c.Leave()
	return record, nil
}

// genericDefault returns what gives a field its default: one value for all
// records if nobody can change it, otherwise a new one for each.
func (k *decodeCompiler) genericDefault(d avroplan.Default) (anyDecode, error) {
	decode, err := k.generic(d.Node)
	if err != nil {
		return nil, err
	}
	fromData := func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		datum, err := c.EnterDefault(d.Data)
		if err != nil {
			return nil, err
		}
		v, err := decode(c)
		return v, c.LeaveDefault(datum, err)
	}
	if k.tagged || k.types != nil || !isImmutable(d.Node) {
		return fromData, nil
	}
	v, datumError := fromData(new(avroplan.Cursor))
	if datumError != nil {
		return fromData, nil
	}
	return func(*avroplan.Cursor) (any, *avroplan.DatumError) { return v, nil }, nil
}

// isImmutable reports whether the values that a node of a default gives can be
// shared.
func isImmutable(n *avroplan.Node) bool {
	if n.Choose != nil {
		for _, b := range n.Choose.Branches {
			if !isImmutable(b.Node) {
				return false
			}
		}
		return true
	}
	switch n.Schema.Kind {
	case avroplan.Bytes, avroplan.Array, avroplan.Map, avroplan.Record:
		return false
	}
	return n.Schema.Logical != avroplan.Decimal
}

// genericUnion compiles a union on either side. Values come out bare, or, with
// tagged set and more than one branch beside null, as a map from the branch's
// name to the value.
func (k *decodeCompiler) genericUnion(n *avroplan.Node) (anyDecode, error) {
	branches := make([]anyDecode, len(n.Choose.Branches))
	tagged := k.tagged && n.Schema.Kind == avroplan.Union && n.Schema.Values() > 1
	for i, b := range n.Choose.Branches {
		decode, err := k.generic(b.Node)
		if err != nil {
			return nil, err
		}
		if tagged && b.Reader >= 0 && b.Node.Schema.Kind != avroplan.Null {
			decode = taggedValue(n.Schema.Branches[b.Reader].BranchName(), decode)
		}
		branches[i] = decode
	}
	if !n.Choose.Indexed {
		return branches[0], nil
	}
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		i, err := c.Index(len(branches))
		if err != nil {
			return nil, err
		}
		return branches[i](c)
	}, nil
}

func taggedValue(name string, decode anyDecode) anyDecode {
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		v, err := decode(c)
		if err != nil {
			return nil, err
		}
		return map[string]any{name: v}, nil
	}
}

// registered compiles a named type that has a Go type of its own. The values
// are of that type, or pointers to it if it was given as a pointer.
func (k *decodeCompiler) registered(n *avroplan.Node, t reflect.Type) (anyDecode, error) {
	element := t
	if t.Kind() == reflect.Pointer {
		element = t.Elem()
	}
	decode, err := k.value(n, element)
	if err != nil {
		return nil, err
	}
	return func(c *avroplan.Cursor) (any, *avroplan.DatumError) {
		v := reflect.New(element)
		if err := decode(c, v.UnsafePointer()); err != nil {
			return nil, err
		}
		if t != element {
			return v.Interface(), nil
		}
		return v.Elem().Interface(), nil
	}, nil
}
