// SPDX-License-Identifier: Apache-2.0

//go:build race

package columnarschema

// allocationFactor is how many times more often a race build allocates, because it
// empties pools at random.
const allocationFactor = 4
