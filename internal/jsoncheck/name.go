// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// propertyNames is the keyword propertyNames. The library's own does not tell
// which object has the name: its errors share the memory of their place with
// what is validated later.
type propertyNames struct{ schema *jsonschema.Schema }

// placePropertyNames has propertyNames tell the place, everywhere in a schema.
func placePropertyNames(schema *jsonschema.Schema) {
	for _, s := range reachable([]*jsonschema.Schema{schema}, inside) {
		if s.PropertyNames != nil {
			s.Extensions = append(s.Extensions, propertyNames{s.PropertyNames})
			s.PropertyNames = nil
		}
	}
}

// Validate checks the names of an object.
func (p propertyNames) Validate(ctx *jsonschema.ValidatorContext, value any) {
	object, _ := value.(map[string]any)
	for name := range object {
		if failed, ok := p.schema.Validate(name).(*jsonschema.ValidationError); ok {
			ctx.AddErrors(failed.Causes, &kind.PropertyNames{Property: name})
		}
	}
}
