// SPDX-License-Identifier: Apache-2.0

package statefile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/krabka-io/krabka-streams-go/internal/statefile"
	"github.com/krabka-io/krabka-streams-go/internal/statefile/crashfs"
)

// An owner is killed between the write and the sync of a round. The next owner reads
// that round, appends another one, and the power fails: the journal has no gap.
func TestClaimMakesTheRoundsOfADeadOwnerDurable(t *testing.T) {
	for seed := range uint64(20) {
		files := crashfs.New(seed)
		claim := func() (*statefile.Partition, int64) {
			t.Helper()
			partition := statefile.NewPartition(files, "state", 0)
			generation, err := partition.Claim()
			if err != nil {
				t.Fatalf("seed %d: claim: %v", seed, err)
			}
			return partition, generation
		}
		first, generation := claim()
		if err := first.AppendRound(generation, []byte("one")); err != nil {
			t.Fatal(err)
		}
		files.Before = func(op, _ string) error {
			files.Dead = op == "sync"
			return nil
		}
		if err := first.AppendRound(generation, []byte("two")); err == nil {
			t.Fatal("a round was appended by a dead owner")
		}
		files.Before = nil
		files.Restart(false)

		second, generation := claim()
		if err := second.AppendRound(generation, []byte("three")); err != nil {
			t.Fatal(err)
		}
		files.Dead = true
		files.Restart(true)

		third, _ := claim()
		rounds, err := third.Rounds(0)
		if err != nil {
			t.Fatalf("seed %d: rounds: %v", seed, err)
		}
		var got []string
		for _, round := range rounds {
			got = append(got, string(round))
		}
		if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
			t.Errorf("seed %d: rounds mismatch (-want +got):\n%s", seed, diff)
		}
	}
}
