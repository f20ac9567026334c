// SPDX-License-Identifier: Apache-2.0

package registrydouble

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// defaultContext is the context of subjects that name none.
const defaultContext = "."

// contextOf returns the context of a subject, which the name :.context:subject has
// in front.
func contextOf(subject string) string {
	if rest, ok := strings.CutPrefix(subject, ":."); ok {
		if name, _, ok := strings.Cut(rest, ":"); ok {
			return "." + name
		}
	}
	return defaultContext
}

func (r *Registry) contextNames() []string {
	names := make([]string, 0, len(r.contexts))
	for name := range r.contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parse reads the body of a request, which holds a schema.
func (r *Registry) parse(raw []byte) (Schema, bool) {
	var schema Schema
	if json.Unmarshal(raw, &schema) != nil || schema.Text == "" {
		return Schema{}, false
	}
	return r.normal(schema), true
}

// normal writes a schema in the one way in which it is stored and compared.
func (r *Registry) normal(schema Schema) Schema {
	if schema.Kind == "AVRO" {
		schema.Kind = ""
	}
	if r.settings.WithoutMessageTypes {
		schema.MessageType = ""
	}
	return schema
}

func invalidSchema() (int, any) { return refusal(42201, "Invalid schema") }

func noSubject(subject string) (int, any) {
	return refusal(40401, "Subject '%s' not found.", subject)
}

func (r *Registry) live(subject string) []*version {
	return slices.DeleteFunc(slices.Clone(r.subjects[subject]), func(v *version) bool { return v.deleted })
}

func (r *Registry) names(prefix string, deleted bool) []string {
	names := []string{}
	for name, versions := range r.subjects {
		if strings.HasPrefix(name, prefix) && len(versions) > 0 && (deleted || len(r.live(name)) > 0) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// store adds a version with a schema to a subject, unless the subject has it. A
// schema has one id in all subjects of a context.
func (r *Registry) store(subject string, schema Schema) *version {
	for _, v := range r.live(subject) {
		if v.schema.schema.same(schema) {
			return v
		}
	}
	name := contextOf(subject)
	context := r.contexts[name]
	if context == nil {
		context = &idSpace{}
		r.contexts[name] = context
	}
	i := slices.IndexFunc(context.schemas, func(s *stored) bool { return s.schema.same(schema) })
	if i < 0 {
		i = len(context.schemas)
		context.schemas = append(context.schemas, &stored{id: i + 1, guid: r.nextGUID(), schema: schema})
	}
	number := 1
	if versions := r.subjects[subject]; len(versions) > 0 {
		number = versions[len(versions)-1].number + 1
	}
	v := &version{number: number, schema: context.schemas[i]}
	r.subjects[subject] = append(r.subjects[subject], v)
	return v
}

// nextGUID returns a GUID that no schema of any context has.
func (r *Registry) nextGUID() string {
	n := 1
	for _, context := range r.contexts {
		n += len(context.schemas)
	}
	return fmt.Sprintf("ab000000-0000-4000-8000-%012x", n)
}

func (r *Registry) describe(subject string, v *version) map[string]any {
	answer := r.describeSchema(v.schema)
	answer["id"], answer["version"], answer["subject"] = v.schema.id, v.number, subject
	return answer
}

func (r *Registry) describeSchema(s *stored) map[string]any {
	answer := map[string]any{"schema": s.schema.Text}
	if s.schema.Kind != "" {
		answer["schemaType"] = s.schema.Kind
	}
	if s.schema.MessageType != "" {
		answer["messageType"] = s.schema.MessageType
	}
	if len(s.schema.References) > 0 {
		answer["references"] = s.schema.References
	}
	if len(s.schema.Metadata) > 0 {
		answer["metadata"] = s.schema.Metadata
	}
	if len(s.schema.RuleSet) > 0 {
		answer["ruleSet"] = s.schema.RuleSet
	}
	if !r.settings.Plain {
		answer["guid"] = s.guid
	}
	return answer
}

// register answers POST /subjects/{subject}/versions.
func (r *Registry) register(subject string, raw []byte) (int, any) {
	schema, ok := r.parse(raw)
	if !ok {
		return invalidSchema()
	}
	for _, reference := range schema.References {
		if r.find(reference.Subject, reference.Version) == nil {
			return refusal(42201, "No schema reference found for subject %q and version %d", reference.Subject, reference.Version)
		}
	}
	if found := r.incompatibilities(subject, schema); len(found) > 0 {
		return refusal(40901, "Schema being registered is incompatible with an earlier schema for subject %q: %s", subject, strings.Join(found, "; "))
	}
	v := r.store(subject, schema)
	if r.settings.Plain {
		return http.StatusOK, map[string]any{"id": v.schema.id}
	}
	return http.StatusOK, r.describe(subject, v)
}

func (r *Registry) incompatibilities(subject string, schema Schema) []string {
	if r.settings.Incompatibilities == nil {
		return nil
	}
	level, ok := r.levels[subject]
	if !ok {
		level = r.levels[""]
	}
	var history []Schema
	for _, v := range r.live(subject) {
		history = append(history, v.schema.schema)
	}
	return r.settings.Incompatibilities(level, history, schema)
}

// lookUp answers POST /subjects/{subject}.
func (r *Registry) lookUp(subject string, raw []byte) (int, any) {
	schema, ok := r.parse(raw)
	if !ok {
		return invalidSchema()
	}
	live := r.live(subject)
	if len(live) == 0 {
		return noSubject(subject)
	}
	for _, v := range live {
		if v.schema.schema.same(schema) {
			return http.StatusOK, r.describe(subject, v)
		}
	}
	return refusal(40403, "Schema not found")
}

func (r *Registry) numbers(subject string, deleted bool) (int, any) {
	numbers := []int{}
	for _, v := range r.subjects[subject] {
		if deleted || !v.deleted {
			numbers = append(numbers, v.number)
		}
	}
	if len(numbers) == 0 {
		return noSubject(subject)
	}
	return http.StatusOK, numbers
}

func (r *Registry) find(subject string, number int) *version {
	for _, v := range r.subjects[subject] {
		if v.number == number {
			return v
		}
	}
	return nil
}

// version answers GET and DELETE /subjects/{subject}/versions/{version}.
func (r *Registry) version(remove bool, subject, which string, deleted, permanent bool) (int, any) {
	candidates := r.live(subject)
	if deleted || permanent {
		candidates = r.subjects[subject]
	}
	if len(candidates) == 0 {
		return noSubject(subject)
	}
	number, err := strconv.Atoi(which)
	if which == "latest" || which == "-1" {
		number = candidates[len(candidates)-1].number
	} else if err != nil || number < 1 {
		return refusal(42202, "The specified version '%s' is not a valid version id.", which)
	}
	i := slices.IndexFunc(candidates, func(v *version) bool { return v.number == number })
	switch {
	case i < 0:
		return refusal(40402, "Version %s not found.", which)
	case !remove:
		return http.StatusOK, r.describe(subject, candidates[i])
	case len(r.referrers(subject, number)) > 0:
		return refusal(42206, "One or more references exist to the schema")
	case permanent && !candidates[i].deleted:
		return refusal(40407, "Subject '%s' Version %s was not deleted first before being permanently deleted", subject, which)
	}
	candidates[i].deleted = true
	if permanent {
		r.subjects[subject] = slices.DeleteFunc(slices.Clone(r.subjects[subject]), func(v *version) bool { return v.number == number })
	}
	return http.StatusOK, number
}

// referrers returns the ids of schemas with a reference to a version.
func (r *Registry) referrers(subject string, number int) []int {
	ids := []int{}
	for _, context := range r.contexts {
		for _, s := range context.schemas {
			refers := func(reference Reference) bool { return reference.Subject == subject && reference.Version == number }
			if slices.ContainsFunc(s.schema.References, refers) {
				ids = append(ids, s.id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func (r *Registry) deleteSubject(subject string, permanent bool) (int, any) {
	numbers := []int{}
	for _, v := range r.subjects[subject] {
		switch {
		case len(r.referrers(subject, v.number)) > 0:
			return refusal(42206, "One or more references exist to the schema")
		case permanent && !v.deleted:
			return refusal(40405, "Subject '%s' was not deleted first before being permanently deleted", subject)
		case permanent || !v.deleted:
			numbers = append(numbers, v.number)
		}
	}
	if len(numbers) == 0 {
		return noSubject(subject)
	}
	for _, v := range r.subjects[subject] {
		v.deleted = true
	}
	if permanent {
		delete(r.subjects, subject)
	}
	return http.StatusOK, numbers
}

// byID answers GET /schemas/ids/{id}. An id belongs to the context of the subject
// that the query names, and without one to the default context.
func (r *Registry) byID(which, rest, subject string) (int, any) {
	id, err := strconv.Atoi(which)
	if err != nil {
		return refusal(42201, "The id '%s' is not a number", which)
	}
	context := r.contexts[contextOf(subject)]
	if context == nil || id < 1 || id > len(context.schemas) {
		return refusal(40403, "Schema %s not found", which)
	}
	schema := context.schemas[id-1]
	type place struct {
		Subject string `json:"subject"`
		Version int    `json:"version"`
	}
	places, subjects := []place{}, []string{}
	for _, name := range r.names("", false) {
		for _, v := range r.live(name) {
			if v.schema == schema {
				places, subjects = append(places, place{name, v.number}), append(subjects, name)
			}
		}
	}
	switch rest {
	case "versions":
		return http.StatusOK, places
	case "subjects":
		return http.StatusOK, subjects
	default:
		return http.StatusOK, r.describeSchema(schema)
	}
}

func (r *Registry) byGUID(which string) (int, any) {
	for _, context := range r.contexts {
		for _, s := range context.schemas {
			if s.guid == which {
				return http.StatusOK, r.describeSchema(s)
			}
		}
	}
	return refusal(40403, "Schema not found")
}

// setting answers the calls of one kind of setting, whose values lie by subject.
func (r *Registry) setting(request *http.Request, subject string, raw []byte, values map[string]string, getKey, putKey string, missing int) (int, any) {
	switch request.Method {
	case http.MethodPut:
		var body map[string]any
		text := ""
		if json.Unmarshal(raw, &body) == nil {
			text, _ = body[putKey].(string)
		}
		if text == "" {
			return refusal(42203, "Invalid %s", putKey)
		}
		values[subject] = text
		return http.StatusOK, body
	case http.MethodDelete:
		old := values[subject]
		delete(values, subject)
		if subject == "" {
			values[""] = map[string]string{"compatibility": "BACKWARD", "mode": "READWRITE"}[putKey]
		}
		return http.StatusOK, map[string]string{getKey: old}
	}
	value, ok := values[subject]
	if !ok && request.URL.Query().Get("defaultToGlobal") == "true" {
		value, ok = values[""], true
	}
	if !ok {
		return refusal(missing, "Subject '%s' does not have subject-level %s configured", subject, putKey)
	}
	return http.StatusOK, map[string]string{getKey: value}
}

// check answers POST /compatibility/subjects/{subject}/versions and below.
func (r *Registry) check(subject, which string, raw []byte) (int, any) {
	schema, ok := r.parse(raw)
	if !ok {
		return invalidSchema()
	}
	if which != "" && len(r.live(subject)) == 0 {
		return noSubject(subject)
	}
	found := append([]string{}, r.incompatibilities(subject, schema)...)
	return http.StatusOK, map[string]any{"is_compatible": len(found) == 0, "messages": found}
}
