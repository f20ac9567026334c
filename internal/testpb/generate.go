// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// The command generate compiles the files in the folder shop to Go, without
// protoc.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	files, err := filepath.Glob("shop/*.proto")
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var sources []*descriptorpb.FileDescriptorProto
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		sources = append(sources, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range compiled {
		add(file)
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{FileToGenerate: files, ProtoFile: sources})
	if err != nil {
		return err
	}
	for _, file := range plugin.Files {
		if file.Generate {
			internal_gengo.GenerateFile(plugin, file)
		}
	}
	for _, file := range plugin.Response().File {
		if err := os.WriteFile(filepath.Base(file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
