// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Schemas come from a registry, and compiling one must cost a small multiple of
// its size. The compiler itself has no bounds: it recurses with the nesting, it
// writes out the full name of every element, and it looks a name up in every
// enclosing scope.
const (
	// maxProtoSource is the size of a schema with its imports, in bytes.
	maxProtoSource = 8 << 20
	// maxProtoDepth is how deep brackets, imports and the parts of a name go.
	maxProtoDepth = 100
	// maxProtoName is the length of a full name, in bytes.
	maxProtoName = 2048
)

// checkNesting looks at the brackets and names of a source text before the
// parser does.
func (c *compiler) checkNesting(path, text string) error {
	fail := func(offset int, format string, limit int) error {
		before := text[:offset]
		err := c.at(path, fmt.Sprintf(format, limit), nil)
		err.Line, err.Column = 1+strings.Count(before, "\n"), offset-strings.LastIndexByte(before, '\n')
		return err
	}
	depth, name := 0, 0
	for i := 0; i < len(text); i++ {
		b := text[i]
		if isProtoLetter(b) {
			if name++; name > maxProtoName {
				return fail(i, "a name is longer than %d bytes", maxProtoName)
			}
			continue
		}
		name = 0
		switch b {
		case '{', '[', '(', '<':
			if depth++; depth > maxProtoDepth {
				return fail(i, "brackets are nested more than %d deep", maxProtoDepth)
			}
		case '}', ']', ')', '>':
			depth--
		case '"', '\'':
			i = endOfString(text, i)
		case '/':
			i = endOfComment(text, i)
		}
	}
	return nil
}

func isProtoLetter(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}

// endOfString returns the offset of the last byte of a string literal. A literal
// ends with its line if not before.
func endOfString(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[start], '\n':
			return i
		}
	}
	return len(text)
}

// endOfComment returns the offset of the last byte of the comment that starts at
// start, and start itself where none does.
func endOfComment(text string, start int) int {
	rest := text[start:]
	end := ""
	switch {
	case strings.HasPrefix(rest, "//"):
		end = "\n"
	case strings.HasPrefix(rest, "/*"):
		end = "*/"
	default:
		return start
	}
	length := strings.Index(rest[2:], end)
	if length < 0 {
		return len(text)
	}
	return start + 2 + length + len(end) - 1
}

// nameBudget adds up the full names of a file, and what else is written once
// and kept many times.
type nameBudget struct {
	left int // bytes that they may still have
}

// checkProtoNames refuses a file that unfolds out of proportion to its size in
// bytes.
func checkProtoNames(file *descriptorpb.FileDescriptorProto, size int) error {
	n := &nameBudget{left: 1<<20 + 16*size}
	if parts := 1 + strings.Count(file.GetPackage(), "."); parts > maxProtoDepth {
		return fmt.Errorf("the package has more than %d parts", maxProtoDepth)
	}
	scope := len(file.GetPackage())
	for _, message := range file.GetMessageType() {
		if err := n.message(scope, message, 1); err != nil {
			return err
		}
	}
	for _, enum := range file.GetEnumType() {
		if err := n.enum(scope, enum); err != nil {
			return err
		}
	}
	for _, service := range file.GetService() {
		if err := n.element(scope, service.GetName()); err != nil {
			return err
		}
		for _, method := range service.GetMethod() {
			if err := n.element(scope+1+len(service.GetName()), method.GetName()); err != nil {
				return err
			}
		}
	}
	return n.fields(scope, file.GetExtension())
}

// element counts one name in a scope of some length.
func (n *nameBudget) element(scope int, name string) error {
	length := scope + 1 + len(name)
	if length > maxProtoName {
		return fmt.Errorf("the full name of %.40q is longer than %d bytes", name, maxProtoName)
	}
	if n.left -= length; n.left < 0 {
		return fmt.Errorf("the full names are out of proportion to the size of the schema, from that of %.40q on", name)
	}
	return nil
}

func (n *nameBudget) fields(scope int, fields []*descriptorpb.FieldDescriptorProto) error {
	for _, field := range fields {
		if err := n.element(scope, field.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (n *nameBudget) enum(scope int, enum *descriptorpb.EnumDescriptorProto) error {
	if err := n.element(scope, enum.GetName()); err != nil {
		return err
	}
	for _, value := range enum.GetValue() {
		if err := n.element(scope, value.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (n *nameBudget) message(scope int, message *descriptorpb.DescriptorProto, depth int) error {
	if depth > maxProtoDepth {
		return fmt.Errorf("messages are nested more than %d deep", maxProtoDepth)
	}
	if err := n.element(scope, message.GetName()); err != nil {
		return err
	}
	scope += 1 + len(message.GetName())
	for _, nested := range message.GetNestedType() {
		if err := n.message(scope, nested, depth+1); err != nil {
			return err
		}
	}
	for _, enum := range message.GetEnumType() {
		if err := n.enum(scope, enum); err != nil {
			return err
		}
	}
	for _, oneof := range message.GetOneofDecl() {
		if err := n.element(scope, oneof.GetName()); err != nil {
			return err
		}
	}
	if err := n.fields(scope, message.GetField()); err != nil {
		return err
	}
	// The options of one statement belong to each of its ranges.
	for _, extensions := range message.GetExtensionRange() {
		if n.left -= proto.Size(extensions.GetOptions()); n.left < 0 {
			return fmt.Errorf("the options of extension ranges in %.40q are out of proportion to the size of the schema", message.GetName())
		}
	}
	return n.fields(scope, message.GetExtension())
}
