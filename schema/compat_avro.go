// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"

	"github.com/krabka-io/krabka-streams-go/internal/avroplan"
)

// AvroCompatibility compares two Avro schemas as mode demands. Every place
// where the reader could not read what the writer writes is listed, with its
// path in the reader: also those that only some data reach, such as a branch of
// a union or a symbol of an enum.
//
// Unlike a registry's check it counts changes of logical types that would be
// misread, such as another scale of a decimal.
//
// A text that is no Avro schema is an error.
func AvroCompatibility(previousSchema, candidateSchema string, mode CompatibilityMode) (CompatibilityResult, error) {
	return CheckAvroCompatibility([]ResolvedSchema{{Schema: previousSchema}}, ResolvedSchema{Schema: candidateSchema}, mode)
}

// CheckAvroCompatibility is [AvroCompatibility] for a candidate and the schemas
// before it, oldest first, each with the schemas that it refers to. Modes that
// are not transitive look at the last one alone.
func CheckAvroCompatibility(history []ResolvedSchema, candidate ResolvedSchema, mode CompatibilityMode) (CompatibilityResult, error) {
	parsed := make([]*avroplan.Schema, len(history))
	for i, previous := range history {
		// Defaults that an older version got wrong have been accepted once.
		s, err := avroplan.ParseAfter(avroplan.ParseWriter, previous.Schema, previous.Dependencies, namedText)
		if err != nil {
			return CompatibilityResult{}, fmt.Errorf("invalid previous Avro schema: %w", err)
		}
		parsed[i] = s
	}
	latest, err := avroplan.ParseAfter(avroplan.Parse, candidate.Schema, candidate.Dependencies, namedText)
	if err != nil {
		return CompatibilityResult{}, fmt.Errorf("invalid candidate Avro schema: %w", err)
	}
	return checkHistory(parsed, latest, mode, func(reader, writer *avroplan.Schema) []string {
		var violations []string
		for _, m := range avroplan.Check(writer, reader) {
			violations = append(violations, m.String())
		}
		return violations
	}), nil
}
