// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/krabka-io/krabka-streams-go/schema"
)

// An order of an online shop. Each field names its Avro field in a tag; a field
// that can be null is a pointer, slice, map or interface.
type order struct {
	ID      string    `avro:"id"`
	Total   *big.Rat  `avro:"total"`
	Created time.Time `avro:"created"`
	Note    *string   `avro:"note"`
	Tags    []string  `avro:"tags"`
}

const orderAvro = `{
	"type": "record", "name": "Order", "namespace": "shop",
	"fields": [
		{"name": "id", "type": "string"},
		{"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
		{"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
		{"name": "note", "type": ["null", "string"], "default": null},
		{"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
	]
}`

// A serde reads what older writers wrote: fields that they did not have take
// their defaults, fields that are gone are passed over, numbers are widened.
func ExampleNewAvroSerde() {
	cache := schema.NewSchemaCache(nil) // a client comes here; this example does without a registry
	defer cache.Close()
	orders, err := schema.NewAvroSerde[order](orderAvro, cache, schema.RoleValue)
	if err != nil {
		fmt.Println(err)
		return
	}
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, orderAvro)

	payload, err := orders.Serialize("orders", order{
		ID: "o-1", Total: big.NewRat(1999, 100), Created: time.UnixMilli(1_700_000_000_123), Tags: []string{"gift"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	o, err := orders.Deserialize("orders", payload)
	fmt.Println(o.ID, o.Total.FloatString(2), o.Created.Format(time.DateTime), o.Note == nil, o.Tags, err)

	// Version 6 of the schema had a field more, and three less.
	cache.SeedWriterSchema(6, `{"type":"record","name":"Order","namespace":"shop","fields":[
		{"name":"clerk","type":"string"},
		{"name":"id","type":"string"},
		{"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
		{"name":"created","type":"long"}]}`)
	o, err = orders.Deserialize("orders", schema.Encode(6, []byte("\x06Bob\x06o-0\x02\x05\x02")))
	fmt.Println(o.ID, o.Total.FloatString(2), o.Created.UnixMilli(), o.Tags, err)

	// Output:
	// o-1 19.99 2023-11-14 22:13:20 true [gift] <nil>
	// o-0 0.05 1 [] <nil>
}

// Generic values need no Go types. What a value leaves out takes its default.
func ExampleNewGenericAvroSerde() {
	cache := schema.NewSchemaCache(nil)
	defer cache.Close()
	generic, err := schema.NewGenericAvroSerde(orderAvro, cache, schema.RoleValue)
	if err != nil {
		fmt.Println(err)
		return
	}
	cache.SeedSubjectID("orders-value", 7)
	cache.SeedWriterSchema(7, orderAvro)
	payload, err := generic.Serialize("orders", map[string]any{
		"id": "o-1", "total": big.NewRat(5, 2), "created": time.UnixMilli(0),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	value, err := generic.Deserialize("orders", payload)
	record := value.(map[string]any)
	fmt.Println(record["id"], record["total"].(*big.Rat).FloatString(2), record["note"], record["tags"], err)

	_, err = generic.Deserialize("orders", payload[:len(payload)-1])
	var broken *schema.AvroDataError
	fmt.Println(errors.As(err, &broken), broken)

	// Output:
	// o-1 2.50 <nil> [] <nil>
	// true field tags at byte 9: truncated: integer ends after 0 bytes
}

type customer struct {
	Name  string    `avro:"name"`
	Email *string   `avro:"email"`
	Since time.Time `avro:"since,date"`
	Limit *big.Rat  `avro:"limit,decimal(9,2)"`
	Rank  int32     `avro:"rank,alias=level,default=0"`
}

// A schema can come from the Go type.
func ExampleAvroSchemaFor() {
	text, err := schema.AvroSchemaFor[customer]("shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.ReplaceAll(text, `},{"name"`, "},\n  {\"name\""))

	// Output:
	// {"type":"record","name":"shop.customer","fields":[{"name":"name","type":"string"},
	//   {"name":"email","type":["null","string"],"default":null},
	//   {"name":"since","type":{"type":"int","logicalType":"date"}},
	//   {"name":"limit","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}],"default":null},
	//   {"name":"rank","type":"int","aliases":["level"],"default":0}]}
}

type orderPlaced struct {
	ID string `avro:"id"`
}

type orderShipped struct {
	ID      string `avro:"id"`
	Carrier string `avro:"carrier"`
}

// One topic can carry events of several types: a union whose branches have Go
// types of their own.
func ExampleWithAvroType() {
	cache := schema.NewSchemaCache(nil)
	defer cache.Close()
	events, err := schema.NewAvroSerde[any](`[
		{"type":"record","name":"shop.Placed","fields":[{"name":"id","type":"string"}]},
		{"type":"record","name":"shop.Shipped","fields":[{"name":"id","type":"string"},{"name":"carrier","type":"string"}]}]`,
		cache, schema.RoleValue,
		schema.WithAvroType("shop.Placed", orderPlaced{}),
		schema.WithAvroType("shop.Shipped", orderShipped{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	cache.SeedSubjectID("events-value", 1)
	cache.SeedWriterSchema(1, events.ReaderSchema().String())
	for _, event := range []any{orderPlaced{"o-1"}, orderShipped{"o-1", "DHL"}} {
		payload, err := events.Serialize("events", event)
		if err != nil {
			fmt.Println(err)
			return
		}
		read, err := events.Deserialize("events", payload)
		switch e := read.(type) {
		case orderPlaced:
			fmt.Println("placed", e.ID, err)
		case orderShipped:
			fmt.Println("shipped", e.ID, "by", e.Carrier, err)
		}
	}

	// Output:
	// placed o-1 <nil>
	// shipped o-1 by DHL <nil>
}

// The check runs in a build, before a registry is asked.
func ExampleAvroCompatibility() {
	const previous = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"count","type":"int"}]}`
	const candidate = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"count","type":"long"},{"name":"shop","type":"string"}]}`
	result, err := schema.AvroCompatibility(previous, candidate, schema.Full)
	fmt.Println(result.Compatible, err)
	for _, violation := range result.Incompatibilities {
		fmt.Println(violation)
	}

	// Output:
	// false <nil>
	// BACKWARD: shop: writer record Order does not have the field, and it has no default
	// FORWARD: count: reader int cannot read writer long
}
