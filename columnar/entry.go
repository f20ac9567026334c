// SPDX-License-Identifier: Apache-2.0

package columnar

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"
)

// countTimeout bounds how long a runner that joins its group waits for the partition
// counts of its topics.
const countTimeout = 30 * time.Second

// entry is how a runner becomes a member of its group: everything that needs a store
// or a broker before the first round.
type entry struct {
	*ownership
	topics     []string // to subscribe to, until the runner has joined
	subscribed bool
	claimed    io.Closer // the names of the member
}

// join claims the member's names, joins, and checks the partition counts. After an
// error the next call goes on where this one has stopped.
func (e *entry) join(ctx context.Context, listener RebalanceListener) error {
	if e.topics == nil {
		return nil
	}
	if err := e.claimNames(ctx); err != nil {
		return err
	}
	if e.subscriber != nil && !e.subscribed {
		if err := e.subscriber.SubscribeContext(ctx, e.topics, listener); err != nil {
			return err
		}
		e.subscribed = true
	}
	if err := e.learnCounts(ctx); err != nil {
		return err
	}
	e.topics = nil
	return nil
}

// claimNames keeps other processes from going by the names of the member.
func (e *entry) claimNames(ctx context.Context) error {
	member, named := e.consumer.(GroupMember)
	store, ok := e.settings.store.(MemberStore)
	if !named || !ok || e.claimed != nil || !e.shape.stateful {
		return nil
	}
	group, names := member.Membership()
	claimed, err := store.ClaimMember(ctx, group, names)
	if err != nil {
		return err
	}
	e.claimed = claimed
	return nil
}

// learnCounts checks that the topics with state have equal partition counts.
func (e *entry) learnCounts(ctx context.Context) error {
	if e.counter == nil || !e.shape.stateful {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counts, err := e.counter.PartitionCounts(ctx, e.shape.together)
	if err != nil {
		return textPrefix.Wrap(err, "partition counts")
	}
	if !equalCounts(counts) {
		return &terminalError{&PartitionCountError{Counts: counts}}
	}
	e.counts = maps.Clone(counts)
	return nil
}

func equalCounts(counts map[string]int) bool {
	values := slices.Collect(maps.Values(counts))
	return len(values) == 0 || slices.Min(values) == slices.Max(values)
}

// leave gives the member's names free.
func (e *entry) leave() error {
	if e.claimed == nil {
		return nil
	}
	defer func() { e.claimed = nil }()
	return e.claimed.Close()
}
