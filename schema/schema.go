// SPDX-License-Identifier: Apache-2.0

package schema

import "fmt"

// Kind is a schema language.
type Kind int

// The schema languages of a registry.
const (
	KindAvro Kind = iota
	KindProtobuf
	KindJSON
)

// String returns the registry's name of the language: "AVRO", "PROTOBUF" or
// "JSON". Any other value reads as "AVRO".
func (k Kind) String() string {
	switch k {
	case KindProtobuf:
		return "PROTOBUF"
	case KindJSON:
		return "JSON"
	default:
		return "AVRO"
	}
}

// wireName returns the schemaType member of a request, which is left out for
// Avro.
func (k Kind) wireName() string {
	if k == KindProtobuf || k == KindJSON {
		return k.String()
	}
	return ""
}

// kindOf reads the schemaType member of an answer, where absent means Avro.
func kindOf(schemaType string) (Kind, error) {
	switch schemaType {
	case "", "AVRO":
		return KindAvro, nil
	case "PROTOBUF":
		return KindProtobuf, nil
	case "JSON":
		return KindJSON, nil
	default:
		return 0, fmt.Errorf("unknown schema type %q", schemaType)
	}
}

// RegisterMode says how a [SchemaCache] turns a local schema into an id.
type RegisterMode int

const (
	// AutoRegister registers the local schema; an identical one keeps its id.
	AutoRegister RegisterMode = iota
	// LookupOnly asks for the id of the local schema and never writes.
	LookupOnly
	// UseLatest takes the subject's latest version, whatever it is: values are
	// written under that schema, and it must be able to read what the local
	// schema describes.
	UseLatest
)

// SchemaReference points from a schema to a version of another subject. Name
// is how the schema spells it: a full name in Avro, an import path in
// Protobuf, a $ref URI in JSON Schema.
type SchemaReference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Reference is a schema that another schema refers to, with its text.
//
// Given to a serde or to [SchemaCache.InternWithReferences] it is a local
// dependency: with Version 0, prewarm registers or looks up Schema under
// Subject, after its own References, and fills the version in. In a
// [ResolvedSchema] it is what the registry holds.
type Reference struct {
	Name       string
	Subject    string
	Version    int
	Schema     string
	References []Reference // what Schema itself refers to
}

// RegisteredSchema is one version of a subject.
type RegisteredSchema struct {
	ID          int
	Version     int
	Schema      string
	SchemaType  string            // "" for Avro, "PROTOBUF", "JSON"
	MessageType string            // full name of a Protobuf message, where the registry states one
	References  []SchemaReference // nil when there are none
	Subject     string            // "" where the registry does not repeat it
	GUID        string            // "" where the registry has none
	Metadata    []byte            // JSON of the data contract's metadata, nil when absent
	RuleSet     []byte            // JSON of the data contract's rules, nil when absent
}

// FetchedSchema is a schema by its global id or GUID.
type FetchedSchema struct {
	Schema      string
	MessageType string
	References  []SchemaReference // nil when there are none
	SchemaType  string            // "" for Avro, "PROTOBUF", "JSON"
	GUID        string            // "" where the registry does not state it
	Metadata    []byte            // JSON of the data contract's metadata, nil when absent
	RuleSet     []byte            // JSON of the data contract's rules, nil when absent
}

// ResolvedSchema is a schema with the text of everything it refers to,
// directly or not.
type ResolvedSchema struct {
	Schema      string
	MessageType string
	// References maps each reference name to its schema text. It is never nil
	// in an answer of a client.
	References map[string]string
	// Dependencies lists the same schemas in the order in which a parser needs
	// them: each once, after everything that it refers to.
	Dependencies []Reference
	SchemaType   string // "" for Avro, "PROTOBUF", "JSON"
	GUID         string // "" where the registry does not state it
	Metadata     []byte // JSON of the data contract's metadata, nil when absent
	RuleSet      []byte // JSON of the data contract's rules, nil when absent
}

// NewSchema is a schema to register, look up or check.
type NewSchema struct {
	Kind        Kind
	Schema      string
	MessageType string // sent when not empty; standard registries ignore it
	References  []SchemaReference
	Metadata    []byte // JSON, sent when not empty
	RuleSet     []byte // JSON, sent when not empty
}

// SubjectVersion is one place where a schema is registered.
type SubjectVersion struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
}
