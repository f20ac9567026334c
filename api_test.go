// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// apiFile lists the exported declarations of the public packages.
const apiFile = "docs/api.txt"

var update = flag.Bool("update", false, "rewrite "+apiFile)

func TestAPIMatchesItsList(t *testing.T) {
	got := exportedAPI(t)
	if *update {
		if err := os.WriteFile(apiFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range apiChanges(string(want), got) {
		t.Errorf("%s; if that is meant, run make api", line)
	}
}

// apiChanges returns the declarations that only one of two lists has.
func apiChanges(from, to string) []string {
	declarations := func(list string) map[string]bool {
		set := map[string]bool{}
		section := ""
		for line := range strings.Lines(list) {
			line = strings.TrimSpace(line)
			if _, path, ok := strings.Cut(line, " // import "); ok && strings.HasPrefix(line, "package ") {
				section = path
			} else if line != "" {
				set[section+": "+line] = true
			}
		}
		return set
	}
	before, after := declarations(from), declarations(to)
	var changes []string
	for line := range before {
		if !after[line] {
			changes = append(changes, line+": gone from the API")
		}
	}
	for line := range after {
		if !before[line] {
			changes = append(changes, line+": new in the API")
		}
	}
	slices.Sort(changes)
	return changes
}

// exportedAPI describes the exported API of the packages of the import table,
// as the compiler sees it.
func exportedAPI(t *testing.T) string {
	t.Helper()
	exports := map[string]string{}
	for line := range strings.Lines(goCommand(t, "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...")) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		exports[path] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var text strings.Builder
	for _, l := range layers {
		path := strings.TrimSuffix(module+"/"+l.pkg, "/")
		pkg, err := compiled.Import(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if l.pkg != "" {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "package %s // import %q\n", pkg.Name(), path)
		for _, line := range packageAPI(pkg) {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

// packageAPI returns a line for each exported declaration of pkg, sorted.
func packageAPI(pkg *types.Package) []string {
	var lines []string
	qualifier := types.RelativeTo(pkg)
	typeOf := func(t types.Type) string { return types.TypeString(t, qualifier) }
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			lines = append(lines, fmt.Sprintf("const %s %s = %s", name, typeOf(o.Type()), o.Val().ExactString()))
		case *types.Var, *types.Func:
			lines = append(lines, types.ObjectString(o, qualifier))
		case *types.TypeName:
			lines = append(lines, typeAPI(o, qualifier, typeOf)...)
		}
	}
	slices.Sort(lines)
	return lines
}

// typeAPI returns the lines of one exported type: itself, its exported fields
// and methods.
func typeAPI(name *types.TypeName, qualifier types.Qualifier, typeOf func(types.Type) string) []string {
	if name.IsAlias() {
		return []string{types.ObjectString(name, qualifier)}
	}
	named := name.Type().(*types.Named)
	header := "type " + typeOf(named)
	var lines []string
	hidden := ""
	switch u := named.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, header+" struct")
		for field := range u.Fields() {
			if field.Exported() {
				embedded := ""
				if field.Embedded() {
					embedded = "embedded "
				}
				lines = append(lines, fmt.Sprintf("field %s.%s %s%s", name.Name(), field.Name(), embedded, typeOf(field.Type())))
			}
		}
	case *types.Interface:
		for method := range u.Methods() {
			if !method.Exported() {
				hidden = " // has unexported methods"
				continue
			}
			lines = append(lines, fmt.Sprintf("method %s.%s%s", name.Name(), method.Name(), strings.TrimPrefix(typeOf(method.Type()), "func")))
		}
		lines = append(lines, header+" interface"+hidden)
	default:
		lines = append(lines, header+" "+typeOf(u))
	}
	for method := range named.Methods() {
		if method.Exported() {
			receiver := typeOf(method.Signature().Recv().Type())
			lines = append(lines, fmt.Sprintf("method (%s) %s%s", receiver, method.Name(), strings.TrimPrefix(typeOf(method.Type()), "func")))
		}
	}
	return lines
}

func TestAPIChangesAreNamed(t *testing.T) {
	const before = "package a // import \"m/a\"\nfunc F()\ntype T struct\n\npackage b // import \"m/b\"\nfunc F()\n"
	const after = "package a // import \"m/a\"\nfunc F(int)\ntype T struct\n\npackage b // import \"m/b\"\nfunc F()\n"
	want := []string{`"m/a": func F(): gone from the API`, `"m/a": func F(int): new in the API`}
	if diff := cmp.Diff(want, apiChanges(before, after)); diff != "" {
		t.Errorf("apiChanges mismatch (-want +got):\n%s", diff)
	}
}

// wellKnown are methods whose meaning the standard library fixes.
var wellKnown = []string{"Error", "String", "Unwrap"}

// docProblems finds exported declarations without a doc comment in files that
// are not tests. A comment on a group of constants or variables, or behind one,
// counts.
func docProblems(f *goFile) []string {
	if f.isTest() || f.ast.Name.Name == "main" {
		return nil
	}
	var problems []string
	check := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" }) {
			problems = append(problems, f.problem(name.Pos(), "exported %s has no doc comment", name.Name))
		}
	}
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiverExported(d) && !slices.Contains(wellKnown, d.Name.Name) {
				check(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						check(name, d.Doc, s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					check(s.Name, d.Doc, s.Doc)
					if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
						for _, method := range i.Methods.List {
							for _, name := range method.Names {
								if !slices.Contains(wellKnown, name.Name) {
									check(name, method.Doc, method.Comment)
								}
							}
						}
					}
				}
			}
		}
	}
	return problems
}

// receiverExported reports whether a method belongs to an exported type.
func receiverExported(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// optionProblems finds exported options, functions that are named With..., which
// no test of their package uses.
func optionProblems(files []*goFile) []string {
	tested := map[string]bool{} // folder and name
	for _, f := range files {
		if f.isTest() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "With") {
					tested[f.dir()+" "+id.Name] = true
				}
				return true
			})
		}
	}
	var problems []string
	for _, f := range files {
		if f.isTest() || f.isExample() {
			continue
		}
		for _, decl := range f.ast.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "With") && !tested[f.dir()+" "+d.Name.Name] {
				problems = append(problems, f.problem(d.Pos(), "no test of the package uses the option %s", d.Name.Name))
			}
		}
	}
	return problems
}

func TestAPIRules(t *testing.T) {
	files, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, problem := range docProblems(f) {
			t.Error(problem)
		}
	}
	for _, problem := range optionProblems(files) {
		t.Error(problem)
	}
}

func TestAPIRulesCatchViolations(t *testing.T) {
	const code = `package a

const A = 1

// Group.
const (
	B = 2
	c = 3
)

var D int // D is fine.

type E struct{}

func (E) Error() string { return "" }
func (*E) Is(error) bool { return false }
func (e) Lost() {}

// F is fine.
type F[T any] interface {
	M()
	// N is fine.
	N()
	String() string
	o()
}

type e struct{}

// WithTested is fine.
func WithTested() {}

// WithForgotten is not.
func WithForgotten() {}

func (E) WithMethod() {}
`
	tree := fstest.MapFS{
		"a/a.go":      &fstest.MapFile{Data: []byte(code)},
		"a/a_test.go": &fstest.MapFile{Data: []byte("package a_test\n\n// WithForgotten is only mentioned.\nvar _ = a.WithTested\n")},
		"b/b_test.go": &fstest.MapFile{Data: []byte("package b_test\n\nvar _ = a.WithForgotten\n")},
	}
	files, err := readTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	got := optionProblems(files)
	for _, f := range files {
		got = append(got, docProblems(f)...)
	}
	want := []string{
		"a/a.go:34: no test of the package uses the option WithForgotten",
		"a/a.go:3: exported A has no doc comment",
		"a/a.go:13: exported E has no doc comment",
		"a/a.go:16: exported Is has no doc comment",
		"a/a.go:21: exported M has no doc comment",
		"a/a.go:36: exported WithMethod has no doc comment",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems mismatch (-want +got):\n%s", diff)
	}
}
