// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/krabka-io/krabka-streams-go/internal/prototext"
)

// protobufLocal is a message of this process with the schema that it is
// registered under.
type protobufLocal struct {
	message    protoreflect.MessageDescriptor
	text       string
	references []Reference
	file       protoreflect.FileDescriptor // text, compiled
	indexes    []byte                      // of the message in text, in wire form
}

// newProtobufLocal takes the schema of a message from its descriptor, and from
// the given references and the options.
func newProtobufLocal(message protoreflect.MessageDescriptor, given []Reference, options *protobufOptions) (*protobufLocal, error) {
	file := message.ParentFile()
	if file == nil || message.IsPlaceholder() {
		return nil, fmt.Errorf("message %s has no file", message.FullName())
	}
	text := options.text
	if text == "" {
		text = prototext.Print(file)
	}
	references, err := importedReferences(file, given, options)
	if err != nil {
		return nil, err
	}
	declared, err := parseProtobuf(text, references)
	if err != nil {
		return nil, fmt.Errorf("invalid Protobuf schema: %w", err)
	}
	return localOf(message, declared, text, references)
}

// parseProtobufLocal takes a message from a text. Without a name it is the first
// one.
func parseProtobufLocal(text, name string, references []Reference) (*protobufLocal, error) {
	file, err := parseProtobuf(text, references)
	if err != nil {
		return nil, fmt.Errorf("invalid Protobuf schema: %w", err)
	}
	for _, message := range indexedMessages(file, nil) {
		if name == "" || string(message.FullName()) == name {
			return localOf(message, file, text, references)
		}
	}
	if name == "" {
		return nil, fmt.Errorf("invalid Protobuf schema: it declares no message")
	}
	return nil, fmt.Errorf("invalid Protobuf schema: it declares no message %s", name)
}

func localOf(message protoreflect.MessageDescriptor, file protoreflect.FileDescriptor, text string, references []Reference) (*protobufLocal, error) {
	indexes, ok := wireIndexes(file, message.FullName())
	if !ok {
		return nil, fmt.Errorf("the Protobuf schema gives message %s no message indexes: it is not declared there, or is that of a map or group", message.FullName())
	}
	return &protobufLocal{message: message, text: text, references: references, file: file, indexes: indexes}, nil
}

// parseProtobuf compiles a schema with everything that it refers to.
func parseProtobuf(text string, references []Reference) (protoreflect.FileDescriptor, error) {
	ordered, err := dependencyOrder(references)
	if err != nil {
		return nil, err
	}
	return prototext.Compile(context.Background(), text, referenceTexts(ordered))
}

// importedReferences returns the imports of a file in their order, each with its
// own, as references. References that are given stand in for those of the
// same name, and follow where there are none. Well-known files are left out:
// every registry and compiler has them.
func importedReferences(file protoreflect.FileDescriptor, given []Reference, options *protobufOptions) ([]Reference, error) {
	byName := map[string]Reference{}
	for _, reference := range given {
		byName[reference.Name] = reference
	}
	w := &importWalk{options: options, given: byName, known: map[string]Reference{}}
	references, err := w.imports(file)
	if err != nil {
		return nil, err
	}
	for _, reference := range given {
		if _, used := w.known[reference.Name]; !used {
			references = append(references, reference)
		}
	}
	return references, nil
}

type importWalk struct {
	options *protobufOptions
	given   map[string]Reference
	known   map[string]Reference // by import path
}

func (w *importWalk) imports(file protoreflect.FileDescriptor) ([]Reference, error) {
	var references []Reference
	for i := range file.Imports().Len() {
		imported := file.Imports().Get(i)
		if prototext.Standard(imported.Path()) != nil {
			continue
		}
		reference, ok := w.known[imported.Path()]
		if !ok {
			var err error
			if reference, err = w.reference(imported); err != nil {
				return nil, fmt.Errorf("import of %s: %w", file.Path(), err)
			}
			w.known[imported.Path()] = reference
		}
		references = append(references, reference)
	}
	return references, nil
}

func (w *importWalk) reference(imported protoreflect.FileImport) (Reference, error) {
	path := imported.Path()
	reference, given := w.given[path]
	if !given {
		reference = Reference{Name: path, Subject: path}
		if name := w.options.referenceSubject; name != nil {
			reference.Subject = name(path)
		}
	}
	if reference.Schema != "" {
		return reference, nil
	}
	if imported.IsPlaceholder() {
		return reference, fmt.Errorf("%s is not linked into the program", path)
	}
	reference.Schema = prototext.Print(imported.FileDescriptor)
	nested, err := w.imports(imported.FileDescriptor)
	if err != nil {
		return reference, err
	}
	reference.References = nested
	return reference, nil
}

// fileTypes finds the extensions that a file and its imports declare.
func fileTypes(file protoreflect.FileDescriptor) (*dynamicpb.Types, error) {
	files := new(protoregistry.Files)
	var add func(protoreflect.FileDescriptor) error
	add = func(file protoreflect.FileDescriptor) error {
		if _, err := files.FindFileByPath(file.Path()); err == nil || file.IsPlaceholder() {
			return nil
		}
		for i := range file.Imports().Len() {
			if err := add(file.Imports().Get(i).FileDescriptor); err != nil {
				return err
			}
		}
		return files.RegisterFile(file)
	}
	if err := add(file); err != nil {
		return nil, err
	}
	return dynamicpb.NewTypes(files), nil
}
