// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Source is a schema that another one refers to by a name.
type Source struct {
	Name string // as the schema spells it
	Text string
}

// Dialect says how JSON Schema texts are understood.
type Dialect struct {
	Draft         *jsonschema.Draft // nil: draft-07
	AssertFormats bool
	IgnoreFormats bool
	CompileRegexp jsonschema.RegexpEngine // nil: package regexp
}

// Key tells dialects apart, except for the functions that compile patterns.
func (d *Dialect) Key() string {
	version := ""
	if d.Draft != nil {
		version = d.Draft.String()
	}
	return fmt.Sprint(version, d.AssertFormats, d.IgnoreFormats, d.CompileRegexp != nil)
}

// Address stands for a schema text that has no $id. Nothing is read from
// it.
const Address = "registry:///schema.json"

// Validator compiles a schema for documents to be validated.
func (d *Dialect) Validator(text string, dependencies []Source) (*Validator, error) {
	compiled, err := d.Compile(text, dependencies)
	if err != nil {
		return nil, err
	}
	placePropertyNames(compiled)
	return &Validator{compiled, repeats(compiled)}, nil
}

// Compile prepares a schema and everything that it refers to.
func (d *Dialect) Compile(text string, dependencies []Source) (*jsonschema.Schema, error) {
	compiled, _, err := d.compileAt(Address, text, dependencies)
	return compiled, err
}

// compileAt is compile for a schema at another address. It returns the documents
// as well, by address.
func (d *Dialect) compileAt(address, text string, dependencies []Source) (*jsonschema.Schema, referenceLoader, error) {
	document, err := ParseSchema([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	loader := referenceLoader{}
	bases := []*url.URL{baseOf(address, document)}
	parsed := make([]any, len(dependencies))
	for i, dependency := range dependencies {
		if parsed[i], err = ParseSchema([]byte(dependency.Text)); err != nil {
			return nil, nil, fmt.Errorf("invalid JSON Schema reference %s: %w", dependency.Name, err)
		}
		bases = append(bases, baseOf(resolved(bases[0], dependency.Name), parsed[i]))
	}
	for i, dependency := range dependencies {
		for _, base := range bases {
			loader[resolved(base, dependency.Name)] = parsed[i]
		}
	}
	loader[address] = document
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(loader)
	compiler.DefaultDraft(cmp.Or(d.Draft, jsonschema.Draft7))
	compileRegexp := d.CompileRegexp
	if compileRegexp == nil {
		compileRegexp = CompilePattern
	}
	compiler.UseRegexpEngine(compileRegexp)
	if d.AssertFormats {
		compiler.AssertFormat()
	}
	if d.IgnoreFormats {
		for _, document := range append(parsed, document) {
			ignoreFormats(compiler, document)
		}
	}
	compiled, err := compiler.Compile(address)
	return compiled, loader, err
}

// baseOf returns the address against which a schema's references are resolved:
// its $id, where it has one.
func baseOf(address string, document any) *url.URL {
	base, err := url.Parse(address)
	if err != nil {
		base = &url.URL{Scheme: "registry", Path: "/"}
	}
	object, _ := document.(map[string]any)
	for _, keyword := range []string{"$id", "id"} {
		if id, ok := object[keyword].(string); ok {
			if parsed, err := url.Parse(id); err == nil {
				base = base.ResolveReference(parsed)
				base.Fragment = ""
				break
			}
		}
	}
	return base
}

func resolved(base *url.URL, name string) string {
	parsed, err := url.Parse(name)
	if err != nil {
		return name
	}
	address := base.ResolveReference(parsed)
	address.Fragment = ""
	return address.String()
}

// referenceLoader holds a schema and the registry's references by address. It is
// all that the schema can reach.
type referenceLoader map[string]any

// Load returns the schema at an address.
func (l referenceLoader) Load(address string) (any, error) {
	document, ok := l[address]
	if !ok {
		return nil, errors.New("it is not among the schema's registry references, and nothing else is read")
	}
	return document, nil
}

// IgnoreFormats makes every format that is named anywhere in a schema accept all
// values.
func ignoreFormats(compiler *jsonschema.Compiler, value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			ignoreFormats(compiler, element)
		}
	case map[string]any:
		for key, member := range v {
			if name, ok := member.(string); ok && key == "format" {
				compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
			}
			ignoreFormats(compiler, member)
		}
	}
}
