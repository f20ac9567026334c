// SPDX-License-Identifier: Apache-2.0

package columnarschema

import (
	"math"
	"syscall"
	"testing"
	"time"
)

// pairedRuns is how often a plan runs in one sample, so that a sample is long
// enough for the clock and holds its share of garbage collection.
const pairedRuns = 16

// benchPaired runs a plan and its twin in turns, the twin twinRuns times a sample, and reports how many times the
// plan's CPU time the twin takes. The least of all samples counts, on which other
// processes of the machine have little influence.
func benchPaired(b *testing.B, plan, twin func() error, twinRuns int) {
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	sample := func(i, runs int, f func() error) {
		start := cpuTime(b)
		for range runs {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		least[i] = min(least[i], (cpuTime(b)-start)/time.Duration(runs))
	}
	for b.Loop() {
		sample(0, pairedRuns, plan)
		sample(1, twinRuns, twin)
	}
	b.ReportMetric(float64(least[0])/benchRows, "cpu-ns/record")
	b.ReportMetric(float64(least[1])/float64(least[0]), "times")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
