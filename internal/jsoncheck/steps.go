// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of the times that schemas are applied to the values of one document.
const (
	maxSteps      = 1 << 20
	stepsPerValue = 256
)

// Validator is a compiled schema that documents are validated by.
type Validator struct {
	*jsonschema.Schema

	// repeats says that the validation of a document may apply a schema to one
	// value several times. How often can then double with every level of the
	// schema or the document, and is counted before it is done.
	repeats bool
}

// excess returns the place at which a document takes too many steps to
// validate, or nil.
func (v *Validator) excess(document any) *Violation {
	if !v.repeats {
		return nil
	}
	w := &stepCounter{limit: maxSteps + stepsPerValue*countValues(document), memo: map[step]int{}}
	_, found := w.count(v.Schema, document)
	return found
}

// countValues returns the number of values in a document, its own included.
func countValues(document any) int {
	n := 1
	switch v := document.(type) {
	case map[string]any:
		for _, member := range v {
			n += countValues(member)
		}
	case []any:
		for _, element := range v {
			n += countValues(element)
		}
	}
	return n
}

// stepCounter counts how often the validation of one document applies a schema to
// a value.
type stepCounter struct {
	limit int
	memo  map[step]int
}

// step is a schema applied to a value: to an object or array by its address,
// or to any value without parts.
type step struct {
	schema *jsonschema.Schema
	value  uintptr
}

// count returns the number of steps for one schema and value. If there are too
// many it returns the place where they are.
func (w *stepCounter) count(s *jsonschema.Schema, value any) (int, *Violation) {
	key := step{schema: s}
	if v := reflect.ValueOf(value); v.IsValid() && (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() > 0 {
		key.value = v.Pointer()
	}
	if known, ok := w.memo[key]; ok {
		return known, nil
	}
	w.memo[key] = 1
	total := 1
	add := func(schemas []*jsonschema.Schema, value any) *Violation {
		for _, s := range schemas {
			if s == nil {
				continue
			}
			n, found := w.count(s, value)
			if found != nil {
				return found
			}
			total += n
		}
		if total > w.limit {
			return &Violation{
				Message: fmt.Sprintf("the document takes more than %d steps to validate", w.limit), Keyword: s.Location,
			}
		}
		return nil
	}
	if found := add(inPlace(s), value); found != nil {
		return 0, found
	}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			schemas, _ := propertySchemas(s, name)
			if found := add(append(schemas, s.UnevaluatedProperties), member); found != nil {
				return 0, found.within(name)
			}
			if found := add(nameSchemas(s), name); found != nil {
				return 0, found.within(name)
			}
		}
	case []any:
		for i, element := range v {
			if found := add(itemSchemas(s, i), element); found != nil {
				return 0, found.within(strconv.Itoa(i))
			}
		}
	}
	w.memo[key] = total
	return total, nil
}

// nameSchemas returns the schemas in s that apply to names of members.
func nameSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	found := []*jsonschema.Schema{s.PropertyNames}
	for _, extension := range s.Extensions {
		if names, ok := extension.(propertyNames); ok {
			found = append(found, names.schema)
		}
	}
	return found
}

// itemSchemas returns the schemas in s that apply to the element at i, or to
// those after every prefix if i is -1; some may be nil.
func itemSchemas(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	t := tupleOf(s)
	item := t.rest
	if i >= 0 && i < len(t.prefix) {
		item = t.prefix[i]
	}
	return []*jsonschema.Schema{item, s.Contains, s.UnevaluatedItems}
}

// maxStates bounds how long repeats looks for a schema that applies twice.
const maxStates = 4096

// repeats reports whether a schema may apply to one value of a document more
// than once. A schema that is too large to tell counts as one where it may.
func repeats(root *jsonschema.Schema) bool {
	seen := map[string]bool{}
	ids := map[*jsonschema.Schema]int{}
	for pending := [][]*jsonschema.Schema{{root}}; len(pending) > 0; {
		state := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		all, again := together(state)
		if again || len(pending) > maxStates || len(seen) > maxStates {
			return true
		}
		numbers := make([]int, len(all))
		for i, s := range all {
			if ids[s] == 0 {
				ids[s] = len(ids) + 1
			}
			numbers[i] = ids[s]
		}
		slices.Sort(numbers)
		if key := fmt.Sprint(numbers); !seen[key] && len(all) > 0 {
			seen[key] = true
			pending = append(pending, partStates(all)...)
		}
	}
	return false
}

// together returns the schemas that apply to a value with those given, and
// whether one of them does so twice.
func together(schemas []*jsonschema.Schema) (all []*jsonschema.Schema, again bool) {
	seen := map[*jsonschema.Schema]bool{}
	for pending := slices.Clone(schemas); len(pending) > 0; {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		switch {
		case s == nil:
		case seen[s]:
			return nil, true
		default:
			seen[s] = true
			all = append(all, s)
			pending = append(pending, inPlace(s)...)
		}
	}
	return all, false
}

// partStates returns the schemas that apply to each part of a value to which all
// apply.
func partStates(all []*jsonschema.Schema) [][]*jsonschema.Schema {
	var rest, names []*jsonschema.Schema
	spelled := map[string]bool{}
	prefix := 0
	for _, s := range all {
		for name := range s.Properties {
			spelled[name] = true
		}
		for _, schema := range s.PatternProperties {
			rest = append(rest, schema)
		}
		additional, _ := restOf(s.AdditionalProperties)
		rest = append(rest, additional, s.UnevaluatedProperties)
		names = append(names, nameSchemas(s)...)
		prefix = max(prefix, len(tupleOf(s).prefix))
	}
	states := [][]*jsonschema.Schema{rest, names}
	for name := range spelled {
		var state []*jsonschema.Schema
		for _, s := range all {
			schemas, _ := propertySchemas(s, name)
			state = append(append(state, schemas...), s.UnevaluatedProperties)
		}
		states = append(states, state)
	}
	for i := -1; i < prefix; i++ {
		var state []*jsonschema.Schema
		for _, s := range all {
			state = append(state, itemSchemas(s, i)...)
		}
		states = append(states, state)
	}
	return states
}
