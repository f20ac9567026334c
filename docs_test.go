// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
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

// page is one Markdown file.
type page struct {
	path     string
	text     string   // without fenced code
	fences   []fence  // in order
	headings []string // without their marks
}

// fence is one block of fenced code.
type fence struct {
	language string
	line     int
	code     string
}

// readPages reads the Markdown files of the root, docs and examples.
func readPages(tree fs.FS) ([]*page, error) {
	var pages []*page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		paths, err := fs.Glob(tree, pattern)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			text, err := fs.ReadFile(tree, p)
			if err != nil {
				return nil, err
			}
			pages = append(pages, parsePage(p, string(text)))
		}
	}
	return pages, nil
}

func parsePage(path, text string) *page {
	p := &page{path: path}
	var (
		prose strings.Builder
		open  *fence
		n     int
	)
	for line := range strings.Lines(text) {
		n++
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &fence{language: mark, line: n}
		case isFence:
			p.fences = append(p.fences, *open)
			open = nil
		case open != nil:
			open.code += line
		default:
			if hashes, heading, ok := strings.Cut(line, " "); ok && strings.Trim(hashes, "#") == "" && hashes != "" {
				p.headings = append(p.headings, strings.TrimSpace(heading))
			}
			prose.WriteString(line)
		}
	}
	p.text = prose.String()
	return p
}

// docRules hold for the pages, beside the code and the tree that they are about.
var docRules = map[string]func(tree fs.FS, pages []*page, code []*goFile) []string{
	"code in pages is compiled code":       fenceProblems,
	"links lead somewhere":                 linkProblems,
	"errors in headings exist":             troubleProblems,
	"errors have their trouble described":  errorProblems,
	"code in pages has a language":         languageProblems,
	"settings are listed":                  settingProblems,
	"commands are targets":                 commandProblems,
	"every page is in the index":           indexProblems,
	"pages promise nothing":                promiseProblems,
	"the list of changes has its sections": changelogProblems,
	"dependencies have their purpose":      dependencyProblems,
}

// fenceProblems finds Go code that no Go file of the module contains, white
// space aside.
func fenceProblems(_ fs.FS, pages []*page, code []*goFile) []string {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	var all strings.Builder
	for _, f := range code {
		all.WriteString(squeeze(string(f.text)) + "\n")
	}
	compiled := all.String()
	var problems []string
	for _, p := range pages {
		for _, f := range p.fences {
			if f.language == "go" && !strings.Contains(compiled, squeeze(f.code)) {
				problems = append(problems, fmt.Sprintf("%s:%d: no Go file contains this code; quote an example that runs", p.path, f.line))
			}
		}
	}
	return problems
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// slug returns the anchor that a heading gets.
func slug(heading string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func linkProblems(tree fs.FS, pages []*page, _ []*goFile) []string {
	anchors := map[string][]string{}
	for _, p := range pages {
		for _, heading := range p.headings {
			anchors[p.path] = append(anchors[p.path], slug(heading))
		}
	}
	var problems []string
	for _, p := range pages {
		for _, match := range link.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			target, anchor, hasAnchor := strings.Cut(match[1], "#")
			target = path.Join(path.Dir(p.path), target)
			if strings.HasPrefix(match[1], "#") {
				target = p.path
			}
			if _, err := fs.Stat(tree, target); err != nil {
				problems = append(problems, fmt.Sprintf("%s: link to %s: there is no %s", p.path, match[1], target))
			} else if hasAnchor && !slices.Contains(anchors[target], anchor) {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s has no such heading", p.path, match[1], target))
			}
		}
	}
	return problems
}

// troubleProblems finds headings of docs/troubleshooting.md in code font that
// no error text contains. Three dots stand for what varies.
func troubleProblems(_ fs.FS, pages []*page, code []*goFile) []string {
	var texts []string
	for _, f := range code {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					// What textPrefix.Wrap makes of it is an error text too.
					texts = append(texts, text, prefixes[f.dir()]+text+": ")
				}
			}
			return true
		})
	}
	var problems []string
	for _, p := range pages {
		if p.path != "docs/troubleshooting.md" {
			continue
		}
		for _, heading := range p.headings {
			message, ok := strings.CutPrefix(heading, "`")
			if !ok {
				continue
			}
			parts := strings.Split(strings.TrimSuffix(message, "`"), "...")
			if !slices.ContainsFunc(texts, func(text string) bool { return containsInOrder(text, parts) }) {
				problems = append(problems, fmt.Sprintf("%s: no error text of the source has %q", p.path, message[:len(message)-1]))
			}
		}
	}
	return problems
}

// containsInOrder reports whether text has all parts, one behind the other.
func containsInOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// errorProblems finds exported error types and values of the packages around
// runners that docs/troubleshooting.md does not name.
func errorProblems(_ fs.FS, pages []*page, code []*goFile) []string {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.path == "docs/troubleshooting.md" })
	if i < 0 {
		return nil
	}
	var problems []string
	for _, f := range code {
		if f.isTest() || !slices.Contains([]string{"columnar", "columnar/kafka"}, f.dir()) {
			continue
		}
		for _, name := range exportedErrors(f.ast) {
			if !strings.Contains(pages[i].text, name+"`") {
				problems = append(problems, fmt.Sprintf("%s: does not say what to do about %s", pages[i].path, name))
			}
		}
	}
	return problems
}

// exportedErrors returns the names of exported types with a method Error, and of
// exported variables that begin with Err.
func exportedErrors(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil || decl.Name.Name != "Error" {
				continue
			}
			receiver := decl.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			if name, ok := receiver.(*ast.Ident); ok && name.IsExported() {
				names = append(names, name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR && strings.HasPrefix(value.Names[0].Name, "Err") {
					names = append(names, value.Names[0].Name)
				}
			}
		}
	}
	return names
}

// settings are the types of the options that a service is run with.
var settings = []string{"GroupRunnerOption", "CutReaderOption", "FileStateStoreOption", "kgo.Opt"}

// settingProblems finds options of the packages around runners that
// docs/operations.md does not name.
func settingProblems(_ fs.FS, pages []*page, code []*goFile) []string {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.path == "docs/operations.md" })
	if i < 0 {
		return nil
	}
	var problems []string
	for _, f := range code {
		if f.isTest() || !slices.Contains([]string{"columnar", "columnar/kafka"}, f.dir()) {
			continue
		}
		for _, decl := range f.ast.Decls {
			option, ok := decl.(*ast.FuncDecl)
			if !ok || option.Recv != nil || !strings.HasPrefix(option.Name.Name, "With") || option.Type.Results == nil {
				continue
			}
			if !slices.Contains(settings, types.ExprString(option.Type.Results.List[0].Type)) {
				continue
			}
			if !strings.Contains(pages[i].text, "`"+option.Name.Name+"`") {
				problems = append(problems, fmt.Sprintf("%s: does not list the setting %s", pages[i].path, option.Name.Name))
			}
		}
	}
	return problems
}

// languageProblems finds fenced code without a language, which could be Go code
// that nothing compiles.
func languageProblems(_ fs.FS, pages []*page, _ []*goFile) []string {
	var problems []string
	for _, p := range pages {
		for _, f := range p.fences {
			if f.language == "" {
				problems = append(problems, fmt.Sprintf("%s:%d: the code has no language; text is one", p.path, f.line))
			}
		}
	}
	return problems
}

var (
	makeCommand = regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)")
	makeTarget  = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// commandProblems finds make commands whose target the Makefile lacks.
func commandProblems(tree fs.FS, pages []*page, _ []*goFile) []string {
	makefile, err := fs.ReadFile(tree, "Makefile")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{err.Error()}
	}
	targets := map[string]bool{}
	for _, match := range makeTarget.FindAllSubmatch(makefile, -1) {
		targets[string(match[1])] = true
	}
	var problems []string
	for _, p := range pages {
		text := p.text
		for _, f := range p.fences {
			if f.language != "go" {
				text += f.code
			}
		}
		for _, match := range makeCommand.FindAllStringSubmatch(text, -1) {
			if !targets[match[1]] {
				problems = append(problems, fmt.Sprintf("%s: the Makefile has no target %s", p.path, match[1]))
			}
		}
	}
	return problems
}

// indexProblems finds pages of docs to which docs/index.md does not link.
func indexProblems(_ fs.FS, pages []*page, _ []*goFile) []string {
	linked := map[string]bool{"docs/index.md": true}
	for _, p := range pages {
		if p.path == "docs/index.md" {
			for _, match := range link.FindAllStringSubmatch(p.text, -1) {
				linked[path.Join("docs", match[1])] = true
			}
		}
	}
	var problems []string
	for _, p := range pages {
		if path.Dir(p.path) == "docs" && !linked[p.path] {
			problems = append(problems, p.path+": docs/index.md does not link to it")
		}
	}
	return problems
}

var promise = regexp.MustCompile(`\b(TODO|FIXME|TBD)\b|(?i)\b(coming soon|placeholder|lorem ipsum|blazing(ly)?|seamless(ly)?)\b`)

func promiseProblems(_ fs.FS, pages []*page, _ []*goFile) []string {
	var problems []string
	for _, p := range pages {
		for _, found := range promise.FindAllString(p.text, -1) {
			problems = append(problems, fmt.Sprintf("%s: says %q: describe what is there", p.path, found))
		}
	}
	return problems
}

// changelogProblems checks the form of the list of changes: Unreleased first,
// and under each release only the kinds of change that it is sorted by.
func changelogProblems(_ fs.FS, pages []*page, _ []*goFile) []string {
	kinds := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	release := regexp.MustCompile(`^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$`)
	var problems []string
	for _, p := range pages {
		if p.path != "CHANGELOG.md" {
			continue
		}
		for i, heading := range p.headings {
			ok := slices.Contains(kinds, heading) || release.MatchString(heading)
			if i == 0 {
				ok = heading == "Changelog"
			} else if i == 1 {
				ok = heading == "[Unreleased]"
			}
			if !ok {
				problems = append(problems, fmt.Sprintf("%s: heading %q is out of place", p.path, heading))
			}
		}
	}
	return problems
}

var requirement = regexp.MustCompile(`(?m)^\t([^ /]+/)?(\S+) v\S+$`)

// dependencyProblems finds direct requirements of go.mod that the table in
// docs/architecture.md does not name, by their path or its last element.
func dependencyProblems(tree fs.FS, pages []*page, _ []*goFile) []string {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.path == "docs/architecture.md" })
	if i < 0 {
		return nil
	}
	gomod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for _, match := range requirement.FindAllStringSubmatch(string(gomod), -1) {
		name := match[2]
		if !strings.Contains(pages[i].text, name) && !strings.Contains(pages[i].text, "`"+path.Base(name)+"`") {
			problems = append(problems, fmt.Sprintf("%s: does not say what %s%s is for", pages[i].path, match[1], name))
		}
	}
	return problems
}

func TestDocs(t *testing.T) {
	tree := os.DirFS(".")
	pages, err := readPages(tree)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pages, func(p *page) bool { return p.path == "README.md" }) {
		t.Error("README.md is not among the pages")
	}
	code, err := readTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range docRules {
		t.Run(name, func(t *testing.T) {
			for _, problem := range rule(tree, pages, code) {
				t.Error(problem)
			}
		})
	}
}

func TestDocRulesCatchViolations(t *testing.T) {
	tests := []struct {
		name string
		tree map[string]string
		want []string
	}{
		{
			name: "pages that keep all rules",
			tree: map[string]string{
				"README.md":               "# Name\n\n[docs](docs/index.md), [part](docs/a.md#one-more-part), [here](#name), [out](https://example.com/x)\n\n```go\nx :=\n  1\n```\n\n```sh\nmake test\n```\n",
				"CHANGELOG.md":            "# Changelog\n\n## [Unreleased]\n\n### Added\n\n## [0.1.0] - 2026-01-31\n",
				"Makefile":                "test: build ## Test\n",
				"docs/index.md":           "[a](a.md) [t](troubleshooting.md) [r](architecture.md) [o](operations.md)\n",
				"docs/operations.md":      "`WithThing`\n",
				"docs/architecture.md":    "`o/one`, `two`\n",
				"go.mod":                  "require (\n\tgithub.com/o/one v1.0.0\n\tgithub.com/o/two v1.0.0\n\tgithub.com/o/three v1.0.0 // indirect\n)\n",
				"docs/a.md":               "## One `more` part\n\nRun `make test`.\n",
				"docs/troubleshooting.md": "# Trouble\n\n## `schema: ... is lost`\n\nA `TwoError` or `columnar.ErrOne`.\n",
				"a/a.go":                  "package a\n\nfunc f() { x := 1\n_ = x }\n\nconst s = \"schema: %d is lost: %v\"\n",
				"columnar/errors.go":      "package columnar\n\nvar ErrOne error\n\ntype TwoError struct{}\n\nfunc (*TwoError) Error() string { return \"\" }\n\nfunc WithThing() GroupRunnerOption { return nil }\n\nfunc WithColumns() *Op { return nil }\n",
			},
		},
		{
			name: "pages that break them",
			tree: map[string]string{
				"README.md":               "# Name\n\n[docs](docs/none.md), [part](docs/a.md#two), [here](#nothing)\n\n```go\nx := 2\n```\n\nRun `make nothing`. TODO: more, coming soon.\n\n```\ny := 2\n```\n",
				"CHANGELOG.md":            "# Changelog\n\n## [0.1.0] - 2026-01-31\n\n## Added\n\n## Novelties\n",
				"Makefile":                "test: build ## Test\n",
				"docs/index.md":           "[t](troubleshooting.md) [r](architecture.md) [o](operations.md)\n",
				"docs/operations.md":      "WithThing\n",
				"docs/architecture.md":    "`one`\n",
				"go.mod":                  "require (\n\tgithub.com/o/one v1.0.0\n\tgo.uber.org/two v1.0.0\n)\n",
				"docs/a.md":               "## One\n",
				"docs/troubleshooting.md": "# Trouble\n\n## `schema: is lost ... %d`\n",
				"a/a.go":                  "package a\n\nfunc f() { x := 1; _ = x }\n\nconst s = \"schema: %d is lost: %v\"\n",
				"columnar/kafka/a.go":     "package kafka\n\nfunc WithThing() kgo.Opt { return nil }\n\nvar ErrOne, other error\n\ntype TwoError struct{}\n\nfunc (*TwoError) Error() string { return \"\" }\n",
			},
			want: []string{
				`CHANGELOG.md: heading "Novelties" is out of place`,
				`CHANGELOG.md: heading "[0.1.0] - 2026-01-31" is out of place`,
				"README.md: link to #nothing: README.md has no such heading",
				"README.md: link to docs/a.md#two: docs/a.md has no such heading",
				"README.md: link to docs/none.md: there is no docs/none.md",
				`README.md: says "TODO": describe what is there`,
				`README.md: says "coming soon": describe what is there`,
				"README.md: the Makefile has no target nothing",
				"README.md:11: the code has no language; text is one",
				"README.md:5: no Go file contains this code; quote an example that runs",
				"docs/architecture.md: does not say what go.uber.org/two is for",
				"docs/a.md: docs/index.md does not link to it",
				"docs/operations.md: does not list the setting WithThing",
				"docs/troubleshooting.md: does not say what to do about ErrOne",
				"docs/troubleshooting.md: does not say what to do about TwoError",
				`docs/troubleshooting.md: no error text of the source has "schema: is lost ... %d"`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range tt.tree {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			pages, err := readPages(tree)
			if err != nil {
				t.Fatal(err)
			}
			code, err := readTree(tree)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rule := range docRules {
				got = append(got, rule(tree, pages, code)...)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
