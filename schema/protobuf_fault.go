// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// libraryReason returns the text of an error of the Protobuf library in one form.
func libraryReason(err error) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
}

// dataError says that the Protobuf library refuses a body, and where the body is
// cut off, not text or nested too deeply. Faults inside groups, packed lists and
// extensions count for the field as a whole.
func dataError(m protoreflect.MessageDescriptor, body []byte, limit int, cause error) *ProtobufDataError {
	e := &ProtobufDataError{Message: string(m.FullName()), Offset: len(body), reason: libraryReason(cause), cause: cause}
	if limit == 0 {
		limit = protowire.DefaultRecursionLimit
	}
	var path avroplan.Path
	if e.locate(m, body, 0, limit, &path) {
		e.Path = path.String()
	}
	return e
}

// locate looks for the fault in the body of a message, which begins at start, and
// reports whether it is there. Messages may nest so many levels more.
func (e *ProtobufDataError) locate(m protoreflect.MessageDescriptor, body []byte, start, levels int, path *avroplan.Path) bool {
	if levels == 0 {
		e.Offset = start
		return true
	}
	elements := map[protowire.Number]int{}
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 || kind == protowire.EndGroupType {
			e.Offset = start
			return true
		}
		field := m.Fields().ByNumber(number)
		size := protowire.ConsumeFieldValue(number, kind, body[n:])
		wrong := size < 0
		if wrong {
			e.Offset, e.reason = start+n, libraryReason(protowire.ParseError(size))
		} else if field != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(body[n:])
			at := start + n + size - len(value)
			switch {
			case field.Kind() == protoreflect.MessageKind:
				wrong = e.locate(field.Message(), value, at, levels-1, path)
			case field.Kind() == protoreflect.StringKind && checksText(field) && !utf8.Valid(value):
				e.Offset, e.reason, wrong = at, notText, true
			}
		}
		if wrong {
			name := strconv.Itoa(int(number))
			if field != nil {
				name = string(field.Name())
			}
			if field != nil && field.Cardinality() == protoreflect.Repeated {
				path.At(elements[number])
			}
			path.In(name)
			return true
		}
		elements[number]++
		body, start = body[n+size:], start+n+size
	}
	return false
}

const notText = "the text is not valid UTF-8"

// valueError says that the Protobuf library refuses to write a message, and which
// field has a text that is not UTF-8 or lacks a required one.
func valueError(m protoreflect.Message, partial bool, cause error) *ProtobufValueError {
	e := &ProtobufValueError{Message: string(m.Descriptor().FullName()), reason: libraryReason(cause), cause: cause}
	look := func(values protopath.Values) error {
		last := values.Index(-1)
		wrong := false
		switch value := last.Value.Interface().(type) {
		case protoreflect.Message:
			required := value.Descriptor().RequiredNumbers()
			for i := 0; i < required.Len() && !partial; i++ {
				wrong = wrong || !value.Has(value.Descriptor().Fields().ByNumber(required.Get(i)))
			}
		case string:
			wrong = !utf8.ValidString(value) && checksText(fieldOf(values.Path))
		}
		if key, ok := last.Step.MapIndex().Interface().(string); ok {
			wrong = wrong || !utf8.ValidString(key)
		}
		if !wrong {
			return nil
		}
		e.Path = strings.TrimPrefix(values.Path[1:].String(), ".")
		return protorange.Terminate
	}
	// Messages that an Any holds are written already, and not looked into.
	_ = protorange.Options{Stable: true, Resolver: new(protoregistry.Types)}.Range(m, look, nil)
	if e.Path != "" && strings.Contains(e.reason, "UTF-8") {
		e.reason = notText
	}
	return e
}

// fieldOf returns the field that the last value of a path is in.
func fieldOf(path protopath.Path) protoreflect.FieldDescriptor {
	i := len(path) - 1
	for path[i].Kind() != protopath.FieldAccessStep {
		i--
	}
	field := path[i].FieldDescriptor()
	if field.IsMap() {
		return field.MapValue()
	}
	return field
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
