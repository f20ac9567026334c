// SPDX-License-Identifier: Apache-2.0

// Package schema is a client for Confluent-compatible schema registries, a
// cache that keeps lookups off the poll loop, and serdes for Avro, Protobuf
// and JSON Schema in the registry's wire format.
package schema
