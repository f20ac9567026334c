// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Print returns the source text of a Protobuf file: what a serde
// registers. The same descriptor has the same text in every process, and the
// text compiles to an equal descriptor, but for what has no meaning: comments,
// and the order of declarations of different kinds.
//
// Within a scope the text has enums before messages, and a message has its
// nested messages before its fields. So the index of a message is the same
// whether a reader counts the entry types of maps and the types of groups or
// not.
//
// Left out is what no source can say: values of extensions that the file does
// not import, options that are not interpreted yet.
func Print(file protoreflect.FileDescriptor) string {
	p := printer{file: file, syntax: file.Syntax()}
	p.printFile()
	return p.out.String()
}

// printer writes one file.
type printer struct {
	file   protoreflect.FileDescriptor
	syntax protoreflect.Syntax
	out    strings.Builder
	indent int
	known  *scope // nil until a custom option asks for it
}

// line writes one line.
func (p *printer) line(parts ...string) {
	for range p.indent {
		p.out.WriteString("  ")
	}
	for _, part := range parts {
		p.out.WriteString(part)
	}
	p.out.WriteByte('\n')
}

// block writes a block in braces.
func (p *printer) block(head string, body func()) {
	p.line(head, " {")
	p.indent++
	body()
	p.indent--
	p.line("}")
}

func (p *printer) printFile() {
	source := fileSource(p.file)
	if p.syntax == protoreflect.Editions {
		p.line(`edition = "`, strings.TrimPrefix(source.GetEdition().String(), "EDITION_"), `";`)
	} else {
		p.line(`syntax = "`, p.syntax.String(), `";`)
	}
	if name := p.file.Package(); name != "" {
		p.line("package ", string(name), ";")
	}
	modifiers := make(map[int32]string)
	for _, i := range source.GetPublicDependency() {
		modifiers[i] = "public "
	}
	for _, i := range source.GetWeakDependency() {
		modifiers[i] = "weak "
	}
	for i, path := range source.GetDependency() {
		p.line("import ", modifiers[int32(i)], quoteProto(path, true), ";")
	}
	for _, path := range source.GetOptionDependency() {
		p.line("import option ", quoteProto(path, true), ";")
	}
	p.statements(p.file)
	p.declarations(p.file)
	p.extensions(p.file.Extensions())
	for i := range p.file.Services().Len() {
		p.service(p.file.Services().Get(i))
	}
}

// fileSource returns the file's own proto where it has one: that tells more than
// the descriptor does.
func fileSource(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if source, ok := file.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return source.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

// declarations is what files and messages have in common.
type declarations interface {
	Enums() protoreflect.EnumDescriptors
	Messages() protoreflect.MessageDescriptors
	Extensions() protoreflect.ExtensionDescriptors
}

// declarations writes the enums and messages of a file or message.
func (p *printer) declarations(scope declarations) {
	for i := range scope.Enums().Len() {
		p.enum(scope.Enums().Get(i))
	}
	groups := groupTypes(scope)
	for i := range scope.Messages().Len() {
		if message := scope.Messages().Get(i); !message.IsMapEntry() && !groups[message.FullName()] {
			p.out.WriteByte('\n')
			p.block(visibility(message)+"message "+string(message.Name()), func() { p.messageBody(message) })
		}
	}
}

// groupTypes names the messages of a scope that its fields declare.
func groupTypes(scope declarations) map[protoreflect.FullName]bool {
	groups := make(map[protoreflect.FullName]bool)
	note := func(fields interface {
		Len() int
		Get(int) protoreflect.FieldDescriptor
	}) {
		for i := range fields.Len() {
			if field := fields.Get(i); declaresGroup(field) {
				groups[field.Message().FullName()] = true
			}
		}
	}
	note(scope.Extensions())
	if message, ok := scope.(protoreflect.MessageDescriptor); ok {
		note(message.Fields())
	}
	return groups
}

// declaresGroup reports whether a field declares its own type. In editions a
// group is a message with another encoding.
func declaresGroup(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.GroupKind && field.Syntax() == protoreflect.Proto2
}

// visibility returns the modifier of a declaration, which editions have.
func visibility(d protoreflect.Descriptor) string {
	v, ok := d.(interface{ Visibility() int32 })
	if !ok {
		return ""
	}
	switch descriptorpb.SymbolVisibility(v.Visibility()) {
	case descriptorpb.SymbolVisibility_VISIBILITY_EXPORT:
		return "export "
	case descriptorpb.SymbolVisibility_VISIBILITY_LOCAL:
		return "local "
	}
	return ""
}

func (p *printer) enum(enum protoreflect.EnumDescriptor) {
	p.out.WriteByte('\n')
	p.block(visibility(enum)+"enum "+string(enum.Name()), func() {
		p.statements(enum)
		for i := range enum.ReservedRanges().Len() {
			r := enum.ReservedRanges().Get(i)
			p.line(fmt.Sprintf("reserved %d to %d;", r[0], r[1]))
		}
		p.reservedNames(enum.ReservedNames())
		for i := range enum.Values().Len() {
			value := enum.Values().Get(i)
			p.line(string(value.Name()), " = ", strconv.Itoa(int(value.Number())), p.brackets(p.optionList(value)), ";")
		}
	})
}

func (p *printer) reservedNames(names protoreflect.Names) {
	if names.Len() == 0 {
		return
	}
	list := make([]string, names.Len())
	for i := range list {
		// Editions want identifiers. What is none stays a string, for the compiler
		// to refuse.
		if list[i] = string(names.Get(i)); p.syntax != protoreflect.Editions || !names.Get(i).IsValid() {
			list[i] = quoteProto(list[i], true)
		}
	}
	p.line("reserved ", strings.Join(list, ", "), ";")
}

func (p *printer) messageBody(message protoreflect.MessageDescriptor) {
	p.statements(message)
	p.declarations(message)
	for i := range message.ReservedRanges().Len() {
		r := message.ReservedRanges().Get(i)
		p.line(fmt.Sprintf("reserved %d to %d;", r[0], r[1]-1))
	}
	p.reservedNames(message.ReservedNames())
	for i := range message.ExtensionRanges().Len() {
		r := message.ExtensionRanges().Get(i)
		options := p.options(message.ExtensionRangeOptions(i), message.FullName())
		p.line(fmt.Sprintf("extensions %d to %d", r[0], r[1]-1), p.brackets(options), ";")
	}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if oneof := field.ContainingOneof(); oneof == nil || oneof.IsSynthetic() {
			p.field(field)
		}
	}
	for i := range message.Oneofs().Len() {
		oneof := message.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		p.block("oneof "+string(oneof.Name()), func() {
			p.statements(oneof)
			for j := range oneof.Fields().Len() {
				p.field(oneof.Fields().Get(j))
			}
		})
	}
	p.extensions(message.Extensions())
}

// extensions writes one block for each run of extensions of the same message.
func (p *printer) extensions(extensions protoreflect.ExtensionDescriptors) {
	for i := 0; i < extensions.Len(); {
		extended := extensions.Get(i).ContainingMessage().FullName()
		p.block("extend "+absoluteName(extended), func() {
			for ; i < extensions.Len() && extensions.Get(i).ContainingMessage().FullName() == extended; i++ {
				p.field(extensions.Get(i))
			}
		})
	}
}

func (p *printer) field(field protoreflect.FieldDescriptor) {
	head := p.label(field) + p.fieldType(field) + " = " + strconv.Itoa(int(field.Number())) + p.brackets(p.fieldOptions(field))
	if declaresGroup(field) {
		p.block(head, func() { p.messageBody(field.Message()) })
		return
	}
	p.line(head, ";")
}

func (p *printer) label(field protoreflect.FieldDescriptor) string {
	oneof := field.ContainingOneof()
	switch {
	case field.IsMap(), oneof != nil && !oneof.IsSynthetic():
		return ""
	case field.Cardinality() == protoreflect.Repeated:
		return "repeated "
	case p.syntax == protoreflect.Proto2 && field.Cardinality() == protoreflect.Required:
		return "required "
	case p.syntax == protoreflect.Proto2, p.syntax == protoreflect.Proto3 && field.HasOptionalKeyword():
		return "optional "
	}
	return ""
}

// fieldType returns the type and the name of a field.
func (p *printer) fieldType(field protoreflect.FieldDescriptor) string {
	switch {
	case declaresGroup(field):
		return "group " + string(field.Message().Name())
	case field.IsMap():
		return fmt.Sprintf("map<%s, %s> %s", protoTypeName(field.MapKey()), protoTypeName(field.MapValue()), field.Name())
	}
	return protoTypeName(field) + " " + string(field.Name())
}

// protoTypeName names the type of a field's value as source does.
func protoTypeName(field protoreflect.FieldDescriptor) string {
	switch {
	case field.Message() != nil:
		return absoluteName(field.Message().FullName())
	case field.Enum() != nil:
		return absoluteName(field.Enum().FullName())
	}
	return field.Kind().String()
}

// absoluteName writes a name in the form that no scope changes. A type that was
// never resolved may have a relative name.
func absoluteName(name protoreflect.FullName) string {
	if relative, ok := strings.CutPrefix(string(name), "*."); ok {
		return relative
	}
	return "." + string(name)
}

func (p *printer) service(service protoreflect.ServiceDescriptor) {
	p.out.WriteByte('\n')
	p.block("service "+string(service.Name()), func() {
		p.statements(service)
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			head := fmt.Sprintf("rpc %s (%s) returns (%s)", method.Name(),
				streamed(method.IsStreamingClient(), method.Input()), streamed(method.IsStreamingServer(), method.Output()))
			if len(p.optionList(method)) == 0 {
				p.line(head, ";")
				continue
			}
			p.block(head, func() { p.statements(method) })
		}
	})
}

func streamed(stream bool, message protoreflect.MessageDescriptor) string {
	if stream {
		return "stream " + absoluteName(message.FullName())
	}
	return absoluteName(message.FullName())
}
