// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// copartitioned is the balancer of a group of members. It hands out partition
// numbers, not partitions: a number goes to one member with the partitions of
// that number of all topics that the member subscribes to, so that records of
// one key meet in one process and the state of a number has one owner.
//
// Numbers are spread evenly, stay where they are as far as that allows, and are
// given contiguously when nobody has them. The protocol is cooperative: a
// number that moves is first taken from its owner with all its partitions, then
// given with all of them, and every other number is processed meanwhile.
//
// Members may subscribe to different topics while an application is upgraded
// member by member. Topics that any member subscribes to together are shared
// out as one; the partition of a topic that the owner of its number does not
// subscribe to waits until the number belongs to a member that does.
type copartitioned struct {
	kgo.GroupBalancer // metadata and assignments travel as the client's own cooperative balancer sends them
}

func copartitioning() kgo.GroupBalancer {
	return copartitioned{kgo.CooperativeStickyBalancer()}
}

// ProtocolName names the protocol that all members of a group must share.
func (copartitioned) ProtocolName() string { return "krabka-copartitioned" }

// MemberBalancer reads what the members of a group subscribe to and own.
func (b copartitioned) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	balancer, err := kgo.NewConsumerBalancer(b, members)
	return balancer, balancer.MemberTopics(), err
}

// Balance plans the assignment of all topics.
func (copartitioned) Balance(b *kgo.ConsumerBalancer, counts map[string]int32) kgo.IntoSyncAssignment {
	members := balanceMembers(b)
	claims := newestClaims(members)
	plan := b.NewPlan()
	loads := make([]int, len(members))
	for _, topics := range connectedTopics(members, counts) {
		owners := spread(topics, counts, members, claims, loads)
		for number, owner := range owners {
			if owner < 0 || mustWait(topics, counts, int32(number), owner, members, claims) {
				continue
			}
			m := members[owner]
			for _, topic := range topics {
				if int32(number) < counts[topic] && m.topics[topic] {
					plan.AddPartition(m.member, topic, int32(number))
				}
			}
		}
	}
	return plan
}

// balanceMember is a member with its subscription and what it says it owns.
type balanceMember struct {
	member     *kmsg.JoinGroupResponseMember
	topics     map[string]bool
	owned      map[string]map[int32]bool
	generation int32
}

func balanceMembers(b *kgo.ConsumerBalancer) []balanceMember {
	var members []balanceMember
	b.EachMember(func(member *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		m := balanceMember{member: member, topics: map[string]bool{}, owned: map[string]map[int32]bool{}, generation: meta.Generation}
		for _, topic := range meta.Topics {
			m.topics[topic] = true
		}
		for _, owned := range meta.OwnedPartitions {
			if m.owned[owned.Topic] == nil {
				m.owned[owned.Topic] = map[int32]bool{}
			}
			for _, p := range owned.Partitions {
				m.owned[owned.Topic][p] = true
			}
		}
		members = append(members, m)
	})
	return members
}

// claims holds, for each partition, the newest generation in which a member says
// to own it.
type claims map[string]map[int32]int32

// newestClaims finds, for each partition, the generation of the newest claim. A
// member that missed rebalances still claims what was given away since.
func newestClaims(members []balanceMember) claims {
	newest := claims{}
	for _, m := range members {
		for topic, partitions := range m.owned {
			if newest[topic] == nil {
				newest[topic] = map[int32]int32{}
			}
			for p := range partitions {
				if generation, ok := newest[topic][p]; !ok || m.generation > generation {
					newest[topic][p] = m.generation
				}
			}
		}
	}
	return newest
}

// owns reports whether m owns a partition by a claim that nobody outdates.
func (c claims) owns(m *balanceMember, topic string, partition int32) bool {
	return m.owned[topic][partition] && m.generation >= c[topic][partition]
}

// connectedTopics groups topics that some member reads together, directly or by
// way of other topics. Groups and topics in them are sorted.
func connectedTopics(members []balanceMember, counts map[string]int32) [][]string {
	group := map[string]string{} // topic to the topic that stands for its group
	var find func(string) string
	find = func(topic string) string {
		if group[topic] != topic {
			group[topic] = find(group[topic])
		}
		return group[topic]
	}
	for topic, count := range counts {
		if count > 0 {
			group[topic] = topic
		}
	}
	for _, m := range members {
		first := ""
		for _, topic := range slices.Sorted(maps.Keys(m.topics)) {
			if _, ok := group[topic]; !ok {
				continue
			}
			if first == "" {
				first = topic
			}
			group[find(topic)] = find(first)
		}
	}
	byGroup := map[string][]string{}
	for _, topic := range slices.Sorted(maps.Keys(group)) {
		root := find(topic)
		byGroup[root] = append(byGroup[root], topic)
	}
	return slices.SortedFunc(maps.Values(byGroup), func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
}

// spread gives each number of topics an owner, by index into members. loads
// counts what each member was given so far, over all groups of topics.
func spread(topics []string, counts map[string]int32, members []balanceMember, claims claims, loads []int) []int {
	numbers := int32(0)
	for _, topic := range topics {
		numbers = max(numbers, counts[topic])
	}
	owners := make([]int, numbers)
	held := make([][]int, len(members))
	for number := range owners {
		owners[number] = -1
		if owner := currentOwner(topics, int32(number), members, claims); owner >= 0 {
			held[owner] = append(held[owner], number)
		}
	}
	var eligible []int
	for i, m := range members {
		if slices.ContainsFunc(topics, func(topic string) bool { return m.topics[topic] }) {
			eligible = append(eligible, i)
		}
	}
	if len(eligible) == 0 {
		return owners
	}
	// Who holds most keeps the larger share, who has least otherwise gets it.
	slices.SortStableFunc(eligible, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(held[b]), len(held[a])), cmp.Compare(loads[a], loads[b]))
	})
	quota := make([]int, len(members))
	share, extra := int(numbers)/len(eligible), int(numbers)%len(eligible)
	for rank, i := range eligible {
		quota[i] = share
		if rank < extra {
			quota[i]++
		}
	}
	for _, i := range eligible {
		for _, number := range held[i][:min(len(held[i]), quota[i])] {
			owners[number] = i
			quota[i]--
			loads[i]++
		}
	}
	slices.Sort(eligible)
	for number := range owners {
		if owners[number] >= 0 {
			continue
		}
		for _, i := range eligible {
			if quota[i] > 0 {
				owners[number] = i
				quota[i]--
				loads[i]++
				break
			}
		}
	}
	return owners
}

// currentOwner returns the member that owns most partitions of a number, or -1.
func currentOwner(topics []string, number int32, members []balanceMember, claims claims) int {
	owner, most := -1, 0
	for i := range members {
		n := 0
		for _, topic := range topics {
			if members[i].topics[topic] && claims.owns(&members[i], topic, number) {
				n++
			}
		}
		if n > most {
			owner, most = i, n
		}
	}
	return owner
}

// mustWait reports whether a number cannot be given to its owner yet because
// another member has not let go of one of its partitions.
func mustWait(topics []string, counts map[string]int32, number int32, owner int, members []balanceMember, claims claims) bool {
	for _, topic := range topics {
		if number >= counts[topic] || !members[owner].topics[topic] || claims.owns(&members[owner], topic, number) {
			continue
		}
		for i := range members {
			if i != owner && members[i].owned[topic][number] {
				return true
			}
		}
	}
	return false
}
