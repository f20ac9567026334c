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

// layer says what one package may import in its files that are not tests.
type layer struct {
	pkg     string   // path below the module; "" is the root
	imports []string // packages of this module that its files may import
	uses    []string // modules, or folders of them, outside the standard library that its files may import
	bans    []ban    // paths that must not be reached, also not through other packages
}

const (
	arrowModule  = "github.com/apache/arrow-go/v18"
	franzModule  = "github.com/twmb/franz-go"
	protoModule  = "google.golang.org/protobuf"
	hambaModule  = "github.com/hamba/avro/v2"
	protoParser  = "github.com/bufbuild/protocompile"
	jsonSchema   = "github.com/santhosh-tekuri/jsonschema/v6"
	klauspost    = "github.com/klauspost/compress"
	lz4Module    = "github.com/pierrec/lz4/v4"
	syncModule   = "golang.org/x/sync"
	embeddedFake = "github.com/twmb/franz-go/pkg/kfake"
)

var (
	arrowBan = ban{"github.com/apache/arrow-go", "a program without columns must not link Arrow"}
	kafkaBan = ban{franzModule, "only columnar/kafka and coordination talk to brokers, so that callers keep the choice of a client"}
	testBans = banAll("the doubles bring no module that the library does not need itself",
		"github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid",
		"github.com/anishathalye/porcupine", embeddedFake)
	formatBans = banAll("schema formats are the business of schema and columnarschema alone",
		"github.com/hamba/avro", "github.com/twmb/avro", protoModule,
		protoParser, "github.com/santhosh-tekuri/jsonschema")
)

// layers is the import table of the module. Its order is that of docs/api.txt:
// the public packages first, then the rooms below internal.
var layers = []layer{
	{pkg: "", bans: []ban{arrowBan, kafkaBan}},
	{pkg: "schema",
		imports: []string{"internal/avroplan", "internal/avrovalue", "internal/avrovalue/schema", "internal/jsoncheck", "internal/prototext"},
		uses:    []string{hambaModule, protoModule, jsonSchema},
		bans:    []ban{arrowBan, kafkaBan}},
	{pkg: "columnar",
		imports: []string{"columnar/expr", "internal/arrays", "internal/barrierlog", "internal/errtext", "internal/eventtime", "internal/grouping", "internal/headercol", "internal/ipcstream", "internal/joining", "internal/journal", "internal/jsonrows", "internal/jsontable", "internal/keytable", "internal/metacols", "internal/namedcols", "internal/statefile"},
		uses:    []string{arrowModule, klauspost, syncModule},
		bans:    slices.Concat([]ban{kafkaBan}, formatBans)},
	{pkg: "columnar/expr",
		imports: []string{"internal/arrays", "internal/decimals", "internal/metacols", "internal/namedcols", "internal/numtext"},
		uses:    []string{arrowModule},
		bans:    slices.Concat([]ban{kafkaBan}, formatBans)},
	{pkg: "columnar/kafka",
		imports: []string{"columnar", "internal/errtext"},
		uses:    []string{franzModule},
		bans:    formatBans},
	{pkg: "columnar/stream", imports: []string{"columnar"}, uses: []string{arrowModule}, bans: slices.Concat([]ban{kafkaBan}, formatBans)},
	{pkg: "columnarschema",
		imports: []string{"schema", "columnar", "internal/arrays", "internal/avroplan", "internal/avrovalue", "internal/columnset", "internal/errtext", "internal/jsoncheck", "internal/protoplan"},
		uses:    []string{arrowModule, hambaModule, protoModule},
		bans:    []ban{kafkaBan}},
	{pkg: "coordination",
		uses: []string{franzModule},
		bans: slices.Concat([]ban{arrowBan}, formatBans)},
	{pkg: "krabkatest",
		imports: []string{"schema", "columnar", "coordination", "internal/registrydouble"},
		uses:    []string{arrowModule},
		bans:    testBans},

	{pkg: "internal/arrays", imports: []string{"internal/numtext"}, uses: []string{arrowModule}},
	{pkg: "internal/arrowtest", uses: []string{arrowModule, "github.com/google/go-cmp"}},
	{pkg: "internal/avroplan"},
	{pkg: "internal/avrovalue", imports: []string{"internal/avroplan", "internal/avrovalue/schema"}},
	{pkg: "internal/avrovalue/schema"},
	{pkg: "internal/barrierlog"},
	{pkg: "internal/columnset", uses: []string{arrowModule}},
	{pkg: "internal/decimals", imports: []string{"internal/arrays", "internal/numtext"}, uses: []string{arrowModule}},
	{pkg: "internal/errtext"},
	{pkg: "internal/eventtime", imports: []string{"internal/arrays", "internal/namedcols"}, uses: []string{arrowModule}},
	{pkg: "internal/grouping",
		imports: []string{"internal/arrays", "internal/decimals", "internal/eventtime", "internal/ipcstream", "internal/keytable", "internal/metacols", "internal/namedcols", "internal/numtext", "internal/statebytes"},
		uses:    []string{arrowModule}},
	{pkg: "internal/headercol"},
	{pkg: "internal/ipcstream", imports: []string{"internal/arrays"}, uses: []string{arrowModule, klauspost, lz4Module}},
	{pkg: "internal/joining",
		imports: []string{"internal/arrays", "internal/errtext", "internal/eventtime", "internal/ipcstream", "internal/keytable", "internal/metacols", "internal/namedcols", "internal/statebytes"},
		uses:    []string{arrowModule}},
	{pkg: "internal/journal"},
	{pkg: "internal/jsonrows", imports: []string{"internal/arrays", "internal/namedcols", "internal/numtext"}, uses: []string{arrowModule}},
	{pkg: "internal/jsontable", imports: []string{"internal/arrays", "internal/jsonrows", "internal/namedcols"}, uses: []string{arrowModule}},
	{pkg: "internal/jsoncheck", uses: []string{jsonSchema}},
	{pkg: "internal/kafkatest", uses: []string{franzModule}},
	{pkg: "internal/kafkatest/withkafka", imports: []string{"internal/kafkatest"}},
	{pkg: "internal/keytable", imports: []string{"internal/arrays", "internal/statebytes"}, uses: []string{arrowModule}},
	{pkg: "internal/metacols", imports: []string{"internal/arrays", "internal/namedcols"}, uses: []string{arrowModule}},
	{pkg: "internal/namedcols", imports: []string{"internal/errtext"}, uses: []string{arrowModule}},
	{pkg: "internal/nexgen"},
	{pkg: "internal/protoplan", imports: []string{"internal/arrays", "internal/columnset"}, uses: []string{arrowModule, protoModule}},
	{pkg: "internal/prototext", uses: []string{protoParser, protoModule}},
	{pkg: "internal/numtext"},
	{pkg: "internal/statebytes"},
	{pkg: "internal/statefile"},
	{pkg: "internal/statefile/crashfs", imports: []string{"internal/statefile"}},
	{pkg: "internal/registrydouble"},
	{pkg: "internal/testpb", uses: []string{protoModule}},
}

// public reports whether programs outside the module can import the package.
func (l layer) public() bool { return !below(l.pkg, "internal") }

// banAll bans several paths for one reason.
func banAll(reason string, paths ...string) []ban {
	bans := make([]ban, len(paths))
	for i, path := range paths {
		bans[i] = ban{path, reason}
	}
	return bans
}

// reach is what the files of one package import, and what they reach with
// that, as import paths.
type reach struct{ direct, all []string }

// importProblems compares what the packages of the module import and reach with
// the table. packages is keyed by import path.
func importProblems(table []layer, packages map[string]reach) []string {
	var problems []string
	known := map[string]bool{}
	for _, l := range table {
		path := strings.TrimSuffix(module+"/"+l.pkg, "/")
		known[path] = true
		r, ok := packages[path]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: in the import table, but there is no such package", path))
			continue
		}
		for _, imported := range r.direct {
			own, isOwn := strings.CutPrefix(imported, module+"/")
			switch {
			case isOwn && !slices.Contains(l.imports, own):
				problems = append(problems, fmt.Sprintf("%s imports %s: the import table does not allow it", path, imported))
			case !isOwn && !standard(imported) && !slices.ContainsFunc(l.uses, func(root string) bool { return below(imported, root) }):
				problems = append(problems, fmt.Sprintf("%s imports %s: the import table does not list the module", path, imported))
			}
		}
		for _, dep := range r.all {
			for _, b := range l.bans {
				if below(dep, b.path) {
					problems = append(problems, fmt.Sprintf("%s reaches %s: %s", path, dep, b.reason))
				}
			}
		}
	}
	for path := range packages {
		own := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if !known[path] && !below(own, "examples") {
			problems = append(problems, fmt.Sprintf("%s: a package that the import table does not name", path))
		}
	}
	slices.Sort(problems)
	return problems
}

// standard reports whether a path is one of the standard library, whose first
// element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// below reports whether path is root or lies below it.
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, problem := range importProblems(layers, listImports(t)) {
		t.Error(problem)
	}
}

// listImports asks the go command what the packages of the module import and
// reach.
func listImports(t *testing.T) map[string]reach {
	t.Helper()
	packages := map[string]reach{}
	for line := range strings.Lines(goCommand(t, "list", "-f", `{{if .GoFiles}}{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}{{end}}`, "./...")) {
		if fields := strings.Split(strings.TrimSpace(line), "|"); len(fields) == 3 {
			packages[fields[0]] = reach{strings.Fields(fields[1]), strings.Fields(fields[2])}
		}
	}
	return packages
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
		{pkg: "schema", imports: []string{"internal/plan"}, uses: []string{"example.com/avro"}, bans: []ban{{"example.com/arrow", "no columns here"}}},
		{pkg: "columnar", imports: []string{"schema"}},
		{pkg: "internal/plan"},
		{pkg: "gone"},
	}
	const schema, columnar, plan, gone = module + "/schema", module + "/columnar", module + "/internal/plan", module + "/gone"
	tests := []struct {
		name     string
		packages map[string]reach
		want     []string
	}{
		{
			name: "a banned path and what is below it, by its reason, also through other packages",
			packages: map[string]reach{
				schema:   {all: []string{"fmt", "example.com/arrow", "example.com/arrow/array", "example.com/arrows"}},
				columnar: {direct: []string{schema}, all: []string{schema, "example.com/arrow"}},
				plan:     {},
				gone:     {},
			},
			want: []string{
				schema + " reaches example.com/arrow/array: no columns here",
				schema + " reaches example.com/arrow: no columns here",
			},
		},
		{
			name: "an arrow against the table, also to and from a room below internal",
			packages: map[string]reach{
				schema:   {direct: []string{columnar, plan}},
				columnar: {direct: []string{plan}},
				plan:     {direct: []string{schema}},
				gone:     {},
			},
			want: []string{
				columnar + " imports " + plan + ": the import table does not allow it",
				plan + " imports " + schema + ": the import table does not allow it",
				schema + " imports " + columnar + ": the import table does not allow it",
			},
		},
		{
			name: "a module that the table does not list for the package",
			packages: map[string]reach{
				schema:   {direct: []string{"net/http", "example.com/avro/v2", "example.com/avro"}},
				columnar: {direct: []string{"example.com/avro"}},
				plan:     {direct: []string{"unsafe"}},
				gone:     {},
			},
			want: []string{
				columnar + " imports example.com/avro: the import table does not list the module",
			},
		},
		{
			name: "a package that only the table knows, and those that it does not know",
			packages: map[string]reach{
				schema:                      {},
				columnar:                    {},
				plan:                        {},
				module + "/extra":           {},
				module + "/examples/one":    {},
				module + "/internal/hidden": {},
			},
			want: []string{
				module + "/extra: a package that the import table does not name",
				gone + ": in the import table, but there is no such package",
				module + "/internal/hidden: a package that the import table does not name",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, importProblems(table, tt.packages)); diff != "" {
				t.Errorf("importProblems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
