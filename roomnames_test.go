// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// namedByText are the public names of types in rooms whose values no error text
// shows by their Go type: options, constants with a name of their own, and what an
// error shows as a text of its own.
var namedByText = map[string]bool{
	"columnar.AggregateFunction": true, "columnar.Aggregation": true, "columnar.Emission": true,
	"columnar.IPCLimits": true, "schema.Violation": true,
}

// roomNameProblems lists where users could read the name of a room: texts that
// spell one, and public names of types in rooms which print as the room's type.
// An error has its own text and is not shown by its type.
func roomNameProblems(files []*goFile) []string {
	rooms := map[string]string{} // the last element of an import path, by path
	for _, f := range files {
		if below(f.dir(), "internal") {
			rooms[module+"/"+f.dir()] = path.Base(f.dir())
		}
	}
	var names []string
	for _, name := range rooms {
		if name != "schema" {
			names = append(names, name)
		}
	}
	spelt := regexp.MustCompile(`\b(` + strings.Join(append(names, `internal/\w+`), "|") + `)\.[A-Z]\w`)
	var problems []string
	for _, f := range files {
		if f.isTest() || f.isExample() {
			continue
		}
		imported := map[string]string{} // rooms by their name in the file
		f.imports(func(spec *ast.ImportSpec, p string) {
			name := rooms[p]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if rooms[p] != "" {
				imported[name] = rooms[p]
			}
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && spelt.MatchString(text) {
					problems = append(problems, f.problem(n.Pos(), "the text %q names a room", text))
				}
			case *ast.TypeSpec:
				selector, ok := n.Type.(*ast.SelectorExpr)
				if !n.Assign.IsValid() || !ok || below(f.dir(), "internal") || !n.Name.IsExported() {
					break
				}
				owner, ok := selector.X.(*ast.Ident)
				if !ok || imported[owner.Name] == "" || strings.HasSuffix(n.Name.Name, "Error") {
					break
				}
				public := f.ast.Name.Name + "." + n.Name.Name
				if public != imported[owner.Name]+"."+selector.Sel.Name && !namedByText[public] {
					problems = append(problems, f.problem(n.Pos(), "values of %s print as %s.%s", public, imported[owner.Name], selector.Sel.Name))
				}
			}
			return true
		})
	}
	return problems
}

func TestUsersReadNoNamesOfRooms(t *testing.T) {
	files, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range roomNameProblems(files) {
		t.Error(problem)
	}
}

func TestRoomNamesAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files, err := readTree(fstest.MapFS{
		"internal/plan/plan.go": file("package plan\n\ntype Span struct{}\n\nvar text = \"a plan.Span\"\n"),
		"api/api.go": file("package api\n\nimport \"" + module + "/internal/plan\"\n\n" +
			"type Span = plan.Span\ntype FaultError = plan.Fault\n\nvar good, bad = \"a plan. Span\", \"a plan.Span\"\n"),
		"api/api_test.go": file("package api\n\nvar text = \"plan.Span\"\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"api/api.go:5: values of api.Span print as plan.Span",
		`api/api.go:8: the text "a plan.Span" names a room`,
		`internal/plan/plan.go:5: the text "a plan.Span" names a room`,
	}
	if diff := cmp.Diff(want, roomNameProblems(files)); diff != "" {
		t.Errorf("problems mismatch (-want +got):\n%s", diff)
	}
}
