// SPDX-License-Identifier: Apache-2.0

// Package krabkatest tests programs that use this library, without Kafka and
// without a schema registry.
//
// A [ColumnarTestDriver] feeds records to a topology and queues the records that
// come out of it. A [SchemaRegistryStub] is a registry in the process of the test,
// which fails, waits and restarts when the test says so.
package krabkatest
