// SPDX-License-Identifier: Apache-2.0

// Package avrovalue maps Avro data to Go values and back.
//
// A [Codec] joins one Avro schema and one Go type. Its functions are compiled
// once: plans of avroplan become functions that fill Go values, and schemas
// become functions that append data. Frames, subjects and registries are the
// business of package schema, which hands out [Duration] and [ValueError] under
// its own names.
package avrovalue
