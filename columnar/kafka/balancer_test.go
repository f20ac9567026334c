// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// planned is the assignment of one member: topic to partitions.
type planned map[string][]int32

// groupMember is a member as it joins: what it reads, what it says to own, and
// since which generation.
type groupMember struct {
	id         string
	topics     []string
	owned      planned
	generation int32
}

func balance(t testing.TB, counts map[string]int32, members ...groupMember) map[string]planned {
	t.Helper()
	balancer := copartitioning()
	var joined []kmsg.JoinGroupResponseMember
	for _, m := range members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = m.id
		member.ProtocolMetadata = balancer.JoinGroupMetadata(m.topics, m.owned, m.generation)
		joined = append(joined, member)
	}
	groupBalancer, topics, err := balancer.MemberBalancer(joined)
	if err != nil {
		t.Fatalf("member balancer: %v", err)
	}
	of := map[string]int32{}
	for topic := range topics {
		of[topic] = counts[topic]
	}
	plan, err := groupBalancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(of)
	if err != nil {
		t.Fatalf("balance: %v", err)
	}
	got := map[string]planned{}
	for _, a := range plan.IntoSyncAssignment() {
		assignment, err := balancer.ParseSyncAssignment(a.MemberAssignment)
		if err != nil {
			t.Fatalf("parse assignment: %v", err)
		}
		got[a.MemberID] = assignment
	}
	return got
}

func TestBalancer(t *testing.T) {
	ab := []string{"a", "b"}
	four := map[string]int32{"a": 4, "b": 4}
	tests := []struct {
		name    string
		counts  map[string]int32
		members []groupMember
		want    map[string]planned
	}{
		{
			name: "one member takes all", counts: four,
			members: []groupMember{{id: "m1", topics: ab}},
			want:    map[string]planned{"m1": {"a": {0, 1, 2, 3}, "b": {0, 1, 2, 3}}},
		},
		{
			name: "numbers nobody has are given contiguously", counts: four,
			members: []groupMember{{id: "m1", topics: ab}, {id: "m2", topics: ab}, {id: "m3", topics: ab}},
			want:    map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {"a": {2}, "b": {2}}, "m3": {"a": {3}, "b": {3}}},
		},
		{
			name: "what moves is withheld until its owner let go", counts: four,
			members: []groupMember{
				{id: "m1", topics: ab, owned: planned{"a": {0, 1, 2, 3}, "b": {0, 1, 2, 3}}, generation: 3},
				{id: "m2", topics: ab},
			},
			want: map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {}},
		},
		{
			name: "what was let go moves", counts: four,
			members: []groupMember{
				{id: "m1", topics: ab, owned: planned{"a": {0, 1}, "b": {0, 1}}, generation: 4},
				{id: "m2", topics: ab, generation: 4},
			},
			want: map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {"a": {2, 3}, "b": {2, 3}}},
		},
		{
			name: "numbers stay where they are", counts: four,
			members: []groupMember{
				{id: "m1", topics: ab, owned: planned{"a": {3}, "b": {3}}, generation: 5},
				{id: "m2", topics: ab, owned: planned{"a": {0, 2}, "b": {0, 2}}, generation: 5},
			},
			want: map[string]planned{"m1": {"a": {1, 3}, "b": {1, 3}}, "m2": {"a": {0, 2}, "b": {0, 2}}},
		},
		{
			name: "a number that is split comes together in two steps", counts: four,
			members: []groupMember{
				{id: "m1", topics: ab, owned: planned{"a": {0, 1, 2}, "b": {0, 1}}, generation: 5},
				{id: "m2", topics: ab, owned: planned{"a": {3}, "b": {2, 3}}, generation: 5},
			},
			want: map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {"a": {3}, "b": {3}}},
		},
		{
			name: "an outdated claim holds nobody up", counts: four,
			members: []groupMember{
				{id: "m1", topics: ab, owned: planned{"a": {0, 1}, "b": {0, 1}}, generation: 9},
				{id: "m2", topics: ab, owned: planned{"a": {0, 1, 2, 3}, "b": {0, 1, 2, 3}}, generation: 5},
			},
			want: map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {"a": {2, 3}, "b": {2, 3}}},
		},
		{
			name: "unequal counts keep numbers together as far as they go", counts: map[string]int32{"a": 2, "b": 4},
			members: []groupMember{{id: "m1", topics: ab}, {id: "m2", topics: ab}},
			want:    map[string]planned{"m1": {"a": {0, 1}, "b": {0, 1}}, "m2": {"b": {2, 3}}},
		},
		{
			name: "a new topic waits for upgraded owners", counts: map[string]int32{"a": 2, "b": 2},
			members: []groupMember{
				{id: "new", topics: ab, owned: planned{"a": {0}}, generation: 2},
				{id: "old", topics: []string{"a"}, owned: planned{"a": {1}}, generation: 2},
			},
			want: map[string]planned{"new": {"a": {0}, "b": {0}}, "old": {"a": {1}}},
		},
		{
			name: "topics that nobody reads together are spread on their own", counts: map[string]int32{"a": 2, "c": 3},
			members: []groupMember{{id: "m1", topics: []string{"a"}}, {id: "m2", topics: []string{"c"}}},
			want:    map[string]planned{"m1": {"a": {0, 1}}, "m2": {"c": {0, 1, 2}}},
		},
		{
			name: "topics without partitions are left out", counts: map[string]int32{"a": 0, "b": 1},
			members: []groupMember{{id: "m1", topics: ab}},
			want:    map[string]planned{"m1": {"b": {0}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, balance(t, tt.counts, tt.members...)); diff != "" {
				t.Errorf("plan mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// Members come and go at random. After each change the group rebalances until
// nothing moves, as the cooperative protocol has it: what leaves a member is
// revoked before the next step.
func TestBalancerSettles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	counts := map[string]int32{"a": 7, "b": 7, "c": 7}
	topics := []string{"a", "b", "c"}
	var members []groupMember
	generation := int32(0)
	for step := range 200 {
		if len(members) == 0 || len(members) < 6 && random.IntN(2) == 0 {
			members = append(members, groupMember{id: fmt.Sprintf("m%03d", step), topics: topics})
		} else {
			i := random.IntN(len(members))
			members = slices.Delete(members, i, i+1)
		}
		if len(members) == 0 {
			continue
		}
		kept := map[string]planned{}
		for round := 0; ; round++ {
			if round == 3 {
				t.Fatalf("step %d: the group does not settle", step)
			}
			generation++
			plan := balance(t, counts, members...)
			owner := map[string]string{}
			for _, m := range members {
				if !slices.Equal(plan[m.id]["a"], plan[m.id]["b"]) || !slices.Equal(plan[m.id]["a"], plan[m.id]["c"]) {
					t.Fatalf("step %d: %s gets %v", step, m.id, plan[m.id])
				}
				for _, p := range plan[m.id]["a"] {
					key := fmt.Sprint(p)
					if owner[key] != "" {
						t.Fatalf("step %d: number %d goes to %s and %s", step, p, owner[key], m.id)
					}
					owner[key] = m.id
					for _, other := range members {
						if other.id != m.id && slices.Contains(other.owned["a"], p) {
							t.Fatalf("step %d: number %d goes to %s before %s let go", step, p, m.id, other.id)
						}
					}
				}
			}
			moved := false
			for i, m := range members {
				if round == 0 {
					kept[m.id] = m.owned
				}
				moved = moved || len(plan[m.id]["a"]) != len(m.owned["a"])
				members[i].owned, members[i].generation = plan[m.id], generation
			}
			if !moved && len(owner) == 7 {
				break
			}
		}
		least, most := 7, 0
		for _, m := range members {
			least, most = min(least, len(m.owned["a"])), max(most, len(m.owned["a"]))
			stayed := 0
			for _, p := range kept[m.id]["a"] {
				if slices.Contains(m.owned["a"], p) {
					stayed++
				}
			}
			if want := min(len(kept[m.id]["a"]), len(m.owned["a"])); stayed < want {
				t.Fatalf("step %d: %s kept %d of its numbers, could have kept %d", step, m.id, stayed, want)
			}
		}
		if most-least > 1 {
			t.Fatalf("step %d: members own between %d and %d numbers", step, least, most)
		}
	}
}
