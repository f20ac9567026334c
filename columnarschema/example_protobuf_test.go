// SPDX-License-Identifier: Apache-2.0

package columnarschema_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/apipb"

	"github.com/krabka-io/krabka-streams-go/columnar"
	"github.com/krabka-io/krabka-streams-go/columnarschema"
	"github.com/krabka-io/krabka-streams-go/schema"
)

// Records of a generated message become columns. What the message does not declare
// passes through.
func ExampleNewProtobufBatchCodec() {
	cache := schema.NewSchemaCache(nil) // of a registry client, in a service
	defer cache.Close()
	cache.SeedWriterSchema(1, `syntax = "proto3"; package google.protobuf; message Mixin { string name = 1; string root = 2; int32 weight = 9; }`)
	cache.SeedSubjectID("mixins-value", 2)

	codec := columnarschema.NewProtobufBatchCodec((*apipb.Mixin)(nil), cache, memory.DefaultAllocator, columnarschema.WithUnknownFields())
	if err := codec.Err(); err != nil {
		log.Fatal(err)
	}
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "access")
	body = protowire.AppendVarint(protowire.AppendTag(body, 9, protowire.VarintType), 3)
	value, err := schema.EncodeProtobuf(1, []int{0}, body)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := codec.Decode("mixins", []columnar.ConsumedRecord{{Value: value}})
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	fmt.Println(batch.ColumnName(0), batch.Column(0))
	fmt.Println(batch.ColumnName(1), batch.Column(1))
	records, err := codec.Encode("mixins", batch)
	if err != nil {
		log.Fatal(err)
	}
	frame, err := schema.DecodeProtobuf(records[0].Value)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("schema %d, message %v, body %q\n", frame.SchemaID, frame.MessageIndexes, frame.Body)
	// Output:
	// name ["access"]
	// root [""]
	// schema 2, message [2], body "\n\x06accessH\x03"
}

// Messages become columns and come back.
func ExampleNewProtobufRowBridge() {
	bridge := columnarschema.NewProtobufRowBridge((*apipb.Mixin)(nil))
	batch, err := bridge.RowsToBatch([]*apipb.Mixin{{Name: "access", Root: "acls"}, {}}, memory.DefaultAllocator)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Release()
	fmt.Println(batch.Column(0), batch.Column(1))
	rows, err := bridge.BatchToRows(batch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(rows), rows[0].GetRoot())
	// Output:
	// ["access" ""] ["acls" ""]
	// 2 acls
}
