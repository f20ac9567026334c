// SPDX-License-Identifier: Apache-2.0

package avrovalue

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// generic compiles a schema for values whose Go type shows when they are
// written: those of the generic mapping directly, others by their own type.
func (k *encodeCompiler) generic(s *avroplan.Schema) (anyEncode, error) {
	other := k.byType(s)
	switch s.Kind {
	case avroplan.Null:
		return func(_ *buffer, v any) *ValueError {
			if !isNil(v) {
				return valueErrorf("type %T cannot be written as Avro null", v)
			}
			return nil
		}, nil
	case avroplan.Boolean:
		return func(w *buffer, v any) *ValueError {
			if v, ok := v.(bool); ok {
				w.data = avroplan.AppendBool(w.data, v)
				return nil
			}
			return other(w, v)
		}, nil
	case avroplan.Int, avroplan.Long:
		return genericNumber(s, other), nil
	case avroplan.Float, avroplan.Double:
		return genericFloat(s, other), nil
	case avroplan.String:
		return func(w *buffer, v any) *ValueError {
			if v, ok := v.(string); ok {
				return w.string(v)
			}
			return other(w, v)
		}, nil
	case avroplan.Enum:
		symbol := symbolWriter(s)
		return func(w *buffer, v any) *ValueError {
			if v, ok := v.(string); ok {
				return symbol(w, v)
			}
			return other(w, v)
		}, nil
	case avroplan.Bytes, avroplan.Fixed:
		return genericRaw(s, other)
	case avroplan.Array:
		return k.genericItems(s, other)
	case avroplan.Map:
		return k.genericEntries(s, other)
	case avroplan.Union:
		return k.genericUnion(s)
	default:
		e, err := k.record(s)
		if err != nil {
			return nil, err
		}
		return func(w *buffer, v any) *ValueError {
			if v, ok := v.(map[string]any); ok {
				return e.encode(w, v)
			}
			return other(w, v)
		}, nil
	}
}

// genericNumber takes numbers of JSON too: float64 without a fraction and
// json.Number.
func genericNumber(s *avroplan.Schema, other anyEncode) anyEncode {
	moment, clock := isMoment(s.Logical), isClock(s.Logical)
	return func(w *buffer, v any) *ValueError {
		switch v := v.(type) {
		case int:
			return w.integer(s, int64(v))
		case int64:
			return w.integer(s, v)
		case int32:
			w.long(int64(v))
			return nil
		case float64:
			if n := int64(v); float64(n) == v && n != math.MaxInt64 {
				return w.integer(s, n)
			}
			return valueErrorf("%v is no Avro %v", v, s.Kind)
		case json.Number:
			n, err := strconv.ParseInt(v.String(), 10, 64)
			if err != nil {
				return valueErrorf("%v is no Avro %v", v, s.Kind)
			}
			return w.integer(s, n)
		case time.Time:
			if moment {
				return w.moment(s, v)
			}
		case time.Duration:
			if clock {
				return w.clock(s, v)
			}
		}
		return other(w, v)
	}
}

func genericFloat(s *avroplan.Schema, other anyEncode) anyEncode {
	double := s.Kind == avroplan.Double
	return func(w *buffer, v any) *ValueError {
		switch v := v.(type) {
		case float64:
			if !double {
				return w.narrow(v)
			}
			w.data = avroplan.AppendDouble(w.data, v)
			return nil
		case float32:
			if double {
				w.data = avroplan.AppendDouble(w.data, float64(v))
			} else {
				w.data = avroplan.AppendFloat(w.data, v)
			}
			return nil
		case int:
			return w.whole(s, int64(v))
		case int64:
			return w.whole(s, v)
		case int32:
			return w.whole(s, int64(v))
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return valueErrorf("%v is no Avro %v", v, s.Kind)
			}
			if double {
				w.data = avroplan.AppendDouble(w.data, f)
			} else {
				w.data = avroplan.AppendFloat(w.data, float32(f))
			}
			return nil
		}
		switch value := reflect.ValueOf(v); {
		case !value.IsValid() || value.Type() == durationType:
		case value.CanInt():
			return w.whole(s, value.Int())
		case value.CanUint() && value.Uint() <= math.MaxInt64:
			return w.whole(s, int64(value.Uint()))
		case value.CanUint():
			return w.large(s, value.Uint())
		}
		return other(w, v)
	}
}

// large is whole for an integer beyond the int64.
func (w *buffer) large(s *avroplan.Schema, v uint64) *ValueError {
	f := float64(v)
	if f >= 1<<64 || uint64(f) != v {
		return valueErrorf("%d is no Avro %v", v, s.Kind)
	}
	if s.Kind == avroplan.Float {
		return w.narrow(f)
	}
	w.data = avroplan.AppendDouble(w.data, f)
	return nil
}

// whole adds an integer as a float or double, which must hold it exactly.
func (w *buffer) whole(s *avroplan.Schema, v int64) *ValueError {
	f := float64(v)
	if int64(f) != v || f >= math.MaxInt64 {
		return valueErrorf("%d is no Avro %v", v, s.Kind)
	}
	if s.Kind == avroplan.Float {
		return w.narrow(f)
	}
	w.data = avroplan.AppendDouble(w.data, f)
	return nil
}

func genericRaw(s *avroplan.Schema, other anyEncode) (anyEncode, error) {
	var decimal *decimalType
	if s.Logical == avroplan.Decimal {
		var err error
		if decimal, err = newDecimalType(s); err != nil {
			return nil, err
		}
	}
	return func(w *buffer, v any) *ValueError {
		switch v := v.(type) {
		case []byte:
			return w.bytes(s, v)
		case *big.Rat:
			if decimal != nil && v != nil {
				return w.decimal(decimal, v)
			}
		case [16]byte:
			if s.Kind == avroplan.Fixed {
				return w.bytes(s, v[:])
			}
		case Duration:
			if s.Logical == avroplan.Duration {
				w.duration(v)
				return nil
			}
		}
		return other(w, v)
	}, nil
}

func (k *encodeCompiler) genericItems(s *avroplan.Schema, other anyEncode) (anyEncode, error) {
	encode, err := k.generic(s.Items)
	if err != nil {
		return nil, err
	}
	return func(w *buffer, v any) *ValueError {
		items, ok := v.([]any)
		if !ok {
			return other(w, v)
		}
		if err := w.enter(); err != nil {
			return err
		}
		if len(items) > 0 {
			w.long(int64(len(items)))
		}
		for i, item := range items {
			if err := encode(w, item); err != nil {
				return err.at(i)
			}
		}
		w.end()
		w.leave()
		return nil
	}, nil
}

func (k *encodeCompiler) genericEntries(s *avroplan.Schema, other anyEncode) (anyEncode, error) {
	encode, err := k.generic(s.Items)
	if err != nil {
		return nil, err
	}
	return func(w *buffer, v any) *ValueError {
		entries, ok := v.(map[string]any)
		if !ok {
			return other(w, v)
		}
		if err := w.enter(); err != nil {
			return err
		}
		if len(entries) > 0 {
			w.long(int64(len(entries)))
		}
		var few [fewKeys]string
		for _, key := range appendKeys(few[:0], entries) {
			if err := w.string(key); err != nil {
				return err
			}
			if err := encode(w, entries[key]); err != nil {
				return err.under(key)
			}
		}
		w.end()
		w.leave()
		return nil
	}, nil
}

// isNil reports whether v is a nil interface or a nil pointer, slice or map.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return value.IsNil()
	}
	return false
}

// dynamicEncode is what a schema compiles to for one Go type.
type dynamicEncode struct {
	once   sync.Once
	encode encodeFunc
	err    error
}

// byType returns what writes values of other Go types than those of the generic
// mapping. It compiles the schema once for each type.
func (k *encodeCompiler) byType(s *avroplan.Schema) anyEncode {
	names, dynamic := k.names, k.dynamic
	return func(w *buffer, v any) *ValueError {
		if v == nil {
			return valueErrorf("nil cannot be written as Avro %v", s.Kind)
		}
		value := reflect.ValueOf(v)
		t := value.Type()
		pointed := t.Kind() == reflect.Pointer && !value.IsNil()
		if pointed {
			t = t.Elem()
		}
		entry, ok := dynamic.Load(encodeKey{s, t})
		if !ok {
			entry, _ = dynamic.LoadOrStore(encodeKey{s, t}, new(dynamicEncode))
		}
		d := entry.(*dynamicEncode)
		d.once.Do(func() { d.encode, d.err = newEncodeCompiler(names, dynamic).value(s, t) })
		if d.err != nil {
			return &ValueError{cause: d.err}
		}
		if pointed {
			return d.encode(w, value.UnsafePointer())
		}
		variable := reflect.New(t)
		variable.Elem().Set(value)
		return d.encode(w, variable.UnsafePointer())
	}
}
