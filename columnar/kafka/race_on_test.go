// SPDX-License-Identifier: Apache-2.0

//go:build race

package kafka_test

// memoryFactor is how many times more memory a process uses with the race
// detector, which keeps shadow memory beside what a program touches.
const memoryFactor = 4
