// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// logic compares anyOf, oneOf, not and if.
func (c *comparison) logic(reader *jsonschema.Schema, writer shape, path string) []string {
	var found []string
	for _, branches := range [][]*jsonschema.Schema{reader.AnyOf, reader.OneOf} {
		if len(branches) > 0 {
			found = append(found, c.choice(branches, writer, path)...)
		}
	}
	if reader.Not != nil && !c.excludes(reader.Not, writer) {
		found = append(found, path+" excludes more than before")
	}
	if reader.If != nil && !c.sameCondition(reader, writer) {
		found = append(found, path+" changed its condition")
	}
	return found
}

// choice finds an alternative of the reader for everything that the writer may
// have written.
func (c *comparison) choice(branches []*jsonschema.Schema, writer shape, path string) []string {
	var closest []string
	for _, branch := range branches {
		found := c.compare(branch, writer, path)
		if len(found) == 0 {
			return nil
		}
		if closest == nil || len(found) < len(closest) {
			closest = found
		}
	}
	if parts := writer.byType(); len(parts) > 1 {
		var found []string
		for _, part := range parts {
			found = append(found, c.choice(branches, part, path)...)
		}
		return found
	}
	if len(branches) == 1 {
		return closest
	}
	return []string{fmt.Sprintf("%s fits none of %d alternatives", path, len(branches))}
}

// excludes reports whether nothing that the writer may have written is in
// excluded.
func (c *comparison) excludes(excluded *jsonschema.Schema, writer shape) bool {
	if shapeOf(excluded).types&writer.types == 0 {
		return true
	}
	return writer.any(func(s *jsonschema.Schema) bool {
		return s.Not != nil && len(c.compare(s.Not, shapeOf(excluded), "")) == 0
	})
}

// sameCondition reports whether the writer's schema has the reader's condition,
// with consequences that the reader accepts.
func (c *comparison) sameCondition(reader *jsonschema.Schema, writer shape) bool {
	accepts := func(reader, writer *jsonschema.Schema) bool {
		return reader == nil || writer != nil && len(c.compare(reader, shapeOf(writer), "")) == 0
	}
	return writer.any(func(s *jsonschema.Schema) bool {
		return s.If != nil && accepts(reader.If, s.If) && accepts(s.If, reader.If) &&
			accepts(reader.Then, s.Then) && accepts(reader.Else, s.Else)
	})
}

// under returns the dotted path of a property.
func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *comparison) objects(reader *jsonschema.Schema, writer shape, path string) []string {
	found := c.properties(reader, writer, path)
	for _, name := range reader.Required {
		if writer.requires(name) {
			continue
		}
		if property := reader.Properties[name]; property != nil && property.Default != nil {
			continue
		}
		found = append(found, under(path, name)+" became required")
	}
	found = append(found, c.dependencies(reader, writer, path)...)
	if reader.PropertyNames != nil {
		names := shapeOf()
		for _, s := range writer.all {
			if s.PropertyNames != nil {
				names = names.and(s.PropertyNames)
			}
		}
		names.types &= jsonString
		found = append(found, c.compare(reader.PropertyNames, names, path+" (property names)")...)
	}
	found = append(found, bounds("properties", reader, writer, path,
		func(s *jsonschema.Schema) *int { return s.MinProperties }, func(s *jsonschema.Schema) *int { return s.MaxProperties })...)
	return found
}

// properties compares the content models of two objects.
func (c *comparison) properties(reader *jsonschema.Schema, writer shape, path string) []string {
	names, patterns := len(reader.Properties), 1+len(reader.PatternProperties)
	for _, s := range writer.all {
		names, patterns = names+len(s.Properties), patterns+len(s.PatternProperties)
	}
	if c.spend(names * (patterns + len(writer.all))) {
		return tooLarge(path)
	}
	var found []string
	// What the reader names, the writer may have written in its own way.
	for _, name := range slices.Sorted(maps.Keys(reader.Properties)) {
		written, present := writer.property(name)
		found = append(found, c.place(reader.Properties[name], written, present, under(path, name))...)
	}
	ownPatterns := map[string]*jsonschema.Schema{}
	for pattern, schema := range reader.PatternProperties {
		ownPatterns[pattern.String()] = schema
	}
	writerPatterns := writer.patterns()
	additional, additionalPresent := writer.additional()
	for _, pattern := range slices.Sorted(maps.Keys(ownPatterns)) {
		written, known := writerPatterns[pattern]
		present := declared
		if !known {
			written, present = additional, additionalPresent
		}
		found = append(found, c.place(ownPatterns[pattern], written, present, under(path, "/"+pattern+"/"))...)
	}
	// What only the writer names must fit what the reader leaves room for.
	for _, name := range writer.propertyNames() {
		if reader.Properties[name] != nil {
			continue
		}
		written, present := writer.property(name)
		if present == never || written.empty() {
			continue
		}
		schemas, closed := propertySchemas(reader, name)
		if unevaluated := unevaluatedProperty(reader, name); unevaluated != nil {
			schemas, closed = append(schemas, unevaluated), closed || refusesAll(unevaluated)
		}
		if closed {
			found = append(found, under(path, name)+" is no longer allowed")
			continue
		}
		for _, schema := range schemas {
			found = append(found, c.compare(schema, written, under(path, name))...)
		}
	}
	rest, closed := restOf(reader.AdditionalProperties)
	if unevaluated := unevaluatedProperties(reader); unevaluated != nil {
		rest, closed = unevaluated, refusesAll(unevaluated)
	}
	for _, pattern := range slices.Sorted(maps.Keys(writerPatterns)) {
		if _, known := ownPatterns[pattern]; known {
			continue
		}
		place := under(path, "/"+pattern+"/")
		switch {
		case writerPatterns[pattern].empty():
		case closed:
			found = append(found, place+" is no longer allowed")
		case rest != nil:
			found = append(found, c.compare(rest, writerPatterns[pattern], place)...)
		}
	}
	switch {
	case additionalPresent == never, additional.empty(), additionalPresent == open && !c.strict:
	case closed:
		found = append(found, path+" no longer allows additional properties")
	case rest != nil:
		found = append(found, c.compare(rest, additional, under(path, "*"))...)
	}
	return found
}

// unevaluatedProperty returns what unevaluatedProperties of the reader says about
// a property, or nil where another keyword takes care of it.
func unevaluatedProperty(reader *jsonschema.Schema, name string) *jsonschema.Schema {
	if slices.ContainsFunc(conjuncts(reader), func(s *jsonschema.Schema) bool {
		schemas, _ := propertySchemas(s, name)
		return len(schemas) > 0
	}) {
		return nil
	}
	return unevaluatedProperties(reader)
}

// unevaluatedProperties returns the keyword's schema, or nil where all properties
// are additional ones.
func unevaluatedProperties(s *jsonschema.Schema) *jsonschema.Schema {
	if slices.ContainsFunc(conjuncts(s), func(s *jsonschema.Schema) bool { return s.AdditionalProperties != nil }) {
		return nil
	}
	return s.UnevaluatedProperties
}

// place compares what a reader wants in a place with what may be there.
func (c *comparison) place(reader *jsonschema.Schema, written shape, present presence, path string) []string {
	if present == never || present == open && !c.strict {
		return nil
	}
	return c.compare(reader, written, path)
}

func (c *comparison) dependencies(reader *jsonschema.Schema, writer shape, path string) []string {
	var found []string
	required := maps.Clone(reader.DependentRequired)
	schemas := maps.Clone(reader.DependentSchemas)
	for name, dependency := range reader.Dependencies {
		switch d := dependency.(type) {
		case []string:
			if required == nil {
				required = map[string][]string{}
			}
			required[name] = d
		case *jsonschema.Schema:
			if schemas == nil {
				schemas = map[string]*jsonschema.Schema{}
			}
			schemas[name] = d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if _, present := writer.property(name); present == never {
			continue
		}
		for _, dependent := range required[name] {
			if !writer.requires(dependent) && !writer.any(func(s *jsonschema.Schema) bool {
				old, _ := s.Dependencies[name].([]string)
				return slices.Contains(s.DependentRequired[name], dependent) || slices.Contains(old, dependent)
			}) {
				found = append(found, fmt.Sprintf("%s became required with %s", under(path, dependent), name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if _, present := writer.property(name); present == never {
			continue
		}
		with := writer
		for _, s := range writer.all {
			with = with.and(s.DependentSchemas[name])
			if old, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
				with = with.and(old)
			}
		}
		found = append(found, c.compare(schemas[name], with, fmt.Sprintf("%s (with %s)", path, name))...)
	}
	return found
}

func (c *comparison) arrays(reader *jsonschema.Schema, writer shape, path string) []string {
	var found []string
	own := tupleOf(reader)
	for i, schema := range own.prefix {
		written, present := writer.item(i)
		found = append(found, c.place(schema, written, present, fmt.Sprintf("%s[%d]", path, i))...)
	}
	found = append(found, c.itemsFrom(len(own.prefix), own.rest, own.closed, writer, path)...)
	if unevaluated := unevaluatedItems(reader); unevaluated != nil {
		from := shapeOf(reader).prefixItems()
		found = append(found, c.itemsFrom(from, unevaluated, refusesAll(unevaluated), writer, path)...)
	}
	most := writer.most(func(s *jsonschema.Schema) *int { return s.MaxItems })
	if reader.UniqueItems && !writer.any(func(s *jsonschema.Schema) bool { return s.UniqueItems }) && (most == nil || *most > 1) {
		found = append(found, path+" became a set of unique items")
	}
	if reader.Contains != nil && !c.contains(reader, writer) {
		found = append(found, path+" must contain other items than before")
	}
	found = append(found, bounds("items", reader, writer, path,
		func(s *jsonschema.Schema) *int { return s.MinItems }, func(s *jsonschema.Schema) *int { return s.MaxItems })...)
	return found
}

// itemsFrom compares the elements from an index on with what the reader leaves
// room for.
func (c *comparison) itemsFrom(from int, rest *jsonschema.Schema, closed bool, writer shape, path string) []string {
	if rest == nil && !closed {
		return nil
	}
	var found []string
	last := max(from, writer.prefixItems())
	for i := from; i < last; i++ {
		written, present := writer.item(i)
		place := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case present == never, written.empty():
		case closed:
			found = append(found, place+" is no longer allowed")
		default:
			found = append(found, c.compare(rest, written, place)...)
		}
	}
	written, present := writer.item(-1)
	if most := writer.most(func(s *jsonschema.Schema) *int { return s.MaxItems }); most != nil && *most <= last {
		return found
	}
	switch {
	case present == never, written.empty():
	case closed:
		found = append(found, path+" no longer allows additional items")
	default:
		found = append(found, c.compare(rest, written, path+"[]")...)
	}
	return found
}

// unevaluatedItems returns the keyword's schema, or nil where another keyword
// takes care of all elements.
func unevaluatedItems(s *jsonschema.Schema) *jsonschema.Schema {
	if slices.ContainsFunc(conjuncts(s), func(s *jsonschema.Schema) bool {
		t := tupleOf(s)
		return t.rest != nil || t.closed
	}) {
		return nil
	}
	return s.UnevaluatedItems
}

// contains reports whether one of the writer's schemas promises the items that
// the reader wants.
func (c *comparison) contains(reader *jsonschema.Schema, writer shape) bool {
	least := func(s *jsonschema.Schema) int {
		if s.MinContains == nil {
			return 1
		}
		return *s.MinContains
	}
	if least(reader) == 0 && reader.MaxContains == nil {
		return true
	}
	return writer.any(func(s *jsonschema.Schema) bool {
		if s.Contains == nil || least(s) < least(reader) || len(c.compare(reader.Contains, shapeOf(s.Contains), "")) > 0 {
			return false
		}
		if reader.MaxContains == nil {
			return true
		}
		return s.MaxContains != nil && *s.MaxContains <= *reader.MaxContains &&
			len(c.compare(s.Contains, shapeOf(reader.Contains), "")) == 0
	})
}

// bounds compares a pair of counts.
func bounds(what string, reader *jsonschema.Schema, writer shape, path string, lower, upper func(*jsonschema.Schema) *int) []string {
	var found []string
	if want := lower(reader); want != nil && *want > 0 {
		if has := writer.least(lower); has == nil || *has < *want {
			found = append(found, fmt.Sprintf("%s needs at least %d %s", path, *want, what))
		}
	}
	if want := upper(reader); want != nil {
		if has := writer.most(upper); has == nil || *has > *want {
			found = append(found, fmt.Sprintf("%s allows at most %d %s", path, *want, what))
		}
	}
	return found
}

// lengths compares the keywords of strings.
func lengths(reader *jsonschema.Schema, writer shape, path string) []string {
	found := bounds("characters", reader, writer, path,
		func(s *jsonschema.Schema) *int { return s.MinLength }, func(s *jsonschema.Schema) *int { return s.MaxLength })
	if reader.Pattern != nil && !writer.any(func(s *jsonschema.Schema) bool {
		return s.Pattern != nil && s.Pattern.String() == reader.Pattern.String()
	}) {
		found = append(found, fmt.Sprintf("%s must match another pattern, %s", path, reader.Pattern))
	}
	if reader.Format != nil && !writer.any(func(s *jsonschema.Schema) bool {
		return s.Format != nil && s.Format.Name == reader.Format.Name
	}) {
		found = append(found, fmt.Sprintf("%s must have another format, %s", path, reader.Format.Name))
	}
	return found
}

// numbers compares the keywords of numbers.
func numbers(reader *jsonschema.Schema, writer shape, path string) []string {
	var found []string
	limit := func(bound *big.Rat, inclusive bool, sign int, text string) {
		if bound != nil && !writer.within(bound, inclusive, sign) {
			found = append(found, fmt.Sprintf("%s must be %s %s", path, text, bound.RatString()))
		}
	}
	limit(reader.Minimum, true, -1, "at least")
	limit(reader.ExclusiveMinimum, false, -1, "above")
	limit(reader.Maximum, true, 1, "at most")
	limit(reader.ExclusiveMaximum, false, 1, "below")
	if reader.MultipleOf != nil && !writer.multipleOf(reader.MultipleOf) {
		found = append(found, fmt.Sprintf("%s must be a multiple of %s", path, reader.MultipleOf.RatString()))
	}
	return found
}

// multipleOf reports whether all numbers of the shape are multiples of n.
func (w shape) multipleOf(n *big.Rat) bool {
	divides := func(m *big.Rat) bool { return n.Sign() != 0 && new(big.Rat).Quo(m, n).IsInt() }
	if w.types&jsonFraction == 0 && divides(big.NewRat(1, 1)) {
		return true
	}
	return w.any(func(s *jsonschema.Schema) bool { return s.MultipleOf != nil && divides(s.MultipleOf) })
}
