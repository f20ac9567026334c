// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaRuleError says that a rule of a schema's data contract has to run on
// every value, such as one that encrypts fields, and that this library runs no
// rules. A [*SerializeError] or [*DeserializeError] wraps it and names the schema.
// [WithoutRules] leaves the rules to the caller.
type SchemaRuleError struct {
	Rule string // name of the rule
	Type string // of the rule, such as "ENCRYPT" or "CEL"; "" where the rule set cannot be read
	Mode string // "READ", "WRITE" or "WRITEREAD"

	cause error
}

// Error names the rule, or tells why the rule set cannot be read.
func (e *SchemaRuleError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("invalid rule set of the schema: %v", e.cause)
	}
	return fmt.Sprintf("rule %s of type %s has to run in mode %s, and no rules are run; WithoutRules leaves them to the caller", e.Rule, e.Type, e.Mode)
}

// Unwrap returns why the rule set cannot be read, or nil.
func (e *SchemaRuleError) Unwrap() error { return e.cause }

// schemaRule is a rule as registries store it.
type schemaRule struct {
	Name, Type, Mode string
	OnFailure        string
	Disabled         bool
}

// requiredRule returns an error about the first rule that has to run when values
// are read or written, or nil. Rules that move data between versions of a schema
// are not among them, and neither are rules that may fail without consequence.
func requiredRule(ruleSet []byte, reading bool) error {
	if len(ruleSet) == 0 {
		return nil
	}
	var set struct{ DomainRules, EncodingRules []schemaRule }
	if err := json.Unmarshal(ruleSet, &set); err != nil {
		return &SchemaRuleError{cause: err}
	}
	for _, rule := range append(set.DomainRules, set.EncodingRules...) {
		if !rule.Disabled && rule.runs(reading) {
			return &SchemaRuleError{Rule: rule.Name, Type: rule.Type, Mode: rule.Mode}
		}
	}
	return nil
}

// runs reports whether the rule has to run on one side. The action on failure may
// differ for the two sides, of which that of writing comes first.
func (r *schemaRule) runs(reading bool) bool {
	action := r.OnFailure
	switch r.Mode {
	case "WRITE":
		if reading {
			return false
		}
	case "READ":
		if !reading {
			return false
		}
	case "", "WRITEREAD":
		if onWrite, onRead, both := strings.Cut(r.OnFailure, ","); both {
			action = onWrite
			if reading {
				action = onRead
			}
		}
	default:
		return false
	}
	return strings.TrimSpace(action) != "NONE"
}
