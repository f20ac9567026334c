// SPDX-License-Identifier: Apache-2.0

package prototext

import "google.golang.org/protobuf/reflect/protoreflect"

// File is a file with the files that it imports, for comparing.
type File struct {
	file       protoreflect.FileDescriptor
	age        int             // place in the history
	files      map[string]bool // that have been added, by path
	messages   map[protoreflect.FullName]protoreflect.MessageDescriptor
	extensions map[protoreflect.FullName][]protoreflect.FieldDescriptor // by what they extend
}

// NewFile returns a file for comparing. The age is its place in a history: of two
// files the one of the greater age is the later schema.
func NewFile(file protoreflect.FileDescriptor, age int) *File {
	s := &File{
		file:       file,
		age:        age,
		files:      make(map[string]bool),
		messages:   make(map[protoreflect.FullName]protoreflect.MessageDescriptor),
		extensions: make(map[protoreflect.FullName][]protoreflect.FieldDescriptor),
	}
	s.add(file)
	return s
}

func (s *File) add(file protoreflect.FileDescriptor) {
	if s.files[file.Path()] {
		return
	}
	s.files[file.Path()] = true
	s.addScope(file)
	for i := range file.Imports().Len() {
		s.add(file.Imports().Get(i).FileDescriptor)
	}
}

func (s *File) addScope(scope declarations) {
	for i := range scope.Extensions().Len() {
		extension := scope.Extensions().Get(i)
		extended := extension.ContainingMessage().FullName()
		s.extensions[extended] = append(s.extensions[extended], extension)
	}
	for i := range scope.Messages().Len() {
		message := scope.Messages().Get(i)
		s.messages[message.FullName()] = message
		s.addScope(message)
	}
}

// fields returns the fields of a message in the order of declaration, extensions
// after them.
func (s *File) fields(message protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	fields := make([]protoreflect.FieldDescriptor, 0, message.Fields().Len())
	for i := range message.Fields().Len() {
		fields = append(fields, message.Fields().Get(i))
	}
	return append(fields, s.extensions[message.FullName()]...)
}

// declared returns the messages that a file declares for themselves: not those
// that a map field or a group brings along.
func (s *File) declared() []protoreflect.MessageDescriptor {
	var messages []protoreflect.MessageDescriptor
	var visit func(scope declarations)
	visit = func(scope declarations) {
		groups := groupTypes(scope)
		for i := range scope.Messages().Len() {
			message := scope.Messages().Get(i)
			if message.IsMapEntry() {
				continue
			}
			if !groups[message.FullName()] {
				messages = append(messages, message)
			}
			visit(message)
		}
	}
	visit(s.file)
	return messages
}
