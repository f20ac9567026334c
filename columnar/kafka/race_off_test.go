// SPDX-License-Identifier: Apache-2.0

//go:build !race

package kafka_test

// memoryFactor is how many times more memory a process uses than without the race
// detector.
const memoryFactor = 1
