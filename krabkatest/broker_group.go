// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

var (
	errGeneration = errors.New("ILLEGAL_GENERATION")
	errThrownOut  = errors.New("UNKNOWN_MEMBER_ID: the group has thrown the member out")
	errInstance   = errors.New("FENCED_INSTANCE_ID: another member has joined with the instance id")
)

// group is a consumer group with its coordinator. The mutex of its broker guards it.
type group struct {
	broker     *Broker
	name       string
	generation int           // counts rebalances
	members    []*membership // in the order in which they joined
	joined     int           // counts members, for their names
	owners     map[columnar.TopicPartition]*membership
	committed  map[columnar.TopicPartition]committedOffset
	rewinds    int
}

// membership is the place of a member in its group. That of a static member outlives
// the member.
type membership struct {
	id         string
	instance   string // of a static member
	topics     []string
	generation int       // of the last rebalance that the member took part in
	waited     time.Time // since when a rebalance waits for the member; zero when none does
	consumer   *groupConsumer
}

func (b *Broker) group(name string) *group {
	g := b.groups[name]
	if g == nil {
		g = &group{
			broker: b, name: name,
			owners:    map[columnar.TopicPartition]*membership{},
			committed: map[columnar.TopicPartition]committedOffset{},
		}
		b.groups[name] = g
	}
	return g
}

// Committed returns the offsets that a group has committed.
func (b *Broker) Committed(group string) map[columnar.TopicPartition]int64 {
	b.lock()
	defer b.unlock()
	offsets := map[columnar.TopicPartition]int64{}
	for tp, committed := range b.group(group).committed {
		offsets[tp] = committed.offset
	}
	return offsets
}

// Rewinds returns how often a group has committed an offset below the one before.
func (b *Broker) Rewinds(group string) int {
	b.lock()
	defer b.unlock()
	return b.group(group).rewinds
}

// DeleteGroup deletes the offsets that a group has committed.
func (b *Broker) DeleteGroup(group string) {
	b.lock()
	defer b.unlock()
	clear(b.group(group).committed)
}

// CommitOffsets commits offsets of a group as an administrator does, while nobody
// asks for the generation.
func (b *Broker) CommitOffsets(group string, offsets map[columnar.TopicPartition]int64) {
	b.lock()
	defer b.unlock()
	b.group(group).commit(plainOffsets(offsets))
	b.change()
}

// Unread returns how many records of a topic a read-committed member of a group has
// still to commit.
func (b *Broker) Unread(group, topic string) int {
	b.lock()
	defer b.unlock()
	g, unread := b.group(group), 0
	for partition, log := range b.topics[topic] {
		tp := columnar.TopicPartition{Topic: topic, Partition: partition}
		for offset := max(g.committed[tp].offset, log.start); offset < log.end(); offset++ {
			if log.entries[offset].visible() {
				unread++
			}
		}
	}
	return unread
}

func plainOffsets(offsets map[columnar.TopicPartition]int64) map[columnar.TopicPartition]committedOffset {
	plain := make(map[columnar.TopicPartition]committedOffset, len(offsets))
	for tp, offset := range offsets {
		plain[tp] = committedOffset{offset: offset}
	}
	return plain
}

func (g *group) commit(offsets map[columnar.TopicPartition]committedOffset) {
	for tp, offset := range offsets {
		if offset.offset < g.committed[tp].offset {
			g.rewinds++
		}
		g.committed[tp] = offset
	}
}

// join adds a member. A static member takes the place of the one with its instance
// id, which is fenced, and no rebalance follows.
func (g *group) join(c *groupConsumer, topics []string) {
	at := slices.IndexFunc(g.members, func(m *membership) bool { return c.instance != "" && m.instance == c.instance })
	if at >= 0 {
		m := g.members[at]
		m.consumer.fenced = true
		m.consumer, m.topics = c, topics
		c.membership = m
		g.broker.change()
		return
	}
	g.joined++
	c.membership = &membership{
		id: fmt.Sprintf("%s-%d", g.name, g.joined), instance: c.instance, topics: topics, consumer: c, generation: -1,
	}
	g.members = append(g.members, c.membership)
	g.rebalance()
}

// leave removes a member, with everything that it owns.
func (g *group) leave(m *membership) {
	before := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(other *membership) bool { return other == m })
	maps.DeleteFunc(g.owners, func(_ columnar.TopicPartition, owner *membership) bool { return owner == m })
	if len(g.members) < before {
		g.rebalance()
	}
}

// rebalance makes each member look again at what it should own, in its next poll.
func (g *group) rebalance() {
	g.generation++
	now := time.Now()
	for _, m := range g.members {
		if m.waited.IsZero() {
			m.waited = now
		}
		if pending := m.consumer.pending; pending != nil {
			g.broker.calls = append(g.broker.calls, pending)
		}
	}
	g.broker.change()
}

// holdsUp reports whether the rebalance of the group waits for a member: somebody
// else is to get what the member owns or, where rebalances are eager, anything.
func (g *group) holdsUp(m *membership) bool {
	if m.generation == g.generation {
		return false
	}
	if g.broker.settings.eager {
		return len(g.members) > 1
	}
	for tp, owner := range g.owners {
		if owner == m && g.target(tp) != m {
			return true
		}
	}
	return false
}

// patience returns when the group gives the first member up; the zero time for
// never.
func (g *group) patience() time.Time {
	var next time.Time
	for _, m := range g.members {
		if m.waited.IsZero() || !g.holdsUp(m) {
			continue
		}
		if at := m.waited.Add(g.broker.settings.rebalanceTimeout); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// expireLate throws out the members that a rebalance has waited for long enough.
func (g *group) expireLate(now time.Time) {
	for _, m := range slices.Clone(g.members) {
		if !m.waited.IsZero() && g.holdsUp(m) && now.Sub(m.waited) >= g.broker.settings.rebalanceTimeout {
			g.leave(m)
		}
	}
}

// target returns who should own a partition: partitions of the same number of all
// topics go to one member.
func (g *group) target(tp columnar.TopicPartition) *membership {
	var candidates []*membership
	for _, m := range g.members {
		if slices.Contains(m.topics, tp.Topic) {
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 0 || tp.Partition >= len(g.broker.topics[tp.Topic]) {
		return nil
	}
	return candidates[tp.Partition%len(candidates)]
}

// mayAssign reports whether partitions that nobody owns may go to a member: where
// rebalances are eager, when every member has given up what it had.
func (g *group) mayAssign() bool {
	return !g.broker.settings.eager || !slices.ContainsFunc(g.members, func(m *membership) bool { return m.generation != g.generation })
}

// accepts returns an error unless a member of a generation may commit offsets.
func (g *group) accepts(m *membership, generation int, offsets map[columnar.TopicPartition]int64) error {
	if !slices.Contains(g.members, m) {
		return &columnar.RebalancedError{Group: g.name, Cause: errThrownOut}
	}
	if m.generation != generation {
		return &columnar.RebalancedError{Group: g.name, Cause: errGeneration}
	}
	for tp := range offsets {
		if g.owners[tp] != m {
			return &columnar.RebalancedError{Group: g.name, Cause: fmt.Errorf("%s/%d is not assigned", tp.Topic, tp.Partition)}
		}
	}
	return nil
}
