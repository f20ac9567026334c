// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
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
	compiled := compiledPackages(t)
	var text strings.Builder
	for _, l := range layers {
		if !l.public() {
			continue
		}
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

// compiledPackages imports the packages of the module, and those that they
// reach, from what the compiler wrote about them.
func compiledPackages(t *testing.T) types.Importer {
	t.Helper()
	exports := map[string]string{}
	for line := range strings.Lines(goCommand(t, "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...")) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		exports[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

// packageAPI returns a line for each exported declaration of pkg, sorted.
func packageAPI(pkg *types.Package) []string {
	w := apiWriter{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			w.line("const %s %s = %s", name, w.text(o.Type()), o.Val().ExactString())
		case *types.Var, *types.Func:
			w.line("%s", types.ObjectString(o, w.qualifier))
		case *types.TypeName:
			w.typeLines(o)
		}
	}
	slices.Sort(w.lines)
	return w.lines
}

// apiWriter collects the lines of one package.
type apiWriter struct {
	pkg   *types.Package
	lines []string
}

func (w *apiWriter) line(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// qualifier names the packages of other modules by their path, and those of this
// module outside w.pkg too.
func (w *apiWriter) qualifier(pkg *types.Package) string { return types.RelativeTo(w.pkg)(pkg) }

func (w *apiWriter) text(t types.Type) string { return types.TypeString(t, w.qualifier) }

// typeLines writes one exported type: the type itself and whatever a caller can
// select on its values, through embedded fields too. An alias of a type whose
// own package lists it has its header alone; an alias of one that is declared in
// a room below internal, which no list has, is written out like a type.
func (w *apiWriter) typeLines(name *types.TypeName) {
	t := name.Type()
	if name.IsAlias() {
		w.line("%s", types.ObjectString(name, w.qualifier))
		t = types.Unalias(t)
	}
	named, ok := t.(*types.Named)
	if !ok || name.IsAlias() && !hidden(named) {
		return
	}
	receiver := name.Name()
	if list := named.TypeParams(); list.Len() > 0 {
		var params []string
		for param := range list.TypeParams() {
			params = append(params, param.Obj().Name())
		}
		receiver += "[" + strings.Join(params, ", ") + "]"
	}
	header := "type " + w.text(named)
	unexported := ""
	if i, ok := named.Underlying().(*types.Interface); ok {
		for method := range i.Methods() {
			if !method.Exported() {
				unexported = " // has unexported methods"
				continue
			}
			w.line("method %s.%s%s", name.Name(), method.Name(), w.signature(method))
		}
		header += " interface" + unexported
	} else {
		if s, ok := named.Underlying().(*types.Struct); ok {
			header += " struct"
			w.fieldLines(name.Name(), s)
		} else {
			header += " " + w.text(named.Underlying())
		}
		w.methodLines(receiver, named)
	}
	if !name.IsAlias() {
		w.line("%s", header)
	}
}

// hidden reports whether a type is declared below internal of this module.
func hidden(named *types.Named) bool {
	pkg := named.Obj().Pkg()
	return pkg != nil && strings.HasPrefix(pkg.Path(), module+"/internal/")
}

// fieldLines writes the exported fields of a struct, and those that it takes
// over from the fields that it embeds.
func (w *apiWriter) fieldLines(owner string, s *types.Struct) {
	for field := range s.Fields() {
		if field.Exported() {
			embedded := ""
			if field.Embedded() {
				embedded = "embedded "
			}
			w.line("field %s.%s %s%s", owner, field.Name(), embedded, w.text(field.Type()))
		}
	}
	for _, field := range promotedFields(s) {
		w.line("field %s.%s promoted %s", owner, field.Name(), w.text(field.Type()))
	}
}

// promotedFields returns the exported fields that can be selected on a struct
// through the fields that it embeds, by name.
func promotedFields(s *types.Struct) []*types.Var {
	found := map[string]*types.Var{}
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		inner, ok := t.Underlying().(*types.Struct)
		if !ok || seen[t] {
			return
		}
		seen[t] = true
		for field := range inner.Fields() {
			if field.Exported() {
				object, index, _ := types.LookupFieldOrMethod(s, true, nil, field.Name())
				if selected, ok := object.(*types.Var); ok && selected == field && len(index) > 1 {
					found[field.Name()] = field
				}
			}
			if field.Embedded() {
				walk(field.Type())
			}
		}
	}
	for field := range s.Fields() {
		if field.Embedded() {
			walk(field.Type())
		}
	}
	fields := make([]*types.Var, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fields = append(fields, found[name])
	}
	return fields
}

// methodLines writes the exported methods of a type and of pointers to it, its
// own and those of the fields that it embeds.
func (w *apiWriter) methodLines(name string, named *types.Named) {
	values := types.NewMethodSet(named)
	pointers := types.NewMethodSet(types.NewPointer(named))
	for selection := range pointers.Methods() {
		method := selection.Obj().(*types.Func)
		if !method.Exported() {
			continue
		}
		receiver := "*" + name
		if values.Lookup(method.Pkg(), method.Name()) != nil {
			receiver = name
		}
		promoted := ""
		if len(selection.Index()) > 1 {
			promoted = "promoted "
		}
		w.line("method (%s) %s%s%s", receiver, promoted, method.Name(), w.signature(method))
	}
}

func (w *apiWriter) signature(method *types.Func) string {
	return strings.TrimPrefix(w.text(method.Type()), "func")
}

func TestAPIChangesAreNamed(t *testing.T) {
	const before = "package a // import \"m/a\"\nfunc F()\ntype T struct\n\npackage b // import \"m/b\"\nfunc F()\n"
	const after = "package a // import \"m/a\"\nfunc F(int)\ntype T struct\n\npackage b // import \"m/b\"\nfunc F()\n"
	want := []string{`"m/a": func F(): gone from the API`, `"m/a": func F(int): new in the API`}
	if diff := cmp.Diff(want, apiChanges(before, after)); diff != "" {
		t.Errorf("apiChanges mismatch (-want +got):\n%s", diff)
	}
}

func TestAPIListHasWhatACallerCanSelect(t *testing.T) {
	const below = `package room
type Detail struct { Reason string; hidden int }
func (d *Detail) Error() string { return d.Reason }
`
	const above = `package a
import "` + module + `/internal/room"

type Problem = room.Detail
type Number = int
type base struct { Shared string; own int; deep }
type deep struct { Deep string; Name string }
func (*base) Close() error { return nil }
func (base) Len() int { return 0 }
func (base) lost() {}
type Member struct { *base; Name string; Exported }
type Exported struct{}
func (Member) Send() {}
type Generic[T any, U comparable] struct { base }
type Seam interface { Poll() error; sealed() }
type hidden struct { Seen int }
`
	files := token.NewFileSet()
	room := checked(t, files, module+"/internal/room", below, nil)
	got := packageAPI(checked(t, files, "example.com/a", above, importerFunc(func(string) (*types.Package, error) { return room, nil })))
	want := []string{
		"field Generic.Deep promoted string",
		"field Generic.Name promoted string",
		"field Generic.Shared promoted string",
		"field Member.Deep promoted string",
		"field Member.Exported embedded Exported",
		"field Member.Name string",
		"field Member.Shared promoted string",
		"field Problem.Reason string",
		"method (*Generic[T, U]) promoted Close() error",
		"method (*Problem) Error() string",
		"method (Generic[T, U]) promoted Len() int",
		"method (Member) Send()",
		"method (Member) promoted Close() error",
		"method (Member) promoted Len() int",
		"method Seam.Poll() error",
		"type Exported struct",
		"type Generic[T any, U comparable] struct",
		"type Member struct",
		"type Number = int",
		"type Problem = " + module + "/internal/room.Detail",
		"type Seam interface // has unexported methods",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packageAPI mismatch (-want +got):\n%s", diff)
	}
}

// importerFunc is an importer of packages that are at hand.
type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

// checked compiles a package of one file.
func checked(t *testing.T, files *token.FileSet, path, code string, imports types.Importer) *types.Package {
	t.Helper()
	file, err := parser.ParseFile(files, path+".go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(path, files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
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
