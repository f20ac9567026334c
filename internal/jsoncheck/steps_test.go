// SPDX-License-Identifier: Apache-2.0

package jsoncheck

import "testing"

func TestSchemasThatRepeatAreTold(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"properties":{"a":{"$ref":"#/definitions/m"},"b":{"$ref":"#/definitions/m"}},"definitions":{"m":{"type":"string"}}}`: false,
		`{"properties":{"next":{"$ref":"#"}}}`: false,
		`{"properties":{"l":{"$ref":"#"},"r":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"items":{"$ref":"#"}}`:        false,
		`{"allOf":[{"$ref":"#/definitions/m"},{"$ref":"#/definitions/m"}],"definitions":{"m":{}}}`:                   true,
		`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^a":{"$ref":"#"}}}`:                                  true,
		`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^b":{"$ref":"#"}}}`:                                  false,
		`{"patternProperties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`:                                                  true,
		`{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`:                                                             true,
		`{"items":[{"$ref":"#"}],"additionalItems":{"$ref":"#"}}`:                                                    false,
		`{"propertyNames":{"allOf":[{"$ref":"#/definitions/m"},{"$ref":"#/definitions/m"}]},"definitions":{"m":{}}}`: true,
		`{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`:                            true,
		`{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"b":{"$ref":"#"}}}]}`:                            false,
		`{"dependencies":{"a":{"$ref":"#/definitions/m"}},"not":{"$ref":"#/definitions/m"},"definitions":{"m":{}}}`:  true,
	} {
		v, err := new(Dialect).Validator(schema, nil)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
		} else if v.repeats != want {
			t.Errorf("%s: repeats is %v, want %v", schema, v.repeats, want)
		}
	}
}
