// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package coordination_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	gotoken "go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var mutantsShow = flag.Bool("mutants.show", false, "print what the tests of each mutant say")

// forced are the files whose conditions are forced to true and to false, one at
// a time, and the tests that have to notice.
var forced = []struct{ files, tests string }{
	{"device_guard.go", "Device|Zero"},
	{"evaluate.go rank.go fold.go", "Zero|Evaluate|Rank|Fold|Tombstone|Newest|Ties|Built|Model|Candidate|Roster"},
}

// survivors are forced conditions that change nothing that a caller could see,
// by file and place: why not.
var survivors = map[string]string{}

// mutantPatience bounds the tests of one mutant, and waitPatience one wait of a
// test, which may be in vain.
const (
	mutantPatience = 90 * time.Second
	waitPatience   = 10 * time.Second
)

// switchboard is the file that forces one condition, which a variable of the
// environment names with its value.
const switchboard = `package coordination

import (
	"os"
	"strings"
)

var (
	mutant = os.Getenv("COORDINATION_MUTANT")
	forced = strings.HasSuffix(mutant, "=true")
	where  = strings.TrimSuffix(strings.TrimSuffix(mutant, "=true"), "=false")
)

func mutated(place string, holds bool) bool {
	if place == where {
		return forced
	}
	return holds
}
`

// TestMutants breaks the package in one way at a time. The tests have to fail each
// time.
func TestMutants(t *testing.T) {
	t.Run("conditions", mutateConditions)
	for _, m := range faults {
		t.Run("fault/"+strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s holds the text to change %d times, want once:\n%s", m.file, n, m.old)
			}
			binary := buildTests(t, map[string]string{m.file: strings.Replace(string(source), m.old, m.new, 1)})
			output, err := runTests(t, binary, m.tests, "", strings.Fields(m.flags)...)
			if *mutantsShow {
				t.Logf("%s", output)
			}
			if err == nil || !strings.Contains(output, m.says) {
				t.Errorf("the tests %s do not say %q (%v):\n%.4000s", m.tests, m.says, err, output)
			}
		})
	}
}

// mutateConditions builds the tests with every condition behind a switch and runs
// them once for each position of each switch.
func mutateConditions(t *testing.T) {
	overlay := map[string]string{"mutated.go": switchboard}
	places := make(map[string][]string) // of a group, by its tests
	for _, group := range forced {
		for _, file := range strings.Fields(group.files) {
			source, found := instrument(t, file)
			overlay[file] = source
			places[group.tests] = append(places[group.tests], found...)
		}
	}
	binary := buildTests(t, overlay)
	known := make(map[string]bool)
	for _, group := range forced {
		if output, err := runTests(t, binary, group.tests, ""); err != nil {
			t.Fatalf("the tests %s fail without a mutant:\n%s", group.tests, output)
		}
		for _, place := range places[group.tests] {
			for _, value := range []string{"true", "false"} {
				name := place + "=" + value
				known[name] = true
				if survivors[name] != "" {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if output, err := runTests(t, binary, group.tests, name); err == nil {
						t.Errorf("the mutant survives %s", group.tests)
					} else if *mutantsShow {
						t.Logf("%s", output)
					}
				})
			}
		}
	}
	for name := range survivors {
		if !known[name] {
			t.Errorf("there is no condition %q", name)
		}
	}
}

// instrument puts every condition of a file behind a switch, except that of an
// error, and returns the new source and the names of the switches.
func instrument(t *testing.T, file string) (source string, places []string) {
	t.Helper()
	fset := gotoken.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		wrap := func(cond ast.Expr) ast.Expr {
			var text bytes.Buffer
			if err := format.Node(&text, fset, cond); err != nil {
				t.Fatal(err)
			}
			if text.String() == "err != nil" {
				return cond
			}
			place := fmt.Sprintf("%s:%s:%s", strings.TrimSuffix(file, ".go"), function.Name.Name, strings.Join(strings.Fields(text.String()), "_"))
			places = append(places, place)
			return &ast.CallExpr{Fun: ast.NewIdent("mutated"), Args: []ast.Expr{&ast.BasicLit{Kind: gotoken.STRING, Value: fmt.Sprintf("%q", place)}, cond}}
		}
		ast.Inspect(function.Body, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.IfStmt:
				n.Cond = wrap(n.Cond)
			case *ast.SwitchStmt:
				if n.Tag == nil {
					for _, clause := range n.Body.List {
						for i, cond := range clause.(*ast.CaseClause).List {
							clause.(*ast.CaseClause).List[i] = wrap(cond)
						}
					}
				}
			}
			return true
		})
	}
	parsed.Comments = nil // their places moved
	var out bytes.Buffer
	if err := format.Node(&out, fset, parsed); err != nil {
		t.Fatal(err)
	}
	return out.String(), places
}

// buildTests builds the tests with other texts in the place of some files.
func buildTests(t *testing.T, texts map[string]string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for name, text := range texts {
		original, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, name)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "mutant.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+list, "-o", binary, ".")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not build: %v\n%s", err, output)
	}
	return binary
}

// slow matches the tests that simulate for long.
var slow = regexp.MustCompile(`Simulated`)

// runTests runs the tests of one mutant.
func runTests(t *testing.T, binary, tests, forced string, flags ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mutantPatience+10*time.Second)
	defer cancel()
	arguments := append([]string{"-test.count=1", "-test.failfast", "-test.timeout=" + mutantPatience.String(), "-test.run=" + tests}, flags...)
	if !slow.MatchString(tests) {
		arguments = append(arguments, "-test.skip=Simulated|Thousand|FromAProcess|Linearizable|Stack|AllocatesNothing")
	}
	command := exec.CommandContext(ctx, binary, arguments...)
	command.Env = append(os.Environ(), "COORDINATION_MUTANT="+forced, patienceVariable+"="+waitPatience.String())
	var text bytes.Buffer
	command.Stdout, command.Stderr = &text, &text
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run the tests of the mutant: %v", err)
	}
	if strings.Contains(text.String(), "no tests to run") {
		t.Fatalf("no test matches %s", tests)
	}
	return text.String(), err
}
