// SPDX-License-Identifier: Apache-2.0

package prototext

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// SchemaError reports a text that is not a Protobuf schema, and where
// it is not.
type SchemaError struct {
	// File is the import path of the file, "" for the schema itself.
	File string
	// Line and Column count from 1; they are 0 where the place is not known.
	Line, Column int
	// MissingImport is the path of an import that is neither a well-known file
	// nor among the schema's references; "" when something else is wrong.
	MissingImport string

	reason string
	cause  error
}

// Error tells the place and what is wrong there.
func (e *SchemaError) Error() string {
	var place strings.Builder
	place.WriteString(e.File)
	if e.Line > 0 {
		if e.File != "" {
			place.WriteByte(':')
		}
		fmt.Fprintf(&place, "%d:%d", e.Line, e.Column)
	}
	if place.Len() == 0 {
		return e.reason
	}
	return place.String() + ": " + e.reason
}

// Unwrap returns the underlying cause, or nil.
func (e *SchemaError) Unwrap() error { return e.cause }

// Compile compiles a Protobuf schema as registries return it: the source
// text, or the base64 form of a FileDescriptorProto. imports holds what it
// imports, in either form, by import path. The files that come with the compiler
// are known without being there, and win over imports of the same path. So are
// those of [wellKnownProto], which do not win. Nothing else is read, neither from
// files nor from the network.
//
// An error is a [*ProtobufSchemaError] or the context's.
func Compile(ctx context.Context, text string, imports map[string]string) (protoreflect.FileDescriptor, error) {
	root := "schema.proto"
	for {
		if _, taken := imports[root]; !taken {
			break
		}
		root = "_" + root
	}
	c := &compiler{
		ctx:     ctx,
		root:    root,
		text:    text,
		imports: imports,
		files:   new(protoregistry.Files),
		linked:  map[string]linker.File{},
	}
	file, err := c.compile(root)
	if err != nil {
		return nil, err
	}
	return file.descriptor, nil
}

// compiler compiles a file after everything that it imports, one by one.
type compiler struct {
	ctx     context.Context
	root    string // path of the schema itself
	text    string
	imports map[string]string

	size    int                    // bytes of the texts read so far
	path    []string               // the files being compiled, each imported by the one before
	symbols linker.Symbols         // of all linked files
	linked  map[string]linker.File // by path, for files that import them
	files   *protoregistry.Files   // the same files, as they are handed out
}

// compiledFile is one file in the two forms that its importers need.
type compiledFile struct {
	linked     linker.File
	descriptor protoreflect.FileDescriptor
}

// at returns an error about a file.
func (c *compiler) at(path, reason string, cause error) *SchemaError {
	if path == c.root {
		path = ""
	}
	return &SchemaError{File: path, reason: reason, cause: cause}
}

// wrap gives an error the name of the file, and of the place where the parser
// knows it.
func (c *compiler) wrap(path string, err error) error {
	if _, ok := errors.AsType[*SchemaError](err); ok || err == c.ctx.Err() {
		return err
	}
	placed, ok := errors.AsType[reporter.ErrorWithPos](err)
	if !ok {
		// protobuf-go follows its prefix by a space or a no-break space.
		reason := strings.TrimPrefix(err.Error(), "proto:")
		return c.at(path, strings.TrimLeft(reason, " \u00a0"), err)
	}
	result := c.at(path, placed.Unwrap().Error(), placed.Unwrap())
	if start := placed.GetPosition(); start.Line > 0 {
		result.Line, result.Column = start.Line, start.Col
	}
	return result
}

// compile returns the file of a path.
func (c *compiler) compile(path string) (compiledFile, error) {
	if known, ok := c.linked[path]; ok {
		descriptor, err := c.files.FindFileByPath(path)
		return compiledFile{known, descriptor}, err
	}
	if err := c.ctx.Err(); err != nil {
		return compiledFile{}, err
	}
	file, err := c.compileNew(path)
	if err != nil {
		return compiledFile{}, c.wrap(path, err)
	}
	if err := c.files.RegisterFile(file.descriptor); err != nil {
		return compiledFile{}, c.wrap(path, err)
	}
	c.linked[path] = file.linked
	return file, nil
}

func (c *compiler) compileNew(path string) (file compiledFile, err error) {
	text := c.text
	if path != c.root {
		if standard := Standard(path); standard != nil {
			return c.compileStandard(standard)
		}
		var given bool
		if text, given = c.imports[path]; !given {
			text, _ = wellKnownProto(path)
		}
	}
	if c.size += len(text); c.size > maxProtoSource {
		return compiledFile{}, fmt.Errorf("more than %d bytes of Protobuf source", maxProtoSource)
	}
	if len(c.path) == maxProtoDepth {
		return compiledFile{}, fmt.Errorf("imports are nested more than %d deep", maxProtoDepth)
	}
	c.path = append(c.path, path)
	defer func() {
		c.path = c.path[:len(c.path)-1]
		// The parser is made for sources that its user trusts.
		if p := recover(); p != nil {
			file, err = compiledFile{}, fmt.Errorf("the parser fails: %v", p)
		}
	}()
	if data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil && len(data) > 0 {
		return c.compileSerialized(path, data)
	}
	return c.compileText(path, text)
}

// Standard returns a file that comes with the compiler, or nil.
func Standard(path string) protoreflect.FileDescriptor {
	found, err := protocompile.WithStandardImports(protocompile.CompositeResolver{}).FindFileByPath(path)
	if err != nil {
		return nil
	}
	return found.Desc
}

func (c *compiler) compileStandard(descriptor protoreflect.FileDescriptor) (compiledFile, error) {
	for i := range descriptor.Imports().Len() {
		if _, err := c.compile(descriptor.Imports().Get(i).Path()); err != nil {
			return compiledFile{}, err
		}
	}
	linked, err := linker.NewFileRecursive(descriptor)
	return compiledFile{linked, descriptor}, err
}

func (c *compiler) compileSerialized(path string, data []byte) (compiledFile, error) {
	fd := new(descriptorpb.FileDescriptorProto)
	if err := (proto.UnmarshalOptions{RecursionLimit: 2 * maxProtoDepth}).Unmarshal(data, fd); err != nil {
		return compiledFile{}, fmt.Errorf("neither source text nor a serialized descriptor: %w", err)
	}
	fd.Name = proto.String(path)
	fd.SourceCodeInfo = nil
	if err := checkProtoNames(fd, len(data)); err != nil {
		return compiledFile{}, err
	}
	imported, err := c.dependencies(path, fd.GetDependency(), nil)
	if err != nil {
		return compiledFile{}, err
	}
	descriptor, err := protodesc.NewFile(fd, c.files)
	if err != nil {
		return compiledFile{}, err
	}
	linked, err := linker.Link(parser.ResultWithoutAST(fd), imported, &c.symbols, reporter.NewHandler(nil))
	return compiledFile{linked, descriptor}, err
}

func (c *compiler) compileText(path, text string) (compiledFile, error) {
	if err := c.checkNesting(path, text); err != nil {
		return compiledFile{}, err
	}
	handler := reporter.NewHandler(nil)
	source, err := parser.Parse(path, strings.NewReader(text), handler)
	if err != nil {
		return compiledFile{}, err
	}
	parsed, err := parser.ResultFromAST(source, true, handler)
	if err != nil {
		return compiledFile{}, err
	}
	if err := checkProtoNames(parsed.FileDescriptorProto(), len(text)); err != nil {
		return compiledFile{}, err
	}
	imported, err := c.dependencies(path, parsed.FileDescriptorProto().GetDependency(), source)
	if err != nil {
		return compiledFile{}, err
	}
	linked, err := linker.Link(parsed, imported, &c.symbols, handler)
	if err != nil {
		return compiledFile{}, err
	}
	if _, err := options.InterpretOptions(linked, handler); err != nil {
		return compiledFile{}, err
	}
	if err := linked.ValidateOptions(handler, &c.symbols); err != nil {
		return compiledFile{}, err
	}
	linked.RemoveAST()
	descriptor, err := protodesc.NewFile(linked.FileDescriptorProto(), c.files)
	return compiledFile{linked, descriptor}, err
}

// dependencies compiles what a file imports. Where there is a source, it tells
// the places of the imports.
func (c *compiler) dependencies(importer string, paths []string, source *ast.FileNode) (linker.Files, error) {
	files := make(linker.Files, 0, len(paths))
	for _, path := range paths {
		missing := path == c.root || !c.has(path)
		if !missing && !slices.Contains(c.path, path) {
			file, err := c.compile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, file.linked)
			continue
		}
		problem := c.at(importer, fmt.Sprintf("import %q closes a cycle of imports", path), nil)
		if missing {
			problem.reason = fmt.Sprintf("import %q is neither a well-known file nor a reference of the schema", path)
			problem.MissingImport = path
		}
		problem.Line, problem.Column = importPlace(source, path)
		return nil, problem
	}
	return files, nil
}

// has reports whether there is a file of a path to import.
func (c *compiler) has(path string) bool {
	_, given := c.imports[path]
	if !given && Standard(path) == nil {
		_, given = wellKnownProto(path)
		return given
	}
	return true
}

func importPlace(source *ast.FileNode, path string) (line, column int) {
	if source == nil {
		return 0, 0
	}
	for _, declaration := range source.Decls {
		if node, ok := declaration.(*ast.ImportNode); ok && node.Name.AsString() == path {
			start := source.NodeInfo(node.Name).Start()
			return start.Line, start.Col
		}
	}
	return 0, 0
}
