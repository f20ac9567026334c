// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// reachable returns schemas with those that next leads to, each once.
func reachable(schemas []*jsonschema.Schema, next func(*jsonschema.Schema) []*jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	seen := map[*jsonschema.Schema]bool{nil: true}
	for pending := slices.Clone(schemas); len(pending) > 0; {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if !seen[s] {
			seen[s] = true
			all = append(all, s)
			pending = append(pending, next(s)...)
		}
	}
	return all
}

// inPlace returns the schemas in s that may apply to the same value; some may be
// nil.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	found := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	found = slices.Concat(found, s.AllOf, s.AnyOf, s.OneOf)
	if s.DynamicRef != nil {
		found = append(found, s.DynamicRef.Ref)
	}
	for _, dependent := range s.DependentSchemas {
		found = append(found, dependent)
	}
	for _, dependency := range s.Dependencies {
		if dependent, ok := dependency.(*jsonschema.Schema); ok {
			found = append(found, dependent)
		}
	}
	return found
}

// inside returns the schemas in s that may apply to the same value or to a part
// of it; some may be nil.
func inside(s *jsonschema.Schema) []*jsonschema.Schema {
	additional, _ := restOf(s.AdditionalProperties)
	items := tupleOf(s)
	found := append(inPlace(s), additional, s.UnevaluatedProperties, s.PropertyNames,
		items.rest, s.Contains, s.UnevaluatedItems, s.ContentSchema)
	found = append(found, items.prefix...)
	for _, property := range s.Properties {
		found = append(found, property)
	}
	for _, property := range s.PatternProperties {
		found = append(found, property)
	}
	return found
}
