// SPDX-License-Identifier: Apache-2.0

// Package columnar processes Kafka records as Arrow record batches: codecs,
// operators, topologies with partition-local state, and a group runner with
// exact barrier cuts.
package columnar
