// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxComparisons bounds the work of one comparison: definitions that use
// each other many times over unfold exponentially.
const maxComparisons = 50_000

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
	compiled, documents, err := dialect.compileAt(fmt.Sprintf("registry:///%d/schema.json", c.compiled), text, dependencies)
	if err != nil {
		return nil, err
	}
	c.compiled++
	if c.sources == nil {
		c.sources = sources{}
	}
	c.sources.add(documents)
	return compiled, nil
}

// Violations lists why reader refuses documents of writer, each with its dotted
// path.
func (c *Comparer) Violations(reader, writer *jsonschema.Schema) []string {
	comparison := &comparison{strict: c.Strict, foreign: c.foreign, sources: c.sources, running: map[string]bool{}}
	return comparison.compare(reader, shapeOf(writer), "")
}

// foreignPattern is one that package regexp does not know. It matches nothing,
// and is compared by its text.
type foreignPattern string

func (p foreignPattern) MatchString(string) bool { return false }
func (p foreignPattern) String() string          { return string(p) }

// comparison is one comparison of a reader with a writer.
type comparison struct {
	strict  bool
	foreign bool
	sources sources
	running map[string]bool // pairs that are being compared, and so may be assumed
	steps   int
}

// compare lists why reader refuses documents of writer.
func (c *comparison) compare(reader *jsonschema.Schema, writer shape, path string) []string {
	if c.steps++; c.steps > maxComparisons {
		return []string{path + " is part of schemas that are too large to compare"}
	}
	if writer.empty() {
		return nil
	}
	if values, finite := writer.values(); finite {
		return c.refusedValues(reader, writer, values, path)
	}
	if alternatives := writer.alternatives(); alternatives != nil {
		var found []string
		for _, alternative := range alternatives {
			for _, violation := range c.compare(reader, alternative, path) {
				if !slices.Contains(found, violation) {
					found = append(found, violation)
				}
			}
		}
		return found
	}
	key := shapeOf(reader).key() + writer.key()
	if c.running[key] {
		return nil
	}
	c.running[key] = true
	defer delete(c.running, key)
	var found []string
	for _, part := range conjuncts(reader) {
		if writer.any(func(s *jsonschema.Schema) bool { return c.sources.same(part, s) }) {
			continue
		}
		found = append(found, c.comparePart(part, writer, path)...)
	}
	return found
}

func (c *comparison) refusedValues(reader *jsonschema.Schema, writer shape, values []any, path string) []string {
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
