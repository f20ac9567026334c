// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package coordination_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var mutantsShow = flag.Bool("mutants.show", false, "print what the tests of each mutant say")

// mutant is one deliberate fault: a piece of the package, or of the simulated
// cluster, that says something else. The named tests have to notice.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // a regular expression, as for go test -run
	says     string // what a test that notices says
	seeds    int    // how many elections are simulated, if not mutantSeeds
	alone    bool   // the simulation says nothing else
	steady   bool   // elections without faults are simulated
	hangs    bool   // the tests do not end, and that is how they notice
}

const (
	// mutantSeeds is how many elections are simulated to kill a mutant.
	mutantSeeds = 200

	// mutantPatience bounds the tests of one mutant.
	mutantPatience = 90 * time.Second

	// waitPatience bounds one wait of a test, which may be in vain.
	waitPatience = 30 * time.Second

	// hangPatience bounds the tests of a mutant that hangs.
	hangPatience = 5 * time.Second
)

// TestMutants builds the tests of the package once for every mutant, with the
// changed file laid over the real one, and expects the named tests to fail for
// the reason that the mutant gives them.
func TestMutants(t *testing.T) {
	all := slices.Concat(ruleMutants, termMutants, kafkaMutants, invariantMutants)
	names := make(map[string]bool)
	var tests []string
	for _, m := range all {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		tests = append(tests, m.tests)
	}
	t.Run("original", func(t *testing.T) {
		slices.Sort(tests)
		original := mutant{file: "doc.go", tests: strings.Join(slices.Compact(tests), "|")}
		output, err := runTests(t, buildTests(t, original), original)
		if err != nil {
			t.Fatalf("the tests fail without a mutant:\n%s", output)
		}
	})
	if t.Failed() {
		return
	}
	for _, m := range all {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			m.check(t)
		})
	}
}

// check expects that the tests kill the mutant.
func (m mutant) check(t *testing.T) {
	output, err := runTests(t, buildTests(t, m), m)
	if *mutantsShow {
		t.Logf("%s\n%s", m.name, output)
	}
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(output, "no tests to run"):
		t.Fatalf("no test matches %s", m.tests)
	case err == nil:
		t.Fatalf("the mutant survives %s", m.tests)
	case !errors.As(err, &exit):
		t.Fatalf("run the tests of the mutant: %v", err)
	}
	if timed := strings.Contains(output, "panic: test timed out"); timed != m.hangs {
		t.Errorf("the tests ran out of time: %t, want %t:\n%.4000s", timed, m.hangs, output)
	}
	if m.says == "" || !strings.Contains(output, m.says) {
		t.Errorf("the tests do not say %q:\n%.4000s", m.says, output)
	}
	if m.alone {
		for _, problem := range simProblem.FindAllStringSubmatch(output, -1) {
			if problem[1] != m.says {
				t.Errorf("the simulation says more than %q: %s", m.says, problem[0])
			}
		}
	}
}

// simProblem matches a line about an invariant that did not hold.
var simProblem = regexp.MustCompile(`(?m)^\s*[0-9.hmsn\x{b5}]+: \[(.*?)\].*$`)

// buildTests builds the named tests with the change of a mutant. Test files
// that they do not need are left out, which takes most of the time.
func buildTests(t *testing.T, m mutant) (binary string) {
	t.Helper()
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); m.old != "" && n != 1 {
		t.Fatalf("%s holds the text to change %d times, want once:\n%s", m.file, n, m.old)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	lay := func(name, text string) {
		original, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, name)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, without := range testFiles().without(m.tests) {
		lay(name, without)
	}
	lay(m.file, strings.Replace(string(source), m.old, m.new, 1))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "mutant.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-gcflags=-N -l -dwarf=false", "-ldflags=-s -w",
		"-overlay="+list, "-o", binary, ".")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not build: %v\n%s", err, output)
	}
	return binary
}

// testFile is a file of tests: what it declares, and what it mentions.
type testFile struct {
	name, pkg string
	declares  []string
	mentions  map[string]bool
}

type testFileList []testFile

// testFiles parses the test files of the package.
var testFiles = sync.OnceValue(func() (files testFileList) {
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "mutants_") {
			continue
		}
		parsed, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			panic(err)
		}
		file := testFile{name: name, pkg: parsed.Name.Name, mentions: make(map[string]bool)}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					file.declares = append(file.declares, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						file.declares = append(file.declares, s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							file.declares = append(file.declares, name.Name)
						}
					}
				}
			}
		}
		keys := make(map[*ast.Ident]bool) // of composite literals: fields
		ast.Inspect(parsed, func(node ast.Node) bool {
			if pair, ok := node.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok {
					keys[key] = true
				}
			}
			return true
		})
		for _, id := range parsed.Unresolved {
			if !keys[id] {
				file.mentions[id.Name] = true
			}
		}
		files = append(files, file)
	}
	return files
})

// plainTestMain stands in for a TestMain that starts other programs too.
const plainTestMain = `package coordination_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
`

// without returns the files that the tests of a pattern do not need, with an
// empty file in the place of each.
func (files testFileList) without(pattern string) map[string]string {
	var starts []string
	for _, alternative := range strings.Split(pattern, "|") {
		start, _, _ := strings.Cut(alternative, "/")
		starts = append(starts, start)
	}
	wanted := regexp.MustCompile(strings.Join(starts, "|"))
	needed := make(map[string]bool)
	var queue testFileList
	for _, file := range files {
		if slices.ContainsFunc(file.declares, func(name string) bool { return strings.HasPrefix(name, "Test") && wanted.MatchString(name) }) {
			needed[file.name] = true
			queue = append(queue, file)
		}
	}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		for _, file := range files {
			if !needed[file.name] && slices.ContainsFunc(file.declares, func(name string) bool { return next.mentions[name] }) {
				needed[file.name] = true
				queue = append(queue, file)
			}
		}
	}
	empty := make(map[string]string)
	for _, file := range files {
		switch {
		case needed[file.name]:
		case slices.Contains(file.declares, "TestMain"):
			empty[file.name] = plainTestMain
		default:
			empty[file.name] = "package " + file.pkg + "\n"
		}
	}
	return empty
}

// runTests runs the tests of a mutant.
func runTests(t *testing.T, binary string, m mutant) (output string, err error) {
	t.Helper()
	patience, seeds := mutantPatience, mutantSeeds
	if m.hangs {
		patience = hangPatience
	}
	if m.seeds > 0 {
		seeds = m.seeds
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	defer cancel()
	arguments := []string{"-test.count=1", "-test.timeout=" + patience.String(), "-test.run=" + m.tests}
	if strings.Contains(m.tests, "TestSimulatedElections") {
		arguments = append(arguments, "-sim.seeds="+strconv.Itoa(seeds), "-sim.steady="+strconv.FormatBool(m.steady))
	}
	command := exec.CommandContext(ctx, binary, arguments...)
	command.Env = append(os.Environ(), patienceVariable+"="+waitPatience.String())
	var text bytes.Buffer
	command.Stdout, command.Stderr = &text, &text
	err = command.Run()
	return text.String(), err
}
