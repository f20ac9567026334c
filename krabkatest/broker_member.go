// SPDX-License-Identifier: Apache-2.0

package krabkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/krabka-io/krabka-streams-go/columnar"
)

// groupConsumer is a consumer in a group.
type groupConsumer struct {
	consumer
	group      *group
	instance   string
	membership *membership // nil before Subscribe
	listener   columnar.RebalanceListener
	pending    func()
	prepare    func()
	disturbed  func() // partitions have left the member, with the mutex of the broker
	metadata   groupMetadata
}

// groupMetadata is what GroupMetadata returns.
type groupMetadata struct {
	member     *membership
	generation int
}

var (
	errNotSubscribed = errors.New("the member is not subscribed")
	errStatic        = errors.New("krabkatest: partitions of a member are assigned by its group; use a reader")
)

// MemberOption configures a member of a group.
type MemberOption func(*groupConsumer)

// InProcess makes a member part of a process, with which it crashes.
func InProcess(process *Process) MemberOption { return func(c *groupConsumer) { c.process = process } }

// WithInstanceID makes a member static: its partitions stay its own when it closes,
// until [Member.Expire], and another member with the same instance id fences it.
func WithInstanceID(id string) MemberOption { return func(c *groupConsumer) { c.instance = id } }

func (b *Broker) newGroupConsumer(name, groupName string, options []MemberOption) *groupConsumer {
	b.clients++
	c := &groupConsumer{consumer: newConsumer(b, name, nil), group: b.group(groupName)}
	for _, option := range options {
		option(c)
	}
	if c.name == "" {
		c.name = fmt.Sprintf("%s %d", groupName, b.clients)
	}
	c.process.atCrash(func() {
		b.lock()
		defer b.unlock()
		if c.membership != nil && !c.fenced {
			c.group.leave(c.membership)
		}
	})
	return c
}

// Subscribe joins the group for topics, once, each of which must exist. The listener
// may be nil.
func (c *groupConsumer) Subscribe(topics []string, listener columnar.RebalanceListener) error {
	return c.call("Subscribe", func() error {
		if c.membership != nil {
			return fmt.Errorf("krabkatest: subscribe of %s: it is subscribed already", c.name)
		}
		for _, topic := range topics {
			if len(c.broker.topics[topic]) == 0 {
				return &columnar.TopicError{Topic: topic, Partition: -1, Cause: errNoPartition}
			}
		}
		if c.prepare != nil {
			c.prepare()
		}
		c.listener = listener
		c.group.join(c, slices.Clone(topics))
		return nil
	})
}

// Assign returns an error: the group assigns a member's partitions.
func (c *groupConsumer) Assign([]columnar.TopicPartition) error { return errStatic }

// Poll returns records by partition, in offset order; see [columnar.Consumer].
// Callbacks of rebalances run inside Poll, on its goroutine.
func (c *groupConsumer) Poll(ctx context.Context, timeout time.Duration) (map[columnar.TopicPartition][]columnar.ConsumedRecord, error) {
	records, err := c.poll(ctx, timeout, c.rebalance)
	c.broker.lock()
	defer c.broker.unlock()
	if c.membership != nil {
		c.metadata = groupMetadata{c.membership, c.membership.generation}
	}
	return records, err
}

// rebalance takes part in what the group has in hand, and runs the callbacks.
func (c *groupConsumer) rebalance() error {
	lost, revoked, err := c.leaving()
	if err != nil {
		return err
	}
	if len(lost) > 0 && c.listener != nil {
		c.listener.OnPartitionsLost(lost)
	}
	if len(revoked) > 0 && c.listener != nil {
		c.listener.OnPartitionsRevoked(revoked)
	}
	if c.process.gone() {
		return ErrCrashed // in a callback
	}
	if assigned := c.arriving(revoked); len(assigned) > 0 && c.listener != nil {
		c.listener.OnPartitionsAssigned(assigned)
	}
	return nil
}

// leaving returns the partitions that the member has to give up. Those that are lost
// have left already.
func (c *groupConsumer) leaving() (lost, revoked []columnar.TopicPartition, err error) {
	c.broker.lock()
	defer c.broker.unlock()
	if err := c.usable(); err != nil {
		return nil, nil, err
	}
	inGroup := slices.Contains(c.group.members, c.membership)
	for _, tp := range slices.SortedFunc(maps.Keys(c.partitions), comparePartitions) {
		switch {
		case !inGroup || c.group.owners[tp] != c.membership:
			lost = append(lost, tp)
		case c.broker.settings.eager && c.membership.generation != c.group.generation, c.group.target(tp) != c.membership:
			revoked = append(revoked, tp)
		}
	}
	if len(lost)+len(revoked) > 0 && c.disturbed != nil {
		c.disturbed()
	}
	c.drop(lost)
	return lost, revoked, nil
}

// drop ends following partitions.
func (c *groupConsumer) drop(partitions []columnar.TopicPartition) {
	for _, tp := range partitions {
		delete(c.partitions, tp)
		if !c.broker.settings.pausesOutlive {
			delete(c.paused, tp)
		}
		delete(c.resumed, tp)
	}
}

// arriving gives revoked partitions up and returns those that are new.
func (c *groupConsumer) arriving(revoked []columnar.TopicPartition) (assigned []columnar.TopicPartition) {
	b, g, m := c.broker, c.group, c.membership
	b.lock()
	defer b.unlock()
	c.drop(revoked)
	for _, tp := range revoked {
		if g.owners[tp] == m {
			delete(g.owners, tp)
		}
	}
	if !slices.Contains(g.members, m) {
		g.join(c, m.topics)
		m = c.membership
	}
	if m.generation != g.generation || len(revoked) > 0 {
		b.change()
	}
	m.generation, m.waited = g.generation, time.Time{}
	if !g.mayAssign() {
		return nil
	}
	for _, topic := range m.topics {
		for partition, log := range b.topics[topic] {
			tp := columnar.TopicPartition{Topic: topic, Partition: partition}
			owner := g.owners[tp]
			if c.partitions[tp] != nil || owner != m && (owner != nil || g.target(tp) != m) || b.unstable(g, tp) {
				continue
			}
			g.owners[tp] = m
			at := &position{next: log.start, stable: -1}
			if committed, ok := g.committed[tp]; ok {
				at.next = committed.offset
			}
			c.partitions[tp] = at
			assigned = append(assigned, tp)
		}
	}
	slices.SortFunc(assigned, comparePartitions)
	return assigned
}

// usable returns an error where the member is not part of its group and will not be.
func (c *groupConsumer) usable() error {
	switch {
	case c.closed:
		return fmt.Errorf("Poll of %s: %w", c.name, ErrClosed)
	case c.fenced:
		return &columnar.FencedError{ID: c.instance, Cause: errInstance}
	case c.membership == nil:
		return fmt.Errorf("krabkatest: poll of %s: %w", c.name, errNotSubscribed)
	}
	return nil
}

// CommitOffsets commits next-record offsets for the group.
func (c *groupConsumer) CommitOffsets(ctx context.Context, offsets map[columnar.TopicPartition]int64) error {
	return c.call("CommitOffsets", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.usable(); err != nil {
			return err
		}
		if err := c.group.accepts(c.membership, c.membership.generation, offsets); err != nil {
			return err
		}
		c.group.commit(plainOffsets(offsets))
		c.broker.change()
		return nil
	})
}

// GroupMetadata identifies the member and the generation of its latest Poll.
func (c *groupConsumer) GroupMetadata() any {
	c.broker.lock()
	defer c.broker.unlock()
	return c.metadata
}

// NotifyRebalance makes the broker call pending when a rebalance begins to wait for
// the next Poll of the member.
func (c *groupConsumer) NotifyRebalance(pending func()) {
	c.broker.lock()
	defer c.broker.unlock()
	c.pending = pending
}

// Committed returns the committed offsets of the group. It waits, within ctx, for
// transactions that move them.
func (c *groupConsumer) Committed(ctx context.Context, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]int64, error) {
	committed, err := c.stable(ctx, "Committed", partitions)
	offsets := map[columnar.TopicPartition]int64{}
	for tp, at := range committed {
		offsets[tp] = at.offset
	}
	return offsets, err
}

// stable returns what the group has committed of partitions, when no transaction is on
// the way to move it.
func (c *groupConsumer) stable(ctx context.Context, method string, partitions []columnar.TopicPartition) (map[columnar.TopicPartition]committedOffset, error) {
	for {
		var (
			committed map[columnar.TopicPartition]committedOffset
			wait      <-chan struct{}
			due       time.Time
		)
		err := c.read(method, func() error {
			wait, due = c.broker.changed, c.broker.due()
			if slices.ContainsFunc(partitions, func(tp columnar.TopicPartition) bool { return c.broker.unstable(c.group, tp) }) {
				return nil
			}
			committed = map[columnar.TopicPartition]committedOffset{}
			for _, tp := range partitions {
				if at, ok := c.group.committed[tp]; ok {
					committed[tp] = at
				}
			}
			return nil
		})
		if err != nil || committed != nil {
			return committed, err
		}
		timer := time.NewTimer(time.Until(due)) // a transaction is open, so something is due
		select {
		case <-wait:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// Close leaves the group, unless the member is static. It calls no listener and
// commits nothing: close the runner first.
func (c *groupConsumer) Close() error {
	c.broker.lock()
	defer c.broker.unlock()
	if !c.process.gone() && !c.closed && !c.fenced && c.membership != nil && c.instance == "" {
		c.group.leave(c.membership)
	}
	c.closed = true
	c.broker.change()
	return nil
}

// Member is a member of a consumer group that produces without transactions: the
// consumer and the producer of a runner that processes each record at least once. It
// has every optional seam of a [columnar.Consumer]. Its methods may be called
// concurrently.
type Member struct {
	*groupConsumer
	producer
}

// NewMember returns a member of group that has not joined it yet.
func (b *Broker) NewMember(group string, options ...MemberOption) *Member {
	b.lock()
	defer b.unlock()
	m := &Member{groupConsumer: b.newGroupConsumer("", group, options)}
	m.producer.client = &m.consumer.client
	return m
}

// Expire throws the member out of its group, as brokers do when no heartbeat comes.
// The member learns of it in its next poll or commit, and its next poll joins again.
// For a static member that is closed it is the end of its session time-out.
func (c *groupConsumer) Expire() {
	c.broker.lock()
	defer c.broker.unlock()
	if c.membership != nil && !c.fenced {
		c.group.leave(c.membership)
	}
}
