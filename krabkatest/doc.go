// SPDX-License-Identifier: Apache-2.0

// Package krabkatest tests programs that use this library, without Kafka and
// without a schema registry.
//
// A [ColumnarTestDriver] feeds records to a topology and queues the records that
// come out of it. A [Broker] is a Kafka cluster in the process of the test, for a
// service with its runner: its members join groups, produce in transactions, are
// fenced and thrown out, and fail when the test says so. A [Process] crashes in the
// middle of them. A [SchemaRegistryStub] is a registry in the process of the test,
// which fails, waits and restarts when the test says so.
package krabkatest
