// SPDX-License-Identifier: Apache-2.0

// Package prototext reads, prints and compares Protobuf schemas.
//
// A schema is a text with the texts that it imports, as a registry holds them,
// or a file descriptor. [Compile] turns the first into the second within
// bounds, [Print] the second into the first, and [Violations] lists why one
// file cannot read what another one wrote. Messages, frames and registries are
// the business of package schema, which hands out [SchemaError] under its own
// name.
package prototext
