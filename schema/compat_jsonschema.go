// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxJSONComparisons bounds the work of one comparison: definitions that use
// each other many times over unfold exponentially.
const maxJSONComparisons = 50_000

// JSONCompatibilityOption configures [CheckJSONCompatibility].
type JSONCompatibilityOption func(*jsonCompatibility)

// WithStrictContent takes an open content model at its word: a writer whose
// schema allows additional properties may have written any property with any
// value, so a reader that gives one a type is incompatible. By default a
// property that the writer's schema does not mention counts as not written.
func WithStrictContent() JSONCompatibilityOption {
	return func(c *jsonCompatibility) { c.strict = true }
}

// WithCompatibilityDialect sets the dialect of schemas that do not name one in
// $schema. The default is [JSONDraft7]; an unknown dialect counts as the
// default.
func WithCompatibilityDialect(dialect JSONDialect) JSONCompatibilityOption {
	return func(c *jsonCompatibility) { c.draft = dialect.draft() }
}

// understoodAs reads schemas as a serde with a dialect does.
func understoodAs(dialect *jsonDialect) JSONCompatibilityOption {
	return func(c *jsonCompatibility) {
		if dialect == nil {
			return
		}
		lenient := c.compileRegexp
		if c.jsonDialect = *dialect; c.compileRegexp == nil {
			c.compileRegexp = lenient
		}
	}
}

// JSONCompatibility compares two JSON Schemas without references. Every
// violation is listed with its dotted path; the root's is empty. Schemas that
// do not compile are an error.
//
// A candidate is judged by its schema alone: a reader accepts what a writer's
// schema allows, or the place where it does not is listed. Where that cannot be
// decided, as between two patterns, different means incompatible. The exception
// is an open content model; see [WithStrictContent].
func JSONCompatibility(previousSchema, candidateSchema string, mode CompatibilityMode) (CompatibilityResult, error) {
	return CheckJSONCompatibility([]ResolvedSchema{{Schema: previousSchema}}, ResolvedSchema{Schema: candidateSchema}, mode)
}

// CheckJSONCompatibility is [JSONCompatibility] against a history of schemas,
// oldest first, with their dependencies. Modes that are not transitive look at
// the last one.
func CheckJSONCompatibility(history []ResolvedSchema, candidate ResolvedSchema, mode CompatibilityMode, options ...JSONCompatibilityOption) (CompatibilityResult, error) {
	c := jsonCompatibility{sources: jsonSources{}}
	c.compileRegexp = func(pattern string) (JSONRegexp, error) {
		compiled, err := compilePattern(pattern)
		if err != nil {
			c.foreign = true
			return foreignPattern(pattern), nil
		}
		return compiled, nil
	}
	for _, option := range options {
		option(&c)
	}
	compiled := make([]*jsonschema.Schema, 0, len(history)+1)
	for i, schema := range append(slices.Clone(history), candidate) {
		s, documents, err := c.compileAt(fmt.Sprintf("registry:///%d/schema.json", i), schema.Schema, schema.Dependencies)
		if err != nil {
			return CompatibilityResult{}, fmt.Errorf("invalid JSON Schema: %w", err)
		}
		c.sources.add(documents)
		compiled = append(compiled, s)
	}
	return checkHistory(compiled[:len(history)], compiled[len(history)], mode, c.violations), nil
}

// foreignPattern is one that package regexp does not know. It matches nothing,
// and is compared by its text.
type foreignPattern string

func (p foreignPattern) MatchString(string) bool { return false }
func (p foreignPattern) String() string          { return string(p) }

// jsonCompatibility compares compiled schemas.
type jsonCompatibility struct {
	jsonDialect
	strict  bool
	foreign bool // there are patterns that cannot be matched
	sources jsonSources
}

func (c jsonCompatibility) violations(reader, writer *jsonschema.Schema) []string {
	comparison := &jsonComparison{strict: c.strict, foreign: c.foreign, sources: c.sources, running: map[string]bool{}}
	return comparison.compare(reader, shapeOf(writer), "")
}

// jsonComparison is one comparison of a reader with a writer.
type jsonComparison struct {
	strict  bool
	foreign bool
	sources jsonSources
	running map[string]bool // pairs that are being compared, and so may be assumed
	steps   int
}

// compare lists why reader refuses documents of writer.
func (c *jsonComparison) compare(reader *jsonschema.Schema, writer jsonShape, path string) []string {
	if c.steps++; c.steps > maxJSONComparisons {
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

func (c *jsonComparison) refusedValues(reader *jsonschema.Schema, writer jsonShape, values []any, path string) []string {
	var found []string
	for _, value := range values {
		if writer.mayHold(value, !c.foreign) && reader.Validate(value) != nil {
			found = append(found, fmt.Sprintf("%s no longer accepts %s", path, shortJSON(value)))
		}
	}
	return found
}

// comparePart compares the keywords of one schema, without what it refers to.
func (c *jsonComparison) comparePart(reader *jsonschema.Schema, writer jsonShape, path string) []string {
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
func (w jsonShape) integral(types jsonTypes) bool {
	return types == jsonFraction && w.any(func(s *jsonschema.Schema) bool { return s.MultipleOf != nil && s.MultipleOf.IsInt() })
}
