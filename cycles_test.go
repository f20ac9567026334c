// SPDX-License-Identifier: Apache-2.0

package krabkastreams_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// knot permits the named files of one package to refer to each other in a
// circle: a reader has to know all of them to understand one.
type knot struct {
	pkg    string // path below the module
	files  string // names without .go, separated by spaces
	reason string
}

// knots are the circles that the module has. A file that is in no knot refers
// only to files that do not refer back to it.
var knots = []knot{
	{"columnar", "built_topology needed_columns partition run state_layout topology topology_columns", "a topology and its partitions"},
	{"internal/jsonrows", "decode drift nested", "recursive descent over the values of a document"},
	{"columnar", "cut_reader cut_reader_end", "one reader: the cuts, and the end of their log"},
	{"columnar", "alignment group_runner", "alignment is to become a type of its own"},
	{"columnar/kafka", "barrier_record committed compacted_topic connection consumer cut_publisher errors gap group leadership options producer reader state_index " +
		"state_log state_record state_store",
		"the error types name the clients that return them"},
	{"columnar/kafka", "transaction transaction_outcome transactional_member", "one member and its transaction"},
	{"coordination", "device_guard errors", "the error type names the guard that returns it"},
	{"coordination", "acquire elector evaluate fold leadership observer options partition rank renew resign state transport",
		"methods of the elector"},
	{"coordination", "kafka_describe kafka_end kafka_hidden kafka_log kafka_options kafka_produce kafka_read kafka_request kafka_route kafka_stray kafka_term " +
		"kafka_topic kafka_tracking kafka_transaction kafka_transport kafka_versions",
		"methods of KafkaTransport"},
	{"examples/leader-election", "check cluster main member pause_unix process story", "one program that starts itself"},
	{"internal/arrays", "gather gather_nested", "recursive descent over nested arrays"},
	{"internal/arrays", "concat concat_dictionary", "an array is joined with its dictionary, which is an array"},
	{"internal/avrovalue", "decode decode_record decode_scalar generic struct", "recursive descent over the kinds of Avro schemas"},
	{"internal/avrovalue", "encode encode_generic encode_record encode_scalar encode_union", "recursive descent over the kinds of Avro schemas"},
	{"krabkatest", "broker broker_client broker_consumer broker_group broker_log broker_member broker_producer", "one cluster: its logs, groups, transactions and clients"},
	{"schema", "client options", "a type and its options"},
	{"schema", "cache fetch options_cache prewarm", "methods of SchemaCache, and its options"},
	{"internal/jsoncheck", "compare compare_rules", "recursive descent over the keywords of two schemas"},
	{"internal/protoplan", "entries message parse", "recursive descent over the fields of messages"},
	{"internal/prototext", "print print_option", "options are printed as part of what they belong to"},
	{"internal/prototext", "source source_bounds", "the compiler and its bounds"},
	{"internal/registrydouble", "registry subjects", "one registry: the routes, and the calls behind them"},
	{"internal/avroplan", "convert cursor default name node parse resolve", "recursive descent over the kinds of Avro schemas"},
}

// references are the files of one package, by name without .go, with the other
// files of it to whose declarations they refer.
type references map[string]map[string]bool

// circles returns the sets of files that refer to each other in a circle, each
// sorted (Tarjan's strongly connected components of more than one file).
func (r references) circles() [][]string {
	var found [][]string
	index, low := map[string]int{}, map[string]int{}
	var stack []string
	var visit func(file string)
	visit = func(file string) {
		index[file] = len(index) + 1
		low[file] = index[file]
		stack = append(stack, file)
		for next := range r[file] {
			if index[next] == 0 {
				visit(next)
				low[file] = min(low[file], low[next])
			} else if slices.Contains(stack, next) {
				low[file] = min(low[file], index[next])
			}
		}
		if low[file] == index[file] {
			start := slices.Index(stack, file)
			circle := slices.Sorted(slices.Values(stack[start:]))
			stack = stack[:start]
			if len(circle) > 1 {
				found = append(found, circle)
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(r)) {
		if index[file] == 0 {
			visit(file)
		}
	}
	return found
}

// fileReferences returns which file refers to which in one package of compiled
// files. Methods and fields count like any other declaration.
func fileReferences(files *token.FileSet, path string, parsed []*ast.File, imports types.Importer) (references, error) {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(path, files, parsed, &info)
	if err != nil {
		return nil, err
	}
	name := func(pos token.Pos) string {
		return strings.TrimSuffix(filepath.Base(files.Position(pos).Filename), ".go")
	}
	refs := references{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg {
			continue
		}
		if from, to := name(id.Pos()), name(object.Pos()); from != to {
			if refs[from] == nil {
				refs[from] = map[string]bool{}
			}
			refs[from][to] = true
		}
	}
	return refs, nil
}

// circleProblems returns the circles of one package that no knot permits, and the
// files of knots that are in no circle.
func circleProblems(permitted []knot, pkg string, refs references) []string {
	var problems []string
	circles := refs.circles()
	tied := slices.Concat(circles...)
	for _, k := range permitted {
		for _, file := range strings.Fields(k.files) {
			if k.pkg == pkg && !slices.Contains(tied, file) {
				problems = append(problems, fmt.Sprintf("%s: the file %s is in no circle: take it out of its knot", pkg, file))
			}
		}
	}
	for _, circle := range circles {
		inside := func(k knot) bool {
			names := strings.Fields(k.files)
			return k.pkg == pkg && !slices.ContainsFunc(circle, func(file string) bool { return !slices.Contains(names, file) })
		}
		if !slices.ContainsFunc(permitted, inside) {
			problems = append(problems, fmt.Sprintf("%s: the files %s refer to each other in a circle", pkg, strings.Join(circle, ", ")))
		}
	}
	return problems
}

func TestFilesOfAPackageReferOneWay(t *testing.T) {
	compiled := compiledPackages(t)
	files := token.NewFileSet()
	for line := range strings.Lines(goCommand(t, "list", "-f", `{{.ImportPath}}|{{.Dir}}|{{join .GoFiles " "}}`, "./...")) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		var parsed []*ast.File
		for _, name := range strings.Fields(fields[2]) {
			file, err := parser.ParseFile(files, filepath.Join(fields[1], name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		refs, err := fileReferences(files, fields[0], parsed, compiled)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range circleProblems(knots, strings.TrimPrefix(fields[0], module+"/"), refs) {
			t.Error(problem)
		}
	}
}

func TestFileCirclesAreFound(t *testing.T) {
	code := map[string]string{
		"one":   "package a\ntype One struct{ n int }\nfunc (o One) Next() Two { return Two{} }\n",
		"two":   "package a\ntype Two struct{}\nfunc (Two) Back(t Three) { t.Do() }\n",
		"three": "package a\ntype Three struct{}\nfunc (Three) Do() { _ = One{}.n }\n",
		"four":  "package a\nfunc use() { One{}.Next().Back(Three{}) }\n",
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for name, text := range code {
		file, err := parser.ParseFile(files, name+".go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	refs, err := fileReferences(files, "example.com/a", parsed, nil)
	if err != nil {
		t.Fatal(err)
	}
	const problem = "a: the files one, three, two refer to each other in a circle"
	for _, tt := range []struct {
		name      string
		permitted []knot
		want      []string
	}{
		{"none is permitted", nil, []string{problem}},
		{"all of them are", []knot{{pkg: "a", files: "two one three"}}, nil},
		{"a file that is in no circle is, too", []knot{{pkg: "a", files: "two one three four"}}, []string{"a: the file four is in no circle: take it out of its knot"}},
		{"one of them is not", []knot{{pkg: "a", files: "one two"}}, []string{problem}},
		{"another package's", []knot{{pkg: "b", files: "one two three"}}, []string{problem}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, circleProblems(tt.permitted, "a", refs)); diff != "" {
				t.Errorf("circleProblems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
