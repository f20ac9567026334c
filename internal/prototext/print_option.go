// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// statements writes the options of a declaration, a line each.
func (p *printer) statements(d protoreflect.Descriptor) {
	for _, option := range p.optionList(d) {
		p.line("option ", option, ";")
	}
}

// brackets returns the options of a declaration in one line, in the form that
// fields, values and ranges have.
func (p *printer) brackets(options []string) string {
	if len(options) == 0 {
		return ""
	}
	return " [" + strings.Join(options, ", ") + "]"
}

// fieldOptions returns the options of a field with its default and its JSON name,
// which are written like options.
func (p *printer) fieldOptions(field protoreflect.FieldDescriptor) []string {
	var list []string
	if field.HasDefault() {
		value := ""
		if field.Enum() != nil {
			value = string(field.DefaultEnumValue().Name())
		} else {
			value = p.value(field, field.Default())
		}
		list = append(list, "default = "+value)
	}
	if !field.IsExtension() && field.JSONName() != defaultJSONName(string(field.Name())) {
		list = append(list, "json_name = "+quoteProto(field.JSONName(), true))
	}
	return append(list, p.optionList(field)...)
}

// defaultJSONName returns the JSON name of a field that states none.
func defaultJSONName(name string) string {
	camel := make([]byte, 0, len(name))
	for i := range len(name) {
		b := name[i]
		if b == '_' {
			continue
		}
		if i > 0 && name[i-1] == '_' && 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		camel = append(camel, b)
	}
	return string(camel)
}

// optionList returns the options of a declaration as "name = value".
func (p *printer) optionList(d protoreflect.Descriptor) []string {
	return p.options(d.Options(), d.FullName())
}

// options returns options by their number, repeated ones once for each element.
// The scope is where their names are looked up.
func (p *printer) options(message protoreflect.ProtoMessage, scope protoreflect.FullName) []string {
	if message == nil {
		return nil
	}
	var list []string
	options := p.resolve(message.ProtoReflect())
	for _, field := range setFields(options) {
		name := string(field.Name())
		switch {
		case field.IsExtension():
			name = p.optionName(field.FullName(), scope)
		case name == "uninterpreted_option", name == "map_entry":
			continue
		}
		value := options.Get(field)
		if !field.IsList() {
			list = append(list, name+" = "+p.value(field, value))
			continue
		}
		for i := range value.List().Len() {
			list = append(list, name+" = "+p.value(field, value.List().Get(i)))
		}
	}
	return list
}

// setFields returns the fields that a message has, by number.
func setFields(message protoreflect.Message) []protoreflect.FieldDescriptor {
	var fields []protoreflect.FieldDescriptor
	message.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, field)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	return fields
}

// resolve returns options with their extensions as the file's imports declare
// them. In a descriptor they may be of any type, or bytes that nobody has looked
// at.
func (p *printer) resolve(options protoreflect.Message) protoreflect.Message {
	custom := len(options.GetUnknown()) > 0
	options.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		custom = custom || field.IsExtension() || field.Message() != nil
		return !custom
	})
	if !custom {
		return options
	}
	data, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(options.Interface())
	if err != nil {
		return options
	}
	resolved := options.New()
	unmarshal := proto.UnmarshalOptions{AllowPartial: true, Resolver: &p.scope().extensions}
	if err := unmarshal.Unmarshal(data, resolved.Interface()); err != nil {
		return options
	}
	return resolved
}

// value returns a value as source writes it. Elements of lists are values of
// their own.
func (p *printer) value(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return quoteProto(value.String(), true)
	case protoreflect.BytesKind:
		return quoteProto(string(value.Bytes()), false)
	case protoreflect.FloatKind:
		return formatProtoFloat(value.Float(), 32)
	case protoreflect.DoubleKind:
		return formatProtoFloat(value.Float(), 64)
	case protoreflect.EnumKind:
		if named := field.Enum().Values().ByNumber(value.Enum()); named != nil {
			return string(named.Name())
		}
		return strconv.Itoa(int(value.Enum()))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return p.literal(value.Message())
	}
	return value.String()
}

// literal returns a message in braces, its fields by number.
func (p *printer) literal(message protoreflect.Message) string {
	var members []string
	add := func(field protoreflect.FieldDescriptor, value string) {
		members = append(members, field.TextName()+": "+value)
	}
	for _, field := range setFields(message) {
		value := message.Get(field)
		switch {
		case field.IsMap():
			for _, entry := range p.entries(field, value.Map()) {
				add(field, entry)
			}
		case field.IsList():
			for i := range value.List().Len() {
				add(field, p.value(field, value.List().Get(i)))
			}
		default:
			add(field, p.value(field, value))
		}
	}
	if len(members) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(members, ", ") + " }"
}

// entries returns the entries of a map, sorted.
func (p *printer) entries(field protoreflect.FieldDescriptor, entries protoreflect.Map) []string {
	var list []string
	entries.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		list = append(list, fmt.Sprintf("{ key: %s, value: %s }", p.value(field.MapKey(), key.Value()), p.value(field.MapValue(), value)))
		return true
	})
	slices.Sort(list)
	return list
}

// formatProtoFloat returns the shortest number that is read as the same value.
func formatProtoFloat(value float64, bits int) string {
	switch {
	case math.IsInf(value, 1):
		return "inf"
	case math.IsInf(value, -1):
		return "-inf"
	case math.IsNaN(value):
		return "nan"
	case value == 0 && math.Signbit(value):
		return "-0.0"
	}
	text := strconv.FormatFloat(value, 'g', -1, bits)
	// Compilers read a float by way of a double, and round twice.
	if read, err := strconv.ParseFloat(text, 64); bits == 32 && (err != nil || float64(float32(read)) != value) {
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return text
}

// quoteProto returns a string literal. Text is written as it is, as far as it is
// text.
func quoteProto(value string, text bool) string {
	quoted := []byte{'"'}
	for i := 0; i < len(value); {
		r, size := rune(value[i]), 1
		if text && r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(value[i:])
		}
		switch {
		case r == '"' || r == '\\':
			quoted = append(quoted, '\\', byte(r))
		case r == '\n':
			quoted = append(quoted, `\n`...)
		case r == '\r':
			quoted = append(quoted, `\r`...)
		case r == '\t':
			quoted = append(quoted, `\t`...)
		case size > 1, ' ' <= r && r <= '~':
			quoted = append(quoted, value[i:i+size]...)
		default:
			quoted = fmt.Appendf(quoted, `\%03o`, value[i])
		}
		i += size
	}
	return string(append(quoted, '"'))
}

// optionName writes the name of a custom option. It is looked up from the scope
// outwards, so a name whose first part means something else in between begins
// with a dot.
func (p *printer) optionName(name, scope protoreflect.FullName) string {
	first, _, _ := strings.Cut(string(name), ".")
	for ; scope != ""; scope = scope.Parent() {
		if p.scope().names[scope.Append(protoreflect.Name(first))] {
			return "(." + string(name) + ")"
		}
	}
	return "(" + string(name) + ")"
}

func (p *printer) scope() *scope {
	if p.known == nil {
		p.known = &scope{names: make(map[protoreflect.FullName]bool), files: make(map[string]bool)}
		p.known.addFile(p.file)
	}
	return p.known
}

// scope is what a file and its imports declare.
type scope struct {
	names      map[protoreflect.FullName]bool
	extensions protoregistry.Types
	files      map[string]bool
}

func (s *scope) addFile(file protoreflect.FileDescriptor) {
	if s.files[file.Path()] {
		return
	}
	s.files[file.Path()] = true
	for name := file.Package(); name != ""; name = name.Parent() {
		s.names[name] = true
	}
	s.addDeclarations(file)
	for i := range file.Services().Len() {
		s.names[file.Services().Get(i).FullName()] = true
	}
	for i := range file.Imports().Len() {
		s.addFile(file.Imports().Get(i))
	}
	if options, ok := file.(interface {
		OptionImports() protoreflect.FileImports
	}); ok {
		for i := range options.OptionImports().Len() {
			s.addFile(options.OptionImports().Get(i))
		}
	}
}

func (s *scope) addDeclarations(scope declarations) {
	for i := range scope.Enums().Len() {
		enum := scope.Enums().Get(i)
		s.names[enum.FullName()] = true
		for j := range enum.Values().Len() {
			s.names[enum.Values().Get(j).FullName()] = true
		}
	}
	for i := range scope.Extensions().Len() {
		extension := scope.Extensions().Get(i)
		s.names[extension.FullName()] = true
		// Files that do not see each other may extend a message with one number.
		// The nearer one counts.
		_ = s.extensions.RegisterExtension(dynamicpb.NewExtensionType(extension))
	}
	for i := range scope.Messages().Len() {
		message := scope.Messages().Get(i)
		s.names[message.FullName()] = true
		for j := range message.Fields().Len() {
			s.names[message.Fields().Get(j).FullName()] = true
		}
		for j := range message.Oneofs().Len() {
			s.names[message.Oneofs().Get(j).FullName()] = true
		}
		s.addDeclarations(message)
	}
}
