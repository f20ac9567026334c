// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func mustRole(tb testing.TB, name string) Role {
	tb.Helper()
	role, err := NewRole(name)
	if err != nil {
		tb.Fatal(err)
	}
	return role
}

func TestMurmur2(t *testing.T) {
	for text, want := range map[string]int32{
		"": 275646681, "a": -1563381124, "abcd": -1323649548, "kafka": -798503068, "my-key": 1748425209,
		"21": -973932308, "abc": 479470107, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829,
		"controller":                 602211356, "role-a": -192844758, "m19-go": -588911030, "node-1": -1972720102,
	} {
		if got := int32(murmur2(text)); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestRolePartitions(t *testing.T) {
	counts := []int{1, 2, 3, 6, 12, 16, 32, 50, 64, 100}
	for name, want := range map[string][]int{
		"controller":               {0, 0, 2, 2, 8, 12, 28, 6, 28, 56},
		"dispatcher":               {0, 0, 1, 4, 10, 10, 26, 6, 26, 6},
		"role-a":                   {0, 0, 2, 2, 2, 10, 10, 40, 42, 90},
		"role-b":                   {0, 0, 1, 4, 4, 12, 28, 6, 28, 56},
		"compactor":                {0, 0, 1, 4, 4, 4, 4, 8, 4, 8},
		"m19-go":                   {0, 0, 0, 0, 6, 10, 10, 18, 10, 18},
		"node-1":                   {0, 0, 1, 4, 10, 10, 26, 46, 26, 46},
		"r\u00f6le":                {0, 0, 1, 4, 10, 14, 14, 18, 14, 18},
		"\u30ea\u30fc\u30c0\u30fc": {0, 1, 2, 5, 5, 1, 17, 37, 49, 37},
		"scheduler":                {0, 1, 2, 5, 5, 1, 1, 29, 1, 29},
		strings.Repeat("x", 249):   {0, 1, 2, 5, 11, 7, 23, 11, 23, 11},
	} {
		got := make([]int, len(counts))
		for i, count := range counts {
			var err error
			if got[i], err = RolePartition(mustRole(t, name), count); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("RolePartition(%q) mismatch (-want +got):\n%s", name, diff)
		}
	}
	for _, count := range []int{0, -1} {
		if got, err := RolePartition(mustRole(t, "controller"), count); err == nil || got != 0 {
			t.Errorf("RolePartition(controller, %d) = %d, %v, want an error", count, got, err)
		}
	}
}

// The rule equals the key partitioner of a Kafka client for any name.
func TestRolePartitionIsKafkasKeyPartitioner(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic(StateTopic)
	for range 2000 {
		name := make([]byte, 1+random.IntN(MaxRoleLen))
		for i := range name {
			name[i] = byte(' ' + random.IntN(95))
		}
		count := 1 + random.IntN(1000)
		got, err := RolePartition(mustRole(t, string(name)), count)
		if err != nil {
			t.Fatal(err)
		}
		if want := partitioner.Partition(&kgo.Record{Key: name}, count); got != want {
			t.Fatalf("seed %d: RolePartition(%q, %d) = %d, want %d", seed, name, count, got, want)
		}
	}
}
