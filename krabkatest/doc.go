// SPDX-License-Identifier: Apache-2.0

// Package krabkatest tests programs that use this library, without Kafka.
//
// A [ColumnarTestDriver] feeds records to a topology and queues the records that
// come out of it.
package krabkatest
