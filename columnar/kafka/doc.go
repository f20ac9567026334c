// SPDX-License-Identifier: Apache-2.0

// Package kafka adapts the franz-go client to the interfaces of package
// columnar: group members, readers and producers for Apache Kafka.
package kafka
