// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetricsAddUpConcurrently(t *testing.T) {
	metrics := NewMetrics()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				metrics.add(MetricsSnapshot{Batches: 1, InputRecords: 2, OutputRecords: 3, Failures: 4, DeadLetterRecords: 5, ProcessingNanos: 6})
			}
		})
	}
	group.Wait()
	want := MetricsSnapshot{Batches: 800, InputRecords: 1600, OutputRecords: 2400, Failures: 3200, DeadLetterRecords: 4000, ProcessingNanos: 4800}
	if diff := cmp.Diff(want, metrics.Snapshot()); diff != "" {
		t.Errorf("Snapshot mismatch (-want +got):\n%s", diff)
	}
}
