// SPDX-License-Identifier: Apache-2.0

// Package jsoncheck compiles JSON Schemas, validates documents by them, and
// compares schemas with each other.
//
// A [Dialect] compiles a schema with the schemas that it refers to and reads
// nothing else. [Validate] bounds the work for one document, and checks the
// names of its members against the Go type that is to hold it. A [Comparer]
// lists why one schema refuses documents of another. Frames, subjects and
// registries are the business of package schema, which hands out
// [ValidationError] and [Violation] under its own names.
package jsoncheck
