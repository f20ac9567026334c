// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxMemberPlans bounds the plans for one Go type and one schema.
const maxMemberPlans = 1 << 16

// Members says what to check of a value before encoding/json reads it into a
// Go type. A schema knows a member by its exact name, and encoding/json reads it
// also into a field whose name differs by case: what the schema says about
// "name" does not hold for "NAME". Nil is nothing to check.
type Members struct {
	fields *fieldPlan // of a struct

	// Of a slice, array or map: the elements that the schema tells apart, and the
	// others.
	items []*Members
	named map[string]*Members
	rest  *Members
}

// fieldPlan is the plan for a struct.
type fieldPlan struct {
	fields   []goField
	members  map[string]jsonMember // by the exact names that the struct or the schema spells
	families map[string]jsonMember // by the folded name, for the names that nobody spells
	patterns []jsonschema.Regexp   // of the schema
}

// jsonMember is a member that is read into a field.
type jsonMember struct {
	field  int
	known  string // the name by which the schema knows the field instead; "" where that is well
	nested *Members
}

// memberPlanner makes the plans for one schema.
type memberPlanner struct {
	plans map[memberPlanKey]*Members
}

type memberPlanKey struct {
	typ     reflect.Type
	schemas string
}

// PlanMembers returns the plan for documents of a schema that are read into
// a type.
func PlanMembers(t reflect.Type, schema *jsonschema.Schema) (*Members, error) {
	p := &memberPlanner{plans: map[memberPlanKey]*Members{}}
	plan := p.plan(t, applicable(schema))
	if len(p.plans) > maxMemberPlans {
		return nil, fmt.Errorf("type %v and the JSON Schema have more than %d parts together", t, maxMemberPlans)
	}
	if !plan.hasFields(map[*Members]bool{}) {
		return nil, nil
	}
	return plan, nil
}

// hasFields reports whether there is a struct anywhere in the plan.
func (m *Members) hasFields(seen map[*Members]bool) bool {
	if m == nil || seen[m] {
		return false
	}
	seen[m] = true
	has := func(m *Members) bool { return m.hasFields(seen) }
	return m.fields != nil || has(m.rest) || slices.ContainsFunc(m.items, has) ||
		slices.ContainsFunc(slices.Collect(maps.Values(m.named)), has)
}

// plan returns the plan for a type under the schemas that may apply.
func (p *memberPlanner) plan(t reflect.Type, schemas shape) *Members {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
	default:
		return nil
	}
	if readsItself(t) {
		return nil
	}
	key := memberPlanKey{t, schemas.key()}
	if known, ok := p.plans[key]; ok {
		return known
	}
	made := new(Members)
	p.plans[key] = made
	switch {
	case len(p.plans) > maxMemberPlans:
	case t.Kind() == reflect.Struct:
		made.fields = p.structure(goFields(t), schemas)
	case t.Kind() == reflect.Map:
		made.named = map[string]*Members{}
		for _, name := range schemas.propertyNames() {
			made.named[name] = p.plan(t.Elem(), schemas.applicableProperty(name))
		}
		made.rest = p.plan(t.Elem(), schemas.applicableRest())
	default:
		for i := range schemas.prefixItems() {
			made.items = append(made.items, p.plan(t.Elem(), schemas.applicableItem(i)))
		}
		made.rest = p.plan(t.Elem(), schemas.applicableItem(-1))
	}
	return made
}

func (p *memberPlanner) structure(fields []goField, schemas shape) *fieldPlan {
	plan := &fieldPlan{fields: fields, members: map[string]jsonMember{}, families: map[string]jsonMember{}}
	for _, s := range schemas.all {
		for pattern := range s.PatternProperties {
			plan.patterns = append(plan.patterns, pattern)
		}
	}
	for i, field := range fields {
		plan.members[field.name] = jsonMember{field: i}
		if _, ok := plan.families[folded(field.name)]; !ok {
			plan.families[folded(field.name)] = jsonMember{field: i}
		}
	}
	// What the schema spells, and by what name it knows each field.
	spelt := schemas.propertyNames()
	for _, field := range fields {
		if plan.matches(field.name) {
			spelt = append(spelt, field.name)
		}
	}
	known := make([]string, len(fields))
	for _, name := range spelt {
		member, ok := plan.member(name)
		if !ok {
			continue
		}
		plan.members[name] = member
		if known[member.field] == "" {
			known[member.field] = name
		}
	}
	for name, member := range plan.members {
		member.nested = p.plan(fields[member.field].typ, schemas.applicableProperty(name))
		if !slices.Contains(spelt, name) {
			member.known = known[member.field]
		}
		plan.members[name] = member
	}
	for name, family := range plan.families {
		family.nested = p.plan(fields[family.field].typ, schemas.applicableRest())
		family.known = known[family.field]
		plan.families[name] = family
	}
	return plan
}

// matches reports whether a pattern of the schema knows a name.
func (p *fieldPlan) matches(name string) bool {
	return slices.ContainsFunc(p.patterns, func(pattern jsonschema.Regexp) bool { return pattern.MatchString(name) })
}

// member returns what becomes of a member, or false where no field takes it.
func (p *fieldPlan) member(name string) (jsonMember, bool) {
	if member, ok := p.members[name]; ok {
		return member, true
	}
	var room [64]byte
	member, ok := p.families[string(appendFolded(room[:0], name))]
	if ok && member.known != "" && p.matches(name) {
		member.known = ""
	}
	return member, ok
}

// check appends what is wrong with the members of a document to found.
func (m *Members) check(document any, found []Violation) []Violation {
	if m == nil {
		return found
	}
	switch value := document.(type) {
	case []any:
		for i, element := range value {
			of := m.rest
			if i < len(m.items) {
				of = m.items[i]
			}
			if of == nil {
				continue
			}
			before := len(found)
			found = of.check(element, found)
			within(found[before:], strconv.Itoa(i))
		}
	case map[string]any:
		if m.fields != nil {
			return m.fields.check(value, found)
		}
		for name, element := range value {
			of, ok := m.named[name]
			if !ok {
				of = m.rest
			}
			before := len(found)
			found = of.check(element, found)
			within(found[before:], name)
		}
	}
	return found
}

// within puts violations into a member or element.
func within(found []Violation, token string) {
	for i := range found {
		found[i].within(token)
	}
}

func (p *fieldPlan) check(object map[string]any, found []Violation) []Violation {
	var renamed []string // the members that are not called as their field
	for name, value := range object {
		member, ok := p.member(name)
		if !ok {
			continue
		}
		if name != p.fields[member.field].name {
			renamed = append(renamed, name)
		}
		before := len(found)
		if member.known != "" {
			found = append(found, Violation{Message: fmt.Sprintf(
				"the schema knows '%s' and not '%s', which would be read into the same field", member.known, name)})
		} else {
			found = member.nested.check(value, found)
		}
		within(found[before:], name)
	}
	if len(renamed) == 0 {
		return found
	}
	return p.checkRenamed(object, renamed, found)
}

// checkRenamed looks for members that are read into one field.
func (p *fieldPlan) checkRenamed(object map[string]any, renamed []string, found []Violation) []Violation {
	slices.Sort(renamed)
	readers := map[int]string{}
	for _, name := range renamed {
		member, _ := p.member(name)
		other, taken := readers[member.field]
		if _, ok := object[p.fields[member.field].name]; ok && !taken {
			other, taken = p.fields[member.field].name, true
		}
		if !taken {
			readers[member.field] = name
			continue
		}
		found = append(found, Violation{
			Pointer: pointer(name), Message: fmt.Sprintf("'%s' and '%s' would be read into the same field", other, name),
		})
	}
	return found
}
