// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/krabka-io/krabka-streams-go/schema"
)

type payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

const paymentSchema = `{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "Payment",
  "type": "object",
  "properties": {"id": {"type": "string", "minLength": 1}, "amount": {"type": "integer", "minimum": 1}},
  "required": ["id", "amount"]
}`

// A value that breaks the schema is not written, and the error tells every
// place.
func ExampleNewJSONSchemaSerde() {
	cache := schema.NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	cache.SeedSubjectID("payments-value", 3)
	payments, err := schema.NewJSONSchemaSerde[payment](paymentSchema, cache, schema.RoleValue, true)
	if err != nil {
		log.Fatal(err)
	}
	payload, err := payments.Serialize("payments", payment{ID: "p-1", Amount: 250})
	fmt.Printf("%q %v\n", payload, err)

	_, err = payments.Serialize("payments", payment{Amount: -1})
	if invalid, ok := errors.AsType[*schema.ValidationError](err); ok {
		for _, violation := range invalid.Violations {
			fmt.Println(violation.Pointer, violation.Message)
		}
	}
	// Output:
	// "\x00\x00\x00\x00\x03{\"id\":\"p-1\",\"amount\":250}" <nil>
	// /amount minimum: got -1, want 1
	// /id minLength: got 0, want 1
}

// A schema can only refer to what it names as a reference.
func ExampleWithReferences() {
	cache := schema.NewSchemaCache(nil)
	defer func() { _ = cache.Close() }()
	cache.SeedSubjectID("invoices-value", 4)
	money := schema.Reference{Name: "money.json", Subject: "money", Schema: `{"type":"integer","minimum":0}`}
	const text = `{"type":"object","properties":{"total":{"$ref":"money.json"}}}`
	invoices, err := schema.NewJSONSchemaSerde[map[string]any](text, cache, schema.RoleValue, true, schema.WithReferences(money))
	if err != nil {
		log.Fatal(err)
	}
	_, err = invoices.Serialize("invoices", map[string]any{"total": "much"})
	fmt.Println(err)
	// Output: cannot serialize schema value: JSON Schema validation failed: got string, want integer at "/total" (JSON schema 4, subject invoices-value)
}

func ExampleJSONCompatibility() {
	const previous = `{"type":"object","properties":{"id":{"type":"string"},"total":{"type":"number"}},"required":["id"]}`
	const candidate = `{"type":"object","properties":{"id":{"type":"string"},"total":{"type":"integer"}},"required":["id","total"]}`
	result, err := schema.JSONCompatibility(previous, candidate, schema.Full)
	if err != nil {
		log.Fatal(err)
	}
	for _, violation := range result.Incompatibilities {
		fmt.Println(violation)
	}
	// Output:
	// BACKWARD: total narrows type from [number] to [integer]
	// BACKWARD: total became required
}
