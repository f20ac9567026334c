// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import (
	"cmp"
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Validate reports what is wrong with a document by the schema, and with the
// names of its members.
func Validate(schema *Validator, members *Members, document any) error {
	if excess := schema.excess(document); excess != nil {
		return &ValidationError{Violations: []Violation{*excess}}
	}
	err := schema.Validate(document)
	if err == nil && members == nil {
		return nil
	}
	result := new(ValidationError)
	if err != nil {
		failed, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return err
		}
		result.collect(failed, "")
	}
	if members != nil {
		result.Violations = members.check(document, members.typ, result.Violations)
	}
	switch excess := len(result.Violations) - maxViolations; {
	case len(result.Violations) == 0:
		return nil
	case excess > 0:
		result.Violations = result.Violations[:maxViolations]
		result.more += excess
	}
	slices.SortStableFunc(result.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	return result
}
