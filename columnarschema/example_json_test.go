// SPDX-License-Identifier: Apache-2.0

package columnarschema_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// Documents that keep their schema become columns, and the one that does not is
// named.
func ExampleNewJSONSchemaBatchCodec() {
	const text = `{"type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer","minimum":0}},"required":["id"]}`
	cache := schema.NewSchemaCache(nil) // of a registry client, in a service
	defer cache.Close()
	cache.SeedWriterSchema(1, text)
	cache.SeedSubjectID("orders-value", 1)

	codec, err := columnarschema.NewJSONSchemaBatchCodec(text, cache, memory.DefaultAllocator, columnarschema.WithValidation(),
		columnarschema.WithPoisonHandler(func(bad *columnar.RecordError) {
			var broken *schema.ValidationError
			if errors.As(bad, &broken) {
				fmt.Println("record", bad.Index, "breaks its schema at", broken.Violations[0].Pointer)
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("orders", []columnar.ConsumedRecord{
		{Value: schema.Encode(1, []byte(`{"id":"a","cents":5}`))},
		{Value: schema.Encode(1, []byte(`{"id":"b","cents":-1}`))},
		{Value: schema.Encode(1, []byte(`{"id":"c"}`))},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	fmt.Println(batch.Column(0), batch.Column(1))
	records, err := codec.Encode("orders", batch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", records[1].Value)
	// Output:
	// record 1 breaks its schema at /cents
	// ["a" "c"] [5 (null)]
	// "\x00\x00\x00\x00\x01{\"id\":\"c\"}"
}
