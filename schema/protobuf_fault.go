// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// defaultRecursionLimit is the Protobuf library's own.
const defaultRecursionLimit = protowire.DefaultRecursionLimit

// dataError says where a body is wrong that the Protobuf library has refused.
func dataError(m protoreflect.MessageDescriptor, body []byte, extensions extensionFinder, limit int, cause error) *ProtobufDataError {
	found := &ProtobufDataError{
		Message: string(m.FullName()), Offset: len(body),
		reason: strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(cause.Error(), "\u00a0", " "), "proto: ")), cause: cause,
	}
	if limit == 0 {
		limit = defaultRecursionLimit
	}
	f := &faultFinder{body: body, extensions: extensions, limit: limit}
	if f.message(m, 0, len(body), 0, 1) {
		found.Path, found.Offset, found.reason = f.joinedPath(), f.offset, f.reason
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

	path   []string // the field that is looked at
	offset int
	reason string
}

// joinedPath returns the path with the middle of a very long one left out.
func (f *faultFinder) joinedPath() string {
	var path avroplan.Path
	for _, name := range slices.Backward(f.path) {
		path.In(name)
	}
	return path.String()
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
func (f *faultFinder) message(m protoreflect.MessageDescriptor, at, end int, group protowire.Number, depth int) bool {
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
		name := fmt.Sprint(number)
		switch {
		case field != nil && field.IsExtension():
			name = "(" + string(field.FullName()) + ")"
		case field != nil:
			name = string(field.Name())
		}
		f.path = append(f.path, name)
		if f.value(field, number, kind, at+n, end, depth) {
			return true
		}
		f.path = f.path[:len(f.path)-1]
		at = f.offset
	}
	f.offset = at
	if group != 0 {
		return f.fail(at, "truncated: the group does not end")
	}
	return false
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
func (f *faultFinder) value(field protoreflect.FieldDescriptor, number protowire.Number, kind protowire.Type, at, end, depth int) bool {
	switch kind {
	case protowire.StartGroupType:
		var m protoreflect.MessageDescriptor
		if field != nil && field.Kind() == protoreflect.GroupKind {
			m = field.Message()
		}
		return f.message(m, at, end, number, depth+1)
	case protowire.BytesType:
		length, n := protowire.ConsumeVarint(f.body[at:end])
		if n < 0 {
			return f.truncated(at, end, n)
		}
		if length > uint64(end-at-n) {
			return f.fail(at, "truncated: length %d exceeds the %d bytes that remain", length, end-at-n)
		}
		from, to := at+n, at+n+int(length)
		if field != nil && f.contents(field, from, to, depth) {
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
func (f *faultFinder) contents(field protoreflect.FieldDescriptor, at, end, depth int) bool {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return f.message(field.Message(), at, end, 0, depth+1)
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
			n := protowire.ConsumeFieldValue(field.Number(), numberType(field.Kind()), f.body[at:end])
			if n < 0 {
				return f.truncated(at, end, n)
			}
			at += n
		}
	}
	return false
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

func numberType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.VarintType
	}
}

var _ extensionFinder = (*protoregistry.Types)(nil)
