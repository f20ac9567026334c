// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// Compaction removes a key whose last value is null, and keeps one whose last
// value is empty.
func TestRegistrationsAreRemovedWithNull(t *testing.T) {
	f := newFixture(t, 1000)
	l := f.acquire(t, "node-1")
	f.register(f.at, f.role, member(t, "gone"), 0)
	if err := coordination.Deregister(t.Context(), f.fake, f.role, member(t, "gone"), f.options()...); err != nil {
		t.Fatal(err)
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, record := range f.log[f.at] {
		if !coordination.IsTombstone(record.Value) {
			continue
		}
		removed++
		if record.Value != nil {
			t.Errorf("the record at %d ends with an empty value, want null", record.Offset)
		}
	}
	if removed != 3 { // two registrations and the lease
		t.Errorf("%d tombstones, want 3", removed)
	}
}
