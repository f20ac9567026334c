// SPDX-License-Identifier: Apache-2.0

package protoplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The reference reads a message with the Protobuf library and appends it to
// Arrow builders by reflection. It shares no code with the plan but for the Arrow
// fields, which the golden tests pin.

// errLibrary says that the library panics, as it does for a second key of another
// wire type in the entry of a map.
var errLibrary = errors.New("the library fails")

// readReference reads a body with the Protobuf library.
func readReference(m protoreflect.MessageDescriptor, body []byte) (message protoreflect.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errLibrary, p)
		}
	}()
	d := dynamicpb.NewMessage(m)
	return d, proto.Unmarshal(body, d)
}

func appendReference(b array.Builder, column arrow.Field, f protoreflect.FieldDescriptor, m protoreflect.Message) error {
	switch {
	case f.IsMap():
		mb := b.(*array.MapBuilder)
		mb.Append(true)
		for _, key := range mapKeys(m, f) {
			if err := appendReferenceValue(mb.KeyBuilder(), column.Type.(*arrow.MapType).KeyField(), f.MapKey(), key.Value()); err != nil {
				return err
			}
			if err := appendReferenceValue(mb.ItemBuilder(), column.Type.(*arrow.MapType).ItemField(), f.MapValue(), m.Get(f).Map().Get(key)); err != nil {
				return err
			}
		}
	case f.IsList():
		lb := b.(*array.ListBuilder)
		lb.Append(true)
		for i := range m.Get(f).List().Len() {
			if err := appendReferenceValue(lb.ValueBuilder(), column.Type.(*arrow.ListType).ElemField(), f, m.Get(f).List().Get(i)); err != nil {
				return err
			}
		}
	case f.HasPresence() && !m.Has(f):
		b.AppendNull()
	default:
		return appendReferenceValue(b, column, f, m.Get(f))
	}
	return nil
}

func appendReferenceValue(b array.Builder, column arrow.Field, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch b := b.(type) {
	case *array.Float64Builder:
		b.Append(unwrapped(f, v).Float())
	case *array.Float32Builder:
		b.Append(float32(unwrapped(f, v).Float()))
	case *array.Int32Builder:
		b.Append(int32(unwrapped(f, v).Int()))
	case *array.Int64Builder:
		switch n := unwrapped(f, v).Interface().(type) {
		case uint32:
			b.Append(int64(n))
		case int64:
			b.Append(n)
		default:
			return fmt.Errorf("%T for %s", n, f.FullName())
		}
	case *array.Uint64Builder:
		b.Append(unwrapped(f, v).Uint())
	case *array.BooleanBuilder:
		b.Append(unwrapped(f, v).Bool())
	case *array.BinaryBuilder:
		b.Append(unwrapped(f, v).Bytes())
	case *array.StringBuilder:
		return appendReferenceText(b, column, f, v)
	case *array.TimestampBuilder:
		fields := v.Message().Descriptor().Fields()
		seconds, nanos := v.Message().Get(fields.ByNumber(1)).Int(), v.Message().Get(fields.ByNumber(2)).Int()
		if limit := int64(math.MaxInt64 / 1_000_000); seconds > limit || seconds < -limit {
			return fmt.Errorf("timestamp %d", seconds)
		}
		b.Append(arrow.Timestamp(seconds*1e6 + nanos/1000))
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			inner := column.Type.(*arrow.StructType).Field(i)
			if err := appendReference(b.FieldBuilder(i), inner, v.Message().Descriptor().Fields().Get(i), v.Message()); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no reference for %T", b)
	}
	return nil
}

func unwrapped(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	if f.Message() == nil {
		return v
	}
	m := v.Message()
	return m.Get(m.Descriptor().Fields().ByNumber(1))
}

func appendReferenceText(b *array.StringBuilder, column arrow.Field, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	if _, ok := column.Metadata.GetValue(KeyJSON); ok {
		loose, err := protojson.Marshal(v.Message().Interface())
		if err != nil {
			return err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, loose); err != nil {
			return err
		}
		b.Append(compact.String())
		return nil
	}
	if f.Kind() != protoreflect.EnumKind {
		b.Append(unwrapped(f, v).String())
		return nil
	}
	if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
		b.Append(string(value.Name()))
	} else {
		b.Append(strconv.Itoa(int(v.Enum())))
	}
	return nil
}

// mapKeys returns the keys of a map, in any order.
func mapKeys(m protoreflect.Message, f protoreflect.FieldDescriptor) []protoreflect.MapKey {
	var keys []protoreflect.MapKey
	m.Get(f).Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	return keys
}
