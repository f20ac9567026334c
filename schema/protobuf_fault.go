// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// defaultRecursionLimit is the Protobuf library's own.
const defaultRecursionLimit = protowire.DefaultRecursionLimit

// dataError says where a body is wrong that the Protobuf library has refused. The
// message m is what the library has made of it.
func dataError(m protoreflect.Message, body []byte, extensions extensionFinder, limit int, cause error) *ProtobufDataError {
	found := &ProtobufDataError{
		Message: string(m.Descriptor().FullName()), Offset: len(body),
		reason: libraryReason(cause), cause: cause,
	}
	if limit == 0 {
		limit = defaultRecursionLimit
	}
	f := &faultFinder{body: body, extensions: extensions, limit: limit}
	switch {
	case f.message(m.Descriptor(), new(faultScope), 0, len(body), 0, 1):
		found.Path, found.Offset, found.reason = f.path.String(), f.offset, f.reason
	case f.unset(m):
		found.Path, found.reason = f.path.String(), f.reason
	}
	return found
}

type extensionFinder interface {
	FindExtensionByNumber(message protoreflect.FullName, field protoreflect.FieldNumber) (protoreflect.ExtensionType, error)
}

// faultFinder walks through a body that is known to be wrong.
type faultFinder struct {
	body       []byte
	extensions extensionFinder
	limit      int

	path   avroplan.Path // to the fault, once it is found
	offset int
	reason string
}

// faultScope is a message that is looked at. A message that is not repeated may
// come in several parts.
type faultScope struct {
	elements map[protowire.Number]int         // of its lists, so far
	messages map[protowire.Number]*faultScope // those that are not repeated
}

// inner returns the scope of a message in a field.
func (s *faultScope) inner(field protoreflect.FieldDescriptor) *faultScope {
	if field == nil || field.Cardinality() == protoreflect.Repeated {
		return new(faultScope)
	}
	if s.messages == nil {
		s.messages = map[protowire.Number]*faultScope{}
	}
	known := s.messages[field.Number()]
	if known == nil {
		known = new(faultScope)
		s.messages[field.Number()] = known
	}
	return known
}

// element counts one more element of a list, and returns its index.
func (s *faultScope) element(list protoreflect.FieldDescriptor) int {
	if s.elements == nil {
		s.elements = map[protowire.Number]int{}
	}
	s.elements[list.Number()]++
	return s.elements[list.Number()] - 1
}

func (f *faultFinder) fail(offset int, format string, args ...any) bool {
	f.offset, f.reason = offset, fmt.Sprintf(format, args...)
	return true
}

// truncated fails for a part of the body that does not end within it.
func (f *faultFinder) truncated(at, end int, n int) bool {
	if err := protowire.ParseError(n); n != -1 {
		return f.fail(at, "%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return f.fail(at, "truncated after %d bytes", end-at)
}

// message looks at the fields from at to end, or up to the tag that ends a
// group, and reports whether it has found a fault. The place behind the group is
// in offset otherwise.
func (f *faultFinder) message(m protoreflect.MessageDescriptor, scope *faultScope, at, end int, group protowire.Number, depth int) bool {
	if depth > f.limit {
		return f.fail(at, "messages are nested more than %d deep", f.limit)
	}
	for at < end {
		number, kind, n := protowire.ConsumeTag(f.body[at:end])
		if n < 0 {
			return f.truncated(at, end, n)
		}
		if m != nil && number > protowire.MaxValidNumber {
			return f.fail(at, "invalid field number %d", number)
		}
		if kind == protowire.EndGroupType {
			if number != group {
				return f.fail(at, "a group ends that has not begun")
			}
			f.offset = at + n
			return false
		}
		field := f.field(m, number)
		if f.value(field, scope, number, kind, at+n, end, depth) {
			if m == nil || !m.IsMapEntry() || number != m.Fields().ByName("value").Number() {
				f.path.In(fieldStep(field, number))
			}
			return true
		}
		at = f.offset
	}
	f.offset = at
	if group != 0 {
		return f.fail(at, "truncated: the group does not end")
	}
	return false
}

// fieldStep is what stands for a field in a path.
func fieldStep(field protoreflect.FieldDescriptor, number protowire.Number) string {
	switch {
	case field == nil:
		return fmt.Sprint(number)
	case field.IsExtension():
		return "(" + string(field.FullName()) + ")"
	default:
		return string(field.Name())
	}
}

func (f *faultFinder) field(m protoreflect.MessageDescriptor, number protowire.Number) protoreflect.FieldDescriptor {
	if m == nil {
		return nil
	}
	if field := m.Fields().ByNumber(number); field != nil {
		return field
	}
	if !m.ExtensionRanges().Has(number) {
		return nil
	}
	extension, err := f.extensions.FindExtensionByNumber(m.FullName(), number)
	if err != nil {
		return nil
	}
	return extension.TypeDescriptor()
}

// value looks at one value and leaves the place behind it in offset.
func (f *faultFinder) value(field protoreflect.FieldDescriptor, scope *faultScope, number protowire.Number, kind protowire.Type, at, end, depth int) bool {
	index := -1
	if field != nil && field.IsList() && kind == elementType(field) {
		index = scope.element(field)
	}
	if !f.single(field, scope, number, kind, at, end, depth) {
		return false
	}
	if index >= 0 {
		f.path.At(index)
	}
	return true
}

// single is value without the place in a list.
func (f *faultFinder) single(field protoreflect.FieldDescriptor, scope *faultScope, number protowire.Number, kind protowire.Type, at, end, depth int) bool {
	switch kind {
	case protowire.StartGroupType:
		var m protoreflect.MessageDescriptor
		if field != nil && field.Kind() == protoreflect.GroupKind {
			m = field.Message()
		}
		return f.message(m, scope.inner(field), at, end, number, depth+1)
	case protowire.BytesType:
		length, n := protowire.ConsumeVarint(f.body[at:end])
		if n < 0 {
			return f.truncated(at, end, n)
		}
		if length > uint64(end-at-n) {
			return f.fail(at, "truncated: length %d exceeds the %d bytes that remain", length, end-at-n)
		}
		from, to := at+n, at+n+int(length)
		if field != nil && f.contents(field, scope, from, to, depth) {
			return true
		}
		f.offset = to
		return false
	}
	n := protowire.ConsumeFieldValue(number, kind, f.body[at:end])
	if n < 0 {
		return f.truncated(at, end, n)
	}
	f.offset = at + n
	return false
}

// contents looks into a value that has a length.
func (f *faultFinder) contents(field protoreflect.FieldDescriptor, scope *faultScope, at, end, depth int) bool {
	switch field.Kind() {
	case protoreflect.MessageKind:
		if !f.message(field.Message(), scope.inner(field), at, end, 0, depth+1) {
			return false
		}
		if field.IsMap() {
			f.underKey(field.MapKey(), at, end)
		}
		return true
	case protoreflect.StringKind:
		if checksText(field) && !utf8.Valid(f.body[at:end]) {
			return f.fail(at, "the text is not valid UTF-8")
		}
	case protoreflect.BytesKind, protoreflect.GroupKind:
	default: // packed numbers
		if !field.IsList() {
			return false
		}
		for at < end {
			index := scope.element(field)
			n := protowire.ConsumeFieldValue(field.Number(), elementType(field), f.body[at:end])
			if n < 0 {
				f.truncated(at, end, n)
				f.path.At(index)
				return true
			}
			at += n
		}
	}
	return false
}

// underKey puts the fault into the map entry from at to end, unless its key
// cannot be read.
func (f *faultFinder) underKey(key protoreflect.FieldDescriptor, at, end int) {
	value, known := key.Default(), false
	for at < end {
		number, kind, n := protowire.ConsumeTag(f.body[at:end])
		if n >= 0 {
			at += n
			n = protowire.ConsumeFieldValue(number, kind, f.body[at:end])
		}
		if n < 0 {
			if !known || number == key.Number() {
				return
			}
			break // the fault is here, behind the key
		}
		if number == key.Number() && kind == elementType(key) {
			value, known = mapKey(key.Kind(), kind, f.body[at:at+n]), true
			if kind == protowire.BytesType && checksText(key) && !utf8.ValidString(value.String()) {
				return
			}
		}
		at += n
	}
	f.under(value.MapKey())
}

// mapKey reads a key that is known to be complete.
func mapKey(kind protoreflect.Kind, wire protowire.Type, data []byte) protoreflect.Value {
	var number uint64
	switch wire {
	case protowire.BytesType:
		text, _ := protowire.ConsumeBytes(data)
		return protoreflect.ValueOfString(string(text))
	case protowire.Fixed32Type:
		fixed, _ := protowire.ConsumeFixed32(data)
		number = uint64(fixed)
	case protowire.Fixed64Type:
		number, _ = protowire.ConsumeFixed64(data)
	default:
		number, _ = protowire.ConsumeVarint(data)
	}
	switch kind {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(protowire.DecodeBool(number))
	case protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(protowire.DecodeZigZag(number & math.MaxUint32)))
	case protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(protowire.DecodeZigZag(number))
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(number))
	default:
		return protoreflect.ValueOfUint64(number)
	}
}

// under puts the fault under a key.
func (f *faultFinder) under(key protoreflect.MapKey) {
	if text, ok := key.Interface().(string); ok {
		f.path.Under(text)
		return
	}
	f.path.In("[" + key.String() + "]")
}

// valueError says where a message is wrong that the Protobuf library has refused
// to write.
func valueError(m protoreflect.Message, partial bool, cause error) *ProtobufValueError {
	f := &faultFinder{reason: libraryReason(cause)}
	if partial || !f.unset(m) {
		f.notText(m)
	}
	return &ProtobufValueError{
		Message: string(m.Descriptor().FullName()), Path: f.path.String(), reason: f.reason, cause: cause,
	}
}

// libraryReason returns the text of an error of the Protobuf library in one form.
func libraryReason(err error) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
}

// unset looks for a required field without a value in a message, and reports
// whether there is one.
func (f *faultFinder) unset(m protoreflect.Message) bool {
	required := m.Descriptor().RequiredNumbers()
	for i := range required.Len() {
		if field := m.Descriptor().Fields().ByNumber(required.Get(i)); !m.Has(field) {
			f.reason = fmt.Sprintf("required field %s not set", field.FullName())
			return true
		}
	}
	return f.inFields(m, func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		return field.Message() != nil && f.unset(value.Message())
	})
}

// notText looks for a text that is not UTF-8 in a message, and reports whether
// there is one.
func (f *faultFinder) notText(m protoreflect.Message) bool {
	return f.inFields(m, func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() != nil:
			return f.notText(value.Message())
		case field.Kind() == protoreflect.StringKind && checksText(field) && !utf8.ValidString(value.String()):
			f.reason = "the text is not valid UTF-8"
			return true
		}
		return false
	})
}

// inFields asks wrong about every single value in the fields of a message, and
// about the texts that are keys of maps. It stops at one that is.
func (f *faultFinder) inFields(m protoreflect.Message, wrong func(protoreflect.FieldDescriptor, protoreflect.Value) bool) bool {
	found := false
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			found = f.inEntries(field, value.Map(), wrong)
		case field.IsList():
			for i := 0; i < value.List().Len() && !found; i++ {
				if found = wrong(field, value.List().Get(i)); found {
					f.path.At(i)
				}
			}
		default:
			found = wrong(field, value)
		}
		if found {
			f.path.In(fieldStep(field, field.Number()))
		}
		return !found
	})
	return found
}

func (f *faultFinder) inEntries(field protoreflect.FieldDescriptor, entries protoreflect.Map, wrong func(protoreflect.FieldDescriptor, protoreflect.Value) bool) bool {
	found := false
	entries.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if found = wrong(field.MapKey(), key.Value()) || wrong(field.MapValue(), value); found {
			f.under(key)
		}
		return !found
	})
	return found
}

// checksText reports whether texts of a field have to be UTF-8.
func checksText(field protoreflect.FieldDescriptor) bool {
	if extension, ok := field.(protoreflect.ExtensionTypeDescriptor); ok {
		field = extension.Descriptor()
	}
	if explicit, ok := field.(interface{ EnforceUTF8() bool }); ok {
		return explicit.EnforceUTF8()
	}
	return field.Syntax() == protoreflect.Proto3
}

// elementType returns how one value of a field stands on the wire, where it is
// not packed with others.
func elementType(field protoreflect.FieldDescriptor) protowire.Type {
	switch field.Kind() {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

var _ extensionFinder = (*protoregistry.Types)(nil)
