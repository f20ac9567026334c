// SPDX-License-Identifier: Apache-2.0

// Package krabkastreams is the root of krabka-streams-go, a library that Go
// services embed to process Kafka streams as Apache Arrow record batches and
// to elect leaders that the broker itself fences.
//
// The packages:
//
//   - schema: schema registry client, cache and serdes for Avro, Protobuf and
//     JSON Schema.
//   - columnar: record batches, codecs, operators, topologies, the group
//     runner, barrier cuts.
//   - columnar/kafka: the franz-go adapter for columnar.
//   - columnarschema: registry schemas straight into Arrow columns and back.
//   - coordination: leader election over producer epochs.
//   - krabkatest: test doubles and conformance suites.
package krabkastreams
