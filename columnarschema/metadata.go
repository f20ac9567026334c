// SPDX-License-Identifier: Apache-2.0

package columnarschema

import "github.com/apache/arrow-go/v18/arrow"

// Keys of the field metadata by which a column remembers the type of its schema
// language.
const (
	// MetadataJSON marks a text column that holds JSON; its value is "true".
	MetadataJSON = "krabka.json"
	// MetadataAvroEnum holds the full name of the enum of a column of symbols.
	MetadataAvroEnum = "krabka.avro.enum"
	// MetadataAvroEnumSymbols holds the symbols of the enum, in the order of its
	// schema and joined by commas.
	MetadataAvroEnumSymbols = "krabka.avro.enum.symbols"
	// MetadataAvroUnion marks a struct column that spreads a union of several
	// branches; its value is "true".
	MetadataAvroUnion = "krabka.avro.union"
	// MetadataAvroFixed holds the full name of the fixed of a column.
	MetadataAvroFixed = "krabka.avro.fixed"
	// MetadataAvroLogical holds the logical type of a column whose Arrow type
	// does not tell it: "uuid", "duration" or "big-decimal".
	MetadataAvroLogical = "krabka.avro.logical"
	// MetadataProtoEnum holds the full name of the enum of a column of value
	// names.
	MetadataProtoEnum = "krabka.proto.enum"
	// MetadataProtoOneof holds the name of the oneof that a column is a member
	// of.
	MetadataProtoOneof = "krabka.proto.oneof"
	// MetadataProtoWrapper holds the full name of the wrapper message whose value
	// a column holds.
	MetadataProtoWrapper = "krabka.proto.wrapper"
	// MetadataProtoMessage holds the full name of the message that a column holds
	// as JSON text.
	MetadataProtoMessage = "krabka.proto.message"
)

// metadataOf returns field metadata of the pairs, sorted by key.
func metadataOf(pairs map[string]string) arrow.Metadata {
	if len(pairs) == 0 {
		return arrow.Metadata{}
	}
	return arrow.MetadataFrom(pairs)
}

// metadataValue returns the value of a key of a field's metadata, or "".
func metadataValue(field arrow.Field, key string) string {
	value, _ := field.Metadata.GetValue(key)
	return value
}
