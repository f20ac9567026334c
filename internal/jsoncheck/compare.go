// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxComparisons bounds the pairs of one comparison: what a writer may have
// written is a choice of alternatives, and choices multiply.
const maxComparisons = 10_000

// maxWork bounds what one comparison looks at, in pairs of schemas, names and
// patterns, or values.
const maxWork = 1 << 24

// Comparer compiles the schemas of one history and compares them.
type Comparer struct {
	// Dialect is that of schemas that do not name one. Patterns that package
	// regexp does not know match nothing, unless the dialect compiles them.
	Dialect Dialect
	// Strict takes open content models at their word.
	Strict bool

	compiled int  // schemas
	foreign  bool // there are patterns that cannot be matched
	sources  sources
	origins  map[*jsonschema.Schema]origin
}

// Compile compiles a schema with everything that it refers to.
func (c *Comparer) Compile(text string, dependencies []Source) (*jsonschema.Schema, error) {
	dialect := c.Dialect
	if dialect.CompileRegexp == nil {
		dialect.CompileRegexp = func(pattern string) (jsonschema.Regexp, error) {
			compiled, err := CompilePattern(pattern)
			if err != nil {
				c.foreign = true
				return foreignPattern(pattern), nil
			}
			return compiled, nil
		}
	}
	address := fmt.Sprintf("registry:///%d/schema.json", c.compiled)
	compiled, documents, err := dialect.compileAt(address, text, dependencies)
	if err != nil {
		return nil, err
	}
	c.compiled++
	if c.sources == nil {
		c.sources = sources{}
	}
	c.sources.add(documents)
	if c.origins == nil {
		c.origins = map[*jsonschema.Schema]origin{}
	}
	c.origins[compiled] = origin{documents[address], slices.Clone(dependencies)}
	return compiled, nil
}

// Violations lists why reader refuses documents of writer, each with its dotted
// path, and 1000 at most. Both are schemas that Compile has returned. Schemas of
// one text with the same references have none.
//
// Schemas may be recursive. A pair that is reached while it is being compared
// counts as compatible. Where nothing is found although such a pair has proved
// incompatible, everything is compared again without that assumption.
func (c *Comparer) Violations(reader, writer *jsonschema.Schema) []string {
	if origin, ok := c.origins[reader]; ok && origin.equal(c.origins[writer]) {
		return nil
	}
	comparison := &comparison{strict: c.Strict, foreign: c.foreign, sources: c.sources, refused: map[shapePair][]string{}}
	for {
		comparison.running, comparison.assumed, comparison.done = map[shapePair]bool{}, map[shapePair]bool{}, map[shapePair][]string{}
		found := comparison.compare(reader, shapeOf(writer), "")
		if len(found) > 0 || !comparison.unlearn() {
			return found
		}
	}
}

// origin is what a schema was compiled from.
type origin struct {
	document     any
	dependencies []Source
}

func (o origin) equal(other origin) bool {
	return slices.Equal(o.dependencies, other.dependencies) && reflect.DeepEqual(o.document, other.document)
}

// foreignPattern is one that package regexp does not know. It matches nothing,
// and is compared by its text.
type foreignPattern string

func (p foreignPattern) MatchString(string) bool { return false }
func (p foreignPattern) String() string          { return string(p) }

// maxListed bounds the violations of one pair of schemas.
const maxListed = 1000

// comparison is one comparison of a reader with a writer.
type comparison struct {
	strict  bool
	foreign bool
	sources sources
	steps   int // pairs
	work    int

	// Pairs, with their violations below place. Those of refused are known from an
	// earlier round; the others are of this one.
	refused map[shapePair][]string
	running map[shapePair]bool // being compared
	assumed map[shapePair]bool // reached while they were being compared
	done    map[shapePair][]string
}

// shapePair is what a reader accepts and what a writer may have written.
type shapePair struct{ reader, writer string }

// place stands for the path of a pair in its violations.
const place = "\x00"

// at puts violations below place at a path.
func at(path string, found []string) []string {
	if path == place || len(found) == 0 {
		return found
	}
	placed := make([]string, len(found))
	for i, violation := range found {
		below := strings.TrimPrefix(violation, place)
		if path == "" {
			below = strings.TrimPrefix(below, ".")
		}
		placed[i] = path + below
	}
	return placed
}

// spend counts work, and reports whether there is too much of it: every comparison
// then ends at once.
func (c *comparison) spend(work int) bool {
	c.work += work
	return c.work > maxWork
}

func tooLarge(path string) []string {
	return []string{path + " is part of schemas that are too large to compare"}
}

// unlearn adds the pairs that this round has refused to the known ones, and
// reports whether one of them was assumed to be compatible.
func (c *comparison) unlearn() bool {
	wrong := false
	for pair, found := range c.done {
		if len(found) > 0 {
			wrong = wrong || c.assumed[pair]
			c.refused[pair] = found
		}
	}
	return wrong
}

// compare lists why reader refuses documents of writer.
func (c *comparison) compare(reader *jsonschema.Schema, writer shape, path string) []string {
	if writer.empty() {
		return nil
	}
	if c.spend(1 + len(writer.all)) {
		return tooLarge(path)
	}
	pair := shapePair{shapeOf(reader).key(), writer.key()}
	if known, ok := c.refused[pair]; ok {
		return at(path, known)
	}
	if c.running[pair] {
		c.assumed[pair] = true
		return nil
	}
	known, ok := c.done[pair]
	if !ok {
		if c.steps++; c.steps > maxComparisons {
			c.work = maxWork
			return tooLarge(path)
		}
		c.running[pair] = true
		known = c.pair(reader, writer)
		known = known[:min(len(known), maxListed)]
		delete(c.running, pair)
		c.done[pair] = known
	}
	return at(path, known)
}

// pair compares a pair that is not known yet.
func (c *comparison) pair(reader *jsonschema.Schema, writer shape) []string {
	if values, finite := writer.values(); finite {
		return c.refusedValues(reader, writer, values, place)
	}
	var found []string
	if alternatives := writer.alternatives(); alternatives != nil {
		for _, alternative := range alternatives {
			for _, violation := range c.compare(reader, alternative, place) {
				if !slices.Contains(found, violation) {
					found = append(found, violation)
				}
			}
		}
		return found
	}
	parts := conjuncts(reader)
	if c.spend(len(parts) * len(writer.all)) {
		return tooLarge(place)
	}
	for _, part := range parts {
		if writer.any(func(s *jsonschema.Schema) bool { return c.sources.same(part, s) }) {
			continue
		}
		found = append(found, c.comparePart(part, writer, place)...)
	}
	return found
}

func (c *comparison) refusedValues(reader *jsonschema.Schema, writer shape, values []any, path string) []string {
	listed := 1
	for _, s := range append(conjuncts(reader), writer.all...) {
		if s.Enum != nil {
			listed += len(s.Enum.Values)
		}
	}
	if c.spend(len(values) * listed) {
		return tooLarge(path)
	}
	var found []string
	for _, value := range values {
		if writer.mayHold(value, !c.foreign) && reader.Validate(value) != nil {
			found = append(found, fmt.Sprintf("%s no longer accepts %s", path, shortJSON(value)))
		}
	}
	return found
}

// comparePart compares the keywords of one schema, without what it refers to.
func (c *comparison) comparePart(reader *jsonschema.Schema, writer shape, path string) []string {
	if reader.Bool != nil {
		if *reader.Bool {
			return nil
		}
		return []string{path + " accepts nothing"}
	}
	if missing := writer.types &^ typesOf(reader); missing != 0 && !writer.integral(missing) {
		return []string{fmt.Sprintf("%s narrows type from %v to %v", path, writer.declaredTypes(), reader.Types.ToStrings())}
	}
	var found []string
	if reader.Enum != nil || reader.Const != nil {
		found = append(found, path+" narrows to fixed values")
	}
	found = append(found, c.logic(reader, writer, path)...)
	if writer.types&jsonObject != 0 {
		found = append(found, c.objects(reader, writer, path)...)
	}
	if writer.types&jsonArray != 0 {
		found = append(found, c.arrays(reader, writer, path)...)
	}
	if writer.types&jsonString != 0 {
		found = append(found, lengths(reader, writer, path)...)
	}
	if writer.types&(jsonInteger|jsonFraction) != 0 {
		found = append(found, numbers(reader, writer, path)...)
	}
	return found
}

// integral reports whether the only types in question are fractions, and the
// writer has none because its numbers are multiples of an integer.
func (w shape) integral(types valueTypes) bool {
	return types == jsonFraction && w.any(func(s *jsonschema.Schema) bool { return s.MultipleOf != nil && s.MultipleOf.IsInt() })
}
