// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// unionEncoder writes values of one union, choosing the branch by the value.
type unionEncoder struct {
	schema *avroplan.Schema
	null   int // index of the null branch, or -1
	sole   int // index of the only other branch, or -1
	encode []anyEncode
	names  map[reflect.Type]string
}

func (k *encodeCompiler) genericUnion(s *avroplan.Schema) (anyEncode, error) {
	u := &unionEncoder{schema: s, null: -1, sole: -1, names: k.names}
	others := 0
	for i, b := range s.Branches {
		encode, err := k.generic(b)
		if err != nil {
			return nil, err
		}
		u.encode = append(u.encode, encode)
		if b.Kind == avroplan.Null {
			u.null = i
			continue
		}
		others++
		u.sole = i
	}
	if others != 1 {
		u.sole = -1
	}
	return u.write, nil
}

func (u *unionEncoder) write(w *buffer, v any) *ValueError {
	if v == nil || u.null >= 0 && isNil(v) {
		if u.null < 0 {
			return valueErrorf("nil cannot be written as an Avro union without null")
		}
		w.long(int64(u.null))
		return nil
	}
	i := -1
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for key, inner := range m {
			if i = u.named(key, inner, m); i >= 0 {
				v = inner
			}
		}
	}
	if i < 0 {
		i = u.sole
	}
	if i < 0 {
		var err *ValueError
		if i, err = u.choose(v); err != nil {
			return err
		}
	}
	w.long(int64(i))
	return u.encode[i](w, v)
}

// named returns the index of the branch that key names, for a map m of which
// key and inner are the only entry, or -1 if m is itself a value: nothing has
// the name, inner does not suit it, or m suits the only branch as it is.
func (u *unionEncoder) named(key string, inner any, m map[string]any) int {
	for i, b := range u.schema.Branches {
		if !names(key, b) || u.score(b, inner) == 0 {
			continue
		}
		if u.sole >= 0 && (b.Kind == avroplan.Map && u.score(b.Items, inner) > 0 ||
			b.Kind == avroplan.Record && u.score(b, m) > 0) {
			return -1
		}
		return i
	}
	return -1
}

// names reports whether key is the name of a branch: its full name or that of
// its kind, to which its logical type may be added.
func names(key string, b *avroplan.Schema) bool {
	name := b.BranchName()
	return key == name || b.Logical != avroplan.NoLogical && key == name+"."+b.Logical.String()
}

// choose returns the branch that suits v best, the first of several. Several
// records that suit a map are an error, because the choice would be a guess.
func (u *unionEncoder) choose(v any) (int, *ValueError) {
	best, found, records := 0, -1, 0
	for i, b := range u.schema.Branches {
		score := u.score(b, v)
		switch {
		case score > best:
			best, found, records = score, i, 1
		case score > 0 && score == best && b.Kind == avroplan.Record:
			records++
		}
	}
	switch {
	case found < 0:
		return 0, valueErrorf("type %T suits no branch of the Avro union", v)
	case records > 1 && u.schema.Branches[found].Kind == avroplan.Record:
		return 0, valueErrorf("the value suits %d records of the Avro union; "+
			"name the record by a map with its name as the only key", records)
	}
	return found, nil
}

// How well a value suits a branch. Zero is not at all.
const (
	suitsWidened   = 1 + iota // a number of another kind
	suitsOtherSize            // a number of another size, bytes for a logical type
	suits                     // the Go type of the generic mapping
	suitsByName               // a Go type that was given for the branch
)

func (u *unionEncoder) score(s *avroplan.Schema, v any) int {
	if name, ok := u.names[reflect.TypeOf(v)]; ok {
		if name == s.Name {
			return suitsByName
		}
		return 0
	}
	switch {
	case s.Kind == avroplan.Union:
		best := 0
		for _, b := range s.Branches {
			best = max(best, u.score(b, v))
		}
		return best
	case v == nil:
		return when(s.Kind == avroplan.Null, suits)
	}
	switch s.Kind {
	case avroplan.Null:
		return 0
	case avroplan.Int, avroplan.Long:
		return scoreInteger(s, v)
	case avroplan.Float, avroplan.Double:
		return scoreFloat(s, v)
	case avroplan.Bytes, avroplan.Fixed:
		return scoreBytes(s, v)
	case avroplan.Record:
		return scoreRecord(s, v)
	}
	value := concrete(v)
	switch s.Kind {
	case avroplan.Boolean:
		return when(value.Kind() == reflect.Bool, suits)
	case avroplan.String:
		if _, ok := v.(json.Number); ok {
			return suitsWidened
		}
		if value.Kind() == reflect.String {
			return suits
		}
		_, ok := v.(encoding.TextMarshaler)
		return when(ok && !value.Type().ConvertibleTo(timeType) && value.Type() != ratType, suitsOtherSize)
	case avroplan.Enum:
		return when(value.Kind() == reflect.String && slices.Contains(s.Symbols, value.String()), suits)
	case avroplan.Array:
		return when((value.Kind() == reflect.Slice || value.Kind() == reflect.Array) && !isBytes(value.Type()), suits)
	default:
		return when(isStringMap(value.Type()), suitsOtherSize)
	}
}

func when(condition bool, score int) int {
	if condition {
		return score
	}
	return 0
}

// concrete returns v without the pointers around it.
func concrete(v any) reflect.Value {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	return value
}

func isBytes(t reflect.Type) bool { return isByteSlice(t) || isByteArray(t) }

func scoreInteger(s *avroplan.Schema, v any) int {
	value := concrete(v)
	switch {
	case value.Type() == timeType:
		return when(isMoment(s.Logical), suits)
	case value.Type() == durationType:
		return when(isClock(s.Logical), suits)
	}
	var n int64
	score := suitsOtherSize
	switch {
	case value.CanInt():
		n = value.Int()
		if (s.Kind == avroplan.Long) == (value.Kind() == reflect.Int64) && s.Logical == avroplan.NoLogical {
			score = suits
		}
	case value.CanUint() && value.Uint() <= math.MaxInt64:
		n = int64(value.Uint())
	default:
		number, ok := v.(json.Number)
		parsed, err := number.Int64()
		if !ok || err != nil {
			return 0
		}
		n = parsed
	}
	return when(s.Kind == avroplan.Long || int64(int32(n)) == n, score)
}

func scoreFloat(s *avroplan.Schema, v any) int {
	value := concrete(v)
	_, number := v.(json.Number)
	switch {
	case value.Kind() == reflect.Float64:
		f := value.Float()
		if s.Kind == avroplan.Double {
			return suits
		}
		return when(float64(float32(f)) == f || f != f, suitsOtherSize)
	case value.Kind() == reflect.Float32:
		return when(s.Kind == avroplan.Float, suits) + when(s.Kind == avroplan.Double, suitsOtherSize)
	}
	integer := value.CanInt() || value.CanUint()
	return when(number || integer && value.Type() != durationType, suitsWidened)
}

func scoreBytes(s *avroplan.Schema, v any) int {
	value := concrete(v)
	t := value.Type()
	switch {
	case t == ratType:
		return when(s.Logical == avroplan.Decimal, suits)
	case t == calendarType:
		return when(s.Logical == avroplan.Duration, suits)
	case isByteArray(t):
		return when(s.Kind == avroplan.Fixed && t.Len() == s.Size, suits)
	case !isByteSlice(t):
		return 0
	case s.Kind == avroplan.Fixed:
		return when(value.Len() == s.Size, suitsOtherSize)
	case s.Logical != avroplan.NoLogical:
		return suitsOtherSize
	}
	return suits
}

// scoreRecord compares the fields of a map or struct with those of a record:
// all are fields of the record, and what the record has beyond them can be
// filled in.
func scoreRecord(s *avroplan.Schema, v any) int {
	value := concrete(v)
	var has func(name string) bool
	count := 0
	switch {
	case isStringMap(value.Type()):
		count = value.Len()
		has = func(name string) bool {
			return value.MapIndex(reflect.ValueOf(name).Convert(value.Type().Key())).IsValid()
		}
	case value.Kind() == reflect.Struct && !isScalarStruct(value.Type()):
		fields, err := goFields(value.Type())
		if err != nil {
			return 0
		}
		count = len(fields)
		has = func(name string) bool { _, ok := fields[name]; return ok }
	default:
		return 0
	}
	for _, f := range s.Fields {
		if has(f.Name) {
			count--
		} else if _, ok := missingField(f); !ok {
			return 0
		}
	}
	return when(count == 0, suits)
}
