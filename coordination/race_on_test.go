// SPDX-License-Identifier: Apache-2.0

//go:build race

package coordination_test

// raceEnabled reports whether the race detector slows the tests down, so that
// the exhaustive ones shrink.
const raceEnabled = true
