// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	maxLines     = 600
	maxTestLines = 1000
)

// goFile is one Go file of the tree.
type goFile struct {
	path string // slash-separated, below the root
	text []byte
	fset *token.FileSet
	ast  *ast.File
}

func (f *goFile) dir() string     { return path.Dir(f.path) }
func (f *goFile) isTest() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f *goFile) isExample() bool { return below(f.path, "examples") }

// problem reports something at pos.
func (f *goFile) problem(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// imports calls visit with each import of the file.
func (f *goFile) imports(visit func(spec *ast.ImportSpec, path string)) {
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			visit(spec, p)
		}
	}
}

// readTree parses the Go files of a tree. It leaves out what the go command
// leaves out, the folder build, and generated files.
func readTree(tree fs.FS) ([]*goFile, error) {
	var files []*goFile
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if p != "." && (p == "build" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		f := &goFile{path: p, text: text, fset: token.NewFileSet()}
		if f.ast, err = parser.ParseFile(f.fset, p, text, parser.ParseComments); err != nil {
			return err
		}
		if !ast.IsGenerated(f.ast) {
			files = append(files, f)
		}
		return nil
	})
	return files, err
}

// fileRules hold for each file by itself.
var fileRules = map[string]func(f *goFile) []string{
	"names say what a file holds":               fileNameProblems,
	"files stay readable in one go":             fileSizeProblems,
	"files begin with the licence":              licenceProblems,
	"code is ASCII":                             asciiProblems,
	"code that users link is free of tests":     testImportProblems,
	"only kafka files of coordination use it":   coordinationProblems,
	"comments tell what is":                     phraseProblems,
	"tests neither sleep nor skip":              waitProblems,
	"the library prints nothing by itself":      printProblems,
	"no assertion libraries, no mock makers":    mockProblems,
	"tests inside a package stand on their own": doubleProblems,
	"an error text has its prefix once":         prefixProblems,
}

// treeRules hold for all files together.
var treeRules = map[string]func(files []*goFile) []string{
	"every package has a comment":                   packageCommentProblems,
	"packages that start goroutines look for leaks": leakProblems,
}

func fileNameProblems(f *goFile) []string {
	banned := []string{"util", "utils", "helper", "helpers", "common", "misc", "support", "types", "models", "base"}
	stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
	for part := range strings.SplitSeq(f.dir(), "/") {
		if slices.Contains(banned, part) {
			return []string{fmt.Sprintf("%s: a folder named %s collects anything; name it for the one thing it holds", f.path, part)}
		}
	}
	if slices.Contains(banned, stem) {
		return []string{fmt.Sprintf("%s: a file named %s collects anything; name it for the one thing it holds", f.path, stem)}
	}
	return nil
}

func fileSizeProblems(f *goFile) []string {
	limit := maxLines
	if f.isTest() {
		limit = maxTestLines
	}
	if lines := bytes.Count(f.text, []byte("\n")); lines > limit {
		return []string{fmt.Sprintf("%s: %d lines, more than %d; it holds more than one thing", f.path, lines, limit)}
	}
	return nil
}

func licenceProblems(f *goFile) []string {
	if !bytes.HasPrefix(f.text, []byte("// SPDX-License-Identifier: Apache-2.0\n\n")) {
		return []string{f.path + ":1: the first line is not the licence line, or no blank line follows it"}
	}
	return nil
}

func asciiProblems(f *goFile) []string {
	var problems []string
	n := 0
	for line := range bytes.Lines(f.text) {
		n++
		if i := bytes.IndexFunc(line, func(r rune) bool { return r > 126 || r < 32 && r != '\t' && r != '\n' }); i >= 0 {
			problems = append(problems, fmt.Sprintf("%s:%d: byte %d is not printable ASCII; write an escape", f.path, n, i+1))
		}
	}
	return problems
}

func testImportProblems(f *goFile) []string {
	if f.isTest() || f.isExample() || below(f.dir(), "krabkatest") || below(f.dir(), "internal/kafkatest") || f.dir() == "internal/arrowtest" {
		return nil
	}
	var problems []string
	f.imports(func(spec *ast.ImportSpec, p string) {
		if below(p, "testing") || p == "net/http/httptest" || p == module+"/krabkatest" || p == module+"/internal/kafkatest" || p == module+"/internal/arrowtest" {
			problems = append(problems, f.problem(spec.Pos(), "imports %s: test code belongs in krabkatest or in a test file", p))
		}
	})
	return problems
}

func coordinationProblems(f *goFile) []string {
	if f.dir() != "coordination" || f.isTest() || strings.HasPrefix(path.Base(f.path), "kafka_") {
		return nil
	}
	var problems []string
	f.imports(func(spec *ast.ImportSpec, p string) {
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") && !strings.HasPrefix(p, module+"/internal/") {
			problems = append(problems, f.problem(spec.Pos(), "imports %s: only kafka_*.go of coordination may leave the standard library", p))
		}
	})
	return problems
}

func mockProblems(f *goFile) []string {
	var problems []string
	f.imports(func(spec *ast.ImportSpec, p string) {
		for _, banned := range []string{"github.com/stretchr/testify", "go.uber.org/mock", "github.com/golang/mock"} {
			if below(p, banned) {
				problems = append(problems, f.problem(spec.Pos(), "imports %s: compare values with go-cmp, use a fake with state", p))
			}
		}
	})
	return problems
}

func doubleProblems(f *goFile) []string {
	if !f.isTest() || f.isExample() || strings.HasSuffix(f.ast.Name.Name, "_test") || f.ast.Name.Name == "krabkatest" {
		return nil
	}
	var problems []string
	f.imports(func(spec *ast.ImportSpec, p string) {
		if p == module+"/krabkatest" {
			problems = append(problems, f.problem(spec.Pos(), "imports krabkatest inside the package: use an external _test package"))
		}
	})
	return problems
}

// phrases are words that tell of unfinished work or of what the code was.
var phrases = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`), "finish it or leave it out"},
	{regexp.MustCompile(`(?i)\b(not (yet )?implemented|unimplemented|placeholder|for simplicity|simplified version)\b`), "finish it or leave it out"},
	{regexp.MustCompile(`(?i)\b(no longer|previously|formerly|used to be|(pre|post)-fix|re-?sweep)\b`), "tell what is; history is git's"},
	{regexp.MustCompile(`(?i)\bnow (uses|returns|takes|has|does|calls|checks|handles|supports|works|fails|requires|accepts)\b`), "tell what is; history is git's"},
	{regexp.MustCompile(`(?i)\b(blazing(ly)?|seamless(ly)?|cutting-edge|robust(ly)?|elegant(ly)?|powerful)\b`), "state a fact instead of praise"},
	{regexp.MustCompile(`^// *[-=/*#]{4,}`), "a section that needs a banner is a file"},
}

func phraseProblems(f *goFile) []string {
	var problems []string
	for _, group := range f.ast.Comments {
		for _, comment := range group.List {
			for _, p := range phrases {
				if found := p.pattern.FindString(comment.Text); found != "" {
					problems = append(problems, f.problem(comment.Pos(), "comment says %q: %s", found, p.reason))
				}
			}
		}
	}
	return problems
}

// call returns the receiver or package and the name of a call like x.Name(),
// or the name alone.
func call(n ast.Node) (x, name string, ok bool) {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return "", "", false
	}
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		return "", fun.Name, true
	case *ast.SelectorExpr:
		if id, ok := fun.X.(*ast.Ident); ok {
			return id.Name, fun.Sel.Name, true
		}
	}
	return "", "", false
}

func waitProblems(f *goFile) []string {
	if !f.isTest() {
		return nil
	}
	fakeTime := false
	f.imports(func(_ *ast.ImportSpec, p string) { fakeTime = fakeTime || p == "testing/synctest" })
	var problems []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		x, name, _ := call(n)
		if x == "time" && name == "Sleep" && !fakeTime {
			problems = append(problems, f.problem(n.Pos(), "sleeps: wait for an event, or use testing/synctest"))
		}
		if slices.Contains([]string{"t", "b", "f", "tb"}, x) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name) {
			problems = append(problems, f.problem(n.Pos(), "skips: a test that cannot run fails"))
		}
		return true
	})
	return problems
}

func printProblems(f *goFile) []string {
	if f.isTest() || f.isExample() || f.ast.Name.Name == "main" {
		return nil
	}
	var problems []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		x, name, ok := call(n)
		if ok && (x == "fmt" || x == "log" || x == "") && slices.Contains([]string{"Print", "Printf", "Println", "print", "println"}, name) {
			problems = append(problems, f.problem(n.Pos(), "prints: the library speaks through errors, hooks and the caller's logger"))
		}
		return true
	})
	return problems
}

// prefixes are those of the errors of packages that quote their own errors in
// others of theirs.
var prefixes = map[string]string{"columnar": "columnar: ", "columnar/kafka": "kafka: "}

// prefixProblems finds errors that write the prefix and another error's text
// behind it, prefix and all.
func prefixProblems(f *goFile) []string {
	prefix, ok := prefixes[f.dir()]
	if !ok || f.isTest() {
		return nil
	}
	var problems []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		x, name, _ := call(n)
		if x != "fmt" {
			return true
		}
		args := n.(*ast.CallExpr).Args
		if name == "Fprintf" && len(args) > 0 {
			args = args[1:]
		}
		if len(args) == 0 {
			return true
		}
		literal, ok := args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		format, _ := strconv.Unquote(literal.Value)
		quotes := strings.HasPrefix(format, prefix) && strings.Contains(format, "%w")
		for _, arg := range args[1:] {
			field, ok := arg.(*ast.SelectorExpr)
			quotes = quotes || ok && slices.Contains([]string{"Cause", "cause", "err"}, field.Sel.Name) &&
				name != "Errorf" && !strings.HasPrefix(format, "%v")
		}
		if quotes {
			problems = append(problems, f.problem(n.Pos(), "quotes an error behind the prefix: use textPrefix, which takes the prefix off the quoted text"))
		}
		return true
	})
	return problems
}

func packageCommentProblems(files []*goFile) []string {
	commented := map[string]bool{} // by folder; false if there is code but no comment
	for _, f := range files {
		if f.isTest() {
			continue
		}
		doc := f.ast.Doc.Text()
		ok := strings.HasPrefix(doc, "Package "+f.ast.Name.Name+" ") || f.ast.Name.Name == "main" && doc != ""
		commented[f.dir()] = commented[f.dir()] || ok
	}
	var problems []string
	for dir, ok := range commented {
		if !ok {
			problems = append(problems, dir+": no package comment that begins with the package's name")
		}
	}
	return problems
}

func leakProblems(files []*goFile) []string {
	starts := map[string]string{} // folder to where its package starts a goroutine
	looks := map[string]bool{}
	for _, f := range files {
		if f.isTest() {
			f.imports(func(_ *ast.ImportSpec, p string) {
				if p == "go.uber.org/goleak" {
					looks[f.dir()] = true
				}
			})
			continue
		}
		if f.isExample() || f.ast.Name.Name == "main" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			_, name, _ := call(n)
			if _, ok := n.(*ast.GoStmt); ok || name == "Go" {
				starts[f.dir()] = f.problem(n.Pos(), "starts a goroutine, but no test of the package looks for leaks with goleak")
			}
			return true
		})
	}
	var problems []string
	for dir, problem := range starts {
		if !looks[dir] {
			problems = append(problems, problem)
		}
	}
	return problems
}

func TestSourceRules(t *testing.T) {
	files, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range fileRules {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				for _, problem := range rule(f) {
					t.Error(problem)
				}
			}
		})
	}
	for name, rule := range treeRules {
		t.Run(name, func(t *testing.T) {
			for _, problem := range rule(files) {
				t.Error(problem)
			}
		})
	}
}

// licence begins the files of the trees below.
const licence = "// SPDX-License-Identifier: Apache-2.0\n\n"

func TestSourceRulesCatchViolations(t *testing.T) {
	tests := []struct {
		name string
		tree map[string]string
		want []string
	}{
		{
			name: "a tree that keeps all rules",
			tree: map[string]string{
				"schema/doc.go":           licence + "// Package schema does.\npackage schema\n",
				"schema/wire.go":          licence + "package schema\n\nfunc run() { go run() }\n",
				"schema/leak_test.go":     licence + "package schema\n\nimport _ \"go.uber.org/goleak\"\n",
				"schema/time_test.go":     licence + "package schema\n\nimport _ \"testing/synctest\"\n\nfunc f() { time.Sleep(1) }\n",
				"krabkatest/doc.go":       licence + "// Package krabkatest does.\npackage krabkatest\n\nimport _ \"testing\"\n",
				"examples/one/main.go":    licence + "// Command one shows.\npackage main\n\nimport _ \"" + module + "/krabkatest\"\n\nfunc main() { println() }\n",
				"coordination/kafka_x.go": licence + "// Package coordination elects.\npackage coordination\n\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"\n",
				"schema/gen.pb.go":        "// Code generated by hand. DO NOT EDIT.\n\npackage schema\n\n// TODO\n",
				"build/util.go":           "package build\n",
				"schema/testdata/util.go": "package build\n",
			},
		},
		{
			name: "file and folder names",
			tree: map[string]string{
				"a/doc.go":          licence + "// Package a does.\npackage a\n",
				"a/helpers_test.go": licence + "package a\n",
				"a/utils.go":        licence + "package a\n",
				"common/wire.go":    licence + "// Package common does.\npackage common\n",
			},
			want: []string{
				"a/helpers_test.go: a file named helpers collects anything; name it for the one thing it holds",
				"a/utils.go: a file named utils collects anything; name it for the one thing it holds",
				"common/wire.go: a folder named common collects anything; name it for the one thing it holds",
			},
		},
		{
			name: "sizes",
			tree: map[string]string{
				"a/doc.go":      licence + "// Package a does.\npackage a\n" + strings.Repeat("\n", 597),
				"a/fit.go":      licence + "package a\n" + strings.Repeat("\n", 597),
				"a/big_test.go": licence + "package a\n" + strings.Repeat("\n", 998),
			},
			want: []string{
				"a/big_test.go: 1001 lines, more than 1000; it holds more than one thing",
				"a/doc.go: 601 lines, more than 600; it holds more than one thing",
			},
		},
		{
			name: "licence, characters and package comment",
			tree: map[string]string{
				"a/a.go": "// Package a does.\npackage a\n",
				"b/b.go": licence + "// The package b.\npackage b\n\nconst s = \"\u2019\"\n",
			},
			want: []string{
				"a/a.go:1: the first line is not the licence line, or no blank line follows it",
				"b/b.go:6: byte 12 is not printable ASCII; write an escape",
				"b: no package comment that begins with the package's name",
			},
		},
		{
			name: "imports",
			tree: map[string]string{
				"a/a.go":                licence + "// Package a does.\npackage a\n\nimport _ \"testing/fstest\"\nimport _ \"net/http/httptest\"\nimport _ \"" + module + "/krabkatest\"\n",
				"a/a_test.go":           licence + "package a\n\nimport _ \"" + module + "/krabkatest\"\nimport _ \"github.com/stretchr/testify/assert\"\n",
				"a/b_test.go":           licence + "package a_test\n\nimport _ \"" + module + "/krabkatest\"\n",
				"coordination/doc.go":   licence + "// Package coordination elects.\npackage coordination\n\nimport _ \"time\"\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"\n",
				"coordination/kafka.go": licence + "package coordination\n\nimport _ \"golang.org/x/sync/errgroup\"\n",
			},
			want: []string{
				"a/a.go:6: imports testing/fstest: test code belongs in krabkatest or in a test file",
				"a/a.go:7: imports net/http/httptest: test code belongs in krabkatest or in a test file",
				"a/a.go:8: imports " + module + "/krabkatest: test code belongs in krabkatest or in a test file",
				"a/a_test.go:5: imports krabkatest inside the package: use an external _test package",
				"a/a_test.go:6: imports github.com/stretchr/testify/assert: compare values with go-cmp, use a fake with state",
				"coordination/doc.go:7: imports github.com/twmb/franz-go/pkg/kgo: only kafka_*.go of coordination may leave the standard library",
				"coordination/kafka.go:5: imports golang.org/x/sync/errgroup: only kafka_*.go of coordination may leave the standard library",
			},
		},
		{
			name: "phrases in comments, not in code",
			tree: map[string]string{
				"a/a.go": licence + "// Package a does.\npackage a\n\n// TODO: more\nconst s = \"not implemented\"\n\n/* It now returns 1,\nwhich is simplified version. */\n// No longer used.\n// It is robust.\n//------\nvar now int // now is later\n",
			},
			want: []string{
				`a/a.go:12: comment says "robust": state a fact instead of praise`,
				`a/a.go:13: comment says "//------": a section that needs a banner is a file`,
				`a/a.go:6: comment says "TODO": finish it or leave it out`,
				`a/a.go:11: comment says "No longer": tell what is; history is git's`,
				`a/a.go:9: comment says "now returns": tell what is; history is git's`,
				`a/a.go:9: comment says "simplified version": finish it or leave it out`,
			},
		},
		{
			name: "calls",
			tree: map[string]string{
				"a/a.go":      licence + "// Package a does.\npackage a\n\nfunc f() { fmt.Println(1); println(2); fmt.Fprintln(w); go f() }\n",
				"a/a_test.go": licence + "package a\n\nfunc g() { time.Sleep(1); t.Skip(); tb.SkipNow(); r.Skip() }\n",
				"b/b.go":      licence + "// Package b does.\npackage b\n\nfunc f() { group.Go(f) }\n",
			},
			want: []string{
				"a/a.go:6: prints: the library speaks through errors, hooks and the caller's logger",
				"a/a.go:6: prints: the library speaks through errors, hooks and the caller's logger",
				"a/a.go:6: starts a goroutine, but no test of the package looks for leaks with goleak",
				"a/a_test.go:5: skips: a test that cannot run fails",
				"a/a_test.go:5: skips: a test that cannot run fails",
				"a/a_test.go:5: sleeps: wait for an event, or use testing/synctest",
				"b/b.go:6: starts a goroutine, but no test of the package looks for leaks with goleak",
			},
		},
		{
			name: "error texts",
			tree: map[string]string{
				"schema/doc.go":   licence + "// Package schema does.\npackage schema\n\nvar err = fmt.Errorf(\"columnar: %w\", io.EOF)\n",
				"columnar/doc.go": licence + "// Package columnar does.\npackage columnar\n",
				"columnar/a.go": licence + "package columnar\n\nvar err = fmt.Errorf(\"columnar: poll: %w\", io.EOF)\n" +
					"var text = fmt.Sprintf(\"columnar: %d: %v\", 1, e.Cause)\n\nfunc f() { fmt.Fprintf(w, \": %v\", e.cause) }\n" +
					"var plain = fmt.Errorf(\"columnar: row %d\", e.row)\nvar none = fmt.Sprint()\nvar row = fmt.Errorf(\"row 1: %w\", err)\nvar suffix = fmt.Sprintf(\"%v (row 1)\", e.Cause)\n",
			},
			want: []string{
				"columnar/a.go:5: quotes an error behind the prefix: use textPrefix, which takes the prefix off the quoted text",
				"columnar/a.go:6: quotes an error behind the prefix: use textPrefix, which takes the prefix off the quoted text",
				"columnar/a.go:8: quotes an error behind the prefix: use textPrefix, which takes the prefix off the quoted text",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range tt.tree {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			files, err := readTree(tree)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rule := range fileRules {
				for _, f := range files {
					got = append(got, rule(f)...)
				}
			}
			for _, rule := range treeRules {
				got = append(got, rule(files)...)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
