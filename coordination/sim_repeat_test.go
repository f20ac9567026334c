// SPDX-License-Identifier: Apache-2.0

//go:build !race

package coordination_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A failed seed can be looked at again: a seed decides on everything but the
// order of goroutines of one process that wake at one instant, which is rare
// and mostly of no consequence. The race detector shuffles those, so this test
// runs without it.
func TestSimulationRepeatsItself(t *testing.T) {
	const seeds = 40
	repeated := 0
	var last string
	for seed := uint64(1); seed <= seeds; seed++ {
		var runs [2][]string
		for i := range runs {
			runs[i] = simulate(t, seed, true).trace
			stop := slices.IndexFunc(runs[i], func(note string) bool { return strings.HasSuffix(note, simStops) })
			runs[i] = runs[i][:stop]
			slices.Sort(runs[i]) // what happens at one instant has no order
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			last = diff
			continue
		}
		repeated++
	}
	if repeated < seeds*3/4 {
		t.Errorf("%d of %d seeds repeat themselves; the last difference (-first +second):\n%s", repeated, seeds, last)
	}
}
