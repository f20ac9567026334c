// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// valueTypes is a set of the types of JSON values. Numbers are two of them, so
// that an integer is a number and not the other way round.
type valueTypes uint8

const (
	jsonNull valueTypes = 1 << iota
	jsonBoolean
	jsonInteger
	jsonFraction
	jsonString
	jsonArray
	jsonObject

	jsonAnyType = 1<<7 - 1
)

func typesOf(s *jsonschema.Schema) valueTypes {
	if s.Types == nil || s.Types.IsEmpty() {
		return jsonAnyType
	}
	var types valueTypes
	for _, name := range s.Types.ToStrings() {
		switch name {
		case "null":
			types |= jsonNull
		case "boolean":
			types |= jsonBoolean
		case "integer":
			types |= jsonInteger
		case "number":
			types |= jsonInteger | jsonFraction
		case "string":
			types |= jsonString
		case "array":
			types |= jsonArray
		case "object":
			types |= jsonObject
		}
	}
	return types
}

// conjuncts returns s and every schema that must hold with it, each once. A
// schema that is nothing but a reference is left out for its target.
func conjuncts(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	seen := map[*jsonschema.Schema]bool{}
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		if s.Ref == nil || s.DraftVersion >= 2019 {
			all = append(all, s)
		}
		add(s.Ref)
		add(s.RecursiveRef)
		if s.DynamicRef != nil {
			add(s.DynamicRef.Ref)
		}
		for _, part := range s.AllOf {
			add(part)
		}
	}
	add(s)
	return all
}

// shape is a set of documents: those that all of its schemas accept. It is
// what a writer may have written.
type shape struct {
	all   []*jsonschema.Schema
	types valueTypes
	// split holds the schemas whose alternatives have been chosen.
	split []*jsonschema.Schema
}

func shapeOf(schemas ...*jsonschema.Schema) shape {
	shape := shape{types: jsonAnyType}
	for _, s := range schemas {
		shape = shape.and(s)
	}
	return shape
}

// and narrows a shape by one more schema.
func (w shape) and(s *jsonschema.Schema) shape {
	w.all = slices.Clone(w.all)
	known := map[*jsonschema.Schema]bool{}
	for _, part := range w.all {
		known[part] = true
	}
	for _, part := range conjuncts(s) {
		if !known[part] {
			w.all = append(w.all, part)
			w.types &= typesOf(part)
		}
	}
	return w
}

// key tells shapes apart within one comparison.
func (w shape) key() string {
	addresses := make([]string, len(w.all))
	for i, s := range w.all {
		addresses[i] = fmt.Sprintf("%p", s)
	}
	slices.Sort(addresses)
	return fmt.Sprint(addresses, w.types, w.split)
}

// empty reports whether no document is in the shape.
func (w shape) empty() bool {
	return w.types == 0 || slices.ContainsFunc(w.all, refusesAll)
}

func refusesAll(s *jsonschema.Schema) bool { return s.Bool != nil && !*s.Bool }

// alternatives returns the shapes of which w is the union, or nil when no choice
// is left. Where a schema has both anyOf and oneOf the second stays undecided,
// which only makes the shape larger.
func (w shape) alternatives() []shape {
	for _, s := range w.all {
		branches := s.AnyOf
		if len(branches) == 0 {
			branches = s.OneOf
		}
		if len(branches) == 0 || slices.Contains(w.split, s) {
			continue
		}
		union := make([]shape, len(branches))
		for i, branch := range branches {
			union[i] = w.and(branch)
			union[i].split = append(slices.Clone(w.split), s)
		}
		return union
	}
	return nil
}

// byType splits a shape into one for each type.
func (w shape) byType() []shape {
	var parts []shape
	for bit := jsonNull; bit <= jsonObject; bit <<= 1 {
		if w.types&bit == 0 {
			continue
		}
		part := w
		part.types = bit
		parts = append(parts, part)
	}
	return parts
}

// values returns a finite list that holds every document of the shape, if there
// is one.
func (w shape) values() ([]any, bool) {
	for _, s := range w.all {
		if s.Const != nil {
			return []any{*s.Const}, true
		}
		if s.Enum != nil {
			return s.Enum.Values, true
		}
	}
	if w.types&^(jsonNull|jsonBoolean) != 0 {
		return nil, false
	}
	return []any{nil, false, true}, true
}

// mayHold reports whether a value may be a document of the shape. With exact,
// the answer is certain.
func (w shape) mayHold(value any, exact bool) bool {
	if typeOfJSON(value)&w.types == 0 {
		return false
	}
	return !exact || !w.any(func(s *jsonschema.Schema) bool { return s.Validate(value) != nil })
}

func typeOfJSON(value any) valueTypes {
	switch v := value.(type) {
	case nil:
		return jsonNull
	case bool:
		return jsonBoolean
	case string:
		return jsonString
	case []any:
		return jsonArray
	case map[string]any:
		return jsonObject
	case json.Number:
		if number, ok := new(big.Rat).SetString(string(v)); ok && number.IsInt() {
			return jsonInteger
		}
		return jsonFraction
	default:
		return jsonAnyType
	}
}

// declaredTypes is the type keyword of the shape, for messages.
func (w shape) declaredTypes() []string {
	names := []string{}
	for _, s := range w.all {
		if s.Types == nil {
			continue
		}
		for _, name := range s.Types.ToStrings() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (w shape) any(holds func(*jsonschema.Schema) bool) bool {
	return slices.ContainsFunc(w.all, holds)
}

// presence says what a writer may put in a place that another schema names.
type presence int

const (
	never    presence = iota // the shape forbids it
	declared                 // the shape says what may be there
	open                     // the shape says nothing about it
)

// property returns what the shape says about the value of one property.
func (w shape) property(name string) (shape, presence) {
	found := shapeOf()
	for _, s := range w.all {
		schemas, closed := propertySchemas(s, name)
		if closed {
			return shape{}, never
		}
		for _, schema := range schemas {
			found = found.and(schema)
		}
	}
	if len(found.all) > 0 {
		return found, declared
	}
	return w.unevaluated(unevaluatedPropertiesOf)
}

// unevaluated returns what the shape says about places that none of its schemas
// evaluates. A keyword next to alternatives or conditions says nothing: one of
// those may have evaluated the place.
func (w shape) unevaluated(keyword func(*jsonschema.Schema) *jsonschema.Schema) (shape, presence) {
	found := shapeOf()
	for _, s := range w.all {
		schema := keyword(s)
		if schema == nil || slices.ContainsFunc(conjuncts(s), func(s *jsonschema.Schema) bool {
			return len(s.AnyOf) > 0 || len(s.OneOf) > 0 || s.If != nil || len(s.DependentSchemas) > 0 || s.Contains != nil
		}) {
			continue
		}
		if refusesAll(schema) {
			return shape{}, never
		}
		found = found.and(schema)
	}
	if len(found.all) > 0 {
		return found, declared
	}
	return found, open
}

func unevaluatedPropertiesOf(s *jsonschema.Schema) *jsonschema.Schema { return s.UnevaluatedProperties }

// propertySchemas returns the schemas of s that apply to a property, and whether
// s forbids it.
func propertySchemas(s *jsonschema.Schema, name string) (schemas []*jsonschema.Schema, closed bool) {
	if schema, ok := s.Properties[name]; ok {
		schemas = append(schemas, schema)
	}
	for pattern, schema := range s.PatternProperties {
		if pattern.MatchString(name) {
			schemas = append(schemas, schema)
		}
	}
	if len(schemas) > 0 {
		return schemas, false
	}
	additional, closed := restOf(s.AdditionalProperties)
	if additional != nil {
		schemas = append(schemas, additional)
	}
	return schemas, closed
}

// restOf reads additionalProperties or additionalItems: nil without a schema.
func restOf(keyword any) (schema *jsonschema.Schema, closed bool) {
	switch v := keyword.(type) {
	case bool:
		return nil, !v
	case *jsonschema.Schema:
		return v, refusesAll(v)
	default:
		return nil, false
	}
}

// additional returns what the shape says about properties that no schema names.
func (w shape) additional() (shape, presence) {
	found := shapeOf()
	for _, s := range w.all {
		schema, closed := restOf(s.AdditionalProperties)
		if closed {
			return shape{}, never
		}
		if schema != nil {
			found = found.and(schema)
		}
	}
	if len(found.all) > 0 {
		return found, declared
	}
	return w.unevaluated(unevaluatedPropertiesOf)
}

// propertyNames returns the properties that the shape names, sorted.
func (w shape) propertyNames() []string {
	names := map[string]bool{}
	for _, s := range w.all {
		for name := range s.Properties {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// patterns returns the pattern properties of the shape, by pattern.
func (w shape) patterns() map[string]shape {
	found := map[string]shape{}
	for _, s := range w.all {
		for pattern, schema := range s.PatternProperties {
			known, ok := found[pattern.String()]
			if !ok {
				known = shapeOf()
			}
			found[pattern.String()] = known.and(schema)
		}
	}
	return found
}

func (w shape) requires(name string) bool {
	return w.any(func(s *jsonschema.Schema) bool { return slices.Contains(s.Required, name) })
}

// tuple is the array part of one schema.
type tuple struct {
	prefix []*jsonschema.Schema
	rest   *jsonschema.Schema // nil when it says nothing
	closed bool               // nothing may follow the prefix
}

func tupleOf(s *jsonschema.Schema) tuple {
	if s.DraftVersion >= 2020 {
		return tuple{prefix: s.PrefixItems, rest: s.Items2020, closed: s.Items2020 != nil && refusesAll(s.Items2020)}
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return tuple{rest: items, closed: refusesAll(items)}
	case []*jsonschema.Schema:
		rest, closed := restOf(s.AdditionalItems)
		return tuple{prefix: items, rest: rest, closed: closed}
	case bool:
		return tuple{closed: !items}
	default:
		return tuple{}
	}
}

// item returns what the shape says about the element at i; an i of -1 stands
// for the elements after every prefix.
func (w shape) item(i int) (shape, presence) {
	found := shapeOf()
	for _, s := range w.all {
		t := tupleOf(s)
		switch {
		case i >= 0 && i < len(t.prefix):
			found = found.and(t.prefix[i])
		case t.closed:
			return shape{}, never
		case t.rest != nil:
			found = found.and(t.rest)
		}
		if i >= 0 && s.MaxItems != nil && i >= *s.MaxItems {
			return shape{}, never
		}
	}
	if len(found.all) > 0 {
		return found, declared
	}
	return w.unevaluated(func(s *jsonschema.Schema) *jsonschema.Schema { return s.UnevaluatedItems })
}

// prefixItems returns the length of the longest prefix.
func (w shape) prefixItems() int {
	longest := 0
	for _, s := range w.all {
		longest = max(longest, len(tupleOf(s).prefix))
	}
	return longest
}

// least returns the largest of a lower bound's values, or nil.
func (w shape) least(bound func(*jsonschema.Schema) *int) *int {
	var found *int
	for _, s := range w.all {
		if v := bound(s); v != nil && (found == nil || *v > *found) {
			found = v
		}
	}
	return found
}

// most returns the smallest of an upper bound's values, or nil.
func (w shape) most(bound func(*jsonschema.Schema) *int) *int {
	var found *int
	for _, s := range w.all {
		if v := bound(s); v != nil && (found == nil || *v < *found) {
			found = v
		}
	}
	return found
}

// within reports whether all numbers of the shape keep a bound, inclusive or
// not. The sign is 1 for an upper and -1 for a lower bound.
func (w shape) within(bound *big.Rat, inclusive bool, sign int) bool {
	return w.any(func(s *jsonschema.Schema) bool {
		including, excluding := s.Maximum, s.ExclusiveMaximum
		if sign < 0 {
			including, excluding = s.Minimum, s.ExclusiveMinimum
		}
		if excluding != nil && excluding.Cmp(bound)*sign <= 0 {
			return true
		}
		if including == nil {
			return false
		}
		c := including.Cmp(bound) * sign
		return c < 0 || c == 0 && inclusive
	})
}

// shortJSON shows a value in a message.
func shortJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(data) > 80 {
		return string(data[:77]) + "..."
	}
	return string(data)
}
