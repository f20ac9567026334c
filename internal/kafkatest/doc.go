// SPDX-License-Identifier: Apache-2.0

// Package kafkatest runs a real Apache Kafka broker and a real schema registry
// for the integration tests. Both are plain Java programs, which Maven fetches
// into the folder build; nothing else is needed but a Java runtime.
//
// Integration tests have the build tag integration and find their services in
// the environment, which the command withkafka of this package prepares:
//
//	KAFKA_BROKERS        addresses of the shared broker, separated by commas
//	KAFKA_SASL_BROKERS   its listener for SCRAM-SHA-256 over plaintext
//	KAFKA_SASL_USER      a user of that listener
//	KAFKA_SASL_PASSWORD  the user's password
//	SCHEMA_REGISTRY_URL  address of a Confluent-compatible registry
//	KAFKA_LIB            folder with Kafka's jar files
//
// A test whose service is not there fails. It shares the services with other
// tests, so it uses names of its own for topics, groups, transactional ids and
// subjects. A test that crashes its broker starts one with [Start].
//
// Tests that need several processes but no real broker turn their own binary
// into other programs with [Programs], and a fake broker among them with
// [StartFake].
package kafkatest
