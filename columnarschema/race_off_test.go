// SPDX-License-Identifier: Apache-2.0

//go:build !race

package columnarschema

// allocationFactor is how many times more often a build allocates than one without
// the race detector.
const allocationFactor = 1
