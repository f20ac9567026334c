// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/hamba/avro/v2"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// namedText is how the parser of Avro takes a reference.
func namedText(r Reference) (name, text string) { return r.Name, r.Schema }

// hambaSchema parses text with the hamba library, in a name table of its own.
// That library refuses defaults of a later branch of a union, among others, so
// that a text which it cannot take is reduced to what describes data. It is nil
// where that does not help either.
func hambaSchema(text string, references []Reference, local *avroplan.Schema) avro.Schema {
	names := &avro.SchemaCache{}
	for _, r := range references {
		if _, err := avro.ParseWithCache(r.Schema, "", names); err != nil {
			return hambaLayout(local)
		}
	}
	s, err := avro.ParseWithCache(text, "", names)
	if err != nil {
		return hambaLayout(local)
	}
	return s
}

func hambaLayout(local *avroplan.Schema) avro.Schema {
	s, err := avro.ParseWithCache(local.Layout(), "", &avro.SchemaCache{})
	if err != nil {
		return nil
	}
	return s
}
