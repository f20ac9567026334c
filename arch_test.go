// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is the path of this module.
const module = "github.com/krabka-io/krabka-streams-go"

// ban says why a package must not reach an import path, directly or through
// other packages. The path covers everything below it.
type ban struct{ path, reason string }

// layer says what one package may import. Packages below internal are open to
// all, but what they import counts for whoever imports them.
type layer struct {
	pkg     string   // path below the module; "" is the root
	imports []string // packages of this module that it may reach
	bans    []ban
}

var (
	arrowBan = ban{"github.com/apache/arrow-go", "a program without columns must not link Arrow"}
	kafkaBan = ban{"github.com/twmb/franz-go", "only columnar/kafka and coordination talk to brokers, so that callers keep the choice of a client"}
	testBans = banAll("the doubles bring no module that the library does not need itself",
		"github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid",
		"github.com/anishathalye/porcupine", "github.com/twmb/franz-go/pkg/kfake")
	formatBans = banAll("schema formats are the business of schema and columnarschema alone",
		"github.com/hamba/avro", "github.com/twmb/avro", "google.golang.org/protobuf",
		"github.com/bufbuild/protocompile", "github.com/santhosh-tekuri/jsonschema")
)

// layers is the import table of the module.
var layers = []layer{
	{pkg: "", bans: []ban{arrowBan, kafkaBan}},
	{pkg: "schema", bans: []ban{arrowBan, kafkaBan}},
	{pkg: "columnar", bans: slices.Concat([]ban{kafkaBan}, formatBans)},
	{pkg: "columnar/kafka", imports: []string{"columnar"}, bans: formatBans},
	{pkg: "columnarschema", imports: []string{"schema", "columnar"}, bans: []ban{kafkaBan}},
	{pkg: "coordination", bans: slices.Concat([]ban{arrowBan}, formatBans)},
	{pkg: "krabkatest", imports: []string{"schema", "columnar", "coordination"}, bans: testBans},
}

// banAll bans several paths for one reason.
func banAll(reason string, paths ...string) []ban {
	bans := make([]ban, len(paths))
	for i, path := range paths {
		bans[i] = ban{path, reason}
	}
	return bans
}

// importProblems compares what packages reach with the table. deps maps the
// import path of each package of the module to all that it reaches.
func importProblems(table []layer, deps map[string][]string) []string {
	var problems []string
	known := map[string]bool{}
	for _, l := range table {
		path := strings.TrimSuffix(module+"/"+l.pkg, "/")
		known[path] = true
		reached, ok := deps[path]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: in the import table, but there is no such package", path))
			continue
		}
		for _, dep := range reached {
			if own, ok := strings.CutPrefix(dep, module+"/"); ok && !strings.HasPrefix(own, "internal/") && !slices.Contains(l.imports, own) {
				problems = append(problems, fmt.Sprintf("%s reaches %s: the import table does not allow it", path, dep))
			}
			for _, b := range l.bans {
				if below(dep, b.path) {
					problems = append(problems, fmt.Sprintf("%s reaches %s: %s", path, dep, b.reason))
				}
			}
		}
	}
	for path := range deps {
		own := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if !known[path] && !below(own, "internal") && !below(own, "examples") {
			problems = append(problems, fmt.Sprintf("%s: a public package that the import table does not name", path))
		}
	}
	slices.Sort(problems)
	return problems
}

// below reports whether path is root or lies below it.
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, problem := range importProblems(layers, listDeps(t)) {
		t.Error(problem)
	}
}

// listDeps asks the go command what the packages of the module reach.
func listDeps(t *testing.T) map[string][]string {
	t.Helper()
	deps := map[string][]string{}
	for line := range strings.Lines(goCommand(t, "list", "-f", `{{if .GoFiles}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./...")) {
		if fields := strings.Fields(line); len(fields) > 0 {
			deps[fields[0]] = fields[1:]
		}
	}
	return deps
}

// goCommand runs the go command in the module's root and returns what it
// prints.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func TestImportTableCatchesViolations(t *testing.T) {
	table := []layer{
		{pkg: "schema", bans: []ban{{"example.com/arrow", "no columns here"}}},
		{pkg: "columnar", imports: []string{"schema"}},
		{pkg: "gone"},
	}
	tests := []struct {
		name string
		deps map[string][]string
		want []string
	}{
		{
			name: "a banned path and what is below it, by its reason",
			deps: map[string][]string{
				module + "/schema":   {"fmt", "example.com/arrow", "example.com/arrow/array", "example.com/arrows"},
				module + "/columnar": {module + "/schema"},
				module + "/gone":     nil,
			},
			want: []string{
				module + "/schema reaches example.com/arrow/array: no columns here",
				module + "/schema reaches example.com/arrow: no columns here",
			},
		},
		{
			name: "a package of the module that the table does not allow, internal ones aside",
			deps: map[string][]string{
				module + "/schema":   {module + "/columnar", module + "/internal/plan"},
				module + "/columnar": nil,
				module + "/gone":     nil,
			},
			want: []string{module + "/schema reaches " + module + "/columnar: the import table does not allow it"},
		},
		{
			name: "a package that only the table knows, and one that it does not know",
			deps: map[string][]string{
				module + "/schema":         nil,
				module + "/columnar":       nil,
				module + "/extra":          nil,
				module + "/examples/one":   nil,
				module + "/internal/plan":  nil,
				module + "/examples/other": nil,
			},
			want: []string{
				module + "/extra: a public package that the import table does not name",
				module + "/gone: in the import table, but there is no such package",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, importProblems(table, tt.deps)); diff != "" {
				t.Errorf("importProblems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
