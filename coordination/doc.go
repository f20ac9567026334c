// SPDX-License-Identifier: Apache-2.0

// Package coordination elects one leader per role over Kafka producer epochs,
// so that the broker itself rejects the writes of a deposed leader.
package coordination
