// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/krabka-io/krabka-streams-go/internal/jsoncheck"
)

// jsonCompatibility holds what the options of a check say.
type jsonCompatibility struct {
	dialect jsoncheck.Dialect
	strict  bool
}

// JSONCompatibilityOption configures [CheckJSONCompatibility].
type JSONCompatibilityOption func(*jsonCompatibility)

// WithStrictContent takes an open content model at its word: a writer whose
// schema allows additional properties may have written any property with any
// value, so a reader that gives one a type, or allows no more of them, is
// incompatible. So say registries, unless they are told otherwise. By default a
// property that the writer's schema does not mention counts as not written.
func WithStrictContent() JSONCompatibilityOption {
	return func(c *jsonCompatibility) { c.strict = true }
}

// WithCompatibilityDialect sets the dialect of schemas that do not name one in
// $schema. The default is [JSONDraft7]; an unknown dialect counts as the
// default.
func WithCompatibilityDialect(dialect JSONDialect) JSONCompatibilityOption {
	return func(c *jsonCompatibility) { c.dialect.Draft = dialect.draft() }
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
	var c jsonCompatibility
	for _, option := range options {
		option(&c)
	}
	comparer := &jsoncheck.Comparer{Dialect: c.dialect, Strict: c.strict}
	compiled := make([]*jsonschema.Schema, 0, len(history)+1)
	for _, schema := range append(slices.Clone(history), candidate) {
		s, err := comparer.Compile(schema.Schema, namedTexts(schema.Dependencies))
		if err != nil {
			return CompatibilityResult{}, fmt.Errorf("invalid JSON Schema: %w", err)
		}
		compiled = append(compiled, s)
	}
	return checkHistory(compiled[:len(history)], compiled[len(history)], mode, comparer.Violations), nil
}
