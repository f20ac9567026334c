// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/krabka-io/krabka-streams-go/coordination"
)

// grow adds partitions to a topic.
func (s *stage) grow(t *testing.T, topic string, partitions int) {
	t.Helper()
	client := s.client(t)
	defer client.Close()
	if _, err := kadm.NewClient(client).UpdatePartitions(t.Context(), partitions, topic); err != nil {
		t.Fatal(err)
	}
}

// A topic that grows moves roles to other partitions for members that count
// anew. None of them deposes the holder, whose lease is in the old partition,
// and none that counts as before takes the role after it.
func TestTopicThatGrowsUnderLivingMembersDeposesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic, r := s.compacted(t, 6), role(t, "controller") // in partition 2 of 6 and in 8 of 12
		var requests wire
		member := func(name string, partitions int) (*contender, func(context.Context) error) {
			c := newContender(t, s, r, name, topic, reporting(&requests))
			return c, func(ctx context.Context) error {
				return c.acquireAndResign(ctx, t, coordination.WithPartitions(partitions))
			}
		}
		holder, _ := member("node-1", 6)
		l, err := holder.acquire(t.Context(), t, coordination.WithPartitions(6))
		if err != nil {
			t.Fatal(err)
		}
		standby, wait := member("node-2", 6)
		waited := make(chan error, 1)
		go func() { waited <- wait(t.Context()) }()
		time.Sleep(25 * time.Second)
		s.grow(t, topic, 12)

		refusedFor := func(what string, err error, have, want string) {
			t.Helper()
			var config *coordination.TopicConfigError
			if !errors.As(err, &config) || config.Setting != "partitions" || config.Have != have || want != "" && config.Want != want {
				t.Errorf("%s: %v, want the partition counts refused", what, err)
			}
		}
		late, start := member("node-3", 12)
		refusedFor("a member that counts anew", start(t.Context()), "12", "")
		again, restart := member("node-4", 6)
		refusedFor("a member that counts as before", restart(t.Context()), "12", "6")
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil || requests.of(kmsg.InitProducerID) != 1 {
			t.Errorf("Err %v after %d mints, want the holder left alone", err, requests.of(kmsg.InitProducerID))
		}
		holder.network.cut()
		refusedFor("the standby at the end of the lease", <-waited, "12", "6")
		refusedFor("a member that counts anew, without a holder", start(t.Context()), "12", "")
		if mints := requests.of(kmsg.InitProducerID); mints != 1 {
			t.Errorf("%d mints, want the one of the holder", mints)
		}
		<-l.Done()
		s.stop(holder.transport, standby.transport, late.transport, again.transport)
	})
}

// A role that nobody took has no place to come from.
func TestTopicThatGrowsTakesNewRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := virtualStage(t)
		topic := s.compacted(t, 6)
		s.grow(t, topic, 12)
		c := newContender(t, s, role(t, "controller"), "node-1", topic)
		for range 2 {
			if err := c.acquireAndResign(t.Context(), t, coordination.WithPartitions(12)); err != nil {
				t.Error(err)
			}
		}
		s.stop(c.transport)
	})
}

// acquireAndResign holds the role for a moment.
func (c *contender) acquireAndResign(ctx context.Context, t *testing.T, options ...coordination.Option) error {
	l, err := c.acquire(ctx, t, options...)
	if err == nil {
		err = l.Resign(ctx)
	}
	return err
}
